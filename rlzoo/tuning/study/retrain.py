"""`rlzoo optimize --retrain-best N`: whether the best trials of a study were good or lucky.

The highest of many noisy values is too high: it was chosen for its luck as well. So the best trials are
trained again with seeds that the search has not seen, and ranked by what they reach then.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import optuna
from optuna.trial import TrialState, create_trial

from rlzoo.cluster.ray_pool import RayPool
from rlzoo.config.tune import TuneConfig
from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.tuning.report.ranking import Ranked, rank, write_ranking
from rlzoo.tuning.report.study_report import write_retrained
from rlzoo.tuning.report.study_results import top_trials
from rlzoo.tuning.storage.storage import open_storage
from rlzoo.tuning.storage.study_integrity import N_TRIALS
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study.study import StudyHandle, create_or_check_study, load_study, run_trials

N_SEEDS = 3
EVAL_EPISODES = 20  # at the end of a training, and none before


def retrain_best(config: TuneConfig, n_best: int) -> list[Ranked]:
    """Train the best trials of a study with fresh seeds; the ranking is also written to `retrained.csv`,
    and the hyperparameters of the first to `retrained.yml`.

    The trainings are trials of a second study, which is run by the same worker processes: after an
    interruption the same command resumes it.

    :raises UserError: there is no such study, or none of its trials is complete
    """
    with StopSignals("ending; finished trainings are kept") as stop, ExitStack() as resources:
        pool = None
        if config.ray is not None:
            pool = resources.enter_context(RayPool(config.ray, available_cores()))
        searched = load_study(config)
        best = top_trials(searched.study, n_best)
        if not best:
            raise UserError(f"no trial of study {config.study} is complete yet")
        settings = fresh(searched.settings)
        storage = open_storage(config.storage, config.folder)
        study = create_or_check_study(storage, f"{config.study}_retrained", settings)
        wanted = [
            (trial.number, run, trial.user_attrs["hyperparams"])
            for run in range(config.n_seeds or N_SEEDS)
            for trial in best
        ]
        add_trainings(study, wanted)
        n_trials = len(study.get_trials(deepcopy=False))
        study.set_user_attr(N_TRIALS, n_trials)
        opened = StudyHandle(study, settings, n_trials, config.folder, config.storage)
        run_trials(opened, config, stop, pool)
        if error := opened.no_result_reason():
            raise RunFailed(error.replace("trials is", "trainings is"))
    values: dict[int, list[float]] = {trial.number: [] for trial in best}
    for training in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        if training.user_attrs["of"] in values:
            values[training.user_attrs["of"]].append(training.values[0])
    ranking = rank(values)
    write_ranking(ranking, config.folder / "retrained.csv")
    if (first := ranking[0]).n:
        trial = next(trial for trial in best if trial.number == first.trial)
        result = (
            f"Mean return of {first.n} training{'s' if first.n > 1 else ''} with new seeds: {first.mean:.2f}."
        )
        write_retrained(trial, config.study, searched.settings, config.folder, result)
    return ranking


def fresh(settings: StudySettings) -> StudySettings:
    """Return a training of the search with other seeds (see `retrain`), evaluated once, on more episodes."""
    return replace(
        settings,
        retrain=True,
        sampler="random",
        pruner="none",
        objective="last",
        n_evaluations=1,
        n_seeds=1,
        eval_episodes=max(settings.eval_episodes, EVAL_EPISODES),
        log_path="",
    )


def add_trainings(study: optuna.Study, wanted: list[tuple[int, int, str]]) -> None:
    """Put the trainings that are not in the list yet at its end.

    :param wanted: number of the trial, number of its training, YAML of its hyperparameters
    """
    there = {(trial.user_attrs["of"], trial.user_attrs["run"]) for trial in study.get_trials(deepcopy=False)}
    for number, run, hyperparams in wanted:
        if (number, run) not in there:
            attributes = {"of": number, "run": run, "config": hyperparams}
            study.add_trial(create_trial(state=TrialState.WAITING, user_attrs=attributes))
