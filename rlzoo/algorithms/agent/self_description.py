"""Documentation and representation of algorithms: `help(PPO)` and `repr(model)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.params.docstrings import class_docstring


class SelfDescribing:
    """Give subclasses with a Config an Args section in their docstring, and models a one-line repr."""

    common_arguments: ClassVar[dict[str, Any]]
    num_timesteps: int
    n_envs: int
    env: VecEnv | None
    policy_class: type
    policy_name: object
    device: torch.device

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        config, written = getattr(cls, "Config", None), cls.__dict__.get("__doc__")
        if config is not None and written and "Args:" not in written:
            cls.__doc__ = class_docstring(written, config, cls.common_arguments)

    def __repr__(self) -> str:
        """Return the class, policy, environment and progress, such as
        `PPO(MlpPolicy, CartPole-v1, n_envs=8, num_timesteps=100352, device=cpu)`."""
        state: Mapping[str, object] = vars(self)
        if "counters" not in state:
            return f"<{type(self).__name__}, not set up>"
        policy = self.policy_name if isinstance(self.policy_name, str) else self.policy_class.__name__
        facts = [policy, "no env" if self.env is None else self.env.env_name()]
        facts += [f"n_envs={self.n_envs}", f"num_timesteps={self.num_timesteps}", f"device={self.device}"]
        return f"{type(self).__name__}({', '.join(facts)})"
