"""Configuration of the documentation site: `make docs` builds docs/_build/html.

Every module of docs/_ext with a function `setup` is an extension. Environment variables:

    DOCS_NOTEBOOKS=off    do not execute the notebooks of docs/course
    DOCS_REPOSITORY=URL   page of the repository; source links then go there instead of to pages of the site
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext"), str(DOCS.parent / "scripts")]

import rlzoo  # noqa: E402

project = "rlzoo"
author = "The rlzoo authors"
copyright = author
version = release = rlzoo.__version__
language = "en"

_OWN = sorted(path.stem for path in (DOCS / "_ext").glob("*.py") if "\ndef setup(" in path.read_text())
extensions = ["myst_nb", "sphinx_copybutton", *_OWN]
exclude_patterns = ["_build", "_ext", "**/.ipynb_checkpoints"]
needs_sphinx = "8.0"
nitpicky = True
smartquotes = False  # it makes one dash of the two in flags

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4

# A notebook that is unchanged since its last build is not executed again.
nb_execution_mode = "off" if os.environ.get("DOCS_NOTEBOOKS") == "off" else "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_show_tb = True
nb_merge_streams = True

html_theme = "furo"
html_title = "rlzoo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it reads pages with fetch, which browsers refuse for files
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
copybutton_exclude = ".linenos, .gp, .go"

# On Read the Docs and on GitHub the repository is known, and source links go to its page.
repository = os.environ.get("DOCS_REPOSITORY") or os.environ.get("READTHEDOCS_GIT_CLONE_URL", "")
repository = repository.removesuffix(".git") if repository.startswith("https://") else ""

# Annotations name types of other packages, which this site does not describe.
nitpick_ignore_regex = [(r"py:.*", r".*")]
python_maximum_signature_line_length = 70
toc_object_entries = False  # each page has the whole table of contents
add_module_names = False
