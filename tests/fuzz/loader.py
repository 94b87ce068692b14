"""What a loader is: an honest file of its kind, how files of it are mutated, and what reads them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tests.fuzz.archives import mutate_file


@dataclass(frozen=True)
class Loader:
    """One thing that rlzoo reads.

    :param make: write honest files into an empty folder
    :param use: read them, and use what was read as the package does; may raise errors of the package only
    :param targets: patterns of the files that are mutated
    :param mutate: of a file's name and content; None: by its suffix
    :param alone: only the mutated file is written, the others are further examples
    :param guarded: nothing may be executed, nor written outside of the folder
    :param share: how many cases it gets, relative to the others
    """

    name: str
    make: Callable[[Path], None]
    use: Callable[[Path, Random], None]
    targets: tuple[str, ...] = ("*",)
    mutate: Callable[[Random, str, bytes], bytes] | None = None
    alone: bool = True
    guarded: bool = True
    share: float = 1.0

    def honest(self, files: dict[str, bytes]) -> list[dict[str, bytes]]:
        """The cases with nothing mutated."""
        return [{name: files[name]} for name in self._targets(files)] if self.alone else [files]

    def _targets(self, files: dict[str, bytes]) -> list[str]:
        return [name for name in files if any(fnmatch(name, target) for target in self.targets)]

    def mutated(self, rng: Random, honest: dict[str, bytes]) -> dict[str, bytes]:
        """The files of one case, from those that `make` wrote."""
        targets = self._targets(honest)
        files = {} if self.alone else dict(honest)
        for name in rng.sample(targets, 1 if self.alone or rng.random() < 0.8 else min(2, len(targets))):
            files[name] = (self.mutate or mutate_file)(rng, name, honest[name])
        return files


def only(folder: Path) -> Path:
    """The one file of a case; of the honest ones, the first."""
    return sorted(path for path in folder.rglob("*") if path.is_file())[0]


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    """Ctrl-C after some time: a file may ask for long work, if only it can be ended."""

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
