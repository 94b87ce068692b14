"""How well an agent plays: one record for each, kept as `score.json` beside its model file.

Many of them in one file are a JSON list, which is what tables are made from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlzoo.config.benchmark import HELD_OUT, is_row_name
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import model_file
from rlzoo.core.errors import UserError
from rlzoo.runs.json_records import read_records, write_record, write_records

SCORE = "score.json"
CHOSEN_BY = "selection.json"  # likewise, of the episodes that agents of several seeds are compared by
LARGEST = 1e100  # magnitude of a return; squares of larger ones are too large for their sums


@dataclass(frozen=True, kw_only=True)
class Score:
    """One trained agent and the episodes it played.

    Returns and lengths are those of the raw game; the standard deviation is of the population of episodes.
    How the agent was chosen says nothing about how it plays: it does not count where scores are compared.
    """

    algo: str
    env_id: str
    seed: int  # of the training
    n_timesteps: int  # environment steps that the agent has learned from
    episodes: int  # played
    mean: float  # return
    std: float
    median: float
    mean_length: float  # steps of an episode
    success_rate: float | None  # None: the environment does not say
    deterministic: bool
    evaluation_seed: int  # environment i of those that were played in is seeded with this + i
    training_seconds: float | None  # None: not known
    sha256: str  # of the model file that played
    trained_with: dict[str, Any]  # versions, git_commit, processor and date of the model file
    versions: dict[str, str]  # of what it was played with
    date: str  # of playing, UTC, ISO 8601
    name: str | None = None  # of its row in the list of a benchmark; None: it had none
    n_candidates: int | None = field(default=None, compare=False)  # seeds that this one is the best of
    selection_score: float | None = field(default=None, compare=False)  # what it was chosen by
    selection_episodes: int | None = field(
        default=None, compare=False
    )  # played for that, apart from the above

    def __post_init__(self) -> None:
        """:raises UserError: no agent can have such a score"""
        for name, fits in {
            "algo": self.algo.isidentifier(),
            "env_id": self.env_id.isprintable() and self.env_id != "",
            "n_timesteps": self.n_timesteps >= 0,
            "episodes": self.episodes >= 1,
            "mean": abs(self.mean) <= LARGEST,
            "std": 0 <= self.std <= LARGEST,
            "median": abs(self.median) <= LARGEST,
            "mean_length": self.mean_length >= 0,
            "success_rate": self.success_rate is None or 0 <= self.success_rate <= 1,
            "name": self.name is None or is_row_name(self.name),
            "n_candidates": self.n_candidates is None or self.n_candidates >= 1,
            "selection_score": self.selection_score is None or abs(self.selection_score) <= LARGEST,
            "selection_episodes": self.selection_episodes is None or self.selection_episodes >= 1,
            "sha256": re.fullmatch("[0-9a-f]{64}", self.sha256),
        }.items():
            if not fits:
                raise UserError(f"{name} of a score cannot be {getattr(self, name)!r}")

    @property
    def key(self) -> tuple[str, str]:
        """Name (or else algorithm) and environment: what a row of a table is about."""
        return self.name or self.algo, self.env_id

    def is_of(self, episodes: int, evaluation_seed: int = HELD_OUT) -> bool:
        """Whether at least so many episodes were played, in the environments and the way that scores need."""
        return (
            self.episodes >= episodes
            and self.evaluation_seed == evaluation_seed
            and self.deterministic is not plays_stochastically(self.env_id)
        )


def write_score(path: Path, score: Score) -> None:
    """Write one record, whole or not at all."""
    write_record(path, score)


def write_scores(path: Path, scores: Iterable[Score]) -> None:
    """Write records to one file, in an order that does not depend on that of playing."""
    write_records(path, sorted(scores, key=lambda score: (*score.key, score.seed)))


def read_scores(places: Iterable[Path]) -> list[Score]:
    """The records of files (one, or a list of them) and of all `score.json` below folders.

    :raises UserError: nothing is there, a file holds no records, the agent beside a record is another one
        by now, or two records are of the same training
    """
    scores: dict[tuple[str, str, int], tuple[Score, Path]] = {}
    for place in places:
        if not place.exists():
            raise UserError(f"there is no {place}")
        files = files_named(SCORE, place) if place.is_dir() else [place]
        if not files:
            raise UserError(f"there is no {SCORE} in {place}; `rlzoo benchmark score {place}` makes them")
        for file in files:
            for score in read_score_file(file):
                model = file.with_name(model_file(score.env_id))
                if place.is_dir() and model.is_file() and digest(model) != score.sha256:
                    raise UserError(
                        f"{file} is of another agent; `rlzoo benchmark score {place}` plays this one"
                    )
                identity = (*score.key, score.seed)
                if identity in scores and scores[identity][0] != score:
                    other = scores[identity][1]
                    both = f"{file} has two scores of" if file == other else f"{other} and {file} disagree on"
                    raise UserError(f"{both} {' '.join(score.key)} seed {score.seed}; one has to go")
                scores[identity] = score, file
    return [score for score, _ in scores.values()]


def files_named(name: str, place: Path) -> list[Path]:
    """All files of that name below a folder, but not in hidden ones, which processes that were killed leave.

    :raises UserError: a folder cannot be read
    """
    found = []
    for folder, below, files in os.walk(place, onerror=_refuse):
        below[:] = [inner for inner in below if not inner.startswith(".")]
        if name in files:
            found.append(Path(folder, name))
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise UserError(f"cannot read {error.filename}: {error.strerror}")


def read_score_file(path: Path) -> list[Score]:
    """The records in a file that holds one, or a list of them.

    :raises UserError: it holds something else
    """
    return read_records(path, Score)


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits.

    :raises UserError: it cannot be read
    """
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
