"""The runs in a folder, and their evaluations as a table.

A run is a folder with `<env>/args.yml`, at any depth: those of `rlzoo train` (<algo>/<env>_<n>) and of
`rlzoo benchmark run` (seed<k>/<algo>/<env>_<n>). A file `row.json` in it may name the variant of the
algorithm that it is of: `{"name": "ppo, small network"}`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlzoo.config.run import check_folder
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import UserError, nearest
from rlzoo.io.npz import read_npz

if TYPE_CHECKING:
    import pandas as pd

EVALUATIONS = "evaluations.npz"
ROW = "row.json"
COLUMNS = {"results": "return", "ep_lengths": "length", "successes": "success"}
"""Names of the arrays in evaluations.npz as columns."""
LISTED = 12  # names in an error
OWN_COLUMNS = ("algorithm", "name", "environment", "seed", "run", "step")


@dataclass(frozen=True)
class Run:
    """One training, as its folder describes it."""

    folder: Path
    algorithm: str
    name: str  # of the variant; the algorithm where there is none
    environment: str
    seed: int | None


def load_runs(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Load the evaluations of all runs in a folder, one row for each evaluation.

    :param folder: of runs, at any depth, or of one run
    :return: columns `algorithm`, `name` (of the variant, else the algorithm), `environment`, `seed`, `run`
        (its folder), `step` (environment steps trained), and means over the episodes of the evaluation:
        `return`, `length` (steps), `success` (share; NaN where the environment does not tell); then those of
        any other array [n_evaluations, ...] in evaluations.npz, by its name unless a column has it
    :raises UserError: no run was evaluated, or a file is damaged

    >>> runs = load_runs("logs")
    >>> best = runs.groupby(["environment", "algorithm"])["return"].max()
    """
    return evaluations_of(find_runs(folder), str(folder))


def evaluations_of(runs: Sequence[Run], where: str) -> pd.DataFrame:
    """Load the evaluations of runs as `load_runs` does.

    :param where: they are, for the error
    :raises UserError: none was evaluated, or a file is damaged
    """
    import pandas as pd

    frames = [_frame(run) for run in runs if (run.folder / EVALUATIONS).is_file()]
    if not frames:
        which = "the run" if len(runs) == 1 else f"any of the {len(runs)} runs"
        raise UserError(
            f"there are no evaluations ({EVALUATIONS}) of {which} in {where}: train with --eval-freq STEPS"
        )
    table = pd.concat(frames, ignore_index=True)
    for column in COLUMNS.values():
        if column not in table:
            table[column] = np.nan
    others = [column for column in table if column not in (*OWN_COLUMNS, *COLUMNS.values())]
    return table[[*OWN_COLUMNS, *COLUMNS.values(), *others]]


def find_runs(folder: str | os.PathLike[str]) -> list[Run]:
    """Find the runs in a folder, sorted by environment, name and seed.

    :raises UserError: there is none, or its description is damaged
    """
    check_folder(folder if isinstance(folder, str) else Path(folder))
    found = []
    for place, folders, _ in os.walk(folder):
        described = sorted(Path(place).glob("*/args.yml"))
        if described:
            folders.clear()
            found.append(_run(Path(place), described[0]))
    if not found:
        raise UserError(f"there are no runs in {folder}")
    return sorted(found, key=lambda run: (run.environment, run.name, run.seed or 0, str(run.folder)))


def select(
    runs: Sequence[Run], algos: Iterable[str] = (), envs: Iterable[str] = (), where: str = "the folder"
) -> list[Run]:
    """Return the runs of some algorithms and environments.

    :param algos: names of algorithms or variants, in any case; empty: all
    :param envs: ids of environments, or parts of ids; empty: all
    :param where: the runs are, for the error
    :raises UserError: no algorithm or no environment of these has a run; a warning names others without one
    """
    algos, envs = list(algos), list(envs)
    names = {name for run in runs for name in (run.algorithm, run.name)}
    wanted_names = _matches("algorithm", algos, names, _matching_names, where)
    ids = {run.environment for run in runs}
    wanted_ids = _matches("environment", envs, ids, _matching_ids, where)
    chosen = [
        run
        for run in runs
        if (not algos or {run.algorithm, run.name} & wanted_names)
        and (not envs or run.environment in wanted_ids)
    ]
    if not chosen:
        pairs = sorted({f"{run.name} on {run.environment}" for run in runs})
        listed = ", ".join(pairs[:LISTED]) + (", ..." if len(pairs) > LISTED else "")
        raise UserError(
            f"there is no run of {', '.join(algos)} on {', '.join(envs)} in {where}, only of {listed}"
        )
    return chosen


