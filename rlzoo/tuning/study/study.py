"""`rlzoo optimize`: a study from its definition to its report.

A study is a list of trials. This process writes the list, starts workers that run it, and reports.
Everything is saved in the storage, so the same command resumes a study of which any process was killed.
"""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import optuna
from optuna.trial import TrialState

from rlzoo.algorithms.hyperparameters import field_names
from rlzoo.cluster.ray_pool import RayPool
from rlzoo.config import catalog
from rlzoo.config.hyperparams import lookup, with_overrides
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import POPULATION, RayConfig, TuneConfig, default_evaluations
from rlzoo.config.values_as_text import dump_yaml, is_function, load_yaml, merge, plain
from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import UserError, unknown
from rlzoo.core.runtime import get_device
from rlzoo.envs.single_env.registration import import_packages_of
from rlzoo.experiment.factories import build_training_env
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.training_run import TrainResult, check, train
from rlzoo.io.atomic import atomic_write
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs.run_folder import refuse_links
from rlzoo.tuning.report.study_report import write_report
from rlzoo.tuning.report.study_results import trial_by_number
from rlzoo.tuning.space.default_spaces import search_space
from rlzoo.tuning.space.own_samplers import asked_for, convert_params, own_sampler
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.space.space_file import space_from_file
from rlzoo.tuning.storage.storage import open_storage, reading
from rlzoo.tuning.storage.study_integrity import (
    N_TRIALS,
    SETTINGS,
    TOKEN,
    check_study,
    claim_folder,
    open_study,
    settings_of,
)
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.storage.trial_queue import enqueue_trials
from rlzoo.tuning.study import trial_worker
from rlzoo.tuning.study.pool_supervisor import PoolSupervisor
from rlzoo.tuning.study.samplers import FEWEST_PAIRS, check_pair, choose_sampler, make_pruner
from rlzoo.tuning.study.stopping import Stop, Stopped
from rlzoo.tuning.study.supervisor import Supervisor

SETTLING = 1.0  # seconds that another command has to write the settings of a study it has made
EXHAUSTIVE = ("brute", "grid")
DEFAULTS = ("ppo", "CartPole-v1")  # algorithm and environment where the command line names none


@dataclass(frozen=True)
class StudyHandle:
    """A loaded study and its settings."""

    study: optuna.Study
    settings: StudySettings
    n_trials: int
    folder: Path
    storage: str | None  # where it is kept; None: in the folder
    interrupted: bool = False  # by Ctrl-C or SIGTERM

    def no_result_reason(self) -> str | None:
        """Return what went wrong where all trials are done and none is complete."""
        trials = [trial for trial in self.study.get_trials(deepcopy=False) if trial.number < self.n_trials]
        if any(not trial.state.is_finished() or trial.state == TrialState.COMPLETE for trial in trials):
            return None
        errors = [trial.user_attrs["error"] for trial in trials if "error" in trial.user_attrs]
        return (
            f"none of {self.n_trials} trials is complete{f'; the last error: {errors[-1]}' if errors else ''}"
        )


def optimize(config: TuneConfig) -> StudyHandle:
    """Start or resume a study, run it until its trials are done, and write its report.

    Ctrl-C, SIGTERM and `timeout` end it early: finished trials count, running ones are run again next time.

    :raises UserError: the configuration is wrong, or the study was begun with another
    :raises RunFailed: the workers cannot run, or trial after trial fails with one and the same error
    """
    with StopSignals("ending; finished trials are kept") as stop, ExitStack() as resources:
        with stop.interruptible():
            pool = None if config.ray is None else resources.enter_context(open_pool(config, config.ray))
            opened = create_or_load_study(config)
        try:
            run_trials(opened, config, stop, pool)
        finally:
            write_report(opened.study, opened.settings, opened.folder, config.figures)
    return replace(opened, interrupted=stop.received is not None)


def open_pool(config: TuneConfig, ray: RayConfig) -> RayPool:
    """Return the pool that runs the trials on a Ray cluster; not connected yet.

    :raises UserError: the trials cannot leave this process, or the configuration is wrong
    """
    if _stays_here(config.run.algo):
        raise UserError(
            f"{config.run.algo} has functions of this script, which --backend ray cannot send elsewhere"
        )
    validate(config)  # a mistake is cheaper to find before Ray is started
    return RayPool(ray, available_cores())


