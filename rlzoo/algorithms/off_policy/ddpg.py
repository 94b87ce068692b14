"""Deep deterministic policy gradient (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971).

A deterministic actor is trained by gradient ascent on a critic, which is learned by TD errors. A gradient
step (algorithm 1):

    y     = r + gamma Q'(s', pi'(s'))                                  eq. 5
    J(Q)  = E[(Q(s, a) - y)^2]                                         eq. 4
    J(pi) = -E[Q(s, pi(s))]                                            eq. 6
    Q'   <- tau Q + (1 - tau) Q',   pi' <- tau pi + (1 - tau) pi'

Options of Stable Baselines, each off by default: observations and returns scaled by running statistics, where
with `enable_popart` the critics' last layers follow the statistics of the returns, so that no value changes
(Pop-Art, van Hasselt et al. 2016, https://arxiv.org/abs/1602.07714); exploration by noise on the actor's
parameters (Plappert et al. 2018, https://arxiv.org/abs/1706.01905); separate learning rates, scaled rewards,
an L2 penalty on the critic, gradients clipped by their norm.

Departures from the paper: no batch normalisation; the L2 penalty is off; there is no exploration noise unless
`action_noise` is given (Ornstein-Uhlenbeck noise in the paper); `tau` is 0.005 (0.001), `batch_size` 256 (64)
and the actor's learning rate 0.001 (0.0001), as in stable-baselines3; actions enter the critic's first layer
(its second); there may be several critics
(`policy_kwargs=dict(n_critics=2)`), the smallest of which makes the target and the first the actor's loss.
The statistics of the returns weigh all targets alike, where van Hasselt et al. let old ones fade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range, check_unused
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise, AdaptiveParamNoiseSpec
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput, TensorObs
from rlzoo.networks.ensemble import EnsembleLinear, EnsembleMlp
from rlzoo.networks.parameter_noise import ParameterNoise, action_distance
from rlzoo.networks.running_normalizer import (
    NormalizedExtractor,
    ObservationNormalizer,
    RunningNormalizer,
)
from rlzoo.params import ranges, shared
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
from rlzoo.policies.continuous_policies import TD3Policy
from rlzoo.policies.policy_kwargs import accepted_keywords


@dataclass(frozen=True, kw_only=True)
class DDPGConfig:
    learning_rate: ScheduleLike = param(
        1e-3, doc=shared.LEARNING_RATE.plus("for actor and critic, unless actor_lr or critic_lr is given")
    )
    buffer_size: int = param(1_000_000, doc=shared.BUFFER_SIZE)
    learning_starts: int = param(100, doc=shared.LEARNING_STARTS)
    batch_size: int = param(256, doc=shared.REPLAY_BATCH_SIZE)
    tau: float = param(0.005, doc=shared.TAU)
    gamma: float = param(0.99, doc=shared.GAMMA)
    train_freq: TrainFreq = param(1, doc=shared.TRAIN_FREQ)
    gradient_steps: int = param(1, doc=shared.GRADIENT_STEPS)
    action_noise: ActionNoise | None = param(None, doc=shared.ACTION_NOISE)
    replay_buffer_class: type[ReplayBuffer] | None = param(None, doc=shared.REPLAY_BUFFER_CLASS)
    replay_buffer_kwargs: dict[str, object] | None = param(None, doc=shared.REPLAY_BUFFER_KWARGS)
    optimize_memory_usage: bool = param(False, doc=shared.OPTIMIZE_MEMORY_USAGE)
    n_steps: int = param(1, doc=shared.N_STEP_RETURNS)
    actor_lr: ScheduleLike | None = param(
        None,
        doc="learning rate of the actor, a number or a schedule; None: learning_rate",
        section="optimisation",
    )
    critic_lr: ScheduleLike | None = param(
        None,
        doc="learning rate of the critic, a number or a schedule; None: learning_rate",
        section="optimisation",
    )
    normalize_observations: bool = param(
        False, doc="normalise the networks' observations with running statistics", section="normalisation"
    )
    observation_range: tuple[float, float] = param(
        (-5.0, 5.0), doc="(low, high): normalised observations are clipped to it", section="normalisation"
    )
    normalize_returns: bool = param(
        False, doc="normalise the critic's returns with running statistics", section="normalisation"
    )
    return_range: tuple[float, float] = param(
        (-math.inf, math.inf),
        doc="(low, high): the critic's outputs are clipped to it",
        section="normalisation",
    )
    enable_popart: bool = param(
        False,
        doc="adapt the critic's last layer when the statistics of the returns change, so that its"
        " values do not (Pop-Art, van Hasselt et al. 2016, https://arxiv.org/abs/1602.07714)",
        section="normalisation",
    )
    critic_l2_reg: float = param(
        0.0,
        doc="weight of the L2 penalty on the critic's hidden weights (half their squared norm)",
        section="optimisation",
    )
    clip_norm: float | None = param(
        None,
        doc="upper bound on the L2 norm of the actor's and of the critic's gradient; None: no clipping",
        section="optimisation",
    )
    reward_scale: float = param(
        1.0,
        doc="factor on the rewards; choose it so that returns are neither tiny nor huge",
        section="normalisation",
    )
    param_noise: AdaptiveParamNoiseSpec | None = param(
        None,
        doc="AdaptiveParamNoiseSpec: explore with noise on the actor's parameters (Plappert et al."
        " 2018, https://arxiv.org/abs/1706.01905); None: none",
        section="exploration",
    )
    param_noise_adaption_interval: int = param(
        50, doc="gradient steps between two adaptions of the parameter noise", section="exploration"
    )
    random_exploration: float = param(0.0, doc=shared.RANDOM_EXPLORATION)
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_range(self, ("actor_lr", "critic_lr", "critic_l2_reg"), low=0)
        check_range(self, ("clip_norm",), low=0, above=True)
        check_range(self, ("param_noise_adaption_interval",), low=1)
        for name in ("observation_range", "return_range"):
            bounds = getattr(self, name)
            numbers = isinstance(bounds, list | tuple) and all(
                type(bound) in (int, float) for bound in bounds
            )
            if not (numbers and len(bounds) == 2 and bounds[0] < bounds[1]):
                raise UserError(f"{name} must be (low, high) with low below high, not {bounds!r}")
        if not self.normalize_observations:
            check_unused(self, ("observation_range",), "normalize_observations=True")
        if self.enable_popart and not self.normalize_returns:
            raise UserError("enable_popart needs normalize_returns=True, whose statistics it follows")
        if not (self.param_noise is None or isinstance(self.param_noise, AdaptiveParamNoiseSpec)):
            raise UserError(f"param_noise must be an AdaptiveParamNoiseSpec, not {self.param_noise!r}")


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "actor_lr": Scheduled(Float(1e-5, 1e-2, log=True)),
    "critic_lr": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **ranges.REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ranges.UPDATES,
    "gradient_steps": FractionOf(
        ("train_freq", "n_envs"), 1 / 16, 2.0, otherwise=OneOrSampled(-1, Int(1, 1024, log=True))
    ),
    **ranges.ACTION_NOISE,
    "noise_type": Choice("none", "normal", "ornstein-uhlenbeck", "adaptive-param"),
    **ranges.OFF_POLICY_NETWORKS,
}


def ddpg_target(
    policy: TD3Policy, batch: ReplayBatch, returns: RunningNormalizer, reward_scale: float
) -> torch.Tensor:
    """Return y of eq. 5, [batch], in units of the return.

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.

    :param returns: scale and bounds of the critic's outputs
    """
    with torch.no_grad():
        actions = policy.actor_target(batch.next_observations)
        # [n_critics, batch]
        outputs = policy.critic_target.all_values(batch.next_observations, actions)[..., 0]
        values = returns.restore(outputs).amin(dim=0)
        return torch.addcmul(batch.rewards * reward_scale, batch.discounts, values)


def ddpg_critic_loss(
    outputs: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute J(Q) of eq. 4 summed over the critics, and the TD errors.

    :param outputs: of the critics, [n_critics, batch]
    :param target: y in the scale of the outputs, [batch]
    :return: the scalar loss; outputs - target, [n_critics, batch]
    """
    td_errors = outputs - target
    return len(outputs) * weighted_mean(td_errors.square(), weights, n_axes=2), td_errors


