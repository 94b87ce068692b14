"""The classes of Stable Baselines for PPO, as makers of a `PPO` with the options and defaults that they had.

Departures: what a minibatch is normalised by, where PPO1 normalised a whole rollout; a clipped value function
loses the larger of two errors in PPO2, and the clipped one here.
"""

from __future__ import annotations

from typing import Any

from rlzoo.algorithms.hyperparameters import bind_arguments
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.config.old_names import OLD_CLASSES, old_class_arguments

BESIDE = (
    "verbose",
    "tensorboard_log",
    "_init_setup_model",
    "policy_kwargs",
    "full_tensorboard_log",
    "seed",
    "n_cpu_tf_sess",
)
"""What both classes took after their hyperparameters."""


class OlderPPO:
    """Makes a PPO from arguments in the order, under the names and with the defaults of an older class."""

    def __new__(cls, policy: Any, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        names = [*OLD_CLASSES[cls.__name__].defaults, *BESIDE]
        arguments = bind_arguments(cls.__name__, names, args, kwargs)
        return PPO(policy, env, **old_class_arguments(cls.__name__, arguments, getattr(env, "num_envs", 1)))

    @classmethod
    def load(cls, path: Any, env: Any = None, **kwargs: Any) -> PPO:
        """Read an agent; see `Algorithm.load`."""
        return PPO.load(path, env=env, **kwargs)


class PPO1(OlderPPO):
    """Makes a PPO from the arguments of Stable Baselines' PPO1.

    Its `schedule` scales the learning rate and the clipping range; gradients are not clipped. Environments
    step together, where it had a process of MPI for each.
    """


class PPO2(OlderPPO):
    """Makes a PPO from the arguments of Stable Baselines' PPO2.

    `nminibatches` minibatches make up a rollout; `cliprange_vf=None` clips the value function as `cliprange`
    clips the policy, a negative number does not clip it.
    """
