"""Action distributions: the base class, and those of every action space.

A distribution holds the parameters of one batch. It checks no arguments, because it is filled at every step.
Shapes: B is the batch size, A the number of action dimensions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import action_size
from rlzoo.core.returns import LOG_SQRT_2PI

if TYPE_CHECKING:
    from typing_extensions import Self


class Distribution:
    """Distribution of a batch of actions; made once per policy, and filled by `proba_distribution`.

    `proba_distribution` sets the parameters of the object and returns it. Copy it (`copy.copy`) to keep it
    beyond the next call; `ActorCriticPolicy.get_distribution` returns a copy.

    `distribution` is the distribution as one of `torch.distributions` (a list of them for a MultiDiscrete),
    before a tanh; its `log_prob` and `entropy` are per dimension. When a script assigns one, the classes here
    take over its parameters, and direct subclasses store it.
    """

    __slots__ = ()
    distribution: torch.distributions.Distribution | Sequence[torch.distributions.Distribution]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copy the parameters of the last batch without their gradients, as `copy.deepcopy` has to."""
        copied = memo[id(self)] = copy.copy(self)
        for name in (name for base in type(self).__mro__ for name in getattr(base, "__slots__", ())):
            value = getattr(self, name, None)
            if isinstance(value, Tensor):
                setattr(copied, name, value.detach().clone())
            elif value is not None:
                setattr(copied, name, copy.deepcopy(value, memo))
        return copied

    def proba_distribution_net(self, latent_dim: int, *args: Any, **kwargs: Any) -> Any:
        """Return the layer from latents [B, latent_dim] to parameters, or a pair of it and the log-std."""
        raise NotImplementedError

    def proba_distribution(self, *params: Any, **named_params: Any) -> Self:
        """Set the parameters of a batch; return the distribution itself."""
        raise NotImplementedError

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameter tensors; they determine the distribution."""
        raise NotImplementedError

    def sample(self) -> Tensor:
        """Return random actions, [B, A] (Categorical: [B])."""
        raise NotImplementedError

    def mode(self) -> Tensor:
        """Return the most likely actions, as `sample` does; of a squashed Gaussian, the tanh of its mean."""
        raise NotImplementedError

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-density (or log-probability) of each row of actions, [B]."""
        raise NotImplementedError

    def entropy(self) -> Tensor | None:
        """Return the entropy in nats, [B]; None if it has no closed form."""
        raise NotImplementedError

    def kl(self, other: Any) -> Tensor:
        """Return KL(self || other) in nats, [B]; `other` is of the same class."""
        raise NotImplementedError

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """Return the mode if deterministic, else a sample."""
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *params: Any, deterministic: bool = False, **named_params: Any) -> Tensor:
        """Set the parameters of a batch; return its mode or a sample."""
        self.proba_distribution(*params, **named_params)
        return self.get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *params: Any, **named_params: Any) -> tuple[Tensor, Tensor]:
        """Set the parameters of a batch; return a sample and its log-probability."""
        self.proba_distribution(*params, **named_params)
        actions = self.sample()
        return actions, self.log_prob(actions)


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum the log-probabilities of independent dimensions, [B, A] -> [B]; a vector to one number."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


def kl_divergence(dist_true: Distribution, dist_pred: Distribution) -> Tensor:
    """Return KL(dist_true || dist_pred) in nats, [B].

    :raises UserError: the distributions are of different classes
    """
    if type(dist_true) is not type(dist_pred):
        raise UserError(
            f"the KL divergence is between distributions of one class, not {type(dist_true).__name__} and "
            f"{type(dist_pred).__name__}"
        )
    return dist_true.kl(dist_pred)


