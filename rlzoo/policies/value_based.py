"""Policies for value-based algorithms: a Q-network and its target network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.accel.fast_mlp import fast_forward
from rlzoo.accel.flat_parameters import without_dynamo
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
    create_mlp,
    features_of,
    layer_widths,
)
from rlzoo.policies.base_policy import BasePolicy, PolicyPart, variants


class QNetwork(PolicyPart):
    """Raw observations -> Q values [B, n_actions], or quantiles of the return [B, n_quantiles, n_actions].

    A dueling network (Wang et al. 2016, https://arxiv.org/abs/1511.06581, eq. 9) splits behind the features:
    Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a').

    :param features_dim: of the extractor
    :param net_arch: widths of the hidden layers; a dueling network has them twice
    :param layer_norm: normalise hidden layers before their activation, and features that are learned
    :param n_quantiles: None for Q values
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        normalize_images: bool = True,
        *,
        dueling: bool = False,
        layer_norm: bool = False,
        n_quantiles: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, features_extractor, normalize_images)
        net_arch = [64, 64] if net_arch is None else net_arch
        self.net_arch, self.features_dim, self.activation_fn = net_arch, features_dim, activation_fn
        n_actions = int(action_space.n)
        self.n_actions, self.n_quantiles = n_actions, n_quantiles
        trained = any(parameter.requires_grad for parameter in features_extractor.parameters())

        def stream(n_outputs: int) -> nn.Sequential:
            norm = [nn.LayerNorm] if layer_norm else []
            first = [nn.LayerNorm(features_dim)] if layer_norm and trained else []
            n_outputs *= n_quantiles or 1
            layers = create_mlp(features_dim, n_outputs, net_arch, activation_fn, post_linear_modules=norm)
            return nn.Sequential(*first, *layers)

        if dueling:
            self.advantage_net, self.value_net = stream(n_actions), stream(1)
        elif n_quantiles is None:
            self.q_net = stream(n_actions)
        else:
            self.quantile_net = stream(n_actions)
        head = "advantage_net" if dueling else "q_net" if n_quantiles is None else "quantile_net"
        self.head, self.dueling = head, dueling

    def features(self, obs: TensorObs) -> Tensor:
        """Return the features, [B, features_dim]."""
        features: Tensor = features_of(
            self.features_extractor, obs, self.observation_space, self.normalize_images
        )
        return features

    def forward(self, obs: TensorObs) -> Tensor:
        features = self.features(obs)
        head: nn.Module = self._modules[self.head]  # type: ignore[assignment]
        q = self._shaped(fast_forward(head, features))
        if not self.dueling:
            return q
        values = fast_forward(self.value_net, features)
        if self.n_quantiles is not None:
            values = values.unsqueeze(-1)
        return values + q - q.mean(dim=-1, keepdim=True)

    def _predict(self, observation: TensorObs, deterministic: bool = True) -> Tensor:
        values: Tensor = self(observation)
        q = values if self.n_quantiles is None else values.mean(dim=1)
        return q.argmax(dim=1)

    def _shaped(self, out: Tensor) -> Tensor:
        return out if self.n_quantiles is None else out.view(-1, self.n_quantiles, self.n_actions)


