"""action_probability: the distribution that `predict` samples from, in the units of the environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import DDPG, DQN, PPO, QRDQN, SAC, TD3, TQC
from rlzoo.core.errors import UserError

OBSERVATION = np.array([0.3, -0.2], np.float32)
BATCH = np.stack([OBSERVATION, -OBSERVATION])


class Still(gym.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return OBSERVATION, {}

    def step(self, action):
        return OBSERVATION, 0.0, False, False, {}


def agent(action_space, algorithm=PPO, **kwargs):
    policy_kwargs = {**({"ortho_init": False} if algorithm is PPO else {}), **kwargs.pop("policy_kwargs", {})}
    return algorithm(
        "MlpPolicy", Still(action_space), policy_kwargs=policy_kwargs, seed=0, device="cpu", **kwargs
    )


DISCRETE = {
    "Discrete": spaces.Discrete(3),
    "DiscreteFrom": spaces.Discrete(3, start=5),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiDiscreteFrom": spaces.MultiDiscrete([2, 3], start=[1, 4]),
    "MultiDiscrete2d": spaces.MultiDiscrete([[2, 3], [3, 2]]),
    "MultiBinary": spaces.MultiBinary(3),
}


def every_action(space):
    if isinstance(space, spaces.Discrete):
        return [space.start + i for i in range(space.n)]
    sizes = np.full(space.shape, 2) if isinstance(space, spaces.MultiBinary) else space.nvec
    start = getattr(space, "start", np.zeros(space.shape, int))
    return [start + np.array(index).reshape(space.shape) for index in np.ndindex(*sizes.reshape(-1))]


@pytest.mark.parametrize("name", DISCRETE)
def test_masses_are_those_of_the_actions_that_predict_gives(name):
    space = DISCRETE[name]
    model = agent(space)
    masses = np.array([model.action_probability(OBSERVATION, actions=a) for a in every_action(space)])
    assert masses.sum() == pytest.approx(1, abs=1e-5)
    mode, _ = model.predict(OBSERVATION, deterministic=True)
    assert model.action_probability(OBSERVATION, actions=mode) == pytest.approx(masses.max())


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (PPO, {"policy_kwargs": {"log_std_init": -1.0}}),
        (PPO, {"use_sde": True, "policy_kwargs": {"squash_output": True, "log_std_init": -2.0}}),
        (SAC, {}),
        (SAC, {"use_sde": True}),
        (TQC, {}),
    ],
)
def test_density_integrates_to_one_in_the_units_of_the_space(algorithm, options):
    space = spaces.Box(np.float32(-2), np.float32(6), (1,))
    model = agent(space, algorithm, **options)
    grid = np.linspace(-2, 6, 20_001)[1:-1]
    density = model.action_probability(
        np.tile(OBSERVATION, (len(grid), 1)), actions=grid[:, None].astype(np.float32)
    )
    assert density.shape == grid.shape
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])])
def test_a_single_observation_has_no_batch_axis(space):
    model = agent(space)
    single, batch = model.action_probability(OBSERVATION), model.action_probability(BATCH)
    single, batch = (part if isinstance(part, tuple | list) else [part] for part in (single, batch))
    for one, many in zip(single, batch, strict=True):
        assert many.shape == (2, *one.shape)
        np.testing.assert_allclose(one, many[0], atol=1e-6)
    actions, _ = model.predict(BATCH)
    log_probs = model.action_probability(BATCH, actions=actions, logp=True)
    one = model.action_probability(OBSERVATION, actions=actions[0])
    assert log_probs.shape == (2,) and np.shape(one) == ()
    assert np.log(one) == pytest.approx(log_probs[0], abs=1e-5)


def test_as_many_actions_as_observations():
    with pytest.raises(UserError, match="3 actions were given for 2 observations"):
        agent(spaces.Discrete(3)).action_probability(BATCH, actions=[0, 1, 2])


@pytest.mark.parametrize("algorithm", [DQN, QRDQN, DDPG, TD3])
def test_deterministic_policies_have_none(algorithm):
    space = spaces.Discrete(3) if algorithm in (DQN, QRDQN) else spaces.Box(-1, 1, (2,))
    with pytest.raises(UserError, match="Policy is deterministic: its actions have no probabilities"):
        agent(space, algorithm).action_probability(OBSERVATION)
