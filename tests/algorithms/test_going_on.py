"""Off-policy training that is taken up from a file equals, to the bit, one that was never interrupted."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    BaseCallback,
    BitFlippingEnv,
    HerReplayBuffer,
    LinearNormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    PrioritizedReplayBuffer,
    VecMonitor,
    VecNormalize,
)
from rlzoo.algorithms.agent import saving
from rlzoo.config import catalog
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import load_env_state
from rlzoo.training.off_policy_loop import off_policy, start_replay

OFF_POLICY = [name for name in catalog.names() if getattr(catalog.load(name), "loop", None) is off_policy]
CONTINUOUS = [name for name in OFF_POLICY if catalog.load(name).action_spaces == (spaces.Box,)]
SMALL: dict[str, Any] = {
    "buffer_size": 60,
    "learning_starts": 10,
    "batch_size": 4,
    "train_freq": 4,
    "gradient_steps": 2,
    "learning_rate": "lin_1e-2",
    "policy_kwargs": {"net_arch": [8]},
}
PRIORITIZED = {"replay_buffer_class": PrioritizedReplayBuffer}
DRIFTING = OrnsteinUhlenbeckActionNoise(np.zeros(2), np.full(2, 0.3))
FADING = LinearNormalActionNoise(np.zeros(2), np.full(2, 0.5), 50)


class RandomWalk(gym.Env[Any, Any]):
    """Observations and rewards from the environment's own generator; episodes of nine steps at most."""

    observation_space = spaces.Box(-1, 1, (3,))

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ended = self.np_random.random() < 0.1
        return self.observe(), float(self.np_random.normal() + np.sum(action)), ended, self.steps == 9, {}


@dataclass
class Case:
    """A training: its algorithm, what differs from SMALL, and where it is saved."""

    algo: str
    name: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    n_envs: int = 2
    saved_at: int = 58  # with a train_freq of 4, after the first step of a round
    total: int = 120
    normalized: bool = False
    goals: bool = False

    def __str__(self) -> str:
        return f"{self.algo}-{self.name}"

    def env(self, seed: int) -> Any:
        discrete = self.algo not in CONTINUOUS
        action_space = spaces.Discrete(3) if discrete else spaces.Box(-1, np.float32(3), (2,))
        make = (lambda: BitFlippingEnv(4, continuous=not discrete)) if self.goals else None
        venv: Any = VecMonitor(DummyVecEnv([make or (lambda: RandomWalk(action_space))] * self.n_envs))
        venv.seed(seed)
        return VecNormalize(venv) if self.normalized else venv

    def model(self, env: Any) -> Any:
        cls = catalog.load(self.algo)
        policy = "MultiInputPolicy" if self.goals else "MlpPolicy"
        kwargs = {**SMALL, **self.kwargs}
        return cls(policy, env, seed=0, device="cpu", **kwargs)


CASES = [
    *(Case(algo, "plain") for algo in OFF_POLICY),
    *(Case(algo, "normalized", normalized=True, saved_at=56) for algo in OFF_POLICY),
    *(Case(algo, "prioritized", PRIORITIZED) for algo in OFF_POLICY),
    *(Case(algo, "episodes", {"train_freq": (1, "episode"), "gradient_steps": -1}) for algo in OFF_POLICY),
    *(Case(algo, "one_env", {"train_freq": 1, "n_steps": 3}, 1, 57) for algo in OFF_POLICY),
    *(Case(algo, "drifting_noise", {"action_noise": DRIFTING}) for algo in CONTINUOUS),
    *(Case(algo, "fading_noise", {"action_noise": FADING, "random_exploration": 0.2}) for algo in CONTINUOUS),
    *(
        Case(algo, f"gsde_{freq}", {"use_sde": True, "sde_sample_freq": freq})
        for algo in CONTINUOUS
        if "use_sde" in catalog.load(algo).Config.__dataclass_fields__
        for freq in (-1, 2)
    ),
    Case("dqn", "rainbow", {"prioritized_replay": True, "double_q": True, "target_update_interval": 7}),
    Case("dqn", "beta_iters", {"prioritized_replay": True, "prioritized_replay_beta_iters": 200}),
    Case("dqn", "param_noise", {"param_noise": True}),
    Case(
        "ddpg", "param_noise", {"param_noise": AdaptiveParamNoiseSpec(), "param_noise_adaption_interval": 3}
    ),
    Case(
        "ddpg",
        "statistics",
        {"normalize_observations": True, "normalize_returns": True, "enable_popart": True},
        normalized=True,
    ),
    Case("sac", "fixed_entropy", {"ent_coef": 0.1, "policy_delay": 2}),
    Case("dqn", "goals", {"replay_buffer_class": HerReplayBuffer}, goals=True),
    Case("sac", "goals", {"replay_buffer_class": HerReplayBuffer}, goals=True),
]


