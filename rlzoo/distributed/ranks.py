"""The ranks of a training: who has which environments, and what is averaged over all of them.

Rank r of N steps the environments r * n / N to (r + 1) * n / N - 1 of the n environments that one process
would have, with their seeds. Every rank holds the whole agent and draws the same random numbers: of the noise
of all environments it takes its part, and of each minibatch it computes the gradient of the rows it has. The
gradients are summed with weights, the fractions of the minibatch, so that every rank takes the step that one
process takes.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol, TypeVar, cast
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from rlzoo.accel.flat_parameters import FlatParameters, ParameterGroup
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.buffers.sequences import RNNState, take_sequences
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput
from rlzoo.distributed.minibatches import RankBatch, Shares, has_advantages, rank_batch
from rlzoo.distributed.noise import GlobalNoise
from rlzoo.distributed.process_group import Ended, ProcessGroup, join_group
from rlzoo.distributed.rank_episodes import EpisodeWindow
from rlzoo.distributed.transitions import check_shared, parts
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, wrappers_of
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.metrics.logger import Logger
from rlzoo.optim.network_optimizer import NetworkOptimizer

Result = TypeVar("Result")

SUPPORTED = ("a2c", "dqn", "ppo", "ppo_lstm", "ppo_mask", "sac", "td3", "tqc", "trpo")
"""Algorithms that several ranks can train together."""


class Trainee(Protocol):
    """An algorithm, as far as its ranks see it."""

    counters: Counters
    device: torch.device
    n_envs: int
    n_ranks: int
    ranks: object
    num_threads: int | None
    verbose: int
    has_train_mode_layers: bool
    act: Callable[[PolicyInput], PolicyOutput]
    begin_rollout: Callable[[], None]
    update: Callable[..., Metrics]

    @property
    def config(self) -> object:
        """The hyperparameters."""

    def state(self) -> dict[str, object]:
        """Return what a checkpoint holds."""

    def set_logger(self, logger: Logger) -> None:
        """Log to another logger."""

    def optimize_assigned_policy(self) -> None:
        """Make optimisers for what a script has replaced."""


class OffPolicyTrainee(Trainee, Protocol):
    """An algorithm that learns from replayed experience."""

    @property
    def replay_buffer(self) -> ReplayBuffer:
        """The replay buffer."""

    def update_period(self) -> tuple[int, bool]:
        """Return the steps between two updates, or (with True) the episodes."""


class Ranks:
    """The processes that train one agent together, seen from one of them.

    A script that `torchrun --nproc-per-node 2 script.py` starts::

        from rlzoo import PPO
        from rlzoo.distributed import join

        ranks = join()
        env = ranks.make_vec_env("CartPole-v1", n_envs=8, seed=0)  # of which each rank makes 4
        model = PPO("MlpPolicy", env, seed=0).learn(100_000)
        if ranks.rank == 0:
            model.save("ppo_cartpole")

    :param group: the process group
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group, self.rank, self.size = group, group.rank, group.size
        self.share = 1 / group.size  # fraction of the present minibatch that this rank has
        self.shares: list[float] = []  # of the minibatches of this update
        self.noise_of_batch: GlobalNoise | None = None  # of the present batch of transitions
        self.in_update = False  # all ranks are in the update of their algorithm
        self.n_episodes_of_others = 0  # that ended in the last rollout

    # ------------------------------------------------------------------ environments

    def n_local(self, n_envs: int) -> int:
        """Return how many of `n_envs` environments this rank has.

        :raises UserError: they cannot be divided evenly
        """
        if n_envs % self.size:
            fewer = n_envs - n_envs % self.size
            fitting = f"{fewer} or {fewer + self.size}" if fewer else str(self.size)
            raise UserError(
                f"n_envs={n_envs} environments cannot be divided evenly among {self.size} ranks;"
                f" n_envs can be {fitting}"
            )
        return n_envs // self.size

    def first_env(self, n_envs: int) -> int:
        """Return the number of this rank's first environment among `n_envs`."""
        return self.rank * self.n_local(n_envs)

    def attach(self, venv: VecEnv) -> VecEnv:
        """Mark environments as the part of this rank: models train in them together with the other ranks."""
        for layer in (*wrappers_of(venv), venv.unwrapped):
            layer.ranks = self
        venv.unwrapped.first_env = first = self.rank * venv.num_envs
        if isinstance(venv.unwrapped, DummyVecEnv):
            venv.unwrapped.first_index = first  # in messages
        return venv

    def make_vec_env(self, env_id: object, n_envs: int, seed: int | None = None, **options: object) -> VecEnv:
        """Make this rank's part of `n_envs` environments; see `rlzoo.make_vec_env` for the arguments.

        :raises UserError: they cannot be divided evenly, or as `rlzoo.make_vec_env`
        """
        from rlzoo.envs.make_vec_env import make_vec_env

        first, n_local = self.first_env(n_envs), self.n_local(n_envs)
        venv = make_vec_env(env_id, n_local, seed, first, **options)  # type: ignore[arg-type]
        self.attach(venv)
        if seed is not None:
            venv.seed(seed)
        return venv

    # ------------------------------------------------------------------ averages

    def mean(self, value: Tensor) -> Tensor:
        """Return a mean over the present minibatch of all ranks, given the mean over this rank's rows."""
        return self.group.sum_(value.detach() * self.share)

    def moments(self, advantages: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of the advantages of all ranks."""
        of_all = torch.from_numpy(self.group.gather(advantages.cpu().numpy()))
        return of_all.mean().to(advantages.device), of_all.std().to(advantages.device)

    def average_gradients(self, parameters: ParameterGroup) -> None:
        """Replace the gradient of this rank's rows by that of the minibatch: one sum over the ranks."""
        if isinstance(parameters, FlatParameters):
            gradient = parameters.vector.grad
            assert gradient is not None
            self.group.sum_(gradient.mul_(self.share))
            return
        gradients = [parameter.grad for parameter in parameters.parameters if parameter.grad is not None]
        flat = self.group.sum_(torch.cat([part.reshape(-1) for part in gradients]).mul_(self.share))
        for part, value in zip(gradients, flat.split([part.numel() for part in gradients]), strict=True):
            part.copy_(value.view_as(part))

    def averaged(self, history: list[Metrics]) -> list[Metrics]:
        """Return what `average_metrics` does in an update, where all ranks are; elsewhere `history`."""
        return self.average_metrics(history) if self.in_update else history

    def average_metrics(self, history: list[Metrics]) -> list[Metrics]:
        """Return the metrics of each minibatch of an update as one process has them."""
        if not history:
            return history
        shares = self.shares if len(self.shares) == len(history) else [1 / self.size] * len(history)
        self.share, self.shares = 1 / self.size, []
        weighted = [
            float(value) * share
            for metrics, share in zip(history, shares, strict=True)
            for value in metrics.values()
        ]
        summed = iter(self.group.sum_(torch.tensor(weighted, dtype=torch.float64)).float())
        return [{name: next(summed) for name in metrics} for metrics in history]

    # ------------------------------------------------------------------ rollouts

    def minibatches(
        self, batch: RolloutBatch, batch_size: int, rollout: RolloutBuffer, rnn_state: RNNState
    ) -> Iterator[RankBatch]:
        """Yield the rows of this rank in the minibatches that one process would draw.

        :param rnn_state: recurrent states before each step; empty without a recurrent policy
        """
        shares = Shares(self.rank, self.size, rollout.n_envs)
        advantages = batch.advantages
        if has_advantages(batch):
            columns = self.group.gather(batch.advantages.cpu().numpy())
            advantages = torch.from_numpy(shares.merged(columns)).to(batch.advantages.device)
        if batch_size >= rollout.n_steps * shares.n_envs:  # the whole rollout
            self._begin_minibatch(1 / self.size)
            yield rank_batch(batch, advantages)
            return

        def take(rows: np.ndarray) -> RolloutBatch:
            if rnn_state:
                return take_sequences(batch, rows, rollout, rnn_state)
            return batch.take(torch.from_numpy(rows))

        order = shares.order(rollout.n_steps, batch.returns.device, bool(rnn_state))
        for minibatch, share in shares.minibatches(order, batch_size, advantages, take):
            self._begin_minibatch(share)
            yield minibatch

    def _begin_minibatch(self, share: float) -> None:
        self.share = share
        self.shares.append(share)

    def transitions(self, replay: ReplayBuffer, n_batches: int, batch_size: int) -> Iterator[ReplayBatch]:
        """Yield the transitions of this rank in the batches that one process would draw."""
        self.shares = []
        for part in parts(replay, Shares(self.rank, self.size, replay.n_envs), n_batches, batch_size):
            self._begin_minibatch(part.share)
            self.noise_of_batch = GlobalNoise(len(part.positions), batch_size, part.positions)
            yield part.batch
        self.noise_of_batch = None

    def agree(self, model: object, go_on: bool) -> bool:
        """Tell the other ranks the episodes of a rollout; return whether rank 0 goes on with the training."""
        windows = [window for _, window in _named_windows(model) if isinstance(window, EpisodeWindow)]
        told = [window.tell() for window in windows]
        message = {"told": told, "generators": crc32(generator_states())}
        ends = self.rank == 0 and not go_on
        answers = [json.loads(answer) for answer in self.group.exchange(_to_json(message), ends)]
        if ends:
            return False
        for index, window in enumerate(windows):
            window.merge([tuple(pair) for answer in answers for pair in answer["told"][index]])
        if len({answer["generators"] for answer in answers}) > 1:  # callbacks of rank 0 have drawn from them
            set_generator_states(self.group.exchange(generator_states())[0])
        self.n_episodes_of_others = sum(len(answer["told"][0]) for answer in answers) - len(told[0])
        return go_on

    def agree_on_round(self, model: object, counters: Counters, go_on: bool) -> bool:
        """Do as `agree` before a round of gradient steps, and count the episodes of the other ranks."""
        go_on = self.agree(model, go_on)
        if go_on:
            counters.ended += self.n_episodes_of_others
            counters.episodes += self.n_episodes_of_others
        return go_on

    def finish_update(self, metrics: Metrics, rollout: RolloutBuffer) -> Metrics:
        """Return the metrics of an update with the explained variance of the rollouts of all ranks."""
        if rollout.learned is not None and "explained_variance" in metrics:
            from rlzoo.core.returns import explained_variance

            values, _, _, returns = rollout.learned
            columns = self.group.gather(np.stack([np.asarray(values), np.asarray(returns)]))
            metrics["explained_variance"] = explained_variance(columns[:, 0], columns[:, 1])
        return metrics

    # ------------------------------------------------------------------ a training

    def adopt(self, algorithm: object) -> None:
        """Mark a model as one that trains with these ranks; on ranks other than 0 it is silent."""
        model = cast(Trainee, algorithm)
        model.ranks, model.n_ranks = self, self.size
        if self.rank:
            model.verbose = 0
            model.set_logger(Logger(None, []))

    @contextmanager
    def training(self, algorithm: object) -> Iterator[None]:
        """Let all ranks train a model together inside; on other ranks, end quietly when rank 0 ends.

        :raises UserError: the algorithm or the policy cannot be trained by several ranks
        """
        model = cast(Trainee, algorithm)
        env: VecEnv = vars(model)["env"]
        check_supported(model)
        model.optimize_assigned_policy()
        if env.on_device:
            raise UserError("environments on a device cannot be divided among ranks")
        if hasattr(type(model), "replay_buffer"):
            check_off_policy(cast(OffPolicyTrainee, algorithm))
        self._synchronise(model)
        optimizers = _optimizers(model)
        normalizers = [layer for layer in wrappers_of(env) if isinstance(layer, VecNormalize)]
        first, n_local = self.rank * model.n_envs, model.n_envs
        noise = GlobalNoise(n_local, n_local * self.size, slice(first, first + n_local))
        threads = model.num_threads
        model.act = noise_inside(noise, model.act)
        model.begin_rollout = noise_inside(noise, model.begin_rollout)
        model.update = self._marked(model.update)
        for name, window in _named_windows(model):
            vars(model)[name] = EpisodeWindow(window, lambda: model.counters.num_timesteps)
        for optimizer in optimizers:
            optimizer.average = self.average_gradients
        for normalizer in normalizers:
            normalizer.gather = self.gather_rows
        model.num_threads = threads or 1  # of one number on all ranks: it can change the last bits
        try:
            with suppress(Ended):
                yield
        finally:
            model.num_threads = threads
            del model.act, model.begin_rollout, model.update
            for name, window in _named_windows(model):
                vars(model)[name] = window.plain() if isinstance(window, EpisodeWindow) else window
            for optimizer in optimizers:
                optimizer.average = None
            for normalizer in normalizers:
                normalizer.gather = None

    def _marked(self, update: Callable[..., Result]) -> Callable[..., Result]:
        """Return an update that averages its metrics, with random numbers those of the whole batch."""

        def marked(*arguments: object) -> Result:
            self.in_update = True
            try:
                with self.noise_of_batch or nullcontext():
                    return update(*arguments)
            finally:
                self.in_update = False

        return marked

    def gather_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows [n_local, ...] of all ranks, [n_envs, ...]."""
        return np.concatenate(self.group.gather(rows))

    def _synchronise(self, model: Trainee) -> None:
        """Give all ranks the parameters and the random generator of rank 0."""
        for part in model.state().values():
            if isinstance(part, nn.Module):
                for tensor in (*part.parameters(), *part.buffers()):
                    self.group.broadcast_(tensor.detach())
            elif isinstance(part, Tensor):
                self.group.broadcast_(part)
        set_generator_states(self.group.exchange(generator_states())[0])


def join() -> Ranks:
    """Join the ranks that torchrun, or `rlzoo train --n-procs`, has started.

    :raises UserError: this process is no rank, or the ranks do not find each other
    """
    return Ranks(join_group())


def check_supported(model: Trainee) -> None:
    """Check that several ranks can train a model together.

    :raises UserError: its algorithm or its policy cannot be
    """
    name = type(model).__name__
    if not getattr(model, "data_parallel", False):
        raise UserError(f"{name} cannot be trained by several ranks; those that can: {', '.join(SUPPORTED)}")
    if getattr(model, "overrides_train", False):
        raise UserError(f"{name} overrides train(), whose gradients are not averaged over ranks")
    buffers = (getattr(model, "own_buffer_class", None), type(getattr(model, "assigned_rollout", None)))
    if any(getattr(buffer, "has_own_get", False) for buffer in buffers):
        raise UserError(f"{name}: the get() of an own rollout buffer does not share rows among ranks")
    if model.has_train_mode_layers:
        raise UserError(
            f"{name}: a policy with dropout or batch normalisation cannot be trained by several ranks"
        )
    if getattr(model.config, "use_sde", False) and model.n_envs == 1:
        raise UserError(f"{name}: use_sde needs at least two environments on each rank")


def check_off_policy(model: OffPolicyTrainee) -> None:
    """Check that several ranks can train a model from replayed experience.

    :raises UserError: its replay buffer, its exploration or `train_freq` does not allow it
    """
    name = type(model).__name__
    for option in ("use_sde", "param_noise"):
        if getattr(model.config, option, False):
            raise UserError(f"{name} with {option}=True cannot be trained by several ranks")
    if model.update_period()[1]:
        raise UserError(f"{name}: several ranks need train_freq in steps, not in episodes")
    check_shared(model.replay_buffer)


def generator_states() -> bytes:
    """Return the states of the random generators of PyTorch and NumPy."""
    _, key, *others = np.random.get_state()
    return _to_json(others).ljust(64) + np.asarray(key).tobytes() + torch.get_rng_state().numpy().tobytes()


def set_generator_states(states: bytes) -> None:
    """Set the random generators of PyTorch and NumPy to what `generator_states` returned."""
    key_end = 64 + 4 * 624
    np.random.set_state(("MT19937", np.frombuffer(states[64:key_end], np.uint32), *json.loads(states[:64])))
    torch.set_rng_state(torch.frombuffer(bytearray(states[key_end:]), dtype=torch.uint8))


def noise_inside(noise: GlobalNoise, function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function with its random numbers those of all environments."""

    def inside(*arguments: object) -> Result:
        with noise:
            return function(*arguments)

    return inside


def _optimizers(model: object) -> list[NetworkOptimizer]:
    """Return the optimisers of a model, and of its entropy coefficient."""
    found = [*vars(model).values()]
    found += [vars(part).get("minimizer") for part in found if hasattr(part, "minimizer")]
    return [part for part in found if isinstance(part, NetworkOptimizer)]


def _named_windows(model: object) -> list[tuple[str, deque[object]]]:
    return [(name, vars(model)[name]) for name in ("ep_info_buffer", "ep_success_buffer")]


def _to_json(message: object) -> bytes:
    return json.dumps(message, default=float).encode()
