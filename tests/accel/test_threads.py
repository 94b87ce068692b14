"""The number of threads: what the machine allows, and what is fastest on a machine of made-up speed."""

from __future__ import annotations

import math
import pickle
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv

from rlzoo import A2C, DQN, PPO, SAC, TRPO, AtariWrapper, SubprocVecEnv, VecFrameStack, make_vec_env
from rlzoo.accel import threads
from rlzoo.accel.threads import ThreadTuner, Trial
from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import FakeImageEnv
from rlzoo.envs.make_vec_env import as_vec_env


class Machine:
    """A clock that steps advance, by a time that depends on the number of threads and on the moment."""

    def __init__(self, seconds: Callable[[int, float], float], limit: int = 2, idle: float | None = 1.0):
        self.now, self.seconds, self.idle, self.used = 100.0, seconds, idle, 1
        clock = (lambda: self.now, self.use, lambda: self.idle)
        self.tuner = ThreadTuner(limit, ("update",), *clock, get_threads=lambda: self.used)
        self.tuner.start(1)
        self.start, self.wasted, self.steps = self.now, 0.0, 0
        self.limit = limit

    def use(self, n: int) -> None:
        self.used = n

    def step(self) -> None:
        before = self.now

        def work() -> None:
            self.now += self.seconds(self.used, self.now - self.start)

        self.tuner.call("update", work)
        counts = range(1, self.limit + 1)
        self.wasted += self.now - before - min(self.seconds(n, before - self.start) for n in counts)
        self.steps += 1

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.step()


def free(n: int, _: float) -> float:
    return 0.0069 if n == 1 else 0.0045


def busy(n: int, _: float) -> float:
    return 0.0055 if n == 1 else 0.150


def test_two_threads_are_taken_on_a_free_machine():
    machine = Machine(free)
    machine.run(1.0)
    assert machine.tuner.threads == 2
    machine.run(60.0)
    assert machine.tuner.threads == 2


def test_steps_that_compile_do_not_decide_a_trial():
    machine, compiled = Machine(free), set()

    def work(kind):
        if (machine.used, kind) in compiled:
            machine.now += free(machine.used, 0.0)
        else:
            compiled.add((machine.used, kind))
            machine.tuner.ignore_step()
            machine.now += 2.0

    for step in range(100):
        machine.tuner.call("update", work, step % 2)  # as with delayed updates of the actor
    assert len(compiled) == 4 and machine.tuner.threads == 2
    assert sum(machine.tuner.seconds.values()) == pytest.approx(machine.now - machine.start - 8.0)


def test_one_thread_is_kept_on_a_busy_machine():
    machine = Machine(busy, idle=0.0)
    machine.run(1.0)
    assert machine.tuner.threads == 1


@pytest.mark.parametrize(
    ("seconds", "idle"), [(free, 1.0), (free, None), (busy, 1.0), (busy, None), (busy, 0.0)]
)
def test_the_wrong_count_costs_less_than_1_percent(seconds, idle):
    machine = Machine(seconds, idle=idle)
    machine.run(300.0)
    assert machine.wasted < 0.01 * 300


def test_a_busy_neighbour_is_noticed_within_a_second():
    machine = Machine(lambda n, t: free(n, t) if t < 30 else busy(n, t))
    machine.run(30.0)
    assert machine.tuner.threads == 2
    machine.idle = 0.0
    machine.run(1.0)
    assert machine.tuner.threads == 1


def test_two_threads_return_when_the_neighbour_ends():
    machine = Machine(lambda n, t: busy(n, t) if 30 < t < 60 else free(n, t))
    machine.run(30.0)
    machine.idle = 0.0
    machine.run(30.2)
    assert machine.tuner.threads == 1
    machine.idle = 1.0
    machine.run(5.0)
    assert machine.tuner.threads == 2


