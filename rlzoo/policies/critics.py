"""Critics for continuous actions: Q-values, or quantiles of the return, of observations and actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs, action_size
from rlzoo.networks.ensemble import EnsembleMlp
from rlzoo.networks.torch_layers import BaseFeaturesExtractor, create_mlp, features_of
from rlzoo.policies.base_policy import BaseModel, SavableModule


class Critics(EnsembleMlp, SavableModule):
    """`n_critics` action-value functions: Q_i(s, a), or their quantiles, for all i at once.

    :param net_arch: widths of the hidden layers
    :param features_dim: of the extractor
    :param share_features_extractor: the extractor is the actor's, which the critics' loss does not change
    :param n_outputs: of each critic
    :param layers: further keywords of `EnsembleMlp`
    """

    optimizer: torch.optim.Optimizer  # set by the algorithm

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        net_arch: Sequence[int],
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        activation_fn: type[nn.Module] = nn.ReLU,
        normalize_images: bool = True,
        n_critics: int = 2,
        share_features_extractor: bool = False,
        *,
        n_outputs: int = 1,
        **layers: Any,
    ) -> None:
        width = features_dim + action_size(action_space)
        super().__init__(n_critics, width, n_outputs, net_arch, activation_fn, **layers)
        self.observation_space, self.normalize_images = observation_space, normalize_images
        self.features_extractor = features_extractor
        self.share_features_extractor = share_features_extractor

    def __getattr__(self, name: str) -> nn.Module | Tensor:
        """Return `qf0`, `qf1`, ...: the critics one by one, as in `q_networks`."""
        index = name.removeprefix("qf")
        if index != name and index.isdecimal() and int(index) < self.n:
            return self.networks()[int(index)]
        return super().__getattr__(name)

    def forward(self, obs: TensorObs, actions: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Return the values [B, n_outputs] of each critic, as a tuple; arguments as in `all_values`."""
        return self.all_values(obs, actions).unbind()

    def all_values(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return values [n_critics, B, n_outputs] of raw observations and actions [B, ...]."""
        if actions.dim() != 2:
            actions = actions.reshape(len(actions), -1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.share_features_extractor):
            features = self.extract_features(obs)
        return super().forward(torch.cat([features, actions], dim=1))

    def first_values(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Compute values [B, n_outputs] that the first critic gives to actions; features get no gradient."""
        with torch.no_grad():
            features = self.extract_features(obs)
        return super().first(torch.cat([features, actions], dim=1))

    def q1_forward(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return values [B, n_outputs] that the first critic gives to actions."""
        return self.first_values(obs, actions)

    @property
    def n_critics(self) -> int:
        """Number of critics."""
        return self.n

    @property
    def n_quantiles(self) -> int:
        """Number of outputs of each critic: quantiles of the return for TQC, else one value."""
        last: Any = self.layers[-1]
        return int(last.weight.shape[2])

    @property
    def quantiles_total(self) -> int:
        """Number of outputs of all critics."""
        return self.n_critics * self.n_quantiles

    @property
    def q_networks(self) -> list[nn.Sequential]:
        """The critics behind their features, one by one; see `EnsembleMlp.networks`."""
        return self.networks()

    def extract_features(self, obs: TensorObs) -> Tensor:
        features: Tensor = features_of(
            self.features_extractor, obs, self.observation_space, self.normalize_images
        )
        return features

    def trainable_parameters(self) -> list[nn.Parameter]:
        """Return what the critics' loss changes: all but an extractor that is the actor's."""
        return trainable_parameters_of(self)


class QuantileCritics(Critics):
    """Critics whose outputs are `n_quantiles` quantiles of the return each."""

    def __init__(self, *args: Any, n_quantiles: int = 25, **kwargs: Any) -> None:
        super().__init__(*args, n_outputs=n_quantiles, **kwargs)

    def forward(self, obs: TensorObs, actions: Tensor) -> Tensor:  # type: ignore[override]
        """Return quantiles [B, n_critics, n_quantiles]."""
        return self.all_values(obs, actions).transpose(0, 1)


# ---------------------------------------------------------------------- critics of users


def values_of(critic: Any, obs: TensorObs, actions: Tensor) -> Tensor:
    """Return values [n_critics, B, n_outputs] of critics that give a tuple, or quantiles by row."""
    given = critic(obs, actions)
    if isinstance(given, Tensor) and given.dim() != 3:
        raise UserError(
            f"{type(critic).__name__} must return a tuple with the values [B, 1] of each critic (of TQC:"
            f" quantiles [B, n_critics, n_quantiles]), not a tensor of shape {tuple(given.shape)}"
        )
    return given.transpose(0, 1) if isinstance(given, Tensor) else torch.stack(tuple(given))


def first_values_of(critic: Any, obs: TensorObs, actions: Tensor) -> Tensor:
    """Return values [B, n_outputs] of the first critic."""
    own: Any = getattr(critic, "q1_forward", None)
    values: Tensor = values_of(critic, obs, actions)[0] if own is None else own(obs, actions)
    return values


def trainable_parameters_of(critic: Any) -> list[nn.Parameter]:
    """Return what the critics' loss changes: all but an extractor that is the actor's."""
    shared = getattr(critic, "share_features_extractor", False)
    named = critic.named_parameters()
    return [p for name, p in named if not (shared and name.startswith("features_extractor."))]


class ContinuousCritic(BaseModel):
    """Critics as separate networks, `q_networks`: a base class for users' critics.

    `Critics` computes the same in fewer products; a policy has these where its class overrides `make_critic`.

    :param net_arch: widths of the hidden layers
    :param features_dim: of the extractor
    :param share_features_extractor: the extractor is the actor's, which the critics' loss does not change
    """

    all_values, first_values, trainable_parameters = values_of, first_values_of, trainable_parameters_of
    n_outputs = 1

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        net_arch: list[int],
        features_extractor: nn.Module,
        features_dim: int,
        activation_fn: type[nn.Module] = nn.ReLU,
        normalize_images: bool = True,
        n_critics: int = 2,
        share_features_extractor: bool = True,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            features_extractor=features_extractor,
            normalize_images=normalize_images,
        )
        self.n_critics, self.share_features_extractor = n_critics, share_features_extractor
        width = features_dim + action_size(action_space)
        self.q_networks: list[nn.Module] = []
        for i in range(n_critics):
            network = nn.Sequential(*create_mlp(width, self.n_outputs, net_arch, activation_fn))
            self.add_module(f"qf{i}", network)
            self.q_networks.append(network)

    def forward(self, obs: TensorObs, actions: Tensor) -> Any:
        """Return the values [B, 1] of each critic, as a tuple."""
        inputs = self._inputs(obs, actions)
        return tuple(network(inputs) for network in self.q_networks)

    def q1_forward(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return values [B, 1] that the first critic gives to actions; features get no gradient."""
        with torch.no_grad():
            features = self.extract_features(obs, self.features_extractor)
        values: Tensor = self.q_networks[0](torch.cat([features, actions], dim=1))
        return values

    def _inputs(self, obs: TensorObs, actions: Tensor) -> Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.share_features_extractor):
            features = self.extract_features(obs, self.features_extractor)
        return torch.cat([features, actions], dim=1)


class QuantileCritic(ContinuousCritic):
    """As ContinuousCritic, with outputs that are `n_quantiles` quantiles of the return."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        net_arch: list[int],
        features_extractor: nn.Module,
        features_dim: int,
        activation_fn: type[nn.Module] = nn.ReLU,
        normalize_images: bool = True,
        n_quantiles: int = 25,
        n_critics: int = 2,
        share_features_extractor: bool = False,
    ) -> None:
        self.n_outputs = n_quantiles
        super().__init__(
            observation_space,
            action_space,
            net_arch,
            features_extractor,
            features_dim,
            activation_fn,
            normalize_images,
            n_critics,
            share_features_extractor,
        )

    @property
    def n_quantiles(self) -> int:
        """Number of outputs of each critic."""
        return self.n_outputs

    @property
    def quantiles_total(self) -> int:
        """Number of outputs of all critics."""
        return self.n_critics * self.n_outputs

    def forward(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return quantiles [B, n_critics, n_quantiles]."""
        return torch.stack(super().forward(obs, actions), dim=1)


def as_critics(critic: Any, share_features_extractor: bool) -> Any:
    """Return critics with the methods that algorithms call, also where a user's class lacks these.

    :param share_features_extractor: whether their extractor is the actor's
    """
    if not hasattr(critic, "share_features_extractor"):
        critic.share_features_extractor = share_features_extractor
    functions: dict[str, Callable[..., Any]] = {
        "all_values": values_of,
        "first_values": first_values_of,
        "trainable_parameters": trainable_parameters_of,
    }
    for name, function in functions.items():
        if not hasattr(critic, name):
            setattr(critic, name, partial(function, critic))
    return critic
