"""Functions that scripts call: schedules by their older names, training frequencies, checks, logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rlzoo
from rlzoo.metrics.logger import KVWriter, Logger


@pytest.mark.parametrize(
    ("name", "arguments", "at_half"),
    [("get_linear_fn", (1.0, 0.0, 1.0), 0.5), ("constant_fn", (2.0,), 2.0), ("get_schedule_fn", (3,), 3.0)],
)
def test_older_schedule_names_warn_and_work(name: str, arguments: Any, at_half: float) -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        schedule = getattr(rlzoo, name)(*arguments)
    assert schedule(0.5) == at_half


def test_schedules_show_their_numbers() -> None:
    schedule = rlzoo.FloatSchedule(rlzoo.LinearSchedule(1.0, 0.0, 0.5))
    assert repr(schedule) == "FloatSchedule(LinearSchedule(start=1.0, end=0.0, end_fraction=0.5))"


def test_train_freq_counts_steps_or_episodes() -> None:
    unit = rlzoo.TrainFrequencyUnit
    more = rlzoo.should_collect_more_steps
    assert more(rlzoo.TrainFreq(4, unit.STEP), 3, 9) and not more(rlzoo.TrainFreq(4, unit.STEP), 4, 0)
    assert not more(rlzoo.TrainFreq(1, unit.EPISODE), 3, 1)
    with pytest.raises(rlzoo.UserError, match="TrainFrequencyUnit"):
        more(rlzoo.TrainFreq(1, "steps"), 0, 0)
    model = rlzoo.DQN("MlpPolicy", "CartPole-v1", train_freq=rlzoo.TrainFreq(2, unit.EPISODE))
    assert tuple(model.train_freq) == (2, unit.EPISODE)


def test_parameters_are_found_by_parts_of_their_names() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    found = rlzoo.get_parameters_by_name(module, ["running_", "bias"])
    assert len(found) == 4 and found[-1] is not None
    found[2].add_(1)  # running_mean, in place
    assert module[1].running_mean.tolist() == [1, 1]


def test_small_functions_do_what_they_say() -> None:
    assert np.isnan(rlzoo.safe_mean([])) and rlzoo.safe_mean([1, 2]) == 1.5
    with pytest.raises(ValueError):
        list(rlzoo.zip_strict([1], [1, 2]))
    obs = rlzoo.obs_as_tensor({"a": np.zeros(2)}, "cpu")
    assert obs["a"].shape == (2,)
    with pytest.raises(TypeError):
        rlzoo.obs_as_tensor("a", "cpu")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    rlzoo.update_learning_rate(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_spaces_are_compared() -> None:
    env = gymnasium.make("CartPole-v1")
    rlzoo.check_for_correct_spaces(env, env.observation_space, env.action_space)
    with pytest.raises(rlzoo.UserError, match="action_space is Discrete"):
        rlzoo.check_for_correct_spaces(env, env.observation_space, spaces.Discrete(3))
    one, other = spaces.Box(0, 1, (2,)), spaces.Box(0, 1, (3,))
    rlzoo.check_shape_equal(one, spaces.Box(5, 6, (2,)))
    with pytest.raises(AssertionError, match="same shape"):
        rlzoo.check_shape_equal(spaces.Dict({"a": one}), spaces.Dict({"a": other}))


def test_the_latest_run_is_found(tmp_path: Path) -> None:
    for name in ("a[1]_2", "a[1]_10", "a[1]_x", "b_11"):
        (tmp_path / name).mkdir()
    assert rlzoo.get_latest_run_id(tmp_path, "a[1]") == 10
    assert rlzoo.get_latest_run_id(tmp_path / "none", "a") == 0


def test_own_writers_get_an_entry_for_every_name() -> None:
    class Keep(KVWriter):
        def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
            self.rows = list(zip(sorted(key_values), sorted(key_excluded.items()), strict=True))

    keep = Keep()
    logger = Logger(None, [keep])
    logger.record("a", 1)
    logger.record("b", 2, exclude="csv")
    logger.dump()
    assert keep.rows == [("a", ("a", ())), ("b", ("b", ("csv",)))]


def test_folders_of_older_environment_variables(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("RLZOO_LOGDIR", raising=False)
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    assert rlzoo.configure_logger().get_dir() == str(tmp_path / "logs")
    assert rlzoo.configure(format_strings=["csv"]).get_dir() == str(tmp_path / "logs")
