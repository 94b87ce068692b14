"""The parts of Optuna that have no public name, and why rlzoo needs them.

Optuna claims a waiting trial only inside `Study.ask`, and never releases one. The queue of trials
(`rlzoo.tuning.storage.trial_queue`) does both through the storage, which takes ids of studies and trials.
"""

from __future__ import annotations

from optuna import Study, Trial
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial


def storage_of(study: Study) -> BaseStorage:
    """Return the storage of a study: `Trial` has a public property, `Study` has none."""
    return study._storage


def id_of(trial: Trial | FrozenTrial) -> int:
    """Return the id under which the storage knows a trial: `number` counts within its study only."""
    return trial._trial_id


def samplers_attributes(study: Study) -> dict[str, object]:
    """Return what samplers keep in a study, which `check_study` checks; `Study` has no name for it."""
    storage = storage_of(study)
    return storage.get_study_system_attrs(storage.get_study_id_from_name(study.study_name))


def refresh_trials(study: Study) -> None:
    """Discard a study's copy of its trials, as `Study.ask` does: the sampler then sees the current ones."""
    study._thread_local.cached_all_trials = None
