"""The callbacks that come with the library; base_callback.py describes how to write another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rlzoo.callbacks.base_callback import (
    BaseCallback,
    CallbackLike,
    CallbackList,
    ConvertCallback,
    EventCallback,
    check_frequency,
)
from rlzoo.callbacks.eval_callback import EvalCallback, MaskableEvalCallback
from rlzoo.callbacks.progress import last_metrics, log_progress
from rlzoo.callbacks.progress_bar import ProgressBar
from rlzoo.core.errors import UserError
from rlzoo.metrics.logger import TensorBoardOutputFormat

__all__ = [
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "ConvertCallback",
    "EvalCallback",
    "EventCallback",
    "EveryNTimesteps",
    "LogEveryNTimesteps",
    "MaskableEvalCallback",
    "ProgressBarCallback",
    "RawStatisticsCallback",
    "SaveVecNormalizeCallback",
    "StopTrainingOnMaxEpisodes",
    "StopTrainingOnNoModelImprovement",
    "StopTrainingOnRewardThreshold",
]


class CheckpointCallback(BaseCallback):
    """Saves the model every `save_freq` calls (times the number of environments: steps).

    Wherever it is among the callbacks of a training, it saves after the others have had the step, so that
    the file holds what they know then. The file also holds the episodes in progress, so that training can be
    resumed in the middle of them.

    Files: `<name_prefix>_<steps>_steps.zip`, which holds the statistics of a VecNormalize too.

    :param save_path: folder, made if it is missing
    :param save_replay_buffer: also `<name_prefix>_replay_buffer_<steps>_steps.safetensors`, where the model
        has one; written before the model, so that every model that is there has its buffer
    :param save_vecnormalize: also `<name_prefix>_vecnormalize_<steps>_steps.npz`
    """

    suffixes: ClassVar[dict[str, str]] = {
        "replay_buffer": ".safetensors",
        "vecnormalize": ".npz",
        "model": ".zip",
    }

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.save_freq = check_frequency("save_freq", save_freq)
        self.save_path = str(save_path)
        self.name_prefix = name_prefix
        self.save_replay_buffer = save_replay_buffer
        self.save_vecnormalize = save_vecnormalize
        self._due = False

    def _on_step(self) -> bool:
        self._due = self.n_calls % self.save_freq == 0
        if not self.called_after_step:
            self.after_step()
        return True

    def after_step(self) -> None:
        if self._due:
            self._due = False
            self._save()

    def _save(self) -> None:
        os.makedirs(self.save_path, exist_ok=True)
        if self.save_replay_buffer and getattr(self.model, "replay_buffer", None) is not None:
            self._save_to("replay_buffer", self.model.save_replay_buffer)
        normalize = self.model.get_vec_normalize_env()
        if self.save_vecnormalize and normalize is not None:
            self._save_to("vecnormalize", normalize.save)
        self._save_to("model", partial(self.model.save, include=("position",)))

    def _save_to(self, what: str, save: Callable[[str], object]) -> None:
        kind = "" if what == "model" else f"{what}_"
        name = f"{self.name_prefix}_{kind}{self.num_timesteps}_steps{self.suffixes[what]}"
        path = os.path.join(self.save_path, name)
        save(path)
        if self.verbose >= 2:
            print(f"Saved the {what} to {path}")


class PklCheckpointCallback(CheckpointCallback):
    """A CheckpointCallback that names its files as stable-baselines3 does: `.pkl`, although none is a pickle.

    For scripts that read the files by these names.
    """

    suffixes: ClassVar[dict[str, str]] = {"replay_buffer": ".pkl", "vecnormalize": ".pkl", "model": ".zip"}


class SaveVecNormalizeCallback(BaseCallback):
    """Saves the VecNormalize statistics every `save_freq` calls (1 inside an EvalCallback: at each new best).

    :param name_prefix: file `<name_prefix>_<steps>_steps.npz`; None: `vecnormalize.npz`, replaced each time
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.save_freq = check_frequency("save_freq", save_freq)
        self.save_path = str(save_path)
        self.name_prefix = name_prefix

    def _on_step(self) -> bool:
        normalize = self.model.get_vec_normalize_env() if self.n_calls % self.save_freq == 0 else None
        if normalize is not None:
            name = f"{self.name_prefix}_{self.num_timesteps}_steps" if self.name_prefix else "vecnormalize"
            os.makedirs(self.save_path, exist_ok=True)
            path = os.path.join(self.save_path, f"{name}.npz")
            normalize.save(path)
            if self.verbose >= 1:
                print(f"Saved the VecNormalize statistics to {path}")
        return True


class EveryNTimesteps(EventCallback):
    """Triggers a callback every `n_steps` environment steps, counted over all environments."""

    state_names = ("last_time_trigger",)

    def __init__(self, n_steps: int, callback: CallbackLike) -> None:
        super().__init__(callback)
        self.n_steps = check_frequency("n_steps", n_steps)
        self.last_time_trigger = 0

    def _on_training_start(self) -> None:
        self.last_time_trigger = min(
            self.last_time_trigger, self.num_timesteps
        )  # num_timesteps may have been reset

    def _on_step(self) -> bool:
        if self.num_timesteps - self.last_time_trigger >= self.n_steps:
            self.last_time_trigger = self.num_timesteps
            return self._on_event()
        return True


