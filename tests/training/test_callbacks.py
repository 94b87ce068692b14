"""The callbacks that come with the library, beside a training that does nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlzoo.callbacks.base_callback import BaseCallback, to_callback
from rlzoo.callbacks.callbacks import (
    CallbackList,
    CheckpointCallback,
    ConvertCallback,
    EvalCallback,
    EventCallback,
    EveryNTimesteps,
    ProgressBarCallback,
    RawStatisticsCallback,
    SaveVecNormalizeCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from rlzoo.core.errors import UserError
from rlzoo.metrics.logger import TensorBoardOutputFormat


class Diary(BaseCallback):
    """Writes down which hook ran."""

    def __init__(self, answer: Any = True) -> None:
        super().__init__()
        self.answer = answer
        self.hooks: list[str] = []

    def _init_callback(self) -> None:
        self.hooks.append("init")

    def _on_training_start(self) -> None:
        self.hooks.append("training_start")

    def _on_rollout_start(self) -> None:
        self.hooks.append("rollout_start")

    def _on_step(self) -> bool:
        self.hooks.append(f"step {self.n_calls} at {self.num_timesteps}")
        return self.answer

    def _on_rollout_end(self) -> None:
        self.hooks.append("rollout_end")

    def _on_training_end(self) -> None:
        self.hooks.append("training_end")


def test_hooks_run_in_their_order(make_model: Any, make_env: Any) -> None:
    diary = Diary()
    make_model(make_env(3, 3), n_steps=2).learn(8, diary)
    assert diary.hooks == [
        *("init", "training_start", "rollout_start", "step 1 at 2", "step 2 at 4", "rollout_end"),
        *("rollout_start", "step 3 at 6", "step 4 at 8", "rollout_end", "training_end"),
    ]


def test_a_callback_sees_the_training(model: Any) -> None:
    class Look(BaseCallback):
        def _on_training_start(self) -> None:
            assert self.locals["total_timesteps"] == 3 and "Model" in self.globals

        def _on_step(self) -> bool:
            assert self.model is model and self.training_env is model.env and self.logger is model.logger
            assert self.parent is None
            rewards.append(float(self.locals["rewards"][0]))
            return True

    rewards: list[float] = []
    model.learn(3, Look())
    assert rewards == [1.0] * 4


@pytest.mark.parametrize(
    ("answer", "steps"), [(True, 4), (False, 1), (None, 4), (np.False_, 1), (np.True_, 4)]
)
@pytest.mark.parametrize("as_function", [True, False])
def test_false_ends_the_training(model: Any, answer: Any, steps: int, as_function: bool) -> None:
    model.learn(4, (lambda locals_, globals_: answer) if as_function else Diary(answer))
    assert model.num_timesteps == steps


def test_a_list_calls_all_even_after_a_stop(model: Any) -> None:
    first, second, calls = Diary(False), Diary(), []
    model.learn(
        4, [first, CallbackList([second]), lambda locals_, globals_: calls.append(locals_["dones"][0])]
    )
    assert first.hooks[3:4] == second.hooks[3:4] == ["step 1 at 1"] and len(calls) == 1
    assert second.hooks[-1] == "training_end"


def test_what_is_no_callback_is_named() -> None:
    with pytest.raises(UserError, match="Diary is a class"):
        to_callback(Diary)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="not 3"):
        to_callback(3)  # type: ignore[arg-type]
    assert to_callback(None).callbacks == []
    assert isinstance(to_callback(print).callbacks[0], ConvertCallback)


def test_checkpoints(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Normalize:
        def save(self, path: str) -> None:
            Path(path).write_text("statistics")

    model.vec_normalize = Normalize()
    model.replay_buffer = []
    model.save_replay_buffer = lambda path: Path(path).write_text("replay")
    folder = tmp_path / "new" / "folder"
    model.learn(
        5, CheckpointCallback(2, folder, "agent", save_replay_buffer=True, save_vecnormalize=True, verbose=2)
    )
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"agent_{steps}_steps.zip" for steps in (2, 4, 6, 8)),
        *(f"agent_replay_buffer_{steps}_steps.safetensors" for steps in (2, 4, 6, 8)),
        *(f"agent_vecnormalize_{steps}_steps.npz" for steps in (2, 4, 6, 8)),
    ]
    assert (folder / "agent_4_steps.zip").read_text() == "4"
    assert len(capsys.readouterr().out.splitlines()) == 12


def test_checkpoints_of_the_model_alone(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.learn(4, CheckpointCallback(4, str(tmp_path), save_replay_buffer=True, save_vecnormalize=True))
    assert [path.name for path in tmp_path.iterdir()] == ["rl_model_4_steps.zip"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "make", [lambda n: CheckpointCallback(n, "x"), lambda n: EveryNTimesteps(n, Diary())]
)
def test_a_frequency_of_zero_is_a_mistake(make: Any) -> None:
    with pytest.raises(UserError, match="at least 1, not 0"):
        make(0)


def test_vecnormalize_statistics_are_saved(model: Any, tmp_path: Path) -> None:
    model.learn(4, SaveVecNormalizeCallback(2, tmp_path))
    assert list(tmp_path.iterdir()) == []  # there are none

    class Normalize:
        def save(self, path: str) -> None:
            Path(path).touch()

    model.vec_normalize = Normalize()
    model.learn(4, [SaveVecNormalizeCallback(2, tmp_path), SaveVecNormalizeCallback(4, tmp_path, "stats")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stats_8_steps.npz", "vecnormalize.npz"]


def test_every_n_timesteps(make_model: Any, make_env: Any) -> None:
    child = Diary()
    every = EveryNTimesteps(5, child)
    model = make_model(make_env(3, 3), n_steps=4)
    model.learn(16, every)
    assert child.hooks == ["init", "training_start", "step 1 at 6", "step 2 at 12", "training_end"]
    assert child.parent is every
    model.num_timesteps = 0  # a second training that counts anew
    model.learn(8, every)
    assert child.hooks[-2:] == ["step 3 at 6", "training_end"]


def test_children_of_a_list_know_what_triggers_them(model: Any) -> None:
    child = Diary()
    event = EventCallback(CallbackList([child]))
    event.init_callback(model)
    assert child.parent is event
    event.update_locals({"a": 1})
    assert child.locals == {"a": 1}


def test_max_episodes_counts_per_environment(make_model: Any, make_env: Any, capsys: Any) -> None:
    model = make_model(make_env(2, 5))
    model.learn(100, StopTrainingOnMaxEpisodes(3, verbose=1))
    # 6 episodes in all: after 8 steps the first environment has played 4, the second 1; after 10, 5 and 2.
    assert model.num_timesteps == 20
    assert "7 episodes and 20 steps" in capsys.readouterr().out


class Scores(EvalCallback):
    """Evaluates to given scores."""

    def __init__(self, scores: list[float], env: Any, **kwargs: Any) -> None:
        super().__init__(env, eval_freq=1, n_eval_episodes=1, verbose=0, **kwargs)
        self.scores = list(scores)

    def _play(self) -> Any:
        episodes = super()._play()
        episodes.returns[:] = [self.scores.pop(0)]
        return episodes


def test_reward_threshold_ends_the_training(model: Any, make_env: Any, capsys: Any) -> None:
    stop = StopTrainingOnRewardThreshold(5, verbose=1)
    model.learn(100, Scores([1, 4.9, 3, 5, 9], make_env(1), callback_on_new_best=stop))
    assert model.num_timesteps == 4
    assert "5.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("patience", "min_evals", "scores", "evaluations"),
    [
        (2, 3, [9.5, 10, 9, 9.5, 8, 10, 11], 6),  # as stable-baselines3 counts
        (1, 0, [1, 1, 1, 1, 1], 3),
        (1, 0, [1, 0, 2, 0, 3, 0, 0, 9], 7),
        (0, 0, [1, 2, 3, 3, 3], 4),
    ],
)
def test_no_improvement_ends_the_training(
    model: Any, make_env: Any, patience: int, min_evals: int, scores: list[float], evaluations: int
) -> None:
    stop = StopTrainingOnNoModelImprovement(patience, min_evals)
    model.learn(100, Scores(scores, make_env(1), callback_after_eval=[stop]))
    assert model.num_timesteps == evaluations


@pytest.mark.parametrize("stop", [StopTrainingOnRewardThreshold(1), StopTrainingOnNoModelImprovement(1)])
def test_stopping_on_evaluations_needs_evaluations(model: Any, stop: BaseCallback) -> None:
    with pytest.raises(UserError, match="EvalCallback"):
        model.learn(4, stop)


def test_raw_statistics_go_to_tensorboard_alone(make_model: Any, make_env: Any) -> None:
    class Sink(TensorBoardOutputFormat):
        def __init__(self) -> None:
            self.writes: list[Any] = []

        def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
            self.writes.append((step, key_values))

    model = make_model(make_env(2, 3))
    with pytest.raises(UserError, match="tensorboard_log"):
        model.learn(8, RawStatisticsCallback())
    model.num_timesteps = 0
    sink = Sink()
    model.logger.output_formats.append(sink)
    model.learn(8, RawStatisticsCallback())
    names = ("raw/rollouts/episodic_return", "raw/rollouts/episodic_length")
    expected = [(2, 2.0), (5, 3.0), (7, 2.0)]
    assert sink.writes == [(step, dict.fromkeys(names, value)) for step, value in expected]
    assert model.recorder.dumps == []


class Counter(BaseCallback):
    state_names = ("total",)

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.scratch = 0

    def _on_step(self) -> bool:
        self.total += 10
        self.scratch += 1
        return True


def test_state_survives_json(make_model: Any, make_env: Any) -> None:
    def callbacks() -> list[BaseCallback]:
        return [Counter(), EveryNTimesteps(3, Counter()), StopTrainingOnMaxEpisodes(50)]

    hooks = to_callback(callbacks())
    make_model(make_env(2)).learn(7, hooks)
    state = json.loads(json.dumps(hooks.state_dict()))
    counter, every, stop = callbacks()
    resumed = to_callback([stop, counter, Diary(), every], ProgressBarCallback())  # another order, new ones
    resumed.load_state_dict(state)
    assert (counter.total, counter.n_calls, counter.scratch) == (80, 8, 0)
    assert (every.last_time_trigger, every.callback.total) == (6, 20)
    assert stop.n_episodes == 4


def test_a_step_with_nothing_due_is_cheap(model: Any, make_env: Any, tmp_path: Path) -> None:
    hooks = to_callback([EvalCallback(make_env(1)), CheckpointCallback(10**9, tmp_path)])
    hooks.init_callback(model)
    n_calls = 2000
    rounds = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(n_calls):
            hooks.on_step()
        rounds.append((time.perf_counter() - began) / n_calls)
    assert min(rounds) < 5e-6


@pytest.mark.parametrize("checkpoint_at", [0, 1])
def test_checkpoint_counts_the_step_for_every_callback(
    model: Any, tmp_path: Path, checkpoint_at: int
) -> None:
    saved = []
    model.save = lambda path, include: saved.append((model.num_timesteps, every.n_calls, other.n_calls))
    other = Diary()
    every = EveryNTimesteps(1, CheckpointCallback(2, tmp_path))
    callbacks = [other]
    callbacks.insert(checkpoint_at, every)  # type: ignore[arg-type]
    model.learn(8, callbacks)
    assert [calls for _, *calls in saved] == [[2, 2], [4, 4], [6, 6], [8, 8]]


def test_checkpoint_inside_an_opaque_callback_is_saved(model: Any, tmp_path: Path) -> None:
    class Opaque(Diary):
        def _on_step(self) -> bool:
            self.hidden.model = self.model
            return self.hidden.on_step()

    callback = Opaque()
    callback.hidden = CheckpointCallback(2, tmp_path)  # type: ignore[attr-defined]
    model.learn(4, callback)
    assert len(list(tmp_path.iterdir())) == 2
