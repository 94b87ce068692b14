"""Playing trained agents in environments that training never saw, to score them."""

from __future__ import annotations

import math
import multiprocessing
import signal
import statistics
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from rlzoo.accel.threads import one_thread
from rlzoo.benchmark.finished import is_unfinished, row_key, row_name, training_seconds
from rlzoo.benchmark.scores import CHOSEN_BY, SCORE, Score, digest, files_named, read_score_file, write_score
from rlzoo.config.benchmark import EPISODES, HELD_OUT, Row, experts_of
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import RunFailed, UserError, show_warning
from rlzoo.core.runtime import set_random_seed, utc_now, versions
from rlzoo.envs.single_env.registration import ensure_registered, import_packages_of
from rlzoo.evaluation.evaluate import play_episodes
from rlzoo.experiment.factories import build_evaluation_env, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.processes.safe_path import restore_path_setting, safe_path_in_children
from rlzoo.processes.workers import end_with_parent
from rlzoo.runs.run_folder import model_path, read_hyperparams, read_run, refuse_links
from rlzoo.training.checkpoint import ForeignCheckpoint, Json, read_checkpoint

N_ENVS = 10
"""Environments that an agent plays in side by side; with another number it plays other episodes."""


@dataclass(frozen=True)
class Scored:
    """What became of one run folder: its score, or why there is none, or why it could not be kept there."""

    folder: Path
    score: Score | None
    cached: bool = False
    problem: str = ""


@one_thread()
def score_run(folder: Path, episodes: int = EPISODES, evaluation_seed: int = HELD_OUT) -> Score:
    """Play the final agent of a run, deterministically except in Atari games and MiniGrid.

    PyTorch has one thread meanwhile: with another number, rounding differs, and so do chaotic episodes.

    :param folder: of a run, or of a shipped agent
    :param evaluation_seed: of the first environment
    :raises UserError: there is no agent, or its environment is not installed
    :raises RunFailed: the returns are no numbers, or the model file was written again meanwhile
    """
    refuse_links(folder)
    run = read_run(folder, or_zoo=True)
    import_packages_of(str(folder), run.gym_packages, run.env_id)
    ensure_registered(run.env_id)
    hyperparams = read_hyperparams(folder, run.algo, run.env_id)
    resolved = resolve_config(run.algo, hyperparams, trusted=False)
    file, seconds = model_path(folder, run.env_id), training_seconds(folder)
    sha256 = digest(file)
    deterministic = not plays_stochastically(run.env_id)
    set_random_seed(evaluation_seed)
    env = build_evaluation_env(resolved, run.env_id, min(N_ENVS, episodes), evaluation_seed, "auto")
    try:
        model = load_model(resolved, file, env, "cpu")
        played = play_episodes(model, env, episodes, deterministic)
    finally:
        env.close()
    if not all(map(math.isfinite, played.returns)):
        raise RunFailed(f"{run.env_id} gives returns that are no finite numbers")
    origin, known = _origin(file), kept_score(folder, run)
    if digest(file) != sha256:
        raise RunFailed(f"{file} has changed while it was played")
    return Score(
        algo=run.algo,
        env_id=run.env_id,
        seed=run.seed,
        n_timesteps=model.num_timesteps,
        episodes=episodes,
        mean=statistics.fmean(played.returns),
        std=statistics.pstdev(played.returns),
        median=statistics.median(played.returns),
        mean_length=statistics.fmean(played.lengths),
        success_rate=statistics.fmean(played.succeeded) if played.report_success else None,
        deterministic=deterministic,
        evaluation_seed=evaluation_seed,
        training_seconds=known.training_seconds if known is not None and seconds is None else seconds,
        sha256=sha256,
        trained_with={key: origin.get(key) for key in ("versions", "git_commit", "processor", "date")},
        versions=dict(versions()),
        date=utc_now(),
        name=row_name(folder),
    )


def find_agents(place: Path, rows: Iterable[Row] | None = None) -> list[Path]:
    """Return the folders below a place, or the place itself, that hold the final agent of a run.

    A training that a benchmark has not seen to its end is none; a damaged folder may hold one.

    :param rows: of the list of a benchmark: only its agents, and not those that only others learn from
    :raises UserError: there is none, or a folder cannot be read
    """
    if not place.is_dir():
        raise UserError(f"there is no folder {place}")
    rows = None if rows is None else list(rows)
    listed, experts = {(row.key, row.algo) for row in rows or ()}, experts_of(rows or ())
    found = []
    for folder in dict.fromkeys(path.parents[1] for path in files_named("args.yml", place)):
        try:
            run = read_run(folder, or_zoo=True)
            key = row_key(folder, run)
        except UserError:
            found.append(folder)
            continue
        is_wanted = (key, run.algo) in listed and (*key, run.seed) not in experts
        is_there = model_path(folder, run.env_id).is_file() and not is_unfinished(folder)
        if (rows is None or is_wanted) and is_there:
            found.append(folder)
    if not found:
        raise UserError(f"there is no trained agent{' of the list' if rows is not None else ''} in {place}")
    return found


