"""The collection of trained agents that comes with rlzoo: what is taken over from runs, and its registry.

    <root>/<algo>/<env>_1/   <env>.zip   score.json   command.txt   <env>/config.yml   <env>/args.yml

An agent is taken over as it is, or without what only training needs where its file is too large. Nothing in
a collection names a folder of the machine that it was trained on.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.algorithms.saving import to_checkpoint
from rlzoo.config import catalog
from rlzoo.config.benchmark import EPISODES, Row
from rlzoo.config.hyperparams import lookup
from rlzoo.config.literals import plain
from rlzoo.config.run import RunConfig, run_name
from rlzoo.config.yaml_text import dump_yaml, read_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.experiment.blueprint import check_hyperparams, import_packages_of
from rlzoo.experiment.build import trusted_classes
from rlzoo.experiment.registry import AgentEntry, write_registry
from rlzoo.experiment.run_folder import config_path, model_path, read_run, refuse_links
from rlzoo.report.finished import training_seconds
from rlzoo.report.scores import SCORE, Score, digest, write_score
from rlzoo.report.scoring import find_agents, score_of, score_run
from rlzoo.training.checkpoint import read_checkpoint, write_checkpoint

MAX_BYTES = 2_000_000
"""Largest model file in a collection."""

OF_THE_MACHINE = {
    "log_folder": ("-f", "--log-folder"),
    "tensorboard_log": ("-tb", "--tensorboard-log"),
    "num_threads": ("--num-threads",),
    "verbose": ("--verbose",),
}
"""Arguments of a run that say where and how it ran, and nothing about the agent; and their flags."""

_ABSOLUTE = re.compile(r"""(^|[=:'"]|^-[a-zA-Z])((?:~|/(?!/))[^'"]*)""")


_OF_SCORE = (
    {field.name for field in dataclasses.fields(AgentEntry)}
    & {field.name for field in dataclasses.fields(Score)}
) - {"date"}


@dataclass(frozen=True)
class Shipped:
    """An agent that was taken over."""

    folder: Path
    actor_only: bool
    unchanged: bool  # it had been there before


def ship(
    places: Iterable[Path],
    seed: int,
    root: Path,
    episodes: int = EPISODES,
    max_bytes: int = MAX_BYTES,
    rows: Iterable[Row] | None = None,
) -> Iterator[Shipped]:
    """Take over the final agent of every run with this training seed below the places.

    An agent that is there already stays; one of another training is replaced whole. `index` comes next.

    :param rows: of the list of a benchmark: only its agents
    :param episodes: that an agent without a score plays
    :raises UserError: no run, two of the same algorithm and environment, a training that was stopped, an
        agent that does not fit into `max_bytes`, or a path that would name a folder of this machine
    :raises RunFailed: the collection cannot be written
    """
    chosen: dict[tuple[str, str], Path] = {}
    rows = None if rows is None else list(rows)
    for source in (folder for place in places for folder in find_agents(place, rows)):
        run = read_run(source)
        if run.seed != seed or source == chosen.get((run.algo, run.env_id)):
            continue
        if other := chosen.get((run.algo, run.env_id)):
            raise UserError(f"{other} and {source} are both {run.algo} on {run.env_id} with seed {seed}")
        refuse_links(source)
        catalog.canonical(run.algo)  # it becomes the name of a folder
        chosen[run.algo, run.env_id] = source
    if not chosen:
        raise UserError(f"there is no trained agent with seed {seed}")
    for (_, env_id), source in chosen.items():
        _check_whole(source, model_path(source, env_id))  # all of them before the first is taken over
    texts = {source: _texts(source, read_run(source)) for source in chosen.values()}
    for source in chosen.values():
        yield _take_over(source, texts[source], root, episodes, max_bytes)


def index(root: Path) -> list[AgentEntry]:
    """Write the registry of a collection.

    :raises UserError: there is no agent, or one has no score, or that of another file
    """
    entries = [entry_of(root, folder) for folder in agent_folders(root)]
    if not entries:
        raise UserError(f"there is no agent in {root}")
    write_registry(root, entries)
    return entries


def agent_folders(root: Path) -> list[Path]:
    """The folders of a collection that hold an agent, or should."""
    return sorted(
        folder
        for algo in catalog.names()
        for folder in (root / algo).glob("*")
        if folder.is_dir() and not folder.name.startswith(".")
    )


def entry_of(root: Path, folder: Path) -> AgentEntry:
    """What the registry says of an agent.

    :raises UserError: it has no score, or that of another file
    """
    run = read_run(folder)
    file = model_path(folder, run.env_id)
    if not file.is_file() or not (folder / SCORE).is_file():
        raise UserError(f"{folder} lacks {file.name if not file.is_file() else SCORE}")
    score = score_of(folder, run, digest(file))
    if score is None:
        raise UserError(
            f"{folder / SCORE} is of another agent; `rlzoo benchmark score {folder}` plays this one"
        )
    return AgentEntry(
        **{name: getattr(score, name) for name in _OF_SCORE},
        path=folder.relative_to(root).as_posix(),
        bytes=file.stat().st_size,
        actor_only=read_checkpoint(file).actor_only,
        date=score.trained_with.get("date"),
    )


def _check_whole(source: Path, file: Path) -> None:
    """Ask that the training of an agent went to its end.

    :raises UserError: it was stopped before, or the file cannot be read
    """
    checkpoint = read_checkpoint(file)
    learned, planned = checkpoint.steps(), checkpoint.steps("total_timesteps")
    if learned < planned:
        raise UserError(
            f"{source} stopped at step {learned:,} of {planned:,}; `rlzoo train --resume {source}` goes on"
        )


def _take_over(source: Path, texts: dict[Path, str], root: Path, episodes: int, max_bytes: int) -> Shipped:
    run = read_run(source)
    target = root / run.algo / run_name(run.env_id, 1)
    file, sha256 = model_path(source, run.env_id), digest(model_path(source, run.env_id))
    if _is_there(target, run, sha256, score_of(source, run, sha256)):
        actor_only = read_checkpoint(model_path(target, run.env_id)).actor_only
        return Shipped(target, actor_only, unchanged=True)
    for left in target.parent.glob(f".{target.name}-*"):  # by a process that was killed
        shutil.rmtree(left)
    fresh = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        for path, text in texts.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text, encoding="utf-8")
        whole = file.stat().st_size <= max_bytes
        if whole:
            shutil.copyfile(file, model_path(fresh, run.env_id))
        else:
            _write_actor(source, fresh, run, sha256)
            if (size := model_path(fresh, run.env_id).stat().st_size) > max_bytes:
                raise UserError(f"the actor of {source} takes {size:,} bytes; {max_bytes:,} are allowed")
        write_score(fresh / SCORE, _score(source, fresh, run, episodes))
        _replace(target, fresh)
    except OSError as error:
        raise RunFailed(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Shipped(target, not whole, unchanged=False)


def _is_there(target: Path, run: RunConfig, sha256: str, score: Score | None) -> bool:
    """Whether a collection has the agent of a model file, with the score that is known of it.

    :param score: of the model file; None: not known
    """
    there = model_path(target, run.env_id)
    if not there.is_file():
        return False
    if sha256 not in (digest(there), read_checkpoint(there).metadata.get("source_sha256")):
        return False
    try:
        known = score_of(target, run, digest(there))
    except UserError:
        return False
    if known is None or score is None:
        return known is not None
    return known == score if known.sha256 == sha256 else known.episodes == score.episodes


def _texts(source: Path, run: RunConfig) -> dict[Path, str]:
    """The hyperparameters, the arguments and the command of a run, without what is of this machine.

    :return: file in the run's folder -> text
    """
    defaults = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    arguments = dataclasses.asdict(run) | {name: defaults[name] for name in OF_THE_MACHINE}
    config = config_path(Path(), run.env_id)
    return {
        config: dump_yaml(_portable(read_yaml(source / config), source)),
        config.with_name("args.yml"): dump_yaml(_portable(plain(arguments), source)),
        Path("command.txt"): shlex.join(_portable(_command(source, run), source)) + "\n",
    }


def _command(source: Path, run: RunConfig) -> list[str]:
    """The command that trains such an agent.

    :raises UserError: the run was not begun by `rlzoo train`
    """
    file = source / "command.txt"
    words = shlex.split(file.read_text()) if file.is_file() else []
    if words[:2] != ["rlzoo", "train"]:
        raise UserError(f"{file} does not say how to train this agent: it begins with `rlzoo train`")
    left_out = [flag for flags in OF_THE_MACHINE.values() for flag in flags]
    kept, words = words[:2], words[2:]
    while words:
        flag, equals, _ = words[0].partition("=")
        if flag not in left_out:
            kept.append(words[0])
        words = words[1 if equals or flag not in left_out else 2 :]
    return kept if any(word.startswith("--seed") for word in kept) else [*kept, "--seed", str(run.seed)]


def _portable(value: Any, source: Path) -> Any:
    """A value with paths below the working directory made relative to it.

    :raises UserError: there is another absolute path
    """
    if isinstance(value, dict):
        return {key: _portable(item, source) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item, source) for item in value]
    if not isinstance(value, str):
        return value

    def relative(match: re.Match[str]) -> str:
        before, path = match.groups()
        if not Path(path).is_relative_to(Path.cwd()):
            raise UserError(f"{source} names {path}, which is not below the working directory")
        return f"{before}{Path(path).relative_to(Path.cwd()).as_posix()}"

    return _ABSOLUTE.sub(relative, value)


