"""EvalCallback: what it logs, writes and keeps, and that the training does not notice it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.callbacks import EvalCallback
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.evaluation.evaluate import evaluate_policy
from tests.training.conftest import Steps


class Note(BaseCallback):
    """Writes down the best score it finds in its parent, and where."""

    def __init__(self, answer: bool = True) -> None:
        super().__init__()
        self.answer = answer
        self.seen: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        assert "infos" in self.locals
        self.seen.append((self.num_timesteps, self.parent.best_mean_reward))  # type: ignore[union-attr]
        return self.answer


def test_evaluations_are_logged_and_written(model: Any, make_env: Any, tmp_path: Path, capsys: Any) -> None:
    callback = EvalCallback(make_env(2, 4), n_eval_episodes=4, eval_freq=3, log_path=tmp_path / "new")
    model.learn(8, callback)
    values = {"eval/mean_reward": 3.0, "eval/mean_ep_length": 3.0}
    assert model.recorder.dumps == [(step, {**values, "time/total_timesteps": step}) for step in (3, 6)]
    with np.load(tmp_path / "new" / "evaluations.npz") as file:
        arrays = dict(file)
    assert set(arrays) == {"timesteps", "results", "ep_lengths"}
    assert arrays["timesteps"].tolist() == [3, 6]
    assert np.sort(arrays["results"]).tolist() == [[2.0, 2.0, 4.0, 4.0]] * 2
    assert np.sort(arrays["ep_lengths"]).tolist() == [[2, 2, 4, 4]] * 2
    out = capsys.readouterr().out
    assert "Eval num_timesteps=3, episode_reward=3.00 +/- 1.00\nEpisode length: 3.00 +/- 1.00\n" in out
    assert out.count("New best mean reward!") == 1


def test_success_is_logged_and_written(model: Any, make_env: Any, tmp_path: Path, capsys: Any) -> None:
    env = make_env(1, 1, success=True)
    env.venv.envs[1].success = False
    callback = EvalCallback(env, n_eval_episodes=2, eval_freq=4, log_path=tmp_path)
    model.learn(4, callback)
    assert model.recorder.dumps[0][1]["eval/success_rate"] == 0.5
    assert np.load(tmp_path / "evaluations.npz")["successes"].tolist() == [[True, False]]
    assert callback._is_success_buffer == [True, False]
    assert "Success rate: 50%" in capsys.readouterr().out


def test_a_success_that_comes_late_fills_the_rows_before(model: Any, make_env: Any, tmp_path: Path) -> None:
    env = make_env(1)
    callback = EvalCallback(env, n_eval_episodes=2, eval_freq=4, log_path=tmp_path, verbose=0)
    model.learn(8, callback)
    env.venv.envs[0].success = True
    model.learn(4, callback)
    rows = np.load(tmp_path / "evaluations.npz")["successes"].tolist()
    assert rows == [[False, False], [False, False], [True, True]]


def test_the_best_agent_is_kept_and_told(model: Any, make_env: Any, tmp_path: Path) -> None:
    env, best, after = make_env(2), Note(), Note()
    callback = EvalCallback(env, best, after, 1, 4, best_model_save_path=tmp_path / "best", verbose=0)
    for length in (2, 1, 5):
        env.venv.envs[0].length = length
        model.learn(4, callback)
    assert best.seen == [(4, 2.0), (12, 5.0)]
    assert after.seen == [(4, 2.0), (8, 2.0), (12, 5.0)]
    assert (tmp_path / "best" / "best_model.zip").read_text() == "12"
    assert callback.last_mean_reward == 5.0


@pytest.mark.parametrize("which", ["callback_on_new_best", "callback_after_eval"])
def test_its_callbacks_can_end_the_training(model: Any, make_env: Any, which: str) -> None:
    model.learn(100, EvalCallback(make_env(1), eval_freq=2, verbose=0, **{which: Note(False)}))
    assert model.num_timesteps == 2


@pytest.mark.parametrize("eval_freq", [0, -1])
def test_it_can_be_switched_off(model: Any, make_env: Any, eval_freq: int) -> None:
    model.learn(8, EvalCallback(make_env(1), eval_freq=eval_freq))
    assert model.recorder.dumps == []


def test_evaluation_uses_and_keeps_training_statistics(make_model: Any, make_env: Any) -> None:
    train, play = VecNormalize(make_env(3)), VecNormalize(make_env(5))
    means = []

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            assert play.obs_rms.count == train.obs_rms.count > 1
            means.append(play.obs_rms.mean.copy())
            np.testing.assert_array_equal(play.obs_rms.mean, train.obs_rms.mean)
            return True

    model = make_model(train)
    callback = EvalCallback(play, None, Look(), n_eval_episodes=3, eval_freq=4, verbose=0)
    model.learn(8, callback)
    assert callback.last_mean_reward == 5.0  # of the raw game, though the rewards are normalised
    assert play.training is False and train.training is True
    assert len(means) == 2 and not np.array_equal(means[0], means[1])


def test_a_missing_normalisation_is_said_before_the_training(make_model: Any, make_env: Any) -> None:
    model = make_model(VecNormalize(make_env(3)))
    with pytest.raises(UserError, match="VecNormalize"):
        model.learn(8, EvalCallback(make_env(3)))
    assert model.num_timesteps == 0


def test_a_stochastic_evaluation_leaves_the_random_numbers_alone(model: Any, make_env: Any) -> None:
    model.choose = lambda n: torch.randint(2, (n,)).numpy()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    model.learn(4, EvalCallback(make_env(5), eval_freq=2, deterministic=False, verbose=0))
    assert len(model.starts) > 0
    assert torch.equal(torch.rand(3), expected)


def test_envs_that_draw_globally_leave_the_numbers_alone(make_model: Any, make_env: Any) -> None:
    def drawn() -> tuple[float, float, float]:
        return float(np.random.random()), random.random(), float(torch.rand(()))

    set_random_seed(3)
    expected = drawn()
    set_random_seed(3)
    model = make_model()
    draws: list[Any] = []
    model.choose = lambda n: [draws.append(drawn()) for _ in range(n)] and np.zeros(n, np.int64)
    model.learn(4, EvalCallback(make_env(5), eval_freq=2, deterministic=False, verbose=0))
    assert draws
    assert drawn() == expected


def test_a_return_that_is_nan_is_said(model: Any) -> None:
    callback = EvalCallback(
        DummyVecEnv([lambda: Monitor(Steps(3, reward=float("nan")))]), eval_freq=2, verbose=0
    )
    with pytest.warns(
        UserWarning, match="evaluation after 2 steps: the rewards of 5 of 5 episodes add up to nan"
    ):
        model.learn(2, callback)


def test_a_missing_monitor_is_said(make_env: Any) -> None:
    with pytest.warns(UserWarning, match="Monitor"):
        EvalCallback(make_env(3, monitor=False))


def test_an_id_will_do() -> None:
    assert EvalCallback("CartPole-v1").eval_env.num_envs == 1


def test_a_resumed_run_goes_on_with_its_history(make_model: Any, make_env: Any, tmp_path: Path) -> None:
    def callback(n_eval_episodes: int = 2) -> EvalCallback:
        return EvalCallback(make_env(3), None, None, n_eval_episodes, 4, log_path=tmp_path, verbose=0)

    first = callback()
    make_model().learn(8, first)
    state = json.loads(json.dumps(first.state_dict()))
    assert json.loads(json.dumps(callback().state_dict()))["values"]["best_mean_reward"] == -np.inf
    second, model = callback(3), make_model()
    second.load_state_dict(state)
    assert (second.best_mean_reward, second.n_calls) == (3.0, 8)
    model.num_timesteps = 8
    model.learn(4, second)
    with np.load(tmp_path / "evaluations.npz") as file:
        assert file["timesteps"].tolist() == [4, 8, 12]
        assert file["results"].shape == file["ep_lengths"].shape == (3, 2)


def test_an_interrupted_write_leaves_the_history(
    model: Any, make_env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = EvalCallback(make_env(3), n_eval_episodes=1, eval_freq=4, log_path=tmp_path, verbose=0)
    model.learn(4, callback)

    def fail(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        model.learn(4, callback)
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [4]
    assert [path.name for path in tmp_path.iterdir()] == ["evaluations.npz"]


def test_own_success_callback_is_called(model: Any, make_env: Any) -> None:
    class Own(EvalCallback):
        def _log_success_callback(self, locals_: Any, globals_: Any) -> None:
            super()._log_success_callback(locals_, globals_)
            self.calls = getattr(self, "calls", 0) + 1

    callback = Own(make_env(1, 2, success=True), n_eval_episodes=2, eval_freq=4, verbose=0)
    model.learn(4, callback)
    assert callback._is_success_buffer == [True, True] and callback.calls == 3  # once for each step


def test_success_callback_is_given_to_evaluate_policy(model: Any, make_env: Any) -> None:
    class Own(EvalCallback):
        def _on_step(self) -> bool:
            self._is_success_buffer = []
            evaluate_policy(self.model, self.eval_env, 2, callback=self._log_success_callback)
            return True

    callback = Own(make_env(1, 1, success=True))
    model.learn(1, callback)
    assert callback._is_success_buffer == [True, True]
