"""Trainings that take turns in the threads of one process, and compute together what they can.

Each training runs unchanged in a thread. Exactly one thread runs at a time: the others wait for their turn.
At a few points a training does not compute, but asks for a result (`Seat.ask`) and passes its turn on. When
all trainings wait for a result, the requests of the same kind are computed at once.

Threads, since PyTorch's gradient mode and number of threads belong to a thread. A change of turns takes 12
microseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from rlzoo.stacked.random_streams import RandomStreams

Compute = Callable[[Sequence[object]], Sequence[object]]
"""Computes the results of several requests, given what each is about."""


@dataclass(eq=False, slots=True)
class Request:
    """A result that a training waits for.

    :param compute: computes the results of all requests with an equal `key`
    :param key: what requests must share to be computed at once
    :param urgency: requests of the lowest are computed first, so that the others wait for their like
    :param about: what the result is computed from
    """

    compute: Compute
    key: Hashable
    urgency: int
    about: object
    result: object = None
    error: BaseException | None = None
    is_done: bool = False


class Seat:
    """A training that takes turns.

    :param turns: the turns that it takes
    """

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.wake = threading.Lock()
        self.wake.acquire()
        self.streams = RandomStreams()
        self.request: Request | None = None
        self.has_ended = False
        self.failure: BaseException | None = None

    @property
    def can_continue(self) -> bool:
        """Whether it does not wait for a result."""
        return not self.has_ended and (self.request is None or self.request.is_done)

    def ask(self, compute: Compute, key: Hashable, urgency: int, about: object) -> object:
        """Return the result of a request; meanwhile other trainings have their turns.

        :raises KeyboardInterrupt: the trainings are to end
        """
        self._check_stopped()
        request = self.request = Request(compute, key, urgency, about)
        while not request.is_done:
            self.turns.compute_if_all_wait()
            if not request.is_done:
                self.turns.pass_on(self)
                self._check_stopped()
        self.request = None
        if request.error is not None:
            raise request.error
        return request.result

    def _check_stopped(self) -> None:
        if self.turns.is_stopping:
            self.request = None
            raise KeyboardInterrupt


class Turns:
    """Runs trainings in turns, see the module.

    :param n_seats: number of trainings
    """

    def __init__(self, n_seats: int) -> None:
        self.seats = [Seat(self) for _ in range(n_seats)]
        self.is_stopping = False
        self.n_together = self.n_alone = 0  # requests that were computed at once with others, and alone
        self._all_ended = threading.Semaphore(0)

    def start(self, training: Callable[[int, Seat], None]) -> None:
        """Start `training(index, seat)` for each seat; see `wait`."""
        for index, seat in enumerate(self.seats):
            name = f"training-{index}"
            threading.Thread(target=self._body, args=(training, index, seat), name=name, daemon=True).start()
        self.seats[0].wake.release()

    def wait(self) -> None:
        """Wait until all trainings have ended."""
        self._all_ended.acquire()
        self._all_ended.release()

    def stop(self) -> None:
        """Let each training end with KeyboardInterrupt at its next request."""
        self.is_stopping = True

    def _body(self, training: Callable[[int, Seat], None], index: int, seat: Seat) -> None:
        seat.wake.acquire()
        seat.streams.enter()
        try:
            training(index, seat)
        except BaseException as error:
            seat.failure = error
        finally:
            seat.has_ended, seat.request = True, None
            if (following := self._following(seat)) is not None:
                following.wake.release()
            else:
                self._all_ended.release()

    def pass_on(self, seat: Seat) -> None:
        """Give the turn to another training, and return when it is this one's again."""
        following = self._following(seat)
        if following is None or following is seat:
            return
        seat.streams.leave()
        following.wake.release()
        seat.wake.acquire()
        seat.streams.enter()

    def _following(self, seat: Seat) -> Seat | None:
        """Return the training whose turn is next: one that can continue, or else any that waits."""
        start = self.seats.index(seat) + 1
        others = self.seats[start:] + self.seats[: start - 1]
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
