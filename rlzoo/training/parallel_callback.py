"""Gradient steps in a separate thread, while the environments are stepped."""

from __future__ import annotations

import copy
import dataclasses
import threading
import time
from typing import Any

import torch

from rlzoo.accel.threads import denormals_as_zero
from rlzoo.callbacks.base_callback import BaseCallback, check_frequency
from rlzoo.core.errors import UserError
from rlzoo.training.off_policy_loop import can_learn

LEARNS_WHILE_ACTING = {"parameter_noise": "param_noise", "normalizer": "normalize_observations"}
"""Attributes of an algorithm that change with every step it acts, and the hyperparameters behind them."""


class ParallelTrainCallback(BaseCallback):
    """Callback that takes gradient steps in a background thread, for robots that do not wait.

    At the end of a rollout that finds the thread idle, the agent takes over what was learned, and the thread
    gets the batches of the next `gradient_steps` steps. So the agent acts on parameters that are one round
    old, and trainings with the same seed differ. It goes best with `train_freq=(1, "episode")`, where the
    policy stays the same throughout an episode; `gradient_steps` of the algorithm is of no effect.

    :param gradient_steps: steps of one round
    :param sleep_time: seconds to wait after each step of the environments, to limit their pace
    :raises UserError: the algorithm does not replay experience, or learns something while it acts
    """

    def __init__(self, gradient_steps: int = 100, verbose: int = 0, sleep_time: float = 0.0) -> None:
        super().__init__(verbose)
        self.gradient_steps = check_frequency("gradient_steps", gradient_steps)
        if sleep_time < 0:
            raise UserError(f"sleep_time must be at least 0, not {sleep_time}")
        self.sleep_time = sleep_time
        self._learner: Any = None
        self._thread: threading.Thread | None = None
        self._batches: list[Any] = []
        self._history: list[dict[str, Any]] = []
        self._error: BaseException | None = None

    def _init_callback(self) -> None:
        name = type(self.model).__name__
        if not hasattr(type(self.model), "load_replay_buffer"):
            raise UserError(f"ParallelTrainCallback needs an algorithm that replays experience, not {name}")
        for attribute, hyperparameter in LEARNS_WHILE_ACTING.items():
            if getattr(self.model, attribute, None) is not None:
                raise UserError(f"ParallelTrainCallback does not go together with {hyperparameter} of {name}")

    def _on_training_start(self) -> None:
        self._learner = _twin(self.model)
        self.model.trained_externally = True

    def _on_step(self) -> bool:
        if self.sleep_time > 0:
            time.sleep(self.sleep_time)
        return True

    def _on_rollout_end(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._take_over()
        model = self.model
        if not can_learn(model, model.n_envs):
            return
        replay = model.replay_buffer
        if not replay.own_gamma:
            replay.gamma = model.gamma
        replay.progress = 1 - model.counters.progress_remaining
        # Drawn here, so that the thread never reads what a step is writing.
        self._batches = list(replay.batches(self.gradient_steps, model.batch_size))
        self._learner.counters = dataclasses.replace(model.counters)
        self._thread = threading.Thread(target=self._learn, name="ParallelTrainCallback", daemon=True)
        self._thread.start()

    def _on_training_end(self) -> None:
        self.model.trained_externally = False
        self._take_over()

    def _learn(self) -> None:
        """Run the thread: one round of gradient steps on the twin."""
        learner = self._learner
        try:
            learner.set_training_mode(True)
            with denormals_as_zero():
                self._history = [learner.update(batch, learner.counters) for batch in self._batches]
        except BaseException as error:  # raised again where the training runs
            self._error = error

    def _take_over(self) -> None:
        """Wait for the thread, and give the agent what it has learned.

        :raises TrainingDiverged: a loss or a parameter is NaN or infinite
        """
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        metrics = self._learner.summarise(self._history, self._learner.counters)
        for batch in self._batches:
            if batch.priorities is not None:
                self.model.replay_buffer.update_priorities(batch.indices, batch.priorities)
        self._batches = []
        _copy_state(self._learner, self.model)
        self.model.counters.n_updates = self._learner.counters.n_updates
        for name, value in metrics.items():
            self.logger.record(f"train/{name}", value)
        if self.verbose >= 2:
            print(f"Took over {len(self._history)} gradient steps")


def _twin(model: Any) -> Any:
    """Return a copy of an algorithm with separate parameters and optimisers."""
    twin = copy.copy(model)
    for name in ("gradient_step", "is_captured"):  # of a captured or compiled step, which is the model's
        vars(twin).pop(name, None)
    twin.policy = copy.deepcopy(model.policy)
    twin.setup_optimizers()
    _copy_state(model, twin)
    return twin


def _copy_state(source: Any, target: Any) -> None:
    theirs = target.state()
    for name, part in source.state().items():
        if part is theirs[name]:
            continue  # shared, such as action noise
        if isinstance(part, torch.Tensor):
            theirs[name].copy_(part)
        else:
            state = part.state_dict()
            is_kept = isinstance(part, torch.optim.Optimizer)  # a module copies what it is given
            theirs[name].load_state_dict(copy.deepcopy(state) if is_kept else state)
