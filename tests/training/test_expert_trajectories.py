from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import (
    PPO,
    ExpertDataset,
    FakeImageEnv,
    MaskablePPO,
    VecFrameStack,
    VecNormalize,
    generate_expert_traj,
)
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper

KEYS = {"actions", "obs", "rewards", "episode_returns", "episode_starts"}


class Counting(gym.Env[Any, Any]):
    """Observations count from 10 times the length on; episodes of `length` steps; rewards are actions."""

    def __init__(self, length: int = 3, action_space: spaces.Space[Any] | None = None) -> None:
        self.length, self.count = length, 0
        self.observation_space = spaces.Box(-100, 100, (1,), np.float32)
        self.action_space = action_space or spaces.Discrete(4)

    def observe(self) -> np.ndarray:
        return np.array([10 * self.length + self.count], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.observe(), float(np.sum(action)), self.count == self.length, False, {}


def last_digit(obs: np.ndarray) -> int:
    assert obs.shape == (1,)
    return int(obs[0]) % 10


def counting(*lengths: int) -> VecEnv:
    return DummyVecEnv([lambda length=length: Counting(length) for length in lengths])


def test_a_function_is_recorded_as_documented(tmp_path: Path) -> None:
    data = generate_expert_traj(last_digit, tmp_path / "expert", Counting(), n_episodes=2)
    assert set(data) == KEYS
    assert data["obs"].tolist() == [[30], [31], [32]] * 2
    assert data["actions"].tolist() == [[0], [1], [2]] * 2
    assert data["rewards"].tolist() == [0, 1, 2] * 2
    assert data["episode_starts"].tolist() == [True, False, False] * 2
    assert data["episode_returns"].tolist() == [3, 3]
    with np.load(tmp_path / "expert.npz", allow_pickle=False) as file:
        assert set(file.files) == KEYS
        for key in KEYS:
            np.testing.assert_array_equal(file[key], data[key])


def test_expert_episodes_stay_whole_over_several_environments() -> None:
    data = generate_expert_traj(last_digit, None, counting(2, 4), n_episodes=5)
    episodes = np.split(data["obs"][:, 0], np.flatnonzero(data["episode_starts"])[1:])
    found = sorted(episode.tolist() for episode in episodes)
    assert found == [[20, 21]] * 2 + [[40, 41, 42, 43]] * 3
    assert len(data["episode_returns"]) == 5
    assert data["episode_returns"].sum() == data["rewards"].sum()


def test_recording_an_agent_keeps_its_training_intact() -> None:
    model = PPO("MlpPolicy", counting(3, 3), n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.learn(16)
    data = generate_expert_traj(model, n_episodes=3)
    for obs, action in zip(data["obs"], data["actions"], strict=True):
        assert model.predict(obs, deterministic=True)[0] == action[0]
    model.learn(16, reset_num_timesteps=False)
    assert model.num_timesteps == 32


def test_an_untrained_agent_is_trained_first() -> None:
    model = PPO("MlpPolicy", Counting(), n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    generate_expert_traj(model, n_timesteps=16, n_episodes=1)
    assert model.num_timesteps == 16


def test_what_is_recorded_is_before_normalisation() -> None:
    venv = VecNormalize(counting(3))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)
    before = {name: value.copy() for name, value in venv.state_dict().items()}
    data = generate_expert_traj(model, n_episodes=2)
    assert data["obs"].tolist() == [[30], [31], [32]] * 2
    assert data["episode_returns"].sum() == data["rewards"].sum() == data["actions"].sum()
    assert venv.training
    assert all((venv.state_dict()[name] == value).all() for name, value in before.items())
    stacked = VecFrameStack(VecNormalize(counting(3)), 2)
    with pytest.raises(UserError, match="put VecNormalize outermost"):
        generate_expert_traj(last_digit, None, stacked, n_episodes=1)


def test_stacks_are_recorded_as_the_agent_sees_them() -> None:
    venv = VecFrameStack(VecNormalize(counting(3), norm_obs=False), 2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)
    data = generate_expert_traj(model, n_episodes=2)
    assert data["obs"].tolist() == [[0, 30], [30, 31], [31, 32]] * 2
    assert data["rewards"].tolist() == data["actions"][:, 0].tolist()


def test_two_vec_normalize_record_what_is_below_both() -> None:
    plain = generate_expert_traj(last_digit, None, counting(3), n_episodes=2)
    inner = VecNormalize(counting(3), norm_reward=False)
    outer = VecNormalize(inner, norm_obs=False)
    model = PPO("MlpPolicy", outer, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)
    statistics = inner.obs_rms.mean.copy()
    data = generate_expert_traj(model, n_episodes=2)
    np.testing.assert_array_equal(data["obs"], plain["obs"])
    assert data["rewards"].tolist() == data["actions"][:, 0].tolist()
    assert (inner.obs_rms.mean == statistics).all() and inner.training and outer.training


class Bonus(VecEnvWrapper):
    """Pays 7 on top."""

    def wait_arrays(self) -> Any:
        step = self.venv.wait_arrays()
        step.rewards = step.rewards + 7
        return step


def test_a_wrapper_around_vec_normalize_is_named_when_recording() -> None:
    with pytest.warns(UserWarning, match="Bonus around VecNormalize may change"):
        generate_expert_traj(last_digit, None, Bonus(VecNormalize(counting(3))), n_episodes=1)


class Remembering:
    """An agent whose action is the number of steps since its episode began."""

    def predict(self, obs: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        assert deterministic
        state = np.zeros(len(obs), int) if state is None else state + 1
        state[episode_start] = 0
        return state.copy(), state


def test_an_agent_that_remembers_is_told_where_episodes_begin() -> None:
    data = generate_expert_traj(Remembering(), None, counting(2, 4), n_episodes=4)
    assert (data["actions"][:, 0] == data["obs"][:, 0] % 10).all()


class Masked(Counting):
    """Only two of four actions are valid."""

    def action_masks(self) -> np.ndarray:
        return np.array([False, False, True, True])


def test_a_masked_expert_takes_valid_actions_only() -> None:
    model = MaskablePPO("MlpPolicy", Masked(), n_steps=8, batch_size=8, seed=0, device="cpu")
    data = generate_expert_traj(model, None, Masked(20), n_episodes=2, deterministic=False)
    assert set(data["actions"][:, 0].tolist()) == {2, 3}


@pytest.mark.parametrize("channels_first", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_go_to_a_folder_beside_the_file(channels_first: bool, channels: int, tmp_path: Path) -> None:
    def make() -> gym.Env[Any, Any]:
        size = {"screen_height": 40, "screen_width": 36, "n_channels": channels}
        return FakeImageEnv(**size, discrete=True, channel_first=channels_first)

    seen = []

    def expert(obs: np.ndarray) -> int:
        seen.append(obs.copy())
        return 0

    data = generate_expert_traj(expert, tmp_path / "shots", make(), n_episodes=1, image_folder="frames")
    assert data["obs"][0] == "frames/shots_0.png"
    assert (tmp_path / data["obs"][-1]).is_file()
    dataset = ExpertDataset(tmp_path / "shots.npz", randomize=False, verbose=0)
    model = PPO("CnnPolicy", make(), n_steps=8, batch_size=8, device="cpu")
    from rlzoo.training.supervised import Demonstrations

    obs = Demonstrations(model, dataset).examples(np.arange(2)).obs.numpy()
    expected = np.stack(seen[:2])
    np.testing.assert_array_equal(obs, expected if channels_first else np.moveaxis(expected, -1, 1))
    with pytest.raises(UserError, match="give save_path"):
        generate_expert_traj(expert, None, make(), n_episodes=1)


def test_dict_observations_keep_their_parts() -> None:
    from rlzoo import BitFlippingEnv

    env = BitFlippingEnv(3)
    data = generate_expert_traj(lambda obs: env.action_space.sample(), None, env, n_episodes=2)
    assert {key for key in data if key.startswith("obs/")} == {
        "obs/observation", "obs/achieved_goal", "obs/desired_goal",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"n_episodes": 0}, "n_episodes must be at least 1"),
        ({"env": None}, "has no environment"),
        ({"n_timesteps": 5}, "a function is an expert as it is"),
        ({"model": 3}, "must be an agent or a function"),
        ({"env": Counting(action_space=spaces.MultiBinary(2))}, "not for MultiBinary"),
    ],
)
def test_mistakes_are_one_line(kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text) as error:
        generate_expert_traj(**{"model": last_digit, "env": Counting(), "n_episodes": 1, **kwargs})
    assert "\n" not in str(error.value)
