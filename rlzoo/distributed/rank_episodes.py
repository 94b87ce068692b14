"""Statistics of the episodes of all ranks, in the order in which one process would have them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class EpisodeWindow(deque[T], Generic[T]):
    """The last episodes of all ranks; those that end on this rank count once all ranks have told theirs.

    :param window: the last episodes before
    :param num_timesteps: returns the steps of the training
    """

    def __init__(self, window: deque[T], num_timesteps: Callable[[], int]) -> None:
        super().__init__(window, window.maxlen)
        self.num_timesteps = num_timesteps
        self.untold: list[tuple[int, T]] = []  # (number of environment steps, episode)

    def append(self, episode: T) -> None:
        self.untold.append((self.num_timesteps(), episode))

    def tell(self) -> list[tuple[int, T]]:
        """Return the episodes that have ended on this rank since the last call."""
        told, self.untold = self.untold, []
        return told

    def merge(self, told: Iterable[tuple[int, T]]) -> None:
        """Add the episodes of all ranks, rank after rank."""
        for _, episode in sorted(told, key=lambda pair: pair[0]):  # stable: by environment within a step
            super().append(episode)

    def plain(self) -> deque[T]:
        """Return the last episodes as a deque."""
        return deque(self, self.maxlen)
