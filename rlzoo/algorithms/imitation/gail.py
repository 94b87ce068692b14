"""Generative adversarial imitation learning (Ho and Ermon 2016, https://arxiv.org/abs/1606.03476).

A discriminator learns to tell an expert's transitions from the agent's, and the agent is rewarded for
transitions that the discriminator takes for the expert's (algorithm 1). With D(s, a) the probability that a
transition is the expert's, the discriminator lowers

    J(D) = -E_expert[log D(s, a)] - E_pi[log(1 - D(s, a))] - adversary_entcoeff E[H(D(s, a))]

and a learner, TRPO or PPO, raises the return of

    r(s, a) = -log(1 - D(s, a))

The rewards of the environment are not used; the returns that are logged are its own.

Departures from the paper: D is the probability of the expert, 1 - D of the paper, whose agent lowers the cost
log D; the discriminator has an entropy bonus, as in OpenAI Baselines; `g_step` rollouts share one round of
the discriminator, and a round takes `d_step` gradient steps, each on its part of the latest rollout and as
many steps of the expert. The discriminator sees observations scaled by running statistics of both, and
actions as the environment executes them. The learner may be PPO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.algorithms.base import mean_metrics
from rlzoo.algorithms.hyperparameters import ScheduleLike, build_config, check_range, field_names
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.algorithms.on_policy.ppo import SEARCH_SPACE as PPO_SEARCH_SPACE
from rlzoo.algorithms.on_policy.trpo import SEARCH_SPACE as TRPO_SEARCH_SPACE
from rlzoo.algorithms.on_policy.trpo import TRPO
from rlzoo.buffers.base_buffer import map_obs
from rlzoo.buffers.demonstrations import check_source, is_given
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.errors import UserError, unknown
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput, TensorObs
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.networks.discriminator import Discriminator
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Conditional, Float, Int, PowerOfTwo, Scheduled, SearchSpace
from rlzoo.training.supervised import Demonstrations, demonstrations_of

LEARNERS: dict[str, type[OnPolicyAlgorithm]] = {"trpo": TRPO, "ppo": PPO}
OF_ADVERSARY = (
    "expert_dataset", "hidden_size_adversary", "adversary_entcoeff", "g_step", "d_step", "d_stepsize",
    "learner",
)  # fmt: skip
"""Hyperparameters of GAIL itself; all others are its learner's."""


@dataclass(frozen=True, kw_only=True)
class GAILConfig:
    expert_dataset: Any = param(None, doc=shared.EXPERT_DATASET)
    hidden_size_adversary: int = param(
        100, doc="units in each of the two hidden layers of the discriminator", section="discriminator"
    )
    adversary_entcoeff: float = param(
        1e-3,
        doc="weight of the discriminator's entropy bonus; raise it if the discriminator becomes too certain",
        section="discriminator",
    )
    g_step: int = param(3, doc="policy updates (rollouts) per discriminator update", section="discriminator")
    d_step: int = param(1, doc="gradient steps per discriminator update", section="discriminator")
    d_stepsize: float = param(3e-4, doc="learning rate of the discriminator", section="discriminator")
    learner: str = param(
        "trpo",
        doc="algorithm that trains the policy: 'trpo' or 'ppo'; for its hyperparameters None means"
        " its default",
        section="optimisation",
    )
    learning_rate: ScheduleLike | None = param(
        None,
        doc=shared.LEARNING_RATE.plus("with 'trpo' of the value function only; None: the learner's default"),
    )
    n_steps: int = param(2048, doc=shared.N_STEPS)
    batch_size: int | None = param(
        None,
        doc=shared.BATCH_SIZE.plus("with 'trpo' of the value function only; None: the learner's default"),
    )
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float = param(0.95, doc=shared.GAE_LAMBDA)
    normalize_advantage: bool = param(True, doc=shared.NORMALIZE_ADVANTAGE)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    target_kl: float | None = param(
        None,
        doc="TRPO: radius of the trust region, a KL divergence; PPO: an update stops when the KL"
        " divergence exceeds 1.5 times this; None: the learner's default",
        section="trust region",
    )
    cg_max_steps: int | None = param(
        None, doc=shared.CG_MAX_STEPS.plus("only with learner='trpo'; None: its default")
    )
    cg_damping: float | None = param(
        None, doc=shared.CG_DAMPING.plus("only with learner='trpo'; None: its default")
    )
    line_search_shrinking_factor: float | None = param(
        None, doc=shared.LINE_SEARCH_SHRINKING_FACTOR.plus("only with learner='trpo'; None: its default")
    )
    line_search_max_iter: int | None = param(
        None, doc=shared.LINE_SEARCH_MAX_ITER.plus("only with learner='trpo'; None: its default")
    )
    n_critic_updates: int | None = param(
        None, doc=shared.N_CRITIC_UPDATES.plus("only with learner='trpo'; None: its default")
    )
    sub_sampling_factor: int | None = param(
        None, doc=shared.SUB_SAMPLING_FACTOR.plus("only with learner='trpo'; None: its default")
    )
    sum_kl: bool | None = param(None, doc=shared.SUM_KL.plus("only with learner='trpo'; None: True"))
    n_epochs: int | None = param(None, doc=shared.N_EPOCHS.plus("only with learner='ppo'; None: its default"))
    clip_range: ScheduleLike | None = param(
        None, doc=shared.CLIP_RANGE.plus("only with learner='ppo'; None: its default")
    )
    clip_range_vf: ScheduleLike | None = param(
        None, doc=shared.CLIP_RANGE_VF.plus("only with learner='ppo'; None: its default")
    )
    vf_coef: float | None = param(None, doc=shared.VF_COEF.plus("only with learner='ppo'; None: its default"))
    max_grad_norm: float | None = param(
        None, doc=shared.MAX_GRAD_NORM.plus("only with learner='ppo'; None: its default")
    )

    def __post_init__(self) -> None:
        check_source(self.expert_dataset)
        check_range(self, ("hidden_size_adversary", "g_step", "d_step"), low=1)
        check_range(self, ("adversary_entcoeff", "d_stepsize"), low=0)
        learner_config(self)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "n_steps": PowerOfTwo(64, 4096),
    "batch_size": PowerOfTwo(32, 1024),
    "gamma": ranges.GAMMA,
    "gae_lambda": ranges.GAE_LAMBDA,
    "ent_coef": ranges.ENT_COEF,
    "g_step": Int(1, 5),
    "d_step": Int(1, 5),
    "d_stepsize": Float(1e-5, 1e-2, log=True),
    "hidden_size_adversary": Int(16, 512, log=True),
    "adversary_entcoeff": Float(1e-5, 1e-1, log=True),
    **{
        key: Conditional("learner", ("trpo",), TRPO_SEARCH_SPACE[key])
        for key in ("target_kl", "cg_damping", "n_critic_updates")
    },
    **{
        key: Conditional("learner", ("ppo",), PPO_SEARCH_SPACE[key])
        for key in ("n_epochs", "clip_range", "vf_coef", "max_grad_norm")
    },
    **ranges.STATE_DEPENDENT_NOISE,
    **ranges.ACTOR_CRITIC_NETWORKS,
}