def gumbel_argmax(logits: Tensor, exponentials: Tensor | None = None) -> Tensor:
    """Sample an index per row with probabilities softmax(logits), [..., n] -> [...].

    The arg max of p_i / E_i with E_i ~ Exp(1) has distribution p; in log space p needs no normalisation.

    :param exponentials: the E_i, where they were drawn before; they are overwritten
    """
    if exponentials is None:
        exponentials = torch.empty_like(logits).exponential_()
    return (logits - exponentials.log_()).argmax(dim=-1)


class Categorical(Distribution):
    """Categorical distribution over `action_dim` choices; actions are indices, [B]."""

    __slots__ = ("_log_probs", "action_dim", "logits")

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim
        self.logits: Tensor
        self._log_probs: Tensor | None = None

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return nn.Linear(latent_dim, self.action_dim)

    def proba_distribution(self, action_logits: Tensor) -> Categorical:
        """Set the unnormalised log-probabilities, [B, action_dim]."""
        self.logits = action_logits
        self._log_probs = None
        return self

    @property
    def log_probs(self) -> Tensor:
        """Normalised log-probabilities, [B, action_dim], cached for log_prob, entropy and kl."""
        cached = self._log_probs
        # values computed under no_grad cannot be used in a loss
        lacks_graph = cached is not None and self.logits.requires_grad and not cached.requires_grad
        if cached is None or (lacks_graph and torch.is_grad_enabled()):
            cached = self._log_probs = self.logits.log_softmax(dim=-1)
        return cached

    @property
    def probs(self) -> Tensor:
        """Probabilities, [B, action_dim]."""
        return self.log_probs.exp()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    @property
    def distribution(self) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.logits)

    @distribution.setter
    def distribution(self, given: torch.distributions.Categorical) -> None:
        Categorical.proba_distribution(self, given.logits)

    def sample(self) -> Tensor:
        return gumbel_argmax(self.logits)

    def mode(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        log_probs = self.log_probs
        if actions.shape != log_probs.shape[:-1]:  # broadcast one distribution or one action
            shape = torch.broadcast_shapes(actions.shape, log_probs.shape[:-1])
            index = actions.long().expand(shape).unsqueeze(-1)
            return log_probs.expand(*shape, self.action_dim).gather(-1, index).squeeze(-1)
        return -F.nll_loss(log_probs, actions.long(), reduction="none")  # a gather in one operation

    def entropy(self) -> Tensor:
        # 0 log 0 is 0: an impossible choice has log-probability -inf, and 0 * inf would be nan
        finite = self.log_probs.clamp(min=torch.finfo(self.log_probs.dtype).min)
        return -(self.probs * finite).sum(dim=-1)

    def kl(self, other: Categorical) -> Tensor:
        probs = self.probs
        # an impossible choice adds nothing, even if it is impossible in `other`, too (inf - inf)
        return torch.where(probs > 0, probs * (self.log_probs - other.log_probs), 0.0).sum(dim=-1)


class Unfilled(list[Categorical]):
    """Placeholder for the parts of a distribution before `proba_distribution` is called."""

    def __iter__(self) -> Iterator[Categorical]:
        raise UserError("this distribution has no parameters yet: call proba_distribution() first")

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Unfilled], tuple[()]]:
        return Unfilled, ()  # copies of a policy hold it; iterating to copy its items would raise