class SaveAndReset(BaseCallback):
    """Saves the agent, then resets the environments as a training that goes on from the file does."""

    def __init__(self, folder: Path, at: int) -> None:
        super().__init__()
        self.folder, self.at = folder, at

    def _on_step(self) -> bool:
        if self.num_timesteps == self.at:
            model, env = self.model, self.training_env
            model.save_replay_buffer(self.folder / "replay")
            model.save(self.folder / "agent")
            env.seed(model.restart_seed())
            model._last_obs = env.reset()
            model._last_episode_starts = np.ones(env.num_envs, bool)
            model.end_episodes(np.arange(env.num_envs))
            model.buffer_in_sync = False
            start_replay(model)
        return True


def everything(model: Any) -> dict[str, Any]:
    """All that a checkpoint and a replay file hold of a model, apart from wall-counters times."""
    checkpoint = saving.to_checkpoint(model)
    state = checkpoint.state["state"]
    del state["callbacks"], state["ep_info_buffer"]
    replay = io.BytesIO()
    model.save_replay_buffer(replay)
    tensors = {
        f"{part}/{name}": np.asarray(value)
        for part in ("weights", "optimizers", "normalize")
        for name, value in getattr(checkpoint, part).items()
    }
    return {
        **tensors,
        "state": checkpoint.state,
        "replay": replay.getvalue(),
        "episodes": [(episode["r"], episode["l"]) for episode in model.ep_info_buffer],
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_training_goes_on_to_the_bit(case: Case, tmp_path: Path) -> None:
    model = case.model(case.env(1))
    model.learn(case.total, SaveAndReset(tmp_path, case.saved_at))

    torch.manual_seed(99), np.random.seed(99), random.seed(99)  # as in another process
    env = case.env(2)
    again = catalog.load(case.algo).load(tmp_path / "agent", env=env, device="cpu")
    if case.normalized:
        load_env_state(env, again.normalize_state)
    again.load_replay_buffer(tmp_path / "replay")
    assert again.num_timesteps == case.saved_at and len(again.replay_buffer)
    again.learn(case.total - case.saved_at, Nothing(), reset_num_timesteps=False)

    assert model.num_timesteps == again.num_timesteps and model.n_updates == again.n_updates > 10
    mine, other = everything(model), everything(again)
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other[name], err_msg=name)
        else:
            assert value == other[name], name


class Nothing(BaseCallback):
    """Beside the training as `SaveAndReset` is, without an effect."""

    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_resume_without_buffer_fills_a_new_one(algo: str) -> None:
    case = Case(algo, "empty", {"learning_starts": 20})
    model = case.model(case.env(1)).learn(80)
    file = io.BytesIO()
    model.save(file)
    again = catalog.load(algo).load(file, env=case.env(2), device="cpu")
    updates: list[int] = []
    sizes: list[int] = []

    def look(locals_: Any, _: Any) -> None:
        updates.append(again.n_updates)
        sizes.append(len(locals_["replay_buffer"]))

    again.learn(80, look, reset_num_timesteps=False)
    assert sizes[0] == 2
    assert {count for size, count in zip(sizes, updates, strict=True) if size <= 20} == {model.n_updates}
    assert again.n_updates > model.n_updates
