"""Generalized state-dependent exploration (gSDE): noise that is a smooth function of the state.

Raffin et al. (2021), "Smooth Exploration for Robotic Reinforcement Learning".
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlzoo.distributions.distribution import Distribution, linear_head
from rlzoo.distributions.gaussian import LOG_SQRT_2PI, Squashed, gaussian_log_prob, log_tanh_slope

NODES = torch.linspace(-5.0, 5.0, 41, dtype=torch.float64)
"""Nodes of the trapezoidal rule for expectations of a standard normal variable.

For the entropy of squashed actions it converges exponentially, unlike Gauss-Hermite quadrature: with 41 nodes
its error is below 0.001 nats per dimension for standard deviations up to 5 (Gauss-Hermite: 0.02).
"""
WEIGHTS = torch.softmax(-0.5 * NODES.square(), dim=0)


class StateDependentNoise(Squashed, Distribution):
    """Gaussian actions with noise `latent_sde @ W`, where W is resampled only every few steps (gSDE).

    W [S, A] has independent entries N(0, std[s, a]^2). So the action in one state is
    N(mean, diag(latent_sde^2 @ std^2)), and noise changes smoothly over successive states.

    :param full_std: one std per (feature, action) instead of one per feature
    :param use_expln: std is exp(x) for x <= 0 and log(1 + x) + 1 above, which grows slower than exp
    :param squash_output: squash actions to (-1, 1) by a tanh
    :param learn_features: propagate gradients of the noise to the features
    :param epsilon: added to variances
    """

    __slots__ = (
        "_latent_sde",
        "_log_std",
        "action_dim",
        "epsilon",
        "exploration_mat",
        "exploration_matrices",
        "full_std",
        "latent_sde_dim",
        "learn_features",
        "log_scale",
        "mean",
        "squash_output",
        "use_expln",
    )

    def __init__(
        self,
        action_dim: int,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        learn_features: bool = False,
        epsilon: float = 1e-6,
    ) -> None:
        self.action_dim = action_dim
        self.full_std = full_std
        self.use_expln = use_expln
        self.squash_output = squash_output
        self.learn_features = learn_features
        self.epsilon = epsilon
        self.latent_sde_dim: int | None = None
        self.mean: Tensor
        self.log_scale: Tensor  # log of the std of the (unsquashed) actions, [B, A]
        self.exploration_mat: Tensor  # [S, A]
        self.exploration_matrices: Tensor  # [n_envs, S, A]
        self._latent_sde: Tensor
        self._log_std: Tensor
        self._clear_sample()

    def proba_distribution_net(
        self, latent_dim: int, log_std_init: float = -2.0, latent_sde_dim: int | None = None
    ) -> tuple[nn.Linear, nn.Parameter]:
        """Return the mean layer and the log-std parameter, [S, A] (full_std) or [S, 1]; sample W.

        :param latent_sde_dim: S, the number of features that the noise depends on; None: `latent_dim`
        """
        self.latent_sde_dim = latent_dim if latent_sde_dim is None else latent_sde_dim
        columns = self.action_dim if self.full_std else 1
        log_std = nn.Parameter(torch.full((self.latent_sde_dim, columns), float(log_std_init)))
        with torch.no_grad():
            self.sample_weights(log_std)
        return linear_head(latent_dim, self.action_dim), log_std

    def get_std(self, log_std: Tensor) -> Tensor:
        """Return the standard deviations of the entries of W, [S, A]."""
        if self.use_expln:
            std = torch.where(log_std <= 0, log_std.clamp(max=0).exp(), log_std.clamp(min=0).log1p() + 1.0)
        else:
            std = log_std.exp()
        return std.expand(-1, self.action_dim)

    def sample_weights(self, log_std: Tensor, batch_size: int = 1) -> None:
        """Sample new matrices: one W for all rows, and one for each of `batch_size` rows (environments)."""
        std = self.get_std(log_std)
        self.exploration_mat = std * torch.randn_like(std)
        self.exploration_matrices = std * torch.randn(
            (batch_size, *std.shape), dtype=std.dtype, device=std.device
        )

    def proba_distribution(
        self, mean_actions: Tensor, log_std: Tensor, latent_sde: Tensor
    ) -> StateDependentNoise:
        """Set `mean_actions` [B, A], `log_std` [S, A] or [S, 1], and `latent_sde` [B, S]."""
        self._latent_sde = latent_sde if self.learn_features else latent_sde.detach()
        variance = self._latent_sde.square() @ self.get_std(log_std).square()  # [B, A]
        self.log_scale = 0.5 * torch.log(variance + self.epsilon)
        self.mean = mean_actions
        self._log_std = log_std
        self._clear_sample()
        return self

    @property
    def stddev(self) -> Tensor:
        """Standard deviations of the (unsquashed) actions, [B, A]."""
        return self.log_scale.exp()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return self.mean, self.log_scale

    @property
    def distribution(self) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean, self.stddev)

    def get_noise(self, latent_sde: Tensor) -> Tensor:
        """Return the noise of a batch of states, [B, A].

        Each row has a separate W if there are as many; otherwise (a minibatch) all share one.
        """
        if not self.learn_features:
            latent_sde = latent_sde.detach()
        if len(latent_sde) == 1 or len(latent_sde) != len(self.exploration_matrices):
            return latent_sde @ self.exploration_mat
        return torch.bmm(latent_sde.unsqueeze(1), self.exploration_matrices).squeeze(1)

    def sample(self) -> Tensor:
        actions = self.mean + self.get_noise(self._latent_sde)
        return self._squash(actions) if self.squash_output else actions

    def mode(self) -> Tensor:
        return self._squash(self.mean) if self.squash_output else self.mean

    def log_prob(self, actions: Tensor, gaussian_actions: Tensor | None = None) -> Tensor:
        """Compute the log-density of actions, [B, A] -> [B].

        :param gaussian_actions: squashed actions before the tanh, if known; the inverse of the tanh is wrong
            beyond 8.7. Not needed for the actions sampled last
        """
        if not self.squash_output:
            return gaussian_log_prob(actions, self.mean, self.log_scale)
        if gaussian_actions is None:
            gaussian_actions = self._before_tanh(actions)
        slope = log_tanh_slope(gaussian_actions).sum(dim=-1)
        return gaussian_log_prob(gaussian_actions, self.mean, self.log_scale) - slope

    def entropy(self) -> Tensor:
        """Compute the entropy in nats, [B].

        For squashed actions a = tanh(u) it is H(u) + E[log(1 - a^2)]. The expectation is computed by
        quadrature in each dimension, which has gradients and needs no samples.
        """
        entropies = self.log_scale + (0.5 + LOG_SQRT_2PI)  # of u, [B, A]
        if self.squash_output:
            u = self.mean.unsqueeze(-1) + self.stddev.unsqueeze(-1) * NODES.to(self.mean)  # [B, A, n_nodes]
            entropies = entropies + log_tanh_slope(u) @ WEIGHTS.to(self.mean)
        return entropies.sum(dim=-1)

    def kl(self, other: StateDependentNoise) -> Tensor:
        """Return KL(self || other), [B]; a tanh does not change it."""
        gap = other.log_scale - self.log_scale
        moved = ((self.mean - other.mean) * torch.exp(-other.log_scale)).square()
        return (gap + 0.5 * (torch.exp(-2.0 * gap) + moved) - 0.5).sum(dim=-1)
