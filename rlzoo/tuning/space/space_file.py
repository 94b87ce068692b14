"""A search space in a YAML file.

    learning_rate: {low: 1e-5, high: 1e-2, log: true}
    n_epochs: {low: 1, high: 20}
    gamma: [0.9, 0.99, 0.999]
    policy_kwargs:
      net_arch: {choices: [[64, 64], [256, 256]]}

Keys may also be written with dots: `policy_kwargs.net_arch`. The file is the whole space.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlzoo.algorithms.hyperparameters import (
    OutOfRange,
    build_config,
    check_arguments,
    check_value,
    field_names,
)
from rlzoo.config import catalog
from rlzoo.config.her_entries import BUFFER_KEYS, HER
from rlzoo.config.hyperparams import ZOO_KEYS
from rlzoo.config.legacy.sb2_translation import current_algorithm
from rlzoo.config.run import PRECISIONS
from rlzoo.config.values_as_text import Name, interpret, read_yaml
from rlzoo.core.errors import UserError, unknown
from rlzoo.experiment.noise_config import plan_noise
from rlzoo.params.search_parameters import Choice, Float, Int, Parameter
from rlzoo.policies.policy_kwargs import accepted_keywords, policy_keywords
from rlzoo.policies.policy_registry import get_policy_class
from rlzoo.tuning.space.search_space import NESTED, Space

RANGE_KEYS = ("low", "high", "log", "step")
ROW_KEYS = (*RANGE_KEYS, "choices")


def space_from_file(path: str | Path, algo: str) -> Space:
    """Read a search space from a file.

    :param algo: algorithm whose hyperparameters these are
    :raises UserError: one line that names the file and the key: no such hyperparameter (with the nearest), an
        empty range, or values that it cannot have
    """
    content = read_yaml(Path(path))
    if not isinstance(content, Mapping) or not content:
        raise UserError(f"{path}: not a mapping of hyperparameters to ranges or choices")
    rows: dict[str, Parameter] = {}
    try:
        annotations, algorithms = _annotations(algo), _algorithms(algo)
        for key, row in _flat(content):
            if key in rows:
                raise UserError(f"{key} is given twice")
            _check_name(key, algo, annotations)
            rows[key] = _parameter(key, row, annotations.get(key))
            for value in _values(key, rows[key]):
                _check_value(key, value, algorithms)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return Space(rows)


def _flat(content: Mapping[object, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield rows by key path; nested keywords are flattened, ranges are not."""
    for key, row in content.items():
        path = f"{prefix}{key}"
        if path in NESTED and isinstance(row, Mapping):
            yield from _flat(row, f"{path}.")
        else:
            yield path, row


def _parameter(key: str, row: object, annotation: str | None) -> Parameter:
    """Build the parameter of a row.

    :raises UserError: the row is neither a range nor choices
    """
    if isinstance(row, Mapping):
        for name in row:
            if name not in ROW_KEYS:
                raise unknown(f"part of {key}", str(name), ROW_KEYS)
        if "choices" not in row:
            return _range(key, row, annotation)
        if len(row) > 1:
            raise UserError(f"{key} has choices and a range: give one")
        row = row["choices"]
    if not isinstance(row, list):
        raise UserError(f"{key} must be {{low: ..., high: ...}} or [choice, ...], not {row!r}")
    if not row:
        raise UserError(f"{key} has no choices")
    for choice in interpret({key: row})[key]:
        _check(key, choice, annotation)
    return Choice(*row)


def _range(key: str, row: Mapping[str, object], annotation: str | None) -> Parameter:
    """Build a Float or an Int.

    :raises UserError: the range is empty or of other values than the hyperparameter
    """
    bounds = {}
    for name in ("low", "high", "step"):
        value = row.get(name)
        if value is None and name == "step":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UserError(f"{key}: {name} must be a number, not {value!r}")
        bounds[name] = value
    low, high, step, log = bounds["low"], bounds["high"], bounds.get("step"), row.get("log", False)
    if not isinstance(log, bool):
        raise UserError(f"{key}: log must be true or false, not {log!r}")
    if low > high:
        raise UserError(f"{key}: the range from {low} to {high} is empty")
    if log and low <= 0:
        raise UserError(f"{key}: a logarithmic range must be above 0, not from {low}")
    if step is not None and (log or step <= 0):
        raise UserError(f"{key}: step must be above 0, and without log: true")
    for bound in (low, high):
        _check(key, bound, annotation)
    kinds = _kinds(annotation)
    whole = kinds & {"int", "TrainFreq"} or all(isinstance(bound, int) for bound in bounds.values())
    if whole and "float" not in kinds:
        if step is not None:
            _check(f"{key}: step", step, "int")
        return Int(int(low), int(high), log=log, step=int(step or 1))
    return Float(float(low), float(high), log=log, step=step)


def _check(key: str, value: object, annotation: str | None) -> None:
    """Check that a value has the type of the hyperparameter."""
    if annotation is not None:
        check_value(key, value, annotation)


