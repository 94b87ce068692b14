"""Every file of measured results has a page, and every page of results names its command."""

from __future__ import annotations

import re

from tests.docs.snippets import ROOT

PAGES = ROOT / "docs" / "results"


def included() -> dict[str, str]:
    """Included file -> page."""
    found = {}
    for path in PAGES.glob("*.md"):
        for name in re.findall(r"```\{include\} (\S+)", path.read_text(encoding="utf-8")):
            found[(path.parent / name).resolve().relative_to(ROOT).as_posix()] = path.stem
    return found


def test_each_file_of_results_has_a_page() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "scripts").glob("*_results.md")}
    assert files | {"docs/results/scores.txt"} == set(included())


def test_each_file_of_results_names_its_command() -> None:
    for name in included():
        if name.endswith(".md"):
            text = (ROOT / name).read_text(encoding="utf-8")
            assert re.search(r"(?m)^    (python scripts/|rlzoo )|`python scripts/", text), name


def test_index_lists_every_page_with_its_command() -> None:
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in PAGES.glob("*.md")} - {"index.md"}
    assert pages == set(re.findall(r"(?m)^\| \[[^]]+\]\((\w+\.md)\) \|", index))
    for script in re.findall(r"`python (scripts/\w+\.py)`", index):
        assert (ROOT / script).is_file()
