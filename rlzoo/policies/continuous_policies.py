"""Policies for continuous actions: an actor and an ensemble of critics (Q-functions)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.preprocessing import TensorObs
from rlzoo.distributions.distribution import Distribution
from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
    get_actor_critic_arch,
)
from rlzoo.policies.actors import Actor, SquashedGaussianActor
from rlzoo.policies.base_policy import BasePolicy, variants
from rlzoo.policies.critics import Critics, QuantileCritics, as_critics


class ContinuousPolicy(BasePolicy):
    """An actor, critics and, where the algorithm has them, target networks.

    :param net_arch: hidden layers of both, or `dict(pi=[...], qf=[...])`
    :param activation_fn: activation of the hidden layers
    :param n_critics: number of action-value functions
    :param share_features_extractor: the critics see the actor's features, which only the actor's loss changes
    :param layer_norm: normalise hidden layers before their activation: True in all networks, "critic" in the
        critics alone
    :param dropout: probability of dropping a hidden unit of the critics (with `layer_norm="critic"`: DroQ,
        Hiraoka et al. 2022)
    """

    default_arch: Mapping[str, Sequence[int]] = {"pi": [256, 256], "qf": [256, 256]}
    critics_class: ClassVar[type[Critics]] = Critics
    training_only_keys = ("critic.", "critic_target.", "actor_target.")
    with_target_actor = False
    with_target_critics = True

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        n_critics: int = 2,
        share_features_extractor: bool = False,
        layer_norm: bool | str = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=True,
        )
        low, high = self._action_bounds()
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UnsupportedSpace(
                f"actions are scaled to their bounds, so these must be finite: {action_space}"
            )
        if type(n_critics) is not int or n_critics < 1:
            raise UserError(f"n_critics must be a whole number of at least 1, not {n_critics!r}")
        if layer_norm not in (True, False, "critic"):
            raise UserError(f"layer_norm must be true, false or 'critic', not {layer_norm!r}")
        if not 0 <= dropout < 1:
            raise UserError(f"dropout must be at least 0 and below 1, not {dropout!r}")
        self.net_arch = net_arch
        self.activation_fn = activation_fn
        self.n_critics = n_critics
        self.share_features_extractor = share_features_extractor
        self.layer_norm, self.dropout = layer_norm, dropout
        self.action_dim = int(np.prod(action_space.shape or ()))
        self.pi_arch, self.qf_arch = self._architecture(net_arch)
        self.net_args = {**self._network_kwargs(), "net_arch": self.pi_arch}
        self._build(lr_schedule)
        as_critics(self.critic, share_features_extractor)
        if self.with_target_critics:
            as_critics(self.critic_target, False)
        for target in self.targets():
            target.requires_grad_(False)

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        """Make the networks; scripts for stable-baselines3 override it."""
        self.actor = self.own("actor", self.make_actor())
        extractor = self.actor.features_extractor if self.share_features_extractor else None
        self.critic: Critics = self.own("critic", self.make_critic(features_extractor=extractor))
        if self.with_target_actor:
            self.actor_target = self.own("actor_target", self.make_actor(features_extractor=None))
        if self.with_target_critics:
            self.critic_target: Critics = self.own("critic_target", self.make_critic(features_extractor=None))

    @property
    def actor_kwargs(self) -> dict[str, Any]:
        """What the actor is made from, besides its features extractor."""
        return dict(self.net_args)

    @property
    def critic_kwargs(self) -> dict[str, Any]:
        """What the critics are made from, besides their features extractor."""
        return {
            **self._network_kwargs(),
            "net_arch": self.qf_arch,
            "n_critics": self.n_critics,
            "share_features_extractor": self.share_features_extractor,
        }

    def _network_kwargs(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "activation_fn": self.activation_fn,
            "normalize_images": self.normalize_images,
        }

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return a new actor, by default with a new extractor; a subclass says which."""
        raise NotImplementedError

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return new critics, by default with a new extractor; hook for custom ones."""
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return self.critics_class(**kwargs, **self.critic_layers())

    def critic_layers(self) -> dict[str, Any]:
        """Return what the critics' networks are made of; see EnsembleMlp."""
        return {
            "layer_norm": bool(self.layer_norm),
            "dropout": self.dropout,
        }

    def targets(self) -> list[nn.Module]:
        """Return the target networks."""
        return [self._modules[name] for name in ("actor_target", "critic_target") if name in self._modules]  # type: ignore[misc]

    def set_training_mode(self, mode: bool) -> None:
        """Switch to training or evaluation mode.

        Target networks are in evaluation mode always, except for the `dropout` of DroQ, which also makes
        their Q-values random (Hiraoka et al. 2022, algorithm 2).
        """
        self.train(mode)
        for target in self.targets():
            target.eval()
        if mode and self.dropout > 0 and self.with_target_critics:
            for layer in getattr(self.critic_target, "layers", ()):  # a user's critics may have none
                layer.train(isinstance(layer, nn.Dropout))

    def forward(self, obs: TensorObs, deterministic: bool = False) -> Tensor:
        """Return actions [B, *action_space.shape] in [-1, 1]."""
        return self._predict(obs, deterministic)

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        raise NotImplementedError

    def in_action_shape(self, actions: Tensor) -> Tensor:
        """Return actions [B, action_dim] in the shape of the space."""
        shape = self.action_space.shape or ()
        return actions if len(shape) == 1 else actions.reshape(-1, *shape)

    def _architecture(self, net_arch: object) -> tuple[list[int], list[int]]:
        """Return hidden layers of actor and critics."""
        if net_arch is None:
            is_cnn = self.features_extractor_class is NatureCNN
            net_arch = [256, 256] if is_cnn else self.default_arch
        return get_actor_critic_arch(net_arch)


