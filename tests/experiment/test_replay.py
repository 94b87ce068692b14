"""Runs of algorithms that replay experience: what they keep, and how they go on."""

from __future__ import annotations

import csv

import pytest
import torch

from rlzoo import CheckpointCallback, ParallelTrainCallback
from rlzoo.accel import threads
from rlzoo.config import catalog
from rlzoo.config.run import PlayConfig
from rlzoo.core.action_noise import (
    LinearNormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)
from rlzoo.experiment.resumed_run import reopen_run, resume
from rlzoo.experiment.training_run import create_run, train
from rlzoo.playback.play import play
from rlzoo.runs import run_folder
from rlzoo.training.off_policy_loop import off_policy

OFF_POLICY = [name for name in catalog.names() if getattr(catalog.load(name), "loop", None) is off_policy]
VALUES = """\
default: &small
  policy: MlpPolicy
  n_envs: 2
  n_timesteps: 400
  buffer_size: 300
  learning_starts: 20
  batch_size: 4
  train_freq: 4
  policy_kwargs: {net_arch: [8]}
Pendulum-v1:
  <<: *small
  normalize: true
"""


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "conf.yml"
    path.write_text(VALUES)
    return path


@pytest.fixture
def replay_run(run):
    return lambda **fields: run(**{"algo": "dqn", **fields})


def env_of(algo):
    return "CartPole-v1" if algo in ("dqn", "qrdqn") else "Pendulum-v1"


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_every_command_works_with_every_algorithm(replay_run, logs, algo):
    env_id = env_of(algo)
    fields = {"algo": algo, "env_id": env_id}
    result = train(
        replay_run(**fields, save_freq=100, save_replay_buffer=True, eval_freq=200, eval_episodes=1)
    )
    assert result.num_timesteps == 400
    files = {path.name for path in result.folder.iterdir()}
    assert {f"{env_id}.zip", "best_model.zip", "replay_buffer.safetensors"} <= files
    for steps in (100, 200, 300, 400):
        assert {f"rl_model_{steps}_steps.zip", f"rl_model_replay_buffer_{steps}_steps.safetensors"} <= files
    again = resume(result.folder, n_timesteps=480)
    assert again.num_timesteps == 480
    scores = play(
        PlayConfig(algo=algo, env_id=env_id, folder=str(logs), n_timesteps=30, no_render=True, device="cpu")
    )
    assert scores.n_steps == 30
    started = train(replay_run(**fields, trained_agent=str(result.model_path), n_timesteps=104))
    assert started.num_timesteps == 104


def test_a_checkpoint_goes_on_with_its_own_replay_buffer(replay_run, capsys):
    result = train(replay_run(save_freq=100, save_replay_buffer=True))
    for path in (result.model_path, *(result.folder / f"rl_model_{n}_steps.zip" for n in (300, 400))):
        path.unlink()
    session = reopen_run(result.folder, {"verbose": 1})
    with session.resources:
        assert session.model.num_timesteps == len(session.model.replay_buffer) == 200
    assert "200 transitions from" in capsys.readouterr().out
    assert (result.folder / "replay_buffer.safetensors").is_file()


def test_without_a_replay_buffer_a_run_goes_on_and_says_so(replay_run, capsys):
    result = train(replay_run())
    assert not list(result.folder.glob("*replay_buffer*"))
    assert resume(result.folder, n_timesteps=480).num_timesteps == 480
    error = capsys.readouterr().err
    assert f"no replay buffer was saved with {result.model_path}" in error
    assert "--save-replay-buffer" in error
    assert error.count("\n") == 1


def test_a_new_run_takes_the_replay_buffer_beside_its_agent(replay_run, capsys):
    first = train(replay_run(save_freq=100, save_replay_buffer=True))
    checkpoint = first.folder / "rl_model_200_steps.zip"
    agents = {first.model_path: 300, checkpoint: 200, first.folder / "best_model.zip": 300}
    (first.folder / "best_model.zip").write_bytes(first.model_path.read_bytes())
    for agent, size in agents.items():
        session = create_run(replay_run(trained_agent=str(agent), verbose=1))
        with session.resources:
            assert len(session.model.replay_buffer) == size
            assert session.model.num_timesteps == (200 if agent == checkpoint else 400)
            session.model.learn(64)
            assert session.model.num_timesteps == 64
        assert f"{size} transitions from" in capsys.readouterr().out
    (first.folder / "rl_model_replay_buffer_200_steps.safetensors").unlink()
    session = create_run(replay_run(trained_agent=str(checkpoint)))
    with session.resources:
        assert len(session.model.replay_buffer) == 300  # the one of the final agent


def test_a_stopped_run_keeps_its_replay_buffer(replay_run):
    def stop(locals_, globals_):
        if locals_["self"].num_timesteps == 202:
            raise KeyboardInterrupt

    session = create_run(replay_run(save_replay_buffer=True))
    with session.resources:
        from rlzoo.experiment.training_run import learn
        from rlzoo.processes.stop_signals import StopSignals

        session.callbacks.append(stop)
        result = learn(session, StopSignals())
    session = reopen_run(result.folder, {})
    with session.resources:
        assert session.model.num_timesteps == len(session.model.replay_buffer) == 202


