"""Stop: where a worker is cut short, and where it finishes first."""

from __future__ import annotations

import signal

import pytest

from rlzoo.tuning.study.stopping import Stop, Stopped


def ask(stop: Stop) -> None:
    stop._on_signal(signal.SIGTERM, None)


def test_an_interruptible_section_is_left_at_once() -> None:
    stop, reached = Stop(), []
    with pytest.raises(Stopped), stop.interruptible():
        reached.append("before")
        ask(stop)
        reached.append("after")
    assert reached == ["before"]
    assert stop.requested


def test_elsewhere_a_request_waits_for_the_next_section() -> None:
    stop, reached = Stop(), []
    ask(stop)
    reached.append("outside")
    with pytest.raises(Stopped), stop.interruptible():
        reached.append("inside")
    assert reached == ["outside"]


def test_a_held_part_is_finished_first() -> None:
    stop, reached = Stop(), []
    with pytest.raises(Stopped), stop.interruptible():
        with stop.held():
            ask(stop)
            reached.append("held")
        reached.append("after")
    assert reached == ["held"]


def test_held_outside_of_a_section_raises_nothing() -> None:
    stop = Stop()
    with stop.held():
        ask(stop)
    assert stop.requested


def test_cleaning_up_is_not_cut_short_by_a_second_request() -> None:
    stop, cleaned = Stop(), []
    with pytest.raises(Stopped), stop.interruptible():
        try:
            ask(stop)
        finally:
            ask(stop)
            cleaned.append(True)
    assert cleaned == [True]


def test_a_stop_is_not_taken_for_a_failure() -> None:
    assert not issubclass(Stopped, Exception)
