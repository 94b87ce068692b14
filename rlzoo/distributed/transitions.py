"""Batches of the replay buffers of all ranks: drawn alike on every rank, which assembles what it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from rlzoo.buffers.replay.dict_replay_buffer import DictReplayBuffer
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer, ReplayBuffer
from rlzoo.core.errors import UserError
from rlzoo.distributed.minibatches import Shares

SHARED_BUFFERS = (ReplayBuffer, NStepReplayBuffer, DictReplayBuffer)
"""Classes of replay buffers that ranks can share: those that draw uniformly."""


@dataclass
class Part:
    """The transitions of this rank in a batch.

    :param positions: theirs in the batch; where there are none, one that does not count
    :param share: fraction of the batch
    """

    batch: ReplayBatch
    positions: torch.Tensor
    share: float


def check_shared(replay: ReplayBuffer) -> None:
    """Check that ranks can share a replay buffer.

    :raises UserError: its class does not draw uniformly
    """
    if type(replay) not in SHARED_BUFFERS:
        raise UserError(f"a {type(replay).__name__} cannot be divided among ranks, only a ReplayBuffer")


def parts(replay: ReplayBuffer, shares: Shares, n_batches: int, batch_size: int) -> Iterator[Part]:
    """Yield this rank's part of each batch that one process would draw.

    :param replay: the transitions of this rank's environments
    """
    n_batches_left = n_batches
    while n_batches_left > 0:
        count = min(replay.batches_at_once(batch_size), n_batches_left)
        n_batches_left -= count
        drawn = torch.randint(replay.size() * shares.n_envs, (count * batch_size,)).numpy()
        drawn = (drawn + replay.oldest * shares.n_envs) % (replay.n_slots * shares.n_envs)
        for indices in drawn.reshape(count, batch_size):
            positions = shares.positions(indices)
            share = len(positions) / batch_size
            if len(positions):
                own = shares.own(indices)
            else:
                positions, own = np.zeros(1, np.int64), np.full(1, replay.oldest * replay.n_envs)
            yield Part(replay.take(own), torch.from_numpy(positions), share)
