"""Policies in NumPy do what they do in PyTorch, each environment with weights of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.array_actor import ACTIVATIONS, ArrayActor
from rlzoo.core.errors import UserError
from rlzoo.policies.linear_policy import ARSLinearPolicy, ARSPolicy, PolicyActor, make_actor

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "Box": spaces.Box(-3, 3, (4,), np.float32),
    "Box64": spaces.Box(-3, 3, (2, 3), np.float64),
    "Image": spaces.Box(0, 255, (1, 5, 4), np.uint8),
    "Discrete": spaces.Discrete(5, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "MultiBinary": spaces.MultiBinary(3),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(3, start=4),
    "Box": spaces.Box(np.array([-1, 0], np.float32), np.array([2, 0.5], np.float32)),
    "Box2d": spaces.Box(-2, 1, (2, 2), np.float64),
}
N_ENVS = 5


def policies(observation: str, action: str) -> list[ARSPolicy]:
    arguments = (OBSERVATIONS[observation], ACTIONS[action])
    made: list[ARSPolicy] = [
        ARSLinearPolicy(*arguments),
        ARSLinearPolicy(*arguments, with_bias=True, squash_output=True),
        ARSPolicy(*arguments, net_arch=[6]),
        ARSPolicy(*arguments, net_arch=[6, 3], squash_output=False, with_bias=False),
    ]
    return made + [
        ARSPolicy(*arguments, net_arch=[4], activation_fn=getattr(nn, name)) for name in ACTIVATIONS
    ]


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_actions_are_those_of_the_policy(observation: str, action: str) -> None:
    space = OBSERVATIONS[observation]
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(N_ENVS)])
    for policy in policies(observation, action):
        actor = make_actor(policy)
        assert type(actor) is ArrayActor
        n_parameters = sum(parameter.numel() for parameter in policy.parameters())
        weights = torch.randn(N_ENVS, n_parameters, generator=torch.Generator().manual_seed(0)).numpy()
        for act in (actor.with_weights(weights), PolicyActor(policy).with_weights(weights)):
            actions = act(obs)
            assert actions.dtype == policy.action_space.dtype
            for row in range(N_ENVS):
                nn.utils.vector_to_parameters(torch.from_numpy(weights[row].copy()), policy.parameters())
                expected, _ = policy.predict(obs[row], deterministic=True)
                np.testing.assert_allclose(actions[row], expected, rtol=1e-5, atol=1e-6)
                assert policy.action_space.contains(actions[row])


def test_a_policy_that_numpy_cannot_do_acts_as_it_is() -> None:
    class Mine(ARSPolicy):
        def forward(self, obs: Any) -> torch.Tensor:
            return -super().forward(obs)

    spaces_ = (OBSERVATIONS["Box"], ACTIONS["Box"])
    assert isinstance(make_actor(Mine(*spaces_)), PolicyActor)
    assert isinstance(make_actor(ARSPolicy(*spaces_, activation_fn=nn.Softplus)), PolicyActor)


def test_names_of_parameters_are_those_of_the_contrib_package() -> None:
    linear, mlp = policies("Box", "Box")[0], policies("Box", "Box")[2]
    assert list(linear.state_dict()) == ["action_net.weight"]
    names = [f"action_net.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")]
    assert list(mlp.state_dict()) == names


def test_squashing_needs_bounds() -> None:
    with pytest.raises(UserError, match="squash_output"):
        ARSPolicy(OBSERVATIONS["Box"], spaces.Box(-np.inf, np.inf, (1,)))
    ARSLinearPolicy(OBSERVATIONS["Box"], spaces.Box(-np.inf, np.inf, (1,)))
