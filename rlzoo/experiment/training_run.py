"""`rlzoo train`: one run, from its configuration to the saved agent."""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rlzoo.config.run import RunConfig
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.envs.single_env.env_failures import describe, is_failure
from rlzoo.envs.single_env.registration import ensure_registered, import_packages, import_packages_of
from rlzoo.experiment import tracking
from rlzoo.experiment.factories import check_env_arguments, has_buffer
from rlzoo.experiment.resolve import resolve_run, warn_if_untrained
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.session import PARTS, Parts, TrainingSession, open_session
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs import run_folder

NOT_KEPT = "no agent is kept"


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    folder: Path
    model_path: Path
    num_timesteps: int
    interrupted: bool = False
    model: Any = None

    @classmethod
    def of(cls, session: TrainingSession, interrupted: bool = False) -> TrainResult:
        """Return the result of a session whose training has ended."""
        model = session.model
        return cls(session.folder, session.model_path, model.num_timesteps, interrupted, model)


def train(run: RunConfig, command: str = "") -> TrainResult:
    """Train one agent in a new run folder, as `rlzoo train` does.

    Ctrl-C and SIGTERM save the agent and return. A start that fails leaves no folder, and nor does what ends
    within the first step.

    :param command: the command line, for command.txt
    :raises UserError: the configuration is wrong
    :raises RunFailed: training failed; the message says what was kept
    :raises KeyboardInterrupt: Ctrl-C or SIGTERM came before the first step was done
    """
    with StopSignals() as stop:
        with stop.interruptible():
            session = create_run(run, command)
        return learn(session, stop)


def check(run: RunConfig, read_demonstrations: bool = True, trusted: bool = True) -> ResolvedConfig:
    """Check everything that can be checked without an environment; nothing is made or claimed.

    :param read_demonstrations: False: they may not be there yet
    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
    :raises UserError: the configuration is wrong
    """
    if trusted:
        import_packages(run.gym_packages, run.env_id)
    else:
        import_packages_of(f"{run.algo} on {run.env_id}", run.gym_packages, run.env_id)
    resolved = resolve_run(run, read_demonstrations, trusted)
    ensure_registered(run.env_id)
    check_env_arguments(resolved, run.env_id)
    if run.track:
        tracking.require_wandb()
    if run.trained_agent and not Path(run.trained_agent).is_file():
        raise UserError(f"there is no agent {run.trained_agent}")
    for key in ("policy", "policy_kwargs"):
        if run.trained_agent and key in run.hyperparams:
            raise UserError(f"{key} cannot be given with --trained-agent, which keeps its networks")
    return resolved


def create_run(
    run: RunConfig, command: str = "", trusted: bool = True, parts: Parts = PARTS
) -> TrainingSession:
    """Check everything, claim a folder, and build what learns in it."""
    resolved = check(run, trusted=trusted)
    run = replace(run, seed=run.seed if run.seed >= 0 else secrets.randbelow(2**31))
    folder = run_folder.claim(run.log_folder, run.algo, run.env_id, run.uuid)
    try:
        with ExitStack() as resources:
            resources.enter_context(run_folder.locked(folder))
            run_folder.describe(folder, run, resolved.values, command)
            warn_if_untrained(resolved)
            if parts.claimed is not None:
                parts.claimed(folder, resolved)
            agent = Path(run.trained_agent) if run.trained_agent else None
            return open_session(run, resolved, folder=folder, agent=agent, parts=parts, resources=resources)
    except BaseException:
        run_folder.discard(folder)
        raise


def learn(session: TrainingSession, stop: StopSignals) -> TrainResult:
    """Train, save and report; whatever ends the training, what had been learned is kept."""
    model, run = session.model, session.run
    began, first_step = time.time(), 0 if not session.resumed else model.num_timesteps
    failure: BaseException | None = None
    interrupted = False
    if run.verbose > 0:
        print(f"Training {run.algo} on {run.env_id} with seed {run.seed} in {session.folder}")
    with session:
        try:
            with stop.interruptible():
                model.learn(
                    session.resolved.n_timesteps - first_step,
                    callback=session.callbacks,
                    log_interval=None if run.log_interval == -2 else run.log_interval,
                    reset_num_timesteps=not session.resumed,
                    progress_bar=run.progress,
                )
        except KeyboardInterrupt:
            interrupted = True
        except BaseException as error:
            failure = error
        untrained = not session.resumed and model.n_updates == 0
        at_once = model.num_timesteps == 0 and (interrupted or failure is not None)
        discarded = untrained and (at_once or isinstance(failure, UserError))
        kept = NOT_KEPT if discarded else save(session, failure, interrupted)
        run_folder.record_threads(session.folder, model.num_threads or model.threads.summary())
    if discarded:
        run_folder.discard(session.folder)
    if isinstance(failure, UserError) and untrained:
        raise failure  # a mistake in the call that only the first episodes could show
    if isinstance(failure, RunFailed):
        raise RunFailed(f"{failure}; {kept}") from failure
    if failure is not None and not isinstance(failure, Exception) and is_failure(failure):
        raise RunFailed(f"training ended by {describe(failure)}; {kept}") from failure
    if failure is not None:
        print(f"rlzoo: {kept}", file=sys.stderr)
        raise failure
    if discarded:  # as Ctrl-C ends a start
        raise KeyboardInterrupt(f"before the first step; {kept}")
    if interrupted and untrained:
        kept = f"the agent has had no update yet; {kept}"
    if run.verbose > 0:
        speed = (model.num_timesteps - first_step) / max(time.time() - began, 1e-9)
        word = "Interrupted" if stop.received else "Done"
        used = f"{speed:,.0f} steps/s, {model.threads.summary()}"
        print(f"{word} after {model.num_timesteps:,} steps ({used}); {kept}")
        if stop.received:
            print(f"continue with: rlzoo train --resume {shlex.quote(str(session.folder))}")
    return TrainResult.of(session, stop.received is not None)


def save(session: TrainingSession, failure: BaseException | None, interrupted: bool = False) -> str:
    """Save the agent as it is now and say where it is; an agent with NaN parameters is not kept.

    :raises RunFailed: saving is what failed, and nothing had failed before
    """
    model, path = session.model, session.model_path
    if not all(bool(torch.isfinite(parameter).all()) for parameter in model.policy.parameters()):
        return f"the agent is not saved, since it has NaN or infinite parameters; {_last_checkpoint(session)}"
    try:
        if session.run.save_replay_buffer and has_buffer(model):
            model.save_replay_buffer(run_folder.replay_path(session.folder))
        ended = failure is None and not interrupted  # else the environments may be in the middle of a step
        model.save(path, include=("position",) if ended else ())
        if (normalize := model.get_vec_normalize_env()) is not None:
            normalize.save(run_folder.normalize_path(session.folder, session.run.env_id))
    except (OSError, RunFailed) as error:
        message = f"{error}; {_last_checkpoint(session)}"
        if failure is None:
            raise RunFailed(message) from error
        return (
            f"the agent could not be saved: {message}"
            if str(error) != str(failure)
            else _last_checkpoint(session)
        )
    return f"the agent is saved in {path}"


def _last_checkpoint(session: TrainingSession) -> str:
    checkpoints = run_folder.checkpoints(session.folder, session.run.env_id)
    return (
        f"the newest checkpoint is {checkpoints[0]}"
        if checkpoints
        else "no checkpoint had been saved (see --save-freq)"
    )