class MultiCategorical(Distribution):
    """Independent categorical distributions over `action_dims[i]` choices; actions [B, len(action_dims)]."""

    __slots__ = ("action_dims", "parts")
    part_class: ClassVar[type[Categorical]] = Categorical

    def __init__(self, action_dims: Sequence[int]) -> None:
        self.action_dims = [int(n) for n in action_dims]
        self.parts: list[Categorical] = Unfilled()  # of `part_class`

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return nn.Linear(latent_dim, sum(self.action_dims))

    def proba_distribution(self, action_logits: Tensor) -> MultiCategorical:
        """Set the concatenated logits of all dimensions.

        :param action_logits: [B, sum(action_dims)]
        """
        split = torch.split(action_logits, self.action_dims, dim=-1)
        self.parts = [
            self.part_class(n).proba_distribution(part)
            for n, part in zip(self.action_dims, split, strict=True)
        ]
        return self

    @property
    def distribution(self) -> list[torch.distributions.Categorical]:
        return [part.distribution for part in self.parts]

    @distribution.setter
    def distribution(self, given: list[torch.distributions.Categorical]) -> None:
        MultiCategorical.proba_distribution(self, torch.cat([one.logits for one in given], dim=-1))

    distributions = distribution

    @property
    def params(self) -> tuple[Tensor, ...]:
        return tuple(part.logits for part in self.parts)

    def sample(self) -> Tensor:
        return torch.stack([part.sample() for part in self.parts], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        columns = actions.unbind(dim=-1)
        terms = [part.log_prob(column) for part, column in zip(self.parts, columns, strict=True)]
        return torch.stack(terms).sum(dim=0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(dim=0)

    def kl(self, other: MultiCategorical) -> Tensor:
        terms = [mine.kl(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)]
        return torch.stack(terms).sum(dim=0)


class Bernoulli(Distribution):
    """Independent Bernoulli distributions of `action_dims` bits; actions are 0.0 or 1.0, [B, action_dims]."""

    __slots__ = ("action_dims", "logits")

    def __init__(self, action_dims: int) -> None:
        self.action_dims = action_dims
        self.logits: Tensor

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return nn.Linear(latent_dim, self.action_dims)

    def proba_distribution(self, action_logits: Tensor) -> Bernoulli:
        """Set the log-odds of 1, [B, action_dims]."""
        self.logits = action_logits
        return self

    @property
    def probs(self) -> Tensor:
        """Probability of 1, [B, action_dims]."""
        return self.logits.sigmoid()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    @property
    def distribution(self) -> torch.distributions.Bernoulli:
        return torch.distributions.Bernoulli(logits=self.logits)

    @distribution.setter
    def distribution(self, given: torch.distributions.Bernoulli) -> None:
        self.logits = given.logits

    def sample(self) -> Tensor:
        return (torch.rand_like(self.logits) < self.probs).to(self.logits.dtype)

    def mode(self) -> Tensor:
        return (self.logits > 0).to(self.logits.dtype)

    def log_prob(self, actions: Tensor) -> Tensor:
        # log sigmoid(l) for 1, log sigmoid(-l) for 0
        return F.logsigmoid(self.logits * (2.0 * actions - 1.0)).sum(dim=-1)

    def entropy(self) -> Tensor:
        # H = -p log p - (1-p) log (1-p), with log p = -softplus(-l) and log (1-p) = -softplus(l)
        return (F.softplus(self.logits) - self.logits * self.probs).sum(dim=-1)

    def kl(self, other: Bernoulli) -> Tensor:
        ones, zeros = self.probs, (-self.logits).sigmoid()
        gap_ones = F.logsigmoid(self.logits) - F.logsigmoid(other.logits)
        gap_zeros = F.logsigmoid(-self.logits) - F.logsigmoid(-other.logits)
        return (ones * gap_ones + zeros * gap_zeros).sum(dim=-1)


def gaussian_log_prob(actions: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density of a diagonal Gaussian, summed over the last axis, [B, A] -> [B].

    :param log_std: [A] or [B, A]
    """
    z = (actions - mean) * torch.exp(-log_std)
    return -(0.5 * z.square() + log_std).sum(dim=-1) - actions.shape[-1] * LOG_SQRT_2PI


def gaussian_kl(mean: Tensor, log_std: Tensor, other_mean: Tensor, other_log_std: Tensor) -> Tensor:
    """Return KL(Gaussian || other) of diagonal Gaussians, summed over the last axis, [B, A] -> [B]."""
    log_ratio = other_log_std - log_std
    distance = ((mean - other_mean) * torch.exp(-other_log_std)).square()
    return (log_ratio + 0.5 * (torch.exp(-2.0 * log_ratio) + distance) - 0.5).sum(dim=-1)


def mean_and_log_std(normal: torch.distributions.Normal) -> tuple[Tensor, Tensor]:
    """Return the parameters of a Gaussian, [B, A] each.

    :raises UserError: it is another distribution
    """
    if not isinstance(normal, torch.distributions.Normal):
        raise UserError(f"expected a Normal, not a {type(normal).__name__}: for others derive Distribution")
    return normal.loc, normal.scale.log()


SMALLEST_GAP = 2.0**-24
"""Distance between 1 and the largest float32 below it."""


def inverse_tanh(actions: Tensor, epsilon: float = SMALLEST_GAP) -> Tensor:
    """Return atanh of actions, clamped to a distance of `epsilon` from -1 and 1, where it is infinite.

    For actions whose pre-tanh value is unknown. In float32 the result cannot exceed 8.7, so densities of
    actions closer to the bounds are wrong.
    """
    return torch.atanh(actions.clamp(-1.0 + epsilon, 1.0 - epsilon))


class Squashed:
    """Squashed actions, with their values before the tanh (`gaussian_actions`).

    `log_prob` of the tensor that was sampled last does not need the inverse of the tanh.
    """

    gaussian_actions: Tensor | None
    _squashed_actions: Tensor | None

    def _squash(self, gaussian_actions: Tensor) -> Tensor:
        self.gaussian_actions = gaussian_actions
        self._squashed_actions = torch.tanh(gaussian_actions)
        return self._squashed_actions

    def _clear_sample(self) -> None:
        self.gaussian_actions = self._squashed_actions = None

    def _before_tanh(self, actions: Tensor, epsilon: float = SMALLEST_GAP) -> Tensor:
        if actions is self._squashed_actions and self.gaussian_actions is not None:
            return self.gaussian_actions
        return inverse_tanh(actions, epsilon)


def log_tanh_derivative(pre_tanh: Tensor) -> Tensor:
    """Return log(1 - tanh(x)^2), elementwise, without cancellation for large |x|."""
    return 2.0 * (math.log(2.0) - pre_tanh - F.softplus(-2.0 * pre_tanh))


class DiagGaussian(Distribution):
    """Diagonal Gaussian; its log-std is a parameter or an output of the network. Actions [B, action_dim]."""

    __slots__ = ("action_dim", "log_std", "mean")

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim
        self.mean: Tensor
        self.log_std: Tensor

    def proba_distribution_net(
        self, latent_dim: int, log_std_init: float = 0.0
    ) -> tuple[nn.Linear, nn.Parameter]:
        log_std = nn.Parameter(torch.full((self.action_dim,), float(log_std_init)))
        return nn.Linear(latent_dim, self.action_dim), log_std

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> DiagGaussian:
        """Set `mean_actions` [B, action_dim] and `log_std` [action_dim] or [B, action_dim]."""
        self.mean = mean_actions
        self.log_std = log_std
        return self

    @property
    def stddev(self) -> Tensor:
        """Standard deviations, [B, action_dim]."""
        return self.log_std.exp().expand_as(self.mean)

    @property
    def params(self) -> tuple[Tensor, ...]:
        return self.mean, self.log_std

    @property
    def distribution(self) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean, self.stddev)

    @distribution.setter
    def distribution(self, given: torch.distributions.Normal) -> None:
        self.mean, self.log_std = mean_and_log_std(given)

    def sample(self) -> Tensor:
        """Return reparameterised actions [B, action_dim], with gradients for mean and log_std."""
        return torch.addcmul(self.mean, self.log_std.exp(), torch.randn_like(self.mean))

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        return gaussian_log_prob(actions, self.mean, self.log_std)

    def entropy(self) -> Tensor | None:
        return (self.log_std + (0.5 + LOG_SQRT_2PI)).expand_as(self.mean).sum(dim=-1)

    def kl(self, other: DiagGaussian) -> Tensor:
        return gaussian_kl(self.mean, self.log_std, other.mean, other.log_std)


NODES = torch.linspace(-5.0, 5.0, 41, dtype=torch.float64)
"""Nodes of the trapezoidal rule for expectations of a standard normal variable.

For the entropy of squashed actions it converges exponentially, unlike Gauss-Hermite quadrature: with 41 nodes
its error is below 0.001 nats per dimension for standard deviations up to 5 (Gauss-Hermite: 0.02).
"""
WEIGHTS = torch.softmax(-0.5 * NODES.square(), dim=0)


@lru_cache
def _quadrature(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return nodes and weights on a device."""
    with torch.inference_mode(False):  # later callers may need gradients
        return NODES.to(device, dtype), WEIGHTS.to(device, dtype)


class StateDependentNoise(Squashed, Distribution):
    """Gaussian actions with noise `latent_sde @ W`, where W is resampled only every few steps (gSDE).

    Raffin et al. (2021), "Smooth Exploration for Robotic Reinforcement Learning".

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
        return nn.Linear(latent_dim, self.action_dim), log_std

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

    @distribution.setter
    def distribution(self, given: torch.distributions.Normal) -> None:
        self.mean, self.log_scale = mean_and_log_std(given)

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
        slope = log_tanh_derivative(gaussian_actions).sum(dim=-1)
        return gaussian_log_prob(gaussian_actions, self.mean, self.log_scale) - slope

    def entropy(self) -> Tensor:
        """Compute the entropy in nats, [B].

        For squashed actions a = tanh(u) it is H(u) + E[log(1 - a^2)]. The expectation is computed by
        quadrature in each dimension, which has gradients and needs no samples.
        """
        entropies = self.log_scale + (0.5 + LOG_SQRT_2PI)  # of u, [B, A]
        if self.squash_output:
            nodes, weights = _quadrature(self.mean.dtype, self.mean.device)
            u = self.mean.unsqueeze(-1) + self.stddev.unsqueeze(-1) * nodes  # [B, A, n_nodes]
            entropies = entropies + log_tanh_derivative(u) @ weights
        return entropies.sum(dim=-1)

    def kl(self, other: StateDependentNoise) -> Tensor:
        """Return KL(self || other), [B]; a tanh does not change it."""
        return gaussian_kl(self.mean, self.log_scale, other.mean, other.log_scale)


def make_proba_distribution(
    action_space: spaces.Space, use_sde: bool = False, dist_kwargs: Mapping[str, Any] | None = None
) -> Distribution:
    """Return the distribution of an action space: Gaussian or gSDE for Box, else categorical or Bernoulli.

    >>> make_proba_distribution(spaces.Discrete(3)).proba_distribution_net(latent_dim=64)
    Linear(in_features=64, out_features=3, bias=True)

    :param use_sde: use generalised state-dependent exploration (Box only)
    :param dist_kwargs: arguments of the distribution
    :raises UserError: another space, or `use_sde` with discrete actions
    """
    kwargs = dist_kwargs or {}
    if isinstance(action_space, spaces.Box):
        family = StateDependentNoise if use_sde else DiagGaussian
        return family(action_size(action_space), **kwargs)
    if use_sde:
        raise UserError(f"use_sde needs continuous (Box) actions, not {type(action_space).__name__}")
    if isinstance(action_space, spaces.Discrete):
        return Categorical(int(action_space.n), **kwargs)
    if isinstance(action_space, spaces.MultiDiscrete):
        return MultiCategorical(action_space.nvec.ravel().tolist(), **kwargs)
    if isinstance(action_space, spaces.MultiBinary):
        return Bernoulli(action_size(action_space), **kwargs)
    raise UserError(
        f"no distribution for actions of a {type(action_space).__name__} space; "
        "there is one for Box, Discrete, MultiDiscrete and MultiBinary"
    )
