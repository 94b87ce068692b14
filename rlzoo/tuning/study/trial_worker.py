"""A process that takes trials of a study, one after the other, until none is waiting.

    python -m rlzoo.tuning.study.trial_worker --study NAME --folder DIR [--storage URL] [--threads T]

It gives its trial back and ends on SIGTERM, and when its standard input ends, which is how it learns that its
parent is gone. Ctrl-C is for the parent, which decides. Exit code 0; 1 when the storage fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import optuna
from optuna.exceptions import StorageInternalError
from optuna.samplers import BaseSampler
from optuna.trial import TrialState

from rlzoo.core.errors import RunFailed, UserError
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.tuning.storage.optuna_internals import id_of
from rlzoo.tuning.storage.storage import open_storage
from rlzoo.tuning.storage.study_integrity import N_TRIALS, open_study, settings_of
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.storage.trial_queue import claim_trial, release_trial
from rlzoo.tuning.storage.worker_monitor import Heartbeat, this_worker
from rlzoo.tuning.study.objective import run_trial
from rlzoo.tuning.study.samplers import make_pruner, make_sampler
from rlzoo.tuning.study.stopping import Stop, Stopped

MAX_ERROR = 1000  # characters


def main(argv: Sequence[str] | None = None) -> int:
    restore_path_setting()
    stop = Stop()
    stop.listen()
    arguments = build_parser().parse_args(argv)
    try:
        work(arguments, stop)
    except Stopped:
        pass
    except UserError as error:
        print(f"rlzoo: {error}", file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m rlzoo.tuning.study.trial_worker", description="Run trials of a study."
    )
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the study")
    parser.add_argument(
        "--storage",
        default=os.environ.get("RLZOO_STORAGE", ""),
        help="where the study is kept (default: $RLZOO_STORAGE, else the journal in the folder)",
    )
    parser.add_argument("--threads", type=int, default=1, help="of one training, at most")
    return parser


def work(arguments: argparse.Namespace, stop: Stop) -> None:
    """Run trials of the study that the arguments name; see `run_trials`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = open_study(open_storage(arguments.storage or None, arguments.folder), arguments.study)
    run_trials(study, arguments.folder, arguments.threads, stop)


def run_trials(study: optuna.Study, folder: Path, threads: int, stop: Stop) -> None:
    """Run trials of an open study until none is waiting.

    :raises Stopped: the worker was asked to end; its trial is waiting again
    """
    settings = settings_of(study)
    sampler = prepare(study, settings)
    worker = this_worker()
    while not stop.requested:
        trial = claim_trial(study, study.user_attrs.get(N_TRIALS, 0), worker, sampler)
        if trial is None:
            return
        run(study, trial, settings, folder, threads, stop)


def prepare(study: optuna.Study, settings: StudySettings) -> Callable[[int], BaseSampler]:
    """Give a study its pruner, and return what makes the sampler of each trial."""
    n_reports = settings.n_evaluations * settings.n_seeds
    study.pruner = make_pruner(settings.pruner, settings.n_startup_trials, n_reports)

    def sampler(number: int) -> BaseSampler:
        # Others may work on the study, on any machine; where nobody does, n_jobs makes no difference.
        name, n_startup_trials = settings.sampler, settings.n_startup_trials
        return make_sampler(name, settings.seed, n_startup_trials, n_jobs=2, number=number)

    return sampler


def run(
    study: optuna.Study,
    trial: optuna.Trial,
    settings: StudySettings,
    folder: Path,
    threads: int,
    stop: Stop,
) -> None:
    """Run one trial, and tell the study how it ended.

    :raises Stopped: the trial has been given back
    """
    values, error = None, None
    try:
        with Heartbeat(trial.storage, id_of(trial)):
            values = run_trial(trial, settings, folder, threads, stop)
        state = TrialState.COMPLETE
    except (Stopped, KeyboardInterrupt):
        release_trial(study, trial)
        raise
    except optuna.TrialPruned:
        state = TrialState.PRUNED
    except (Exception, SystemExit) as failure:
        if of_storage(failure):
            raise
        if state_of(study, trial).is_finished():
            return  # another worker had taken this one for dead, and was faster
        state, error = TrialState.FAIL, in_one_line(failure)
        if not isinstance(failure, UserError | RunFailed):
            traceback.print_exc()
        print(f"rlzoo: trial {trial.number}: {error}", file=sys.stderr)
    tell(study, trial, state, values, error)


def tell(
    study: optuna.Study,
    trial: optuna.Trial,
    state: TrialState,
    values: Sequence[float] | None,
    error: str | None,
) -> None:
    """Tell the study how a trial ended, unless it knows already."""
    try:
        if error is not None:
            trial.set_user_attr("error", error)
        study.tell(trial, values, state=state)
    except (RuntimeError, ValueError):
        if state_of(study, trial) == TrialState.RUNNING:
            raise
        # else this worker had been taken for dead: another one has finished the trial, or will


def state_of(study: optuna.Study, trial: optuna.Trial) -> TrialState:
    """Return what the storage says of a trial now."""
    return study.get_trials(deepcopy=False)[trial.number].state


def of_storage(error: BaseException) -> bool:
    """Return whether it was not the training that failed, but the storage."""
    packages = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return isinstance(error, StorageInternalError) or not packages.isdisjoint({"grpc", "sqlalchemy"})


def in_one_line(error: BaseException) -> str:
    """Return what the study and its report say of a failure."""
    text = " ".join(str(error).split())
    if not isinstance(error, UserError | RunFailed):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."


if __name__ == "__main__":
    sys.exit(main())
