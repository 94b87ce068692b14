"""Policies for random search: deterministic, without a critic, and small.

The policies of ARS (Mania et al. 2018, https://arxiv.org/abs/1803.07055) are linear maps from normalised
observations to actions; multi-layer perceptrons work as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.accel.array_actor import ACTIVATIONS, Act, ArrayActor, Linear
from rlzoo.accel.switch import enabled
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs, action_size
from rlzoo.networks.torch_layers import create_mlp, layer_widths
from rlzoo.policies.base_policy import BasePolicy

FAST = enabled("array_actor")


class ARSPolicy(BasePolicy):
    """A multi-layer perceptron from flattened observations to actions (Box), or to one score per choice.

    :param lr_schedule: not used; every policy is given one
    :param net_arch: widths of the hidden layers, by default two of 64
    :param activation_fn: activation of the hidden layers
    :param with_bias: linear layers have a bias
    :param squash_output: end with a tanh and scale actions to the Box; otherwise they are clipped to it
    """

    def __init__(
        self,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        lr_schedule: Callable[[float], float] | None = None,
        net_arch: Sequence[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        with_bias: bool = True,
        squash_output: bool = True,
    ) -> None:
        squash_output = squash_output and isinstance(action_space, spaces.Box)
        super().__init__(observation_space, action_space, squash_output=squash_output)
        self.features_extractor = self.make_features_extractor()
        self.net_arch = layer_widths([64, 64] if net_arch is None else net_arch)
        self.action_net = self.make_action_net(activation_fn, with_bias)
        if squash_output and not np.isfinite([action_space.low, action_space.high]).all():  # type: ignore[attr-defined]
            raise UserError(
                "squash_output=True needs actions with bounds; without them give squash_output=False"
            )

    def n_outputs(self) -> int:
        """Return numbers that the network gives."""
        space = self.action_space
        return int(space.n) if isinstance(space, spaces.Discrete) else action_size(space)

    def make_action_net(self, activation_fn: type[nn.Module], with_bias: bool) -> nn.Module:
        """Return the network from features to scores or actions."""
        layers = create_mlp(
            self.features_extractor.features_dim,
            self.n_outputs(),
            self.net_arch,
            activation_fn,
            squash_output=self.squash_output,
            with_bias=with_bias,
        )
        return nn.Sequential(*layers)

    def forward(self, obs: TensorObs) -> Tensor:
        """Return actions for raw observations: indices [B], or [B, A] before scaling or clipping."""
        outputs: Tensor = self.action_net(self.extract_features(obs, self.features_extractor))
        return outputs.argmax(dim=1) if isinstance(self.action_space, spaces.Discrete) else outputs

    def q_values(self, obs: TensorObs) -> Tensor:
        """Return scores of the choices of a Discrete space, [B, n]: the highest is chosen."""
        scores: Tensor = self.action_net(self.extract_features(obs, self.features_extractor))
        return scores

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        actions: Tensor = self(observation)
        shape = self.action_space.shape or ()
        return actions.reshape(-1, *shape)


class ARSLinearPolicy(ARSPolicy):
    """A linear map, by default without bias and clipped to the Box."""

    def __init__(
        self,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        lr_schedule: Callable[[float], float] | None = None,
        with_bias: bool = False,
        squash_output: bool = False,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            with_bias=with_bias,
            squash_output=squash_output,
        )

    def make_action_net(self, activation_fn: type[nn.Module], with_bias: bool) -> nn.Module:
        layer = nn.Linear(self.features_extractor.features_dim, self.n_outputs(), bias=with_bias)
        return nn.Sequential(layer, nn.Tanh()) if self.squash_output else layer


class PolicyActor:
    """Actor with one copy of a policy per environment, each with separate weights."""

    def __init__(self, policy: nn.Module) -> None:
        self.policy = copy.deepcopy(policy).cpu()

    def with_weights(self, weights: np.ndarray) -> Act:
        """Return a function that acts for `n_envs` environments; see `ArrayActor.with_weights`."""
        policies: list[Any] = [copy.deepcopy(self.policy) for _ in weights]
        for policy, row in zip(policies, weights, strict=True):
            learned = [parameter for parameter in policy.parameters() if parameter.requires_grad]
            nn.utils.vector_to_parameters(torch.from_numpy(row), learned)

        def act(obs: np.ndarray) -> np.ndarray:
            rows = [
                policy.predict(obs[i : i + 1], deterministic=True)[0] for i, policy in enumerate(policies)
            ]
            return np.concatenate(rows)

        return act


def make_actor(policy: nn.Module) -> ArrayActor | PolicyActor:
    """Return the fastest actor that does what the policy does: in NumPy, or a user's own policy."""
    if not FAST or type(policy) not in (ARSPolicy, ARSLinearPolicy):
        return PolicyActor(policy)
    assert isinstance(policy, ARSPolicy)
    net = policy.action_net
    layers: list[Linear | str] = []
    for part in net if isinstance(net, nn.Sequential) else [net]:
        if type(part) is nn.Linear:
            layers.append(Linear(part.in_features, part.out_features, part.bias is not None))
        elif type(part) is getattr(nn, type(part).__name__, None) and type(part).__name__ in ACTIVATIONS:
            layers.append(type(part).__name__)
        else:
            return PolicyActor(policy)
    return ArrayActor(policy.observation_space, policy.action_space, layers, policy.squash_output)
