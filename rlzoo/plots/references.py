"""Published scores of other zoos, for comparison: files of `benchmarks`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from rlzoo.config.hyperparams import shipped_folder
from rlzoo.config.run import bare_id, other_version
from rlzoo.core.errors import UserError

SOURCES = {"SB3 zoo": "reference_scores.csv", "SB2 zoo": "reference_scores_sb2.csv"}
"""Where the scores were published, the newest first."""

RANDOM = "random_scores.csv"

_RENAMED = {"ppo2": "ppo"}
_UNITS = {"k": 1_000, "M": 1_000_000}


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The mean return of one agent, with the standard deviation over its episodes."""

    algo: str
    env_id: str  # as published
    mean: float
    std: float
    n_timesteps: int | None  # of the training; None: not published
    episodes: int  # played
    source: str


def reference(algo: str, env_id: str) -> Reference | None:
    """Return the score that was published for this pair, or for another version of the environment.

    The exact id comes before another version, the newer source before the older one.

    :raises UserError: the shipped files are missing
    """
    published = [{entry.env_id: entry for entry in _read(source) if entry.algo == algo} for source in SOURCES]
    for entries in published:
        if bare_id(env_id) in entries:
            return entries[bare_id(env_id)]
    for entries in published:
        if other := other_version(env_id, entries):
            return entries[other]
    return None


def best_reference(env_id: str) -> Reference | None:
    """Return the highest score that was published for an environment, or for another version of it.

    :raises UserError: the shipped files are missing
    """
    for known in (_exact, _other):
        for source in SOURCES:
            found = [entry for entry in _read(source) if known(env_id, entry.env_id)]
            if found:
                return max(found, key=lambda entry: entry.mean)
    return None


def random_score(env_id: str) -> float | None:
    """Return the mean return of random actions, measured by scripts/random_scores.py; None if unknown.

    :raises UserError: the shipped file is missing
    """
    known = _random_scores()
    return known.get(bare_id(env_id), known.get(other_version(env_id, known) or ""))


def _exact(env_id: str, published: str) -> bool:
    return bare_id(env_id) == published


def _other(env_id: str, published: str) -> bool:
    return other_version(env_id, [published]) is not None


@cache
def _random_scores() -> dict[str, float]:
    path = shipped_folder("benchmarks") / RANDOM
    if not path.is_file():
        raise UserError(f"there is no {path}")
    with path.open(newline="") as file:
        return {line["env_id"]: float(line["mean_reward"]) for line in csv.DictReader(file)}


@cache
def _read(source: str) -> tuple[Reference, ...]:
    path = shipped_folder("benchmarks") / SOURCES[source]
    if not path.is_file():
        raise UserError(f"there is no {path}")
    with path.open(newline="") as file:
        return tuple(_references(csv.DictReader(file), source))


def _references(lines: Iterator[dict[str, str]] | csv.DictReader[str], source: str) -> Iterator[Reference]:
    for line in lines:
        # n_timesteps of RL Baselines Zoo are those that were played, with n_episodes
        trained = line["n_timesteps"] if "eval_episodes" in line else None
        yield Reference(
            algo=_RENAMED.get(line["algo"], line["algo"]),
            env_id=line["env_id"],
            mean=float(line["mean_reward"]),
            std=float(line["std_reward"]),
            n_timesteps=None if trained is None else _steps(trained),
            episodes=int(line["n_episodes"] if trained is None else line["eval_episodes"]),
            source=source,
        )


def _steps(text: str) -> int:
    """Parse `500k` and `2M` as numbers."""
    return int(float(text[:-1]) * _UNITS[text[-1]]) if text[-1] in _UNITS else int(text)