def score_all(
    folders: Iterable[Path],
    rows: Iterable[Row] = (),
    episodes: int | None = None,
    n_jobs: int = 1,
    evaluation_seed: int = HELD_OUT,
) -> Iterator[Scored]:
    """Score agents in `n_jobs` processes, each as soon as it has played; an agent that fails is no end.

    The score is kept beside the agent, and holds as long as the file is the same and no more episodes are
    asked for.

    :param rows: say how many episodes an agent plays
    :param episodes: instead of that; where nobody says, a kept score holds with any number
    :param evaluation_seed: HELD_OUT, or SELECTION for scores by which agents are chosen
    """
    by_key = {row.key: row.episodes for row in rows}
    waiting: dict[Path, int] = {}
    for folder in folders:
        try:
            run = read_run(folder, or_zoo=True)
            key = row_key(folder, run)
        except UserError as error:
            yield Scored(folder, None, problem=str(error))
            continue
        wanted = episodes or by_key.get(key)
        if known := kept_score(folder, run, wanted or 1, evaluation_seed):
            yield Scored(folder, known, cached=True)
        else:
            waiting[folder] = wanted or EPISODES
    again: dict[Path, int] = {}
    for folder, future in _played(waiting, n_jobs, evaluation_seed):
        if isinstance(future.exception(), BrokenProcessPool):  # it died, or another one beside it
            again[folder] = waiting[folder]
        else:
            yield _outcome(folder, future)
    for folder, wanted in again.items():
        for _, future in _played({folder: wanted}, 1, evaluation_seed):
            yield _outcome(folder, future)


def kept_score(
    folder: Path, run: RunConfig, episodes: int = 1, evaluation_seed: int = HELD_OUT
) -> Score | None:
    """Return the score beside an agent, if it is that of this training and this file, and a new one would be
    no better.

    :param episodes: how many there are at least
    """
    file = _score_file(folder, evaluation_seed)
    try:
        score = score_of(file, run, digest(model_path(folder, run.env_id)))
    except UserError:
        return None  # it cannot be read: the agent plays again
    return score if score is not None and score.is_of(episodes, evaluation_seed) else None


def score_of(file: Path, run: RunConfig, sha256: str) -> Score | None:
    """Return the score in a file, if it is there and that of this training and this model file.

    :raises UserError: it cannot be read
    """
    scores = read_score_file(file) if file.is_file() else []
    wanted = (run.algo, run.env_id, run.seed, sha256)
    return next((s for s in scores if (s.algo, s.env_id, s.seed, s.sha256) == wanted), None)


def _origin(file: Path) -> Json:
    """Return what an agent says about its training; one of stable-baselines3 says nothing."""
    try:
        return read_checkpoint(file).metadata
    except ForeignCheckpoint:
        return {}


def _score_file(folder: Path, evaluation_seed: int) -> Path:
    return folder / (SCORE if evaluation_seed == HELD_OUT else CHOSEN_BY)


def _played(
    waiting: dict[Path, int], n_jobs: int, evaluation_seed: int
) -> Iterator[tuple[Path, Future[Score]]]:
    """Play agents in `n_jobs` processes; when one of these dies, all agents that are left have failed."""
    with ExitStack() as resources:
        with safe_path_in_children():
            context = multiprocessing.get_context("spawn")
            pool = resources.enter_context(ProcessPoolExecutor(n_jobs, context, initializer=_begin))
            try:
                futures = {
                    pool.submit(score_run, folder, episodes, evaluation_seed): folder
                    for folder, episodes in waiting.items()
                }
            except OSError as error:
                raise RunFailed(f"worker processes cannot be started: {error.strerror}") from error
        try:
            for future in as_completed(futures):
                yield futures[future], future
        except BaseException:  # Ctrl-C too
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _outcome(folder: Path, future: Future[Score]) -> Scored:
    try:
        score = future.result()
    except (UserError, RunFailed) as error:
        return Scored(folder, None, problem=str(error))
    except BrokenProcessPool:
        return Scored(folder, None, problem="the process that played it died")
    except Exception as error:  # of an environment, say
        return Scored(folder, None, problem=f"{type(error).__name__}: {error}")
    try:
        write_score(_score_file(folder, score.evaluation_seed), score)
    except RunFailed as error:
        return Scored(folder, score, problem=str(error))
    return Scored(folder, score)


def _begin() -> None:
    """Prepare a process of the pool: one thread, warnings in one line, and it ends with its parent.

    Otherwise it would wait for ever for agents from a parent that was killed.
    """
    restore_path_setting()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent ends its workers
    torch.set_num_threads(1)
    warnings.showwarning = partial(show_warning, warnings.showwarning)
    end_with_parent()
