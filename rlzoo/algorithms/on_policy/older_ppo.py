"""PPO1 and PPO2 of Stable Baselines: they return a `PPO` with the options and defaults of these classes.

Departures: advantages are normalised per minibatch, where PPO1 normalised the whole rollout; PPO2 takes the
larger of the clipped and the unclipped value loss, PPO the clipped one; PPO2 halves the value loss, PPO does
not, so that `vf_coef` weighs twice as much here (0.25 gives the objective of PPO2's 0.5).
"""

from __future__ import annotations

from typing import Any

from rlzoo.algorithms.hyperparameters import bind_arguments
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.config.legacy.sb2_options import SB2_CLASSES
from rlzoo.config.legacy.sb2_translation import translate_sb2_class_kwargs

SB2_COMMON_KWARGS = (
    "verbose",
    "tensorboard_log",
    "_init_setup_model",
    "policy_kwargs",
    "full_tensorboard_log",
    "seed",
    "n_cpu_tf_sess",
)
"""Arguments of both classes after their hyperparameters."""


class SB2PPO:
    """Base class: arguments in the order, under the names and with the defaults of Stable Baselines."""

    def __new__(cls, policy: Any, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        names = [*SB2_CLASSES[cls.__name__].defaults, *SB2_COMMON_KWARGS]
        arguments = bind_arguments(cls.__name__, names, args, kwargs)
        n_envs = getattr(env, "num_envs", 1)
        return PPO(policy, env, **translate_sb2_class_kwargs(cls.__name__, arguments, n_envs))

    @classmethod
    def load(cls, path: Any, env: Any = None, **kwargs: Any) -> PPO:
        """Read an agent; see `Algorithm.load`."""
        return PPO.load(path, env=env, **kwargs)


class PPO1(SB2PPO):
    """Factory for a PPO from the arguments of Stable Baselines' PPO1.

    Its `schedule` scales the learning rate and the clipping range; gradients are not clipped. Environments
    step together, where it had a process of MPI for each.
    """


class PPO2(SB2PPO):
    """Factory for a PPO from the arguments of Stable Baselines' PPO2.

    `nminibatches` minibatches make up a rollout; `cliprange_vf=None` clips the value function as `cliprange`
    clips the policy, a negative number does not clip it.
    """
