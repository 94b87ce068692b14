from __future__ import annotations

import pytest

from rlzoo.cli.main import build, load_command, main
from rlzoo.config.run import PlayConfig

OLD_FLAGS = """
--env Pendulum-v1 -f logs --folder logs --algo a2c -n 10 --n-timesteps 10 --num-threads 2 --n-envs 2
--exp-id 3 --verbose 0 --no-render --deterministic --device cpu --load-best --norm-reward --seed 4
--reward-log rewards --gym-packages json --env-kwargs g:3 -P --progress
"""


@pytest.fixture
def looks(monkeypatch):
    """The configurations that reach `play`, which does nothing here."""
    seen = []
    monkeypatch.setattr("rlzoo.playback.play.play", seen.append)
    return seen


def test_the_flags_of_the_leading_zoo_work_unchanged(looks):
    assert main(["enjoy", *OLD_FLAGS.split()]) == 0
    assert looks == [
        PlayConfig(
            algo="a2c",
            env_id="Pendulum-v1",
            or_shipped=False,
            n_timesteps=10,
            num_threads=2,
            n_envs=2,
            exp_id=3,
            verbose=0,
            no_render=True,
            deterministic=True,
            device="cpu",
            load_best=True,
            norm_reward=True,
            seed=4,
            reward_log="rewards",
            gym_packages=("json",),
            env_kwargs={"g": 3},
            progress=True,
        )
    ]


@pytest.mark.parametrize(
    "flags", [["--load-checkpoint", "500"], ["--load-last-checkpoint"], ["--stochastic"]]
)
def test_other_choices(looks, flags):
    main(["enjoy", *flags])
    name = flags[0][2:].replace("-", "_")
    assert getattr(looks[0], name) in (True, 500)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--load-best", "--load-last-checkpoint"], "not allowed with"),
        (["--deterministic", "--stochastic"], "not allowed with"),
        (["--algo", "poo"], "ppo"),
        (["--exp-di", "3"], "--exp-id"),
        (["--env", "FrozenLake-v1"], "rlzoo train --algo ppo --env FrozenLake-v1"),
        (["--env", "Pendulm-v1"], "did you mean 'Pendulum-v1'"),
        (["--seed", "-1"], "--seed: expected an integer, from 0"),
        (["-n", "0"], "at least 1"),
        (["--n-episodes", "0"], "at least 1"),
        (["--n-envs", "0"], "at least 1"),
    ],
)
def test_a_mistake_is_one_line(flags, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["enjoy", *flags])
    except SystemExit as end:
        code = end.code
    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert named in error


def test_fields_of_the_configuration_are_the_flags():
    import dataclasses

    parsed = vars(build("enjoy", load_command("enjoy")).parse_args([]))
    assert set(parsed) - {"env", "trust"} == {field.name for field in dataclasses.fields(PlayConfig)} - {
        "env_id",
        "or_shipped",
    }


def test_train_then_enjoy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = ["-params", "n_envs:1", "n_steps:32", "batch_size:32", "policy_kwargs:dict(net_arch=[4])"]
    assert main(["train", "-n", "64", "--device", "cpu", "--eval-freq", "-1", "--verbose", "0", *values]) == 0
    assert main(["enjoy", "--no-render", "--n-episodes", "3", "--device", "cpu"]) == 0
    output = capsys.readouterr().out
    assert "playing logs/ppo/CartPole-v1_1/CartPole-v1.zip" in output
    assert "episode 3: return" in output
    assert "3 episodes" in output
