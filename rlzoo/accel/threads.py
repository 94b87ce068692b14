"""How many threads PyTorch trains with: as many as the machine allows, and no more than are faster.

A second thread makes a gradient step on wide networks or images faster while a core is free for it. Where
another process has that core, each parallel region waits until the scheduler lets the second thread run: a
gradient step of SAC (256 x 256, batches of 256) on two cores took 4.5 ms with two threads and 6.9 ms with one
on an idle machine, and 150 ms and 5.5 ms beside one other busy process. So the count is measured:
see `ThreadTuner`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeVar

import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.matmul_precision import (
    LEAST_MULTIPLICATIONS,
    keep_backends,
    onednn_is_faster,
    products_by_onednn,
    release_backends,
)
from rlzoo.accel.switch import enabled
from rlzoo.core.cpu_cores import IdleCores, available_cores, thread_limit
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import is_image_space

T = TypeVar("T")

ON = enabled("threads")
ONEDNN = enabled("onednn")
FLUSH_DENORMALS = enabled("flush_denormals")

MANY_MULTIPLICATIONS = 256 * 256 * 256
"""Of a batch with the largest matrix of a network: what a second thread may make faster."""

TRIAL = 10  # steps of a trial
PATIENCE = 1.5  # a trial ends early when it has taken the usual time of so many trials
UP, DOWN = 0.95, 1.0  # of the usual time: what more threads must stay below, and fewer threads
SUDDEN = 2.0  # steps that take so many times as long as usual have a cause
WINDOW, ENOUGH = 16, 8  # steps that the usual time is read from, and the fewest
SHARE = 0.005  # of the training time that trials may cost
LOOK = 1.0  # seconds between two looks for idle cores
SHORTEST, LONGEST = 1.0, 64.0  # seconds until a count that lost is tried again; doubled each time


# ---------------------------------------------------------------------- what is fastest


class ThreadTuner:
    """The number of threads of the steps of a training, adapted to what the machine does meanwhile.

    A step is a gradient step, or acting on images where cores are left for it. Outside of steps the number
    of threads is `outside`, and outside of `learn` nothing is timed or changed. If a callback sets another
    number, that holds from then on. Training begins with one thread. A trial of twice or half as many takes
    ten steps, or less when they turn out slow, and is decided by their mean time without the slowest one:

    - More threads are tried when cores have been idle, from the first steps on. After they have lost, they
      are tried again after a second at the earliest; each loss in a row doubles that, up to a minute. Without
      idle cores they are tried once a minute.
    - Fewer threads are tried when steps suddenly take twice their usual time, which two slow steps in sixteen
      are enough for, and otherwise once in 16 to 64 seconds.

    Trials begin only while all of them together have cost less than 0.5% of the training time; those after a
    sudden slowdown are free to begin. Steps that compile are left out of trials, and of their cost.

    :param limit: the most threads; 1: no step is timed
    :param phases: what is timed and may use more threads: `"update"`, `"act"`
    :param set_threads: called with the number of threads
    :param idle_cores: how many cores were idle since it was called last; None: unknown
    :param by_onednn: let oneDNN compute the matrix products of `"update"`, timed or not; acting has few rows
    :param most_acting: most threads that act; while there are more, one thread acts, which is not timed.
        PyTorch's threads spin for some milliseconds after an operation, on cores that threads and processes
        of environments need: when two threads acted, PPO on eight Pong games was 0.88 to 0.96 times as fast
        on two cores.
    :param get_threads: returns what `set_threads` has set
    """

    def __init__(
        self,
        limit: int = 1,
        phases: Collection[str] = ("update",),
        clock: Callable[[], float] = time.perf_counter,
        set_threads: Callable[[int], None] | None = None,
        idle_cores: Callable[[], float | None] | None = None,
        by_onednn: bool = False,
        most_acting: float = math.inf,
        get_threads: Callable[[], int] = lambda: torch.get_num_threads(),
    ) -> None:
        self.limit, self.phases, self.clock, self.by_onednn = limit, frozenset(phases), clock, by_onednn
        self.most_acting = most_acting
        self.set_threads, self.get_threads = set_threads or set_num_threads, get_threads
        self.idle_cores = idle_cores or (IdleCores() if limit > 1 else lambda: None)
        self.is_running = False  # inside of `learn`
        self.outside = self.current = self.before = 1  # threads between steps, now, and before `learn`
        self.threads = 1  # the present choice
        self.seconds: dict[int, float] = {}  # spent in steps, by their number of threads
        self.n_timed = 0  # of steps inside of each other only the innermost are timed
        self.ignored = False  # whether the present step is not to be judged
        self.trial: Trial | None = None
        self.windows: dict[str, deque[float]] = {}
        self.usual: dict[str, float] = {}
        self.to_skip = dict.fromkeys(self.phases, 2)  # the first steps of all allocate and compile
        self.began: float | None = None
        self.chosen_at = self.next_look = self.next_up = self.next_down = self.next_alarm = 0.0
        self.up_wait, self.down_wait, self.alarm_wait = SHORTEST, SHORTEST * 16, SHORTEST
        self.spent = 0.0  # seconds that trials cost

    @property
    def is_active(self) -> bool:
        return self.limit > 1 and self.is_running

    @property
    def present(self) -> int:
        """Number of threads of the present step: the choice, or what is tried."""
        return self.trial.threads if self.trial else self.threads

    def summary(self) -> str:
        """Return which numbers of threads were used, with their shares of the time in steps."""
        total = sum(self.seconds.values())
        used = {n: seconds / total for n, seconds in sorted(self.seconds.items()) if seconds > 0.001 * total}
        if len(used) < 2:
            threads = next(iter(used), self.outside)
            return f"{threads} thread{'s' if threads > 1 else ''}"
        return ", ".join(f"{share:.0%} with {n} thread{'s' if n > 1 else ''}" for n, share in used.items())

    def start(self, n: int, before: int = 1) -> None:
        """Begin a training with `n` threads; `before` is the number that is set afterwards."""
        self.is_running, self.outside, self.current, self.before = True, n, n, before
        _running.append((threading.get_ident(), self))
        if self.by_onednn:
            keep_backends()
        if n != self.get_threads() or n > 1:
            self.set_threads(n)

    def stop(self) -> bool:
        """End a training; return whether the number of threads is still what was set here."""
        me, was_in_charge, self.is_running = threading.get_ident(), self.is_in_charge, False
        _running.remove((me, self))
        if all(thread != me for thread, _ in _running):
            restore_float_modes()
        if self.by_onednn:
            release_backends()
        return was_in_charge

    # ------------------------------------------------------------------ timing

    def timed(self, batches: Iterable[T]) -> Iterable[T]:
        """Yield batches; what is done with each is a step of the phase `"update"`."""
        steps = self._timed(batches) if self.is_active else batches
        return _with_products_by_onednn(steps) if self.by_onednn and self.is_running else steps

    def call(self, phase: str, function: Callable[..., T], *args: Any) -> T:
        """Call a function as a step, unless it holds steps itself; denormal numbers are zero in updates."""
        if phase not in self.phases or (phase == "act" and self.present > self.most_acting):
            return function(*args)
        if phase == "act":
            return self._call(phase, function, *args)
        by_onednn = self.by_onednn and self.is_running
        with denormals_as_zero(), products_by_onednn() if by_onednn else nullcontext():
            return self._call(phase, function, *args)

    def _call(self, phase: str, function: Callable[..., T], *args: Any) -> T:
        if not (self.is_active and self.is_in_charge):
            return function(*args)
        before, n_timed, began = self._enter(), self.n_timed, self.clock()
        try:
            result = function(*args)
            seconds = self.clock() - began
        finally:
            self._leave(before)
        if self.n_timed == n_timed:
            self.record(phase, seconds)
        return result

    def stepping(self, phase: str, function: Callable[..., T]) -> Callable[..., T]:
        """Return a function whose calls are steps of a phase; the function itself where that adds nothing."""
        is_step = phase in self.phases and (self.is_active or (self.by_onednn and phase == "update"))
        return functools.partial(self.call, phase, function) if is_step else function

    def _timed(self, batches: Iterable[T]) -> Iterator[T]:
        for batch in batches:
            if not self.is_in_charge:
                yield batch
                continue
            before, began = self._enter(), self.clock()
            try:
                yield batch
                seconds = self.clock() - began
            finally:
                self._leave(before)
            self.record("update", seconds)

    def ignore_step(self) -> None:
        """Leave the present step out: it compiles, once for each number of threads."""
        self.ignored = True

    @property
    def is_in_charge(self) -> bool:
        """Whether the present number of threads is what this tuner, or the beginning of `learn`, has set."""
        return self.get_threads() == self.current

    def _enter(self) -> int:
        """Set the number of threads of a step; return what it was before."""
        before, self.current = self.current, self.present
        self.set_threads(self.current)
        return before

    def _leave(self, before: int) -> None:
        """Set the number of threads after a step, unless the step has set one, or outlives its training."""
        if self.is_running and self.is_in_charge:
            self.current = before
            self.set_threads(before)

    # ------------------------------------------------------------------ decisions

    def record(self, phase: str, seconds: float) -> None:
        """Take the time of a step, and begin, continue or decide a trial."""
        now = self.clock()
        self.n_timed += 1
        if self.began is None:
            self.began = self.next_up = now
            self.idle_cores()  # measures from now on
        if self.ignored:
            self.ignored = False
            return
        self.seconds[self.present] = self.seconds.get(self.present, 0.0) + seconds
        if self.to_skip[phase]:
            self.to_skip[phase] -= 1
            return
        if self.trial is None:
            self._watch(phase, seconds, now)
        elif phase == self.trial.phase and self.trial.is_over_after(seconds):
            self._decide(self.trial, now)

    def _watch(self, phase: str, seconds: float, now: float) -> None:
        window = self.windows.setdefault(phase, deque(maxlen=WINDOW))
        window.append(seconds)
        if len(window) < ENOUGH:
            return
        mean = mean_without_slowest(window)
        usual = self.usual.setdefault(phase, mean)
        if self.threads > 1 and mean > SUDDEN * usual and now >= self.next_alarm:
            self.trial = Trial(phase, fewer(self.threads), mean, is_sudden=True)
            return
        self.usual[phase] += 0.05 * (mean - usual)
        if phase == "update" and now >= self.next_look:
            self.next_look = now + LOOK
            if (threads := self._to_try(now)) is not None:
                self.trial = Trial(phase, threads, mean)

    def _to_try(self, now: float) -> int | None:
        """Return the number of threads to try next; None: try none now."""
        more = min(2 * self.threads, self.limit)
        idle = self.idle_cores() if self.threads < self.limit else None
        if self.began is None or self.spent > SHARE * (now - self.began):
            return None
        if more > self.threads and now >= self.next_up:
            is_free = idle is None or idle >= (more - self.threads) / 2
            if is_free or now >= self.next_up + LONGEST - self.up_wait:
                return more
        return fewer(self.threads) if self.threads > 1 and now >= self.next_down else None

    def _decide(self, trial: Trial, now: float) -> None:
        """Keep the faster number of threads, and say when the other one is tried again."""
        self.trial = None
        mean = mean_without_slowest(trial.times)
        is_up = trial.threads > self.threads
        won = len(trial.times) == TRIAL and mean < trial.reference * (UP if is_up else DOWN)
        self.spent += max(0.0, sum(trial.times) - len(trial.times) * trial.reference)
        if won != is_up:  # more threads are not faster
            if self.threads > 1 and now - self.chosen_at > LONGEST:
                self.up_wait = SHORTEST
            self.next_up = now + self.up_wait
            self.up_wait = min(2 * self.up_wait, LONGEST)
            self.idle_cores()  # measures from now on
        if won:
            self.threads, self.chosen_at = trial.threads, now
            self.windows = {trial.phase: deque(trial.times, maxlen=WINDOW)}
            self.usual = {trial.phase: mean}
            self.next_look, self.next_down = now, now + (self.down_wait if is_up else 0.0)
            self.down_wait, self.alarm_wait = SHORTEST * 16, SHORTEST
        elif trial.is_sudden:  # the steps have become larger
            self.usual[trial.phase] = trial.reference
            self.next_alarm = now + self.alarm_wait
            self.alarm_wait = min(2 * self.alarm_wait, LONGEST)
        elif not is_up:
            self.next_down = now + self.down_wait
            self.down_wait = min(2 * self.down_wait, LONGEST)


_running: list[tuple[int, ThreadTuner]] = []
"""What chooses the number of threads of the trainings at present, each with its Python thread."""


def threads_outside() -> int:
    """Return the number of threads as a script has set it, also while another Python thread trains.

    A new Python thread takes the number that was set last, be it that of another training.
    """
    n, me = torch.get_num_threads(), threading.get_ident()
    others = [tuner for thread, tuner in _running if thread != me]
    is_own = len(others) < len(_running) or all(n not in (a.outside, a.current) for a in others)
    return n if is_own else others[0].before


@dataclass
class Trial:
    """Steps with another number of threads.

    :param phase: the steps that are compared
    :param reference: seconds that a step takes with the present number
    :param is_sudden: begun because steps took much longer than usual
    """

    phase: str
    threads: int
    reference: float
    is_sudden: bool = False
    times: list[float] = field(default_factory=list)

    def is_over_after(self, seconds: float) -> bool:
        self.times.append(seconds)
        return len(self.times) == TRIAL or sum(self.times) > PATIENCE * TRIAL * self.reference


def _with_products_by_onednn(batches: Iterable[T]) -> Iterator[T]:
    for batch in batches:
        with products_by_onednn():
            yield batch


def fewer(threads: int) -> int:
    """Return the next smaller number of threads: 1, 2, 4, ..."""
    return 1 << (threads - 1).bit_length() - 1


def mean_without_slowest(times: Collection[float]) -> float:
    """Return the mean without the slowest, which a pause of the machine may have caused."""
    return (sum(times) - max(times)) / (len(times) - 1) if len(times) > 1 else sum(times)


# ---------------------------------------------------------------------- modes of threads


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Flush results below the smallest normal number (1.2e-38 in float32) to zero in the calling thread.

    Behind a ReLU many gradients are exactly zero, and Adam's averages of them become denormal within a
    thousand steps; after a million steps of PPO on Hopper-v5, a quarter of them are. Arithmetic with those
    takes many times as long: a step of DQN's optimiser on a network of two layers of 256 took 1.1 ms instead
    of 0.05 ms. Of no effect on processors without such a mode.
    """
    if not FLUSH_DENORMALS:
        yield
        return
    was_on = sys.float_info.min / 2 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_on)