class TD3Policy(ContinuousPolicy):
    """Deterministic actor, critics, and copies of both."""

    default_arch = {"pi": [400, 300], "qf": [400, 300]}
    with_target_actor = True

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return Actor(**kwargs, layer_norm=self.layer_norm is True)

    def randn_like(self, actions: Tensor) -> Tensor:
        """Return standard normal noise of the shape of target actions."""
        return torch.randn_like(actions)

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        return self.in_action_shape(self.actor(observation))


class SACPolicy(ContinuousPolicy):
    """Squashed Gaussian actor, critics, and a copy of the critics.

    :param use_sde: explore with gSDE; see SquashedGaussianActor for `log_std_init`, `use_expln`, `clip_mean`
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        *args: Any,
        use_sde: bool = False,
        log_std_init: float = -3.0,
        use_expln: bool = False,
        clip_mean: float = 2.0,
        **kwargs: Any,
    ) -> None:
        self.noise = {
            "use_sde": use_sde,
            "log_std_init": log_std_init,
            "use_expln": use_expln,
            "clip_mean": clip_mean,
        }
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    @property
    def actor_kwargs(self) -> dict[str, Any]:
        return {**super().actor_kwargs, **self.noise}

    def make_actor(
        self, features_extractor: BaseFeaturesExtractor | None = None, hidden: list[nn.Module] | None = None
    ) -> SquashedGaussianActor:
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return SquashedGaussianActor(**kwargs, layer_norm=self.layer_norm is True, hidden=hidden)

    def reset_noise(self, batch_size: int = 1) -> None:
        """Draw new exploration noise, one matrix per environment (gSDE)."""
        self.actor.reset_noise(batch_size)

    def get_distribution(self, obs: TensorObs) -> Distribution:
        """Return the action distribution of raw observations; later calls do not change it."""
        return copy.copy(self.actor.distribution(obs))

    def evaluate_actions(self, obs: TensorObs, actions: Tensor) -> tuple[None, Tensor, None]:
        """Return log-densities [B] of actions in [-1, 1]; there are no values and entropies: None."""
        return None, self.actor.distribution(obs).log_prob(actions.reshape(len(actions), -1)), None

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        return self.in_action_shape(self.actor(observation, deterministic))


class TQCPolicy(SACPolicy):
    """As SACPolicy, with critics of `n_quantiles` outputs each (Kuznetsov et al. 2020)."""

    critics_class = QuantileCritics

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        *args: Any,
        n_quantiles: int = 25,
        **kwargs: Any,
    ) -> None:
        if n_quantiles < 1:
            raise UserError(f"n_quantiles must be at least 1, not {n_quantiles}")
        self.n_quantiles = n_quantiles
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    @property
    def critic_kwargs(self) -> dict[str, Any]:
        return {**super().critic_kwargs, "n_quantiles": self.n_quantiles}


class CrossQPolicy(SACPolicy):
    """As SACPolicy, with batch renormalisation in actor and critics, wide critics and no copies (Bhatt et al.
    2024).

    :param batch_norm: put a batch renormalisation before the first layer and after every hidden one
    :param batch_norm_momentum: see BatchRenorm for this, `batch_norm_eps` and `renorm_warmup_steps`
    """

    default_arch = {"pi": [256, 256], "qf": [1024, 1024]}
    with_target_critics = False

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        batch_norm: bool = True,
        batch_norm_momentum: float = 0.01,
        batch_norm_eps: float = 0.001,
        renorm_warmup_steps: int = 100_000,
        use_sde: bool = False,
        log_std_init: float = -3.0,
        use_expln: bool = False,
        clip_mean: float = 2.0,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        n_critics: int = 2,
        share_features_extractor: bool = False,
    ) -> None:
        if not 0 < batch_norm_momentum <= 1:
            raise UserError(f"batch_norm_momentum must be above 0 and at most 1, not {batch_norm_momentum!r}")
        if batch_norm_eps <= 0:
            raise UserError(f"batch_norm_eps must be above 0, not {batch_norm_eps!r}")
        if renorm_warmup_steps < 0:
            raise UserError(f"renorm_warmup_steps must be at least 0, not {renorm_warmup_steps!r}")
        self.batch_norm = (
            partial(
                BatchRenorm,
                momentum=batch_norm_momentum,
                eps=batch_norm_eps,
                warmup_steps=renorm_warmup_steps,
            )
            if batch_norm
            else None
        )
        if optimizer_kwargs is None and issubclass(optimizer_class, torch.optim.Adam | torch.optim.AdamW):
            optimizer_kwargs = {"betas": (0.5, 0.999)}
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            activation_fn,
            use_sde=use_sde,
            log_std_init=log_std_init,
            use_expln=use_expln,
            clip_mean=clip_mean,
            features_extractor_class=features_extractor_class,
            features_extractor_kwargs=features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            n_critics=n_critics,
            share_features_extractor=share_features_extractor,
        )

    def make_actor(
        self, features_extractor: BaseFeaturesExtractor | None = None, hidden: list[nn.Module] | None = None
    ) -> SquashedGaussianActor:
        if features_extractor is None:
            features_extractor = self.make_features_extractor()
        if self.batch_norm is not None and hidden is None:
            width = features_extractor.features_dim
            hidden = [self.batch_norm(width)]
            for next_width in self.pi_arch:
                hidden += [nn.Linear(width, next_width), self.activation_fn()]
                hidden.append(self.batch_norm(next_width))
                width = next_width
        return super().make_actor(features_extractor, hidden)

    def critic_layers(self) -> dict[str, Any]:
        return {**super().critic_layers(), "batch_norm": self.batch_norm}


TD3_POLICIES = variants(TD3Policy, "TD3")
SAC_POLICIES = variants(SACPolicy, "SAC")
TQC_POLICIES = variants(TQCPolicy, "TQC")
CROSSQ_POLICIES = variants(CrossQPolicy, "CrossQ", layer_norm=False)

# Files name a variant, such as SACCnnPolicy, as a class of this module.
for _policies in (TD3_POLICIES, SAC_POLICIES, TQC_POLICIES, CROSSQ_POLICIES):
    globals().update({policy.__name__: policy for policy in _policies.values()})