def _stays_here(algo: str) -> bool:
    """Return whether an algorithm, or its sampler, is that of a script: other processes do not have it."""
    return own_sampler(algo) is not None or catalog.is_of_this_process(algo)


def create_or_load_study(config: TuneConfig) -> StudyHandle:
    """Check everything, make the study or find it, and bring its list of trials to its length."""
    refuse_links(config.folder)
    if (config.folder / POPULATION).is_file():
        raise UserError(f"{config.folder} holds a population (--scheduler): give another --study-name")
    settings, space = validate(config)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(config.storage, config.folder)
    study = create_or_check_study(storage, config.study, settings)
    claim_folder(study, config.folder)
    settings = settings_of(study)
    n_trials = max(config.n_trials, known := study.user_attrs.get(N_TRIALS, 0))
    if config.n_trials < known:
        warnings.warn(f"the study has {known} trials, and all of them are run", stacklevel=2)
    points = None
    if settings.sampler in EXHAUSTIVE:
        points = space.grid()
        random.Random(settings.seed).shuffle(points)
        n_trials = min(n_trials, len(points))
    enqueue_trials(study, n_trials, points)
    study.set_user_attr(N_TRIALS, n_trials)
    return StudyHandle(study, settings, n_trials, config.folder, config.storage)


def run_trials(
    opened: StudyHandle, config: TuneConfig, stop: StopSignals, pool: RayPool | None = None
) -> None:
    """Run the trials that wait; the first Ctrl-C or SIGTERM ends that.

    :param pool: runs them; None: worker processes on this machine
    """
    if _stays_here(config.run.algo):
        return run_trials_in_process(opened, config, stop)
    supervisor: Supervisor | PoolSupervisor
    if pool is not None:
        pool.share(opened.folder)
        threads = config.run.num_threads if config.run.num_threads > 0 else pool.config.threads
        supervisor = PoolSupervisor(
            opened.study, opened.settings, opened.n_trials, opened.folder, pool, threads, config.run.verbose
        )
    else:
        supervisor = Supervisor(
            opened.study, opened.n_trials, opened.folder, opened.storage, config.n_jobs, config.run
        )
    try:
        with stop.interruptible():
            supervisor.run(config.timeout)
    except KeyboardInterrupt:
        pass  # `stop` has said so; the trials are where they belong


def run_trials_in_process(opened: StudyHandle, config: TuneConfig, stop: StopSignals) -> None:
    """Run the trials that wait one after the other in this process, which alone has the user's functions."""
    if config.n_jobs > 1:
        print("rlzoo: n_jobs is 1: algorithms and samplers of a script stay in its process", file=sys.stderr)
    threads = config.run.num_threads if config.run.num_threads > 0 else available_cores()
    time_is_up = Stop()
    timer = threading.Timer(config.timeout or threading.TIMEOUT_MAX, time_is_up.request)
    timer.daemon = True
    timer.start()
    try:
        with stop.interruptible():
            trial_worker.run_trials(opened.study, opened.folder, threads, time_is_up)
    except (KeyboardInterrupt, Stopped):
        pass  # `stop` has said so; the trials are where they belong
    finally:
        timer.cancel()


