"""Augmented random search (Mania et al. 2018, https://arxiv.org/abs/1803.07055).

No gradient is computed. Each iteration plays the policy perturbed by +nu delta and by -nu delta for each of
`n_delta` random directions delta, and steps along these in proportion to the difference of the two returns
(algorithm 2; with `n_top` below `n_delta` the variants -t):

    theta <- theta + learning_rate / (n_top std) sum_k (R(theta + nu delta_k) - R(theta - nu delta_k)) delta_k

over the n_top directions with the best single return; nu is `delta_std`, std that of the returns in the sum.
With VecNormalize around the environment (`normalize` in YAML), observations are normalised by what was seen
before the iteration: that is version 2.

Departures from the paper: policies may be multi-layer perceptrons, and need not start at zero; std is
the sample standard deviation, with n - 1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.algorithms.agent.position import ResumeState
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import vec_normalize_wrappers
from rlzoo.params import ranges
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import (
    Choice,
    Float,
    FractionOf,
    Int,
    OneOrSampled,
    Scheduled,
    SearchSpace,
)
from rlzoo.policies.linear_policy import make_actor
from rlzoo.training.candidates import AsyncEval, Outcome
from rlzoo.training.population_loop import population


@dataclass(frozen=True, kw_only=True)
class ARSConfig:
    n_delta: int = param(
        8,
        doc="random directions per iteration; two candidates each; more are less noisy and cost more"
        " episodes",
        section="random search",
    )
    n_top: int | None = param(
        None,
        doc="directions with the best returns that the update uses (b of the paper); None: all",
        section="random search",
    )
    learning_rate: ScheduleLike = param(
        0.02,
        doc="step size alpha, a number or a schedule, in units of the standard deviation of the returns",
        section="random search",
    )
    delta_std: ScheduleLike = param(
        0.05,
        doc="standard deviation nu of the perturbations, a number or a schedule; raise it if"
        " candidates hardly differ",
        section="random search",
    )
    zero_policy: bool = param(
        True,
        doc="initialise all parameters to 0, as for the linear policies of the paper",
        section="random search",
    )
    alive_bonus_offset: float = param(
        0.0,
        doc="added to the reward of every step; a negative number offsets a bonus for being alive",
        section="random search",
    )
    n_eval_episodes: int = param(
        1, doc="episodes per candidate; more give less noisy returns", section="random search"
    )

    def __post_init__(self) -> None:
        check_range(self, ("n_delta", "n_top", "n_eval_episodes"), low=1)
        check_range(self, ("learning_rate",), low=0)
        check_range(self, ("delta_std",), low=0, above=True)
        if self.n_top is not None and self.n_top > self.n_delta:
            warnings.warn(
                f"n_top {self.n_top} is more than n_delta, {self.n_delta}: all directions are used",
                stacklevel=5,
            )
            object.__setattr__(self, "n_top", self.n_delta)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(2e-3, 0.5, log=True)),
    "delta_std": Float(2e-3, 0.5, log=True),
    "n_delta": Int(1, 256, log=True),
    "n_top": FractionOf(("n_delta",), 0.05, 1.0),
    "alive_bonus_offset": OneOrSampled(0.0, Float(-5.0, -0.05)),
    "policy_kwargs.net_arch": Choice([16], [32], [64], [64, 64], [128, 64]),
    "policy_kwargs.activation_fn": ranges.ACTIVATION_FN,
}


def ars_step(deltas: torch.Tensor, returns: torch.Tensor, n_top: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the direction of an iteration and the deviation that its length is divided by.

    :param deltas: directions [n_delta, n_parameters]
    :param returns: float64 [2, n_delta], along and against each direction
    :return: sum of (R+ - R-) delta over the best `n_top` directions, and the deviation of their returns
    """
    best = returns.amax(dim=0).argsort(descending=True, stable=True)[:n_top]
    along, against = returns[:, best]
    return (along - against) @ deltas[best].double(), returns[:, best].std()


