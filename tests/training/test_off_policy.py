"""The loop of replayed experience: when it learns, what it remembers, what callbacks see."""

from __future__ import annotations

import itertools
import json
import zlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    DQN,
    PPO,
    SAC,
    TD3,
    BitFlippingEnv,
    HerReplayBuffer,
    LogEveryNTimesteps,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    ReplayBuffer,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
)
from rlzoo.core.errors import CheckpointError, EnvironmentFailed, UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.metrics.logger import Logger

SMALL: dict[str, Any] = {
    "buffer_size": 100,
    "learning_starts": 10,
    "batch_size": 4,
    "train_freq": 1,
    "policy_kwargs": {"net_arch": [8]},
    "seed": 0,
    "device": "cpu",
}


class Counting(gym.Env[Any, Any]):
    """The observation is the number of the step; episodes have 5, 7, 5, 7 ... steps."""

    observation_space: spaces.Space[Any] = spaces.Box(-1e6, 1e6, (1,))
    action_space: spaces.Space[Any] = spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length = 5 if self.episodes % 2 == 0 else 7
        self.episodes += 1
        self.steps = 0
        return self.observe(), {}

    def observe(self) -> Any:
        return np.array([self.steps], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observe(), float(self.steps), False, self.steps == self.length, {}


class CountingBox(Counting):
    action_space = spaces.Box(np.array([1.0], np.float32), np.array([5.0], np.float32))


class Spoilt(Counting):
    """Returns something that is no number, in one place, at step 17 of the environment that was seeded 1."""

    def __init__(self, place: str, value: float) -> None:
        self.place, self.value, self.taken = place, value, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.index = seed if seed is not None else self.index
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        obs, reward, ended, truncated, info = super().step(action)
        if self.index == 1 and self.taken == 17:
            if self.place == "reward":
                reward = self.value
            else:
                obs[0] = self.value
        return obs, reward, ended, truncated, info


def make(algorithm: Any = DQN, n_envs: int = 1, env: Any = Counting, **kwargs: Any) -> Any:
    if algorithm is SAC and env is Counting:
        env = CountingBox
    return algorithm("MlpPolicy", DummyVecEnv([env] * n_envs), **{**SMALL, **kwargs})


def updates_at(model: Any, total: int) -> list[tuple[int, int]]:
    """Steps at which updates had been made since the step before, and how many."""
    seen = [(0, 0)]

    def look(locals_: Any, _: Any) -> None:
        seen.append((model.num_timesteps, model.n_updates))

    model.learn(total, look)
    seen.append((model.num_timesteps, model.n_updates))
    return [
        (before[0], after[1] - before[1])
        for before, after in itertools.pairwise(seen)
        if after[1] > before[1]
    ]


def test_learning_begins_after_learning_starts() -> None:
    assert updates_at(make(), 14) == [(11, 1), (12, 1), (13, 1), (14, 1)]
    assert make(learning_starts=20).learn(20).n_updates == 0


@pytest.mark.parametrize(
    ("kwargs", "n_envs", "total", "expected"),
    [
        ({"train_freq": 4}, 1, 20, [(12, 1), (16, 1), (20, 1)]),
        ({"train_freq": 4, "gradient_steps": 3}, 1, 16, [(12, 3), (16, 3)]),
        ({"train_freq": 4, "gradient_steps": -1}, 1, 16, [(12, 4), (16, 4)]),
        ({"train_freq": (4, "step"), "gradient_steps": -1}, 2, 24, [(16, 8), (24, 8)]),
        ({"train_freq": (1, "episode"), "gradient_steps": -1}, 1, 24, [(12, 7), (17, 5), (24, 7)]),
        ({"train_freq": (2, "episode")}, 1, 24, [(12, 1), (24, 1)]),
        ({"train_freq": (1, "episode"), "gradient_steps": -1}, 2, 34, [(24, 14), (34, 10)]),
    ],
)
def test_rounds_of_updates(kwargs: Any, n_envs: int, total: int, expected: Any) -> None:
    assert updates_at(make(n_envs=n_envs, **kwargs), total) == expected


@pytest.mark.parametrize("n_envs", [1, 2])
def test_actions_are_random_until_learning_starts(n_envs: int) -> None:
    model = make(n_envs=n_envs)
    explore, asked = model.explore, []
    model.explore = lambda obs: asked.append(model.num_timesteps) or explore(obs)
    model.learn(20)
    assert asked == list(range(10, 20, n_envs))


@pytest.mark.parametrize("algorithm", [DQN, SAC])
def test_returns_of_several_steps_reach_the_update(algorithm: Any) -> None:
    model = make(algorithm, n_steps=3, gamma=0.5, seed=1)
    update, seen = model.update, []
    model.update = lambda batch, counters: seen.append(batch) or update(batch, counters)
    model.learn(60)
    batch = seen[-1]
    first, m = batch.observations[:, 0], (batch.next_observations - batch.observations)[:, 0]
    assert set(m.tolist()) <= {1, 2, 3} and 3 in m
    for k in range(3):
        reward = sum(0.5**i * (first + i + 1) for i in range(k + 1))
        np.testing.assert_allclose(batch.rewards[m == k + 1], reward[m == k + 1])
    np.testing.assert_allclose(batch.discounts, 0.5**m)  # episodes are truncated, never terminated


def test_priorities_and_their_weights_follow_the_training() -> None:
    model = make(prioritized_replay=True, prioritized_replay_alpha=1.0, prioritized_replay_beta0=0.4)
    replay, betas, drawn = model.replay_buffer, [], []

    def update(batch: Any, counters: Any) -> Any:
        betas.append(replay.beta)
        drawn.extend(batch.indices)
        batch.priorities = batch.weights * 0 + 7
        return {}

    model.update, model.check_losses, model.summarise = update, lambda _: None, lambda *_: {}
    model.learn(50)
    np.testing.assert_allclose(betas, 0.4 + 0.6 * np.arange(11, 51) / 50)
    np.testing.assert_allclose(replay.tree.get(np.array(drawn)), 7 + replay.eps)
    assert replay.tree.leaves[50] == 0


def test_action_noise_is_added_and_clipped_to_bounds() -> None:
    model = make(TD3, env=CountingBox, action_noise=NormalActionNoise(np.full(1, 5.0), np.zeros(1)))
    model.learn(20)  # random actions, then those of the actor
    assert (model.replay_buffer.action_column.rows[:20] == 1).all()


def test_noise_begins_anew_where_an_episode_ended() -> None:
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1))
    model = make(TD3, n_envs=2, env=CountingBox, action_noise=noise)
    model.learn(8)
    model.end_episodes(np.array([1]))
    first, second = model.action_noise.noises
    assert first.state_dict()["noise"] != 0 and second.state_dict()["noise"] == 0