class LogEveryNTimesteps(EveryNTimesteps):
    """Dumps the metrics every `n_steps` environment steps, whatever `log_interval` says.

    Those of training are of the last update.
    """

    def __init__(self, n_steps: int) -> None:
        super().__init__(n_steps, self._log)

    def _log(self, locals_: Mapping[str, Any], globals_: dict[str, object]) -> None:
        log_progress(self.model, last_metrics(self.model, getattr(locals_, "history", [])))


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends the training once the best mean return of the `EvalCallback` around it reaches a threshold.

    :param reward_threshold: the mean return that is enough
    :raises UserError: it is not the `callback_on_new_best` or `callback_after_eval` of an `EvalCallback`
    """

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _init_callback(self) -> None:
        _evaluation(self)

    def _on_step(self) -> bool:
        best = _evaluation(self).best_mean_reward
        enough = bool(best >= self.reward_threshold)
        if enough and self.verbose >= 1:
            print(f"Training ends: the mean reward {best:.2f} has reached {self.reward_threshold}")
        return not enough


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends the training after too many evaluations in a row without a new best; a `callback_after_eval`.

    :param max_no_improvement_evals: evaluations without a new best that are put up with
    :param min_evals: evaluations before the counting begins
    :raises UserError: it is not a callback of an `EvalCallback`
    """

    state_names = ("last_best_mean_reward", "no_improvement_evals")

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_no_improvement_evals = max_no_improvement_evals
        self.min_evals = min_evals
        self.last_best_mean_reward = -np.inf
        self.no_improvement_evals = 0

    def _init_callback(self) -> None:
        _evaluation(self)

    def _on_step(self) -> bool:
        best = _evaluation(self).best_mean_reward
        if best > self.last_best_mean_reward:
            self.no_improvement_evals = 0
        elif self.n_calls > self.min_evals:
            self.no_improvement_evals += 1
        self.last_best_mean_reward = best
        go_on = self.no_improvement_evals <= self.max_no_improvement_evals
        if not go_on and self.verbose >= 1:
            print(f"Training ends: no new best model in the last {self.no_improvement_evals} evaluations")
        return go_on


def _evaluation(callback: BaseCallback) -> EvalCallback:
    if not isinstance(callback.parent, EvalCallback):
        raise UserError(
            f"{type(callback).__name__} works inside an EvalCallback:"
            " give it as its callback_on_new_best or callback_after_eval"
        )
    return callback.parent


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends the training after `max_episodes` episodes per environment: of n environments, n times as many."""

    state_names = ("n_episodes",)

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_episodes = check_frequency("max_episodes", max_episodes)
        self.n_episodes = 0

    def _on_step(self) -> bool:
        self.n_episodes += int(np.count_nonzero(self.locals["dones"]))
        go_on = self.n_episodes < self.max_episodes * int(self.training_env.num_envs)
        if not go_on and self.verbose >= 1:
            print(f"Training ends after {self.n_episodes} episodes and {self.num_timesteps} steps")
        return go_on


class ProgressBarCallback(BaseCallback):
    """A progress bar; `learn(progress_bar=True)` adds one."""

    def __init__(self) -> None:
        super().__init__()
        self.bar: ProgressBar | None = None

    def _on_training_start(self) -> None:
        self.bar = ProgressBar(self.model.counters.total_timesteps, self.num_timesteps)

    def _on_step(self) -> bool:
        if self.bar is not None and self.bar.due:
            self.bar.update(self.num_timesteps, self._text())
        return True

    def _on_training_end(self) -> None:
        if self.bar is not None:
            self.bar.close(self.num_timesteps, self._text())
            self.bar = None

    def _text(self) -> str:
        episodes = self.model.ep_info_buffer
        return f"return {np.mean([episode['r'] for episode in episodes]):.1f}" if episodes else ""


class RawStatisticsCallback(BaseCallback):
    """Writes every episode's return and length to TensorBoard, over the steps of finished episodes.

    :raises UserError: TensorBoard is not among the logger's sinks
    """

    state_names = ("timesteps",)

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.timesteps = 0
        self._sinks: list[TensorBoardOutputFormat] = []

    def _on_training_start(self) -> None:
        outputs = self.logger.output_formats
        self._sinks = [output for output in outputs if isinstance(output, TensorBoardOutputFormat)]
        if not self._sinks:
            raise UserError("RawStatisticsCallback writes to TensorBoard: give the model a tensorboard_log")

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.timesteps += info["episode"]["l"]
                values = {
                    "raw/rollouts/episodic_return": info["episode"]["r"],
                    "raw/rollouts/episodic_length": info["episode"]["l"],
                }
                for sink in self._sinks:
                    sink.write(values, {}, self.timesteps)
        return True
