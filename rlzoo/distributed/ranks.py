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
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from rlzoo.accel.flat_parameters import FlatParameters, ParameterGroup
from rlzoo.buffers.rollout_batch import RolloutBatch
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.buffers.sequences import RNNState, take_sequences
from rlzoo.core.errors import UserError
from rlzoo.core.types import Counters, Metrics, PolicyInput, PolicyOutput
from rlzoo.distributed.minibatches import RankBatch, Shares, has_advantages, rank_batch
from rlzoo.distributed.noise import GlobalNoise
from rlzoo.distributed.process_group import Ended, ProcessGroup, join_group
from rlzoo.distributed.rank_episodes import EpisodeWindow
from rlzoo.envs.vec_env.vec_env import VecEnv, wrappers_of
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.metrics.logger import Logger
from rlzoo.optim.network_optimizer import NetworkOptimizer

Result = TypeVar("Result")

SUPPORTED = ("a2c", "ppo", "ppo_lstm", "ppo_mask", "trpo")
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

    @property
    def config(self) -> object:
        """The hyperparameters."""

    def state(self) -> dict[str, object]:
        """Return what a checkpoint holds."""

    def set_logger(self, logger: Logger) -> None:
        """Log to another logger."""


class Ranks:
    """The processes that train one agent together, seen from one of them.

    Example (a script that `torchrun --nproc-per-node 2 script.py` starts):
        >>> from rlzoo import PPO
        >>> from rlzoo.distributed import join
        >>> ranks = join()
        >>> env = ranks.make_vec_env("CartPole-v1", n_envs=8, seed=0)  # of which each rank makes 4
        >>> model = PPO("MlpPolicy", env, seed=0).learn(100_000)
        >>> if ranks.rank == 0:
        ...     model.save("ppo_cartpole")

    :param group: the process group
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group, self.rank, self.size = group, group.rank, group.size
        self.share = 1 / group.size  # fraction of the present minibatch that this rank has
        self.shares: list[float] = []  # of the minibatches of this update

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
        venv.unwrapped.first_env = self.rank * venv.num_envs
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

    def average_metrics(self, history: list[Metrics]) -> list[Metrics]:
        """Return the metrics of each minibatch of an update as one process has them."""
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

    def agree(self, model: object, go_on: bool) -> bool:
        """Tell the other ranks the episodes of a rollout; return whether rank 0 goes on with the training."""
        windows = [window for _, window in _named_windows(model) if isinstance(window, EpisodeWindow)]
        message: dict[str, object] = {"told": [window.tell() for window in windows]}
        if self.rank == 0:  # callbacks may have drawn random numbers
            message["generator"] = torch.get_rng_state().numpy().tobytes().hex()
        ends = self.rank == 0 and not go_on
        answers = [json.loads(answer) for answer in self.group.exchange(_to_json(message), ends)]
        if ends:
            return False
        for index, window in enumerate(windows):
            window.merge([tuple(pair) for answer in answers for pair in answer["told"][index]])
        if self.rank:
            state = bytearray.fromhex(answers[0]["generator"])
            torch.set_rng_state(torch.frombuffer(state, dtype=torch.uint8))
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
        if env.on_device:
            raise UserError("environments on a device cannot be divided among ranks")
        self._synchronise(model)
        optimizers = [part for part in vars(model).values() if isinstance(part, NetworkOptimizer)]
        normalizers = [layer for layer in wrappers_of(env) if isinstance(layer, VecNormalize)]
        noise = GlobalNoise(model.n_envs, self.rank, self.size)
        threads = model.num_threads
        model.act, model.begin_rollout = (
            noise_inside(noise, model.act),
            noise_inside(noise, model.begin_rollout),
        )
        for name, window in _named_windows(model):
            vars(model)[name] = EpisodeWindow(window, model.counters)
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
            del model.act, model.begin_rollout
            for name, window in _named_windows(model):
                vars(model)[name] = window.plain() if isinstance(window, EpisodeWindow) else window
            for optimizer in optimizers:
                optimizer.average = None
            for normalizer in normalizers:
                normalizer.gather = None

    def gather_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows [n_local, ...] of all ranks, [n_envs, ...]."""
        return np.concatenate(self.group.gather(rows))

    def _synchronise(self, model: Trainee) -> None:
        """Give all ranks the parameters and the random generator of rank 0."""
        for part in model.state().values():
            if isinstance(part, nn.Module):
                for tensor in (*part.parameters(), *part.buffers()):
                    self.group.broadcast_(tensor.detach())
        torch.set_rng_state(self.group.broadcast_(torch.get_rng_state()))


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
    if model.has_train_mode_layers:
        raise UserError(
            f"{name}: a policy with dropout or batch normalisation cannot be trained by several ranks"
        )
    if getattr(model.config, "use_sde", False) and model.n_envs == 1:
        raise UserError(f"{name}: use_sde needs at least two environments on each rank")


def noise_inside(noise: GlobalNoise, function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function with its random numbers those of all environments."""

    def inside(*arguments: object) -> Result:
        with noise:
            return function(*arguments)

    return inside


def _named_windows(model: object) -> list[tuple[str, deque[object]]]:
    return [(name, vars(model)[name]) for name in ("ep_info_buffer", "ep_success_buffer")]


def _to_json(message: object) -> bytes:
    return json.dumps(message, default=float).encode()
