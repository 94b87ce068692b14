"""Every shipped entry makes an agent, on the spaces of its environment; one that replays also learns from it.

The spaces are recorded, so that environments need not be installed. Buffers and batches are small.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.config.hyperparams import load_file, shipped_folder
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.experiment.factories import build_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.training.off_policy_loop import off_policy

# Environment -> length of the observation and number of actions, and with goals the length of a goal.
# fmt: off
DISCRETE = {
    "CartPole": (4, 2), "CartPoleBulletEnv": (4, 2), "MountainCar": (2, 3), "Acrobot": (6, 3),
    "LunarLander": (8, 4), "MiniGrid": (2835, 7), "InvalidActionDiscrete": (80, 80),
}
CONTINUOUS = {
    "Pendulum": (3, 1), "CartPoleContinuousBulletEnv": (4, 1),
    "MountainCarContinuous": (2, 1), "LunarLanderContinuous": (8, 2),
    "BipedalWalker": (24, 4), "BipedalWalkerHardcore": (24, 4), "CarRacing": (70, 3),
    "HalfCheetah": (17, 6), "Ant": (105, 8), "Hopper": (11, 3), "Walker2d": (17, 6), "Humanoid": (348, 17),
    "HumanoidStandup": (348, 17), "Swimmer": (8, 2), "Reacher": (10, 2), "InvertedPendulum": (4, 1),
    "InvertedDoublePendulum": (9, 1),
    "HalfCheetahBulletEnv": (26, 6), "AntBulletEnv": (28, 8), "HopperBulletEnv": (15, 3),
    "Walker2DBulletEnv": (22, 6), "HumanoidBulletEnv": (44, 17), "ReacherBulletEnv": (9, 2),
    "InvertedDoublePendulumBulletEnv": (9, 1), "InvertedPendulumSwingupBulletEnv": (5, 1),
    "MinitaurBulletEnv": (28, 8), "MinitaurBulletDuckEnv": (28, 8),
    "donkey-generated-track": (105, 2), "NeckEnvRelative": (40, 4), "A1Walking": (40, 12),
    "A1Jumping": (40, 12), "RocketLander": (20, 3),
}
GOALS = {
    "FetchReach": (10, 4, 3), "FetchReachDense": (10, 4, 3), "FetchPush": (25, 4, 3),
    "FetchSlide": (25, 4, 3),
    "FetchPickAndPlace": (25, 4, 3), "PandaReach": (6, 3, 3), "PandaPush": (18, 3, 3),
    "PandaSlide": (18, 3, 3), "PandaPickAndPlace": (19, 4, 3), "PandaStack": (31, 4, 6), "parking": (6, 2, 6),
    "NeckGoalEnvRelativeSparse": (40, 4, 3), "NeckGoalEnvRelativeDense": (40, 4, 3),
}
# fmt: on
DISCRETE_ONLY = ("acer", "dqn", "ppo_mask", "qrdqn")
SMALL = {"buffer_size": 64, "batch_size": 4, "learning_starts": 0, "train_freq": 1, "gradient_steps": 1}


class Episodes(gym.Env[Any, Any]):
    """Episodes of two steps in given spaces."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.n_steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.n_steps += 1
        return self.observation_space.sample(), -1.0, False, self.n_steps == 2, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.05).astype(np.float32)


def spaces_of(algo: str, entry: str, values: dict[str, Any]) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Observations and actions of the environment that an entry is for."""
    name = "MiniGrid" if entry.startswith("MiniGrid") else entry.rpartition("-v")[0] or entry
    name = name.removesuffix("NoVel").removeprefix("Tensor")
    if name in ("atari", "default"):
        goals = values["policy"] == "MultiInputPolicy"
        kind = (
            "CartPole" if name == "atari" or algo in DISCRETE_ONLY else "FetchReach" if goals else "Pendulum"
        )
        name = kind
    vector, n_actions = {**DISCRETE, **CONTINUOUS, **GOALS}[name][:2]
    observations: spaces.Space[Any] = spaces.Box(-10.0, 10.0, (vector,), np.float32)
    if values["policy"].startswith("Cnn"):
        observations = spaces.Box(0, 255, (values.get("frame_stack", 1), 84, 84), np.uint8)
    if name in GOALS:
        goal = spaces.Box(-10.0, 10.0, GOALS[name][2:], np.float32)
        observations = spaces.Dict(observation=observations, achieved_goal=goal, desired_goal=goal)
    if name in DISCRETE:
        return observations, spaces.Discrete(n_actions)
    return observations, spaces.Box(-1.0, 1.0, (n_actions,), np.float32)


FOLDER = shipped_folder("hyperparams")
ENTRIES = [
    (str(path.relative_to(FOLDER).with_suffix("")), entry)
    for path in sorted(FOLDER.rglob("*.yml"))
    for entry in load_file(path).entries
]


@pytest.mark.filterwarnings("ignore:ppo. is now ppo")
@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_entry_makes_an_agent(file: str, entry: str) -> None:
    algo = file.rpartition("/")[2]
    values = dict(load_file(FOLDER / f"{file}.yml").entries[entry])
    values.pop("env_wrapper", None)  # `rlzoo validate` checks these, and the spaces are those behind them
    observation_space, action_space = spaces_of(algo, entry, values)
    replays = resolve_config(algo, values).algorithm.loop is off_policy
    resolved = resolve_config(algo, {**values, **(SMALL if replays else {})})
    venv = DummyVecEnv([lambda: Episodes(observation_space, action_space)] * resolved.n_envs)
    model = build_model(resolved, venv, seed=0, device="cpu", verbose=0)
    actions, _ = model.predict(venv.reset())
    assert all(action_space.contains(action) for action in actions)
    if replays:
        model.learn(8 * resolved.n_envs)
        assert model.n_updates > 0
        assert all(vector.isfinite().all() for vector in model.parameter_vectors())
