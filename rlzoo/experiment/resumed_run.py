"""`rlzoo train --resume`: a run that was started before, continued in its folder."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlzoo.config.run import RunConfig
from rlzoo.envs.single_env.registration import import_packages_of
from rlzoo.experiment import tracking
from rlzoo.experiment.resolve import resolve_run, warn_if_untrained
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.session import PARTS, Parts, TrainingSession, open_session
from rlzoo.experiment.training_run import TrainResult, learn
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs import run_folder


def resume(
    folder: str | Path, stop: StopSignals | None = None, parts: Parts = PARTS, **changes: Any
) -> TrainResult:
    """Continue a run in place, from the newest of its checkpoints that can be loaded, to its number of steps.

    :param stop: signals, where the caller handles them already
    :param parts: functions that build environments and callbacks
    :param changes: fields of its RunConfig to change; `n_timesteps` is the new total
    """
    with StopSignals() if stop is None else nullcontext(stop) as stop:
        with stop.interruptible():
            session = reopen_run(Path(folder), changes, parts)
        if session.complete:
            session.close()
            print(f"{folder} has done its {session.model.num_timesteps:,} steps; train on with a larger -n")
            return TrainResult.of(session)
        return learn(session, stop)


def reopen_run(folder: Path, changes: dict[str, Any], parts: Parts = PARTS) -> TrainingSession:
    """Build a run again as its folder describes it, with the newest agent in it that can be loaded."""
    run_folder.refuse_links(folder)
    run = run_folder.read_run(folder)
    with ExitStack() as resources:
        resources.enter_context(run_folder.locked(folder))
        return _reopen(folder, run, changes, resources, parts)


def read_resumed(folder: Path, changes: dict[str, Any]) -> tuple[RunConfig, ResolvedConfig]:
    """Return the configuration with which `resume` continues a run; nothing is made or changed."""
    run_folder.refuse_links(folder)
    run = replace(run_folder.read_run(folder), **changes)
    import_packages_of(str(folder), run.gym_packages, run.env_id)
    return run, _resolve(folder, run, changes)


def _resolve(folder: Path, run: RunConfig, changes: dict[str, Any]) -> ResolvedConfig:
    # The folder's config.yml already holds what the command line of the first session changed.
    config_file = str(run_folder.config_path(folder, run.env_id))
    functions = run_folder.functions_of(folder, run, changes.get("conf_file"))
    return resolve_run(replace(run, conf_file=config_file, hyperparams=functions), trusted=False)


def _reopen(
    folder: Path, described: RunConfig, changes: dict[str, Any], resources: ExitStack, parts: Parts
) -> TrainingSession:
    """Build a run again.

    :param described: the configuration in the folder; its output places and the code it names are ignored
        unless `changes` repeats them, since the folder may be from somebody else
    """
    run = replace(described, **changes)
    if run.tensorboard_log and "tensorboard_log" not in changes:
        print(
            f"rlzoo: no TensorBoard files; to go on with them add -tb {run.tensorboard_log}", file=sys.stderr
        )
    if run.track and "track" not in changes:
        print("rlzoo: not tracked with Weights and Biases; to go on with it add --track", file=sys.stderr)
    run = replace(run, tensorboard_log=changes.get("tensorboard_log", ""), track=changes.get("track", False))
    if run.track:
        tracking.require_wandb()
    import_packages_of(str(folder), run.gym_packages, run.env_id)
    run_folder.remove_unfinished_files(folder)
    resolved = _resolve(folder, run, changes)
    agent = run_folder.newest_checkpoint(folder, run.env_id)
    warn_if_untrained(resolved)
    session = open_session(
        run, resolved, folder=folder, agent=agent, resumed=True, parts=parts, resources=resources
    )
    has_ended = agent == run_folder.model_path(folder, run.env_id)
    session.complete = has_ended and session.model.num_timesteps >= session.resolved.n_timesteps
    if "n_timesteps" in changes:  # it holds for the next `--resume` too
        described = replace(described, n_timesteps=run.n_timesteps)
        run_folder.write_configuration(folder, described, resolved.values)
    return session
