"""Evaluation of candidates (ARS), in this process or in workers.

A candidate is a vector of weights. What its episodes give depends on nothing but the weights, the statistics
of normalisation and its own environment seed: neither on where they are played nor on what is played beside
them. This module imports no PyTorch, and neither does a worker whose policy NumPy can do.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.core.observations import Info
from rlzoo.core.running_statistics import RunningMeanStd
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.vec_env.finite import check_finite
from rlzoo.envs.vec_env.subproc import Pickled
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, unwrap_vec_normalize
from rlzoo.processes.workers import (
    CLOSE_TIMEOUT,
    PipeWorker,
    answer,
    answer_error,
    limit_torch_threads,
    prepare_worker,
    remote_error,
    worker_context,
)

Statistics = Mapping[str, Any]
"""Running statistics of a VecNormalize, as its `state_dict` returns them."""

MAX_DEATHS = 3  # of workers over one candidate, before the environment is to blame


@dataclass(slots=True)
class Outcome:
    """Rewards and ends of the episodes of one candidate."""

    rewards: np.ndarray  # [n_steps], not normalised
    ends: dict[int, Info] = field(default_factory=dict)  # last step of each episode -> its info
    seen: RunningMeanStd | None = None  # of the raw observations, where these are normalised

    @property
    def total(self) -> float:
        """The sum of all rewards."""
        return float(self.rewards.sum(dtype=np.float64))


@contextmanager
def _frozen(normalizer: VecNormalize | None) -> Iterator[None]:
    """Freeze the running statistics of a VecNormalize."""
    if normalizer is None:
        yield
        return
    training, normalizer.training = normalizer.training, False
    try:
        yield
    finally:
        normalizer.training = training


def play(
    env: VecEnv, actor: Any, weights: np.ndarray, seed: int, n_episodes: int, learn_statistics: bool = False
) -> list[Outcome]:
    """Play `n_episodes` episodes of each candidate, all candidates at once.

    `evaluation.play_episodes` does not serve here: each environment acts with different weights, its seed and
    number of steps must not depend on the others, every reward is needed, and workers import no PyTorch.

    :param env: at least as many environments as candidates; one that is done is stepped on until all are
    :param actor: an `ArrayActor`, or what has its `with_weights`
    :param weights: float32 [n_candidates, n_parameters]
    :param seed: of the environment of the first candidate; the i-th has `seed + i`
    :param learn_statistics: also gather those of the observations
    """
    n = len(weights)
    idle = np.repeat(weights[-1:], env.num_envs - n, axis=0)
    act = actor.with_weights(np.concatenate([weights, idle]) if len(idle) else weights)
    normalizer, experience = unwrap_vec_normalize(env), ExperienceNormalizer.of(env)
    rewards: list[np.ndarray] = []
    observed: list[np.ndarray] = []
    ends: list[dict[int, Info]] = [{} for _ in range(n)]
    playing = n
    with _frozen(normalizer):
        env.seed(seed)
        obs = env.reset()
        while playing:
            if learn_statistics:
                assert normalizer is not None
                observed.append(np.array(normalizer.raw_obs))
            step = env.step_arrays(act(obs))
            check_finite(step, len(rewards) + 1)
            rewards.append(
                (step.rewards if experience is None else experience.reward_normalizer.raw_reward).copy()
            )
            for index in step.ended.tolist():
                if index < n and len(ends[index]) < n_episodes:
                    ends[index][len(rewards) - 1] = dict(step.infos[index])
                    playing -= len(ends[index]) == n_episodes
            obs = step.obs
    table = np.stack(rewards)
    outcomes = []
    for index in range(n):
        n_steps = max(ends[index]) + 1
        outcomes.append(Outcome(table[:n_steps, index].copy(), ends[index]))
        if learn_statistics:
            outcomes[-1].seen = RunningMeanStd(epsilon=0, shape=observed[0].shape[1:])
            outcomes[-1].seen.update(np.stack([rows[index] for rows in observed[:n_steps]]))
    return outcomes


def play_here(
    env: VecEnv, actor: Any, weights: np.ndarray, seed: int, n_episodes: int, learn_statistics: bool
) -> Iterator[Outcome]:
    """Yield the outcomes of all candidates in their order, one batch of environments at a time."""
    for first in range(0, len(weights), env.num_envs):
        part = weights[first : first + env.num_envs]
        yield from play(env, actor, part, seed + first, n_episodes, learn_statistics)


class _EvalWorker(PipeWorker):
    """A worker and its current job: (round, first candidate), or None."""

    job: tuple[int, int] | None = None


class AsyncEval:
    """Worker processes that play the episodes of candidates, each in separate environments.

    Workers ignore Ctrl-C and die with this process. One that is killed is replaced, and what it was playing
    is played again.

    :param envs_fn: one function per worker, which makes its environment; several copies in one VecEnv play as
        many candidates at once
    :param train_policy: the policy that candidates are weights of (`model.policy`)
    :param start_method: one of `multiprocessing.get_all_start_methods()`; None: forkserver if there is one
    :param n_eval_episodes: episodes of each candidate; None: as the algorithm says
    """

    def __init__(
        self,
        envs_fn: Sequence[Callable[[], object]],
        train_policy: Any,
        start_method: str | None = None,
        n_eval_episodes: int | None = None,
    ) -> None:
        if not envs_fn:
            raise UserError("AsyncEval needs at least one function that makes an environment")
        self.n_eval_episodes = n_eval_episodes
        self._context = worker_context(start_method, preload="rlzoo.training.candidates")
        self._makers = [Pickled(make) for make in envs_fn]
        self._actor = Pickled(_actor_of(train_policy))
        self._spaces = (train_policy.observation_space, train_policy.action_space)
        self._round = 0
        self._width = 0  # candidates that a worker plays at once
        self._normalizes = False
        self._workers: list[_EvalWorker] = []
        try:
            self._workers = [self._start(index) for index in range(len(envs_fn))]
            for worker in self._workers:
                self._greet(worker)
        except BaseException:
            self.close()
            raise

    @property
    def n_workers(self) -> int:
        """Number of worker processes."""
        return len(self._makers)

    def _start(self, index: int) -> _EvalWorker:
        threads = max(1, available_cores() // len(self._makers))
        return _EvalWorker(self._context, _work, self._makers[index], self._actor, threads)

    def _greet(self, worker: _EvalWorker) -> None:
        """Wait for the environment of a new worker, and check its spaces."""
        try:
            observation_space, action_space, width, normalizes = self._receive(worker)
        except EOFError:
            raise EnvironmentFailed(
                f"a worker process died before it had made its environment ({worker.describe_exit()}); "
                "does the script start them under `if __name__ == '__main__':`?"
            ) from None
        for mine, theirs in zip(self._spaces, (observation_space, action_space), strict=True):
            if mine != theirs:
                raise UserError(
                    f"the environment of a worker has {theirs}, but the policy was made for {mine}"
                )
        self._width = min(self._width or width, width)
        self._normalizes = normalizes

    def _receive(self, worker: _EvalWorker) -> Any:
        """Return the next answer of a worker.

        :raises EOFError: the worker died
        """
        try:
            done, received = worker.connection.recv()
        except OSError:
            raise EOFError from None
        if not done:
            raise remote_error(received)
        return received

    def seed(self, seed: int) -> None:
        """Do nothing, for scripts that call it: the agent's seed decides the seed of each candidate."""

    def set_options(self, options: Mapping[str, object] | None = None) -> None:
        """Accept no options, for scripts that call it.

        :raises UserError: options are given
        """
        if options:
            raise UserError(
                "AsyncEval resets environments without options: set them in the functions that make them"
            )

    def play(
        self,
        weights: np.ndarray,
        seed: int,
        n_episodes: int,
        statistics: Statistics | None = None,
        learn_statistics: bool = False,
    ) -> Iterator[Outcome]:
        """Yield the outcomes of all candidates in their order.

        :param weights: float32 [n_candidates, n_parameters]
        :param seed: of the environment of the first candidate; the i-th has `seed + i`
        :param n_episodes: per candidate; ignored where this object was built with a number
        :param statistics: for the VecNormalize of the workers
        :raises UserError: one of workers and training normalises, and the other does not
        :raises EnvironmentFailed: an environment raised, or workers die again and again over one candidate
        """
        if self._normalizes is not (statistics is not None):
            has, lacks = ("workers", "training") if self._normalizes else ("training", "workers")
            raise UserError(
                f"the environments of the {has} have a VecNormalize, those of the {lacks} have none:"
                " give both one"
            )
        if not self._workers:
            raise UserError("the workers are closed")
        self._round += 1
        settings = (self.n_eval_episodes or n_episodes, statistics, learn_statistics)
        waiting = deque(range(0, len(weights), self._width))
        deaths = dict.fromkeys(waiting, 0)
        finished: dict[int, list[Outcome]] = {}
        for first in list(waiting):
            while first not in finished:
                for worker in self._workers:
                    if worker.job is None and waiting:
                        chosen = waiting.popleft()
                        worker.job = (self._round, chosen)
                        part = weights[chosen : chosen + self._width]
                        with suppress(OSError):  # a dead worker is found below
                            worker.connection.send((worker.job, part, seed + chosen, settings))
                self._collect(finished, waiting, deaths)
            yield from finished.pop(first)

    def _collect(
        self, finished: dict[int, list[Outcome]], waiting: deque[int], deaths: dict[int, int]
    ) -> None:
        """Wait for answers; put what a dead worker was playing back to the front."""
        busy = {
            worker.connection: index for index, worker in enumerate(self._workers) if worker.job is not None
        }
        for connection in wait(list(busy)):
            index = busy[connection]  # type: ignore[index]
            worker = self._workers[index]
            assert worker.job is not None
            job_round, first = worker.job
            worker.job = None
            try:
                outcomes = self._receive(worker)
            except EOFError:
                current = job_round == self._round
                if current:
                    deaths[first] += 1
                    waiting.appendleft(first)
                self._replace(index, first, deaths[first] if current else 0)
                continue
            except BaseException:
                self.close()
                raise
            if job_round == self._round:  # else nobody waited for a round that was broken off
                finished[first] = outcomes

    def _replace(self, index: int, first: int, deaths: int) -> None:
        """Replace a dead worker."""
        dead = self._workers[index]
        how = dead.describe_exit()
        dead.connection.close()
        if deaths >= MAX_DEATHS:
            self.close()
            raise EnvironmentFailed(f"{deaths} worker processes died over candidate {first} (the last {how})")
        print(f"rlzoo: a worker process died ({how}); candidate {first} is played again", file=sys.stderr)
        self._workers[index] = self._start(index)
        try:
            self._greet(self._workers[index])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers; closing twice is fine."""
        for worker in self._workers:
            with suppress(OSError):
                worker.connection.send(None)
        for worker in self._workers:
            if worker.job is None:  # the others are in the middle of an episode
                worker.process.join(CLOSE_TIMEOUT)
            worker.kill()
        self._workers = []

    def __enter__(self) -> AsyncEval:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _actor_of(policy: Any) -> Any:
    from rlzoo.policies.linear_policy import make_actor  # it imports PyTorch, and workers import this module

    return make_actor(policy)


def _work(connection: Connection, maker: Pickled, actor: Pickled, threads: int) -> None:
    """Run a worker: make the environment, play candidates until None is received."""
    prepare_worker(threads)
    try:
        env, player = as_vec_env(maker.load()()), actor.load()
        limit_torch_threads(threads)
        normalizer = unwrap_vec_normalize(env)
        answer(connection, (env.observation_space, env.action_space, env.num_envs, normalizer is not None))
    except Exception as error:
        answer_error(connection, error)
        return
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):  # the parent is gone
            break
        if job is None:
            break
        _, weights, seed, (n_episodes, statistics, learn_statistics) = job
        try:
            if statistics is not None:
                assert normalizer is not None
                normalizer.load_state_dict(dict(statistics))
            answer(connection, play(env, player, weights, seed, n_episodes, learn_statistics))
        except Exception as error:
            answer_error(connection, error)
    env.close()
