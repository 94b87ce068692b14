"""Stacks of trainings: which agents can be trained together, and how they join."""

from __future__ import annotations

from typing import cast

from rlzoo.accel import matmul_precision
from rlzoo.accel.flat_parameters import FAST
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.algorithms.on_policy.a2c import A2C
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.stacked.off_policy import POLICIES, OffPolicyStack, off_policy_problem
from rlzoo.stacked.on_policy import OnPolicyStack, on_policy_problem
from rlzoo.stacked.turns import Seat

STACKED: tuple[type[Algorithm], ...] = (PPO, A2C, *POLICIES)
"""Algorithms of which several seeds are trained together."""

MANY_MULTIPLICATIONS = 5_000_000
"""Of a minibatch with the largest matrix of a network: beyond it, `auto` does not stack."""


def stack_problem(model: Algorithm) -> str | None:
    """Return why an agent cannot be trained together with other seeds, as a clause, else None."""
    name = type(model).__name__
    if type(model) not in STACKED:
        return f"{name} is none of {', '.join(algorithm.__name__ for algorithm in STACKED)}"
    if model.device.type != "cpu":
        return f"the agent is on the {model.device.type.upper()}"
    if model.env is not None and model.env.on_device:
        return "its environments hold tensors"
    if model.compile_networks or model.ranks is not None:
        return "its networks are compiled, or trained by several processes"
    if matmul_precision.gradients_in_bfloat16:
        return "matmul_precision rounds its gradients"
    if not FAST:
        return "RLZOO_PLAIN leaves its parameters as separate tensors"
    if getattr(model.config, "use_sde", False):
        return "it explores with gSDE (use_sde)"
    if model.has_train_mode_layers:
        return "its networks have layers that behave differently in training"
    if isinstance(model, OffPolicyAlgorithm):
        return off_policy_problem(model)
    assert isinstance(model, OnPolicyAlgorithm)
    return on_policy_problem(model)


def is_slower(model: Algorithm) -> bool:
    """Return whether the arithmetic of a gradient step takes longer than what stacking spares.

    Ten seeds of SAC with two layers of 64 units took 0.52 of the processor time; ten of DQN with layers of
    256 units and batches of 64 took 0.93, five of SAC with such layers and batches of 256 took 0.95.
    """
    config = model.config
    rows = getattr(config, "batch_size", None) or config.n_steps * model.n_envs
    return max(parameter.numel() for parameter in model.policy.parameters()) * rows > MANY_MULTIPLICATIONS


class Stack:
    """The trainings of one process that compute together."""

    def __init__(self) -> None:
        self.agents: OnPolicyStack | OffPolicyStack | None = None

    def add(self, model: Algorithm, seat: Seat) -> None:
        """Let an agent without a `stack_problem` compute together with those that were added before.

        :param model: all agents differ in nothing but their seeds
        """
        if isinstance(model, OffPolicyAlgorithm):
            self.agents = self.agents or OffPolicyStack(model)
            cast(OffPolicyStack, self.agents).add(model, seat)
        else:
            assert isinstance(model, OnPolicyAlgorithm)
            self.agents = self.agents or OnPolicyStack(model)
            cast(OnPolicyStack, self.agents).add(model, seat)
