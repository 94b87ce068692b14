"""A progress bar on the console."""

from __future__ import annotations

import time
import weakref
from typing import Any

REFRESH_SECONDS = 0.1


class ProgressBar:
    """Steps (or whatever is counted) done, their number per second, time left, and a short text.

    It is redrawn when progress is reported, at most ten times a second. Printed lines appear above it. Where
    standard output is no terminal, only its last state is written.

    :param total: number of steps at the end
    :param completed: number of steps at the beginning
    :param unit: what is counted, in the plural
    """

    def __init__(self, total: int, completed: int = 0, unit: str = "steps") -> None:
        from rich import progress
        from rich.console import Console

        self._progress: Any = progress.Progress(
            progress.TaskProgressColumn(),
            progress.BarColumn(),
            progress.TextColumn(
                f"{{task.completed:,}}/{{task.total:,}} {unit}, {{task.fields[speed]:,.0f}}/s", markup=False
            ),
            progress.TimeElapsedColumn(),
            progress.TextColumn("<", markup=False),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[text]}", markup=False),
            console=Console(),  # its own: a bar that an interrupt left behind may still hold the shared one
            auto_refresh=False,
        )
        self._total, self._first, self._began = total, completed, time.perf_counter()
        self._task = self._progress.add_task("", total=total, completed=completed, speed=0.0, text="")
        self._next_refresh = 0.0
        self._progress.start()
        # The cursor is hidden meanwhile: an error that nobody catches must not leave it so.
        self._stop = weakref.finalize(self, self._progress.stop)

    @property
    def due(self) -> bool:
        """Whether `update` would draw."""
        return time.perf_counter() >= self._next_refresh

    def update(self, completed: int, text: str = "") -> None:
        """Show that `completed` steps are done, if the last drawing is old enough."""
        if self.due:
            self._draw(completed, text)

    def close(self, completed: int, text: str = "") -> None:
        """Draw the last state and leave it on the console."""
        self._draw(completed, text)
        self._stop()

    def _draw(self, completed: int, text: str) -> None:
        now = time.perf_counter()
        speed = (completed - self._first) / max(now - self._began, 1e-9)
        total = max(self._total, completed)  # the last rollout may go beyond what was asked for
        self._progress.update(
            self._task, completed=completed, total=total, speed=speed, text=text, refresh=True
        )
        self._next_refresh = now + REFRESH_SECONDS
