"""Several seeds of one training in one process, which compute together: see `rlzoo.stacked`."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium as gym

from rlzoo.benchmark.parallel.seed_runs import FILES, finished_run, outcome_of, run_of
from rlzoo.cluster.tasks import Json, TaskContext
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.core.runtime import kept_random_state
from rlzoo.core.types import PolicyInput, PolicyOutput
from rlzoo.experiment.session import TrainingSession, open_session
from rlzoo.experiment.training_run import check, create_run, learn
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs.run_folder import model_path
from rlzoo.stacked import stack
from rlzoo.stacked.stack import Stack
from rlzoo.stacked.turns import Seat, Turns
from rlzoo.training.checkpoint import read_checkpoint


def stack_problem(run: RunConfig, only_if_faster: bool = False) -> str | None:
    """Return why several seeds of a run cannot be trained in one process, as a clause, else None.

    An agent and its environments are made for that, and no file is written.

    :param only_if_faster: it is a problem, too, that nothing would be gained
    """
    if run.track:
        return "Weights & Biases tracks one run of a process (--track)"
    quiet = replace(run, eval_freq=-1, verbose=0, seed=0, track=False)
    with open_session(quiet, check(quiet), threads=1) as session:
        problem = stack.stack_problem(session.model)
        if problem is None and only_if_faster and stack.is_slower(session.model):
            return "its networks are wide, so that batched products are not faster"
        return problem


def train_stack(context: TaskContext) -> Json:
    """Train the runs of a task together; return what `rlzoo.cluster.tasks.call` does, for each."""
    runs = [_with_files(run_of(text), context) for text in context.payload["runs"]]
    command: str = context.payload["command"]
    together = Stack()
    outcomes: list[Json] = [{} for _ in runs]

    def training(index: int, seat: Seat, stop: StopSignals) -> None:
        run, began = runs[index], time.monotonic()
        if (folder := finished_run(run)) is not None:  # before this process took over from a killed one
            outcomes[index] = {"result": _finished(run, folder, context.output)}
            return
        try:
            session = create_run(run, command)
            take_seat(together, seat, session)
            result = learn(session, stop)
        except KeyboardInterrupt:
            outcomes[index] = {"result": {"folder": "", "interrupted": True}}
        except (UserError, RunFailed) as error:
            outcomes[index] = {"error": one_line(error)}
        except (Exception, SystemExit) as error:
            print(traceback.format_exc(), file=sys.stderr)
            outcomes[index] = {"error": one_line(f"{type(error).__name__}: {error}")}
        else:
            seconds = time.monotonic() - began
            outcomes[index] = {"result": outcome_of(session, result, seconds, context.output)}

    turns = run_together([partial(training, index) for index in range(len(runs))])
    return {"runs": outcomes, "together": turns.n_together, "alone": turns.n_alone}


def take_seat(together: Stack, seat: Seat, session: TrainingSession) -> None:
    """Let the agent of a session compute together with others from its first step on, if it can then.

    Callbacks may have changed the agent by then. Before each step it obeys signals.
    """
    model = session.model
    seat.streams.every = uses_foreign_code(session)

    def first_act(inputs: PolicyInput) -> PolicyOutput:
        del model.act
        if stack.stack_problem(model) is None:
            together.add(model, seat)
        act = model.act

        def obeying_act(inputs: PolicyInput) -> PolicyOutput:
            seat.check_stopped()
            return act(inputs)

        model.act = obeying_act  # type: ignore[method-assign]
        return act(inputs)

    model.act = first_act  # type: ignore[method-assign]


def run_together(trainings: Sequence[Callable[[Seat, StopSignals], None]]) -> Turns:
    """Run trainings in turns until all have ended; a signal ends each of them at its next request."""
    signals = [StopSignals() for _ in trainings]
    turns = Turns([partial(_obeying, *pair) for pair in zip(trainings, signals, strict=True)])
    with kept_random_state(), StopSignals() as stop:
        turns.start()
        try:
            with stop.interruptible():
                turns.wait()
        except KeyboardInterrupt:
            for signal in signals:
                signal.received = stop.received
            turns.stop()
            turns.wait()
    return turns


def uses_foreign_code(session: TrainingSession) -> bool:
    """Return whether code may use the global generators of NumPy and Python, or action noise does.

    Environments of Gymnasium and rlzoo have their own generators.
    """
    run, model = session.run, session.model
    spec = gym.spec(run.env_id)
    added = (run.gym_packages, session.resolved.env_wrappers, spec.additional_wrappers)
    known = str(spec.entry_point).startswith(("rlzoo.", "gymnasium.envs."))
    callbacks = all(type(callback).__module__.startswith("rlzoo.") for callback in session.callbacks)
    return not (known and callbacks) or any(added) or getattr(model, "action_noise", None) is not None


def _obeying(training: Callable[[Seat, StopSignals], None], stop: StopSignals, seat: Seat) -> None:
    training(seat, stop)


def _with_files(run: RunConfig, context: TaskContext) -> RunConfig:
    """Return a run whose files are where the task has them."""
    files = {name: context.input(getattr(run, name)) for name in FILES if getattr(run, name)}
    return replace(run, log_folder=context.output, **files)  # type: ignore[arg-type]


def _finished(run: RunConfig, folder: Path, output: str) -> Json:
    """Return the outcome of a run that had ended before."""
    return {
        "folder": str(folder.relative_to(output)),
        "n_steps": read_checkpoint(model_path(folder, run.env_id)).steps(),
        "seconds": 0.0,
        "mean_return": None,
        "best_return": None,
        "interrupted": False,
    }
