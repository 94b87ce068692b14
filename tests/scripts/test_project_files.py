"""Files around the package agree with it: citation, templates of issues, the picture of the architecture."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rlzoo

ROOT = Path(__file__).parents[2]
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def test_citation_names_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == rlzoo.__version__
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def test_changelog_begins_with_the_version_of_the_package() -> None:
    versions = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert versions[0] == rlzoo.__version__


def test_picture_of_the_architecture_is_current() -> None:
    script = ROOT / "scripts" / "draw_architecture.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_issue_form_is_complete(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    assert content["name"] and content["description"] and content["body"]
    for part in content["body"]:
        assert part["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert part["attributes"].get("label") or part["attributes"].get("value")


def test_guide_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text) + re.findall(r"`(tests/[\w./]+\.py)`", text)
    assert len(named) > 8
    assert not [name for name in named if not (ROOT / name).exists()]
