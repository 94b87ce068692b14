"""Files that come with rlzoo are found under the names that the documentation gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlzoo.cli.main import main
from rlzoo.config.hyperparams import shipped_folder, shipped_path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without the folders of a checkout."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_shipped_file_is_found_from_everywhere(elsewhere: Path) -> None:
    assert shipped_path("hyperparams/ppo.yml") == shipped_folder("hyperparams") / "ppo.yml"
    assert shipped_path("./trained_agents") == shipped_folder("trained_agents")
    assert shipped_path("hyperparams/nope.yml") == Path("hyperparams/nope.yml")
    assert shipped_path("my/hyperparams/ppo.yml") == Path("my/hyperparams/ppo.yml")


def test_own_file_comes_before_the_shipped_one(elsewhere: Path) -> None:
    (elsewhere / "hyperparams").mkdir()
    (elsewhere / "hyperparams" / "ppo.yml").touch()
    assert shipped_path("hyperparams/ppo.yml") == Path("hyperparams/ppo.yml")


def test_commands_take_shipped_names(capsys: pytest.CaptureFixture[str], elsewhere: Path) -> None:
    assert main(["validate", "hyperparams/bc.yml"]) == 0
    agent = "trained_agents/ppo/CartPole-v1_1/CartPole-v1.zip"
    small = ["-n", "64", "-params", "n_steps:8", "batch_size:8", "n_epochs:1"]
    code = main(
        ["train", "--env", "CartPole-v1", "-i", agent, "--eval-freq", "-1", "--verbose", "0", *small[:-1]]
    )
    assert code == 0, capsys.readouterr().err