def learner_config(config: GAILConfig) -> Any:
    """Return the Config of the learner.

    :raises UserError: no such learner, one without use for a hyperparameter, or a value out of range
    """
    if config.learner not in LEARNERS:
        raise unknown("learner of GAIL", config.learner, LEARNERS)
    wanted = LEARNERS[config.learner].Config
    given = {name: getattr(config, name) for name in field_names(GAILConfig) if name not in OF_ADVERSARY}
    given = {name: value for name, value in given.items() if value is not None}
    if config.learner == "trpo":
        given.setdefault("sum_kl", True)  # as in the papers and in Stable Baselines
    for name in given:
        if name not in field_names(wanted):
            raise UserError(f"{name} is of no use with learner={config.learner!r}")
    return build_config(wanted, given)


def discriminator_loss(
    expert_logits: Tensor, policy_logits: Tensor, entropy_coef: float
) -> tuple[Tensor, Metrics]:
    """Compute J(D) on one minibatch.

    :param expert_logits: log(D / (1 - D)) of the expert's transitions, [n]
    :param policy_logits: those of the agent's, [m]
    :return: the scalar loss; metrics, detached
    """
    logits = torch.cat([expert_logits, policy_logits])
    entropy = (F.softplus(logits) - logits * torch.sigmoid(logits)).mean()
    loss = F.softplus(-expert_logits).mean() + F.softplus(policy_logits).mean() - entropy_coef * entropy
    metrics: Metrics = {
        "discriminator_loss": loss.detach(),
        "discriminator_entropy": entropy.detach(),
        "expert_accuracy": (expert_logits > 0).float().mean(),
        "policy_accuracy": (policy_logits < 0).float().mean(),
    }
    return loss, metrics