class ARS(Algorithm):
    """ARS for Box and Discrete actions; candidates play one by one, or in the processes of an `AsyncEval`.

    Example:
        >>> from rlzoo import ARS
        >>> model = ARS("LinearPolicy", "CartPole-v1").learn(100_000)
    """

    Config = ARSConfig
    search_space = SEARCH_SPACE
    config: ARSConfig
    loop = population
    policy_family = "population"
    action_spaces = (spaces.Box, spaces.Discrete)
    default_log_interval = 1
    divergence_suspects = ("learning_rate", "delta_std")
    async_eval: AsyncEval | None = (
        None  # worker processes; None: candidates play in the environment of the agent
    )

    def _set_spaces(
        self, observation_space: spaces.Space[object], action_space: spaces.Space[object]
    ) -> None:
        super()._set_spaces(observation_space, action_space)
        if isinstance(observation_space, spaces.Dict):
            supported = "Box, Discrete, MultiDiscrete and MultiBinary"
            raise UserError(f"ARS does not support Dict observations; it supports {supported}")

    def setup_optimizers(self) -> None:
        """Put all weights into one vector; there is no optimiser."""
        self.flat = parameter_group(self.policy.parameters())
        if self.config.zero_policy and self.optimized_policy is None:  # not assigned by the user
            self.flat.assign(torch.zeros_like(self.flat.vector))
        self.actor = make_actor(self.policy)
        self.returns = torch.zeros(0)

    def state(self) -> dict[str, Any]:
        return {"policy": self.policy}

    @property
    def weights(self) -> torch.Tensor:
        """All parameters of the policy, [n_parameters]."""
        return self.flat.vector.detach()

    @property
    def n_params(self) -> int:
        """Number of trained parameters."""
        return len(self.flat.vector)

    @property
    def pop_size(self) -> int:
        """Candidates of an iteration: two of each direction."""
        return 2 * self.config.n_delta

    def learn(  # type: ignore[override]
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = -1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        async_eval: AsyncEval | None = None,
        progress_bar: bool = False,
    ) -> ARS:
        """Train; callbacks are called for each step of a candidate when its episodes are over.

        :param async_eval: worker processes to play candidates in
        """
        own, self.async_eval = self.async_eval, async_eval or self.async_eval
        try:
            return super().learn(
                total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
            )
        finally:
            self.async_eval = own

    def _start_episodes(self, env: VecEnv, resume: bool) -> None:
        """Restore the random generators only: every candidate begins new episodes.

        :raises UserError: several VecNormalize, of which candidates would learn the statistics of one
        """
        if (n_normalizers := len(vec_normalize_wrappers(env))) > 1:
            raise UserError(
                f"ARS learns the statistics of one VecNormalize, not of {n_normalizers}: set norm_obs and"
                " norm_reward in one"
            )
        if resume:
            self.resume_state.restore_randomness(env)
        self.resume_state = ResumeState()

    def propose(self, counters: Counters) -> np.ndarray:
        """Return the candidates, [2 * n_delta, n_parameters]: along all directions, then against."""
        vector = self.flat.vector.detach().cpu()
        self.deltas = torch.randn(self.config.n_delta, len(vector))
        moved = self.schedule("delta_std", counters) * self.deltas
        candidates: np.ndarray = torch.cat([vector + moved, vector - moved]).numpy()
        return candidates

    def update(self, outcomes: list[Outcome], counters: Counters) -> Metrics:
        """Take one step from the outcomes of the candidates that were proposed last."""
        config, vector = self.config, self.flat.vector.detach()
        learning_rate, n_top = self.schedule("learning_rate", counters), config.n_top or config.n_delta
        bonus = config.alive_bonus_offset
        self.returns = torch.tensor(
            [outcome.total + bonus * len(outcome.rewards) for outcome in outcomes], dtype=torch.float64
        )
        direction, deviation = ars_step(self.deltas, self.returns.view(2, -1), n_top)
        step_size = learning_rate / (n_top * float(deviation) + 1e-6)  # where all are equal, both are zero
        self.flat.assign(vector + (step_size * direction).to(vector))
        counters.n_updates += 1
        metrics = self.summarise([{"step_size": step_size}], counters)
        metrics.update(learning_rate=learning_rate, delta_std=self.schedule("delta_std", counters))
        return metrics

    def rollout_metrics(self) -> Metrics:
        return {"return_std": self.returns.std()} if len(self.returns) > 1 else {}