@pytest.mark.parametrize("n_envs", [1, 2])
def test_noise_begins_anew_in_the_next_training(n_envs: int) -> None:
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1))
    model = make(TD3, n_envs=n_envs, env=CountingBox, action_noise=noise)
    model.learn(4)
    begun = []
    model.begin_rollout = lambda: begun.append([one.state_dict()["noise"] for one in noises(model)])
    model.learn(4, reset_num_timesteps=False)
    assert np.any(begun[0])
    begun.clear()
    model.learn(4)
    assert not np.any(begun[0])


def noises(model: Any) -> list[Any]:
    return getattr(model.action_noise, "noises", [model.action_noise])


def test_what_is_remembered_is_what_happened() -> None:
    model = make(n_envs=2).learn(40)
    replay = model.replay_buffer
    assert isinstance(replay, ReplayBuffer) and len(replay) == 40
    batch = replay.draw(500)
    before, after = batch.observations[:, 0].numpy(), batch.next_observations[:, 0].numpy()
    np.testing.assert_array_equal(after, before + 1)  # also where an episode ended
    np.testing.assert_array_equal(batch.rewards.numpy(), after)
    assert (batch.discounts == model.gamma).all()  # truncated, not terminated
    assert {5, 7} <= set(after.astype(int))


def test_normalised_experience_is_stored_as_it_was() -> None:
    env = VecNormalize(DummyVecEnv([Counting] * 2))
    model = DQN("MlpPolicy", env, **SMALL).learn(100)
    replay = model.replay_buffer
    replay.normalizer = None
    batch = replay.draw(200)
    assert set(batch.observations[:, 0].tolist()) <= set(range(7))
    np.testing.assert_array_equal(batch.next_observations, batch.observations + 1)  # also final ones
    np.testing.assert_array_equal(batch.rewards, batch.next_observations[:, 0])
    replay.normalizer = env
    scaled = replay.draw(200)
    np.testing.assert_allclose(
        np.unique(scaled.observations[:, 0].numpy()),
        np.unique(env.normalize_obs(np.arange(7, dtype=np.float32)[:, None])),
        rtol=1e-6,
    )


