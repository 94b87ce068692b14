"""Hyperparameter files: `hyperparams/<algo>.yml` with the older generation's `hyperparams/sb2`, or one's own.

A file maps environment ids to entries. The entry for an environment is the one of its id, else the one of
another version of it, else that of its family (`atari`), else `default`. A file without ids, which holds one
set of hyperparameters, is for every environment. An id that the newer file lacks is looked for in the older
one before versions, families and defaults.

The folders that come with rlzoo are `hyperparams`, `trained_agents` and `benchmarks`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from rlzoo.config import catalog
from rlzoo.config.legacy.sb2_options import OLD_NAMES, POLICIES, SB2_CLASSES
from rlzoo.config.legacy.sb2_translation import apply_sb2_atari_defaults, drop_replaced
from rlzoo.config.raw import RawConfig
from rlzoo.config.run import ATARI, bare_id, env_family, is_atari, other_version, plays_stochastically
from rlzoo.config.values_as_text import Name, interpret, merge, read_yaml
from rlzoo.core.errors import UserError, nearest
from rlzoo.io.trust import trust

__all__ = [
    "ZOO_KEYS",
    "HyperparamsFile",
    "env_family",
    "has_old_names",
    "is_atari",
    "is_python",
    "load_file",
    "lookup",
    "merge",
    "plays_stochastically",
    "shipped_envs",
    "shipped_files",
    "with_overrides",
]

ZOO_KEYS = (
    "n_timesteps",
    "n_envs",
    "normalize",
    "normalize_kwargs",
    "frame_stack",
    "env_wrapper",
    "vec_env_wrapper",
    "callback",
    "monitor_kwargs",
    "env_kwargs",
    "eval_env_kwargs",
    "noise_type",
    "noise_std",
    "noise_std_final",
    "matmul_precision",
)
"""Keys that say how to run; beside them stand `policy`, `policy_kwargs` and the algorithm's own keys."""

WHOLE_FILE = "(whole file)"
WITHOUT_FILE = {"policy": "MlpPolicy"}
"""The entry for an algorithm without a hyperparameter file."""
OLDER_NAMES = {"ppo": "ppo2"}
"""Files in hyperparams/sb2 that are called otherwise than today's algorithm."""


@dataclass(frozen=True)
class HyperparamsFile:
    """Entries by environment id (or `atari`, `default`, `WHOLE_FILE`); `label` names the file in messages."""

    label: str
    entries: dict[str, dict[str, object]]


def shipped_files(algo: str) -> list[HyperparamsFile]:
    """Return the hyperparameter files of an algorithm, the newer generation's first.

    Where there is none, the one entry leaves everything but the policy to the defaults of the Config.

    :raises UserError: the algorithm is unknown
    """
    names = _shipped_names(algo)
    if not names:
        return [HyperparamsFile(f"defaults of {catalog.canonical(algo)}", {"default": dict(WITHOUT_FILE)})]
    return [_load_shipped(name) for name in names]


def shipped_envs(algo: str) -> list[str]:
    """Return the environment ids that have an entry in the shipped files."""
    entries = dict.fromkeys(entry for file in shipped_files(algo) for entry in file.entries)
    return [entry for entry in entries if entry not in (ATARI, "default")]


def lookup(algo: str, env_id: str, files: str | Path | Iterable[str | Path] | None = None) -> RawConfig:
    """Return the hyperparameters of an algorithm on an environment.

    :param files: search these files in their order, instead of the shipped ones
    :raises UserError: the algorithm is unknown, or no file has a suitable entry
    """
    if files is None:
        newest = [_load_shipped(name) for name in _shipped_names(algo)[:1]]
        if newest and (raw := _entry("id", algo, env_id, newest[0])) is not None:
            return raw  # the usual case, in which the other file is not parsed
        loaded = shipped_files(algo)
    else:
        loaded = [load_file(path) for path in ([files] if isinstance(files, str | Path) else files)]
    for kind in ("id", "version", "family", "default"):
        for file in loaded:
            if (raw := _entry(kind, algo, env_id, file)) is not None:
                return raw
    ids = [entry for file in loaded for entry in file.entries]
    match = nearest(env_id, ids)
    hint = f"; the nearest is {match!r}" if match else ""
    raise UserError(
        f"{', '.join(file.label for file in loaded)}: no entry for {env_id!r} and no default{hint}"
    )


def with_overrides(raw: RawConfig, overrides: Mapping[str, object], source: str = "-params") -> RawConfig:
    """Return a copy with other values on top, under old or current names.

    Where dictionaries are merged, both sources are named.
    """
    if not overrides:
        return raw
    kept = raw.values
    if has_old_names(raw.algo, {**kept, **overrides}):
        kept = drop_replaced(raw.algo, kept, overrides)
    values = merge(kept, overrides)
    sources = {key: raw.sources[key] for key in kept if key in raw.sources}
    for key, value in overrides.items():
        partly = isinstance(value, Mapping) and values[key] != value
        sources[key] = f"{sources[key]}; {source}" if partly and key in sources else source
    return replace(raw, values=values, sources=sources)


