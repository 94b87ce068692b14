"""PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) with a recurrent (LSTM) policy.

The objective and the order of updates are those of `rlzoo.algorithms.on_policy.ppo`. What differs is what a
transition depends on: with an LSTM, pi(a_t | s_t) becomes pi(a_t | s_t, h_t), where the recurrent state h_t
comes from all earlier observations of the episode.

A minibatch therefore holds neighbouring steps, and the gradient goes back in time from each to the first
step of its sequence: the start of the episode, of the rollout, or of the minibatch. A sequence that does not
start with its episode goes on from the memory with which it was collected, as it was then ("stored state" in
Kapturowski et al. 2019, https://openreview.net/forum?id=r1lyTjAqYX).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlzoo.algorithms.hyperparameters import ScheduleLike
from rlzoo.algorithms.on_policy.ppo import PPO, check_ppo


@dataclass(frozen=True, kw_only=True)
class RecurrentPPOConfig:
    learning_rate: ScheduleLike = 3e-4
    n_steps: int = 128  # steps per environment and rollout; a rollout holds n_steps * n_envs
    batch_size: int = 128  # minibatch size
    n_epochs: int = 10  # passes over each rollout
    gamma: float = 0.99  # discount
    gae_lambda: float = 0.95  # bias against variance of the advantages (eq. 11)
    clip_range: ScheduleLike = 0.2  # eps of eq. 7
    clip_range_vf: ScheduleLike | None = (
        None  # the same for the value function, in units of the return; None is off
    )
    normalize_advantage: bool = True
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    use_sde: bool = False  # generalised state-dependent exploration (Raffin et al. 2021)
    sde_sample_freq: int = -1  # steps between new noise matrices; -1: once per rollout
    target_kl: float | None = None  # an update stops when the KL divergence exceeds 1.5 times this

    def __post_init__(self) -> None:
        check_ppo(self)


class RecurrentPPO(PPO):
    """PPO of recurrent policies for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Sizes of the LSTMs are keywords of the policy: `policy_kwargs=dict(lstm_hidden_size=64)`.
    """

    Config = RecurrentPPOConfig
    config: RecurrentPPOConfig
    policy_family = "recurrent"
