"""Trust region policy optimisation (Schulman et al. 2015, https://arxiv.org/abs/1502.05477).

Once per rollout, the policy takes the step of greatest improvement that stays within a KL divergence of the
policy that collected it (eq. 14):

    maximise  L(theta) = E[ r A ] + ent_coef H   subject to   E[ KL(pi_old || pi_theta) ] <= target_kl,
    r = pi_theta(a|s) / pi_old(a|s)

To second order that is the step along `F^-1 g`, with g the gradient of L and F the Fisher matrix, as long as
the divergence allows; the conjugate gradient method finds it, and a line search shortens it until the
constraint holds and the objective improves (appendix C).

Departures from the paper: advantages are those of GAE, normalised; their value function is fitted by Adam on
minibatches; Fisher products are damped; an entropy bonus may be added (off by default). What actor and critic
share is trained by the actor alone, for otherwise the critic would move the policy out of its trust region.
For Box and MultiBinary actions the KL divergence is averaged over the action dimensions by default, as in
sb3-contrib, so that its hyperparameters mean the same here; with `sum_kl` it is that of the paper. With n
dimensions, the average with target_kl and cg_damping equals the sum with n * target_kl and n * cg_damping.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from gymnasium import spaces

from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.core.returns import explained_variance
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.distributions import Distribution
from rlzoo.optim.conjugate_gradient import conjugate_gradient_solver, fisher_vector_product, flat_grad
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Float, Int, PowerOfTwo, Scheduled, SearchSpace


@dataclass(frozen=True, kw_only=True)
class TRPOConfig:
    learning_rate: ScheduleLike = param(
        1e-3,
        doc=shared.LEARNING_RATE.plus(
            "used for the value function only: the policy step follows from target_kl"
        ),
    )
    n_steps: int = param(2048, doc=shared.N_STEPS)
    batch_size: int = param(128, doc=shared.BATCH_SIZE.plus("used for the value function only"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    cg_max_steps: int = param(15, doc=shared.CG_MAX_STEPS)
    cg_damping: float = param(0.1, doc=shared.CG_DAMPING)
    line_search_shrinking_factor: float = param(0.8, doc=shared.LINE_SEARCH_SHRINKING_FACTOR)
    line_search_max_iter: int = param(10, doc=shared.LINE_SEARCH_MAX_ITER)
    n_critic_updates: int = param(10, doc=shared.N_CRITIC_UPDATES)
    gae_lambda: float = param(0.95, doc=shared.GAE_LAMBDA)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    normalize_advantage: bool = param(True, doc=shared.NORMALIZE_ADVANTAGE)
    target_kl: float = param(0.01, doc=shared.TARGET_KL)
    sub_sampling_factor: int = param(1, doc=shared.SUB_SAMPLING_FACTOR)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    sum_kl: bool = param(False, doc=shared.SUM_KL)

    def __post_init__(self) -> None:
        check_range(
            self,
            ("n_steps", "batch_size", "cg_max_steps", "line_search_max_iter", "sub_sampling_factor"),
            low=1,
        )
        check_range(self, ("gamma", "gae_lambda"), low=0, high=1)
        check_range(self, ("line_search_shrinking_factor",), low=0, high=1, above=True)
        check_range(self, ("target_kl",), low=0, above=True)
        check_range(self, ("learning_rate", "cg_damping", "n_critic_updates"), low=0)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-1, log=True)),
    "n_steps": PowerOfTwo(8, 4096),
    "batch_size": PowerOfTwo(32, 1024),
    "n_critic_updates": Int(1, 40, log=True),
    "gamma": ranges.GAMMA,
    "gae_lambda": ranges.GAE_LAMBDA,
    "target_kl": Float(1e-6, 1e-1, log=True),
    "cg_max_steps": Int(5, 30),
    "cg_damping": Float(1e-5, 0.5, log=True),
    "line_search_shrinking_factor": Float(0.5, 0.9),
    "ent_coef": ranges.ENT_COEF,
    **ranges.STATE_DEPENDENT_NOISE,
    **ranges.ACTOR_CRITIC_NETWORKS,
}


def log_prob_of(distribution: Distribution, batch: RolloutBatch) -> torch.Tensor:
    """Return the log-probabilities of the actions of a batch, [batch]."""
    if (gaussian_actions := batch.context.get("gaussian_actions")) is None:
        return distribution.log_prob(batch.actions)
    return distribution.log_prob(batch.actions, gaussian_actions=gaussian_actions)  # type: ignore[call-arg]


def trpo_objective(distribution: Distribution, batch: RolloutBatch, config: TRPOConfig) -> torch.Tensor:
    """Compute L of eq. 14, a scalar.

    :param distribution: of the policy at the observations of the batch
    :param batch: with `log_probs` and `advantages`
    """
    log_probs = log_prob_of(distribution, batch)
    objective: torch.Tensor = ((log_probs - batch.log_probs).exp() * batch.advantages).mean()
    if config.ent_coef != 0:
        entropy = distribution.entropy()
        # Without a closed form, -log pi(a|s) is an estimate of the entropy from the sampled actions.
        objective = objective + config.ent_coef * (-log_probs if entropy is None else entropy).mean()
    return objective


class TRPO(OnPolicyAlgorithm):
    """TRPO for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import TRPO
        >>> model = TRPO("MlpPolicy", "CartPole-v1", target_kl=0.02).learn(100_000)
    """

    Config = TRPOConfig
    takes_tensors = True
    whole_rollouts = True
    search_space = SEARCH_SPACE
    config: TRPOConfig
    policy_family = "feed_forward"
    default_log_interval = 1
    data_parallel = True
    divergence_suspects = ("learning_rate", "n_critic_updates", "target_kl")

    @classmethod
    def n_envs_hint(cls, config: TRPOConfig, n_envs: int) -> str | None:
        rows = config.n_steps * n_envs
        last = rows % config.batch_size
        if last == 0:
            return None
        return (
            f"batch_size {config.batch_size} does not divide n_steps * n_envs = {config.n_steps} * {n_envs} "
            f"= {rows}: the last minibatch of the value function has {last} {'row' if last == 1 else 'rows'}"
        )

    def setup_optimizers(self) -> None:
        """Collect the parameters that the distribution depends on; the optimiser is the critic's."""
        policy = self.policy
        policy.set_training_mode(False)
        learned = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        obs, _ = policy.obs_to_tensor(copy.deepcopy(self.observation_space).sample())
        outputs = [output.sum() for output in policy.get_distribution(obs).params]
        gradients = torch.autograd.grad(outputs, learned, allow_unused=True)
        acts = [gradient is not None for gradient in gradients]
        self.actor_flat = parameter_group(p for p, act in zip(learned, acts, strict=True) if act)
        self.critic_flat = parameter_group(p for p, act in zip(learned, acts, strict=True) if not act)
        policy.optimizer = self.critic_flat.optimizer(
            policy.optimizer_class, lr=self.schedules["learning_rate"](1.0), **policy.optimizer_kwargs
        )
        self.critic_optimizer = NetworkOptimizer(policy, self.critic_flat, only=True)

    def parameter_vectors(self) -> list[torch.Tensor]:
        return [self.actor_flat.vector.detach(), self.critic_flat.vector.detach()]

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        config, policy = self.config, self.policy
        learning_rate = self.set_learning_rate(policy.optimizer, counters)

        batch = self.read_rollout(rollout)
        batch.log_probs, values, next_values = self.old_values(rollout, batch)
        advantages, returns = rollout.advantages_and_returns(
            values, next_values, config.gamma, config.gae_lambda
        )
        rollout.learned = (values, batch.log_probs, advantages, returns)
        batch.advantages, batch.returns = self.flat_columns(advantages, returns)

        n_rows = -(-len(advantages.ravel()) * self.n_ranks // config.sub_sampling_factor)
        policy_metrics = self.improve_policy(next(self.minibatches(batch, n_rows, rollout)))
        self.set_training_mode(True)
        if self.has_train_mode_layers and hasattr(policy, "pi_features_extractor"):
            policy.pi_features_extractor.eval()  # statistics that the actor reads, too, would move the policy
        value_losses = self.fit_critic(RolloutBatch(batch.obs, returns=batch.returns), rollout)
        counters.n_updates += 1

        metrics = self.summarise([policy_metrics, *value_losses], counters)
        metrics.update(explained_variance=explained_variance(values, returns), learning_rate=learning_rate)
        if hasattr(policy, "log_std"):
            metrics["std"] = policy.log_std.detach().exp().mean()
        return metrics

    def improve_policy(self, batch: RolloutBatch) -> Metrics:
        """Take one step of the actor, along the natural gradient to the edge of the trust region.

        :param batch: with `log_probs` and `advantages`
        :return: the objective and the divergence after the step, and whether there was one
        """
        config, policy = self.config, self.policy
        parameters = self.actor_flat.parameters
        batch = replace(batch, actions=self._rows_of_actions(batch.actions))
        if config.normalize_advantage:
            batch.advantages = batch.normalized_advantages()

        if self.has_train_mode_layers:  # the only pass that updates running statistics
            self.set_training_mode(True)
            with torch.no_grad():
                policy.get_distribution(batch.obs)
            self.set_training_mode(False)
        # A copy, for it may hold parameters themselves (log_std), which are about to move.
        with torch.no_grad():
            old = copy.deepcopy(policy.get_distribution(batch.obs))
            if self.has_train_mode_layers:
                batch.log_probs = log_prob_of(old, batch)
        distribution = policy.get_distribution(batch.obs)
        objective = trpo_objective(distribution, batch, config)
        gradient = self.over_ranks(flat_grad(objective, parameters, retain_graph=True))
        fisher = fisher_vector_product(self._divergence(old, distribution), distribution.params, parameters)
        direction = conjugate_gradient_solver(
            lambda vector: self.over_ranks(fisher(vector)).add_(vector, alpha=config.cg_damping),
            gradient,
            config.cg_max_steps,
        )
        # To second order the divergence of a step x is x'Fx / 2. With damping in F, which makes the step
        # shorter, Fx = gradient - residual, and the residual is orthogonal to x.
        curvature = (direction @ gradient).clamp(min=1e-12)
        step = direction * (2 * config.target_kl / curvature).sqrt()
        return self._line_search(step, self.over_ranks(objective.detach()), old, batch)

    @torch.no_grad()
    def _line_search(
        self, step: torch.Tensor, objective: torch.Tensor, old: Distribution, batch: RolloutBatch
    ) -> Metrics:
        """Go the longest of the shortened steps that improves the objective in the trust region, or none."""
        config, actor = self.config, self.actor_flat
        start = actor.vector.detach().clone()
        scale = 1.0
        for _ in range(config.line_search_max_iter):
            actor.assign(torch.add(start, step, alpha=scale))
            distribution = self.policy.get_distribution(batch.obs)
            reached = self.over_ranks(trpo_objective(distribution, batch, config))
            divergence = self.over_ranks(self._divergence(old, distribution))
            if reached > objective and divergence <= config.target_kl:
                return {
                    "policy_objective": reached,
                    "kl_divergence_loss": divergence,
                    "is_line_search_success": 1.0,
                }
            scale *= config.line_search_shrinking_factor
        actor.assign(start)
        zero = torch.zeros_like(objective)
        return {"policy_objective": objective, "kl_divergence_loss": zero, "is_line_search_success": 0.0}

    def fit_critic(self, batch: RolloutBatch, rollout: RolloutBuffer) -> list[Metrics]:
        """Fit the value function to the returns.

        :param batch: with `returns`
        :return: the loss of each minibatch
        """
        config = self.config
        history: list[Metrics] = []
        for _ in range(config.n_critic_updates):
            for minibatch in self.minibatches(batch, config.batch_size, rollout):
                values = self.policy.predict_values(minibatch.obs).flatten()
                loss = F.mse_loss(values, minibatch.returns)
                self.critic_optimizer.step(loss)
                history.append({"value_loss": loss.detach()})
        return history

    def _divergence(self, old: Distribution, new: Distribution) -> torch.Tensor:
        """Compute the mean KL(old || new) over the batch, a scalar; see `sum_kl`."""
        divergence = old.kl(new).mean()
        if not self.config.sum_kl and isinstance(self.action_space, spaces.Box | spaces.MultiBinary):
            divergence = divergence / math.prod(self.action_space.shape)
        return divergence

    def _rows_of_actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Return stored actions as distributions take them: [batch] for Discrete, else [batch, n]."""
        one_choice = isinstance(self.action_space, spaces.Discrete)
        return actions.reshape(len(actions)) if one_choice else actions.reshape(len(actions), -1)