class _Workers(threading.local):
    """PyTorch's worker threads that belong to a Python thread."""

    n_flushing = 1  # how many threads flush denormal numbers, with the calling one


_workers = _Workers()
ENVIRONMENT_BYTES = 128  # more than any `fenv_t` takes


def set_num_threads(n: int) -> None:
    """Set PyTorch's number of threads (0.4 microseconds); new worker threads flush denormal numbers.

    `denormals_as_zero` reaches the thread that calls it, and half of the arithmetic is theirs: without this,
    TD3 with two threads takes 1.08 times as long, and compiled 1.28 times. OpenMP ends worker threads when
    fewer are asked for, except that one thread leaves them asleep.
    """
    torch.set_num_threads(n)
    if n > _workers.n_flushing and FLUSH_DENORMALS:
        with denormals_as_zero():
            _share_float_modes(n)
    if n > 1:
        _workers.n_flushing = n


def restore_float_modes() -> None:
    """Let worker threads that `set_num_threads` has started treat denormals as the calling thread does."""
    if _workers.n_flushing > 1 and FLUSH_DENORMALS:
        _share_float_modes(_workers.n_flushing)
    _workers.n_flushing = 1


def _share_float_modes(n: int) -> None:
    """Give worker threads the floating-point environment of the calling thread.

    A new thread takes that of the one that starts it, and those that run already are given it in a parallel
    region of OpenMP.
    """
    try:
        library = ctypes.CDLL(None)
        environment = ctypes.create_string_buffer(ENVIRONMENT_BYTES)
        library.fegetenv(environment)
        library.GOMP_parallel(library.fesetenv, environment, n, 0)
    except (AttributeError, OSError):  # another OpenMP than GNU's or LLVM's: new threads only
        torch.ones(n * 2**15).add_(1)  # 2**15 elements for each thread: fewer are not shared out


