"""Every code block of the documentation runs, and every example of a docstring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import snippets
from tests.docs.snippets import (
    Block,
    blocks_of,
    commands_of,
    run_doctests,
    run_isolated,
    run_page,
    scaled_down,
)

ROOT = snippets.ROOT
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*/**/*.md")]
    if "_build" not in path.parts and "```" in path.read_text()
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "rlzoo").rglob("*.py")
    if re.search(r"(?m)^\s*>>> ", path.read_text())
)


def parameter(page: Path):
    """Return a page as a test case; most pages take too long for each run of the whole suite."""
    name = page.relative_to(ROOT).as_posix()
    quick = name.startswith(("README", "docs/start"))
    return pytest.param(page, id=name, marks=() if quick else pytest.mark.docs)


@pytest.mark.parametrize("page", map(parameter, PAGES))
def test_code_blocks_of_page_run(page: Path, tmp_path: Path) -> None:
    run_isolated(run_page, str(page), tmp_path / "page")


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module: str, tmp_path: Path) -> None:
    run_isolated(run_doctests, module, tmp_path / "module")


PAGE = """\
<!-- file: a.yml -->
```yaml
ppo: {n_timesteps: 100000}
```
Text <!-- file: b.yml -->

<!-- not run: needs a GPU -->

```bash
rlzoo train --device cuda
```
1. A list
   ```python
   model.learn(1_000_000)
   ```
"""


def test_blocks_of_page_are_found() -> None:
    assert list(blocks_of(PAGE)) == [
        Block("yaml", "ppo: {n_timesteps: 100000}\n", 3, file="a.yml"),
        Block("bash", "rlzoo train --device cuda\n", 10, not_run="needs a GPU"),
        Block("python", "model.learn(1_000_000)\n", 14),
    ]


def test_numbers_are_scaled_down() -> None:
    small = scaled_down(
        "rlzoo optimize -n 1e6 --n-trials 100 --eval-freq=5000 --n-jobs 2; learn(100); n_trials=1"
    )
    assert small == "rlzoo optimize -n 200 --n-trials 2 --eval-freq=100 --n-jobs 1; learn(100); n_trials=1"
    assert scaled_down("{n_timesteps: 20000, n_steps: 2048}") == "{n_timesteps: 200, n_steps: 2048}"


def test_bash_block_is_split_into_commands() -> None:
    text = "# why\nrlzoo train \\\n    --algo ppo\ncat > a <<'E'\nx\nE\nls\n"
    assert commands_of(text) == ["rlzoo train --algo ppo", "cat > a <<'E'\nx\nE", "ls"]


def test_long_commands_are_shortened() -> None:
    assert snippets.shortened(["rlzoo", "train", "--algo", "ppo"])[-2:] == ["-n", "200"]
    assert snippets.shortened(["rlzoo", "train", "-n", "50"]) == ["rlzoo", "train", "-n", "50"]
    assert "--no-render" in snippets.shortened(["rlzoo", "enjoy", "--n-episodes", "2"])


@pytest.mark.parametrize(
    "page",
    [
        "```python\nx = 1\n```\n```python\nassert x == 2\n```\n",
        "```bash\nrlzoo train --alog ppo\n```\n",
        "```bash\nfalse\n```\n",
        "<!-- not run: an hour -->\n```bash\nrlzoo train --alog ppo\n```\n",
        "<!-- not run: an hour -->\n```python\nx = = 1\n```\n",
        "```yaml\n{a: 1\n```\n",
    ],
)
def test_mistake_on_a_page_is_seen(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(AssertionError, match=r"this block fails"):
        run_isolated(run_page, str(tmp_path / "page.md"), tmp_path / "folder")


def test_mistake_in_a_docstring_is_seen(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "wrong_example.py").write_text('"""\n>>> 1 + 1\n3\n"""\n')
    with pytest.raises(AssertionError, match="1 examples fail"):
        run_isolated(run_doctests, "wrong_example", tmp_path / "module")
