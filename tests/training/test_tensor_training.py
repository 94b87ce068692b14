"""Training on environments whose tensors stay on the device: nothing of an experience goes to the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import rlzoo
from rlzoo.buffers.replay.tensor_replay import TensorReplayBuffer
from rlzoo.buffers.tensor_rollout import TensorRolloutBuffer
from rlzoo.core.returns import bootstrap_values, explained_variance, gae
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.tensor.tensor_pendulum import TensorPendulum
from rlzoo.evaluation.evaluate import evaluate_policy
from rlzoo.training.training_state import Collector


def refuse(*args: object, **kwargs: object) -> Any:
    raise AssertionError("a tensor was copied to the host")


def learn_without_host(model: Any, steps: int) -> None:
    """Train, from the second rollout on without any conversion of a tensor to an array."""
    model.learn(1)
    with (
        mock.patch.object(torch.Tensor, "numpy", refuse),
        mock.patch.object(torch.Tensor, "cpu", refuse),
        mock.patch("rlzoo.accel.fast_mlp.n_dispatch_modes", lambda: 1),  # NumPy is for tensors on the CPU
        mock.patch("rlzoo.envs.tensor.tensor_episodes.READ_INTERVAL", 12),
        mock.patch.object(Collector, "detach_obs"),  # at the end of a training
    ):
        model.learn(steps, reset_num_timesteps=False)


@pytest.mark.parametrize("name", ["PPO", "A2C", "TRPO", "ACKTR"])
def test_on_policy_learns_without_the_host(name: str) -> None:
    venv = make_vec_env("TensorCartPole-v1", n_envs=4096 if name == "PPO" else 64, seed=0)
    model = getattr(rlzoo, name)("MlpPolicy", venv, n_steps=16, device="cpu", seed=0)
    if name == "PPO":
        model.replace_config(batch_size=16384, n_epochs=1)
    learn_without_host(model, venv.num_envs * 16)
    assert isinstance(model.rollout_buffer, TensorRolloutBuffer)
    assert len(model.ep_info_buffer) > 20  # statistics are read all the same


@pytest.mark.parametrize("name", ["SAC", "TD3", "TQC", "CrossQ", "DDPG", "DQN", "QRDQN"])
def test_off_policy_learns_without_the_host(name: str) -> None:
    n_envs = 4096 if name == "SAC" else 256
    env_id = "TensorCartPole-v1" if "DQN" in name else "TensorPendulum-v1"
    venv = make_vec_env(env_id, n_envs, seed=0)
    model = getattr(rlzoo, name)(
        "MlpPolicy", venv, device="cpu", seed=0, learning_starts=n_envs, train_freq=1, gradient_steps=1,
        policy_kwargs={"net_arch": [16]},
    )  # fmt: skip
    learn_without_host(model, n_envs * 5)
    assert type(model.replay_buffer) is TensorReplayBuffer and model.counters.n_updates == 5


def test_a_box_is_clipped_on_the_device() -> None:
    venv = make_vec_env("TensorPendulum-v1", n_envs=64, seed=0)
    model = rlzoo.PPO("MlpPolicy", venv, n_steps=4, batch_size=64, n_epochs=1, device="cpu", seed=0)
    model.learn(256)
    actions = model.rollout_buffer.action_column
    assert actions.abs().max() > 2  # as the policy drew them
    given = model.to_env_action(actions[0])
    assert given.abs().max() == 2
    assert given.numpy() == pytest.approx(model.policy.env_actions(actions[0].numpy()))


def test_rollout_equals_the_one_of_arrays() -> None:
    """The same steps in a rollout of tensors and, through another buffer class, in one of arrays."""
    models = []
    for kind in (None, rlzoo.RolloutBuffer):
        venv = make_vec_env("TensorCartPole-v1", n_envs=8, seed=0)
        model = rlzoo.PPO(
            "MlpPolicy", venv, n_steps=64, batch_size=64, n_epochs=2, device="cpu", seed=0,
            rollout_buffer_class=kind,
        )  # fmt: skip
        model.learn(1024)
        models.append(model)
    tensors, arrays = (model.rollout_buffer for model in models)
    assert isinstance(tensors, TensorRolloutBuffer) and isinstance(arrays.rewards, np.ndarray)
    for name in ("observations", "actions", "episode_starts", "values", "log_probs", "advantages", "returns"):
        assert getattr(tensors, name) == pytest.approx(getattr(arrays, name), abs=1e-4), name


def test_returns_of_tensors_equal_those_of_arrays() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 9, 5)).astype(np.float32)
    terminated, truncated = rng.random((2, 9, 5)) < 0.2
    last, final = rng.normal(size=5).astype(np.float32), rng.normal(size=3).astype(np.float32)
    index = (np.array([0, 3, 8]), np.array([1, 1, 4]))
    tensors = [torch.from_numpy(array) for array in (rewards, values, terminated, truncated, last, final)]
    following = bootstrap_values(values, last, final, index)
    same = bootstrap_values(tensors[1], tensors[4], tensors[5], tuple(map(torch.from_numpy, index)))
    assert np.array_equal(same.numpy(), following)
    expected = gae(rewards, values, following, terminated, truncated, 0.9, 0.8)
    found = gae(tensors[0], tensors[1], same, tensors[2], tensors[3], 0.9, 0.8)
    for one, two in zip(expected, found, strict=True):
        assert two.numpy() == pytest.approx(one, abs=1e-6)
    assert explained_variance(tensors[1], found[1]) == pytest.approx(
        explained_variance(values, expected[1]), abs=1e-6
    )


def make_sac(n_envs: int = 4, **kwargs: Any) -> Any:
    venv = make_vec_env("TensorPendulum-v1", n_envs, seed=0)
    options = {"learning_starts": 8, "policy_kwargs": {"net_arch": [16]}, "buffer_size": 400, **kwargs}
    return rlzoo.SAC("MlpPolicy", venv, device="cpu", seed=0, **options)


@pytest.mark.parametrize("steps", [120, 1000])
def test_replay_buffer_survives_a_file(tmp_path: Path, steps: int) -> None:
    model, other = make_sac(gradient_steps=0), make_sac()
    model.learn(steps)
    model.save_replay_buffer(tmp_path / "replay")
    other.load_replay_buffer(tmp_path / "replay", truncate_last_traj=False)
    one, two = model.replay_buffer, other.replay_buffer
    assert len(one) == len(two) == min(steps, 400)
    order = [(one.head - one.size() + i) % one.n_slots for i in range(one.size())]
    for name in ("obs_rows", "next_obs_rows", "action_rows", "reward_rows", "terminated", "truncated"):
        assert torch.equal(getattr(one, name)[order], getattr(two, name)[: len(order)]), name
    assert torch.equal(one.current, two.current)
    two_arrays = two.rewards, two.sample(4).rewards  # as arrays, before a training starts new episodes
    assert two_arrays[0].shape == (two.buffer_size, two.n_envs)
    other.save_replay_buffer(tmp_path / "again")
    make_sac().load_replay_buffer(tmp_path / "again")


def test_arrays_of_replay_are_in_the_order_of_the_ring() -> None:
    model = make_sac(gradient_steps=0)
    model.learn(1000)
    replay = model.replay_buffer
    assert replay.full and 0 < replay.pos < replay.buffer_size
    newest = (replay.head - 1) % replay.n_slots
    for name, rows in [
        ("observations", replay.obs_rows),
        ("next_observations", replay.next_obs_rows),
        ("rewards", replay.reward_rows),
        ("dones", replay.terminated | replay.truncated),
    ]:
        assert np.array_equal(getattr(replay, name)[replay.pos - 1], rows[newest].numpy()), name
    host = replay.for_file()  # with the oldest row first
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        ours, theirs = getattr(replay, name), getattr(host, name)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
        assert np.array_equal(np.roll(ours, -replay.pos, axis=0), np.roll(theirs, -host.pos, axis=0)), name
    taken = replay.take(np.array([0, 5]))
    assert torch.equal(taken.rewards, replay.reward_rows.flatten()[[0, 5]])


def test_replay_that_a_callback_resets_goes_on() -> None:
    class Reset(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 5:
                self.model.replay_buffer.reset()
            return True

    model = make_sac()
    model.learn(20 * model.n_envs, callback=Reset())
    assert len(model.replay_buffer) == 15 * model.n_envs


def test_samples_are_transitions_of_the_environments() -> None:
    model = make_sac(gradient_steps=0)
    model.learn(1000)  # 250 steps of each environment: one episode ended, the ring went round
    replay = model.replay_buffer
    batch = next(iter(replay.batches(1, 300)))
    angle = torch.atan2(batch.observations[:, 1], batch.observations[:, 0])
    speed = batch.observations[:, 2] + (15 * angle.sin() + 3 * 2 * batch.actions[:, 0]) * 0.05
    assert torch.allclose(batch.next_observations[:, 2], speed.clamp(-8, 8), atol=1e-4)
    assert (batch.discounts == model.config.gamma).all()  # truncated episodes are bootstrapped
    assert replay.timeouts.sum() == 4 and np.isfinite(replay.observations).all()


def test_noise_begins_anew_in_the_step_that_ends_an_episode() -> None:
    venv = TensorPendulum(num_envs=2)
    venv.max_episode_steps = 20
    noise = rlzoo.OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1))
    model = rlzoo.TD3("MlpPolicy", venv, action_noise=noise, learning_starts=1000, device="cpu", seed=0)
    resets: list[tuple[int, list[int]]] = []
    model.action_noise.reset = lambda indices: resets.append(  # type: ignore[union-attr, method-assign]
        (model.num_timesteps // 2, indices.tolist())
    )
    model.learn(2 * 50)
    assert resets == [(20, [0, 1]), (40, [0, 1])]


def test_special_replay_takes_arrays() -> None:
    for kwargs in (
        {"n_steps": 3},
        {"train_freq": (1, "episode")},
        {"replay_buffer_class": rlzoo.ReplayBuffer},
    ):
        model = make_sac(**kwargs)
        model.learn(16)
        assert not model.replay_buffer.on_device and model.tensor_actions is None


def test_training_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    for model in (
        make_sac(),
        rlzoo.PPO("MlpPolicy", make_vec_env("TensorPendulum-v1", 4, seed=0), n_steps=8, device="cpu"),
    ):
        model.learn(64)
        model.save(tmp_path / "agent", include=["position"])
        venv = make_vec_env("TensorPendulum-v1", 4, seed=5)
        loaded = type(model).load(tmp_path / "agent", env=venv, device="cpu")
        loaded.learn(64, reset_num_timesteps=False)
        assert loaded.num_timesteps == 128


def test_callbacks_see_arrays() -> None:
    seen: dict[str, Any] = {}

    def look(locals_: Any, globals_: Any) -> bool:
        seen.update({name: locals_[name] for name in ("rewards", "new_obs", "infos", "dones", "actions")})
        return True

    model = rlzoo.PPO("MlpPolicy", make_vec_env("TensorPendulum-v1", 4), n_steps=8, device="cpu")
    model.learn(64, callback=look)
    assert isinstance(seen["rewards"], np.ndarray) and isinstance(seen["new_obs"], np.ndarray)
    assert len(seen["infos"]) == 4 and seen["actions"].shape == (4, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "env_id", "score"),
    [("ppo", "TensorCartPole-v1", 450), ("sac", "TensorPendulum-v1", -200)],
)
def test_shipped_hyperparameters_learn(algo: str, env_id: str, score: float, tmp_path: Path) -> None:
    options = {"seed": 1, "eval_freq": 0, "log_folder": str(tmp_path), "device": "cpu", "verbose": 0}
    mean, _ = evaluate_policy(
        rlzoo.train(algo=algo, env=env_id, **options), make_vec_env(env_id, 8, seed=7), n_eval_episodes=16
    )
    assert mean > score
