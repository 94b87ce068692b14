"""The queue of a study's trials, which any number of workers on any number of machines share.

Trials 0 .. n-1 are added as waiting. A worker claims one (waiting -> running), and the storage decides which
worker gets it. A trial that its worker did not finish is released (running -> waiting) with the parameters
that it had sampled, so none is lost and none counts twice.

User attributes of a trial: `worker`, who runs it (empty while nobody has signed the claim); `attempts`, how
often it was claimed; `heartbeat`, a count that grows while it runs; `deaths`, how often its worker died.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from rlzoo.params.grid import Label
from rlzoo.tuning.storage.optuna_internals import id_of, refresh_trials, storage_of

ALREADY_FINISHED_ERROR = RuntimeError
"""What a storage raises when a finished trial is changed; Optuna 4.2 and newer raise a subclass."""

FIXED = "fixed_params"
"""System attribute of a trial where Optuna looks for the parameters of `Study.enqueue_trial`."""


@dataclass(frozen=True)
class Counts:
    """Number of a study's trials in each state."""

    waiting: int = 0
    running: int = 0
    complete: int = 0
    pruned: int = 0
    failed: int = 0

    @property
    def finished(self) -> int:
        """Trials that will not run again."""
        return self.complete + self.pruned + self.failed


def counts(study: optuna.Study, n_trials: int) -> Counts:
    """Count the states of trials 0 .. n_trials - 1."""
    trials = study.get_trials(deepcopy=False)
    states = Counter(trial.state for trial in trials if trial.number < n_trials)
    return Counts(
        states[TrialState.WAITING],
        states[TrialState.RUNNING],
        states[TrialState.COMPLETE],
        states[TrialState.PRUNED],
        states[TrialState.FAIL],
    )


def enqueue_trials(
    study: optuna.Study, n_trials: int, points: Sequence[Mapping[str, Label]] | None = None
) -> None:
    """Add waiting trials until the numbers 0 .. n_trials - 1 exist.

    Several processes may do so at once; surplus trials are never claimed.

    :param points: fixed parameters: trial k has those of `points[k]`, if there are as many
    """
    fixed = [{FIXED: dict(point)} for point in (points or ())[:n_trials]]
    while (made := len(study.get_trials(deepcopy=False))) < n_trials:
        for number in range(made, n_trials):
            attrs = fixed[number] if number < len(fixed) else {}
            study.add_trial(create_trial(state=TrialState.WAITING, system_attrs=attrs))
    # If others added trials in between, the numbers have shifted: set the parameters by number.
    for trial, attrs in zip(study.get_trials(deepcopy=False), fixed, strict=False):
        if trial.state == TrialState.WAITING and trial.system_attrs.get(FIXED) != attrs[FIXED]:
            storage_of(study).set_trial_system_attr(id_of(trial), FIXED, attrs[FIXED])


def claim_trial(
    study: optuna.Study,
    n_trials: int,
    worker: str,
    sampler: Callable[[int], BaseSampler] | None = None,
) -> optuna.Trial | None:
    """Return the waiting trial with the lowest number below `n_trials`, now running; None if none waits.

    :param worker: `this_worker()`
    :param sampler: builds the study's sampler for the trial of that number
    """
    storage = storage_of(study)
    for waiting in study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        if waiting.number >= n_trials:
            break
        trial_id = id_of(waiting)
        try:
            if not storage.set_trial_state_values(trial_id, TrialState.RUNNING):
                continue
        except ALREADY_FINISHED_ERROR:
            continue
        storage.set_trial_user_attr(trial_id, "worker", worker)
        attempts = storage.get_trial(trial_id).user_attrs.get("attempts", 0)
        storage.set_trial_user_attr(trial_id, "attempts", attempts + 1)
        if sampler is not None:
            study.sampler = sampler(waiting.number)
        refresh_trials(study)
        return optuna.Trial(study, trial_id)
    return None


def release_trial(study: optuna.Study, trial: optuna.Trial) -> None:
    """Return a running trial to the queue, unless it is finished or another worker has claimed it."""
    release(storage_of(study), id_of(trial), trial.user_attrs.get("worker", ""))


def release(storage: BaseStorage, trial_id: int, worker: str) -> bool:
    """Change a trial from running to waiting if `worker` has it; return whether that was done."""
    now = storage.get_trial(trial_id)
    if now.state != TrialState.RUNNING or now.user_attrs.get("worker", "") != worker:
        return False
    try:
        # Clear the signature first: the next worker must not pass for this one before it has signed.
        storage.set_trial_user_attr(trial_id, "worker", "")
        return storage.set_trial_state_values(trial_id, TrialState.WAITING)
    except ALREADY_FINISHED_ERROR:
        return False
