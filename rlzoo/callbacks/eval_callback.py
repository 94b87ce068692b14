"""Evaluation during training."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlzoo.callbacks.base_callback import (
    BaseCallback,
    CallbackLike,
    EventCallback,
    as_callback,
    check_frequency,
)
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.runtime import kept_random_state
from rlzoo.core.signatures import is_own
from rlzoo.envs.separate_env import separate_copy, share_environments
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import sync_envs_normalization, unwrap_vec_normalize
from rlzoo.evaluation.episodes import savable_episodes
from rlzoo.evaluation.evaluate import Episodes, as_eval_env, mask_keywords, play_episodes
from rlzoo.io.atomic import atomic_write


class EvalCallback(EventCallback):
    """Evaluates the agent every `eval_freq` calls, logs `eval/*`, and keeps the best agent.

    Training does not notice: the evaluation environments get the statistics of the training VecNormalize and
    never change them, and the global random states of PyTorch, NumPy and Python are restored after each
    evaluation, whether the policy drew from them or the environments did.

    :param eval_env: a `VecEnv`, a Gymnasium environment or an environment id; a copy of it where it
        is the one that is trained in
    :param callback_on_new_best: triggered when the mean return is a new best, after the agent is saved
    :param callback_after_eval: triggered after each evaluation
    :param eval_freq: in calls: times the number of environments, in steps; 0 or less never evaluates
    :param log_path: folder for `evaluations.npz`: `timesteps` [n], `results` and `ep_lengths`
        [n, n_eval_episodes], and `successes` of the same shape where the environment reports `is_success`
    :param best_model_save_path: folder for `best_model.zip`
    :param warn: say so when the evaluation environment has no Monitor
    """

    use_masking: bool | None = None  # where the agent takes masks and the environment has them
    state_names: tuple[str, ...] = (
        "best_mean_reward",
        "last_mean_reward",
        "evaluations_timesteps",
        "evaluations_results",
        "evaluations_length",
        "evaluations_successes",
    )

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: CallbackLike = None,
        callback_after_eval: CallbackLike = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        log_path: str | os.PathLike[str] | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
    ) -> None:
        super().__init__(callback_after_eval, verbose)
        self.callback_on_new_best = (
            None if callback_on_new_best is None else as_callback(callback_on_new_best)
        )
        self.eval_env = as_eval_env(eval_env, warn)
        self.n_eval_episodes = check_frequency("n_eval_episodes", n_eval_episodes)
        self.eval_freq = eval_freq
        self.log_path = None if log_path is None else os.path.join(log_path, "evaluations")
        self.best_model_save_path = None if best_model_save_path is None else str(best_model_save_path)
        self.deterministic = deterministic
        self.render = render
        self.warn = warn
        self.best_mean_reward = -np.inf
        self.last_mean_reward = -np.inf
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[list[float]] = []
        self.evaluations_length: list[list[int]] = []
        self.evaluations_successes: list[list[bool]] = []
        self.seconds = 0.0  # that evaluations have taken in this process, with what they save and call
        self._evaluated = False
        self._is_success_buffer: list[bool] = []  # of the last evaluation
        self._saved_env: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, object]:
        """Return the state of a callback, with the evaluation environments where these can be restored."""
        envs = savable_episodes(self.eval_env) if self._evaluated else None
        return {**super().state_dict(), "eval_env": envs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._saved_env = state.get("eval_env")

    def _resume_env(self) -> None:
        """Let the evaluation environments draw what they would have drawn without the interruption."""
        saved, self._saved_env = self._saved_env, None
        if saved is None:
            return
        self.eval_env.reset()
        try:
            self.eval_env.load_episode_state(saved)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the evaluation environments in the model file cannot be restored: {error}"[:300]
            ) from error

    def child_callbacks(self) -> Sequence[BaseCallback]:
        return [child for child in (self.callback_on_new_best, self.callback) if child is not None]

    def _on_step(self) -> bool:
        if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
            began = time.monotonic()
            try:
                return self._evaluate()
            finally:
                self.seconds += time.monotonic() - began
        return True

    def _init_callback(self) -> None:
        env = self.training_env
        if share_environments(self.eval_env, env):
            self.eval_env = self._separate_env()
        sync_envs_normalization(env, self.eval_env)  # fails now rather than at the first evaluation
        inner: Any = self.eval_env
        while (normalize := unwrap_vec_normalize(inner)) is not None:
            normalize.training = False
            inner = normalize.venv

    def _separate_env(self) -> VecEnv:
        """Return a copy of the evaluation environment, which is trained in."""
        seed = self.model.seed
        try:
            separate = separate_copy(self.eval_env, None if seed is None else seed + self.eval_env.num_envs)
        except UserError as error:
            raise UserError(
                "EvalCallback: eval_env is the training environment, whose episodes it would cut; give it"
                f" another one ({error})"
            ) from error
        warnings.warn(
            "EvalCallback: eval_env is the training environment; a copy is evaluated in", stacklevel=2
        )
        return separate

    def _evaluate(self) -> bool:
        with kept_random_state():
            self._resume_env()
            sync_envs_normalization(self.training_env, self.eval_env)
            self._evaluated = True
            episodes = self._play()
        self.last_mean_reward = float(np.mean(episodes.returns))
        if not np.isfinite(self.last_mean_reward):
            odd = [episode for episode in episodes.returns if not np.isfinite(episode)]
            warnings.warn(
                f"evaluation after {self.num_timesteps:,} steps: the rewards of {len(odd)} of"
                f" {len(episodes.returns)} episodes add up to {odd[0]}",
                stacklevel=2,
            )
        self._log(episodes)
        if self.log_path is not None:
            self._write_history(episodes)
        go_on = True
        if self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            if self.verbose >= 1:
                print("New best mean reward!")
            if self.best_model_save_path is not None:
                os.makedirs(self.best_model_save_path, exist_ok=True)
                self.model.save(os.path.join(self.best_model_save_path, "best_model.zip"))
            if self.callback_on_new_best is not None:
                go_on = self.callback_on_new_best.on_step()
        return self._on_event() and go_on

    def _play(self) -> Episodes:
        self._is_success_buffer = []
        hook = self._log_success_callback
        episodes = play_episodes(
            self.model,
            self.eval_env,
            self.n_eval_episodes,
            self.deterministic,
            self.render,
            None if is_own(hook) else hook,  # it takes time in every step
            use_masking=self.use_masking,
        )
        if is_own(hook) and episodes.report_success:
            self._is_success_buffer = list(episodes.succeeded)
        return episodes

    def _log_success_callback(self, locals_: Mapping[str, Any], globals_: Mapping[str, object]) -> None:
        """Store whether an episode has succeeded; subclasses override it, or give it to `evaluate_policy`."""
        succeeded = locals_["info"].get("is_success") if locals_["done"] else None
        if succeeded is not None:
            self._is_success_buffer.append(succeeded)

    def _log(self, episodes: Episodes) -> None:
        returns, lengths = episodes.returns, episodes.lengths
        self.logger.record("eval/mean_reward", self.last_mean_reward)
        self.logger.record("eval/mean_ep_length", float(np.mean(lengths)))
        if self.verbose >= 1:
            print(
                f"Eval num_timesteps={self.num_timesteps}, "
                f"episode_reward={self.last_mean_reward:.2f} +/- {np.std(returns):.2f}\n"
                f"Episode length: {np.mean(lengths):.2f} +/- {np.std(lengths):.2f}"
            )
        if episodes.report_success:
            success_rate = float(np.mean(episodes.succeeded))
            self.logger.record("eval/success_rate", success_rate)
            if self.verbose >= 1:
                print(f"Success rate: {success_rate:.0%}")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _write_history(self, episodes: Episodes) -> None:
        """Write all evaluations so far as a whole: whoever reads the file finds every array complete."""
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(episodes.returns)
        self.evaluations_length.append(episodes.lengths)
        if episodes.report_success or self.evaluations_successes:
            missing = self.evaluations_results[len(self.evaluations_successes) : -1]
            self.evaluations_successes += [[False] * len(row) for row in missing]
            self.evaluations_successes.append(episodes.succeeded)
        # A resumed run may ask for another number of episodes; the arrays stay rectangular.
        width = min(map(len, self.evaluations_results))
        arrays = {
            "timesteps": np.array(self.evaluations_timesteps),
            "results": np.array([row[:width] for row in self.evaluations_results]),
            "ep_lengths": np.array([row[:width] for row in self.evaluations_length]),
        }
        if self.evaluations_successes:
            arrays["successes"] = np.array([row[:width] for row in self.evaluations_successes])
        with atomic_write(f"{self.log_path}.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


class MaskableEvalCallback(EvalCallback):
    """EvalCallback that tells the agent which actions the environment allows.

    :param use_masking: False evaluates with every action allowed
    :raises UserError: before the training, where the agent or the environment knows no masks
    """

    def __init__(self, *args: Any, use_masking: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_masking = use_masking

    def _init_callback(self) -> None:
        super()._init_callback()
        mask_keywords(self.model, self.eval_env, self.use_masking)
