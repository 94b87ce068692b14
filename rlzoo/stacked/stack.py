"""Stacks of trainings: which agents can be trained together, and how they join."""

from __future__ import annotations

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.on_policy.a2c import A2C
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.stacked.on_policy import OnPolicyStack, on_policy_problem
from rlzoo.stacked.turns import Seat

STACKED = (PPO, A2C)
"""Algorithms of which several seeds are trained together."""


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
    if not isinstance(model.flat, FlatParameters):
        return "RLZOO_PLAIN leaves its parameters as separate tensors"
    if getattr(model.config, "use_sde", False):
        return "it explores with gSDE (use_sde)"
    if model.has_train_mode_layers:
        return "its networks have layers that behave differently in training"
    assert isinstance(model, OnPolicyAlgorithm)
    return on_policy_problem(model)


class Stack:
    """The trainings of one process that compute together."""

    def __init__(self) -> None:
        self.on_policy: OnPolicyStack | None = None

    def add(self, model: Algorithm, seat: Seat) -> None:
        """Let an agent without a `stack_problem` compute together with those that were added before.

        :param model: all agents differ in nothing but their seeds
        """
        assert isinstance(model, OnPolicyAlgorithm)
        if self.on_policy is None:
            self.on_policy = OnPolicyStack(model)
        self.on_policy.add(model, seat)
