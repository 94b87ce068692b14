from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.vec_env import subproc
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.subproc import SubprocVecEnv, _serve


def make_env(index: int = 0, fail_at: int = -1, space: str = "box") -> Callable[[], gym.Env[Any, Any]]:
    """Made inside a function so that the class travels with the function, as in a user's script."""

    class Walk(gym.Env[Any, Any]):
        def __init__(self) -> None:
            box = spaces.Box(-100, 100, (2, 3), np.float32)
            whole = spaces.Dict({"a": box, "b": spaces.Discrete(50)})
            self.observation_space = whole if space == "dict" else box
            self.action_space = spaces.Box(-1, 1, (2,), np.float32)
            self.last_action = None
            self.width = index

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self.steps = 0
            return self.observe(), {"options": options}

        def observe(self) -> Any:
            array = self.np_random.normal(size=(2, 3)).astype(np.float32)
            return {"a": array, "b": self.steps} if space == "dict" else array

        def step(self, action: Any) -> Any:
            if self.steps == fail_at:
                raise ZeroDivisionError("broken leg")
            change = 0.0 if self.last_action is None else float(np.abs(action - self.last_action).sum())
            self.last_action = action  # kept, not copied
            self.steps += 1
            info = {"width": self.width} if self.steps % 2 else {}
            return self.observe(), change, self.steps == 4 + index, self.steps == 6, info

        def pid(self, plus: int = 0) -> int:
            return os.getpid() + plus

    return Walk


@pytest.fixture
def make_venv() -> Iterator[Callable[..., SubprocVecEnv]]:
    made: list[SubprocVecEnv] = []

    def make(*args: Any, **kwargs: Any) -> SubprocVecEnv:
        made.append(SubprocVecEnv(*args, **kwargs))
        return made[-1]

    yield make
    for venv in made:
        venv.close()


def are_gone(venv: SubprocVecEnv) -> bool:
    return not any(worker.process.is_alive() for worker in venv._workers)


def actions(n: int, value: float = 0.0) -> np.ndarray:
    return np.full((n, 2), value, dtype=np.float32)


@pytest.mark.parametrize(
    ("space", "start_method", "n_workers"),
    [("box", None, 2), ("dict", "fork", 2), ("box", "spawn", 1), ("dict", "fork", 5)],
)
def test_every_step_equals_the_loop_in_one_process(
    make_venv: Any, space: str, start_method: str | None, n_workers: int
) -> None:
    env_fns = [make_env(index, space=space) for index in range(5)]
    workers = make_venv(env_fns, start_method=start_method, n_workers=n_workers)
    loop = DummyVecEnv(env_fns)
    rng = np.random.default_rng(0)
    for venv in (workers, loop):
        venv.seed(3)
        venv.set_options({"x": 1})
    np.testing.assert_equal(workers.reset(), loop.reset())
    assert workers.reset_infos == loop.reset_infos == [{"options": {"x": 1}}] * 5
    n_ended = 0
    for _ in range(20):
        action = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
        mine, theirs = workers.step_arrays(action), loop.step_arrays(action)
        np.testing.assert_equal(mine.obs, theirs.obs)
        np.testing.assert_equal(mine.final_obs, theirs.final_obs)
        for field in ("rewards", "terminated", "truncated", "ended"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))
        assert list(mine.infos) == list(theirs.infos)
        assert mine.rewards.any() or theirs.rewards.sum() == 0
        n_ended += len(mine.ended)
    assert n_ended > 10
    assert len({*workers.env_method("pid")}) == n_workers


