"""The registry of a collection of trained agents: which there are, how well they play, and where they are.

<root>/registry.json                            a JSON list, one record for each agent
<root>/<algo>/<env>_<n>/<env>.zip  score.json   the agents, in folders as `rlzoo train` leaves them
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rlzoo.config.hyperparams import shipped_folder
from rlzoo.config.run import model_file, run_name
from rlzoo.core.errors import UserError, nearest
from rlzoo.runs.json_records import as_written, check_record, read_records, write_records

REGISTRY = "registry.json"


@dataclass(frozen=True, kw_only=True)
class AgentEntry:
    """One agent; its returns are those of the raw game over `episodes` episodes."""

    algo: str
    env_id: str
    path: str  # of its folder, relative to the root of the collection: sac/Pendulum-v1_1
    seed: int  # of the training
    n_timesteps: int  # environment steps that it has learned from
    mean: float  # return
    std: float
    median: float
    episodes: int  # played
    success_rate: float | None  # None: the environment does not say
    sha256: str  # of its model file
    bytes: int  # size of that file
    actor_only: bool  # it plays, but cannot be trained on
    date: str | None  # when it was trained, UTC, ISO 8601
    name: str | None = None  # of a variant: that of its row in the list of a benchmark
    n_candidates: int | None = None  # seeds that this one is the best of; None: not chosen among others
    selection_score: float | None = None  # what it was chosen by: mean return or success rate
    selection_episodes: int | None = None  # played for that, apart from those of `mean`

    @property
    def number(self) -> int:
        """The number of its run."""
        return int(self.path.rpartition("_")[2])

    def summary(self) -> str:
        """Return its mean return: `500.0 ± 0.0`, with the success rate where the environment reports it."""
        success = "" if self.success_rate is None else f" ({self.success_rate:.0%})"
        return f"{self.mean:.1f} ± {self.std:.1f}{success}"

    def choice(self) -> str:
        """Return its training seed, and of how many it is the best: `2 of 3`; `0` for the only one."""
        return f"{self.seed} of {self.n_candidates}" if self.n_candidates else str(self.seed)


def read_registry(root: Path) -> list[AgentEntry]:
    """Read the agents of a collection, sorted by algorithm and environment; none where there is no registry.

    :raises UserError: the registry is damaged, or names a folder outside the collection
    """
    path = root / REGISTRY
    return _checked(path, read_records(path, AgentEntry)) if path.exists() else []


def write_registry(root: Path, entries: Iterable[AgentEntry]) -> None:
    """Write the registry of a collection, whole or not at all.

    :raises UserError: `read_registry` would refuse it
    """
    path = root / REGISTRY
    checked = [check_record(path, AgentEntry, as_written(entry)) for entry in entries]
    write_records(path, _checked(path, checked))


def shipped_root() -> Path:
    """Return the folder of the agents that come with rlzoo."""
    return shipped_folder("trained_agents")


def shipped_agents() -> list[AgentEntry]:
    """Return the agents that come with rlzoo."""
    return read_registry(shipped_root())


def find_shipped(algo: str, env_id: str, number: int = 0) -> tuple[AgentEntry, Path] | None:
    """Return the shipped agent of an algorithm for an environment, and its folder; None without one.

    :param number: of its run; 0: any
    :raises UserError: it is in the registry, and is not there
    """
    for entry in shipped_agents():
        if (entry.algo, entry.env_id) == (algo, env_id) and number in (0, entry.number):
            folder = shipped_root() / entry.path
            if not (folder / model_file(env_id)).is_file():
                raise UserError(f"there is no {folder / model_file(env_id)}, which {REGISTRY} lists")
            return entry, folder
    return None


def nearest_shipped(algo: str, env_id: str) -> str:
    """Return the nearest shipped agents, as part of a sentence; empty where nothing is near."""
    agents = shipped_agents()
    if algos := [entry.algo for entry in agents if entry.env_id == env_id]:
        return f"shipped for {env_id}: {', '.join(algos)}"
    near = nearest(env_id, [entry.env_id for entry in agents if entry.algo == algo])
    return f"shipped of {algo}: {near}" if near else ""


def _checked(path: Path, entries: Iterable[AgentEntry]) -> list[AgentEntry]:
    """Return the entries, sorted.

    :raises UserError: one names another folder than that of its agent, or two name the same one
    """
    in_order = sorted(entries, key=lambda entry: (entry.algo, entry.env_id, entry.path))
    for entry in in_order:
        name = run_name(entry.env_id, 1).removesuffix("1")
        if not re.fullmatch(re.escape(f"{entry.algo}/{name}") + r"\d+", entry.path):
            raise UserError(f"{path}: {entry.path!r} is not written as {entry.algo}/{name}NUMBER")
    for one, next_one in pairwise(in_order):
        if one.path == next_one.path:
            raise UserError(f"{path} has {one.path} twice")
    return in_order
