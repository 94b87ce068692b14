"""PPO and A2C of several seeds: acting and gradient steps in batched products."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from rlzoo.accel.threads import denormals_as_zero
from rlzoo.algorithms.on_policy.a2c import A2C, a2c_loss
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO, ppo_loss
from rlzoo.buffers.rollout_buffer import EMPTY, RolloutBatch
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput
from rlzoo.stacked.optimizers import optimizer_key, optimizer_problem, step_of_all
from rlzoo.stacked.stacked_mlp import stack_vectors
from rlzoo.stacked.stacked_policies import StackedActorCritic, policy_problem
from rlzoo.stacked.turns import ACT, STEP, Seat


def on_policy_problem(model: OnPolicyAlgorithm) -> str | None:
    """Return why an agent cannot be trained together with other seeds, else None."""
    if model.own_buffer_class is not None:
        return "it has a rollout_buffer_class"
    if isinstance(model, A2C) and model.config.normalize_advantage:
        return "A2C normalises its advantages (normalize_advantage)"
    return policy_problem(model.policy) or optimizer_problem(model.policy.optimizer)


@dataclass(slots=True)
class ActRequest:
    """Observations of one training: `features` [B, F], `noise` [B, A]."""

    model: OnPolicyAlgorithm
    features: Tensor
    noise: Tensor


@dataclass(slots=True)
class StepRequest:
    """A minibatch of one training, whose `obs` are features [B, F]."""

    model: OnPolicyAlgorithm
    batch: RolloutBatch
    clip_range: float = 0.0
    clip_range_vf: float | None = None


class OnPolicyStack:
    """Computes actions and gradient steps of several trainings of one algorithm.

    :param model: one of them
    """

    def __init__(self, model: OnPolicyAlgorithm) -> None:
        self.policy = StackedActorCritic(model.policy, model.flat)

    def add(self, model: OnPolicyAlgorithm, seat: Seat) -> None:
        """Let an agent ask for actions and gradient steps instead of computing them."""

        def urgency(kind: int) -> tuple[int, int]:
            return model.counters.num_timesteps, kind

        def act(inputs: PolicyInput) -> PolicyOutput:
            features = model.policy.extract_features(inputs.obs)
            request = ActRequest(model, features, self.policy.noise(len(features)))
            actions = cast(Tensor, seat.ask(self.act, ("act", features.shape), urgency(ACT), request))
            actions = model.policy.in_action_shape(actions)
            return PolicyOutput(actions, model.to_env_action(actions))

        def gradient_step(
            batch: RolloutBatch, clip_range: float, clip_range_vf: float | None
        ) -> tuple[Metrics, bool]:
            features = model.policy.extract_features(batch.obs)
            row = RolloutBatch(
                features, batch.actions, {}, batch.values, batch.log_probs, batch.advantages, batch.returns
            )
            request = StepRequest(model, row, clip_range, clip_range_vf)
            result = seat.ask(self.ppo_steps, ppo_key(request), urgency(STEP), request)
            return cast("tuple[Metrics, bool]", result)

        def a2c_step(batch: RolloutBatch, evaluated: object) -> Metrics:
            row = RolloutBatch(
                model.policy.extract_features(batch.obs), batch.actions, {},
                advantages=batch.advantages, returns=batch.returns,
            )  # fmt: skip
            request = StepRequest(model, row)
            return cast(Metrics, seat.ask(self.a2c_steps, a2c_key(request), urgency(STEP), request))

        model.act = act  # type: ignore[method-assign]
        if isinstance(model, A2C):
            model.is_captured = True  # values are not computed together with the loss
            model.gradient_step = a2c_step  # type: ignore[method-assign, assignment]
        else:
            cast(PPO, model).gradient_step = gradient_step  # type: ignore[method-assign]

    def act(self, requests: Sequence[object]) -> Sequence[object]:
        """Return the actions of each training."""
        asked = cast("Sequence[ActRequest]", requests)
        self.policy.leaves = self.policy.layout.leaves(stack_vectors(a.model.flat for a in asked))
        features, noise = torch.stack([a.features for a in asked]), torch.stack([a.noise for a in asked])
        with torch.no_grad():
            return self.policy.act(features, noise).unbind(0)

    def _prepare(self, asked: Sequence[StepRequest]) -> RolloutBatch:
        """Copy the parameters of the trainings into leaves with gradients; return their batches in one."""
        leaves = self.policy.layout.leaves(stack_vectors(a.model.flat for a in asked))
        self.policy.leaves = [leaf.requires_grad_() for leaf in leaves]
        return stack_batches([a.batch for a in asked])

    @denormals_as_zero()
    def a2c_steps(self, requests: Sequence[object]) -> Sequence[object]:
        """Take a gradient step of each training; return its metrics."""
        asked = cast("Sequence[StepRequest]", requests)
        config, batch = asked[0].model.config, self._prepare(asked)
        values, log_probs, entropy = self.policy.evaluate_actions(batch.obs, batch.actions)
        losses, metrics = a2c_loss(
            values, log_probs, entropy, batch.advantages, batch.returns, config, in_arrays=True
        )
        optimizers = [a.model.policy.optimizer for a in asked]
        step_of_all(optimizers, losses, self.policy.leaves, config.max_grad_norm)
        columns = {name: cast(Tensor, value).unbind(0) for name, value in metrics.items()}
        return [{name: values[k] for name, values in columns.items()} for k in range(len(asked))]

    @denormals_as_zero()
    def ppo_steps(self, requests: Sequence[object]) -> Sequence[object]:
        """Take a gradient step of each training; return its metrics, and whether `target_kl` stops it."""
        asked = cast("Sequence[StepRequest]", requests)
        first = asked[0]
        config, policy = first.model.config, self.policy
        batch = self._prepare(asked)
        losses, metrics = ppo_loss(
            policy, batch, first.clip_range, first.clip_range_vf, config, in_arrays=True
        )
        columns = {name: cast(Tensor, value).unbind(0) for name, value in metrics.items()}
        stops = [False] * len(asked)
        if config.target_kl is not None:
            stops = (cast(Tensor, metrics["approx_kl"]) > 1.5 * config.target_kl).tolist()
        step_of_all(
            [a.model.policy.optimizer for a in asked],
            losses,
            policy.leaves,
            config.max_grad_norm,
            [k for k, stop in enumerate(stops) if not stop],
        )
        return [({name: values[k] for name, values in columns.items()}, stop) for k, stop in enumerate(stops)]


def ppo_key(request: StepRequest) -> Hashable:
    """Return what gradient steps must share to be taken at once."""
    config = request.model.config
    options = (config.normalize_advantage, config.vf_coef, config.ent_coef, config.max_grad_norm)
    limits = (request.clip_range, request.clip_range_vf, config.target_kl)
    shape = len(request.batch.actions)
    return "step", shape, options, limits, optimizer_key(request.model.policy.optimizer)


def a2c_key(request: StepRequest) -> Hashable:
    """Return what gradient steps must share to be taken at once."""
    config = request.model.config
    options = (len(request.batch.actions), config.vf_coef, config.ent_coef, config.max_grad_norm)
    return "step", options, optimizer_key(request.model.policy.optimizer)


def stack_batches(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """Return the rows of n trainings in one batch, [n, B, ...]."""

    def rows(name: str) -> Tensor:
        columns = [cast(Tensor, batch[name]) for batch in batches]
        return EMPTY if columns[0] is EMPTY else torch.stack(columns)

    names = ("values", "log_probs", "advantages", "returns")
    return RolloutBatch(rows("obs"), rows("actions"), {}, *(rows(name) for name in names))