@pytest.mark.parametrize(
    ("noise", "kind"),
    [
        ({"noise_type": "ornstein-uhlenbeck"}, OrnsteinUhlenbeckActionNoise),
        ({"noise_type": "normal", "noise_std_final": 0.0}, LinearNormalActionNoise),
    ],
)
def test_noise_reaches_the_agent_and_goes_on(replay_run, noise, kind):
    fields = {"algo": "sac", "env_id": "Pendulum-v1", "hyperparams": {"noise_std": 0.2, **noise}}
    result = train(replay_run(**fields, n_timesteps=200))
    session = reopen_run(result.folder, {"n_timesteps": 300})
    with session.resources:
        vectorized = session.model.action_noise
        assert isinstance(vectorized, VectorizedActionNoise)
        assert all(isinstance(part, kind) for part in vectorized.noises)
        if kind is LinearNormalActionNoise:
            assert vectorized.noises[0].max_steps == 100  # of each environment
            assert vectorized.noises[0].state_dict() == {"step": 100}
    started = create_run(replay_run(**fields, trained_agent=str(result.model_path)))
    with started.resources:
        assert isinstance(started.model.action_noise.noises[0], kind)


def test_a_callback_of_the_hyperparameters_trains_in_parallel(replay_run):
    callback = {"rlzoo.ParallelTrainCallback": {"gradient_steps": 5}}
    session = create_run(replay_run(hyperparams={"callback": callback}))
    with session.resources:
        assert isinstance(session.callbacks[0], ParallelTrainCallback)
        session.model.learn(200, session.callbacks)
        assert session.model.n_updates % 5 == 0 and session.model.n_updates > 0


def test_the_buffer_is_written_before_the_agent(replay_run, monkeypatch):
    order = []
    session = create_run(replay_run(save_freq=100, save_replay_buffer=True))
    with session.resources:
        monkeypatch.setattr(session.model, "save", lambda path, **_: order.append("agent"))
        monkeypatch.setattr(session.model, "save_replay_buffer", lambda path: order.append("replay"))
        assert isinstance(session.callbacks[0], CheckpointCallback)
        session.model.learn(200, session.callbacks)
    assert order == ["replay", "agent"] * 2


@pytest.mark.parametrize(
    ("algo", "net_arch", "batch_size", "cores"),
    [
        ("dqn", [64, 64], 64, 1),
        ("qrdqn", [64, 64], 64, 1),
        ("sac", [256, 256], 256, 7),
        ("sac", [64], 256, 1),
    ],
)
def test_threads_follow_the_size_of_an_update(replay_run, monkeypatch, algo, net_arch, batch_size, cores):
    monkeypatch.setattr(threads, "thread_limit", lambda: 7)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    hyperparams = {"policy_kwargs": {"net_arch": net_arch}, "batch_size": batch_size}
    for num_threads, expected in ((-1, cores), (3, 1)):
        fields = {"algo": algo, "env_id": env_of(algo), "hyperparams": hyperparams}
        session = create_run(replay_run(**fields, num_threads=num_threads))
        session.resources.close()
        with session.model.training_threads():
            assert session.model.threads.limit == expected
        assert session.model.num_threads == (None if num_threads < 0 else num_threads)


def test_what_is_logged(replay_run):
    result = train(replay_run(algo="sac", env_id="Pendulum-v1", n_timesteps=2000, hyperparams={"n_envs": 1}))
    with (result.folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {name for name in rows[-1] if not name.startswith("eval")} == {
        *("rollout/ep_len_mean", "rollout/ep_rew_mean", "time/episodes", "time/fps", "time/time_elapsed"),
        *("time/total_timesteps", "train/actor_loss", "train/critic_loss", "train/ent_coef"),
        *("train/ent_coef_loss", "train/learning_rate", "train/n_updates"),
    }
    assert [int(row["time/episodes"]) for row in rows] == [4, 8]
    assert [int(row["time/total_timesteps"]) for row in rows] == [800, 1600]
    result = train(replay_run(n_timesteps=800))
    with (result.folder / "progress.csv").open() as file:
        row = next(csv.DictReader(file))
    assert {"rollout/exploration_rate", "train/loss", "train/learning_rate"} <= row.keys()


def test_files_of_checkpoints(tmp_path):
    for name in ("rl_model_10_steps.zip", "rl_model_replay_buffer_10_steps.safetensors", "replay_buffer.pkl"):
        (tmp_path / name).touch()
    own = tmp_path / "rl_model_replay_buffer_10_steps.safetensors"
    assert run_folder.replay_of(tmp_path / "rl_model_10_steps.zip", saved_together=True) == own
    assert run_folder.replay_of(tmp_path / "rl_model_20_steps.zip", saved_together=True) is None
    foreign = tmp_path / "replay_buffer.pkl"
    assert run_folder.replay_of(tmp_path / "rl_model_20_steps.zip", saved_together=False) == foreign
    assert run_folder.replay_of(tmp_path / "CartPole-v1.zip", saved_together=True) == foreign
    (tmp_path / "replay_buffer.safetensors").touch()
    final = tmp_path / "replay_buffer.safetensors"
    assert run_folder.replay_of(tmp_path / "CartPole-v1.zip", saved_together=True) == final