def test_attributes_and_methods_of_chosen_environments(make_venv: Any) -> None:
    venv = make_venv([make_env(index) for index in range(4)], start_method="fork", n_workers=2)
    venv.reset()
    assert venv.get_attr("width") == [0, 1, 2, 3]
    assert venv.get_attr("width", [3, 0, 3]) == [3, 0, 3]
    venv.set_attr("width", 9, indices=[1, 2])
    assert venv.get_attr("width") == [0, 9, 9, 3]
    pids = venv.env_method("pid", plus=1)
    assert pids[0] == pids[1] != pids[2]
    assert venv.env_method("pid", 1, indices=2) == [pids[2]]
    assert venv.env_is_wrapped(gym.wrappers.TimeLimit) == [False] * 4
    assert not venv.has_attr("height")
    with pytest.raises(AttributeError):
        venv.get_attr("height")
    with pytest.raises(AttributeError, match="cannot be sent"):
        venv.get_attr("reset")
    assert venv.step_arrays(actions(4)).obs.shape == (4, 2, 3)  # all of that did not harm the workers


def test_an_environment_that_raises_is_named_and_all_workers_end(make_venv: Any) -> None:
    venv = make_venv([make_env(), make_env(fail_at=2), make_env()], start_method="fork", n_workers=3)
    venv.reset()
    venv.step(actions(3))
    venv.step(actions(3))
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1 failed in step\(\) at step 3: ZeroDivision"
    ) as error:
        venv.step(actions(3))
    assert (error.value.env_index, error.value.step) == (1, 3)
    assert "broken leg" in str(error.value.__cause__)  # the traceback of the worker
    assert are_gone(venv)
    with pytest.raises(UserError, match="closed"):
        venv.step(actions(3))


def test_a_killed_worker_is_noticed_and_all_workers_end(make_venv: Any) -> None:
    venv = make_venv([make_env(index) for index in range(4)], n_workers=2)
    venv.reset()
    venv.step(actions(4))
    os.kill(venv.env_method("pid", indices=3)[0], signal.SIGKILL)
    with pytest.raises(
        EnvironmentFailed, match=r"environment 3 failed at step 2: .*killed by signal 9"
    ) as error:
        venv.step(actions(4))
    assert (error.value.env_index, error.value.step) == (3, 2)
    assert are_gone(venv)
    venv.close()


def test_an_environment_that_cannot_be_made_is_named(make_venv: Any) -> None:
    def broken() -> gym.Env[Any, Any]:
        raise OSError("no such robot")

    with pytest.raises(EnvironmentFailed, match="environment 2 could not be made: OSError: no such robot"):
        make_venv([make_env(), make_env(), broken], start_method="fork", n_workers=2)

    def mistaken() -> gym.Env[Any, Any]:
        raise UserError("unknown environment")

    with pytest.raises(UserError, match="unknown environment"):
        make_venv([mistaken], start_method="fork")


def test_wrong_calls_are_refused(make_venv: Any) -> None:
    with pytest.raises(UserError, match="cannot find context for 'thread'"):
        SubprocVecEnv([make_env()], start_method="thread")
    with pytest.raises(UserError, match="at least one"):
        SubprocVecEnv([])
    with pytest.raises(UserError, match="different spaces"):
        make_venv([make_env(), make_env(space="dict")], start_method="fork", n_workers=2)
    venv = make_venv([make_env()] * 2, start_method="fork", n_workers=1)
    with pytest.raises(UserError, match="reset"):
        venv.step(actions(2))
    venv.reset()
    with pytest.raises(UserError, match="step_async"):
        venv.step_wait()
    for wrong in (actions(3), np.zeros(2, np.float32), np.zeros((2, 2), np.complex64)):
        with pytest.raises(UserError, match="expected"):
            venv.step(wrong)
    venv.step_async(actions(2))
    with pytest.raises(UserError, match="step_wait"):
        venv.step_async(actions(2))
    venv.reset()  # drops the step that nobody waited for
    venv.step_async(actions(2))
    assert venv.closed is False
    venv.close()
    venv.close()
    assert are_gone(venv) and venv.closed is True
    with pytest.raises(UserError, match="closed"):
        venv.get_attr("width")


