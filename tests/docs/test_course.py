"""The notebooks of docs/course are valid, hold no output, and compile; `make docs` executes them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_course_has_six_notebooks_in_its_index() -> None:
    assert len(NOTEBOOKS) == 6
    index = (COURSE / "index.md").read_text()
    listed = re.findall(r"(?m)^(\d\d_\w+)$", index)
    assert listed == [path.stem for path in NOTEBOOKS]
    assert all(f"({path.name})" in index for path in NOTEBOOKS)


def test_page_shows_every_example() -> None:
    shown = re.findall(
        r"\{literalinclude\} \.\./\.\./examples/(\w+)\.py", (COURSE / "examples.md").read_text()
    )
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_valid_and_holds_no_output(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None and not cell["metadata"]
        ast.parse(source(cell))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_prose_with_exercises_and_solutions(path: Path) -> None:
    text = "\n".join(map(source, cells(path, "markdown")))
    headings = re.findall(r"(?m)^(#+) (.+)$", text)
    assert [level for level, _ in headings].count("#") == 1
    assert [title for _, title in headings if title in ("Exercises", "Solutions")] == [
        "Exercises",
        "Solutions",
    ]
    assert any("plt.show()" in source(cell) or "show(" in source(cell) for cell in cells(path, "code"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_and_sources_of_notebook_exist(path: Path) -> None:
    text = "\n".join(map(source, cells(path, "markdown")))
    sources = re.findall(r"(?:`(\w+)` in )?`((?:rlzoo|tests)/[\w/]+\.py)`", text)
    assert sources and "{source}" not in text  # Jupyter shows this role as it is written
    for definition, name in sources:
        assert (ROOT / name).is_file(), name
        if definition:
            assert re.search(rf"(?m)^\s*(def|class) {definition}\b", (ROOT / name).read_text()), definition
    for target in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (path.parent / target).exists(), target