# ---------------------------------------------------------------------- of a training


def most_multiplications(model: Any, *, in_minibatches: bool = False) -> float:
    """Return how many one product of an update has, or more; inf with images.

    :param in_minibatches: where an algorithm learns from minibatches and from whole rollouts, as TRPO does,
        consider the minibatches alone, which are more
    """
    if has_images(model):
        return math.inf
    rows = getattr(model.config, "batch_size", None)
    if rows is None or not in_minibatches:
        whole = getattr(model, "whole_rollouts", False)
        rows = model.config.n_steps * model.n_envs if whole else rows or 1
    return rows * max((parameter.numel() for parameter in model.policy.parameters()), default=0)


def has_images(model: Any) -> bool:
    """Return whether observations are images, alone or in a Dict, or the policy is convolutional."""
    space = model.observation_space
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else (space,)
    return any(map(is_image_space, parts)) or any(isinstance(m, nn.Conv2d) for m in model.policy.modules())


class Threaded:
    """Model that sets PyTorch's number of threads while it trains, and may accelerate its gradient steps."""

    num_threads: int | None = None
    """PyTorch's number of threads in `learn`; None: as many as are fastest at the time. Files lack it."""
    most_threads: int | None = None
    """The most threads where `num_threads` is None; None: `torch.get_num_threads()`."""
    threads: ThreadTuner = ThreadTuner()
    cuda_graphs: str = "auto"
    """Whether `learn` captures gradient steps as CUDA graphs: "on", "off", or "auto", where that is safe."""
    compile_networks: bool = False
    """Whether `learn` compiles gradient steps with `torch.compile`."""
    compiled_step: Any = None
    """The compiled gradient step of the last training."""

    def accelerated(self) -> AbstractContextManager[None]:
        """Return the context of `learn` in which gradient steps are captured or compiled, if asked for."""
        model: Any = self
        graphs = self.cuda_graphs
        if graphs == "auto" and model.device.type != "cuda":
            graphs = "off"
        if graphs == "off" and not self.compile_networks:
            return nullcontext()
        from rlzoo.accel.custom_code import has_custom_code
        from rlzoo.accel.gpu.acceleration import accelerated

        def is_safe() -> bool:
            return self.cuda_graphs == "on" or not has_custom_code(model)

        return accelerated(model, graphs if is_safe() else "off", is_safe)

    @contextmanager
    def training_threads(self) -> Iterator[None]:
        """Set PyTorch's number of threads while the model trains; afterwards it is what it was.

        It is `num_threads` where that is not None. Otherwise, on the CPU, it is 1, and in the steps of wide
        networks what `threads` finds fastest, at most `most_threads` (None: what it was before) and
        `thread_limit`. There, and with half as many multiplications, oneDNN computes matrix products where it
        is faster. A number that a callback sets holds from then on, also afterwards.

        :raises UserError: `num_threads` is not a positive integer
        """
        model: Any = self
        fixed, before, last = checked_num_threads(self.num_threads), threads_outside(), self.threads
        tuner = self.threads = self._tuner(before, fixed)
        if ON and model.device.type == "cpu":
            n = 1
        else:
            n = before if self.most_threads is None else min(self.most_threads, thread_limit())
        tuner.start(fixed or n, before)
        try:
            yield
        finally:
            if tuner.stop():
                torch.set_num_threads(before)
            if last.is_running:  # of a training in whose callback this one was
                self.threads = last

    def _tuner(self, before: int, fixed: int | None) -> ThreadTuner:
        """Return what chooses the number of threads; that of the last training, unless something changed."""
        model: Any = self
        limit, by_onednn, phases, most_acting = 1, False, ["update"], math.inf
        if model.device.type == "cpu":
            is_tuned = ON and fixed is None and most_multiplications(model) >= MANY_MULTIPLICATIONS
            limit = min(self.most_threads or before, thread_limit()) if is_tuned else 1
            usual = most_multiplications(model, in_minibatches=True)
            by_onednn = ONEDNN and usual >= LEAST_MULTIPLICATIONS and onednn_is_faster()
        if limit > 1 and has_images(model):
            phases, env = ["update", "act"], model.get_env()
            n_workers = 0 if env is None else env.unwrapped.env_workers
            most_acting = max(1, available_cores() - n_workers + 1)  # this thread waits while they step
        last: ThreadTuner | None = vars(self).get("threads")
        if (
            last
            and not last.is_running
            and (last.limit, last.by_onednn, last.most_acting) == (limit, by_onednn, most_acting)
        ):
            return last
        return ThreadTuner(limit, phases, by_onednn=by_onednn, most_acting=most_acting)


def checked_num_threads(num_threads: object) -> int | None:
    """Return a fixed number of threads; None for None, and for -1 as on the command line: it is not fixed.

    :raises UserError: it is anything else but a positive integer
    """
    if num_threads is None or num_threads == -1:
        return None
    if isinstance(num_threads, bool) or not isinstance(num_threads, Integral) or num_threads < 1:
        raise UserError(f"num_threads must be a positive integer or None, not {num_threads!r}")
    return int(num_threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Set PyTorch's number of threads to 1 inside: with another number, results differ in their last bits.

    Among them are those of the QR decomposition of the orthogonal initialisation.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
