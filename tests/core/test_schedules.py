"""Schedules: their values, their text, and what is refused."""

from __future__ import annotations

import pytest

from rlzoo.core.errors import UserError
from rlzoo.core.schedules import (
    ConstantSchedule,
    CosineSchedule,
    DoubleLinearConSchedule,
    DoubleMiddleDropSchedule,
    ExponentialSchedule,
    FloatSchedule,
    LinearSchedule,
    MiddleDropSchedule,
    PiecewiseSchedule,
    lr_schedule,
    make_schedule,
    schedule_text,
)

QUARTERS = [1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (ConstantSchedule(0.2), [0.2] * 5),
        (LinearSchedule(1.0, 0.0), QUARTERS),
        (LinearSchedule(1.0, 0.2, 0.5), [1.0, 0.6, 0.2, 0.2, 0.2]),
        (CosineSchedule(2.0), [2.0, 1.7071067811865475, 1.0, 0.2928932188134525, 0.0]),
        (ExponentialSchedule(1.0, 1 / 16), [1.0, 0.5, 0.25, 0.125, 0.0625]),
        (PiecewiseSchedule(((0, 1.0), (0.5, 0.0), (1, 2.0))), [1.0, 0.5, 0.0, 1.0, 2.0]),
        (PiecewiseSchedule(((0.25, 1.0), (0.5, 0.0)), outside_value=7.0), [7.0, 1.0, 0.0, 7.0, 7.0]),
        (DoubleLinearConSchedule(2.0), [2.0, 1.0, 0.25, 0.25, 0.25]),
        (MiddleDropSchedule(2.0), [2.0, 1.5, 0.15, 0.15, 0.15]),
        (DoubleMiddleDropSchedule(2.0), [2.0, 1.5, 0.15, 0.15, 0.25]),
        (FloatSchedule(lambda progress: 3), [3.0] * 5),
    ],
)
def test_values_over_training(schedule, values):
    assert [schedule(progress) for progress in QUARTERS] == pytest.approx(values, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("lin_3e-4", LinearSchedule(3e-4, 0.0)),
        ("lin_3e-4_1e-5", LinearSchedule(3e-4, 1e-5)),
        ("lin_1_0.1_0.5", LinearSchedule(1.0, 0.1, 0.5)),
        ("cos_3e-4", CosineSchedule(3e-4)),
        ("cos_3e-4_1e-5", CosineSchedule(3e-4, 1e-5)),
        ("exp_3e-4_1e-5", ExponentialSchedule(3e-4, 1e-5)),
        ("const_0.2", ConstantSchedule(0.2)),
        ("1e-3", ConstantSchedule(1e-3)),
        ("piecewise_0:1_0.5:0.1_1:0", PiecewiseSchedule(((0, 1), (0.5, 0.1), (1, 0)))),
        ("piecewise_0.2:1_0.5:0.1_outside:2", PiecewiseSchedule(((0.2, 1), (0.5, 0.1)), 2.0)),
        ("middle_drop_7e-4", MiddleDropSchedule(7e-4)),
        ("double_linear_con_7e-4", DoubleLinearConSchedule(7e-4)),
        ("double_middle_drop_7e-4", DoubleMiddleDropSchedule(7e-4)),
    ],
)
def test_text_and_schedule_are_the_same_thing(text, schedule):
    assert make_schedule(text) == schedule
    assert make_schedule(schedule_text(schedule)) == schedule
    assert schedule_text(FloatSchedule(schedule)) == schedule_text(schedule)


def test_short_text_is_written_short():
    assert schedule_text(LinearSchedule(0.001, 0.0)) == "lin_0.001"
    assert schedule_text(ConstantSchedule(0.5)) == 0.5


def test_numbers_and_callables():
    assert make_schedule(3) == ConstantSchedule(3.0)
    schedule = LinearSchedule(1.0, 0.0)
    assert make_schedule(schedule) is schedule
    foreign = make_schedule(lambda progress: 2 * progress)
    assert foreign(0.5) == 1.0 and isinstance(foreign(1), float)
    assert schedule_text(foreign) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("line_3e-4", "did you mean 'lin_...'"),
        ("linear_3e-4", "did you mean"),
        ("banana_0.1", "is not a schedule"),
        ("lin", "did you mean 'lin_...'"),
        ("lin_", "is not a finite number"),
        ("lin_fast", "'fast' is not a finite number"),
        ("lin_nan", "is not a finite number"),
        ("lin_1_0_0.5_3", "takes 1 to 3 numbers"),
        ("lin_1_0_0", "end_fraction"),
        ("exp_1", "takes 2 numbers"),
        ("exp_1_0", "two positive"),
        ("const_1_2", "takes 1 number"),
        ("piecewise_0:1", "at least two points"),
        ("piecewise_0:1_0.5:2", "needs an outside value"),
        ("piecewise_0.5:1_0:2_1:0", "rising"),
        ("piecewise_1_2", "not a point `fraction:value`"),
        (True, "is not a finite number"),
        (None, "is not a finite number"),
        (float("inf"), "is not a finite number"),
        ([1, 2], "is not a finite number"),
        (dict, "is not a finite number"),
    ],
)
def test_what_is_no_schedule_is_refused_on_one_line(value, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")) as caught:
        make_schedule(value)
    assert "\n" not in str(caught.value)


def test_lr_schedule_names_of_stable_baselines():
    for name in ("constant", "linear", "double_linear_con", "middle_drop", "double_middle_drop"):
        assert lr_schedule(name, 0.5)(1.0) == 0.5
    with pytest.raises(UserError, match="did you mean 'middle_drop'"):
        lr_schedule("midle_drop", 0.5)
