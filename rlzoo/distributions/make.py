"""Make the distribution of an action space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import action_size
from rlzoo.distributions.distribution import Bernoulli, Categorical, Distribution, MultiCategorical
from rlzoo.distributions.gaussian import DiagGaussian
from rlzoo.distributions.state_dependent_noise import StateDependentNoise


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
