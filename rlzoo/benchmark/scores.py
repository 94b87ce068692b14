"""Scores of agents: one record per agent, stored as `score.json` next to its model file.

A file with many scores is a JSON list of records; tables are made from these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from rlzoo.config.benchmark import HELD_OUT, is_row_name
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import model_file
from rlzoo.core.errors import UserError
from rlzoo.runs.json_records import read_records, write_record, write_records

SCORE = "score.json"
CHOSEN_BY = "selection.json"  # the same, of the selection episodes
LARGEST = 1e100  # magnitude of a return; the sum of squares of larger ones would overflow


@dataclass(frozen=True, kw_only=True)
class Score:
    """The evaluation of one trained agent.

    Returns and lengths are of the unwrapped environment; `std` is the population standard deviation over
    episodes. Fields about the selection are ignored when scores are compared.
    """

    algo: str
    env_id: str
    seed: int  # training seed
    n_timesteps: int  # environment steps of training
    episodes: int  # evaluation episodes
    mean: float  # return
    std: float
    median: float
    mean_length: float  # steps of an episode
    success_rate: float | None  # None: the environment does not report success
    deterministic: bool
    evaluation_seed: int  # evaluation environment i is seeded with this + i
    training_seconds: float | None  # None: not known
    sha256: str  # of the model file
    trained_with: dict[str, object]  # versions, git_commit, processor and date of the training
    versions: dict[str, str]  # packages of the evaluation
    date: str  # of the evaluation, UTC, ISO 8601
    name: str | None = None  # of its task in the benchmark list; None: it has none
    n_candidates: int | None = field(default=None, compare=False)  # seeds among which it was selected
    selection_score: float | None = field(default=None, compare=False)  # score in the selection episodes
    selection_episodes: int | None = field(default=None, compare=False)

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
        """Name (or else algorithm) and environment: the key of a row in a table."""
        return self.name or self.algo, self.env_id

    def is_of(self, episodes: int, evaluation_seed: int = HELD_OUT) -> bool:
        """Return whether the evaluation has enough episodes, this seed, and the right kind of actions."""
        return (
            self.episodes >= episodes
            and self.evaluation_seed == evaluation_seed
            and self.deterministic is not plays_stochastically(self.env_id)
        )


def write_score(path: Path, score: Score) -> None:
    """Write one record atomically."""
    write_record(path, score)


def write_scores(path: Path, scores: Iterable[Score]) -> None:
    """Write records to one file, sorted by key and seed."""
    write_records(path, sorted(scores, key=lambda score: (*score.key, score.seed)))


def read_scores(places: Iterable[Path]) -> list[Score]:
    """Read the records of files (one record, or a list) and of all `score.json` below folders.

    :raises UserError: there are none, a file holds no records, a model file has changed since it was scored,
        or two records of one training differ
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
    """Find all files of that name below a folder, except in hidden folders (of killed processes).

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
    """Read the records of a file.

    :raises UserError: it holds neither a record nor a list of records
    """
    return read_records(path, Score)


def digest(file: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal digits.

    :raises UserError: it cannot be read
    """
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