def test_two_threads_are_tried_without_idle_cores():
    machine = Machine(free, idle=0.0)
    machine.run(30.0)
    assert machine.tuner.threads == 1
    machine.run(40.0)
    assert machine.tuner.threads == 2


def test_trials_that_lose_become_rare():
    machine = Machine(lambda n, _: 0.005 * n, idle=1.0)
    tried = []
    machine.tuner.set_threads = lambda n: (tried.append(machine.now) if n > 1 else None, machine.use(n))
    machine.run(500.0)
    first = sum(time < 110 for time in tried)
    last = sum(time > 590 for time in tried)
    assert first >= 3 * threads.TRIAL // 2 and last <= threads.TRIAL


def test_a_single_pause_changes_nothing():
    machine = Machine(free)
    machine.run(10.0)
    machine.seconds = lambda n, t: 0.5
    machine.step()
    machine.seconds = free
    for _ in range(50):
        machine.step()
        assert machine.tuner.threads == 2


def test_noise_leaves_the_faster_count():
    rng = np.random.default_rng(0)
    machine = Machine(free)
    machine.seconds = lambda n, t: free(n, t) * rng.lognormal(sigma=0.2)
    machine.run(100.0)
    shares = machine.tuner.seconds
    assert shares[2] > 0.9 * sum(shares.values())


def test_steps_that_become_larger_keep_their_count():
    machine = Machine(lambda n, t: free(n, t) * (1 if t < 10 else 4))
    machine.run(10.0)
    machine.run(5.0)
    assert machine.tuner.threads == 2


@pytest.mark.parametrize(("limit", "best"), [(16, 4), (6, 6), (16, 16)])
def test_many_cores_are_climbed_by_doubling(limit, best):
    machine = Machine(lambda n, _: 0.05 / min(n, best) + 0.002 * max(0, n - best), limit, idle=16.0)
    machine.run(20.0)
    assert machine.tuner.threads == best


def test_a_limit_of_one_times_nothing():
    tuner = ThreadTuner(1, set_threads=pytest.fail, clock=pytest.fail)
    batches = [1, 2]
    assert tuner.timed(batches) is batches and tuner.call("update", abs, -1) == 1


def test_steps_inside_of_steps_are_timed_alone():
    machine = Machine(free)
    machine.tuner.call("update", lambda: [machine.step() for _ in range(20)])
    assert sum(machine.tuner.seconds.values()) == pytest.approx(machine.now - machine.start)


def test_the_count_outside_of_steps_stays():
    asked = [1]
    tuner = ThreadTuner(2, set_threads=asked.append, get_threads=lambda: asked[-1])
    tuner.start(5)
    for _ in tuner.timed([1]):
        assert asked == [1, 5, 1]
    assert asked == [1, 5, 1, 5]


def test_nothing_is_timed_outside_of_learn():
    machine = Machine(free)
    machine.run(1.0)
    assert machine.tuner.stop() and machine.used == 1
    steps = machine.tuner.n_timed
    machine.step()
    assert (machine.used, machine.tuner.n_timed) == (1, steps)


def test_a_count_that_somebody_else_sets_holds():
    machine = Machine(free, limit=4)
    machine.run(10.0)
    assert machine.tuner.threads > 1
    machine.used = 3  # in a callback
    machine.tuner.call("update", lambda: None)
    assert machine.used == 3
    for _ in machine.tuner.timed([1]):
        assert machine.used == 3
    assert not machine.tuner.stop()


def test_summary_tells_the_counts():
    tuner = ThreadTuner(2)
    assert tuner.summary() == "1 thread"
    tuner.seconds = {1: 1.0, 2: 3.0}
    assert tuner.summary() == "25% with 1 thread, 75% with 2 threads"


# ---------------------------------------------------------------------- of a training


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_training_restores_the_count(two_threads):
    seen = []
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, seed=0)
    for model.num_threads in (None, 2):
        model.learn(8, callback=lambda *_: seen.append(torch.get_num_threads()))
    assert torch.get_num_threads() == 2 and set(seen[:8]) == {1} and set(seen[8:]) == {2}


