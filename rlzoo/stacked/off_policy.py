"""DQN, SAC, TD3 and TQC of several seeds: acting and gradient steps in batched products."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from rlzoo.accel.fast_mlp import FORWARD, has_hooks
from rlzoo.accel.threads import denormals_as_zero
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.dqn import DQN
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.algorithms.off_policy.sac import SAC
from rlzoo.algorithms.off_policy.td3 import TD3
from rlzoo.algorithms.off_policy.tqc import TQC
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.networks.ensemble import EnsembleLinear
from rlzoo.networks.torch_layers import FlattenExtractor
from rlzoo.optim.polyak import TargetNetwork
from rlzoo.policies.actors import SquashedGaussianActor
from rlzoo.policies.continuous_policies import SACPolicy, TD3Policy, TQCPolicy
from rlzoo.policies.value_based import DQNPolicy
from rlzoo.stacked.optimizers import optimizer_key, optimizer_problem
from rlzoo.stacked.stacked_agents import ActorCriticAgents, QLearningAgents, gradient_steps, stacked_agents
from rlzoo.stacked.stacked_mlp import can_be_stacked
from rlzoo.stacked.turns import ACT, STEP, Seat

POLICIES: dict[type[OffPolicyAlgorithm], type] = {
    DQN: DQNPolicy,
    SAC: SACPolicy,
    TD3: TD3Policy,
    TQC: TQCPolicy,
}
"""The policy of each algorithm that can be stacked."""


OPTIONS = (
    "double_q", "max_grad_norm", "tau", "target_policy_noise", "target_noise_clip", "ent_coef",
    "target_entropy", "top_quantiles_to_drop_per_net",
)  # fmt: skip
"""Hyperparameters that gradient steps read."""


def off_policy_problem(model: OffPolicyAlgorithm) -> str | None:
    """Return why an agent cannot be trained together with other seeds, else None."""
    config, policy = model.config, model.policy
    if config.replay_buffer_class is not None or getattr(config, "prioritized_replay", False):
        return "its replay buffer is not the plain one"
    if getattr(config, "param_noise", False):
        return "it explores with noise on its parameters (param_noise)"
    if getattr(config, "n_target_critics", None) is not None:
        return "it draws target critics (n_target_critics)"
    if type(policy) is not POLICIES[type(model)]:
        return f"the policy is a {type(policy).__name__}, no MlpPolicy"
    if isinstance(model, DQN):
        return _dqn_problem(model)
    assert isinstance(model, ActorCriticAlgorithm)
    return _actor_critic_problem(model)


def _dqn_problem(model: DQN) -> str | None:
    q_net = model.policy.q_net
    if type(q_net.features_extractor) is not FlattenExtractor:
        return f"its features come from a {type(q_net.features_extractor).__name__}"
    if q_net.dueling:
        return "its Q-network is a dueling one"
    if not can_be_stacked(cast(nn.Module, q_net.q_net)):
        return "its networks have layers other than linear, tanh and ReLU"
    return optimizer_problem(*optimizers_of(model)) or _target_problem(model.target_q_net)


def _actor_critic_problem(model: ActorCriticAlgorithm) -> str | None:
    policy, actor = model.policy, model.policy.actor
    if type(actor.features_extractor) is not FlattenExtractor:
        return f"its features come from a {type(actor.features_extractor).__name__}"
    networks = [actor.mu]
    if isinstance(actor, SquashedGaussianActor):
        networks += [actor.latent_pi, cast(nn.Module, actor.log_std)]
    plain = (EnsembleLinear, *FORWARD)
    if not all(can_be_stacked(network) for network in networks) or not all(
        type(layer) in plain and not has_hooks(layer) for layer in policy.critic.layers
    ):
        return "its networks have layers other than linear, tanh and ReLU"
    problems = (optimizer_problem(optimizer) for optimizer in optimizers_of(model))
    return next(filter(None, problems), None) or _target_problem(model.target_critic)


def _target_problem(target: TargetNetwork) -> str | None:
    if len(target.sources) == 1 and not target.statistics:
        return None
    return "its target network has parameters that are not trained, or statistics"


def optimizers_of(model: OffPolicyAlgorithm) -> list[torch.optim.Optimizer]:
    """Return the optimisers of an agent."""
    if isinstance(model, DQN):
        return [model.policy.optimizer]
    assert isinstance(model, ActorCriticAlgorithm)
    optimizers = [model.policy.actor.optimizer, model.policy.critic.optimizer]
    if hasattr(model.config, "ent_coef") and model.entropy_coefficient.learned:
        optimizers.append(model.entropy_coefficient.optimizer)
    return optimizers


@dataclass(slots=True)
class ActRequest:
    """Observations of one training: `features` [B, F], `noise` [B, A] where the policy draws any."""

    model: OffPolicyAlgorithm
    features: Tensor
    noise: Tensor | None


@dataclass(slots=True)
class StepRequest:
    """A batch of one training, whose observations are features [B, F].

    :param noise: in the order in which the gradient step draws it, [B, A] each
    :param due: which networks are updated
    """

    model: OffPolicyAlgorithm
    batch: ReplayBatch
    noise: list[Tensor]
    due: dict[str, bool]


class OffPolicyStack:
    """Computes actions and gradient steps of several trainings of one algorithm.

    :param model: one of them
    """

    def __init__(self, model: OffPolicyAlgorithm) -> None:
        self.kind = type(model)
        self.models: list[OffPolicyAlgorithm] = []
        self._agents: dict[Hashable, QLearningAgents | ActorCriticAgents] = {}

    def add(self, model: OffPolicyAlgorithm, seat: Seat) -> None:
        """Let an agent ask for actions and gradient steps instead of computing them."""
        self.models.append(model)
        features_of = self._features(model)
        draws = isinstance(model, SAC | TQC)
        n_noise = model.policy.action_dim if draws else 0

        def explore(obs: TensorObs) -> Tensor:
            features = features_of(obs)
            noise = torch.randn(len(features), n_noise) if draws else None
            urgency = (model.counters.num_timesteps, ACT)
            request = ActRequest(model, features, noise)
            actions = cast(Tensor, seat.ask(self.act, ("act", features.shape), urgency, request))
            return actions if isinstance(model, DQN) else model.policy.in_action_shape(actions)

        def gradient_step(batch: ReplayBatch, **due: bool) -> Metrics:
            actions = (
                batch.actions if isinstance(model, DQN) else batch.actions.reshape(len(batch.actions), -1)
            )
            row = ReplayBatch(
                features_of(batch.observations), actions, features_of(batch.next_observations),
                batch.rewards, batch.discounts, None,
            )  # fmt: skip
            request = StepRequest(model, row, noise_of_step(model, len(actions), due), due)
            urgency = (model.counters.num_timesteps, STEP)
            return cast(Metrics, seat.ask(self.steps, step_key(request), urgency, request))

        if isinstance(model, DQN):
            model.greedy_actions = explore  # type: ignore[method-assign]
        else:
            model.explore = explore  # type: ignore[method-assign]
        model.gradient_step = gradient_step  # type: ignore[attr-defined]

    @staticmethod
    def _features(model: OffPolicyAlgorithm) -> Callable[[TensorObs], Tensor]:
        if isinstance(model, DQN):
            return model.policy.q_net.features
        actor = cast(ActorCriticAlgorithm, model).policy.actor
        return cast("Callable[[TensorObs], Tensor]", actor.extract_features)

    def agents_of(self, models: Sequence[OffPolicyAlgorithm]) -> QLearningAgents | ActorCriticAgents:
        """Return some of the trainings as one; those of the last two groups are kept."""
        key = tuple((id(model), id(vars(model).get("entropy_coefficient"))) for model in models)
        if key not in self._agents:
            while len(self._agents) > 1:
                del self._agents[next(iter(self._agents))]
            self._agents[key] = stacked_agents(models)
        agents = self._agents[key]
        agents.config = models[0].config
        for parameters in agents.parameters:
            parameters.watch()
        return agents

    def act(self, requests: Sequence[object]) -> Sequence[object]:
        """Return the actions of each training.

        Where more than half of the trainings ask (DQN explores at random now and then), the actions of all
        are computed: that needs no copies of parameters.
        """
        asked = cast("Sequence[ActRequest]", requests)
        some, of_model = asked[0], {id(a.model): a for a in asked}
        models = self.models if 2 * len(asked) > len(self.models) else [a.model for a in asked]
        rows = [of_model.get(id(model), some) for model in models]
        features = torch.stack([row.features for row in rows])
        noise = None if some.noise is None else torch.stack([cast(Tensor, row.noise) for row in rows])
        with torch.no_grad():
            actions = self.agents_of(models).act(features, noise).unbind(0)
        computed = {id(model): row for model, row in zip(models, actions, strict=True)}
        return [computed[id(a.model)] for a in asked]

    def steps(self, requests: Sequence[object]) -> Sequence[object]:
        """Take a gradient step of each training; return its metrics."""
        asked = cast("Sequence[StepRequest]", requests)
        agents = self.agents_of([a.model for a in asked])
        batch = stack_batches([a.batch for a in asked])
        noise = iter([torch.stack(rows) for rows in zip(*(a.noise for a in asked), strict=True)])
        for other in self._agents.values():  # the leaves of other groups get old
            if other is not agents:
                for parameters in other.parameters:
                    parameters.is_stale = True
        agents.policy.noise = noise
        if isinstance(agents, ActorCriticAgents) and not isinstance(asked[0].model, TD3):
            agents.policy.actor.noise = noise  # type: ignore[union-attr]
        with denormals_as_zero():
            metrics = gradient_steps(self.kind, agents, batch, **asked[0].due)
        columns = {name: cast(Tensor, value).flatten().unbind(0) for name, value in metrics.items()}
        return [{name: values[k] for name, values in columns.items()} for k in range(len(asked))]


def noise_of_step(model: OffPolicyAlgorithm, n_rows: int, due: dict[str, bool]) -> list[Tensor]:
    """Draw what a gradient step draws, in its order."""
    if isinstance(model, DQN) or (isinstance(model, TD3) and model.config.target_policy_noise == 0):
        return []
    width = cast(ActorCriticAlgorithm, model).policy.action_dim
    n = 1 if isinstance(model, TD3) or not due.get("update_actor", True) else 2
    return [torch.randn(n_rows, width) for _ in range(n)]


def step_key(request: StepRequest) -> Hashable:
    """Return what gradient steps must share to be taken at once."""
    keys = tuple(optimizer_key(optimizer) for optimizer in optimizers_of(request.model))
    options = tuple(getattr(request.model.config, name, None) for name in OPTIONS)
    return "step", len(request.batch.rewards), tuple(request.due.values()), options, keys


def stack_batches(batches: Sequence[ReplayBatch]) -> ReplayBatch:
    """Return the transitions of n trainings in one batch, [n, B, ...]."""

    def rows(name: str) -> Tensor:
        return torch.stack([getattr(batch, name) for batch in batches])

    return ReplayBatch(
        rows("observations"),
        rows("actions"),
        rows("next_observations"),
        rows("rewards"),
        rows("discounts"),
        None,
    )
