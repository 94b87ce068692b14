"""The list of a benchmark: which algorithms are trained on which environments, with which seeds.

    seeds: [0, 1, 2]                      # of every row that has none
    episodes: 100                         # likewise
    rows:
      - {algo: ppo, env: CartPole-v1, required: 500}
      - {algo: [sac, td3], env: [Pendulum-v1, MountainCarContinuous-v0], seeds: [0], n_timesteps: 20000}
      - {algo: bc, env: CartPole-v1, expert: {algo: ppo, seed: 100, episodes: 25}}
      - {name: big_net, algo: ppo, env: CartPole-v1, hyperparams: {policy_kwargs: {net_arch: [256, 256]}}}

A row with a `name` is a variant: it has the hyperparameters of its algorithm with `hyperparams` on top, and
its results are listed under its name. A row with lists of algorithms and environments expands to all pairs.

Environment i of a training with seed s is seeded s + i: with 8 environments, seeds 0 and 1 share 7 random
streams. What they learn need not be alike for that: over 90 seeds of A2C on CartPole-v1 the returns of
neighbours correlated by 0.14 (standard error 0.11; 0.03 with separate streams). Seeds such as
[0, 100, 200] share none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.hyperparams import benchmark_file, lookup, with_overrides
from rlzoo.config.run import safe_name
from rlzoo.config.values_as_text import interpret, read_yaml
from rlzoo.core.errors import UserError, unknown

FOLDER = "logs/benchmark"  # where the runs go
MEASURES = ("return", "success")
SEEDS = (0, 1, 2)
EPISODES = 100
HELD_OUT = 1_000_000
"""Environments that measure are seeded from here on; training uses its seed and the numbers just above it."""
SELECTION = HELD_OUT + 500_000
"""Environments in which agents of one row are compared, to ship the best, are seeded from here on: none of
their episodes is one of a published score."""
MAX_SEED = 900_000
"""Of a training, with room below HELD_OUT for its environments."""
IMITATORS = ("bc", "gail")


@dataclass(frozen=True, kw_only=True)
class Expert:
    """Whose episodes a row learns from: an agent with the shipped hyperparameters, trained first."""

    algo: str
    seed: int
    episodes: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """One algorithm, or a variant of it, on one environment."""

    algo: str
    env: str
    name: str | None = None  # of a variant; None: the algorithm with its own hyperparameters
    hyperparams: dict[str, object] = field(
        default_factory=dict, hash=False
    )  # overrides, as the file has them
    seeds: tuple[int, ...] = SEEDS
    episodes: int = EPISODES  # played by each agent
    n_timesteps: int | None = None  # None: as many as the hyperparameters say
    conf_file: str | None = None  # None: the shipped hyperparameters
    expert: Expert | None = None
    measure: str = "return"
    required: float | None = None  # of the median over the seeds, at least
    below: float | None = None  # likewise, less than this: what another row is compared with
    note: str | None = None  # what was found out about it, for readers of its results
    ship: bool = True  # whether its best agent may become part of a collection

    @property
    def label(self) -> str:
        """What its results stand under: its name, or else its algorithm."""
        return self.name or self.algo

    @property
    def key(self) -> tuple[str, str]:
        """Label and environment, which are those of one row of a list."""
        return self.label, self.env

    def reached(self, median: float) -> bool | None:
        """Return whether the median over the seeds reaches the target; None without a target."""
        if self.required is not None:
            return median >= self.required
        return None if self.below is None else median < self.below


def read_list(path: str | Path) -> list[Row]:
    """Return the rows of a list, in its order.

    :raises UserError: an unknown key or algorithm, a value of the wrong kind, the same row or folder twice
    """
    content = read_yaml(Path(path))
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        raise UserError(f"{path} is not a benchmark list: `rows` is missing")
    defaults = {key: value for key, value in content.items() if key != "rows"}
    for key in defaults:
        if key not in ("seeds", "episodes"):
            raise unknown(f"key in {path}", key, ("seeds", "episodes", "rows"))
    rows: dict[tuple[str, str], Row] = {}
    folders: dict[tuple[str, str], Row] = {}
    for item in content["rows"]:
        if not isinstance(item, dict):
            raise UserError(f"{path}: a row is written as {{algo: ..., env: ...}}, not {item!r}")
        for row in _rows(str(path), {**defaults, **item}):
            if row.key in rows:
                raise UserError(f"{path} has {row.label} on {row.env} twice")
            other = folders.setdefault((row.label, safe_name(row.env)), row)
            if other is not row:
                raise UserError(
                    f"{path}: {row.label} on {other.env} and on {row.env} have the same folder; name one"
                )
            rows[row.key] = row
    if not rows:
        raise UserError(f"{path}: `rows` is empty")
    return list(rows.values())


def choose(rows: list[Row], wanted: list[tuple[str, str]]) -> list[Row]:
    """Return the rows with these keys; all of them when there are no keys.

    :raises UserError: there is no such row
    """
    by_name = {":".join(row.key): row for row in rows}
    for key in wanted:
        if ":".join(key) not in by_name:
            raise unknown("row", ":".join(key), by_name)
    return [row for row in rows if not wanted or row.key in wanted]


def experts_of(rows: Iterable[Row]) -> set[tuple[str, str, int]]:
    """Return algorithm, environment and seed of the agents that are trained only as experts."""
    rows = list(rows)
    experts = {(row.expert.algo, row.env, row.expert.seed) for row in rows if row.expert}
    return experts - {(*row.key, seed) for row in rows for seed in row.seeds}


def parse_key(text: str) -> tuple[str, str]:
    """Return the key of a row from `ppo:CartPole-v1` or `my_variant:CartPole-v1`.

    :raises UserError: it is not written so
    """
    label, colon, env = text.partition(":")
    if not (label and colon and env):
        raise UserError(f"a row is written as ALGORITHM:ENVIRONMENT or NAME:ENVIRONMENT, not {text!r}")
    return label, env


def is_row_name(text: object) -> bool:
    """Return whether a name is valid: it becomes part of file names, and of `--rows NAME:ENVIRONMENT`.

    >>> is_row_name("ppo-256"), is_row_name("../ppo"), is_row_name("a:b")
    (True, False, False)
    """
    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,63}", text) is not None


def label_problem(name: str, algo: str) -> str:
    """Return why a row of an algorithm cannot have this name: it would be taken for another algorithm."""
    if name == algo or not catalog.is_name(name):
        return ""
    return f"{name} is the name of an algorithm, and the row's is {algo}"


def planned_steps(row: Row) -> int | None:
    """Return the environment steps of a training; None where they are not set, or their file is missing."""
    conf_file = None if row.conf_file is None else benchmark_file(row.conf_file)
    if row.n_timesteps or (conf_file is not None and not conf_file.is_file()):
        return row.n_timesteps
    raw = with_overrides(lookup(row.algo, row.env, conf_file), row.hyperparams)
    steps = raw.values.get("n_timesteps")
    return int(float(steps)) if isinstance(steps, int | float | str) else None


def _rows(path: str, item: dict[str, Any]) -> Iterator[Row]:
    kinds = _KINDS
    for key, value in item.items():
        if key not in kinds:
            raise unknown(f"key of a row in {path}", key, kinds)
        if not kinds[key][0](value):
            raise UserError(f"{path}: {key} must be {kinds[key][1]}, not {value!r}")
    for key in ("algo", "env"):
        if key not in item:
            raise UserError(f"{path}: a row lacks {key}: {item}")
    if item.get("required") is not None and item.get("below") is not None:
        raise UserError(f"{path}: a row has `required` or `below`, not both: {item}")
    if "name" in item and isinstance(item["algo"], list):
        raise UserError(f"{path}: a row with a name has one algorithm, not {item['algo']!r}")
    values = item | {key: int(item[key]) for key in ("episodes", "n_timesteps") if key in item}
    if "seeds" in item:
        values["seeds"] = tuple(item["seeds"])
    if "expert" in item:
        values["expert"] = _expert(path, item["expert"])
    if "hyperparams" in item:
        interpret(item["hyperparams"])  # what cannot be read is told here
    for algo in _as_list(item["algo"]):
        catalog.resolve(algo)
        if problem := label_problem(item.get("name", algo), algo):
            raise UserError(f"{path}: {problem}; give it another name")
        if item.get("name") == algo:
            del values["name"]
        for env in _as_list(item["env"]):
            yield Row(**{**values, "algo": algo, "env": env})


def _expert(path: str, item: dict[str, Any]) -> Expert:
    if item.keys() != {"algo", "seed", "episodes"} or not isinstance(item["algo"], str):
        raise UserError(
            f"{path}: an expert is written as {{algo: ppo, seed: 100, episodes: 25}}, not {item!r}"
        )
    if catalog.canonical(item["algo"]) in IMITATORS:
        raise UserError(f"{path}: {item['algo']} learns from an expert, and can be none itself")
    for key in ("seed", "episodes"):
        fits, expected = (_is_seed, f"a whole number, at most {MAX_SEED}") if key == "seed" else _KINDS[key]
        if not fits(item[key]):
            raise UserError(f"{path}: {key} of an expert must be {expected}, not {item[key]!r}")
    return Expert(algo=item["algo"], seed=item["seed"], episodes=int(item["episodes"]))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_count(value: object) -> bool:
    """Return whether a value is a positive integer; `1e6` is one."""
    return isinstance(value, int | float) and type(value) is not bool and value > 0 and value % 1 == 0


def _is_seed(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEED


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # which NaN is not


def _is_yaml(value: object) -> bool:
    """Return whether a path is that of a YAML file, which holds no code."""
    return isinstance(value, str) and value.endswith((".yml", ".yaml"))


def _are_names(value: object) -> bool:
    return bool(value) and all(isinstance(name, str) and name for name in _as_list(value))


def _are_hyperparams(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _are_seeds(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_seed, value)) and 0 < len(set(value)) == len(value)


_KINDS = {
    "algo": (_are_names, "a name or a list of names"),
    "env": (_are_names, "a name or a list of names"),
    "name": (is_row_name, "letters, digits and _.+=- (at most 64, the first a letter or digit)"),
    "hyperparams": (_are_hyperparams, "a dictionary, such as {learning_rate: 1e-3}"),
    "seeds": (_are_seeds, f"a list of different whole numbers, at most {MAX_SEED}"),
    "episodes": (_is_count, "a whole number, at least 1"),
    "n_timesteps": (_is_count, "a whole number, at least 1"),
    "conf_file": (_is_yaml, "a path that ends in .yml or .yaml"),
    "expert": (lambda value: isinstance(value, dict), "{algo: ..., seed: ..., episodes: ...}"),
    "measure": (lambda value: value in MEASURES, " or ".join(MEASURES)),
    "required": (_is_number, "a number"),
    "below": (_is_number, "a number"),
    "ship": (lambda value: isinstance(value, bool), "true or false"),
    "note": (lambda value: isinstance(value, str) and value.strip() != "", "a sentence"),
}