@pytest.mark.parametrize("num_threads", [0, -2, 2.5, "2", True])
def test_a_number_of_threads_that_is_none_is_refused(num_threads):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    model.num_threads = num_threads
    with pytest.raises(
        UserError, match=f"num_threads must be a positive integer or None, not {num_threads!r}"
    ):
        model.learn(8)


def test_a_count_that_a_callback_sets_stays(two_threads):
    seen = []

    def callback(*_):
        torch.set_num_threads(3)
        seen.append(torch.get_num_threads())

    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1).learn(16, callback)
    assert set(seen) == {3} and torch.get_num_threads() == 3


def test_a_number_of_numpy_is_taken(two_threads):
    model, seen = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1), []
    model.num_threads = np.int64(2)
    model.learn(8, lambda *_: seen.append(torch.get_num_threads()))
    assert set(seen) == {2}


def test_learn_in_a_callback_leaves_the_outer_training_alone(two_threads):
    model, inner = (SAC("MlpPolicy", "Pendulum-v1", learning_starts=4, seed=0) for _ in range(2))
    flushed, tuners = [], set()

    def callback(*_):
        if len(flushed) == 3:
            inner.learn(6)
            model.learn(6, reset_num_timesteps=False)  # itself
        tuners.add(model.threads)
        assert model.threads.is_running and torch.get_num_threads() == 2
        flushed.append(share_flushed())

    def share_flushed():
        tiny = torch.full((2**20,), torch.finfo(torch.float32).tiny)
        with threads.denormals_as_zero():
            return float((tiny / 2 == 0).float().mean())

    model.num_threads = inner.num_threads = 2
    model.learn(8, callback)
    assert len(tuners) == 1 and not model.threads.is_running and torch.get_num_threads() == 2
    assert len(set(flushed)) == 1


@pytest.mark.parametrize(("here", "there", "seen"), [(2, 1, 2), (1, 2, 2), (3, 2, 3)])
def test_number_of_a_python_thread_is_its_own(two_threads, here, there, seen):
    torch.set_num_threads(there)
    other = ThreadTuner()
    other.start(1, there)
    threads._running[:] = [(0, other)]  # of another Python thread
    torch.set_num_threads(here)
    try:
        assert threads.threads_outside() == seen
    finally:
        threads._running.clear()


@pytest.mark.parametrize(
    ("most", "device", "tuned", "expected"),
    [
        (None, "cpu", False, 2),
        (1, "cpu", False, 1),
        (1, "meta", True, 1),
        (1, "cpu", True, 1),
        (9, "meta", True, 4),
    ],
)
def test_most_threads_hold_for_all_trainings(two_threads, monkeypatch, most, device, tuned, expected):
    monkeypatch.setattr(threads, "thread_limit", lambda: 4)
    monkeypatch.setattr(threads, "ON", tuned)
    model = SAC("MlpPolicy", "Pendulum-v1")
    model.most_threads, model.device = most, torch.device(device)
    with model.training_threads():
        assert torch.get_num_threads() == expected and model.threads.limit == 1
    assert torch.get_num_threads() == 2


def test_trainings_in_python_threads_may_overlap(two_threads):
    begins, ends = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    counts = {}

    def train(k):
        def callback(*_):
            begins[k].set()
            return not ends[k].wait(60)

        PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).learn(64, callback)
        counts[k] = torch.get_num_threads()

    workers = [threading.Thread(target=train, args=(k,)) for k in range(2)]
    for worker, begin in zip(workers, begins, strict=True):  # the first ends first
        worker.start()
        assert begin.wait(60)
    for worker, end in zip(workers, ends, strict=True):
        end.set()
        worker.join()
    assert counts == {0: 2, 1: 2} and torch.get_num_threads() == 2


