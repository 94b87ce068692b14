"""The callbacks beside a real training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.callbacks import (
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    SaveVecNormalizeCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.metrics.logger import KVWriter, Logger


class Recorder(KVWriter):
    def __init__(self) -> None:
        self.dumps: list[tuple[int, dict[str, Any]]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.dumps.append((step, key_values))


def make_ppo(env: Any = None, **kwargs: Any) -> PPO:
    env = make_vec_env("CartPole-v1", 2, seed=1) if env is None else env
    return PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu", **kwargs)


def test_locals_hold_what_the_step_gave() -> None:
    class Look(BaseCallback):
        def _on_step(self) -> bool:
            seen = self.locals
            assert seen["self"] is self.model and seen["rollout_buffer"] is self.model.rollout_buffer
            assert seen["rewards"].shape == seen["dones"].shape == (2,)
            assert seen["new_obs"].shape == (2, 4) and len(seen["infos"]) == 2
            assert len(seen["actions"]) == 2 and seen["values"].numel() == 2
            assert self.num_timesteps == self.model.num_timesteps == 2 * self.n_calls
            assert self.training_env is self.model.get_env()
            ends.append(int(np.count_nonzero(seen["dones"])))
            return True

    ends: list[int] = []
    model = make_ppo().learn(256, Look())
    assert len(ends) == 128
    assert sum(ends) == len(model.ep_info_buffer) > 0


def test_locals_that_are_kept_stay_as_they_were() -> None:
    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            kept.append((self.locals["new_obs"], self.locals["rewards"], self.locals["actions"]))
            copies.append([array.copy() for array in kept[-1]])
            return True

    kept: list[Any] = []
    copies: list[Any] = []
    make_ppo(make_vec_env("Pendulum-v1", 2, backend="dummy")).learn(64, Keep())  # writes in place
    for mine, copy in zip(kept, copies, strict=True):
        for array, as_it_was in zip(mine, copy, strict=True):
            np.testing.assert_array_equal(array, as_it_was)
    assert len({(float(obs[0, 0]), float(rewards[0])) for obs, rewards, _ in kept}) == len(kept)


def test_locals_are_there_before_the_first_step() -> None:
    class Look(BaseCallback):
        def _on_training_start(self) -> None:
            assert self.locals["total_timesteps"] == 64
            assert self.locals.get("rewards") is None and "infos" not in dict(self.locals)

        def _on_step(self) -> bool:
            return True

    make_ppo().learn(64, Look())


def test_a_function_ends_the_training() -> None:
    model = make_ppo().learn(1000, lambda locals_, globals_: locals_["self"].num_timesteps < 10)
    assert model.num_timesteps == 10


def test_max_episodes_ends_the_training() -> None:
    model = make_ppo().learn(10_000, StopTrainingOnMaxEpisodes(3))
    assert len(model.ep_info_buffer) in (6, 7) and model.num_timesteps < 10_000


def test_checkpoints_and_the_best_agent_can_be_loaded(tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=1))
    eval_env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=5))
    model = make_ppo(env)
    save_best = SaveVecNormalizeCallback(1, tmp_path, "best")
    evaluation = EvalCallback(
        eval_env,
        save_best,
        n_eval_episodes=3,
        eval_freq=48,
        log_path=tmp_path,
        best_model_save_path=tmp_path,
        verbose=0,
    )
    model.learn(192, [CheckpointCallback(32, tmp_path, save_vecnormalize=True), evaluation])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name for name in names if name.startswith("rl_model")] == [
        *(f"rl_model_{steps}_steps.zip" for steps in (128, 192, 64)),
        *(f"rl_model_vecnormalize_{steps}_steps.npz" for steps in (128, 192, 64)),
    ]
    assert {"best_model.zip", "evaluations.npz", "best_96_steps.npz"} <= set(names)
    assert np.load(tmp_path / "evaluations.npz")["results"].shape == (2, 3)
    last = PPO.load(tmp_path / "rl_model_192_steps.zip")
    assert last.num_timesteps == 192
    assert PPO.load(tmp_path / "best_model.zip").num_timesteps in (96, 192)
    statistics = VecNormalize.load(
        tmp_path / "rl_model_vecnormalize_64_steps.npz", make_vec_env("CartPole-v1")
    )
    assert statistics.obs_rms.count == pytest.approx(64 + 2, abs=1)  # the steps and the first observations
    assert eval_env.obs_rms.count == env.obs_rms.count


def test_evaluating_does_not_change_the_training() -> None:
    class Count(BaseCallback):
        def _on_step(self) -> bool:
            return True

    count = Count()
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1", 2, seed=7),
        callback_after_eval=count,
        n_eval_episodes=2,
        eval_freq=20,
        deterministic=False,
        verbose=0,
    )
    plain, evaluated = make_ppo().learn(192), make_ppo().learn(192, evaluation)
    assert count.n_calls == 4
    for one, other in zip(plain.policy.parameters(), evaluated.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_threshold_ends_the_training() -> None:
    stop = StopTrainingOnRewardThreshold(5)
    evaluation = EvalCallback(make_vec_env("CartPole-v1"), stop, eval_freq=10, n_eval_episodes=1, verbose=0)
    assert make_ppo().learn(1000, evaluation).num_timesteps == 20


@pytest.mark.parametrize("log_interval", [1000, None])
def test_metrics_are_dumped_every_n_steps(log_interval: int | None) -> None:
    model, recorder = make_ppo(), Recorder()
    model.set_logger(Logger(None, [recorder]))
    model.learn(192, LogEveryNTimesteps(50), log_interval)
    assert [step for step, _ in recorder.dumps] == [50, 100, 150]
    assert {"rollout/ep_rew_mean", "time/fps", "train/loss"} <= recorder.dumps[-1][1].keys()


def test_a_loaded_training_goes_on_with_its_callbacks(tmp_path: Path) -> None:
    def callbacks() -> list[BaseCallback]:
        env = make_vec_env("CartPole-v1", seed=3)
        evaluation = EvalCallback(env, eval_freq=20, n_eval_episodes=2, log_path=tmp_path, verbose=0)
        return [evaluation, EveryNTimesteps(50, lambda locals_, globals_: None)]

    first, every = callbacks()
    model = make_ppo().learn(128, [first, every])
    model.save(tmp_path / "agent.zip")
    resumed = PPO.load(tmp_path / "agent.zip", env=make_vec_env("CartPole-v1", 2))
    second, every_second = callbacks()
    second.best_mean_reward = 1e9
    resumed.learn(64, [second, every_second], reset_num_timesteps=False)
    assert second.n_calls == first.n_calls + 32
    assert every_second.last_time_trigger == 150
    timesteps = np.load(tmp_path / "evaluations.npz")["timesteps"].tolist()
    assert timesteps == [40, 80, 120, 160]
    assert second.best_mean_reward == max(map(np.mean, second.evaluations_results))


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    make_ppo().learn(128, progress_bar=True)
    assert "128/128" in capsys.readouterr().out
