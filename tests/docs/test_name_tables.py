"""The tables of names for users of other packages: each old name is understood, and each new one exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import rlzoo
from rlzoo.algorithms.hyperparameters import field_names
from rlzoo.cli.flags.parser import flags_of
from rlzoo.cli.main import build, command_of, load_command
from rlzoo.compat import PACKAGES
from rlzoo.config import catalog
from rlzoo.config.hyperparams import ZOO_KEYS
from tests.docs.snippets import ROOT

PAGES = sorted((ROOT / "docs" / "coming_from").glob("*.md"))
IMPORT = re.compile(r"from ([\w.]+) import (.+)")


def cells() -> list[tuple[str, str, str]]:
    """Page, left cell and right cell of each row of a table."""
    rows = [
        (path.stem, *line.strip("| \n").split(" | ")[:2])
        for path in PAGES
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and " | " in line
    ]
    return [(row[0], row[1].strip(), row[2].strip(" |")) for row in rows if len(row) == 3]


def code_of(cell: str) -> str:
    """The code of a cell that is one code span, else an empty string."""
    return cell[1:-1] if cell.count("`") == 2 and cell.startswith("`") and cell.endswith("`") else ""


CELLS = cells()
NEW_IMPORTS = sorted({code_of(new) for _, _, new in CELLS if code_of(new).startswith("from rlzoo")})
COMMANDS = sorted({code_of(new) for _, _, new in CELLS if code_of(new).startswith("rlzoo ")})
OLD_IMPORTS = sorted({code_of(old) for _, old, _ in CELLS if IMPORT.fullmatch(code_of(old))})
OLD_COMMANDS = sorted({code_of(old) for _, old, _ in CELLS if code_of(old).startswith("python -m rl_zoo3.")})
CLEANRL = [(old, new) for page, old, new in CELLS if page == "cleanrl" and "`" in new and "rlzoo " not in new]


def test_tables_are_found() -> None:
    assert len(NEW_IMPORTS) > 30 and len(COMMANDS) > 20 and len(OLD_COMMANDS) > 8 and len(CLEANRL) > 25


@pytest.mark.parametrize("line", NEW_IMPORTS)
def test_new_name_is_public(line: str) -> None:
    match = IMPORT.fullmatch(line)
    assert match and match[1] == "rlzoo"
    assert [name for name in match[2].split(", ") if not hasattr(rlzoo, name)] == []


def test_old_imports_work_with_compat() -> None:
    lines = [line for line in OLD_IMPORTS if line.split()[1].partition(".")[0] in PACKAGES]
    assert len(lines) > 30
    code = "\n".join(["import rlzoo.compat", *lines])
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", COMMANDS)
def test_new_command_can_be_parsed(line: str) -> None:
    name, rest = command_of(shlex.split(line)[1:])
    build(name, load_command(name)).parse_args(rest)


@pytest.mark.parametrize("line", OLD_COMMANDS)
def test_old_command_of_the_zoo_is_understood(line: str) -> None:
    from rlzoo.compat_names import COMMANDS as ZOO_COMMANDS

    words = shlex.split(line)
    module = words[2].rpartition(".")[2]
    arguments = [word.replace(".pkl", ".json") for word in words[3:]]
    name, rest = command_of([*ZOO_COMMANDS[module], *arguments])
    build(name, load_command(name)).parse_args(rest)


def test_flags_of_the_zoo_are_flags_of_train() -> None:
    text = (ROOT / "docs" / "coming_from" / "rl_baselines3_zoo.md").read_text(encoding="utf-8")
    named = re.search(r"(?s)flags of `rlzoo train`: `(.+?)`", text)
    assert named
    flags = named[1].split()
    assert len(flags) > 40
    assert [flag for flag in flags if flag not in flags_of(build("train", load_command("train")))] == []


@pytest.mark.parametrize(("old", "new"), CLEANRL, ids=lambda cell: code_of(cell) or cell)
def test_hyperparameter_for_cleanrl_exists(old: str, new: str) -> None:
    algorithm, key = re.fullmatch(r"(?:(\w+) )?`(\w+)(?:: .+)?`", new).groups()  # type: ignore[union-attr]
    known = field_names(catalog.load(algorithm.lower()).Config) if algorithm else ZOO_KEYS  # type: ignore[attr-defined]
    assert key in known


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_links_to_existing_pages(path: Path) -> None:
    for target in re.findall(r"\]\(([\w./]+\.md)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).is_file(), target
