"""PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) with a recurrent (LSTM) policy.

The objective and the order of updates are those of `rlzoo.algorithms.on_policy.ppo`. What differs is what a
transition depends on: with an LSTM, pi(a_t | s_t) becomes pi(a_t | s_t, h_t), where the recurrent state h_t
comes from all earlier observations of the episode.

A minibatch therefore holds neighbouring steps, and the gradient goes back in time from each to the first
step of its sequence: the start of the episode, of the rollout, or of the minibatch. A sequence that does not
start with its episode continues from the recurrent state with which it was collected ("stored state" in
Kapturowski et al. 2019, https://openreview.net/forum?id=r1lyTjAqYX).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlzoo.algorithms.on_policy.ppo import PPO, PPOConfig
from rlzoo.algorithms.on_policy.ppo import SEARCH_SPACE as PPO_SEARCH_SPACE
from rlzoo.params import shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, PowerOfTwo, SearchSpace


@dataclass(frozen=True, kw_only=True)
class RecurrentPPOConfig(PPOConfig):
    """Hyperparameters of PPO, with shorter rollouts."""

    n_steps: int = param(128, doc=shared.N_STEPS)
    batch_size: int = param(128, doc=shared.BATCH_SIZE)


SEARCH_SPACE: SearchSpace = {
    **PPO_SEARCH_SPACE,
    "policy_kwargs.net_arch": Choice([], [16], [64], [64, 64], [256], [256, 256]),
    "policy_kwargs.lstm_hidden_size": PowerOfTwo(16, 512),
    "policy_kwargs.enable_critic_lstm": Choice(True, False),
}


class RecurrentPPO(PPO):
    """PPO of recurrent policies for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Sizes of the LSTMs are keywords of the policy: `policy_kwargs=dict(lstm_hidden_size=64)`.

    Example:
        >>> from rlzoo import RecurrentPPO
        >>> model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1").learn(100_000)
    """

    Config = RecurrentPPOConfig
    search_space = SEARCH_SPACE
    learns_from_get = False  # its batches are sequences
    config: RecurrentPPOConfig
    policy_family = "recurrent"
