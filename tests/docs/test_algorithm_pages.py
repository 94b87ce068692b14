"""Every algorithm has a page with its Config, its module, readable equations and the generated parts."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from rlzoo.config import catalog
from rlzoo.params.search_parameters import Parameter
from tests.docs.snippets import ROOT

PAGES = ROOT / "docs" / "algorithms"
MATHS = re.compile(r"(?s)\$\$\n(.*?)\n\$\$|(?<![\\$`])\$([^$\n]+(?:\n[^$\n]+)?)\$")
SECTIONS = (
    "When to use it",
    "What it supports",
    "Equations",
    "Example",
    "Hyperparameters",
    "Results",
    "Citation",
)


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))


def text_of(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_each_algorithm_has_a_page_and_each_page_an_algorithm() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted([*catalog.names(), "index"])
    index = text_of("index")
    assert [name for name in catalog.names() if f"\n{name}\n" not in index] == []


@pytest.mark.parametrize("name", catalog.names())
def test_page_has_all_sections_and_generated_parts(name: str) -> None:
    text = text_of(name)
    titles = re.findall(r"(?m)^## (.+)$", text)
    assert [title for title in SECTIONS if title not in titles] == []
    for directive in ("spaces", "hyperparameters", "results"):
        assert f"```{{{directive}}} {name}\n" in text
    for other in re.findall(r"```\{(?:spaces|hyperparameters|results|curves)\} (\w+)", text):
        assert other == name


@pytest.mark.parametrize("name", catalog.names())
def test_page_names_config_class_and_module(name: str) -> None:
    import algorithm_facts

    shown = algorithm_facts.spaces(name)
    assert f"`{algorithm_facts.source_of(name)}`" in shown
    assert (ROOT / algorithm_facts.source_of(name)).is_file()
    config = algorithm_facts.config_of(name)
    assert f"`{config.__name__}`" in shown if config else re.search(r"`\w+Config`", text_of(name))


@pytest.mark.parametrize("name", catalog.names())
def test_page_shows_every_hyperparameter(name: str) -> None:
    import algorithm_facts

    from rlzoo.algorithms.hyperparameters import field_names

    shown = algorithm_facts.hyperparameters(name)
    config = algorithm_facts.config_of(name)
    searched = getattr(catalog.load(name), "search_space", {})
    for key in [*(field_names(config) if config else ()), *searched]:
        assert f"| `{key}` |" in shown


@pytest.mark.parametrize("name", catalog.names())
def test_page_shows_scores_and_shipped_agents(name: str) -> None:
    import algorithm_scores

    shown = algorithm_scores.results(name)
    for row in algorithm_scores.rows_of(name):
        assert f"| {row.row.env}" in shown
    for agent in algorithm_scores.agents_of(name):
        assert f"rlzoo train --algo {name} --env {agent.env_id}" in shown and agent.summary() in shown
    assert algorithm_scores.agents_of(name) or "No agent of this algorithm is published." in shown


@pytest.mark.parametrize("name", catalog.names())
def test_equations_of_page_become_mathml(name: str) -> None:
    latex2mathml = pytest.importorskip("latex2mathml.converter")
    text = re.sub(r"(?s)```.*?```", "", text_of(name))
    found = [block or inline for block, inline in MATHS.findall(text)]
    assert found or name in ("ppo1", "ppo2")
    for maths in found:
        written = latex2mathml.convert(maths)
        root = ElementTree.fromstring(written)  # a stray & of LaTeX would be no XML
        assert "\\" not in "".join(root.itertext()), maths
        assert not [
            element for element in root.iter() if element.tag.endswith("}mo") and element.text is None
        ]


def test_departures_come_from_docstrings() -> None:
    import algorithm_facts

    used = [
        (path.stem, found)
        for path in PAGES.glob("*.md")
        for found in re.findall(r"\{departures\} (\w+)", path.read_text())
    ]
    assert len(used) > 10
    for page, name in used:
        assert len(algorithm_facts.departures(name)) > 10, page


def test_every_kind_of_search_parameter_has_words() -> None:
    import search_ranges

    classes = {type(parameter) for name in catalog.names() for parameter in _parameters(name)}
    assert all(
        search_ranges.in_words.dispatch(cls) is not search_ranges.in_words.dispatch(Parameter)
        for cls in classes
    )


def _parameters(name: str) -> list[Parameter]:
    return list(getattr(catalog.load(name), "search_space", {}).values())


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_functions_that_page_names_exist(path: Path) -> None:
    pytest.importorskip("sphinx")
    import source_links

    for name, definition in re.findall(r"\{source\}`([\w/.]+)(?:::([\w.]+))?`", path.read_text()):
        assert (ROOT / name).exists()
        assert not definition or source_links.line_of(ROOT / name, definition)
    sys.modules.pop("source_links", None)
