"""Pages of the documentation: complete, spelt right, in the field's words, with links that lead somewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from codespell_lib import main as codespell

import rlzoo
from rlzoo.cli.main import COMMANDS, build, load_command
from rlzoo.config.hyperparams import ZOO_KEYS
from rlzoo.params.shared import FILE_KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SKIPPED = {".venv", "_build", "node_modules", ".git", "logs", ".pytest_cache"}

FORBIDDEN = {
    r"remembers? (observations|transitions|experience)": "stores",
    r"follows? (it )?slowly|slowly following": "target network",
    r"worked off|works? off": "run",
    r"no longer numbers": "NaN or infinite",
    r"whole numbers?": "integer",
    r"the older zoo|the leader\b": "name it: RL Baselines Zoo, stable-baselines3",
    r"blazing(ly)?|lightning[- ]fast|state[- ]of[- ]the[- ]art|world[- ]class|seamless(ly)?|effortless(ly)?":
        "a figure, and the command that measures it",
    r"cutting[- ]edge|game[- ]chang\w+|battle[- ]tested|best[- ]in[- ]class|supercharge\w*": "a figure",
    r"/(home|root|Users)/\w\S*": "no path of somebody's machine",
    r"(?<!!)\[\]\(": "a link with a text: only Sphinx fills in the title",
}  # fmt: skip
"""Patterns that no page may contain -> what to write instead."""


def markdown_files() -> list[Path]:
    """Return the Markdown files of the repository that people read."""
    return sorted(path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts))


def prose(text: str) -> str:
    """Return a page without its code blocks; lines keep their numbers."""
    return re.sub(r"(?ms)^( *)(`{3,}|~{3,}).*?^ *\2`*$", lambda block: "\n" * block[0].count("\n"), text)


def forbidden_words(text: str) -> Iterator[str]:
    for number, line in enumerate(prose(text).splitlines(), 1):
        for pattern, better in FORBIDDEN.items():
            if match := re.search(pattern, line, re.IGNORECASE):
                yield f"{number}: {match[0]!r}; write: {better}"


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Yield the relative links of a page that lead to no file."""
    for target in re.findall(r"\]\(\s*<?([^)\s>]+)", re.sub(r"`[^`\n]*`", "``", prose(text))):
        path = target.partition("#")[0]
        if not path or re.match(r"[a-z]+:", target):
            continue
        if not (page.parent / path).exists():
            yield target


@pytest.mark.parametrize("check", [forbidden_words, None], ids=["words", "links"])
def test_markdown_files_are_in_order(check) -> None:
    complaints = []
    for page in markdown_files():
        text = page.read_text(encoding="utf-8")
        found = broken_links(page, text) if check is None else check(text)
        complaints += [f"{page.relative_to(ROOT)}: {complaint}" for complaint in found]
    assert not complaints, "\n".join(["", *complaints])


def test_mistakes_in_markdown_are_seen(tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    text = "[a](there.md#part) [b](gone.md) <https://x.org> [c](https://x.org)\n```\n[d](no.md)\n```\n"
    assert list(broken_links(tmp_path / "page.md", text)) == ["gone.md"]
    assert (
        len(list(forbidden_words("Blazingly fast\n`a whole number` [](a.md)\n```\nthe older zoo\n```"))) == 3
    )


def test_documentation_has_no_spelling_mistakes(capfd) -> None:
    files = [str(path) for path in markdown_files()]
    sources = [str(path) for path in sorted((ROOT / "rlzoo").rglob("*.py"))]
    words = str(Path(__file__).with_name("words.txt"))
    mistakes = codespell("--quiet-level", "2", "--ignore-words", words, *files, *sources)
    assert mistakes == 0, capfd.readouterr().out


def test_ignored_words_are_used() -> None:
    words = Path(__file__).with_name("words.txt").read_text().split()
    texts = [path.read_text(encoding="utf-8").lower() for path in markdown_files()]
    texts += [path.read_text(encoding="utf-8").lower() for path in (ROOT / "rlzoo").rglob("*.py")]
    unused = [word for word in words if not any(re.search(rf"\b{word}\b", text) for text in texts)]
    assert not unused


def test_every_public_name_has_a_description() -> None:
    pages = [path.read_text() for path in (REFERENCE / "python_api").glob("*.md")]
    blocks = re.findall(r"(?ms)^```\{api\}\n(.*?)^```$", "\n".join(pages))
    names = [line.partition(":")[0].strip() for block in blocks for line in block.splitlines()]
    assert set(names) == set(rlzoo.__all__) - {"__version__"}
    assert len(names) == len(set(names)), "a name is described twice"


def test_every_command_has_a_section() -> None:
    page = (REFERENCE / "command_line.md").read_text()
    assert set(re.findall(r"(?m)^```\{command-help\} (.+)$", page)) == set(COMMANDS)
    assert set(re.findall(r"(?m)^### rlzoo (.+)$", page)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_a_help_text(name: str) -> None:
    parser = build(name, load_command(name))
    assert not [action.dest for action in parser._actions if not action.help]


def test_every_key_of_hyperparameter_files_has_a_description() -> None:
    assert set(ZOO_KEYS) <= set(FILE_KEYS)


def test_environment_variables_are_documented() -> None:
    """The package reads no variable that the page does not list, but those between its own processes."""
    page = (REFERENCE / "command_line.md").read_text()
    internal = {"RLZOO_STORAGE", "RLZOO_COMPAT", "RLZOO_COMPAT_SCRIPT", "RLZOO_COMPAT_PACKAGE"}
    internal |= {"RLZOO_RENDEZVOUS"}
    grep = ["grep", "-rhoE", "--include=*.py", r"\bRLZOO_[A-Z_]+", str(ROOT / "rlzoo")]
    used = set(subprocess.run(grep, capture_output=True, text=True, check=True).stdout.split())
    assert used - internal == set(re.findall(r"`(RLZOO_\w+)`", page))