def _values(key: str, row: Parameter) -> list[object]:
    """Return the choices of a row, or the ends of its range."""
    if isinstance(row, Choice):
        return list(interpret({key: list(row.values)})[key])
    return [row.low, row.high] if isinstance(row, Float | Int) else []


def _check_value(key: str, value: object, algorithms: Sequence[Any]) -> None:
    """Check that an algorithm can have this value, whatever its other hyperparameters are.

    :raises UserError: none of them can
    """
    if key in ("n_envs", "frame_stack") and _is_below(value, 1):
        raise UserError(f"{key} must be at least 1, not {value!r}")
    if key in ("noise_std", "noise_std_final") and _is_below(value, 0):
        raise UserError(f"{key} must be at least 0, not {value!r}")
    problems: list[UserError] = []
    for algorithm in algorithms:
        try:
            _check_of_algorithm(key, value, algorithm)
        except UserError as error:
            problems.append(error)
    if problems and len(problems) == len(algorithms):
        raise problems[0]


def _check_of_algorithm(key: str, value: object, algorithm: Any) -> None:
    """:raises UserError: an unknown name, a value out of range, or of another type than the policies take"""
    parent, _, name = key.partition(".")
    if key == "policy" and isinstance(value, str):
        get_policy_class(algorithm.policy_family, value)
    if key == "noise_type":
        plan_noise({key: value, "noise_std": 0.1}, algorithm)
    if key == "matmul_precision" and value not in PRECISIONS:
        raise unknown(key, str(value), PRECISIONS)
    if parent == "policy_kwargs" and "." not in name and not isinstance(value, Name):
        for policy in _policies(algorithm):
            if name in accepted_keywords(policy):
                try:
                    keywords = policy_keywords(policy, {name: value})
                except UserError as error:
                    raise UserError(f"{key}: {error}") from None
                check_arguments(parent, policy, keywords)
    elif name == "" and key in field_names(algorithm.Config):
        try:
            build_config(algorithm.Config, {key: value})
        except OutOfRange:
            raise
        except UserError:
            pass  # it may be right with other values of the others


def _is_below(value: object, least: float) -> bool:
    return isinstance(value, int | float) and value < least


def _kinds(annotation: str | None) -> set[str]:
    kinds = {kind.strip() for kind in (annotation or "").split("|")}
    return kinds | {"float"} if "ScheduleLike" in kinds else kinds


# ---------------------------------------------------------------------- which names there are


def _annotations(algo: str) -> dict[str, str]:
    """Return the type annotation of each hyperparameter that has one."""
    found = {"n_envs": "int", "frame_stack": "int", "noise_std": "float", "noise_std_final": "float"}
    if algo == HER:
        found["n_sampled_goal"] = "int"
    for algorithm in _algorithms(algo):
        fields = dataclasses.fields(algorithm.Config)
        found |= {field.name: str(field.type) for field in fields if field.name not in found}
    return found


def _algorithms(algo: str) -> list[Any]:
    """Return the class of the algorithm; for `her`, all classes that it can wrap."""
    name = catalog.canonical(current_algorithm(algo))
    if name != HER:
        return [catalog.load(name)]
    loaded: list[Any] = [catalog.load(name) for name in catalog.names()]
    return [
        algorithm
        for algorithm in loaded
        if hasattr(algorithm, "Config") and hasattr(algorithm.Config, "replay_buffer_class")
    ]


def _check_name(key: str, algo: str, annotations: Mapping[str, str]) -> None:
    """:raises UserError: the algorithm has no such hyperparameter"""
    if key == "n_timesteps":
        raise UserError("n_timesteps is the length of each trial (-n), which is not searched")
    parent, dot, name = key.partition(".")
    if dot and parent == "policy_kwargs":
        known = _policy_keywords(algo)
        if name.partition(".")[0] not in known:
            raise unknown("policy keyword", name, known)
    elif not (dot and parent in (*NESTED, *ZOO_KEYS)):
        known = {*annotations, *ZOO_KEYS, "policy"} | (
            {"model_class", *BUFFER_KEYS} if algo == HER else set()
        )
        if key not in known:
            if key in _policy_keywords(algo):
                raise UserError(f"{key} is a keyword of the policy: write policy_kwargs.{key}")
            raise unknown("hyperparameter", key, known)


def _policy_keywords(algo: str) -> set[str]:
    """Return the keywords of an algorithm's policies."""
    return {
        name
        for algorithm in _algorithms(algo)
        for policy in _policies(algorithm)
        for name in accepted_keywords(policy)
    }


def _policies(algorithm: Any) -> list[type]:
    """Return the policies of an algorithm that it has under the usual names."""
    found = []
    for name in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy", "LinearPolicy"):
        try:
            found.append(get_policy_class(algorithm.policy_family, name))
        except UserError:
            continue  # the algorithm has no policy of this name
    return found