class Shaping(VecEnvWrapper):
    """Adds 50 to observations and pays 7 less."""

    def reset(self) -> Any:
        return self.venv.reset() + 50

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = info["terminal_observation"] + 50
        return obs + 50, rewards - 7, dones, infos


class Plain(VecEnvWrapper):
    """Changes nothing."""


def look_at_steps(seen: list[Any]) -> Any:
    return lambda locals_, _: seen.append((locals_["new_obs"][:, 0], locals_["rewards"]))


def test_replay_stores_what_wrappers_above_vec_normalize_do() -> None:
    env, seen = Shaping(VecNormalize(DummyVecEnv([Counting]))), []
    model = DQN("MlpPolicy", env, **SMALL)
    with pytest.warns(UserWarning, match="Shaping around VecNormalize may change"):
        model.learn(40, look_at_steps(seen))
    batch = model.replay_buffer._assemble(np.arange(1, 40))
    np.testing.assert_array_equal(batch.observations[:, 0], [obs[0] for obs, _ in seen[:-1]])
    np.testing.assert_array_equal(batch.rewards, [rewards[0] for _, rewards in seen[1:]])


def test_sample_does_not_scale_twice() -> None:
    stacked = VecFrameStack(VecNormalize(DummyVecEnv([Counting])), 3)
    model = DQN("MlpPolicy", stacked, **SMALL).learn(40)
    shaped = DQN("MlpPolicy", Shaping(VecNormalize(DummyVecEnv([Counting]))), **SMALL)
    with pytest.warns(UserWarning, match="Shaping"):
        shaped.learn(40)
    for one in (model, shaped):
        batches = []
        for env in (None, one.get_vec_normalize_env()):
            torch.manual_seed(0)
            batches.append(one.replay_buffer.draw(20, env=env))
        np.testing.assert_array_equal(batches[0].observations, batches[1].observations)
        np.testing.assert_array_equal(batches[0].rewards, batches[1].rewards)


def test_hindsight_needs_goals_from_before_vec_normalize() -> None:
    env = VecNormalize(DummyVecEnv([lambda: BitFlippingEnv(n_bits=4, continuous=False)]), norm_obs=False)
    kwargs = {**SMALL, "replay_buffer_class": HerReplayBuffer}
    model = DQN("MultiInputPolicy", ShapedRewards(env), **kwargs)
    with pytest.raises(UserError, match="put VecNormalize outermost"):
        model.learn(20)


class ShapedRewards(VecEnvWrapper):
    def wait_arrays(self) -> Any:
        step = self.venv.wait_arrays()
        step.rewards = step.rewards - 7
        return step