def ddpg_actor_loss(policy: TD3Policy, observations: TensorObs, returns: RunningNormalizer) -> torch.Tensor:
    """Compute J(pi), whose gradient is eq. 6."""
    outputs = policy.critic.first_values(observations, policy.actor(observations))
    return -returns.restore(outputs).mean()


@torch.no_grad()
def pop_art(returns: RunningNormalizer, target: torch.Tensor, last_layers: list[EnsembleLinear]) -> None:
    """Update the statistics of the returns, and preserve values (Pop-Art, proposition 1):

        W <- sigma / sigma_new W,   b <- (sigma b + mu - mu_new) / sigma_new

    :param last_layers: of the critics and of their targets, which have the same units
    """
    mean, std = returns.mean.clone(), returns.std
    returns.update(target)
    for layer in last_layers:
        layer.weight.mul_(std / returns.std)
        layer.bias.mul_(std).add_(mean - returns.mean).div_(returns.std)


MAX_SEEN = 10_000
"""Stored observations that a normaliser without statistics is shown."""


class DDPG(ActorCriticAlgorithm):
    """DDPG for Box actions.

    Example:
        >>> from rlzoo import DDPG, NormalActionNoise
        >>> noise = NormalActionNoise([0.0], [0.1])
        >>> model = DDPG("MlpPolicy", "Pendulum-v1", action_noise=noise).learn(10_000)
    """

    Config = DDPGConfig
    search_space = SEARCH_SPACE
    config: DDPGConfig
    policy: TD3Policy
    policy_family = "deterministic"
    divergence_suspects = ("learning_rate", "actor_lr", "critic_lr", "clip_norm", "gradient_steps", "gamma")
    policy_delay, target_policy_noise, target_noise_clip = 1, 0.1, 0.0  # for a `train` copied from TD3
    _experience_seen = False  # whether the normaliser was compared with the replay buffer

    def policy_arguments(self) -> dict[str, Any]:
        arguments = super().policy_arguments()
        if "n_critics" in accepted_keywords(self.policy_class):
            arguments.setdefault("n_critics", 1)
        return arguments

    def setup_optimizers(self) -> None:
        policy, config = self.policy, self.config
        if self.optimized_policy is None:  # else its statistics are kept
            self.returns = RunningNormalizer((), *config.return_range).to(self.device)
        self.normalizer: ObservationNormalizer | None = None
        if config.normalize_observations:
            self.normalizer = ObservationNormalizer(self.observation_space, *config.observation_range)
            self._show_normalized(self.normalizer.to(self.device))
        super().setup_optimizers()
        if config.enable_popart or config.critic_l2_reg:
            self._last_layers()  # refuses critics that have none
        self.parameter_noise: ParameterNoise | None = None
        if config.param_noise is not None:
            shared = [] if self.normalizer is None else [self.normalizer]
            self.parameter_noise = ParameterNoise(policy.actor, config.param_noise, shared)

    def _last_layers(self) -> list[EnsembleLinear]:
        """Return the last layer of the critic and of its target.

        :raises UserError: if the critics are the user's own
        """
        critics = [
            critic
            for critic in (self.policy.critic, self.policy.critic_target)
            if isinstance(critic, EnsembleMlp)
        ]
        if not critics:
            setting = "enable_popart" if self.config.enable_popart else "critic_l2_reg"
            raise UserError(
                f"{setting} needs the critics that rlzoo makes; the last layer of "
                f"{type(self.policy.critic).__name__} is not known"
            )
        return [cast(EnsembleLinear, critic.layers[-1]) for critic in critics]

    def _hidden_weights(self) -> list[torch.Tensor]:
        """Return matrices that the critic's loss changes, but for those of the last layer."""
        last = self._last_layers()
        learned = {id(parameter) for parameter in self.critic_flat.parameters}
        kinds = (EnsembleLinear, nn.Linear, nn.Conv2d)
        layers = [part for part in self.policy.critic.modules() if isinstance(part, kinds)]
        return [layer.weight for layer in layers if layer not in last and id(layer.weight) in learned]

    def _show_normalized(self, normalizer: ObservationNormalizer) -> None:
        """Put one normaliser before the feature extractors of all networks."""
        policy = self.policy
        wrapped: dict[int, NormalizedExtractor] = {}  # two networks may share an extractor
        for network in (policy.actor, policy.critic, policy.actor_target, policy.critic_target):
            extractor = network.features_extractor
            network.features_extractor = wrapped.setdefault(
                id(extractor), NormalizedExtractor(normalizer, extractor)
            )

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self.config.normalize_returns:
            state["returns"] = self.returns
        if self.parameter_noise is not None:
            state["parameter_noise"] = self.parameter_noise
        return state

    def rollout_metrics(self) -> Metrics:
        noise = self.parameter_noise
        return {**super().rollout_metrics(), **({} if noise is None else noise.spec.get_stats())}

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        if self.normalizer is not None:
            self.normalizer.update(inputs.obs)
        return super().act(inputs)

    def explore(self, obs: TensorObs) -> torch.Tensor:
        actor = self.policy.actor if self.parameter_noise is None else self.parameter_noise.exploring
        actions: torch.Tensor = self.policy.in_action_shape(actor(obs))
        return actions

    def end_episodes(self, indices: np.ndarray) -> None:
        super().end_episodes(indices)
        if self.parameter_noise is not None and 0 in indices:  # shared by all, so at the pace of one
            self.parameter_noise.perturb()

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        config, policy = self.config, self.policy
        if self.normalizer is not None and not self._experience_seen:
            self._see_experience(self.normalizer)
        learning_rates = self._set_learning_rates(counters)
        counters.n_updates += 1

        target = ddpg_target(policy, batch, self.returns, config.reward_scale)
        if config.enable_popart:
            pop_art(self.returns, target, self._last_layers())
        elif config.normalize_returns:
            self.returns.update(target)
        outputs = policy.critic.all_values(batch.observations, batch.actions)[..., 0]
        critic_loss, td_errors = ddpg_critic_loss(outputs, self.returns(target), batch.weights)
        if config.critic_l2_reg > 0:
            penalty = sum(weight.square().sum() for weight in self._hidden_weights())
            critic_loss = critic_loss + 0.5 * config.critic_l2_reg * penalty
        self.critic_optimizer.step(critic_loss, config.clip_norm)
        batch.set_priorities(td_errors)

        actor_loss = ddpg_actor_loss(policy, batch.observations, self.returns)
        self.actor_optimizer.step(actor_loss, config.clip_norm)
        self.target_critic.update(config.tau)
        self.target_actor.update(config.tau)
        interval = config.param_noise_adaption_interval
        if self.parameter_noise is not None and counters.n_updates % interval == 0:
            self._adapt_parameter_noise(batch.observations)
        return {"critic_loss": critic_loss.detach(), "actor_loss": actor_loss.detach(), **learning_rates}

    def _see_experience(self, normalizer: ObservationNormalizer) -> None:
        """Show the normaliser stored observations, if it has seen fewer: of a buffer that was loaded."""
        self._experience_seen, n_stored = True, len(self.replay_buffer)
        if normalizer.n_seen < n_stored:
            (batch,) = self.replay_buffer.batches(1, min(n_stored, MAX_SEEN))
            normalizer.update(batch.observations)

    def _set_learning_rates(self, counters: Counters) -> Metrics:
        metrics: Metrics = {"learning_rate": self.schedule("learning_rate", counters)}
        for network in ("actor", "critic"):
            name = f"{network}_lr" if f"{network}_lr" in self.schedules else "learning_rate"
            metrics[name] = self.schedule(name, counters)
            for group in getattr(self.policy, network).optimizer.param_groups:
                group["lr"] = metrics[name]
        return metrics

    def _adapt_parameter_noise(self, observations: TensorObs) -> None:
        assert self.parameter_noise is not None
        self.set_training_mode(False)  # the mode in which both act
        with torch.no_grad():
            actions = self.policy.actor(observations)
        self.set_training_mode(True)
        self.parameter_noise.adapt(lambda perturbed: action_distance(actions, perturbed(observations)))
