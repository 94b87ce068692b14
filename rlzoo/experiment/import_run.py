"""`rlzoo import`: make run folders of model files and run folders of stable-baselines3 and RL Baselines3 Zoo.

Nothing is unpickled and nothing of the files is run; see `rlzoo.interop`.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlzoo.algorithms.hyperparameters import field_names
from rlzoo.config.hyperparams import lookup, merge
from rlzoo.config.run import BEST_MODEL, RunConfig, check_env_id, checkpoint_steps
from rlzoo.config.values_as_text import is_function, read_yaml
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.experiment.factories import build_evaluation_env
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.encoding import MissingCallable
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import arguments_beside, beside, hyperparams_beside, identify

RECORDS = ("evaluations.npz", "*.monitor.csv")
"""Files of a run that are copied as they are."""
MAX_DEPTH = 6
"""Levels of folders that runs are looked for in."""


@dataclass(frozen=True, kw_only=True)
class ImportConfig:
    """One `rlzoo import`."""

    source: str  # model file, run folder of RL Baselines3 Zoo, or folder of run folders
    output: str  # folder of the runs
    algo: str = ""  # "": as the files say
    env_id: str = ""  # "": as the files say
    conf_file: str | None = None  # hyperparameter file; None: as the files say
    hyperparams: dict[str, Any] = field(default_factory=dict)  # overrides, nested
    gym_packages: tuple[str, ...] = ()  # modules to import first


def import_runs(config: ImportConfig) -> list[Path]:
    """Make a run folder in `config.output` for each run or model file in `config.source`, and print where.

    :return: the folders
    :raises UserError: there is nothing to import, or (for a single one) why it cannot be
    :raises RunFailed: some of several could not be imported; each is named in a line before
    """
    import_packages(config.gym_packages, config.env_id)
    source = Path(config.source)
    groups = _groups(source)
    if len(groups) == 1:
        return [_import(config, groups[0])]
    made, failed = [], 0
    for files in groups:
        try:
            made.append(_import(config, files))
        except UserError as error:
            failed += 1
            print(f"rlzoo: {_name(files)}: {one_line(error)}", file=sys.stderr)
    if not made:
        raise UserError(f"none of the {failed} runs in {source} could be imported")
    print(f"{len(made)} runs are in {config.output}")
    if failed:
        raise RunFailed(f"{failed} of {len(groups)} runs could not be imported")
    return made


def _groups(source: Path) -> list[list[Path]]:
    """Return the model files of each run: those of a folder with an args.yml or config.yml, or single ones.

    :raises UserError: there is none
    """
    if source.is_file():
        return [[source]]
    if not source.is_dir():
        raise UserError(f"there is no file or folder {str(source)!r}")
    groups: list[list[Path]] = []
    for place, folders, names in os.walk(source):
        folder = Path(place)
        if len(folder.relative_to(source).parts) >= MAX_DEPTH:
            folders.clear()
        folders.sort()
        models = [folder / name for name in sorted(names) if name.endswith(".zip")]
        models = [path for path in models if not path.is_symlink()]
        if not models:
            continue
        is_run = any(beside(path, name) for path in models for name in ("config.yml", "args.yml"))
        several = sum(_rank(path)[0] == 0 for path in models) > 1  # only one can be the final agent of a run
        groups += [sorted(models, key=_rank)] if is_run and not several else [[path] for path in models]
    if not groups:
        raise UserError(f"{source} holds no model file (.zip)")
    return groups


def _rank(path: Path) -> tuple[int, str]:
    """Return a sort key: the final agent first, then the best, then checkpoints."""
    kind = 1 if path.name == BEST_MODEL else 2 if checkpoint_steps(path.name) is not None else 0
    return kind, path.name


def _import(config: ImportConfig, files: list[Path]) -> Path:
    """Make the folder of one run; nothing is left of it where that fails."""
    first = files[0]
    algo, env_id = (config.algo, config.env_id) if config.algo and config.env_id else identify(first)
    algo, env_id = config.algo or algo, config.env_id or env_id
    if not env_id:
        raise UserError(f"{first} does not tell its environment: give --env")
    check_env_id("--env" if config.env_id else str(first), env_id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resolved = _resolved(config, first, algo, env_id)
        with ExitStack() as resources:
            venv = _environment(resolved, env_id, resources)
            models = [(path, _load(resolved, path, venv, config)) for path in files]
    _say(caught)
    of_model = _of_model(resolved, models[0][1])
    if config.conf_file is not None or beside(first, "config.yml") is not None:
        values = {**of_model, **resolved.values}
    else:
        values = {**resolved.values, **of_model}
    folder = run_folder.claim(config.output, resolved.algo, env_id)
    with _discarded_on_failure(folder):
        run = _run_config(config, first, resolved, env_id, models[0][1])
        run_folder.describe(folder, run, values, f"rlzoo import {first}")
        for path, model in models:
            is_final = len(models) == 1 or not _rank(path)[0]
            name = run_folder.model_path(folder, env_id).name if is_final else path.name
            model.env_id = env_id
            model.save(folder / name)
        _copy_records(first.parent, folder)
    kinds = f"{len(models)} agents" if len(models) > 1 else "1 agent"
    print(f"{_name(files)}: {kinds} of {resolved.algo} for {env_id} in {folder}")
    return folder


def _name(files: list[Path]) -> Path:
    """Return the name of what is imported: a run folder, or a single file."""
    return files[0].parent if len(files) > 1 else files[0]


@contextmanager
def _discarded_on_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        run_folder.discard(folder)
        raise


def _resolved(config: ImportConfig, path: Path, algo: str, env_id: str) -> ResolvedConfig:
    if config.conf_file is not None:
        values = lookup(algo, env_id, config.conf_file).values
    else:
        values = hyperparams_beside(path, algo, env_id)
    if "model_class" in values:  # hindsight replay was a separate algorithm
        algo = "her"
    env_kwargs = _env_kwargs(path, values)
    if env_kwargs or isinstance(values.get("env_kwargs"), Mapping):
        values = {**values, "env_kwargs": env_kwargs}
    values = merge(values, config.hyperparams)
    return resolve_config(algo, values, trusted=False)


def _env_kwargs(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of the environment without those for rendering."""
    file = beside(path, "env_kwargs.yml")  # of push_to_hub
    places = (
        None if file is None else read_yaml(file),
        values.get("env_kwargs"),
        arguments_beside(path).get("env_kwargs"),
    )
    found = {key: value for kwargs in places if isinstance(kwargs, Mapping) for key, value in kwargs.items()}
    return {key: value for key, value in found.items() if key != "render_mode"}


