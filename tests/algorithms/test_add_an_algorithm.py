"""An algorithm takes two places: docs/developing/adding_an_algorithm.md, done in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "developing" / "adding_an_algorithm.md").read_text()


def code_block(heading: str) -> tuple[str, str]:
    """Return the path in a heading of the guide, and the first code block below it."""
    found = re.search(rf"## {heading}.*?`(rlzoo/[\w/.]+)`\n.*?```(?:python|text)\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None, heading
    return found[1], found[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the package with the algorithm of the guide, whose two places are all that is changed."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "rlzoo", root / "rlzoo", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "hyperparams").symlink_to(ROOT / "hyperparams")
    path, source = code_block("1. Its file")
    (root / path).write_text(source)
    path, line = code_block("2. Its line")
    catalog = (root / path).read_text()
    assert "_TARGETS: dict[str, str] = {\n" in catalog
    (root / path).write_text(
        catalog.replace("_TARGETS: dict[str, str] = {\n", "_TARGETS: dict[str, str] = {\n" + line)
    )
    return root


def run(checkout: Path, *arguments: str) -> str:
    """Run Python in the copy, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rlzoo(checkout: Path, *arguments: str) -> str:
    """Run a command of rlzoo in the copy, and return what it prints."""
    return run(checkout, "-m", "rlzoo", *arguments)


def test_new_algorithm_trains_plays_and_is_optimised(checkout: Path) -> None:
    task = ("--algo", "reinforce", "--env", "CartPole-v1")
    rlzoo(checkout, "train", *task, "-n", "1024", "--seed", "0", "--eval-freq", "-1")
    assert (checkout / "logs" / "reinforce" / "CartPole-v1_1" / "CartPole-v1.zip").is_file()
    assert "return" in rlzoo(checkout, "enjoy", *task, "--no-render", "-n", "200").lower()
    rlzoo(
        checkout, "optimize", *task, "-n", "512", "--n-trials", "2", "--n-jobs", "1", "--n-evaluations", "1"
    )
    best = (checkout / "logs" / "optimize" / "reinforce_CartPole-v1" / "best.yml").read_text()
    assert "learning_rate:" in best and "vf_coef:" in best and "subtract_values:" not in best


def test_new_algorithm_describes_itself(checkout: Path) -> None:
    shown = rlzoo(checkout, "show", "--algo", "reinforce", "--env", "CartPole-v1", "--explain")
    assert "# subtract_values: true\n    # the default\n    # subtract the value function" in shown
    listed = rlzoo(checkout, "list", "algos", "--algo", "reinforce", "--verbose")
    assert listed.startswith("reinforce: Reinforce\n    REINFORCE with a value baseline (Williams 1992,")
    described = run(checkout, "-c", "import rlzoo; print(rlzoo.Reinforce.__doc__)")
    assert "subtract_values (bool = True): subtract the value" in described
