"""Playing trained agents in environments that training never saw, to score them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import torch

from rlzoo.config.benchmark import EPISODES, HELD_OUT, Row, experts_of
from rlzoo.config.hyperparams import is_atari, lookup
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.core.seeding import set_random_seed
from rlzoo.core.system_info import versions
from rlzoo.envs.registration import ensure_registered
from rlzoo.experiment.blueprint import check_hyperparams, import_packages
from rlzoo.experiment.build import load_model
from rlzoo.experiment.environments import build_evaluation_env
from rlzoo.experiment.run_folder import config_path, model_path, read_run
from rlzoo.report.finished import training_seconds
from rlzoo.report.scores import SCORE, Score, read_score_file, write_score
from rlzoo.training.checkpoint import read_checkpoint
from rlzoo.training.evaluate import play_episodes

N_ENVS = 10
"""Environments that an agent plays in side by side; with another number it plays other episodes."""


@dataclass(frozen=True)
class Scored:
    """What became of one run folder: its score, or why there is none."""

    folder: Path
    score: Score | None
    cached: bool = False
    problem: str = ""


def score_run(folder: Path, episodes: int = EPISODES) -> Score:
    """Play the final agent of a run, deterministically except in Atari games.

    :param folder: of a run, or of a shipped agent
    :raises UserError: there is no agent, or its environment is not installed
    """
    run = read_run(folder)
    import_packages(run.gym_packages)
    ensure_registered(run.env_id)
    hyperparams = lookup(run.algo, run.env_id, str(config_path(folder, run.env_id))).values
    blueprint = check_hyperparams(run.algo, hyperparams)
    file = model_path(folder, run.env_id)
    deterministic = not is_atari(run.env_id)
    set_random_seed(HELD_OUT)
    env = build_evaluation_env(blueprint, run.env_id, min(N_ENVS, episodes), HELD_OUT, "auto")
    try:
        model = load_model(blueprint, file, env, "cpu")
        played = play_episodes(model, env, episodes, deterministic)
    finally:
        env.close()
    origin = read_checkpoint(file).metadata
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
        evaluation_seed=HELD_OUT,
        training_seconds=training_seconds(folder),
        sha256=digest(file),
        trained_with={key: origin.get(key) for key in ("versions", "git_commit", "date")},
        versions=dict(versions()),
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def find_agents(place: Path, rows: Iterable[Row] | None = None) -> list[Path]:
    """The folders below a place, or the place itself, that hold the final agent of a run.

    :param rows: of the list of a benchmark: only its agents, and not those that only others learn from
    :raises UserError: there is none
    """
    if not place.is_dir():
        raise UserError(f"there is no folder {place}")
    rows = None if rows is None else list(rows)
    keys, experts = {row.key for row in rows or ()}, experts_of(rows or ())
    found = []
    for folder in sorted({path.parents[1] for path in place.rglob("args.yml")}):
        run = read_run(folder)
        listed = (run.algo, run.env_id) in keys and (run.algo, run.env_id, run.seed) not in experts
        if (rows is None or listed) and model_path(folder, run.env_id).is_file():
            found.append(folder)
    if not found:
        raise UserError(f"there is no trained agent{' of the list' if rows is not None else ''} in {place}")
    return found


def score_all(
    folders: Iterable[Path], rows: Iterable[Row] = (), episodes: int | None = None, n_jobs: int = 1
) -> Iterator[Scored]:
    """Score agents in `n_jobs` processes, each as soon as it has played; an agent that fails is no end.

    The score is kept beside the agent, and holds as long as the file and the number of episodes are the same.

    :param rows: say how many episodes an agent plays
    :param episodes: instead of that
    """
    by_key = {row.key: row.episodes for row in rows}
    pending: dict[Future[Score], Path] = {}
    with ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=_use_one_thread) as pool:
        try:
            for folder in folders:
                run = read_run(folder)
                wanted = episodes or by_key.get((run.algo, run.env_id), EPISODES)
                if known := kept_score(folder, run.env_id, wanted):
                    yield Scored(folder, known, cached=True)
                else:
                    pending[pool.submit(score_run, folder, wanted)] = folder
            for future in as_completed(pending):
                yield _outcome(pending[future], future)
        except BaseException:  # Ctrl-C too: what has not begun does not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def kept_score(folder: Path, env_id: str, episodes: int) -> Score | None:
    """The score beside an agent, if it is that of this very file and of as many episodes."""
    try:
        (score,) = read_score_file(folder / SCORE)
    except (UserError, ValueError):
        return None  # none, or none that can be read: the agent plays again
    same = (score.episodes, score.evaluation_seed) == (episodes, HELD_OUT)
    return score if same and score.sha256 == digest(model_path(folder, env_id)) else None


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    return sha256(file.read_bytes()).hexdigest()


def _outcome(folder: Path, future: Future[Score]) -> Scored:
    try:
        score = future.result()
    except (UserError, RunFailed) as error:
        return Scored(folder, None, problem=str(error))
    except BrokenProcessPool:
        return Scored(folder, None, problem="the process that played it, or one beside it, died")
    write_score(folder / SCORE, score)
    return Scored(folder, score)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
