"""Deep Q-learning (Mnih et al. 2015, https://doi.org/10.1038/nature14236).

Minimises, on transitions sampled from the replay buffer, the Huber loss between the value of the action that
was taken and

    r + gamma max_a' Q'(s', a')                         (the paper's algorithm 1)
    r + gamma Q'(s', argmax_a' Q(s', a'))               with `double_q` (van Hasselt et al. 2016, eq. 4)

where Q' is the target network (`target_update_interval`, `tau`). Options, all off by default: double
Q-learning, prioritised replay (Schaul et al. 2016), exploration by noise on the parameters (Plappert et al.
2018), and dueling networks (Wang et al. 2016; `policy_kwargs=dict(dueling=True)`).

Departures from the paper: Adam instead of RMSprop, and gradients clipped by their norm; the target network is
updated every 10,000 steps of the environment (10,000 updates in the paper); `learning_starts` is 100 (50,000)
and the final epsilon 0.05 (0.1), as in stable-baselines3. Parameter noise perturbs the
Q-network itself (Plappert et al. perturb a separate head that imitates its greedy actions).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range, check_unused
from rlzoo.algorithms.off_policy.off_policy_algorithm import (
    OffPolicyAlgorithm,
    check_off_policy,
    weighted_mean,
)
from rlzoo.buffers.replay.prioritized import PrioritizedReplayBuffer
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters, LinearSchedule
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.networks.parameter_noise import ParameterNoise, greedy_distance
from rlzoo.optim.polyak import TargetNetwork
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import (
    Choice,
    Conditional,
    Float,
    FractionOf,
    Int,
    OneOrSampled,
    Scheduled,
    SearchSpace,
)
from rlzoo.policies.value_based import DQNPolicy

NOISE_INTERVAL = 50
"""Steps between two adaptations of parameter noise (appendix A.1 of Plappert et al.)."""
NOISE_EPSILON = 0.01
"""Epsilon beside parameter noise, so that no perturbed policy gets stuck (appendix A.1)."""


epsilon_schedule = functools.lru_cache(LinearSchedule)
"""Probability of a random action; made once for equal arguments, since it is asked for at every step."""

PRIORITIES = tuple(f"prioritized_replay_{name}" for name in ("alpha", "beta0", "beta_iters", "eps"))


@dataclass(frozen=True, kw_only=True)
class DQNConfig:
    learning_rate: ScheduleLike = param(1e-4, doc=shared.LEARNING_RATE)
    buffer_size: int = param(1_000_000, doc=shared.BUFFER_SIZE)
    learning_starts: int = param(100, doc=shared.LEARNING_STARTS)
    batch_size: int = param(32, doc=shared.REPLAY_BATCH_SIZE)
    tau: float = param(1.0, doc=shared.TAU.plus("1 copies the network"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    train_freq: TrainFreq = param(4, doc=shared.TRAIN_FREQ)
    gradient_steps: int = param(1, doc=shared.GRADIENT_STEPS)
    replay_buffer_class: type[ReplayBuffer] | None = param(None, doc=shared.REPLAY_BUFFER_CLASS)
    replay_buffer_kwargs: dict[str, object] | None = param(None, doc=shared.REPLAY_BUFFER_KWARGS)
    optimize_memory_usage: bool = param(False, doc=shared.OPTIMIZE_MEMORY_USAGE)
    n_steps: int = param(1, doc=shared.N_STEP_RETURNS)
    target_update_interval: int = param(10_000, doc=shared.TARGET_UPDATE_STEPS)
    exploration_fraction: float = param(0.1, doc=shared.EXPLORATION_FRACTION)
    exploration_initial_eps: float = param(1.0, doc=shared.EXPLORATION_INITIAL_EPS)
    exploration_final_eps: float = param(0.05, doc=shared.EXPLORATION_FINAL_EPS)
    max_grad_norm: float | None = param(10, doc=shared.MAX_GRAD_NORM.plus("None: no clipping"))
    double_q: bool = param(
        False,
        doc="double Q-learning (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461): the"
        " online network selects the next action, the target network evaluates it; against"
        " overestimated values",
        section="target networks",
    )
    prioritized_replay: bool = param(False, doc=shared.PRIORITIZED_REPLAY)
    prioritized_replay_alpha: float = param(
        0.6, doc="exponent of the priorities, in [0, 1]; 0 samples uniformly", section="replay buffer"
    )
    prioritized_replay_beta0: float = param(
        0.4,
        doc="initial exponent of the importance weights, in [0, 1]; it is annealed to 1",
        section="replay buffer",
    )
    prioritized_replay_beta_iters: int | None = param(
        None,
        doc="environment steps over which prioritized_replay_beta0 is annealed to 1; None: the whole"
        " training",
        section="replay buffer",
    )
    prioritized_replay_eps: float = param(
        1e-6, doc="added to |TD error|, so that every transition can be sampled", section="replay buffer"
    )
    param_noise: bool = param(
        False,
        doc="explore with noise on the parameters (Plappert et al. 2018,"
        " https://arxiv.org/abs/1706.01905); best with layer normalisation (LnMlpPolicy)",
        section="exploration",
    )
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_q_learning(self)
        check_range(self, ("prioritized_replay_alpha", "prioritized_replay_beta0"), low=0, high=1)
        check_range(self, ("prioritized_replay_beta_iters",), low=1)
        check_range(self, ("prioritized_replay_eps",), low=0, above=True)
        if not self.prioritized_replay:
            check_unused(self, PRIORITIES, "prioritized_replay=True")
        other = self.replay_buffer_class
        if self.prioritized_replay and other and not issubclass(other, PrioritizedReplayBuffer):
            raise UserError(f"prioritized_replay=True does not go together with {other.__name__}")


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 256, log=True),
    **ranges.REPLAY,
    "train_freq": Int(1, 512, log=True),
    "gradient_steps": FractionOf(("train_freq", "n_envs"), 1 / 16, 1.0),
    "n_steps": Int(1, 5),
    "target_update_interval": Int(1, 20_000, log=True),
    "exploration_fraction": Float(2e-3, 0.5, log=True),
    "exploration_final_eps": Float(5e-3, 0.3, log=True),
    "max_grad_norm": OneOrSampled(None, Float(0.5, 20.0, log=True)),
    "double_q": Choice(False, True),
    "prioritized_replay": Choice(False, True),
    "prioritized_replay_alpha": Conditional("prioritized_replay", (True,), Float(0.2, 1.0)),
    "prioritized_replay_beta0": Conditional("prioritized_replay", (True,), Float(0.2, 1.0)),
    "policy_kwargs.net_arch": ranges.NET_ARCH,
    "policy_kwargs.activation_fn": ranges.ACTIVATION_FN,
    "policy_kwargs.dueling": Choice(False, True),
    "policy_kwargs.layer_norm": Choice(False, True),
}


def check_q_learning(config: object) -> None:
    """Check the hyperparameters that DQN and QR-DQN share."""
    check_range(config, ("target_update_interval",), low=1)
    check_range(config, ("exploration_initial_eps", "exploration_final_eps"), low=0, high=1)
    check_range(config, ("exploration_fraction",), low=0, high=1, above=True)
    check_range(config, ("max_grad_norm",), low=0, above=True)


def dqn_target(policy: DQNPolicy, batch: ReplayBatch, double_q: bool) -> Tensor:
    """Return r + discount * V(s'), [batch]; V is the target network's Q-value of the greedy action.

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.
    """
    with torch.no_grad():
        next_q = policy.q_net_target(batch.next_observations)  # [batch, n_actions]
        if double_q:
            best = policy.q_net(batch.next_observations).argmax(dim=-1, keepdim=True)
            next_values = next_q.gather(-1, best).squeeze(-1)
        else:
            next_values = next_q.amax(dim=-1)
        return torch.addcmul(batch.rewards, batch.discounts, next_values)


def dqn_loss(
    q_values: Tensor, actions: Tensor, target_q: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the Huber loss, whose derivative is the TD error clipped to [-1, 1] as in the paper.

    :param q_values: Q(s, .), [batch, n_actions]
    :param actions: [batch]
    :param target_q: [batch]
    :param weights: importance weights of prioritised replay, [batch]
    :return: the scalar loss; where replay is prioritised, TD errors, [batch]
    """
    taken_q = q_values.gather(-1, actions.unsqueeze(-1))  # [batch, 1]
    targets = target_q.unsqueeze(-1)
    if weights is None and taken_q.dim() == 2:
        return F.smooth_l1_loss(taken_q, targets), None
    losses = F.smooth_l1_loss(taken_q, targets, reduction="none").squeeze(-1)
    return weighted_mean(losses, weights), (taken_q.detach() - targets).squeeze(-1)


class DQN(OffPolicyAlgorithm):
    """DQN for Discrete actions.

    Example:
        >>> from rlzoo import DQN
        >>> model = DQN("MlpPolicy", "CartPole-v1", learning_starts=1000).learn(50_000)
    """

    Config: ClassVar[type] = DQNConfig
    search_space = SEARCH_SPACE
    data_parallel = True
    config: Any
    policy_family = "q_network"
    action_spaces = (spaces.Discrete,)
    policy: DQNPolicy
    parameter_noise: ParameterNoise | None = None
    _assigned_schedule: Callable[[float], float] | None = None
    _assigned_rate: tuple[int, float] | None = None  # number of steps at which it was assigned, and the rate

    @classmethod
    def n_envs_problem(cls, config: Any, n_envs: int) -> str | None:
        interval = config.target_update_interval
        if config.tau < 1 or n_envs <= interval:
            return None
        return (
            f"The number of environments used is greater than target_update_interval ({n_envs} > {interval}),"
            " so the target network is copied at every round of gradient steps"
        )

    def setup_optimizers(self) -> None:
        policy = self.policy
        policy.target_net().requires_grad_(False)
        super().setup_optimizers()
        self.target_q_net = TargetNetwork(self.flat, policy.online_net(), policy.target_net())
        if self.optimized_policy is None:  # else they count on
            self.target_updates, self.noise_updates = IntervalCounter(), IntervalCounter()
        if getattr(self.config, "param_noise", False):
            self.parameter_noise = ParameterNoise(policy.online_net(), AdaptiveParamNoiseSpec())

    def state(self) -> dict[str, Any]:
        state = {
            "policy": self.policy,
            "policy.optimizer": self.policy.optimizer,
            "target_updates": self.target_updates,
            **super().state(),
        }
        if self.parameter_noise is not None:
            state |= {"parameter_noise": self.parameter_noise, "noise_updates": self.noise_updates}
        return state

    def replay_class(self) -> tuple[type[ReplayBuffer], dict[str, Any]]:
        buffer_class, kwargs = super().replay_class()
        if not getattr(self.config, "prioritized_replay", False):
            return buffer_class, kwargs
        names = ("alpha", "beta0", "beta_iters", "eps")
        own = {name: getattr(self.config, f"prioritized_replay_{name}") for name in names}
        return self.config.replay_buffer_class or PrioritizedReplayBuffer, {**own, **kwargs}

    # ------------------------------------------------------------------ exploring

    @property
    def exploration_rate(self) -> float:
        """The current probability of a random action; an assigned value holds until the next step."""
        if self._assigned_rate is not None and self._assigned_rate[0] == self.counters.num_timesteps:
            return self._assigned_rate[1]
        return self.exploration_schedule(self._current_progress_remaining)

    @exploration_rate.setter
    def exploration_rate(self, value: float) -> None:
        if not 0 <= value <= 1:
            raise UserError(f"exploration_rate must be at least 0 and at most 1, not {value!r}")
        self._assigned_rate = (self.counters.num_timesteps, float(value))

    @property
    def exploration_schedule(self) -> Callable[[float], float]:
        """Epsilon as a function of the progress remaining; another may be assigned."""
        if self._assigned_schedule is not None:
            return self._assigned_schedule
        config = self.config
        return epsilon_schedule(
            config.exploration_initial_eps, config.exploration_final_eps, config.exploration_fraction
        )

    @exploration_schedule.setter
    def exploration_schedule(self, value: Callable[[float], float]) -> None:
        self._assigned_schedule = value

    def rollout_metrics(self) -> Metrics:
        metrics: Metrics = {"exploration_rate": self.exploration_rate}
        if self.parameter_noise is not None:
            metrics["param_noise_stddev"] = self.parameter_noise.stddev
        return metrics

    def explore(self, obs: TensorObs) -> Tensor:
        epsilon = self.exploration_rate
        if self.parameter_noise is not None:
            epsilon = min(epsilon, NOISE_EPSILON)
        if self.tensor_actions is not None:  # no copy to the host
            chosen = torch.rand(self.n_envs, device=self.device) < epsilon
            return torch.where(chosen, self.random_actions().to(self.device), self.greedy_actions(obs))
        draws = np.random.random(self.n_envs * self.n_ranks)  # for all ranks: they draw alike
        if min(draws.tolist()) >= epsilon:
            return self.greedy_actions(obs)
        random_actions, at_random = self.random_actions(), draws < epsilon
        if at_random.all():
            return random_actions
        own = torch.from_numpy(at_random[self.own_envs])
        return torch.where(own, random_actions, self.greedy_actions(obs).cpu())

    def greedy_actions(self, obs: TensorObs) -> Tensor:
        """Return the best actions [n_envs], as the perturbed network sees it where there is one."""
        if self.parameter_noise is None:
            best: Tensor = self.policy.predict_actions(obs)
            return best
        return self.parameter_noise.exploring(obs).argmax(dim=1)  # type: ignore[no-any-return]

    def end_episodes(self, indices: np.ndarray) -> None:
        super().end_episodes(indices)
        if self.parameter_noise is not None and 0 in indices:  # shared by all, so at the pace of one
            self.parameter_noise.perturb()

    def adapt_noise(self, noise: ParameterNoise, observations: TensorObs) -> None:
        """Keep the perturbed policy as far from the plain one as an epsilon-greedy one would be: at a KL
        divergence of -log(1 - epsilon + epsilon / n_actions) (appendix C.1 of Plappert et al.)."""
        epsilon, n_actions = self.exploration_rate, int(self.action_space.n)  # type: ignore[attr-defined]
        noise.spec.desired_action_stddev = -math.log(1 - epsilon + epsilon / n_actions)
        self.set_training_mode(False)  # the mode in which both act
        with torch.no_grad():
            q_values = self.policy.q_values(observations)
        self.set_training_mode(True)
        noise.adapt(lambda perturbed: greedy_distance(q_values, perturbed(observations)))

    # ------------------------------------------------------------------ using the agent

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return the greedy actions, or with `deterministic=False` epsilon-greedy ones.

        Epsilon is the present `exploration_rate`; an agent that was never trained acts greedily. See
        `Algorithm.predict`.
        """
        actions, state = super().predict(observation, state, episode_start, deterministic, mask)
        if not deterministic and (self.counters.num_timesteps > 0 or self._assigned_rate is not None):
            space = cast(spaces.Discrete, self.action_space)
            at_random = np.random.random(actions.shape) < self.exploration_rate
            random_actions = space.start + np.random.randint(space.n, size=actions.shape)
            actions = np.where(at_random, random_actions, actions).astype(actions.dtype)
        return actions, state

    # ------------------------------------------------------------------ learning

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        if not self.overrides_collection:
            self.update_target_network(counters)
        noise = self.parameter_noise
        if noise is not None and self.noise_updates.crossings(counters.num_timesteps, NOISE_INTERVAL):
            self.adapt_noise(noise, batch.observations)
        learning_rate = self.set_learning_rate(self.policy.optimizer, counters)
        metrics = self.gradient_step(batch)
        counters.n_updates += 1
        metrics["learning_rate"] = learning_rate
        return metrics

    def gradient_step(self, batch: ReplayBatch) -> Metrics:
        """Take a gradient step on a batch."""
        config, policy = self.config, self.policy
        # The target network last: it pushes the online weights, just stepped on, out of the cache. But with
        # double Q-learning, it is the online network that is evaluated twice, and its layers may change their
        # buffers each time (NoisyNet), which the gradient still needs.
        target_q = dqn_target(policy, batch, double_q=True) if config.double_q else None
        with self.network_optimizer.recorded():
            q_values = policy.q_net(batch.observations)
        if target_q is None:
            target_q = dqn_target(policy, batch, double_q=False)
        loss, td_errors = dqn_loss(q_values, batch.actions, target_q, batch.weights)
        self.network_optimizer.step(loss, config.max_grad_norm)
        if td_errors is not None:
            batch.set_priorities(td_errors)
        return {"loss": loss.detach()}

    def prepare_train(self) -> None:
        if not self.overrides_collection:
            self.update_target_network(self.counters)

    def _on_step(self) -> None:
        self.update_target_network(self.counters)

    def update_target_network(self, counters: Counters) -> None:
        """Update the target network if `target_update_interval` environment steps have passed."""
        config = self.config
        if n := self.target_updates.crossings(counters.num_timesteps, config.target_update_interval):
            # n updates at once: the online network did not change between them
            self.target_q_net.update(1 - (1 - config.tau) ** n)


class IntervalCounter:
    """Counter of how often a number of steps crosses a multiple of an interval."""

    def __init__(self) -> None:
        self.last = 0

    def crossings(self, step: int, interval: int) -> int:
        """Return how many multiples of `interval` were passed since the last call; restart if `step` fell."""
        last = self.last if self.last <= step else 0
        self.last = step
        return step // interval - last // interval

    def state_dict(self) -> dict[str, int]:
        return {"last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.last = int(state["last"])