def _environment(resolved: ResolvedConfig, env_id: str, resources: ExitStack) -> VecEnv | None:
    """Build the environments of the run, for their spaces; None where they are not installed."""
    try:
        ensure_registered(env_id)
        venv = build_evaluation_env(resolved, env_id, 1, 0, "dummy")
    except (UserError, RunFailed) as error:
        warnings.warn(f"the spaces are those of the file, since {error}", stacklevel=2)
        return None
    resources.callback(venv.close)
    return venv


def _load(resolved: ResolvedConfig, path: Path, venv: VecEnv | None, config: ImportConfig) -> Any:
    algorithm: Any = resolved.algorithm
    given = {name: value for name, value in resolved.hyperparams.items() if name in config.hyperparams}
    if resolved.policy_kwargs and "policy_kwargs" in config.hyperparams:
        given["policy_kwargs"] = resolved.policy_kwargs
    model = algorithm.load(path, env=venv, device="cpu", custom_objects=resolved.named_classes(), **given)
    model.env, model.verbose = None, 0
    return model


def _of_model(resolved: ResolvedConfig, model: Any) -> dict[str, Any]:
    """Return the hyperparameters in the model file, for the config.yml of the run."""
    algorithm: Any = resolved.algorithm
    defaults = algorithm.Config()
    found: dict[str, Any] = {"n_timesteps": max(model.counters.total_timesteps, 1), "n_envs": model.n_envs}
    for name in field_names(algorithm.Config):
        value = getattr(model.config, name)
        if value != getattr(defaults, name) and not isinstance(value, ActionNoise | MissingCallable):
            if not is_function(value):
                found[name] = value
    if isinstance(model.policy_name, str):
        found["policy"] = model.policy_name
    if model.policy_kwargs:
        found["policy_kwargs"] = model.policy_kwargs
    return found


def _run_config(
    config: ImportConfig, path: Path, resolved: ResolvedConfig, env_id: str, model: Any
) -> RunConfig:
    arguments = arguments_beside(path)
    seed = arguments.get("seed")
    return RunConfig(
        algo=resolved.algo,
        env_id=env_id,
        n_timesteps=model.counters.total_timesteps or -1,
        seed=seed if type(seed) is int and 0 <= seed < 2**32 else 0,
        log_folder=config.output,
        gym_packages=config.gym_packages,
        device="auto",
    )


def _copy_records(source: Path, folder: Path) -> None:
    """Copy evaluations and monitor files: readers of theirs read them."""
    for pattern in RECORDS:
        for path in sorted(source.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                shutil.copyfile(path, folder / path.name)
    for path in source.glob("replay_buffer*.pkl"):
        print(f"{path} is not imported: replay buffers are pickles of objects", file=sys.stderr)


def _say(caught: list[warnings.WarningMessage]) -> None:
    """Print each notice once, however many agents it is about."""
    for text in dict.fromkeys(str(one.message) for one in caught if one.category is UserWarning):
        print(f"rlzoo: {one_line(text)}", file=sys.stderr)
