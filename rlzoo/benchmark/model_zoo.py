"""The model zoo: pretrained agents that are published from runs, and their registry.

    <root>/<algo>/<env>_1/   <env>.zip   score.json   command.txt   <env>/config.yml   <env>/args.yml
                             evaluations.npz, where the training was evaluated
    <root>/<algo>/<env>_2/   row.json    ...       of a variant: a task with a name

An agent is copied as it is, or without its training-only parameters if the file is too large. Nothing in the
model zoo names a folder of the machine on which an agent was trained.
"""

from __future__ import annotations

import dataclasses
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlzoo.algorithms.agent.saving import to_checkpoint
from rlzoo.benchmark.finished import copy_row_name, row_key, row_name, training_seconds
from rlzoo.benchmark.portable import portable_texts
from rlzoo.benchmark.scores import SCORE, Score, digest, write_score
from rlzoo.benchmark.scoring import find_agents, score_of, score_run
from rlzoo.benchmark.selection import choose_best, value_of
from rlzoo.config import catalog
from rlzoo.config.benchmark import EPISODES, Row
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig, find_runs, run_name
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.envs.single_env.registration import import_packages_of
from rlzoo.experiment.resolve import resolve_config
from rlzoo.plots.runs import EVALUATIONS, read_evaluations
from rlzoo.runs.pretrained_registry import AgentEntry, write_registry
from rlzoo.runs.run_folder import config_path, model_path, read_run, refuse_links
from rlzoo.training.checkpoint import read_checkpoint, write_checkpoint

MAX_BYTES = 2_000_000
"""Largest model file in the model zoo."""

_OF_SCORE = (
    {field.name for field in dataclasses.fields(AgentEntry)}
    & {field.name for field in dataclasses.fields(Score)}
) - {"date"}


OF_SELECTION = ("n_candidates", "selection_score", "selection_episodes")
"""Fields of a score and of the registry about the selection of an agent; None: it was not selected."""


@dataclass(frozen=True)
class Published:
    """A published agent."""

    folder: Path
    actor_only: bool
    unchanged: bool  # it was in the model zoo before
    score: Score


@dataclass(frozen=True)
class NotPublished:
    """A task without a published agent: none has learned, or one cannot be played."""

    row: Row
    reason: str
    failed: bool  # an agent cannot be played
    removed: Path | None = None  # an agent that has not learned and was in the model zoo


def publish(
    places: Iterable[Path],
    seed: int | None,
    root: Path,
    episodes: int = EPISODES,
    max_bytes: int = MAX_BYTES,
    rows: Iterable[Row] | None = None,
    n_jobs: int = 1,
) -> Iterator[Published | NotPublished]:
    """Publish the final agent of the best training seed of each task, or that of one seed.

    An agent that is in the model zoo already stays; one of another training is replaced. Call `index` next.

    :param seed: training seed; None: the best of each task (see `rlzoo.benchmark.selection`), among the
        seeds in the list if there is one; a task of which no agent has learned is skipped
    :param rows: tasks of a benchmark list: only their agents. Without a list, each algorithm, or variant, on
        each environment is a task.
    :param episodes: episodes for agents without a score; without a list, also selection episodes
    :raises UserError: no run, two of the same task and seed, a training that was stopped, an agent larger
        than `max_bytes`, or a path that would name a folder of this machine
    :raises RunFailed: the model zoo cannot be written
    """
    candidates = _candidates(places, seed, episodes, None if rows is None else list(rows))
    folders = [folder for by_seed in candidates.values() for folder in by_seed.values()]
    for folder in folders:  # check all of them before the first is published
        _check_complete(folder, model_path(folder, read_run(folder).env_id))
    texts = {folder: portable_texts(folder, read_run(folder)) for folder in folders}
    if seed is not None:
        for folder in folders:
            yield _publish_run(folder, texts[folder], root, episodes, max_bytes)
        return
    for choice in choose_best(candidates, n_jobs):
        by_seed = candidates[choice.row]
        if choice.selection is None:
            yield NotPublished(choice.row, choice.shortfall, failed=True)
        elif choice.shortfall:
            removed = _remove(root, by_seed.values())
            yield NotPublished(choice.row, choice.shortfall, False, removed)
        else:
            score = value_of(choice.row, choice.selection)
            selection = dict(zip(OF_SELECTION, (len(by_seed), score, choice.selection.episodes), strict=True))
            folder = choice.folder
            yield _publish_run(folder, texts[folder], root, choice.row.episodes, max_bytes, selection)


