"""What a running study shows on the console."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.live import Live
from rich.text import Text

from rlzoo.core.errors import printable


class Display:
    """A line for each finished trial and, on a terminal, one below them that says how the study stands.

    :param verbose: 0 shows nothing
    """

    def __init__(self, study: optuna.Study, n_trials: int, verbose: int = 1) -> None:
        self.study, self.n_trials, self.verbose = study, n_trials, verbose
        self.console = Console(highlight=False)
        self.live = Live(console=self.console, refresh_per_second=2, transient=True)
        self.began = time.monotonic()
        self.shown: set[int] | None = None  # numbers of the finished trials that have had their line
        self.best: float | None = None
        self.n_before = 0

    def __enter__(self) -> Display:
        if self.verbose and self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def update(self, trials: Sequence[FrozenTrial]) -> None:
        """Show what is new since the last call."""
        finished = sorted(
            (trial for trial in trials if trial.state.is_finished()),
            key=lambda trial: str(trial.datetime_complete),
        )
        resumed = self.shown is None
        if self.shown is None:
            self.shown, self.n_before = set(), len(finished)
        new = [trial for trial in finished if trial.number not in self.shown]
        self.shown.update(trial.number for trial in new)
        for trial in new:
            line = printable(self._line(trial))
            if self.verbose and not resumed:
                self.console.print(line, markup=False, soft_wrap=True)
        if resumed and new and self.verbose:
            self.console.print(
                f"Going on with {self.study.study_name}: {self.status(trials)}", soft_wrap=True
            )
        if self.live.is_started:
            self.live.update(Text(self.status(trials)))

    def status(self, trials: Sequence[FrozenTrial]) -> str:
        """Return such as `12 of 30 done, 3 pruned, 1 failed, 2 running, best 93.4, about 4 min left`."""
        count = Counter(trial.state for trial in trials)
        done = count[TrialState.COMPLETE] + count[TrialState.PRUNED] + count[TrialState.FAIL]
        parts = [f"{done} of {self.n_trials} done"]
        parts += [f"{count[state]} {word}" for state, word in _WORDS if count[state]]
        if self.best is not None:
            parts.append(f"best {self.best:.2f}")
        if (n_new := done - self.n_before) > 0 and done < self.n_trials:
            left = (time.monotonic() - self.began) / n_new * (self.n_trials - done)
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def _line(self, trial: FrozenTrial) -> str:
        seconds = trial.duration.total_seconds() if trial.duration else 0.0
        line = f"trial {trial.number:>{len(str(self.n_trials))}}  "
        if "of" in trial.user_attrs:  # trained again: its number is not that of the trial
            line = f"trial {trial.user_attrs['of']}, training {trial.user_attrs['run'] + 1}  "
        if trial.state == TrialState.FAIL:
            return (
                f"{line}failed after {duration(seconds)}: {trial.user_attrs.get('error', 'no reason known')}"
            )
        if trial.state == TrialState.PRUNED:
            return f"{line}pruned after {duration(seconds)}"
        value = trial.values[0]
        better = self.best is None or value > self.best
        self.best = value if better or self.best is None else self.best
        return f"{line}{value:10.2f}  in {duration(seconds)}{'  best so far' if better else ''}"


_WORDS = (
    (TrialState.PRUNED, "pruned"),
    (TrialState.FAIL, "failed"),
    (TrialState.RUNNING, "running"),
)


def duration(seconds: float) -> str:
    """Format seconds as `45 s`, `12 min` or `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
