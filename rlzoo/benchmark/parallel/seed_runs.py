"""`rlzoo train --seeds`: one run for each seed, several at a time, on this machine or on a Ray cluster.

A run that has finished with the same arguments is not repeated, so the same command continues what was
stopped or killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.callbacks.eval_callback import EvalCallback
from rlzoo.cluster.tasks import Ended, Json, Pool, Task, TaskContext
from rlzoo.config.run import RunConfig, find_runs, latest_run_id, run_name
from rlzoo.config.values_as_text import dump_yaml, interpret, load_yaml, plain, read_yaml
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.experiment.session import TrainingSession
from rlzoo.experiment.training_run import TrainResult, create_run, learn
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs.json_records import check_fields
from rlzoo.runs.run_folder import config_path, model_path, read_run
from rlzoo.training.checkpoint import read_checkpoint

TARGET = "rlzoo.benchmark.parallel.seed_runs:train_seed"
STACKED_TARGET = "rlzoo.benchmark.parallel.stacked_seeds:train_stack"
MAX_LOSSES = 3  # of the processes of one run
POLL = 0.5  # seconds between two looks at the pool
SAVE = 600.0  # seconds that interrupted runs have to save
IGNORED = {"verbose", "progress", "num_threads", "log_interval", "functions", "log_folder", "device"}
"""Fields of a RunConfig that do not make another run of it."""
FILES = ("expert", "conf_file", "trained_agent")


@dataclass(frozen=True)
class SeedResult:
    """How the run of one seed ended.

    :param folder: of the run; None without one
    :param mean_return: of the last 100 training episodes; None without episodes
    :param best_return: of the best evaluation; None without evaluations
    :param problem: why it failed; empty if it did not
    """

    run: RunConfig
    folder: Path | None = None
    n_steps: int = 0
    seconds: float = 0.0
    mean_return: float | None = None
    best_return: float | None = None
    problem: str = ""
    interrupted: bool = False


def finished_run(run: RunConfig) -> Path | None:
    """Return the folder of a finished run with the same arguments; None if there is none."""
    wanted = _comparable(run)
    for _, folder in reversed(find_runs(run.log_folder, run.algo, run.env_id)):
        try:
            if _comparable(read_run(folder)) != wanted:
                continue
            steps = read_checkpoint(model_path(folder, run.env_id)).steps()
            if steps >= float(read_yaml(config_path(folder, run.env_id))["n_timesteps"]):
                return folder
        except (CheckpointError, KeyError, OSError, TypeError, UserError, ValueError):
            continue  # unfinished, damaged, or of another version: it is trained
    return None


def _comparable(run: RunConfig) -> dict[str, Any]:
    """Return the fields that make a run what it is, as YAML has them."""
    values = load_yaml(dump_yaml(plain(asdict(run))), "the run")  # as args.yml has them
    return {key: value for key, value in values.items() if key not in IGNORED}


def text_of(run: RunConfig) -> str:
    """Return a configuration as YAML; see `run_of`."""
    return dump_yaml(plain({field.name: getattr(run, field.name) for field in fields(run)}))


def run_of(text: str) -> RunConfig:
    """Return the configuration that `text_of` wrote."""
    values = check_fields("the task", RunConfig, load_yaml(text, "the task"))
    parsed = {key: interpret(values[key]) for key in ("hyperparams", "env_kwargs", "eval_env_kwargs")}
    tuples = {field.name for field in fields(RunConfig) if str(field.type).startswith("tuple")}
    given: dict[str, Any] = {key: tuple(value) if key in tuples else value for key, value in values.items()}
    return RunConfig(**{**given, **parsed})


def train_seeds(runs: Sequence[RunConfig], pool: Pool, command: str, size: int = 1) -> Iterator[SeedResult]:
    """Train runs as tasks of a pool; yield each as it ends. Ctrl-C saves those that run, and ends.

    :param command: the command line, for command.txt
    :param size: the most runs of a task, which differ in their seeds; see `stacked_seeds`
    """
    tasks = [_task(group, command, first) for first, group in groups_of(runs, size)]
    running = {
        pool.submit(task): (group, task)
        for (_, group), task in zip(groups_of(runs, size), tasks, strict=True)
    }
    n_lost: dict[tuple[str, int], int] = {}
    with StopSignals("saving and ending the runs") as stop:
        try:
            with stop.interruptible():
                while running:
                    for event in pool.wait(POLL):
                        if not isinstance(event, Ended) or event.key not in running:
                            continue
                        group, task = running.pop(event.key)
                        key = group[0].env_id, group[0].seed
                        n_lost[key] = n_lost.get(key, 0) + event.lost
                        if event.lost and n_lost[key] < MAX_LOSSES:
                            running[pool.submit(task)] = group, task
                        else:
                            yield from _results(group, event)
        except KeyboardInterrupt:
            for event in pool.interrupt(SAVE):
                if isinstance(event, Ended) and event.key in running:
                    for result in _results(running.pop(event.key)[0], event):
                        yield replace(result, interrupted=True)
            for group, _ in running.values():
                yield from (SeedResult(run, interrupted=True, problem="not begun") for run in group)


def groups_of(runs: Sequence[RunConfig], size: int) -> list[tuple[int, Sequence[RunConfig]]]:
    """Return runs in groups of at most `size`, of one environment each, with the index of their first."""
    groups: list[tuple[int, Sequence[RunConfig]]] = []
    start = 0
    for env_id in dict.fromkeys(run.env_id for run in runs):
        own = [run for run in runs if run.env_id == env_id]
        for first in range(0, len(own), size):
            groups.append((start + first, own[first : first + size]))
        start += len(own)
    return groups


def _task(runs: Sequence[RunConfig], command: str, number: int) -> Task:
    """Return the task of runs.

    :param number: distinguishes the runs of one command
    """
    run = runs[0]
    latest = latest_run_id(run.log_folder, run.algo, run.env_id) + number
    inputs = tuple(path for name in FILES if (path := getattr(run, name)) and Path(path).is_file())
    if len(runs) > 1:
        payload: dict[str, Any] = {"runs": [text_of(run) for run in runs], "command": command}
        return Task(STACKED_TARGET, payload, inputs, run.log_folder)
    return Task(TARGET, {"run": text_of(run), "command": command, "latest": latest}, inputs, run.log_folder)


def _results(runs: Sequence[RunConfig], event: Ended) -> list[SeedResult]:
    """Return how the runs of a task ended."""
    if len(runs) == 1 or event.result is None:
        return [_result(run, event) for run in runs]
    outcomes = event.result["runs"]
    return [
        _result(run, Ended(event.key, outcome.get("result"), outcome.get("error", "")))
        for run, outcome in zip(runs, outcomes, strict=True)
    ]


def _result(run: RunConfig, event: Ended) -> SeedResult:
    result = event.result
    if result is None:
        return SeedResult(run, problem=event.error)
    if not result["folder"]:
        return SeedResult(run, problem="interrupted before the first step", interrupted=True)
    return SeedResult(
        run,
        Path(run.log_folder) / result["folder"],
        result["n_steps"],
        result["seconds"],
        result["mean_return"],
        result["best_return"],
        interrupted=result["interrupted"],
    )


def train_seed(context: TaskContext) -> Json:
    """Train the run of a task, in the folder of the task."""
    run = run_of(context.payload["run"])
    files = {name: context.input(getattr(run, name)) for name in FILES if getattr(run, name)}
    run = replace(run, log_folder=context.output, **files)  # type: ignore[arg-type]
    if context.is_apart and context.payload["latest"]:  # the next number is free where the files go
        name = run_name(run.env_id, context.payload["latest"])
        (Path(context.output) / run.algo / name).mkdir(parents=True)
    began = time.monotonic()
    try:
        with StopSignals() as stop:
            with stop.interruptible():
                session = create_run(run, context.payload["command"])
            result = learn(session, stop)
    except KeyboardInterrupt:
        return {"folder": "", "interrupted": True}
    return outcome_of(session, result, time.monotonic() - began, context.output)


def outcome_of(session: TrainingSession, result: TrainResult, seconds: float, folder: str) -> Json:
    """Return what the submitter is told about a training that has ended.

    :param folder: what the path of the run folder is relative to
    """
    returns = [episode["r"] for episode in session.model.ep_info_buffer]
    evaluations = [call.best_mean_reward for call in session.callbacks if isinstance(call, EvalCallback)]
    best = max(evaluations, default=-np.inf)
    return {
        "folder": str(result.folder.relative_to(folder)),
        "n_steps": result.num_timesteps,
        "seconds": seconds,
        "mean_return": float(np.mean(returns)) if returns else None,
        "best_return": float(best) if np.isfinite(best) else None,
        "interrupted": result.interrupted,
    }


def summary(results: Sequence[SeedResult]) -> str:
    """Return a table of the runs, with mean and standard deviation over the seeds of each environment."""
    rows = [("env", "seed", "steps", "return", "best evaluation", "seconds", "folder")]
    for result in results:
        numbers = (_text(result.mean_return), _text(result.best_return), f"{result.seconds:.0f}")
        run, where = result.run, result.problem or str(result.folder)
        rows.append((run.env_id, str(run.seed), f"{result.n_steps:,}", *numbers, where))
    for env_id in dict.fromkeys(result.run.env_id for result in results):
        ours = [result for result in results if result.run.env_id == env_id]
        returns = _mean([result.mean_return for result in ours])
        rows.append((env_id, "mean", "", returns, _mean([result.best_return for result in ours]), "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        env, *cells, where = row
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:-1], strict=True)]
        lines.append("  ".join([env.ljust(widths[0]), *padded, where]).rstrip())
    return "\n".join(lines)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return f"{np.mean(known):.2f} ± {np.std(known, ddof=1):.2f}" if len(known) > 1 else f"{known[0]:.2f}"