def _write_actor(source: Path, folder: Path, run: RunConfig, sha256: str) -> None:
    """The model file without what only training needs; it goes on saying when and with what it was made."""
    import_packages_of(str(source), run.gym_packages, run.env_id)
    hyperparams = lookup(run.algo, run.env_id, str(config_path(source, run.env_id))).values
    blueprint, file = check_hyperparams(run.algo, hyperparams, own=False), model_path(source, run.env_id)
    algorithm: Any = blueprint.algorithm
    model = algorithm.load(file, device="cpu", custom_objects=trusted_classes(blueprint))
    checkpoint = to_checkpoint(model, actor_only=True)
    checkpoint.metadata = {**read_checkpoint(file).metadata, "actor_only": True, "source_sha256": sha256}
    write_checkpoint(model_path(folder, run.env_id), checkpoint)


def _score(source: Path, folder: Path, run: RunConfig, episodes: int) -> Score:
    """The score of the agent in `folder`: what is known of the same file, or what it plays now."""
    sha256 = digest(model_path(source, run.env_id))
    known = score_of(source, run, sha256)
    if known is not None and sha256 == digest(model_path(folder, run.env_id)):
        return known
    played = score_run(folder, known.episodes if known is not None else episodes)
    return dataclasses.replace(played, training_seconds=training_seconds(source))


def _replace(target: Path, fresh: Path) -> None:
    """Put a finished folder in the place of another."""
    old = fresh.with_name(f"{fresh.name}-old")
    if target.is_dir():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
