"""One trial: sample hyperparameters, train agents with them, and evaluate the agents."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import optuna

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.trial_eval_callback import TrialEvalCallback
from rlzoo.config.hyperparams import lookup, plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import dump_yaml, interpret, load_yaml, plain
from rlzoo.core.errors import RunFailed
from rlzoo.envs.single_env.registration import import_packages_of
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.experiment.factories import build_callbacks
from rlzoo.experiment.resolve import resolve_run, warn_if_untrained
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.session import Parts, open_session
from rlzoo.tuning.space.default_spaces import overrides
from rlzoo.tuning.space.own_samplers import draw, own_sampler
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study.stopping import Stop


def run_trial(
    trial: optuna.trial.BaseTrial,
    settings: StudySettings,
    folder: Path,
    threads: int = 1,
    stop: Stop | None = None,
    known: Iterable[int] | None = None,
) -> list[float]:
    """Train `n_seeds` agents with the hyperparameters of a trial; the only files are those of `log_path`.

    User attributes of the trial: `seeds`, `hyperparams` (YAML of the whole configuration) before the first
    training; `evaluations` (mean returns, a list for each training), `n_steps`, `seconds` after the last,
    however it ended.

    :param folder: of the study; the base hyperparameters are written there
    :param threads: at most
    :param stop: may cut the trainings short, with `Stopped`
    :param known: steps that an earlier attempt reported; None: those in the study of the trial
    :return: the mean objective value of the trainings; with two objectives also the seconds
    :raises optuna.TrialPruned: the trial should stop
    :raises UserError: the hyperparameters do not fit together or the environment
    :raises RunFailed: a training failed
    """
    stop = stop or Stop()
    import_packages_of("the study", settings.gym_packages, settings.env_id)
    run = configure(trial, settings, folder)
    resolved = resolve_run(run, trusted=False)
    warn_if_untrained(resolved)
    seeds = [training_seed(settings, trial.number, k) for k in range(settings.n_seeds)]
    trial.set_user_attr("seeds", seeds)
    trial.set_user_attr("hyperparams", dump_yaml(plain(resolved.values)))
    progress = Progress(trial, settings, stop, known=reported_steps(trial, known))
    began = time.monotonic()
    try:
        for k, seed in enumerate(seeds):
            gc.collect()  # agents, environments and callbacks refer to each other
            with stop.interruptible():
                _train(
                    replace(run, seed=seed),
                    resolved,
                    progress,
                    log_folder(settings, trial.number, k),
                    threads,
                )
            progress.finish_training()
    finally:
        seconds = time.monotonic() - began
        trial.set_user_attr("evaluations", progress.evaluations)
        trial.set_user_attr("n_steps", progress.n_steps)
        trial.set_user_attr("seconds", seconds)
    value = float(np.mean(progress.values))
    return [value, seconds] if len(settings.directions) == 2 else [value]


def reported_steps(trial: optuna.trial.BaseTrial, known: Iterable[int] | None = None) -> set[int]:
    """Return the steps at which a trial has reported values: `known`, or as its study says."""
    if known is None and isinstance(trial, optuna.Trial):
        known = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
    return set(known or ())


def sample(trial: optuna.trial.BaseTrial, settings: StudySettings) -> dict[str, object]:
    """Sample the hyperparameters of a trial, which keeps them as its parameters."""
    return Space.from_json(settings.space).sample(trial)


def configure(trial: optuna.trial.BaseTrial, settings: StudySettings, folder: Path) -> RunConfig:
    """Return the run of a trial: the base hyperparameters with the sampled ones on top.

    A retraining has the hyperparameters of the trial that it repeats.
    """
    conf_file = settings.config_file(folder)
    if settings.retrain:
        hyperparams = interpret(load_yaml(trial.user_attrs["config"], f"trial {trial.number}"))
    else:
        values = lookup(settings.algo, settings.env_id, conf_file).values
        if (sampler := own_sampler(settings.algo)) is not None:
            hyperparams = draw(sampler, settings.algo, trial, Space.from_json(settings.space).given)
        else:
            hyperparams = overrides(settings.algo, values, sample(trial, settings))
    return RunConfig(
        algo=settings.algo,
        env_id=settings.env_id,
        conf_file=str(conf_file),
        hyperparams=hyperparams,
        expert=settings.expert,
        vec_env=settings.vec_env,
        device=settings.device,
        eval_episodes=settings.eval_episodes,
        n_eval_envs=settings.n_eval_envs,
        verbose=0,
    )


def training_seed(settings: StudySettings, number: int, k: int) -> int:
    """Return the seed of the k-th training of a trial; a repeated trial has the same."""
    entropy = [settings.seed, number, k, int(settings.retrain)]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) % 2**31


def log_folder(settings: StudySettings, number: int, k: int) -> Path | None:
    """Return the folder for evaluations and the best agent of the k-th training of a trial, if any."""
    if not settings.log_path:
        return None
    folder = Path(settings.log_path) / f"trial_{number}"
    return folder / f"seed_{k}" if settings.n_seeds > 1 else folder


def aggregate_evaluations(evaluations: Sequence[float], objective: str) -> float:
    """Return the objective value of one training from its evaluations.

    :param objective: `last`, the mean of the last third, and of at least two where there are two; `best`, the
        highest; `auc`, the mean of all: the area under the learning curve over its length
    """
    if objective == "best":
        return max(evaluations)
    n = len(evaluations)
    considered = n if objective == "auc" else max(math.ceil(n / 3), 2)
    return float(np.mean(evaluations[-considered:]))


@dataclass
class Progress:
    """Reports the intermediate values of a trial's trainings to Optuna.

    At step `k * n_evaluations + i` it is the mean of the finished trainings and the i-th evaluation of the
    k-th. The Wilcoxon pruner compares trials seed by seed instead: it gets the values of the finished
    trainings only, the k-th at step k.
    """

    trial: optuna.trial.BaseTrial
    settings: StudySettings
    stop: Stop
    known: set[int] = field(default_factory=set)  # steps that an earlier attempt reported
    values: list[float] = field(default_factory=list)  # of the finished trainings
    evaluations: list[list[float]] = field(default_factory=list)  # of these and the present one
    n_steps: int = 0  # of these and the present one
    nothing_left: bool = False  # the last evaluation of the last training has been made

    @property
    def by_seed(self) -> bool:
        return self.settings.pruner == "wilcoxon"

    def report(self, value: float, step: int) -> None:
        """Report evaluation number `step` of the current training.

        :raises RunFailed: it is not a number
        """
        if not math.isfinite(value):
            raise RunFailed(f"an evaluation gave a mean return of {value}")
        self.evaluations[-1].append(value)
        is_last = len(self.evaluations) == self.settings.n_seeds
        self.nothing_left = is_last and step == self.settings.n_evaluations
        if not self.by_seed:
            first = len(self.values) * self.settings.n_evaluations
            self._tell(float(np.mean([*self.values, value])), first + step)

    def should_prune(self) -> bool:
        """Return whether the current training should stop."""
        return not self.by_seed and self._ask()

    def finish_training(self) -> None:
        """Report the objective value of the current training, which has ended.

        :raises optuna.TrialPruned: the trial should stop
        """
        self.values.append(aggregate_evaluations(self.evaluations[-1], self.settings.objective))
        if self.by_seed:
            self._tell(self.values[-1], len(self.values) - 1)
            if self._ask():
                raise optuna.TrialPruned

    def _tell(self, value: float, step: int) -> None:
        if len(self.settings.directions) == 1 and step not in self.known:
            with self.stop.held():
                self.trial.report(value, step)

    def _ask(self) -> bool:
        if self.nothing_left or len(self.settings.directions) > 1:
            return False
        with self.stop.held():
            return self.trial.should_prune()


def _train(
    run: RunConfig, resolved: ResolvedConfig, progress: Progress, log_path: Path | None, threads: int
) -> None:
    """Train one agent with its evaluations.

    :raises optuna.TrialPruned: the trial should stop
    """
    progress.evaluations.append([])
    with open_session(run, resolved, threads=threads, parts=Parts(callbacks=_own_callbacks)) as session:
        callback = TrialEvalCallback(
            session.eval_env,
            progress,
            n_eval_episodes=run.eval_episodes,
            deterministic=not plays_stochastically(run.env_id),
            best_model_save_path=log_path,
            log_path=log_path,
            n_evaluations=progress.settings.n_evaluations,
        )
        try:
            session.model.learn(resolved.n_timesteps, [*session.callbacks, callback])
        finally:
            progress.n_steps += session.model.num_timesteps
        callback.evaluate_end()
        if callback.is_pruned:
            raise optuna.TrialPruned


def _own_callbacks(
    resolved: ResolvedConfig, run: RunConfig, folder: Path, eval_env: VecEnv | None
) -> list[BaseCallback]:
    """Build the callbacks of the hyperparameters only: a TrialEvalCallback evaluates."""
    return build_callbacks(resolved, run, folder, None)
