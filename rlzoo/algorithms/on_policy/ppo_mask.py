"""PPO with invalid action masking (Huang and Ontañón 2020, https://arxiv.org/abs/2006.14171).

The objective is PPO's; the policy chooses among the actions that the environment allows in each state. With
logits l and the set of allowed actions A(s),

    pi(a|s) = exp(l_a) / sum_{b in A(s)} exp(l_b)  for a in A(s), else 0

when acting, and with the same masks when learning: they are kept with the rollout.

Departures from the paper: those of PPO.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlzoo.algorithms.agent.action_probability import action_probability
from rlzoo.algorithms.hyperparameters import ScheduleLike
from rlzoo.algorithms.on_policy.ppo import PPO, check_ppo
from rlzoo.algorithms.on_policy.ppo import SEARCH_SPACE as PPO_SEARCH_SPACE
from rlzoo.core.errors import UserError
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Int, OneMinusLogUniform, SearchSpace

Self = TypeVar("Self", bound="MaskablePPO")


@dataclass(frozen=True, kw_only=True)
class MaskablePPOConfig:
    learning_rate: ScheduleLike = param(3e-4, doc=shared.LEARNING_RATE)
    n_steps: int = param(2048, doc=shared.N_STEPS)
    batch_size: int = param(64, doc=shared.BATCH_SIZE)
    n_epochs: int = param(10, doc=shared.N_EPOCHS)
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float = param(0.95, doc=shared.GAE_LAMBDA)
    clip_range: ScheduleLike = param(0.2, doc=shared.CLIP_RANGE)
    clip_range_vf: ScheduleLike | None = param(None, doc=shared.CLIP_RANGE_VF)
    normalize_advantage: bool = param(True, doc=shared.NORMALIZE_ADVANTAGE)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    vf_coef: float = param(0.5, doc=shared.VF_COEF)
    max_grad_norm: float = param(0.5, doc=shared.MAX_GRAD_NORM)
    target_kl: float | None = param(None, doc=shared.TARGET_KL_STOP)

    def __post_init__(self) -> None:
        check_ppo(self)


SEARCH_SPACE: SearchSpace = {
    **ranges.without(PPO_SEARCH_SPACE, *ranges.STATE_DEPENDENT_NOISE),
    "n_steps": Int(16, 4096, log=True),
    "batch_size": Int(8, 1024, log=True),
    "gamma": OneMinusLogUniform(5e-5, 1.0),
}


class MaskablePPO(PPO):
    """PPO for Discrete, MultiDiscrete and MultiBinary actions of which some are invalid.

    The environment says which are valid: by a method `action_masks() -> bool [n_choices]`, which an
    `ActionMasker` gives it where it lacks one.

    Example:
        >>> from rlzoo import InvalidActionEnvDiscrete, MaskablePPO
        >>> env = InvalidActionEnvDiscrete(dim=80, n_invalid_actions=60)
        >>> model = MaskablePPO("MlpPolicy", env).learn(10_000)
    """

    Config = MaskablePPOConfig
    search_space = SEARCH_SPACE
    config: MaskablePPOConfig
    policy_family = "maskable"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    wants_action_masks = True

    def policy_arguments(self) -> dict[str, Any]:
        policy: Any = self.policy_class
        if "action_masks" not in inspect.signature(policy.evaluate_actions).parameters:
            raise UserError(
                f"{policy.__name__} takes no action masks: derive it from MaskableActorCriticPolicy"
            )
        return super().policy_arguments()

    def learn(  # type: ignore[override]
        self: Self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = -1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        use_masking: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train, as every algorithm's `learn`.

        :param use_masking: False learns as PPO does, with every action allowed
        :raises UserError: the environment does not say which actions are valid
        """
        self.wants_action_masks = use_masking
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )

    def predict(  # type: ignore[override]
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks: npt.ArrayLike | None = None,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return actions for one observation or a batch of them, and None.

        :param action_masks: what is valid, bool [n_choices] or [batch, n_choices], as `get_action_masks(env)`
            says; None allows everything
        """
        starts = mask if episode_start is None else episode_start
        predicted: tuple[np.ndarray, tuple[np.ndarray, ...] | None] = self.policy.predict(
            observation, state, starts, deterministic, action_masks
        )
        return predicted

    def action_probability(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        mask: np.ndarray | None = None,
        actions: Any = None,
        logp: bool = False,
        action_masks: npt.ArrayLike | None = None,
    ) -> Any:
        """Return what `action_probability` of every algorithm does, of choices that `action_masks` allows."""
        return action_probability(
            self.policy, self.action_space, observation, state, mask, actions, logp, action_masks
        )