def validate(config: TuneConfig) -> tuple[StudySettings, Space]:
    """Return the settings and space of a study, checked as far as possible without training.

    :raises UserError: names what is wrong
    """
    resolved = check(config.run)
    get_device(config.run.device)
    check_log_path(config.log_path)
    space = choose_space(config, resolved)
    sampler = config.sampler
    if own_sampler(config.run.algo) is not None:
        if sampler in EXHAUSTIVE:
            raise UserError(f"{sampler} cannot search what a function of HYPERPARAMS_SAMPLER draws; use tpe")
        sampler = "tpe" if sampler == "auto" else sampler
    if sampler == "auto":
        sampler = choose_sampler(sampler, space.size, len(space.rows), config.n_trials)
    pruner = config.pruner or ("none" if sampler == "nsga2" else "median")
    n_evaluations = config.n_evaluations or default_evaluations(resolved.n_timesteps)
    make_pruner(pruner, config.n_startup_trials, n_evaluations)
    check_pair(sampler, pruner)
    if pruner == "wilcoxon" and (config.n_seeds or 1) < FEWEST_PAIRS + 1:
        raise UserError(
            f"wilcoxon can tell trials apart after {FEWEST_PAIRS} seeds, and then saves the others; give"
            f" --n-seeds {FEWEST_PAIRS + 1} or more"
        )
    if sampler in EXHAUSTIVE:
        space.grid()
    values = {key: value for key, value in resolved.values.items() if key not in space.rows}
    if functions := [key for key, value in values.items() if is_function(value)]:
        raise UserError(
            f"{functions[0]} is a function, which a study cannot hold; give it in words or numbers"
        )
    run = config.run
    settings = StudySettings(
        algo=run.algo,
        env_id=run.env_id,
        config=dump_yaml(plain({**values, "n_timesteps": resolved.n_timesteps})),
        space=space.to_json(),
        seed=config.run.seed,
        sampler=sampler,
        pruner=pruner,
        n_startup_trials=config.n_startup_trials,
        n_evaluations=n_evaluations,
        eval_episodes=run.eval_episodes,
        n_eval_envs=run.n_eval_envs,
        n_seeds=config.n_seeds or 1,
        objective=config.objective,
        vec_env=run.vec_env,
        device=run.device,
        gym_packages=run.gym_packages,
        expert=run.expert,
        log_path=config.log_path,
    )
    return settings, space


def check_log_path(log_path: str) -> None:
    """:raises UserError: what is to be the folder of the trials' evaluations is a file, or below one"""
    path = Path(log_path)
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise UserError(f"--optimization-log-path wants a folder, and {place} is a file")
            return


def choose_space(config: TuneConfig, resolved: ResolvedConfig) -> Space:
    """Return the user's space or the algorithm's, without what the user has fixed.

    One environment is made and closed: some rows depend on the actions, and a broken one is found now.
    """
    run, algorithm = config.run, cast(Any, resolved.algorithm)
    venv = build_training_env(replace(resolved, n_envs=1), run.env_id, 0, run.vec_env, None)
    action_space = venv.action_space
    venv.close()
    if own_sampler(run.algo) is not None:
        if config.space is not None or config.fixed:
            raise UserError(
                f"HYPERPARAMS_SAMPLER[{run.algo!r}] is the search space: leave out space and fixed"
            )
        return Space({}, asked_for(resolved.values, action_space))
    if config.space is not None:
        space = space_from_file(config.space, run.algo)
    else:
        space = search_space(run.algo, resolved.values, action_space)
    known = {*space.rows, *resolved.values, *field_names(algorithm.Config), "policy_kwargs"}
    for key in config.fixed:
        if key not in known:
            raise unknown("hyperparameter to be fixed", key, known)
    space = space.without([*config.fixed, *given_keys(run)])
    if not space.rows:
        raise UserError(f"nothing is left to search: every hyperparameter of {run.algo} is fixed")
    return space


def given_keys(run: RunConfig) -> list[str]:
    """Return the key paths of the overrides, such as `policy_kwargs.net_arch`, with old names translated."""
    with warnings.catch_warnings():  # `check` has warned of old names
        warnings.simplefilter("ignore")
        raw = translate_sb2_entry(
            with_overrides(lookup(run.algo, run.env_id, run.conf_file), run.hyperparams)
        )
    keys = [key for key, source in raw.sources.items() if source.endswith("-params")]
    below = run.hyperparams.get("policy_kwargs", {})
    return [key for key in keys if key != "policy_kwargs"] + [f"policy_kwargs.{key}" for key in below]


def create_or_check_study(
    storage: optuna.storages.BaseStorage, name: str, settings: StudySettings
) -> optuna.Study:
    """Return the study of that name, new or as it was begun; of several commands at once, one makes it.

    :param settings: a seed below 0 is that of the study, or a new one
    :raises UserError: it was begun with other settings
    """
    any_seed = settings.seed < 0
    if any_seed:
        settings = replace(settings, seed=secrets.randbelow(2**31))
    study, is_new = _create_or_load(storage, name, settings)
    if not is_new:
        check_study(study)
    if SETTINGS not in study.user_attrs and not study.get_trials(deepcopy=False):
        study.set_user_attr(TOKEN, secrets.token_hex(8))
        study.set_user_attr(SETTINGS, settings.to_json())
    if any_seed:
        settings = replace(settings, seed=settings_of(study).seed)
    if (found := difference(settings_of(study).to_json(), settings.to_json())) is not None:
        raise UserError(f"study {name} was begun with {found}; give another --study-name")
    return study