def test_a_copy_measures_for_itself(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "thread_limit", lambda: 2)
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=10).learn(13)
    assert model.threads.seconds and not pickle.loads(pickle.dumps(model)).threads.seconds


@pytest.mark.parametrize("cls", [A2C, TRPO, PPO])
def test_rows_of_the_largest_product_are_counted(cls):
    model = cls("MlpPolicy", "Pendulum-v1", n_steps=512, policy_kwargs={"net_arch": [32, 32]})
    assert threads.most_multiplications(model) == 32 * 32 * (64 if cls is PPO else 512)
    rows = {A2C: 512, TRPO: 128, PPO: 64}[cls]
    assert threads.most_multiplications(model, in_minibatches=True) == 32 * 32 * rows


def test_updates_of_all_loops_flush_denormal_numbers():
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormal numbers")
    for cls, options in ((PPO, {"n_steps": 8, "batch_size": 8}), (DQN, {"learning_starts": 4})):
        model, found = cls("MlpPolicy", "CartPole-v1", device="cpu", **options), []
        model.gradient_step = noting_denormals(model.gradient_step, found)
        model.learn(16, callback=noting_denormals(lambda *_: True, found))
        assert {*found[:4]} == {False} and True in found and sys.float_info.min / 2 > 0


def noting_denormals(function, found):
    def noted(*args, **kwargs):
        found.append(sys.float_info.min / 2 == 0)
        return function(*args, **kwargs)

    return noted


@pytest.mark.parametrize(("num_threads", "limit"), [(None, 2), (1, 1), (2, 1)])
def test_wide_networks_are_timed_unless_pinned(two_threads, monkeypatch, num_threads, limit):
    monkeypatch.setattr(threads, "thread_limit", lambda: 4)
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=10, seed=0)
    model.num_threads = num_threads
    model.learn(13)
    assert model.threads.limit == limit and bool(model.threads.seconds) == (limit > 1)


@pytest.mark.parametrize(("most_acting", "seen"), [(2, 2), (1, 1)])
def test_acting_leaves_cores_to_environments(two_threads, most_acting, seen):
    tuner = ThreadTuner(2, ("update", "act"), most_acting=most_acting)
    tuner.start(1)
    for tuner.threads, tuner.trial in [(2, None), (1, Trial("update", 2, 1.0))]:
        assert tuner.call("act", torch.get_num_threads) == seen
        assert tuner.call("update", torch.get_num_threads) == 2


def test_cores_are_left_to_games_and_worker_processes(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    monkeypatch.setattr(threads, "thread_limit", lambda: 2)
    pong = {"env_id": "PongNoFrameskip-v4", "wrapper_class": AtariWrapper, "images": True}
    for env, most_acting in [
        (make_vec_env(FakeImageEnv, 3), 9),  # stepped by the thread that acts
        (make_vec_env(**pong, n_envs=3), 6),
        (VecFrameStack(make_vec_env(**pong, n_envs=2), 4), 7),
        (make_vec_env(**pong, n_envs=9), 1),
        (SubprocVecEnv([FakeImageEnv] * 3, n_workers=2), 7),
        (as_vec_env(AsyncVectorEnv([FakeImageEnv] * 3)), 6),
        (make_vec_env("CartPole-v1", 3), math.inf),  # acting on vectors is never shared out
    ]:
        model = PPO("CnnPolicy" if env.observation_space.dtype == np.uint8 else "MlpPolicy", env)
        with model.training_threads():
            assert model.threads.most_acting == most_acting
        env.close()


def test_compiled_steps_are_timed_too(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "thread_limit", lambda: 2)
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=10)
    model.compile_networks = True
    with model.training_threads():
        assert model.threads.limit == 2 and torch.get_num_threads() == 1


def test_initial_parameters_do_not_depend_on_threads():
    before = torch.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            torch.set_num_threads(n)
            found.append(PPO("MlpPolicy", "CartPole-v1", seed=0).parameter_vectors()[0].clone())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