def test_a_wrapper_that_defines_no_step_leaves_rescaling_alone() -> None:
    env = Plain(VecNormalize(DummyVecEnv([Counting])))
    replay = DQN("MlpPolicy", env, **SMALL).learn(40).replay_buffer
    raw = np.arange(7, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(np.unique(replay.draw(300).observations), np.unique(env.normalize_obs(raw)))


class Grey(Counting):
    """The same as small images."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def observe(self) -> Any:
        return np.full((36, 36, 1), self.steps, np.uint8)


@pytest.mark.parametrize("stacked", [False, True])
def test_rewards_of_images_are_scaled_by_present_statistics(stacked: bool) -> None:
    env: Any = VecNormalize(DummyVecEnv([Grey]), norm_obs=False)
    env = VecFrameStack(env, 2) if stacked else env
    kwargs = {**SMALL, "policy_kwargs": {"features_extractor_kwargs": {"features_dim": 8}}}
    model = DQN("CnnPolicy", env, **{**kwargs, "learning_starts": 100}).learn(60)
    replay, normalize = model.replay_buffer, model.get_vec_normalize_env()
    steps = replay._assemble(np.arange(60)).next_observations[:, -1, 0, 0].numpy().astype(np.float32)
    np.testing.assert_array_equal(replay._assemble(np.arange(60)).rewards, normalize.normalize_reward(steps))
    assert replay.frame_stack == (2 if stacked else 1)


def test_stacked_frames_use_current_statistics() -> None:
    normalize = VecNormalize(DummyVecEnv([Counting] * 2))
    model = DQN("MlpPolicy", VecFrameStack(normalize, 3), **SMALL).learn(60)
    batch = model.replay_buffer._assemble(np.arange(60))
    scaled = normalize.normalize_obs(np.arange(8, dtype=np.float32)[:, None])[:, 0]
    stacks = {tuple(row) for row in batch.observations.tolist()}
    expected = {
        tuple(float(scaled[step - lag]) if step >= lag else 0.0 for lag in (2, 1, 0)) for step in range(7)
    }
    assert stacks == expected
    rewards = batch.rewards.numpy()
    ends = batch.next_observations[:, -1].numpy()  # the reward is the number of the step
    np.testing.assert_allclose(rewards, normalize.normalize_reward(_steps_of(ends, scaled)), rtol=1e-6)


def _steps_of(values: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    return np.abs(values[:, None] - scaled).argmin(axis=1).astype(np.float32)


class Far(Counting):
    """Observations of double precision, whose differences single precision does not hold."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def observe(self) -> Any:
        return np.array([1e9 + 0.01 * self.steps])


def test_double_precision_is_kept_until_it_is_normalised() -> None:
    env, seen = VecNormalize(DummyVecEnv([Far])), []
    model = DQN("MlpPolicy", env, **{**SMALL, "learning_starts": 100})
    model.learn(50)
    env.training = False
    model.learn(40, look_at_steps(seen), reset_num_timesteps=False)
    batch = model.replay_buffer._assemble(np.arange(51, 90))
    np.testing.assert_array_equal(batch.observations[:, 0], [obs[0] for obs, _ in seen[:-1]])
    assert batch.observations.dtype == torch.float32
    assert model.replay_buffer.obs.columns.rows.dtype == torch.float64
    plain = DQN("MlpPolicy", DummyVecEnv([Far]), **SMALL)
    assert plain.replay_buffer.obs.columns.rows.dtype == torch.float32  # the networks' own precision


class FarBytes(Counting):
    observation_space = spaces.Box(0, 255, (1,), np.uint8)

    def observe(self) -> Any:
        return np.array([self.steps], np.uint8)


def test_normalised_integers_are_acted_on_as_they_are() -> None:
    env, seen = VecNormalize(DummyVecEnv([FarBytes])), []
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, device="cpu")
    model.learn(16, look_at_steps(seen))
    np.testing.assert_array_equal(model.rollout_buffer.obs_column[1:, 0, 0], [obs[0] for obs, _ in seen])