def _create_or_load(
    storage: optuna.storages.BaseStorage, name: str, settings: StudySettings
) -> tuple[optuna.Study, bool]:
    """Return the study of that name, and whether this call has made it.

    :raises UserError: the storage is damaged
    """
    with reading(f"study {name}"):
        try:
            return optuna.create_study(storage=storage, study_name=name, directions=settings.directions), True
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(storage=storage, study_name=name)
        deadline = time.monotonic() + SETTLING
        while SETTINGS not in study.user_attrs and time.monotonic() < deadline:
            time.sleep(0.05)  # its maker is about to write them, unless it was killed
        return study, False


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """Return the first setting that is not the same, in words."""
    key = next((key for key in ours if theirs.get(key) != ours[key]), None)
    if key is None:
        return None
    if key == "config":
        return (
            difference(load_yaml(theirs[key], "theirs"), load_yaml(ours[key], "ours"))
            or "more hyperparameters"
        )
    if key == "space":
        return "another search space"
    return f"{key} {theirs.get(key)!r}, not {ours[key]!r}"


def load_study(config: TuneConfig) -> StudyHandle:
    """Return a study that is there already.

    :raises UserError: there is none of that name, or it is not one of rlzoo
    """
    study = _open(config)
    settings = settings_of(study)
    asked, found = (config.run.algo, config.run.env_id), (settings.algo, settings.env_id)
    if any(one not in (other, default) for one, other, default in zip(asked, found, DEFAULTS, strict=True)):
        of_study, wanted = (" on ".join(names) for names in (found, asked))
        raise UserError(f"study {config.study} is of {of_study}, not of {wanted}")
    return StudyHandle(study, settings, study.user_attrs.get(N_TRIALS, 0), config.folder, config.storage)


def _open(config: TuneConfig) -> optuna.Study:
    """:raises UserError: there is no study of that name"""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if config.storage is None and not config.folder.is_dir():
        known = [path.name for path in config.folder.parent.glob("*") if path.is_dir()]
        raise unknown(f"study in {config.folder.parent}", config.study, known)
    refuse_links(config.folder)
    if config.storage is None and (config.folder / POPULATION).is_file():
        raise UserError(
            f"{config.folder} holds a population (--scheduler), which has no trials: see its report"
        )
    return open_study(open_storage(config.storage, config.folder, create=False), config.study)


def write_report_again(config: TuneConfig) -> StudyHandle:
    """`rlzoo optimize --report STUDY`."""
    opened = load_study(config)
    claim_folder(opened.study, opened.folder)
    write_report(opened.study, opened.settings, opened.folder, config.figures)
    return opened


def run_of_trial(config: TuneConfig, number: int) -> RunConfig:
    """Return the run that trains with a trial's hyperparameters; flags of the command line hold on top.

    The study may be one of RL Baselines3 Zoo. Algorithm and environment are then those of the flags.

    :raises UserError: there is no such trial, or it never began
    """
    study = _open(config)
    if SETTINGS not in study.user_attrs:
        drawn = convert_params(trial_by_number(study, number).params)
        return replace(config.run, hyperparams=merge(drawn, config.run.hyperparams))
    opened = load_study(config)
    trial = trial_by_number(opened.study, number)
    path = opened.folder / f"trial_{number}.yml"
    with atomic_write(path) as file:
        file.write(trial.user_attrs["hyperparams"].encode())
    given = opened.settings
    import_packages_of(f"study {config.study}", given.gym_packages, given.env_id)
    resolve_config(given.algo, lookup(given.algo, given.env_id, path).values, trusted=False)
    return replace(
        config.run,
        algo=given.algo,
        env_id=given.env_id,
        conf_file=str(path),
        gym_packages=config.run.gym_packages or given.gym_packages,
        expert=config.run.expert or given.expert,
    )


def train_trial(config: TuneConfig, number: int, command: str = "") -> TrainResult:
    """`rlzoo optimize --trial-id K`: an agent with the hyperparameters of a trial, in a run folder."""
    return train(run_of_trial(config, number), command)
