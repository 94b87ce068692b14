"""Actor-critic with experience replay (Wang et al. 2017, https://arxiv.org/abs/1611.01224).

Learns from each rollout once as it comes and, on average, `replay_ratio` times from trajectories sampled from
the replay buffer. With the probabilities f = pi(.|s) of the network and mu(.|s) of the behaviour policy,
rho = f / mu, and V(s) = sum_a f(a) Q(s, a):

    Q_ret   Retrace (Munos et al. 2016), see core.returns.retrace
    g       = min(c, rho(a)) (Q_ret - V) grad_f log f(a)                        truncation and its
              + sum_b [1 - c / rho(b)]_+ f(b) (Q(b) - V) grad_f log f(b)        correction, eq. 10
    z       = g - max(0, (k.g - delta) / k.k) k,   k = grad_f KL(f_average, f)  trust region, eq. 12
    dtheta  = z df/dtheta - q_coef grad (Q_ret - Q(a))^2 / 2

where f_average is the average policy network (section 3.3). An entropy bonus is added to g.

Departures from the paper: gradients are clipped by their norm; environments step together instead of
asynchronous workers; an episode that is truncated inside a trajectory is bootstrapped with the value of its
final observation. The learning rate is annealed linearly, `ent_coef` is 0.01 (0.001 in the paper), and
`buffer_size` 5,000 steps per environment (50,000 frames per worker), as in Stable Baselines.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.algorithms.stored_experience import scaled_as_seen, stored_dtypes, stored_experience
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.buffers.stored import Conversion
from rlzoo.buffers.trajectories import Trajectories, TrajectoryBuffer
from rlzoo.core.errors import UserError
from rlzoo.core.returns import bootstrap_values, explained_variance, retrace
from rlzoo.core.schedules import Counters, lr_schedule
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.envs.vec_wrappers.vec_frame_stack import n_stacked_frames
from rlzoo.io.container import PathOrFile
from rlzoo.optim.polyak import TargetNetwork
from rlzoo.optim.rmsprop_tf import RMSpropTFLike
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, Float, Int, OneMinusLogUniform, SearchSpace
from rlzoo.policies.q_valued import q_value_policy

SMALLEST_PROBABILITY = 1e-6  # of what is divided by


@dataclass(frozen=True, kw_only=True)
class ACERConfig:
    learning_rate: ScheduleLike = param(7e-4, doc=shared.LEARNING_RATE)
    n_steps: int = param(20, doc=shared.N_STEPS.plus("also the length of replayed trajectories"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    q_coef: float = param(0.5, doc="weight of the Q-value loss", section="losses")
    ent_coef: float = param(0.01, doc=shared.ENT_COEF)
    max_grad_norm: float = param(10.0, doc=shared.MAX_GRAD_NORM)
    lr_schedule: str = param("linear", doc=shared.LR_SCHEDULE)
    rprop_alpha: float = param(
        0.99,
        doc="decay of the running average of squared gradients (RMSprop), in [0, 1]",
        section="optimisation",
    )
    rprop_epsilon: float = param(
        1e-5,
        doc="epsilon of RMSprop, added to the running average of squared gradients inside the root",
        section="optimisation",
    )
    buffer_size: int = param(
        5000,
        doc="replay buffer capacity, in steps per environment; lower it if memory is short",
        section="replay buffer",
    )
    replay_ratio: float = param(
        4.0,
        doc="mean number of updates from the replay buffer per rollout (Poisson distributed); more"
        " are more sample-efficient and cost more time",
        section="replay buffer",
    )
    replay_start: int = param(
        1000, doc="steps per environment in the replay buffer before it is sampled", section="replay buffer"
    )
    correction_term: float = param(
        10.0,
        doc="truncation c of the importance weights (eq. 7); lower: less variance, more bias",
        section="losses",
    )
    trust_region: bool = param(
        True, doc="bound the policy update by the average policy (section 3.3)", section="trust region"
    )
    alpha: float = param(
        0.99,
        doc="decay of the average policy's parameters per update, in [0, 1]; higher: a slower average policy",
        section="trust region",
    )
    delta: float = param(
        1.0,
        doc="upper bound on the linearised KL divergence from the average policy; lower it for"
        " smaller policy updates",
        section="trust region",
    )

    def __post_init__(self) -> None:
        check_range(self, ("n_steps",), low=1)
        check_range(self, ("gamma", "rprop_alpha", "alpha"), low=0, high=1)
        check_range(self, ("max_grad_norm", "rprop_epsilon", "correction_term"), low=0, above=True)
        check_range(self, ("learning_rate", "q_coef", "replay_ratio", "replay_start", "delta"), low=0)
        check_range(self, ("buffer_size",), low=1)
        lr_schedule(self.lr_schedule, 1.0)  # that there is one of this name
        held = self.buffer_size // self.n_steps
        if self.replay_ratio and self.replay_start > held * self.n_steps:
            raise UserError(
                f"replay_start ({self.replay_start}) steps are never in the replay buffer: buffer_size "
                f"({self.buffer_size}) holds {held} trajectories of {self.n_steps}"
            )


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Float(1e-5, 1e-2, log=True),
    "lr_schedule": Choice("constant", "linear"),
    "n_steps": Int(4, 128, log=True),
    "gamma": ranges.GAMMA,
    "q_coef": Float(0.1, 1.0),
    "ent_coef": ranges.ENT_COEF,
    "max_grad_norm": Float(0.3, 20.0, log=True),
    "replay_ratio": Float(0.0, 8.0),
    "replay_start": Int(100, 5_000, log=True),
    "buffer_size": Int(1_000, 50_000, log=True),
    "correction_term": Float(1.0, 20.0, log=True),
    "alpha": OneMinusLogUniform(1e-3, 0.1),
    "delta": Float(0.1, 10.0, log=True),
    "policy_kwargs.net_arch": ranges.NET_ARCH,
    "policy_kwargs.activation_fn": ranges.ACTIVATION_FN,
}


def policy_gradient(
    log_probs: Tensor, log_mu: Tensor, actions: Tensor, q: Tensor, targets: Tensor, config: ACERConfig
) -> Tensor:
    """Compute g of eq. 10 with the gradient of the entropy bonus, both by f, [batch, n_actions].

    :param log_probs: log f, and `log_mu` those of the behaviour policy, [batch, n_actions]
    :param q: Q of all actions, [batch, n_actions]; `targets` Q_ret of `actions`, [batch]
    """
    probs, c = log_probs.exp(), config.correction_term
    values = (probs * q).sum(dim=1, keepdim=True)
    ratios = (log_probs - log_mu).exp()
    taken = actions.unsqueeze(1)
    ratio, prob = ratios.gather(1, taken), probs.gather(1, taken)
    g = (1 - c / ratios).clamp(min=0) * (q - values)
    truncated = ratio.clamp(max=c) * (targets.unsqueeze(1) - values)
    g.scatter_add_(1, taken, truncated / prob.clamp(min=SMALLEST_PROBABILITY))
    return g - config.ent_coef * (log_probs + 1)


def trust_region(g: Tensor, probs: Tensor, average_probs: Tensor, delta: float) -> Tensor:
    """Return z of eq. 12, nearest to `g` with a product with k of at most `delta`; all [batch, n_actions]."""
    k = -average_probs / probs.clamp(min=SMALLEST_PROBABILITY)
    excess = (k * g).sum(dim=1, keepdim=True) - delta
    return g - (excess / k.square().sum(dim=1, keepdim=True)).clamp(min=0) * k


class ACER(OnPolicyAlgorithm):
    """ACER for Discrete actions.

    Example:
        >>> from rlzoo import ACER
        >>> model = ACER("MlpPolicy", "CartPole-v1").learn(100_000)
    """

    Config = ACERConfig
    search_space = SEARCH_SPACE
    config: ACERConfig
    action_spaces = (spaces.Discrete,)
    default_log_interval = 100
    divergence_suspects = ("learning_rate", "max_grad_norm", "q_coef", "correction_term")
    whole_rollouts = True
    keeps_raw_rollouts = True
    _replay_buffer: TrajectoryBuffer | None = None

    # ------------------------------------------------------------------ construction

    def policy_arguments(self) -> dict[str, Any]:
        arguments = super().policy_arguments()
        if "optimizer_class" not in arguments:
            options = {"alpha": self.config.rprop_alpha, "eps": self.config.rprop_epsilon}
            arguments["optimizer_class"] = RMSpropTFLike
            arguments["optimizer_kwargs"] = {**options, **(arguments.get("optimizer_kwargs") or {})}
        return arguments

    def _setup_model(self) -> None:
        asked_for = self.policy_class
        self.policy_class = q_value_policy(asked_for)
        super()._setup_model()
        self.policy_class = asked_for  # what a file names

    def optimize_assigned_policy(self) -> None:
        if self.policy is not self.optimized_policy or self.has_replaced_networks():
            raise UserError("ACER keeps an average of its policy: assign none, use set_parameters()")

    def setup_optimizers(self) -> None:
        self.average_policy = copy.deepcopy(self.policy)
        super().setup_optimizers()
        self.target_policy = TargetNetwork(self.flat, self.policy, self.average_policy)
        self.average_policy.set_training_mode(False)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "policy.average": self.target_policy}

    # ------------------------------------------------------------------ acting

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        if self.recurrent:
            step = self._act_recurrent(inputs)
        else:
            actions = self.policy.act(inputs.obs)
            step = PolicyOutput(actions, self.to_env_action(actions))
        step.extra["log_mu"] = self.policy.action_dist.log_probs  # as acting has left them in the policy
        return step

    # ------------------------------------------------------------------ learning

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        config, replay = self.config, self.replay_buffer
        learning_rate = self.set_learning_rate(self.policy.optimizer, counters)
        self.set_training_mode(True)
        new = Trajectories.of_rollout(rollout, tuple(self.rnn_state or ()))
        history = [self._learn(new, counters)]
        if config.replay_ratio > 0:
            replay.add(new if rollout.raw is None else new.before_scaling(rollout.raw))
            if replay.steps_held >= config.replay_start:
                for _ in range(int(torch.poisson(torch.tensor(config.replay_ratio)))):
                    replayed = replay.sample()
                    if rollout.raw is not None:
                        replayed = replayed.scaled(rollout.raw.normalizer)
                    history.append(self._learn(replayed, counters))
        explained = history[0].pop("explained_variance")
        metrics = self.summarise(history, counters)
        metrics.update(explained_variance=explained, learning_rate=learning_rate)
        return metrics

    def _learn(self, trajectories: Trajectories, counters: Counters) -> Metrics:
        """Take one gradient step on trajectories of the present policy or of earlier ones."""
        config = self.config
        obs = trajectories.all_obs(self.device)
        context = {"sequences": trajectories.sequences(self.device)} if self.recurrent else {}
        n_rows = trajectories.rewards.size  # the rows behind these are observations that were not acted on
        old = None
        if self.has_train_mode_layers:  # mu is of evaluation mode: what is compared with it must be, too
            self.set_training_mode(False)
            with torch.no_grad():
                old = self.policy.log_probs_and_q_values(obs, **context)
            self.set_training_mode(True)
        log_probs, q = self.policy.log_probs_and_q_values(obs, **context)
        old_log_probs, old_q = old or (log_probs.detach(), q.detach())
        targets, ratios = self._targets(trajectories, old_log_probs, old_q)

        log_probs, q = log_probs[:n_rows], q[:n_rows]
        old_log_probs, old_q = old_log_probs[:n_rows], old_q[:n_rows]
        probs = log_probs.exp()
        actions = torch.from_numpy(trajectories.actions.reshape(-1)).to(self.device)
        log_mu = torch.from_numpy(trajectories.log_mu.reshape(n_rows, -1)).to(self.device)
        with torch.no_grad():
            z = policy_gradient(old_log_probs, log_mu, actions, old_q, targets, config)
            if config.trust_region:
                average_probs = self.average_policy.log_probs_and_q_values(obs, **context)[0][:n_rows].exp()
                z = trust_region(z, old_log_probs.exp(), average_probs, config.delta)
        policy_loss = -(z * probs).sum(dim=1).mean()  # its gradient is -z df/dtheta
        q_taken = q.gather(1, actions.unsqueeze(1)).flatten()
        q_loss = 0.5 * (targets - q_taken).square().mean()
        loss = policy_loss + config.q_coef * q_loss
        self.network_optimizer.step(loss, config.max_grad_norm)
        self.target_policy.update(1 - config.alpha)
        counters.n_updates += 1

        detached = q_taken.detach()
        return {
            "loss": loss.detach(),
            "policy_loss": policy_loss.detach(),
            "value_loss": q_loss.detach(),
            "entropy_loss": (probs * log_probs).sum(dim=1).mean().detach(),
            "importance_ratio": float(ratios.mean()),
            "explained_variance": explained_variance(detached.cpu().numpy(), targets.cpu().numpy()),
        }

    def _targets(self, trajectories: Trajectories, log_probs: Tensor, q: Tensor) -> tuple[Tensor, np.ndarray]:
        """Compute Q_ret of each step [n_steps * n_envs], and importance ratios of actions [n_steps, n_envs].

        :param log_probs: of every observation and action, [(n_steps + 1) * n_envs + n_truncated, n_actions]
        """
        shape = (trajectories.n_steps + 1, trajectories.n_envs)
        n_rows, n_acted = shape[0] * shape[1], trajectories.rewards.size
        values = (log_probs.exp() * q).sum(dim=1).cpu().numpy()
        by_step, final_values = values[:n_rows].reshape(shape), values[n_rows:]
        if trajectories.finals is None:
            next_values = bootstrap_values(by_step[:-1], by_step[-1])
        else:
            next_values = bootstrap_values(by_step[:-1], by_step[-1], final_values, trajectories.finals[1])
        taken = trajectories.actions[..., None]

        def of_actions(column: np.ndarray) -> np.ndarray:
            return np.take_along_axis(column, taken, axis=-1)[..., 0]

        log_pi, q_taken = (
            of_actions(part[:n_acted].cpu().numpy().reshape(*taken.shape[:2], -1)) for part in (log_probs, q)
        )
        ratios = np.exp(log_pi - of_actions(trajectories.log_mu))
        targets = retrace(
            trajectories.rewards,
            q_taken,
            next_values,
            ratios,
            trajectories.terminated,
            trajectories.truncated,
            self.config.gamma,
        )
        return torch.from_numpy(targets.reshape(-1)).to(self.device), ratios

    # ------------------------------------------------------------------ the replay buffer

    @property
    def replay_buffer(self) -> TrajectoryBuffer:
        """The replay buffer of trajectories, unnormalised where there is a VecNormalize; emptied when
        `buffer_size` or `n_steps` changes."""
        n_slots = max(1, self.config.buffer_size // self.config.n_steps)
        if self._replay_buffer is None or self._replay_buffer.n_slots != n_slots:
            n_stack = 1 if self.env is None else n_stacked_frames(self.env)
            self._replay_buffer = TrajectoryBuffer(n_slots, n_stack)
        return self._replay_buffer

    def save_replay_buffer(self, path: PathOrFile) -> None:
        """Write the trajectories to a path (`.safetensors` is appended when it has no suffix) or file."""
        from rlzoo.buffers import trajectory_file

        stored = stored_experience(self.env)
        trajectory_file.save_trajectories(path, self.replay_buffer, self._identity(), stored)

    def load_replay_buffer(self, path: PathOrFile, truncate_last_traj: bool = True) -> None:
        """Remember the trajectories of a file; nothing in it is executed.

        :param truncate_last_traj: of no effect, as trajectories end where a rollout does
        :raises CheckpointError: the file is damaged, or of other spaces or another number of environments
        """
        from rlzoo.buffers import trajectory_file

        conversion = Conversion(
            stored_experience(self.env),
            scaled_as_seen(self.env),  # what earlier versions stored
            ExperienceNormalizer.of(self.env),
            {} if self.env is None else stored_dtypes(self.env),
        )
        trajectory_file.load_trajectories(path, self.replay_buffer, self._identity(), conversion)

    def _identity(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "n_envs": self.n_envs,
            "n_steps": self.config.n_steps,
        }