class GAIL(OnPolicyAlgorithm):
    """GAIL for Box and Discrete actions: a learner (TRPO or PPO) whose reward is a discriminator's.

    Example:
        >>> from rlzoo import GAIL
        >>> model = GAIL("MlpPolicy", "CartPole-v1", expert_dataset="expert.npz").learn(100_000)
    """

    Config = GAILConfig
    search_space = SEARCH_SPACE
    config: GAILConfig
    default_log_interval = 1
    action_spaces = (spaces.Box, spaces.Discrete)
    exclude_from_checkpoint = ("expert_dataset",)
    divergence_suspects = ("d_stepsize", "learning_rate")
    whole_rollouts = True
    keeps_raw_rollouts = True
    policy_learner: OnPolicyAlgorithm  # the learner
    _demonstrations: Demonstrations | None = None

    @property
    def demonstrations(self) -> Demonstrations:
        """The demonstrations, as the agent sees them in its present environment."""
        self._demonstrations = demonstrations_of(self, self._demonstrations)
        return self._demonstrations

    @classmethod
    def n_envs_problem(cls, config: GAILConfig, n_envs: int) -> str | None:
        return LEARNERS[config.learner].n_envs_problem(learner_config(config), n_envs)

    # ------------------------------------------------------------------ the learner

    def _setup_model(self) -> None:
        self.set_random_seed(self.seed)
        learner_class, config = LEARNERS[self.config.learner], learner_config(self.config)
        values = {name: getattr(config, name) for name in field_names(learner_class.Config)}
        learner = self.policy_learner = learner_class(
            self.policy_class, None, **values, policy_kwargs=self.policy_kwargs, device=self.device
        )
        learner.build(self.observation_space, self.action_space, self.n_envs)
        self.policy, self.schedules = learner.policy, learner.schedules
        self.has_train_mode_layers, self.shares_convolutions = (
            learner.has_train_mode_layers,
            learner.shares_convolutions,
        )

        self.discriminator = Discriminator(
            self.observation_space, self.action_space, self.config.hidden_size_adversary
        ).to(self.device)
        self.discriminator_flat = parameter_group(self.discriminator.parameters())
        self.discriminator_optimizer = NetworkOptimizer(self.discriminator, self.discriminator_flat)
        self.discriminator.optimizer = self.discriminator_flat.optimizer(
            torch.optim.Adam, lr=self.config.d_stepsize
        )
        if is_given(self.config.expert_dataset) and self.env is not None:
            _ = self.demonstrations  # what is wrong with them is said now

    def _use_env(self, env: VecEnv) -> None:
        super()._use_env(env)
        if "policy_learner" in self.__dict__:
            self.policy_learner.n_envs = self.n_envs

    def _start_episodes(self, env: VecEnv, resume: bool) -> None:
        _ = self.demonstrations  # a VecNormalize sees them before it sees anything else
        super()._start_episodes(env, resume)

    def replace_config(self, **changes: object) -> None:
        """Change hyperparameters.

        :raises UserError: the agent was built with the present value
        """
        for name in ("learner", "hidden_size_adversary"):
            if changes.get(name, getattr(self.config, name)) != getattr(self.config, name):
                raise UserError(f"{name} cannot be changed, since the agent was built with it")
        super().replace_config(**changes)
        config = learner_config(self.config)
        values = {name: getattr(config, name) for name in field_names(type(config))}
        self.policy_learner.replace_config(**values)

    def state(self) -> dict[str, Any]:
        return {
            **self.policy_learner.state(),
            "discriminator": self.discriminator,
            "discriminator.optimizer": self.discriminator.optimizer,
        }

    def parameter_vectors(self) -> list[Tensor]:
        return [*self.policy_learner.parameter_vectors(), self.discriminator_flat.vector.detach()]

    def begin_rollout(self) -> None:
        self.policy_learner.begin_rollout()

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        return self.policy_learner.act(inputs)

    # ------------------------------------------------------------------ learning

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        obs, stored = rollout.flat_obs(self.device), rollout.action_column
        executed = self.policy.env_actions(stored.reshape(-1, *stored.shape[2:]))
        actions = torch.from_numpy(executed).to(self.device)
        if rollout.raw is not None:  # scaled by the same statistics as the expert's observations
            obs = rollout.raw.flat_obs(self.device)
        metrics: Metrics = {}
        if counters.iteration % self.config.g_step == 0:
            metrics = self.update_discriminator(obs, actions)
        with torch.no_grad():
            rewards = F.softplus(self.discriminator(obs, actions))  # -log(1 - D)
        rollout.reward_column[...] = rewards.reshape(rollout.reward_column.shape).cpu().numpy()
        rollout.final_values_added = False
        metrics["imitation_reward"] = rewards.mean()

        self.policy_learner.counters = counters
        return {**self.policy_learner.update(rollout, counters), **metrics}

    def update_discriminator(self, obs: TensorObs, actions: Tensor) -> Metrics:
        """Take `d_step` gradient steps.

        :param obs: what the agent saw, scaled by present statistics, [n, ...]
        :param actions: what it did, as the environment executed it, [n, ...]
        """
        config, network = self.config, self.discriminator
        for group in network.optimizer.param_groups:
            group["lr"] = config.d_stepsize
        n_rows = len(actions)
        network.update_statistics(obs)
        history: list[Metrics] = []
        for rows in torch.randperm(n_rows, device=self.device).tensor_split(min(config.d_step, n_rows)):
            expert = self.demonstrations.draw_any(len(rows))
            network.update_statistics(expert.obs)
            expert_logits = network(expert.obs, torch.from_numpy(expert.executed).to(self.device))
            policy_logits = network(map_obs(lambda part, rows=rows: part[rows], obs), actions[rows])
            loss, metrics = discriminator_loss(expert_logits, policy_logits, config.adversary_entcoeff)
            self.discriminator_optimizer.step(loss)
            history.append(metrics)
        means = mean_metrics(history)
        self.check_losses(means)
        return means
