"""A trial in a process that cannot reach the study: its reports go to the process that can.

The other side is `rlzoo.tuning.study.pool_supervisor`.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FixedTrial

from rlzoo.cluster.tasks import Json, TaskContext
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study.objective import run_trial
from rlzoo.tuning.study.trial_worker import in_one_line

TARGET = "rlzoo.tuning.study.remote_trial:run"


def payload_of(
    trial: optuna.Trial, settings: StudySettings, params: Mapping[str, object], threads: int
) -> Json:
    """Return what `run` is told of a trial.

    :param params: sampled hyperparameters, by the names of the study
    """
    known = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
    return {
        "settings": settings.to_json(),
        "number": trial.number,
        "params": dict(params),
        "config": trial.user_attrs.get("config"),  # of a trial that is trained again
        "known": sorted(known),
        "threads": threads,
    }


class RemoteTrial(FixedTrial):
    """A trial with given parameters that sends its reports, and asks whether it should be pruned.

    :param context: of the task
    :param prunes: the study has a pruner, whose answer is waited for
    """

    def __init__(self, context: TaskContext, prunes: bool) -> None:
        given = context.payload
        super().__init__(given["params"], given["number"])
        if given["config"] is not None:
            super().set_user_attr("config", given["config"])
        self.context, self.prunes = context, prunes
        self.attributes: dict[str, Any] = {}  # set by the training
        self.reports: dict[int, float] = {}
        self._unsent: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        """Take note of an intermediate value; it is sent at once, or with the next question."""
        self.reports[step] = value
        self._unsent.append((value, step))
        if not self.prunes:
            self.context.tell({"reports": self._taken()})

    def should_prune(self) -> bool:
        """Ask whether the trial should be pruned."""
        if not self.prunes:
            return False
        return bool(self.context.ask({"reports": self._taken()})["prune"])

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep an attribute for the end of the trial, and send it."""
        super().set_user_attr(key, value)
        self.attributes[key] = value
        self.context.tell({"attributes": {key: value}})

    def _taken(self) -> list[tuple[float, int]]:
        taken, self._unsent = self._unsent, []
        return taken


def run(context: TaskContext) -> Json:
    """Run a trial; return how it ended, its reports and its attributes."""
    settings = StudySettings.from_json(context.payload["settings"])
    settings = replace(settings, log_path=context.output)
    if settings.expert:
        settings = replace(settings, expert=context.input(settings.expert))
    trial = RemoteTrial(context, settings.pruner != "none")
    outcome: Json = {"state": "complete", "values": None, "error": None, "log": ""}
    try:
        with tempfile.TemporaryDirectory(prefix="rlzoo-trial-") as folder:
            known, threads = context.payload["known"], context.payload["threads"]
            outcome["values"] = run_trial(trial, settings, Path(folder), threads, known=known)
    except optuna.TrialPruned:
        outcome["state"] = "pruned"
    except (Exception, SystemExit) as failure:
        outcome.update(state="fail", error=in_one_line(failure))
        if not isinstance(failure, UserError | RunFailed):
            outcome["log"] = traceback.format_exc()
    reports = [(value, step) for step, value in trial.reports.items()]
    return {**outcome, "attributes": trial.attributes, "reports": reports}