def _candidates(
    places: Iterable[Path], seed: int | None, episodes: int, rows: list[Row] | None
) -> dict[Row, dict[int, Path]]:
    """Return the candidates for the selection: task -> training seed -> run folder."""
    listed = {row.key: row for row in rows or ()}
    found: dict[Row, dict[int, Path]] = {}
    for source in dict.fromkeys(folder for place in places for folder in find_agents(place, rows)):
        run = read_run(source)
        catalog.canonical(run.algo)  # it becomes the name of a folder
        label, env_id = key = row_key(source, run)
        name = row_name(source)
        row = listed.get(key) or Row(algo=run.algo, env=env_id, name=name, episodes=episodes, seeds=())
        if seed not in (None, run.seed) or (seed is None and rows and run.seed not in row.seeds):
            continue
        other = found.setdefault(row, {}).setdefault(run.seed, source)
        if other.resolve() != source.resolve():
            raise UserError(f"{other} and {source} are both {label} on {env_id} with seed {run.seed}")
        refuse_links(source)
    if not found:
        with_seed = " of the list's seeds" if seed is None else f" with seed {seed}"
        raise UserError(f"there is no trained agent{with_seed}")
    return {row: found[row] for row in rows or found if row in found}


def _remove(root: Path, folders: Iterable[Path]) -> Path | None:
    """Remove the agent of a task from the model zoo if it is one of these; return its folder then."""
    for folder in folders:
        run = read_run(folder)
        target = _place(root, folder, run)
        if _holds(target, run, digest(model_path(folder, run.env_id))):
            shutil.rmtree(target)
            return target
    return None


def index(root: Path) -> list[AgentEntry]:
    """Write the registry of the model zoo.

    :raises UserError: there is no agent, or the score of one is missing or of another file
    """
    entries = [entry_of(root, folder) for folder in agent_folders(root)]
    if not entries:
        raise UserError(f"there is no agent in {root}")
    write_registry(root, entries)
    return entries


def agent_folders(root: Path) -> list[Path]:
    """Return the folders of the agents in the model zoo."""
    return sorted(
        folder
        for algo in catalog.names()
        for folder in (root / algo).glob("*")
        if folder.is_dir() and not folder.name.startswith(".")
    )


def entry_of(root: Path, folder: Path) -> AgentEntry:
    """Build the registry entry of an agent.

    :raises UserError: its score is missing or of another file
    """
    run = read_run(folder)
    file = model_path(folder, run.env_id)
    if not file.is_file() or not (folder / SCORE).is_file():
        raise UserError(f"{folder} lacks {file.name if not file.is_file() else SCORE}")
    score = score_of(folder / SCORE, run, digest(file))
    if score is None:
        raise UserError(
            f"{folder / SCORE} is of another agent; `rlzoo benchmark score {folder}` plays this one"
        )
    return AgentEntry(
        **{name: getattr(score, name) for name in _OF_SCORE},
        path=folder.relative_to(root).as_posix(),
        bytes=file.stat().st_size,
        actor_only=read_checkpoint(file).actor_only,
        date=_date(score),
    )


def _date(score: Score) -> str | None:
    """Return when an agent was trained, if its score says so."""
    date = score.trained_with.get("date")
    return date if isinstance(date, str) else None


def _check_complete(source: Path, file: Path) -> None:
    """Check that the training of an agent is complete.

    :raises UserError: it was stopped early, or the file cannot be read
    """
    checkpoint = read_checkpoint(file)
    learned, planned = checkpoint.steps(), checkpoint.steps("total_timesteps")
    if learned < planned:
        raise UserError(
            f"{source} stopped at step {learned:,} of {planned:,};"
            f" `rlzoo train --resume {source}` continues it"
        )