def has_old_names(algo: str, values: Mapping[str, object]) -> bool:
    """Return whether an entry has names of Stable Baselines, which `config.legacy` translates."""
    policy = values.get("policy")
    name = str(policy.path if isinstance(policy, Name) else policy).rpartition(".")[2]
    return not OLD_NAMES.isdisjoint(values) or name in POLICIES or catalog.class_name(algo) in SB2_CLASSES


def load_file(path: str | Path) -> HyperparamsFile:
    """Read a YAML file, a Python file with a dictionary `hyperparams`, or a module that has one.

    :raises UserError: one line that names the file, and the line where it is known
    """
    text = str(path)
    if text.endswith(".py"):
        content = _dictionary(text, _import_file(Path(path)))
    elif is_python(text):
        content = _dictionary(text, _import_module(text))
    else:
        content = read_yaml(shipped_path(benchmark_file(path)))
    return HyperparamsFile(text, _entries(text, content))


def is_python(path: str) -> bool:
    """Return whether `load_file` would run code: that of a Python file, or of a module."""
    if path.endswith((".py", ".yml", ".yaml")):
        return path.endswith(".py")
    return not Path(path).exists() and all(part.isidentifier() for part in path.split("."))


def _find(kind: str, env_id: str, entries: Mapping[str, object]) -> str | None:
    if kind == "id":
        return next((entry for entry in (env_id, bare_id(env_id), WHOLE_FILE) if entry in entries), None)
    if kind == "version":
        return other_version(env_id, entries)
    return env_family(env_id) if kind == "family" else "default"


def _entry(kind: str, algo: str, env_id: str, file: HyperparamsFile) -> RawConfig | None:
    """Return the entry of a file for an environment, found by its id, another version, its family, ..."""
    entry = _find(kind, env_id, file.entries)
    if entry is None or entry not in file.entries:
        return None
    values = file.entries[entry]
    raw = RawConfig(algo, values, dict.fromkeys(values, f"{file.label}: {entry}"), entry)
    return apply_sb2_atari_defaults(raw) if is_atari(env_id) else raw


def _shipped_names(algo: str) -> list[str]:
    algo = catalog.canonical(algo)
    folder, names = shipped_folder("hyperparams"), (f"{algo}.yml", f"sb2/{OLDER_NAMES.get(algo, algo)}.yml")
    return [name for name in names if (folder / name).is_file()]


def _load_shipped(name: str) -> HyperparamsFile:
    label, content = f"hyperparams/{name}", read_yaml(shipped_folder("hyperparams") / name)
    return HyperparamsFile(label, _entries(label, content))


def _entries(label: str, content: object) -> dict[str, dict[str, object]]:
    if not isinstance(content, Mapping) or not content:
        raise UserError(f"{label}: not a mapping of environment ids to hyperparameters")
    if "policy" in content or "n_timesteps" in content:
        content = {WHOLE_FILE: content}
    entries = {}
    for entry, values in content.items():
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise UserError(f"{label}: {entry}: not a mapping of names to values")
        try:
            entries[str(entry)] = interpret(values)
        except UserError as error:
            raise UserError(f"{label}: {entry}: {error}") from None
    return entries


def _dictionary(label: str, module: ModuleType) -> object:
    if not isinstance(getattr(module, "hyperparams", None), Mapping):
        raise UserError(f"{label}: no dictionary called `hyperparams`")
    return module.hyperparams


def _import_file(path: Path) -> ModuleType:
    """Run a Python configuration from the user's own disk."""
    if path.stem.isidentifier() and path.resolve().parent == Path.cwd():
        trust([path.stem])  # it runs anyway
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{path}: no such file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def _import_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"{name}: neither a file nor a module ({error})") from None


def shipped_folder(name: str) -> Path:
    """Return a folder of shipped files: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


FOLDERS = ("hyperparams", "trained_agents", "benchmarks")


def shipped_path(place: str | Path) -> Path:
    """Return the path, or what came with rlzoo under it: an installed package has no such folders beside it.

    >>> shipped_path("hyperparams/ppo.yml").is_file()
    True
    """
    path = Path(place)
    if path.parts[:1] and path.parts[0] in FOLDERS and not path.exists():
        shipped = shipped_folder(path.parts[0]).joinpath(*path.parts[1:])
        return shipped if shipped.exists() else path
    return path


def benchmark_file(place: str | Path) -> Path:
    """Return a file by its name; those in `benchmarks/` that come with rlzoo are found from everywhere.

    >>> benchmark_file("benchmarks/catch.yml").is_file()
    True
    """
    path = Path(place)
    shipped = shipped_folder("benchmarks") / path.name
    return shipped if path.parent.name == "benchmarks" and not path.exists() and shipped.exists() else path