def read_evaluations(path: Path) -> dict[str, np.ndarray]:
    """Read what `EvalCallback` wrote: `timesteps` [n], and means over episodes [n] of every other array.

    :raises UserError: the file is damaged, or is of something else
    """
    arrays = read_npz(path, "evaluations")
    steps = arrays.get("timesteps")
    if steps is None or steps.ndim != 1 or steps.dtype.kind not in "iuf" or "results" not in arrays:
        raise UserError(f"{path} holds no evaluations: these are timesteps [n] and results [n, n_episodes]")
    if len(steps) == 0 or (np.diff(steps) <= 0).any():
        raise UserError(f"{path} is damaged: its timesteps do not increase")
    means = {"timesteps": steps}
    for key, values in arrays.items():
        if key == "timesteps":
            continue
        numbers = values.dtype.kind in "biuf" and values.ndim > 0 and values.size > 0
        if numbers and len(values) == len(steps):
            means[key] = values.reshape(len(steps), -1).mean(axis=1, dtype=np.float64)
        elif key in COLUMNS:
            raise UserError(
                f"{path} is damaged: {key} has the shape {list(values.shape)} for {len(steps)} timesteps"
            )
    return means


def _frame(run: Run) -> pd.DataFrame:
    import pandas as pd

    means = read_evaluations(run.folder / EVALUATIONS)
    steps = means.pop("timesteps").astype(np.int64)
    described: dict[str, Any] = {
        "algorithm": run.algorithm,
        "name": run.name,
        "environment": run.environment,
        "seed": pd.array([run.seed] * len(steps), dtype="Int64"),
        "run": str(run.folder),
        "step": steps,
    }
    taken = {*described, *COLUMNS.values()}
    others = {COLUMNS.get(key, key): values for key, values in means.items() if key not in taken}
    return pd.DataFrame({**described, **others})


def _run(folder: Path, args_file: Path) -> Run:
    """Describe a run by its args.yml, in which RL Baselines3 Zoo calls the environment `env`."""
    values = read_yaml(args_file)
    values = values if isinstance(values, dict) else {}
    algo, env_id, seed = values.get("algo"), values.get("env_id", values.get("env")), values.get("seed")
    if not isinstance(algo, str) or not isinstance(env_id, str):
        raise UserError(f"{args_file} does not describe a run: it needs the texts algo and env_id")
    known_seed = seed if type(seed) is int and 0 <= seed < 2**63 else None
    return Run(folder, algo, _row_name(folder / ROW) or algo, env_id, known_seed)


def _row_name(path: Path) -> str | None:
    """Return the name in the row.json of a run; None where there is none.

    :raises UserError: the file is damaged
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    name = content.get("name") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(name, str | None):
        raise UserError(f'{path} is damaged: it should be {{"name": TEXT}}')
    return name


def _matches(
    kind: str, texts: list[str], known: set[str], find: Callable[[str, set[str]], list[str]], where: str
) -> set[str]:
    """Return what `find` finds for the texts.

    :param where: the runs are, for the error
    :raises UserError: it finds nothing for any; a warning names the texts that it finds nothing for
    """
    found = {text: find(text, known) for text in texts}
    missing = [text for text in texts if not found[text]]
    if missing and len(missing) == len(texts):
        match = nearest(missing[0], known)
        hint = f"; did you mean {match!r}?" if match else ""
        listed = ", ".join(sorted(known)[:LISTED]) + (", ..." if len(known) > LISTED else "")
        asked = " or ".join(map(repr, missing))
        raise UserError(f"there is no run of {kind} {asked} in {where}, only of {listed}{hint}")
    for text in missing:
        warnings.warn(f"there is no run of {kind} {text!r}", stacklevel=3)
    return {name for names in found.values() for name in names}


def _matching_names(text: str, names: set[str]) -> list[str]:
    return [name for name in names if name.casefold() == text.casefold()]


def _matching_ids(text: str, ids: set[str]) -> list[str]:
    return [text] if text in ids else [env_id for env_id in ids if text in env_id]