def _place(root: Path, source: Path, run: RunConfig) -> Path:
    """Return the folder of a task in the model zoo: number 1, and for variants numbers from 2 on."""
    if (name := row_name(source)) is None:
        return root / run.algo / run_name(run.env_id, 1)
    there = find_runs(root, run.algo, run.env_id)
    of_row = [folder for _, folder in there if row_name(folder) == name]
    highest = max((number for number, _ in there), default=1)
    return of_row[0] if of_row else root / run.algo / run_name(run.env_id, max(highest, 1) + 1)


def _publish_run(
    source: Path,
    texts: dict[Path, str],
    root: Path,
    episodes: int,
    max_bytes: int,
    selection: Mapping[str, object] | None = None,
) -> Published:
    """Copy an agent into the model zoo.

    :param selection: fields of its score about the selection
    """
    run = read_run(source)
    target = _place(root, source, run)
    file, sha256 = model_path(source, run.env_id), digest(model_path(source, run.env_id))
    selection = selection or dict.fromkeys(OF_SELECTION)
    known = score_of(source / SCORE, run, sha256)
    if (there := _score_there(target, run, sha256, known, selection)) is not None:
        actor_only = read_checkpoint(model_path(target, run.env_id)).actor_only
        return Published(target, actor_only, True, there)
    for left in target.parent.glob(f".{target.name}-*"):  # of a killed process
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
        copy_row_name(source, fresh)
        if (source / EVALUATIONS).is_file():
            read_evaluations(source / EVALUATIONS)  # raises if the file is damaged
            shutil.copyfile(source / EVALUATIONS, fresh / EVALUATIONS)
        score = dataclasses.replace(_score(source, fresh, run, episodes), **selection)
        write_score(fresh / SCORE, score)
        _replace(target, fresh)
    except OSError as error:
        raise RunFailed(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Published(target, not whole, False, score)


def _holds(target: Path, run: RunConfig, sha256: str) -> bool:
    """Return whether a folder of the model zoo holds the agent of a model file, or its actor."""
    there = model_path(target, run.env_id)
    return there.is_file() and sha256 in (
        digest(there),
        read_checkpoint(there).metadata.get("source_sha256"),
    )


def _score_there(
    target: Path, run: RunConfig, sha256: str, score: Score | None, selection: Mapping[str, object]
) -> Score | None:
    """Return the published score if the model zoo holds this agent with this score; else None.

    :param score: the score of the model file; None: unknown
    :param selection: fields about the selection
    """
    if not _holds(target, run, sha256):
        return None
    try:
        known = score_of(target / SCORE, run, digest(model_path(target, run.env_id)))
    except UserError:
        return None
    if known is None or any(getattr(known, name) != value for name, value in selection.items()):
        return None
    if score is None:
        return known
    is_same = known == score if known.sha256 == sha256 else known.episodes == score.episodes
    return known if is_same else None


def _write_actor(source: Path, folder: Path, run: RunConfig, sha256: str) -> None:
    """Write the model file without training-only parameters; its metadata stay."""
    import_packages_of(str(source), run.gym_packages, run.env_id)
    hyperparams = lookup(run.algo, run.env_id, str(config_path(source, run.env_id))).values
    resolved, file = resolve_config(run.algo, hyperparams, trusted=False), model_path(source, run.env_id)
    model = resolved.algorithm.load(file, device="cpu", custom_objects=resolved.named_classes())
    checkpoint = to_checkpoint(model, actor_only=True)
    checkpoint.metadata = {**read_checkpoint(file).metadata, "actor_only": True, "source_sha256": sha256}
    write_checkpoint(model_path(folder, run.env_id), checkpoint)


def _score(source: Path, folder: Path, run: RunConfig, episodes: int) -> Score:
    """Return the score of the agent in `folder`: the known score of the same file, or a new evaluation."""
    sha256 = digest(model_path(source, run.env_id))
    known = score_of(source / SCORE, run, sha256)
    if known is not None and sha256 == digest(model_path(folder, run.env_id)):
        return known
    played = score_run(folder, known.episodes if known is not None else episodes)
    return dataclasses.replace(played, training_seconds=training_seconds(source))


def _replace(target: Path, fresh: Path) -> None:
    """Replace a folder by another, which is complete."""
    old = fresh.with_name(f"{fresh.name}-old")
    if target.is_dir():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
