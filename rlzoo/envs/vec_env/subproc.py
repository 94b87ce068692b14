"""Environments in worker processes that share memory with this one."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError, show_warning
from rlzoo.core.observations import Info, Obs, copy_obs, obs_row, stack_obs
from rlzoo.envs.single_env.env_failures import describe
from rlzoo.envs.vec_env.dummy import DummyVecEnv, check_spaces, made_env
from rlzoo.envs.vec_env.shared_arrays import SharedArrays, reserve_file
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, VecEnv, VecStep
from rlzoo.processes.file_handles import check_file_handles
from rlzoo.processes.workers import (
    CLOSE_TIMEOUT,
    PipeWorker,
    Unsendable,
    answer,
    answer_error,
    prepare_worker,
    remote_error,
    worker_context,
)

LOST = "if results are lost (Ctrl-C, or another call came first), call reset()"
INTERRUPTED = (
    "Ctrl-C came in the middle of a message between this process and its workers: make the environments anew"
)


class SubprocVecEnv(VecEnv):
    """Steps environments in worker processes, several in each; pays off where a step takes 0.1 ms or more.

    Observations, actions, rewards and flags are in shared memory. Workers ignore Ctrl-C, and die with this
    process. A step that Ctrl-C interrupts is lost; `reset` continues from there. With the start methods
    "forkserver" and "spawn" the calling script needs `if __name__ == "__main__":`; "fork" does not, but can
    deadlock where threads are in use.

    Example:
        >>> env = SubprocVecEnv([lambda: gym.make("CartPole-v1") for _ in range(4)], n_workers=2)
        >>> env.reset().shape
        (4, 4)
        >>> env.close()

    :param env_fns: functions of no argument, each must return a new environment
    :param start_method: one of `multiprocessing.get_all_start_methods()`; None: forkserver if there is one
    :param n_workers: number of processes; None takes one per core, at most one per environment
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env]],
        start_method: str | None = None,
        n_workers: int | None = None,
    ) -> None:
        if not env_fns:
            raise UserError("a vector environment needs at least one environment")
        context = worker_context(start_method, preload="rlzoo.envs.vec_env.subproc")
        cores = available_cores()
        self.env_workers = n_workers = min(n_workers or cores, len(env_fns))
        bounds = [len(env_fns) * worker // n_workers for worker in range(n_workers + 1)]
        self.ranges = [range(low, high) for low, high in pairwise(bounds)]
        self._env_name = getattr(env_fns[0], "env_name", "?")
        self._steps_taken = -1  # -1: never reset
        self._pending = False
        self._closed = False
        self._owed = [1] * n_workers  # answers that each worker has still to give; the first are the spaces
        self._torn = False  # within a message; later on: Ctrl-C came then, and a part of one is lost
        self._shared: SharedArrays | None = None
        self._workers: list[PipeWorker] = []
        check_file_handles(n_workers)
        try:
            self._start_workers(context, env_fns, max(1, cores // n_workers))
            self._attach_workers(len(env_fns))
        except BaseException:
            self._kill_workers()
            raise

    def _start_workers(
        self, context: BaseContext, env_fns: Sequence[Callable[[], gym.Env]], threads: int
    ) -> None:
        for indices in self.ranges:
            makers = Pickled([env_fns[index] for index in indices])
            self._workers.append(PipeWorker(context, _work, indices.start, makers, threads))

    def _attach_workers(self, num_envs: int) -> None:
        """Receive the spaces from the workers, then let all of them map the memory."""
        described = [self._receive(worker) for worker in range(len(self.ranges))]
        obs_space, action_space, render_mode, metadata = described[0]
        for other in described[1:]:
            check_spaces(other[0], other[1], obs_space, action_space)
        super().__init__(num_envs, obs_space, action_space, render_mode)
        self.metadata = metadata
        path = reserve_file(SharedArrays.size(obs_space, action_space, num_envs))
        try:
            self._shared = SharedArrays(obs_space, action_space, num_envs, path)
            self._call("attach", dict.fromkeys(range(len(self.ranges)), (path, num_envs)))
        finally:
            with suppress(OSError):  # all have mapped it: the name is no longer needed
                os.unlink(path)

    def reset(self) -> Obs:
        memory = self._memory
        self._drain()
        self._pending = False
        resets = list(self._take_seeds_and_options())
        parts = {worker: resets[indices.start : indices.stop] for worker, indices in enumerate(self.ranges)}
        self.reset_infos = [info for infos in self._call("reset", parts).values() for info in infos]
        self._steps_taken = max(self._steps_taken, 0)
        return copy_obs(memory.obs.batch)

    def step_async(self, actions: np.ndarray) -> None:
        if self._pending or any(self._owed):
            raise UserError(f"call step_wait() before the next step_async(); {LOST}")
        memory = self._memory
        parts: list[object] = [None] * len(self.ranges)  # actions that are not in the shared memory
        if isinstance(self.action_space, (spaces.Dict, spaces.Tuple)):
            if len(actions) != self.num_envs:
                raise UserError(f"{len(actions)} actions for {self.num_envs} environments")
            parts = [actions[indices.start : indices.stop] for indices in self.ranges]
        else:
            self._share_actions(memory, np.asarray(actions))
        self._pending = True
        self._steps_taken += 1
        for worker, part in enumerate(parts):
            self._send(worker, "step", part)

    def _share_actions(self, memory: SharedArrays, actions: np.ndarray) -> None:
        expected = memory.actions
        if actions.shape != expected.shape:
            if np.squeeze(actions).shape != np.squeeze(expected).shape:
                raise UserError(f"actions of shape {actions.shape} where {expected.shape} was expected")
            actions = actions.reshape(expected.shape)
        if actions.dtype.kind == "f" and expected.dtype.kind in "iu":  # integers as floats, such as 1.0
            with np.errstate(invalid="ignore"):
                whole = actions.astype(expected.dtype)
            if np.array_equal(whole, actions):
                actions = whole
        try:
            np.copyto(expected, actions, casting="same_kind")
        except TypeError:
            raise UserError(f"actions of {actions.dtype} where {self.action_space} was expected") from None

    def wait_arrays(self) -> VecStep:
        if not self._pending:
            raise UserError("call step_async() before step_wait()")
        infos: list[Info] = []
        ended: list[int] = []
        final_obs: list[Obs] = []
        for worker, indices in enumerate(self.ranges):
            part_infos, ends = self._receive(worker)
            infos.extend(part_infos or [{}] * len(indices))
            for index, last, reset_info in ends:
                ended.append(index)
                final_obs.append(last)
                self.reset_infos[index] = reset_info
        self._pending = False
        memory = self._memory
        return VecStep(
            memory.obs.batch,
            memory.rewards,
            memory.terminated,
            memory.truncated,
            np.array(ended) if ended else NO_ENDS,
            stack_obs(final_obs) if ended else None,
            infos,
        )

    @property
    def _memory(self) -> SharedArrays:
        if self._closed or self._shared is None:
            raise UserError("the environments are closed")
        return self._shared

    def _send(self, worker: int, command: str, argument: object) -> None:
        self._begin_message()
        try:
            self._workers[worker].connection.send((command, argument))
        except OSError:  # a broken pipe
            raise self._died(worker) from None
        except Exception:  # the argument cannot be sent, and nothing was
            self._torn = False
            raise
        self._owed[worker] += 1
        self._torn = False

    def _begin_message(self) -> None:
        """Note that Ctrl-C would now leave a part of a message behind."""
        if self._torn:
            raise UserError(INTERRUPTED)
        self._torn = True

    def _receive(self, worker: int) -> Any:
        """Receive the answer of a worker; a failed environment or a dead worker ends all workers."""
        if not self._owed[worker]:
            raise UserError(f"there are no results to wait for; {LOST}")
        self._workers[worker].wait()
        self._begin_message()
        try:
            done, answer = self._workers[worker].connection.recv()
        except (EOFError, OSError):
            raise self._died(worker) from None
        except Exception as failure:  # of the class of what was sent
            raise self._unreadable(worker, failure) from failure
        self._owed[worker] -= 1
        self._torn = False
        if done:
            return answer
        error = remote_error(answer)
        if isinstance(error, RunFailed):
            self._kill_workers()
        raise error

    def _call(self, command: str, arguments: Mapping[int, object]) -> dict[int, Any]:
        """Send each worker its argument, then collect every answer before an error is raised."""
        for worker, argument in arguments.items():
            self._send(worker, command, argument)
        answers, errors = {}, []
        for worker in arguments:
            try:
                answers[worker] = self._receive(worker)
            except RunFailed:
                raise
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def _died(self, worker: int) -> EnvironmentFailed:
        indices = self.ranges[worker]
        index = indices.start if self._shared is None else int(self._shared.at[indices.start])
        how = self._workers[worker].describe_exit()
        if self._shared is None:
            how += "; does the script start them under `if __name__ == '__main__':`?"
        self._kill_workers()
        step = max(self._steps_taken, 0)
        return EnvironmentFailed(
            f"environment {index} failed at step {step}: its worker process died ({how})", index, step
        )

    def _unreadable(self, worker: int, error: Exception) -> EnvironmentFailed:
        self._kill_workers()
        index, step = self.ranges[worker].start, max(self._steps_taken, 0)
        text = f"environment {index} or one beside it sent what cannot be read at step {step}"
        return EnvironmentFailed(f"{text}: {describe(error)}", index, step)

    def _drain(self) -> None:
        """Drop answers that were not waited for, as those of a step that Ctrl-C interrupted."""
        for worker, owed in enumerate(self._owed):
            for _ in range(owed):
                self._receive(worker)

    @property
    def closed(self) -> bool:
        """Whether the worker processes have been ended."""
        return self._closed

    def close(self) -> None:
        if self._closed:
            return
        if self._torn:  # they would misread what is sent
            self._kill_workers()
            return
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for worker in self._workers:
            with suppress(OSError):
                worker.connection.send(("close", None))
        for worker in self._workers:
            _discard(worker.connection, deadline)
            worker.process.join(max(0.0, deadline - time.monotonic()))
        self._kill_workers()

    def _kill_workers(self) -> None:
        self._closed = True
        self._pending = self._torn = False
        self._owed = [0] * len(self._owed)
        for worker in self._workers:
            worker.kill()

    def _on_each(self, command: str, indices: Indices, *arguments: object, **keywords: object) -> list[Any]:
        """Call a method of the workers' vectors for the chosen environments; answers in the order chosen."""
        if self._closed:
            raise UserError("the environments are closed")
        self._drain()
        chosen = self._get_indices(indices)
        owners = [next(w for w, part in enumerate(self.ranges) if index in part) for index in chosen]
        calls: dict[int, Any] = {}
        for index, worker in zip(chosen, owners, strict=True):
            positions = calls.setdefault(worker, ([], arguments, keywords))[0]
            positions.append(index - self.ranges[worker].start)
        answers = {worker: iter(part or ()) for worker, part in self._call(command, calls).items()}
        return [next(answers[worker], None) for worker in owners]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return self._on_each("get_attr", indices, attr_name)

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        self._on_each("set_attr", indices, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        return self._on_each("env_method", indices, method_name, *method_args, **method_kwargs)

    def env_states(self, indices: Indices = None) -> list[Any]:
        return self._on_each("env_states", indices)

    def load_env_state(self, state: list[Any], indices: Indices = None) -> list[None]:
        return self._on_each("load_env_state", indices, state)

    _statistics = None
    episode_state = DummyVecEnv.episode_state
    load_episode_state = DummyVecEnv.load_episode_state

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return self._on_each("env_is_wrapped", indices, wrapper_class)

    def has_attr(self, attr_name: str) -> bool:
        return all(self._on_each("have_attr", None, attr_name))  # a value need not be fit to be sent


def _discard(connection: Connection, deadline: float) -> None:
    """Read what a worker still sends, until it ends or time is up.

    Which answers are due is not known here: Ctrl-C may have come between two of them.
    """
    with suppress(EOFError, OSError):
        while connection.poll(max(0.0, deadline - time.monotonic())):
            connection.recv_bytes()


class Pickled:
    """Functions for a worker; cloudpickle also takes lambdas and functions of the main script."""

    def __init__(self, value: object) -> None:
        self._value = value
        self._bytes: bytes | None = None

    def __getstate__(self) -> dict[str, object]:
        # What the functions import may be aliases: a reference has their module imported over there before.
        aliases = sys.modules.get("rlzoo.compat") if "RLZOO_COMPAT" in os.environ else None
        before = getattr(aliases, "enable_from_environment", None)
        return {"_before": before, "_value": None, "_bytes": cloudpickle.dumps(self._value)}

    @property
    def var(self) -> Any:
        """What was sent."""
        return self.load()

    def load(self) -> Any:
        return self._value if self._bytes is None else cloudpickle.loads(self._bytes)


CloudpickleWrapper = Pickled


class _Chunk(DummyVecEnv):
    """The environments of one worker, with their arrays in shared memory."""

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], first_index: int) -> None:
        super().__init__(env_fns, first_index)
        self._shared_actions = np.empty(0)

    def attach(self, path: str, num_envs_in_all: int) -> None:
        low, high = self.first_index, self.first_index + self.num_envs
        shared = SharedArrays(self.observation_space, self.action_space, num_envs_in_all, path)
        self._obs = shared.obs_rows(low, high)
        self._rewards = shared.rewards[low:high]
        self._terminated = shared.terminated[low:high]
        self._truncated = shared.truncated[low:high]
        self._at = shared.at[low:high]
        self._shared_actions = shared.actions[low:high]

    def have_attr(self, attr_name: str, indices: Indices) -> list[bool]:
        return [self.envs[index].has_wrapper_attr(attr_name) for index in self._get_indices(indices)]

    def reset_with(self, resets: Sequence[tuple[int | None, Info | None]]) -> list[Info]:
        self._seeds = [seed for seed, _ in resets]
        self._options = [options or {} for _, options in resets]
        self.reset()
        return self.reset_infos

    def info_failure(self) -> EnvironmentFailed | None:
        """Return the error for the first info of the last step or reset that cannot be sent, if any."""
        for index, infos in enumerate(zip(self._infos, self.reset_infos, strict=True)):
            for name, value in (item for info in infos for item in info.items()):
                try:
                    ForkingPickler.dumps((name, value))
                except Exception as error:
                    at, step = self.first_index + index, max(self._steps_taken, 0)
                    text = f"environment {at} returned an info that its worker cannot send at step {step}"
                    what = f"{name!r} is of {type(value).__name__} ({error})"
                    return EnvironmentFailed(f"{text}: {what}", at, step)
        return None

    def step_shared(self, actions: Any) -> tuple[list[Info] | None, list[tuple[int, Any, Info]]]:
        """Return infos (None: all empty); index, last observation and reset info of each ended episode."""
        if actions is None:
            actions = self._shared_actions.copy()  # an environment may keep its action
        step = self.step_arrays(actions)
        ends = [
            (self.first_index + index, obs_row(step.final_obs, row), self.reset_infos[index])  # type: ignore[arg-type]
            for row, index in enumerate(step.ended.tolist())
        ]
        return (list(step.infos) if any(step.infos) else None), ends


def _work(connection: Connection, first_index: int, makers: Pickled, threads: int) -> None:
    """Run a worker: make the environments, answer commands until `close`."""
    prepare_worker(threads)
    envs: list[gym.Env] = []
    try:
        for maker in makers.load():
            envs.append(made_env(maker, first_index + len(envs)))
        chunk = _Chunk([partial(_same, env) for env in envs], first_index)
        answer(connection, (chunk.observation_space, chunk.action_space, chunk.render_mode, chunk.metadata))
    except Exception as error:
        index = first_index + len(envs)
        if not isinstance(error, (UserError, RunFailed)):
            text = f"environment {index} could not be made: {describe(error)}"
            error = EnvironmentFailed(text, index, 0)
        answer_error(connection, error)
        return
    _serve(connection, chunk)
    warnings.showwarning = partial(show_warning, warnings.showwarning)
    chunk.close()


def _same(env: gym.Env) -> gym.Env:
    return env


def _serve(connection: Connection, chunk: _Chunk) -> None:
    while True:
        try:
            command, argument = connection.recv()
        except (EOFError, OSError):  # the parent is gone
            return
        if command == "close":
            return
        try:
            if command == "step":
                value: object = chunk.step_shared(argument)
            elif command == "reset":
                value = chunk.reset_with(argument)
            elif command == "attach":
                value = None
                chunk.attach(*argument)
            else:
                positions, arguments, keywords = argument
                value = getattr(chunk, command)(*arguments, indices=positions, **keywords)
            answer(connection, value)
        except Unsendable as error:
            answer_error(connection, chunk.info_failure() or error)
        except Exception as error:
            answer_error(connection, error)
