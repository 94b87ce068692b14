"""`rlzoo show`."""

from __future__ import annotations

import pytest

from rlzoo.cli.main import main
from rlzoo.config.hyperparams import lookup
from rlzoo.config.yaml_text import load_yaml


def test_each_value_names_its_file_and_entry(capsys):
    assert main(["show", "--algo", "a2c", "--env", "ALE/Pong-v5", "-params", "n_envs:4", "new.key:1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "policy: CnnPolicy  # hyperparams/a2c.yml: atari" in out
    assert "n_envs: 4  # -params" in out
    assert out[-2:] == ["new:  # -params", "  key: 1"]


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "HalfCheetah-v5", "CarRacing-v3", "ALE/Pong-v5", "Unheard-v0"]
)
def test_what_is_shown_can_be_given_back_as_a_file(capsys, tmp_path, env_id):
    assert main(["show", "--algo", "ppo", "--env", env_id]) == 0
    (tmp_path / "shown.yml").write_text(capsys.readouterr().out)
    assert lookup("ppo", env_id, tmp_path / "shown.yml").values == lookup("ppo", env_id).values


def test_a_file_of_ones_own(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "hyperparams = {'default': dict(policy='MlpPolicy', learning_rate=lambda progress: progress)}"
    )
    assert main(["show", "--env", "Mine-v0", "--conf-file", str(path)]) == 0
    shown = load_yaml(capsys.readouterr().out, "shown")
    assert shown == {"policy": "MlpPolicy", "learning_rate": "<lambda>"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algo", "ppp"], "unknown algorithm 'ppp'; did you mean 'ppo'?"),
        (["--conf-file", "missing.yml"], "missing.yml: No such file"),
        (["-params", "n_steps"], "not of the form key:value"),
        (["-params", "activation_fn:nn.Rellu"], "did you mean 'nn.ReLU'?"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    assert main(["show", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
