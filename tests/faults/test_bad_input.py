"""The user's mistakes: one line with the nearest right thing, exit code 2, and no run folder."""

from __future__ import annotations

import pytest

from rlzoo.cli.main import main

BASE = ["train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "100", "--device", "cpu"]


def check_refused(arguments, logs, capsys, *named):
    try:
        code = main([*arguments, "-f", str(logs)])
    except SystemExit as end:
        code = end.code
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.startswith("rlzoo: error: ")
    assert error.count("\n") == 1, error
    for text in named:
        assert text in error
    assert not logs.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--algo", "ppp"], "ppo"),
        (["--env", "CartPol-v1"], "CartPole-v1"),
        (["--env", "CartPole-v1", "Pendulm-v1"], "Pendulum-v1"),
        (["--vec-env", "dumy"], "dummy"),
        (["--evl-freq", "10"], "--eval-freq"),
        (["--n-trails", "10"], "--n-trials"),
        (["-n", "many"], "many"),
        (["--seed", "1.5"], "1.5"),
        (["--device", "gpu"], "gpu"),
        (["-params", "n_step:5"], "n_steps"),
        (["-params", "n_steps=5"], "key:value"),
        (["-params", "n_steps:many"], "n_steps"),
        (["-params", "learning_rate:lni_3e-4"], "lin"),
        (["-params", "gamma:1.5"], "gamma"),
        (["-params", "policy:MlpPolcy"], "MlpPolicy"),
        (["-params", "policy_kwargs:dict(net_arhc=[8])"], "net_arch"),
        (["-params", "policy_kwargs:dict(activation_fn=nn.Relu)"], "nn.ReLU"),
        (["-params", "policy_kwargs:__import__('os').system('true')"], "policy_kwargs"),
        (["-params", "normalize:dict(norm_ob=True)"], "norm_obs"),
        (["-params", "env_wrapper:rlzoo.TimeFeatureWraper"], "TimeFeatureWrapper"),
        (["--env-kwargs", "no_such_argument:1"], "no_such_argument"),
        (["--gym-packages", "no_such_package_at_all"], "no_such_package_at_all"),
        (["-conf", "no_such_file.yml"], "no_such_file.yml"),
        (["-i", "no_such_agent.zip"], "no_such_agent.zip"),
        (["--track"], "[wandb]'"),
    ],
)
def test_a_mistake_on_the_command_line(arguments, named, logs, capsys):
    check_refused([*BASE, *arguments], logs, capsys, named)


def test_batches_that_do_not_fit_the_rollout(logs, capsys):
    values = ["-params", "n_steps:50", "n_envs:2", "batch_size:64"]
    check_refused([*BASE, *values], logs, capsys, "batch_size", "n_steps")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("CartPole-v1:\n  policy: [", "line"),
        ("CartPole-v1:\n  policy: MlpPolicy\n  policy: CnnPolicy\n", "twice"),
        ("just a text", "conf.yml"),
        ("CartPole-v1:\n  policy: MlpPolicy\n  n_timestep: 5\n", "n_timesteps"),
        ("Pendulum-v1:\n  policy: MlpPolicy\n", "CartPole-v1"),
        ("CartPole-v1:\n  policy: !!python/object/apply:os.system ['true']\n", "line"),
    ],
)
def test_a_malformed_file(content, named, tmp_path, logs, capsys):
    (tmp_path / "conf.yml").write_text(content)
    check_refused([*BASE, "-conf", str(tmp_path / "conf.yml")], logs, capsys, named)


def test_an_action_space_that_the_algorithm_lacks(tmp_path, logs, capsys, faulty_envs, monkeypatch):
    import gymnasium as gym

    class Words(faulty_envs.FaultyEnv):
        action_space = gym.spaces.Text(3)

    monkeypatch.setitem(
        gym.registry, "Words-v0", gym.spec("Faulty-v0").__class__("Words-v0", entry_point=Words)
    )
    (tmp_path / "conf.yml").write_text("default: {policy: MlpPolicy}")
    check_refused(
        [*BASE, "--env", "Words-v0", "-conf", str(tmp_path / "conf.yml")], logs, capsys, "Text", "Discrete"
    )


def test_a_run_that_is_not_there(capsys, tmp_path):
    assert main(["train", "--resume", str(tmp_path / "no_such_run")]) == 2
    assert "no_such_run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [["--seed", "3"], ["--algo", "ppo"], ["--env", "CartPole-v1"], ["--eval-freq", "5"]]
)
def test_resume_refuses_what_would_change_the_run(flags, capsys, tmp_path):
    assert main(["train", "--resume", str(tmp_path), *flags]) == 2
    assert f"{flags[0]} cannot be changed by --resume" in capsys.readouterr().err