def as_older_file(path: Any) -> None:
    """Take out of a file what earlier versions did not write."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    tree = json.loads(data[8 : 8 + length])
    del tree["__metadata__"]["stored"]
    tree["__metadata__"]["checksum"] = "00000000"
    text = json.dumps(tree, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    checksum = f'"checksum":"{zlib.crc32(text.encode()):08x}"'
    header = text.replace('"checksum":"00000000"', checksum, 1).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


def test_a_buffer_scaled_by_an_earlier_version_can_be_loaded(tmp_path: Any) -> None:
    def make_env() -> Any:
        return VecFrameStack(VecNormalize(DummyVecEnv([Counting])), 3)

    class Scaled(VecEnvWrapper):
        """What an earlier version stored is what the agent saw."""

        def reset(self) -> Any:
            return self.venv.reset()

    with pytest.warns(UserWarning, match="Scaled around VecNormalize"):
        older = DQN("MlpPolicy", Scaled(make_env()), **SMALL).learn(60)
    older.save_replay_buffer(tmp_path / "older.safetensors")
    as_older_file(tmp_path / "older.safetensors")
    model = DQN("MlpPolicy", make_env(), **SMALL)
    model.get_vec_normalize_env().load_state_dict(older.get_vec_normalize_env().state_dict())
    model.load_replay_buffer(tmp_path / "older.safetensors")
    found, expected = (m.replay_buffer._assemble(np.arange(60)) for m in (model, older))
    np.testing.assert_allclose(found.observations, expected.observations, atol=1e-5)
    np.testing.assert_allclose(found.next_observations, expected.next_observations, atol=1e-5)
    np.testing.assert_allclose(found.rewards, expected.rewards, rtol=1e-4)


def test_raw_files_are_refused_where_a_wrapper_changes_them(tmp_path: Any) -> None:
    plain = DQN("MlpPolicy", VecNormalize(DummyVecEnv([Counting])), **SMALL).learn(20)
    plain.save_replay_buffer(tmp_path / "plain")
    other = DQN("MlpPolicy", Shaping(VecNormalize(DummyVecEnv([Counting]))), **SMALL)
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="put VecNormalize outermost"):
        other.load_replay_buffer(tmp_path / "plain")
    plain.load_replay_buffer(tmp_path / "plain")
    assert len(plain.replay_buffer) == 20


def test_single_precision_files_fill_buffers_of_double(tmp_path: Any) -> None:
    single = DQN("MlpPolicy", DummyVecEnv([Far]), **SMALL).learn(20)
    single.save_replay_buffer(tmp_path / "single")
    double = DQN("MlpPolicy", VecNormalize(DummyVecEnv([Far])), **SMALL)
    double.load_replay_buffer(tmp_path / "single")
    assert len(double.replay_buffer) == 20


def test_a_second_training_goes_on_in_the_same_episodes() -> None:
    model = make(n_envs=1).learn(13)
    model.learn(13, reset_num_timesteps=False)
    whole = make(n_envs=1).learn(26)
    assert len(model.replay_buffer) == len(whole.replay_buffer) == 26
    np.testing.assert_array_equal(model.replay_buffer.rewards, whole.replay_buffer.rewards)
    np.testing.assert_array_equal(model.replay_buffer.flags, whole.replay_buffer.flags)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_a_new_environment_closes_the_episodes_of_the_old_one(n_envs: int) -> None:
    model = make(n_envs=n_envs).learn(13 * n_envs)
    model.set_env(DummyVecEnv([Counting] * n_envs))
    model.learn(13 * n_envs, reset_num_timesteps=False)
    batch = model.replay_buffer.draw(500)
    np.testing.assert_array_equal(batch.next_observations.numpy(), batch.observations.numpy() + 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["reward", "observation"])
def test_what_is_no_number_is_named_and_not_remembered(place: str, value: float) -> None:
    env = DummyVecEnv([lambda: Spoilt(place, value)] * 3)
    env.seed(0)
    model = DQN("MlpPolicy", env, **{**SMALL, "seed": None})
    with pytest.raises(EnvironmentFailed) as caught:
        model.learn(300)
    assert f"environment 1 returned {value} in its {place} at step 17" in str(caught.value)
    assert (caught.value.env_index, caught.value.step) == (1, 17)
    assert len(model.replay_buffer) == 16 * 3
    assert np.isfinite(model.replay_buffer.rewards).all()


def test_a_final_observation_that_is_no_number_is_named() -> None:
    class SpoiltEnd(Spoilt):
        def step(self, action: Any) -> Any:
            obs, reward, ended, truncated, info = super().step(action)
            return obs, reward, ended, truncated or self.taken == 17, info

    env = DummyVecEnv([lambda: SpoiltEnd("observation", np.nan)] * 2)
    env.seed(0)
    with pytest.raises(EnvironmentFailed, match="environment 1 returned nan in its observation at step 17"):
        DQN("MlpPolicy", env, **{**SMALL, "seed": None}).learn(300)


class SpoiltStart(CountingBox):
    """Shows NaN in its very first observation."""

    spoilt = True

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        if self.spoilt:
            obs[0], self.spoilt = np.nan, False
        return obs, info


@pytest.mark.parametrize("algorithm", [SAC, PPO])
def test_nan_in_the_first_reset_blames_the_environment(algorithm: Any) -> None:
    kwargs = SMALL if algorithm is SAC else {"n_steps": 8, "batch_size": 8, "device": "cpu"}
    with pytest.raises(EnvironmentFailed, match="environment 0 returned nan in its observation at step 0"):
        algorithm("MlpPolicy", SpoiltStart(), **kwargs).learn(30)


@pytest.mark.parametrize("algorithm", [SAC, PPO])
def test_infos_at_an_episode_end_are_those_of_step(algorithm: Any) -> None:
    kwargs = SMALL if algorithm is SAC else {"n_steps": 8, "batch_size": 8, "device": "cpu"}
    model, ends = algorithm("MlpPolicy", DummyVecEnv([CountingBox] * 2), **kwargs), []

    def look(locals_: Any, _: Any) -> None:
        for env in np.flatnonzero(locals_["dones"]):
            ends.append(locals_["infos"][env])

    model.learn(60, look)
    assert len(ends) > 4 and all(info["TimeLimit.truncated"] for info in ends)
    assert all(info["terminal_observation"][0] > 0 for info in ends)  # a reset shows 0


def test_numbers_too_large_to_be_squared_are_numbers() -> None:
    class Large(Counting):
        def step(self, action: Any) -> Any:
            obs, _, ended, truncated, info = super().step(action)
            return obs, 1e30, ended, truncated, info

    assert make(env=Large, learning_starts=50).learn(30).num_timesteps == 30


@pytest.mark.parametrize("algorithm", [DQN, SAC])
def test_what_callbacks_see(algorithm: Any) -> None:
    model, seen = make(algorithm, n_envs=2), []

    def look(locals_: Any, _: Any) -> None:
        seen.append(dict(locals_))

    model.learn(40, look)
    one = seen[-1]
    assert set(one) == {
        *("self", "env", "total_timesteps", "replay_buffer", "infos", "rewards", "dones", "new_obs"),
        *("actions", "buffer_actions", "num_collected_steps", "num_collected_episodes"),
        *("callback", "log_interval", "learning_starts", "action_noise", "obs_tensor"),
    }
    assert one["self"] is model and one["replay_buffer"] is model.replay_buffer
    assert one["new_obs"].shape == (2, 1) and one["rewards"].shape == one["dones"].shape == (2,)
    assert len(one["infos"]) == 2 and one["num_collected_steps"] == 1
    space = model.action_space
    for row in seen:
        assert all(space.contains(action) for action in row["actions"])
    if algorithm is SAC:
        stored = np.concatenate([row["buffer_actions"] for row in seen])
        executed = np.concatenate([row["actions"] for row in seen])
        np.testing.assert_allclose(executed, 3 + 2 * stored, rtol=1e-5)
        assert (np.abs(stored) <= 1).all()


class Sink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


def test_metrics_are_logged_every_few_episodes() -> None:
    sink = Sink()
    model = make(SAC)
    model.set_logger(Logger(None, [sink]))  # type: ignore[list-item]
    model.learn(60, log_interval=3)
    assert [row["time/episodes"] for row in sink.rows] == [3, 6, 9]
    assert [row["time/total_timesteps"] for row in sink.rows] == [17, 36, 53]
    assert [row["train/n_updates"] for row in sink.rows] == [7, 26, 43]
    names = {"train/actor_loss", "train/critic_loss", "train/ent_coef", "train/learning_rate"}
    assert names <= sink.rows[0].keys()
    sink.rows.clear()
    model.learn(40, LogEveryNTimesteps(10), log_interval=1000)
    assert [row["time/total_timesteps"] for row in sink.rows] == [10, 20, 30, 40]
    assert all(names <= row.keys() for row in sink.rows[1:])


class Endless(Counting):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.steps < 1000, "the training goes on for ever"
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, info


def test_training_ends_where_an_episode_does_not() -> None:
    model = DQN("MlpPolicy", Endless(), **{**SMALL, "train_freq": (1, "episode")})
    model.learn(30)
    assert model.num_timesteps == 30