def test_nothing_is_left_in_shared_memory(make_venv: Any) -> None:
    def files() -> set[str]:
        return {name for name in os.listdir("/dev/shm") if name.startswith("rlzoo-")}

    if not os.path.isdir("/dev/shm"):
        pytest.skip("this system has no /dev/shm")
    before = files()
    venv = make_venv([make_env()] * 2, start_method="fork")
    venv.reset()
    assert files() <= before


@pytest.mark.parametrize(("method", "call"), [("_receive", 1), ("_receive", 2), ("_send", 2)])
def test_it_closes_when_ctrl_c_came_between_two_workers(make_venv: Any, monkeypatch, method, call) -> None:
    """Whose answers are still due is not known then; waiting for one that has been read would never end."""
    venv = make_venv([make_env(0), make_env(1)], n_workers=2)
    venv.reset()
    whole, calls = getattr(venv, method), iter(range(1, 100))

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(venv, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        venv.step(np.zeros((2, 2), np.float32))
    monkeypatch.undo()
    processes, began = [worker.process for worker in venv._workers], time.monotonic()
    venv.close()
    assert time.monotonic() - began < 4
    assert [process.exitcode for process in processes] == [0, 0]


@pytest.mark.parametrize(("method", "call"), [("_receive", 1), ("_receive", 2), ("_send", 2)])
def test_after_ctrl_c_in_a_step_it_can_be_reset(make_venv: Any, monkeypatch, method, call) -> None:
    venv, other = (make_venv([make_env(0), make_env(1)], n_workers=2) for _ in range(2))
    for each in (venv, other):
        each.seed(1)
        each.reset()
    whole, calls = getattr(venv, method), iter(range(1, 100))

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(venv, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        venv.step(actions(2))
    monkeypatch.undo()
    for use in (venv.step, venv.step_async):
        with pytest.raises(UserError, match=r"call reset\(\)"):
            use(actions(2))
    assert venv.get_attr("width") == [0, 1]
    with pytest.raises(UserError, match=r"call reset\(\)"):
        venv.step_wait()
    for each in (venv, other):
        each.seed(2)
    np.testing.assert_array_equal(venv.reset(), other.reset())
    np.testing.assert_array_equal(venv.step(actions(2))[0], other.step(actions(2))[0])


def test_a_left_behind_answer_is_not_taken_for_a_step(make_venv: Any, monkeypatch) -> None:
    venv = make_venv([make_env(0), make_env(1)], n_workers=2)
    venv.reset()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(venv, "_receive", lambda worker: signal.raise_signal(signal.SIGINT))
        venv.get_attr("width")
    with pytest.raises(UserError, match=r"call reset\(\)"):
        venv.step(actions(2))
    assert venv.get_attr("width") == [0, 1]
    venv.step(actions(2))


@pytest.mark.parametrize("method", ["recv", "send"])
def test_after_ctrl_c_within_a_message_each_use_is_an_error(make_venv: Any, monkeypatch, method) -> None:
    venv = make_venv([make_env(0), make_env(1)], n_workers=2)
    venv.reset()

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(venv._workers[1].connection, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        venv.step(actions(2))
    monkeypatch.undo()
    for use in (venv.reset, lambda: venv.get_attr("width")):
        with pytest.raises(UserError, match="make the environments anew"):
            use()
    began = time.monotonic()
    venv.close()
    assert time.monotonic() - began < 2
    assert are_gone(venv)


def test_ctrl_c_while_workers_step_leaves_them_usable(make_venv: Any) -> None:
    class Slow(gym.Wrapper):  # type: ignore[type-arg]
        def step(self, action: Any) -> Any:
            time.sleep(0.5)
            return self.env.step(action)

    venv = make_venv([lambda: Slow(make_env()())] * 2, n_workers=2)
    venv.reset()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        venv.step(actions(2))
    venv.reset()
    venv.step(actions(2))


def test_an_info_that_cannot_be_sent_names_its_key(make_venv: Any) -> None:
    class Locked(gym.Wrapper):  # type: ignore[type-arg]
        def step(self, action: Any) -> Any:
            return (*self.env.step(action)[:-1], {"fine": 1, "lock": threading.Lock()})

    venv = make_venv([make_env(), lambda: Locked(make_env()())], n_workers=1)
    venv.reset()
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1 returned an info .* at step 1: 'lock'"
    ) as caught:
        venv.step(actions(2))
    assert (caught.value.env_index, caught.value.step) == (1, 1)
    assert are_gone(venv)


def test_an_info_that_cannot_be_read_here_is_a_failed_run(make_venv: Any) -> None:
    class OneWay:
        def __reduce__(self) -> Any:
            return int, ("no number",)

    class Odd(gym.Wrapper):  # type: ignore[type-arg]
        def step(self, action: Any) -> Any:
            return (*self.env.step(action)[:-1], {"odd": OneWay()})

    venv = make_venv([lambda: Odd(make_env()())])
    venv.reset()
    with pytest.raises(EnvironmentFailed, match="sent what cannot be read at step 1: ValueError"):
        venv.step(actions(1))
    assert are_gone(venv)


@pytest.mark.parametrize("where", ["made", "step"])
def test_a_worker_whose_env_exits_says_so(make_venv: Any, where: str) -> None:
    class Leaves(gym.Wrapper):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__(make_env()())
            if where == "made":
                sys.exit("gone")

        def step(self, action: Any) -> Any:
            sys.exit("gone")

    with pytest.raises(EnvironmentFailed, match=rf"environment 1 .*{where}.*SystemExit: gone"):
        venv = make_venv([make_env(), Leaves])
        venv.reset()
        venv.step(actions(2))


def test_a_worker_that_does_not_end_by_itself_is_killed(make_venv: Any, monkeypatch) -> None:
    monkeypatch.setattr(subproc, "CLOSE_TIMEOUT", 0.3)
    venv = make_venv([make_env(0), make_env(1)], n_workers=2)
    venv.reset()
    os.kill(venv._workers[0].process.pid, signal.SIGSTOP)
    processes, began = [worker.process for worker in venv._workers], time.monotonic()
    venv.close()
    assert time.monotonic() - began < 3
    assert processes[0].exitcode == -signal.SIGKILL


def test_workers_ignore_ctrl_c_and_die_with_their_parent(tmp_path: Any) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent("""
        import time
        import gymnasium as gym
        from rlzoo.envs.vec_env.subproc import SubprocVecEnv

        if __name__ == "__main__":
            venv = SubprocVecEnv([lambda: gym.make("CartPole-v1")] * 2, n_workers=2)
            print(*[worker.process.pid for worker in venv._workers], flush=True)
            time.sleep(60)
        """)
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        assert all(is_running(pid) for pid in pids)
        parent.kill()
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before the file was opened, or while it was read
        return False


def test_a_worker_whose_parent_is_gone_ends_quietly() -> None:
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    _serve(theirs, None)  # type: ignore[arg-type]


def test_too_few_file_handles_are_one_clear_error(monkeypatch):
    monkeypatch.setattr("rlzoo.processes.file_handles.free_file_handles", lambda: 10)
    with pytest.raises(UserError, match="2 worker processes need 14 file handles, but 10 are free"):
        SubprocVecEnv([lambda: None] * 2, n_workers=2)


@pytest.mark.parametrize("actions", [np.array([0.0, 1.0]), np.array([[0], [1]])])
def test_discrete_actions_may_be_floats_or_columns(actions):
    venv = SubprocVecEnv([lambda: gym.make("CartPole-v1")] * 2, n_workers=1)
    try:
        venv.seed(0)
        first = venv.reset()
        stepped = venv.step(actions)[0]
        venv.seed(0)
        assert np.array_equal(first, venv.reset())
        assert np.array_equal(stepped, venv.step(np.array([0, 1]))[0])
        for wrong in ([0.5, 1.0], [np.inf, 0.0], [1e300, 0.0], [np.nan, 0.0]):
            with pytest.raises(UserError, match="expected"):
                venv.step(np.array(wrong))
    finally:
        venv.close()
