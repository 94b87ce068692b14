"""Trainings that take turns in one thread, and compute together what they can.

Each training runs unchanged in a greenlet, which has its own call stack. At a few points a training does not
compute, but asks for a result (`Seat.ask`) and passes its turn on. When all trainings wait for a result, the
requests of the same kind are computed at once.

Greenlets, since threads would take turns about ten times as slowly. What PyTorch keeps for a thread (gradient
mode, inference mode, denormal numbers) or the process (which library computes products) is put back with
each turn, and random generators as well.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from greenlet import greenlet

from rlzoo.accel.matmul_precision import is_by_onednn, products_as_outside, products_by_onednn
from rlzoo.stacked.random_streams import RandomStreams

STEP, ACT = 0, 1
"""Kinds of requests. Gradient steps come first, since a training that acts has finished its own."""

Compute = Callable[[Sequence[object]], Sequence[object]]
"""Computes the results of several requests, given what each is about."""


@dataclass(eq=False, slots=True)
class Request:
    """A result that a training waits for.

    :param compute: computes the results of all requests with an equal `key`
    :param key: what requests must share to be computed at once
    :param urgency: (steps of the training so far, kind); the lowest is computed first, so that the others
        wait for their like
    :param about: what the result is computed from
    :param by_onednn: whether oneDNN computes products for the training that waits
    """

    compute: Compute
    key: Hashable
    urgency: tuple[int, int]
    about: object
    by_onednn: bool
    result: object = None
    error: BaseException | None = None
    is_done: bool = False


@contextmanager
def modes_of_thread(by_onednn: bool = False) -> Iterator[None]:
    """Set PyTorch's modes of the thread to the usual ones, and put those of this training back at the end.

    :param by_onednn: let oneDNN compute products
    """
    flushes = sys.float_info.min / 2 == 0.0
    try:
        if flushes:
            torch.set_flush_denormal(False)
        library = products_by_onednn() if by_onednn else nullcontext()
        with products_as_outside(), library, torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        if flushes != (sys.float_info.min / 2 == 0.0):
            torch.set_flush_denormal(flushes)


class Seat:
    """A training that takes turns.

    :param turns: the turns that it takes
    :param run: the training
    """

    stack: greenlet

    def __init__(self, turns: Turns, run: Callable[[Seat], None]) -> None:
        self.turns, self.run = turns, run
        self.streams = RandomStreams()
        self.request: Request | None = None
        self.has_ended = False
        self.failure: BaseException | None = None

    @property
    def can_continue(self) -> bool:
        """Whether it does not wait for a result."""
        return not self.has_ended and (self.request is None or self.request.is_done)

    def take(self) -> None:
        """Take the turn; return when it is the caller's again."""
        with modes_of_thread():
            self.stack.switch()

    def body(self) -> None:
        """Train; what the greenlet runs."""
        self.streams.enter()
        try:
            self.run(self)
        except BaseException as error:
            self.failure = error
        finally:
            self.has_ended, self.request = True, None

    def ask(self, compute: Compute, key: Hashable, urgency: tuple[int, int], about: object) -> object:
        """Return the result of a request; meanwhile other trainings have their turns.

        :raises KeyboardInterrupt: the trainings are to end
        """
        self.check_stopped()
        request = self.request = Request(compute, key, urgency, about, is_by_onednn())
        while not request.is_done:
            self.turns.compute_if_all_wait()
            if not request.is_done:
                self.turns.pass_on(self)
                self.check_stopped()
        self.request = None
        if request.error is not None:
            raise request.error
        return request.result

    def check_stopped(self) -> None:
        """:raises KeyboardInterrupt: the trainings are to end"""
        if self.turns.is_stopping:
            self.request = None
            raise KeyboardInterrupt


class Turns:
    """Runs trainings in turns, see the module.

    :param trainings: functions, each called with its seat
    """

    def __init__(self, trainings: Sequence[Callable[[Seat], None]]) -> None:
        self.seats = [Seat(self, training) for training in trainings]
        self.is_stopping = False
        self.n_together = self.n_alone = 0  # requests that were computed at once with others, and alone
        self._all_ended = threading.Semaphore(0)

    def start(self) -> None:
        """Start the trainings in a thread, so that signals reach the main one; see `wait`."""
        threading.Thread(target=self._run, name="trainings", daemon=True).start()

    def wait(self) -> None:
        """Wait until all trainings have ended."""
        self._all_ended.acquire()
        self._all_ended.release()

    def stop(self) -> None:
        """Let each training end with KeyboardInterrupt at its next request."""
        self.is_stopping = True

    def _run(self) -> None:
        """Let trainings begin and end; in between they pass their turns to each other."""
        try:
            for seat in self.seats:
                seat.stack = greenlet(seat.body)
            following: Seat | None = self.seats[0]
            while following is not None:
                following.take()  # returns when a training has ended
                following = self._following(self.seats[-1])
        finally:
            self._all_ended.release()

    def pass_on(self, seat: Seat) -> None:
        """Give the turn to another training, and return when it is this one's again."""
        following = self._following(seat)
        if following is None or following is seat:
            return
        seat.streams.leave()
        following.take()
        seat.streams.enter()

    def _following(self, seat: Seat) -> Seat | None:
        """Return the training whose turn is next: one that can continue, or else any that waits."""
        start = self.seats.index(seat) + 1
        others = self.seats[start:] + self.seats[:start]
        for other in others:
            if other.can_continue:
                return other
        return next((other for other in others if not other.has_ended), None)

    def compute_if_all_wait(self) -> None:
        """Compute the most urgent requests, if all trainings wait for a result."""
        running = [seat for seat in self.seats if not seat.has_ended]
        requests = [seat.request for seat in running if seat.request is not None]
        if len(requests) < len(running) or any(request.is_done for request in requests):
            return
        first = min(requests, key=lambda request: request.urgency)
        alike = [request for request in requests if request.key == first.key]
        try:
            with modes_of_thread(first.by_onednn):
                results = first.compute([request.about for request in alike])
        except Exception as error:
            for request in alike:
                request.error, request.is_done = error, True
            return
        if len(alike) > 1:
            self.n_together += len(alike)
        else:
            self.n_alone += 1
        for request, result in zip(alike, results, strict=True):
            request.result, request.is_done = result, True
