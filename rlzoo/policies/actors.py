"""Actors for continuous actions in [-1, 1]: a deterministic one, and the squashed Gaussian of SAC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.accel.fast_mlp import fast_forward
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs, action_size
from rlzoo.distributions import SquashedDiagGaussian, StateDependentNoise
from rlzoo.distributions.distribution import Distribution
from rlzoo.distributions.squashed_gaussian import sample_squashed
from rlzoo.networks.torch_layers import BaseFeaturesExtractor, create_mlp
from rlzoo.policies.base_policy import PolicyPart

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""The log standard deviation that a network may ask for."""


def norms(layer_norm: bool) -> list[type[nn.Module]]:
    """Return what stands between a hidden linear layer and its activation."""
    return [nn.LayerNorm] if layer_norm else []


class Actor(PolicyPart):
    """Deterministic actor of DDPG and TD3: raw observations -> features -> `mu`, which ends with a tanh.

    :param net_arch: widths of the hidden layers
    :param features_extractor: of preprocessed observations
    :param features_dim: of the extractor
    :param layer_norm: normalise hidden layers before their activation
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        net_arch: Sequence[int],
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        activation_fn: type[nn.Module] = nn.ReLU,
        normalize_images: bool = True,
        *,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(
            observation_space, action_space, features_extractor, normalize_images, squash_output=True
        )
        self.net_arch, self.features_dim, self.activation_fn = net_arch, features_dim, activation_fn
        size, behind = action_size(action_space), norms(layer_norm)
        layers = create_mlp(features_dim, size, net_arch, activation_fn, True, post_linear_modules=behind)
        self.mu = nn.Sequential(*layers)

    def forward(self, obs: TensorObs) -> Tensor:
        """Return actions [B, action_dim]."""
        return fast_forward(self.mu, self.extract_features(obs))

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        actions: Tensor = self(observation)
        return actions


class SquashedGaussianActor(PolicyPart):
    """Stochastic actor of SAC and its relatives: tanh of a Gaussian whose mean and standard deviation depend
    on the state, or with gSDE of one whose noise does.

    :param net_arch: widths of the hidden layers
    :param features_dim: of the extractor
    :param use_sde: explore with generalised state-dependent noise
    :param log_std_init: initial log standard deviation of that noise
    :param full_std, use_expln: see StateDependentNoise
    :param clip_mean: bound of the mean before the tanh with gSDE; 0 is none
    :param hidden: layers in place of those that `net_arch` describes
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        net_arch: Sequence[int],
        features_extractor: BaseFeaturesExtractor,
        features_dim: int,
        activation_fn: type[nn.Module] = nn.ReLU,
        use_sde: bool = False,
        log_std_init: float = -3.0,
        full_std: bool = True,
        use_expln: bool = False,
        clip_mean: float = 2.0,
        normalize_images: bool = True,
        *,
        layer_norm: bool = False,
        hidden: list[nn.Module] | None = None,
    ) -> None:
        super().__init__(
            observation_space, action_space, features_extractor, normalize_images, squash_output=True
        )
        self.net_arch, self.features_dim, self.activation_fn = net_arch, features_dim, activation_fn
        if hidden is None:
            behind = norms(layer_norm)
            hidden = create_mlp(features_dim, 0, net_arch, activation_fn, post_linear_modules=behind)
        self.latent_pi = nn.Sequential(*hidden)
        latent_dim = net_arch[-1] if net_arch else features_dim
        action_dim = action_size(action_space)
        self.action_dist: Any
        if use_sde:
            self.action_dist = StateDependentNoise(
                action_dim, full_std, use_expln, squash_output=True, learn_features=True
            )
            mean, self.log_std = self.action_dist.proba_distribution_net(latent_dim, log_std_init)
            bounded = [nn.Hardtanh(-clip_mean, clip_mean)] if clip_mean > 0 else []
            self.mu: nn.Module = nn.Sequential(mean, *bounded)
        else:
            self.action_dist = SquashedDiagGaussian(action_dim)
            self.mu = nn.Linear(latent_dim, action_dim)
            self.log_std = nn.Linear(latent_dim, action_dim)

    def distribution(self, obs: TensorObs) -> Distribution:
        """Return the action distribution of raw observations; a later call changes it."""
        mean, log_std, keywords = self.get_action_dist_params(obs)
        made: Distribution = self.action_dist.proba_distribution(mean, log_std, **keywords)
        return made

    def forward(self, obs: TensorObs, deterministic: bool = False) -> Tensor:
        """Return actions [B, action_dim]."""
        return self.distribution(obs).get_actions(deterministic)

    def action_log_prob(self, obs: TensorObs) -> tuple[Tensor, Tensor]:
        """Return reparameterised actions [B, action_dim] and their log-density [B]."""
        distribution = self.distribution(obs)
        if isinstance(distribution, SquashedDiagGaussian):
            return sample_squashed(distribution.mean, distribution.log_std)
        actions = distribution.sample()
        return actions, distribution.log_prob(actions)

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        actions: Tensor = self(observation, deterministic)
        return actions

    def get_action_dist_params(self, obs: TensorObs) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return mean and log standard deviation before the tanh, and keywords of the distribution.

        With gSDE the second is the parameter `log_std`, and the keywords hold `latent_sde`.
        """
        latent = fast_forward(self.latent_pi, self.extract_features(obs))
        mean = fast_forward(self.mu, latent)
        if isinstance(self.action_dist, StateDependentNoise):
            return mean, cast(Tensor, self.log_std), {"latent_sde": latent}
        return mean, fast_forward(self.log_std, latent).clamp(LOG_STD_MIN, LOG_STD_MAX), {}

    @property
    def use_sde(self) -> bool:
        """Whether the actor explores with generalised state-dependent noise."""
        return isinstance(self.action_dist, StateDependentNoise)

    def get_std(self) -> Tensor:
        """Return the standard deviations of the noise matrix (gSDE only), [latent_dim, action_dim].

        :raises UserError: the actor has no gSDE
        """
        if not isinstance(self.action_dist, StateDependentNoise):
            raise UserError("get_std() is for actors with use_sde=True")
        return self.action_dist.get_std(cast(Tensor, self.log_std))

    def reset_noise(self, batch_size: int = 1) -> None:
        """Sample new exploration matrices, one per environment (gSDE).

        Actions sampled with them have gradients with respect to `log_std`.
        """
        self.action_dist.sample_weights(self.log_std, batch_size=batch_size)