class QuantileNetwork(QNetwork):
    """QNetwork of quantiles of the return, [B, n_quantiles, n_actions] (Dabney et al. 2018)."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        n_quantiles: int = 200,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        kwargs["n_quantiles"] = n_quantiles
        super().__init__(observation_space, action_space, features_extractor, features_dim, *args, **kwargs)


class DQNPolicy(BasePolicy):
    """Policy that takes the action of the largest Q-value.

    :param lr_schedule: learning rate as a function of the remaining progress; the optimiser starts at its
        value for 1
    :param net_arch: widths of the hidden layers; by default two of 64, none after a NatureCNN
    :param activation_fn: activation of the hidden layers
    :param dueling, layer_norm: see QNetwork
    :param normalize_images: divide images by 255
    :param optimizer_class: called with the parameters, `lr` and `optimizer_kwargs`
    """

    training_only_keys = ("q_net_target.",)

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        lr_schedule: Callable[[float], float],
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        dueling: bool = False,
        layer_norm: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        if net_arch is None:
            net_arch = [] if issubclass(features_extractor_class, NatureCNN) else [64, 64]
        self.net_arch, self.activation_fn = list(layer_widths(net_arch)), activation_fn
        self.dueling, self.layer_norm = dueling, layer_norm
        self._build()
        self.target_net().load_state_dict(self.online_net().state_dict())
        self.target_net().requires_grad_(False).eval()
        make: Any = without_dynamo(self.optimizer_class)
        try:
            self.optimizer = make(self.online_net().parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
        except (TypeError, ValueError) as error:
            raise UserError(f"the policy's optimizer_class or optimizer_kwargs: {error}") from error

    def _build(self) -> None:
        self.q_net = self.own("q_net", self.make_q_net())
        self.q_net_target = self.own("q_net_target", self.make_q_net())

    @property
    def net_args(self) -> dict[str, Any]:
        """What a network is made from, besides its features extractor."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "net_arch": self.net_arch,
            "activation_fn": self.activation_fn,
            "normalize_images": self.normalize_images,
        }

    def make_q_net(self) -> Any:
        """Return a new network; hook for custom ones."""
        return self._made(QNetwork)

    def _made(self, network: type[QNetwork]) -> QNetwork:
        arguments = self._update_features_extractor(self.net_args)
        return network(**arguments, dueling=self.dueling, layer_norm=self.layer_norm)

    def online_net(self) -> nn.Module:
        """Return the online network, which is trained."""
        return self.q_net

    def target_net(self) -> nn.Module:
        """Return the target network."""
        return self.q_net_target

    def train(self, mode: bool = True) -> DQNPolicy:
        """Set training or evaluation mode; the target network is always in evaluation mode."""
        super().train(mode)
        self.target_net().eval()
        return self

    def q_values(self, obs: TensorObs) -> Tensor:
        """Return Q-values [B, n_actions] of raw observations."""
        q: Tensor = self.q_net(obs)
        return q

    def predict_values(self, obs: TensorObs) -> Tensor:
        """Return values [B, 1] of raw observations: those of the best actions."""
        return self.q_values(obs).amax(dim=1, keepdim=True)

    def forward(self, obs: TensorObs, deterministic: bool = True) -> Tensor:
        """Return the best actions [B]."""
        return self._predict(obs, deterministic)

    def _predict(self, observation: TensorObs, deterministic: bool = True) -> Tensor:
        return self.q_values(observation).argmax(dim=1)


class QRDQNPolicy(DQNPolicy):
    """Policy that takes the action of the largest mean of the quantiles of the return.

    :param n_quantiles: how many are estimated for each action
    """

    training_only_keys = ("quantile_net_target.",)

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        lr_schedule: Callable[[float], float],
        n_quantiles: int = 200,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        **kwargs: Any,
    ) -> None:
        if type(n_quantiles) is not int or n_quantiles < 1:
            raise UserError(f"n_quantiles must be a positive integer, not {n_quantiles!r}")
        self.n_quantiles = n_quantiles
        super().__init__(observation_space, action_space, lr_schedule, net_arch, activation_fn, **kwargs)

    def _build(self) -> None:
        self.quantile_net = self.own("quantile_net", self.make_quantile_net())
        self.quantile_net_target = self.own("quantile_net_target", self.make_quantile_net())

    @property
    def net_args(self) -> dict[str, Any]:
        return {**super().net_args, "n_quantiles": self.n_quantiles}

    def make_quantile_net(self) -> Any:
        """Return a new network; hook for custom ones."""
        return self._made(QuantileNetwork)

    def online_net(self) -> nn.Module:
        return self.quantile_net

    def target_net(self) -> nn.Module:
        return self.quantile_net_target

    def quantiles(self, obs: TensorObs) -> Tensor:
        """Return quantiles of the return, [B, n_quantiles, n_actions], for raw observations."""
        quantiles: Tensor = self.quantile_net(obs)
        return quantiles

    def q_values(self, obs: TensorObs) -> Tensor:
        return self.quantiles(obs).mean(dim=1)


DQN_POLICIES = variants(DQNPolicy, "DQN")
QRDQN_POLICIES = variants(QRDQNPolicy, "QRDQN")

# Files name a variant, such as DQNCnnPolicy, as a class of this module.
for _policies in (DQN_POLICIES, QRDQN_POLICIES):
    globals().update({policy.__name__: policy for policy in _policies.values()})
