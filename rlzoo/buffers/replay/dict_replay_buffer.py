"""`DictReplayBuffer`, a name of stable-baselines3: here one class replays all kinds of observations."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.errors import UserError


class _OfDicts(type(ReplayBuffer)):  # type: ignore[misc]
    """Lets `isinstance(replay, DictReplayBuffer)` say whether observations are dictionaries."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not DictReplayBuffer:
            return super().__instancecheck__(instance)
        return isinstance(instance, ReplayBuffer) and isinstance(instance.observation_space, spaces.Dict)


class DictReplayBuffer(ReplayBuffer, metaclass=_OfDicts):
    """Replay buffer for Dict observations; every replay buffer with such observations is an instance."""

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space[object], *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise UserError(f"DictReplayBuffer is for Dict observations, not for {observation_space}")
        super().__init__(buffer_size, observation_space, *args, **kwargs)
