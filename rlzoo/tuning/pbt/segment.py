"""One interval of one member of a population, in a worker process or on a node of a cluster."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.hyperparameter_schedule import CHANGEABLE
from rlzoo.cluster.tasks import Json, TaskContext
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import interpret, load_yaml
from rlzoo.core.errors import RunFailed
from rlzoo.envs.single_env.registration import import_packages_of
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.evaluation.evaluate import evaluate_policy
from rlzoo.experiment.factories import build_callbacks, has_buffer
from rlzoo.experiment.resolve import resolve_run
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.session import Parts, open_session
from rlzoo.runs.run_folder import replay_path

TARGET = "rlzoo.tuning.pbt.segment:train_segment"
AGENT = "agent.zip"


class StopAfter(BaseCallback):
    """Stops a training after the update of the rollout in which it reaches a number of steps."""

    def __init__(self, n_steps: int) -> None:
        super().__init__()
        self.n_steps = n_steps

    def _on_step(self) -> bool:
        return not self.reached

    def _on_training_start(self) -> None:
        self.reached = False

    def _on_rollout_end(self) -> None:
        self.reached = self.model.num_timesteps >= self.n_steps


def train_segment(context: TaskContext) -> Json:
    """Train a member for an interval, evaluate it, and save it into the folder of the task.

    :raises RunFailed: its parameters or returns are not finite
    """
    given = context.payload
    import_packages_of("the study", given["gym_packages"], given["env_id"])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rlzoo-pbt-") as folder:
        conf_file = Path(folder) / "config.yml"
        conf_file.write_text(given["config"])
        run = RunConfig(
            algo=given["algo"],
            env_id=given["env_id"],
            conf_file=str(conf_file),
            hyperparams=interpret(load_yaml(given["hyperparams"], "the member")),
            seed=given["seed"],
            vec_env=given["vec_env"],
            device=given["device"],
            eval_freq=1,  # there are environments for the evaluation at the end
            eval_episodes=given["eval_episodes"],
            n_eval_envs=given["n_eval_envs"],
            verbose=0,
        )
        value, n_steps = _train(run, resolve_run(run, trusted=False), context)
    return {"value": value, "n_steps": n_steps, "seconds": time.monotonic() - began}


def _train(run: RunConfig, resolved: ResolvedConfig, context: TaskContext) -> tuple[float, int]:
    """Return the mean return and the steps of a member after an interval."""
    given, output = context.payload, Path(context.output)
    agent = Path(context.input(given["agent"])) if given["agent"] else None
    with open_session(
        run,
        resolved,
        agent=agent,
        resumed=agent is not None,
        threads=given["threads"],
        parts=Parts(callbacks=_own_callbacks),
    ) as session:
        model: Any = session.model
        if agent is not None:
            changes = {key: resolved.hyperparams[key] for key in CHANGEABLE if key in resolved.hyperparams}
            model.replace_config(**changes)
            model.set_random_seed(run.seed)
        left = resolved.n_timesteps - model.num_timesteps
        callbacks = [*session.callbacks, StopAfter(given["end"])]
        model.learn(left, callbacks, reset_num_timesteps=agent is None)
        assert session.eval_env is not None
        deterministic = not plays_stochastically(run.env_id)
        returns, _ = evaluate_policy(
            model, session.eval_env, n_eval_episodes=run.eval_episodes, deterministic=deterministic
        )
        value = float(np.mean(returns))
        if not np.isfinite(value):
            raise RunFailed(f"the evaluation gave a mean return of {value}")
        output.mkdir(parents=True, exist_ok=True)
        if has_buffer(model):
            model.save_replay_buffer(replay_path(output))
        model.save(output / AGENT)
        return value, int(model.num_timesteps)


def _own_callbacks(
    resolved: ResolvedConfig, run: RunConfig, folder: Path, eval_env: VecEnv | None
) -> list[BaseCallback]:
    """Build the callbacks of the hyperparameters only."""
    return build_callbacks(resolved, run, folder, None)
