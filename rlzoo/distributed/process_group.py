"""Process group of the ranks: sums of tensors over gloo or NCCL, and messages of plain bytes and JSON.

Nothing that arrives is unpickled: PyTorch's collectives of Python objects are not used.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.distributed.launch import RENDEZVOUS, is_rank

PATIENCE = timedelta(days=7)  # ranks wait for each other, for example while rank 0 evaluates
MEET = timedelta(minutes=10)  # until all ranks have started
MESSAGE_BYTES = 8 * 2**10  # bytes of a message; longer ones are sent in parts
HEADER_BYTES = 16


class RankLost(RunFailed):
    """Another rank of the training has ended."""


class Ended(Exception):
    """Rank 0 has ended the training."""


class ProcessGroup:
    """The ranks of one training, as one of them sees them.

    Every method with messages or sums is called by all ranks in the same order.

    :param rank: number of this process, from 0
    :param size: number of processes
    :param store: key-value store that all ranks reach, also when a rank has ended
    """

    def __init__(self, rank: int, size: int, store: dist.Store) -> None:
        self.rank, self.size, self.store = rank, size, store
        self._sent = np.zeros(MESSAGE_BYTES, np.uint8)
        self._received = [torch.zeros(MESSAGE_BYTES, dtype=torch.uint8) for _ in range(size)]

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """Replace a tensor by its sum over the ranks, which is the same to the bit on all of them.

        :raises RankLost: another rank has ended
        """
        with self._losses():
            dist.all_reduce(tensor)
        return tensor

    def broadcast_(self, tensor: torch.Tensor) -> torch.Tensor:
        """Replace a tensor by that of rank 0.

        :raises RankLost: another rank has ended
        """
        with self._losses():
            dist.broadcast(tensor, src=0)
        return tensor

    def exchange(self, message: bytes, end: bool = False) -> list[bytes]:
        """Send a message to all ranks and return those of all ranks, in their order.

        :param end: rank 0 ends the training
        :raises Ended: on the other ranks, when rank 0 ends the training
        :raises RankLost: another rank has ended
        """
        capacity = MESSAGE_BYTES - HEADER_BYTES
        parts: list[bytearray] = [bytearray() for _ in range(self.size)]
        sizes, start = [1] * self.size, 0
        while start < max(sizes) or not start:
            part = message[start : start + capacity]
            self._sent[:HEADER_BYTES].view(np.int64)[:] = (end, len(message))
            self._sent[HEADER_BYTES : HEADER_BYTES + len(part)] = np.frombuffer(part, np.uint8)
            with self._losses():
                dist.all_gather(self._received, torch.from_numpy(self._sent))
            arrays = [received.numpy() for received in self._received]
            headers = [array[:HEADER_BYTES].view(np.int64) for array in arrays]
            if headers[0][0]:
                if self.rank:
                    raise Ended
                return []
            sizes = [int(header[1]) for header in headers]
            for array, size, whole in zip(arrays, sizes, parts, strict=True):
                n_bytes = min(max(size - start, 0), capacity)
                whole += array[HEADER_BYTES : HEADER_BYTES + n_bytes].tobytes()
            start += capacity
        return [bytes(whole) for whole in parts]

    def gather(self, array: np.ndarray) -> np.ndarray:
        """Return the arrays of all ranks, of one shape and type, [size, *shape]."""
        messages = self.exchange(np.ascontiguousarray(array).tobytes())
        return np.stack([np.frombuffer(m, array.dtype).reshape(array.shape) for m in messages])

    def gather_json(self, value: object) -> list[object]:
        """Return the values of all ranks, in their order: numbers, strings, lists and dicts of them."""
        return [json.loads(message) for message in self.exchange(json.dumps(value, default=str).encode())]

    # ------------------------------------------------------------------ ranks that end

    def explain(self, reason: object) -> None:
        """Tell the other ranks why this one ends."""
        self.store.set("failure", one_line(f"rank {self.rank}: {reason}"))

    @contextmanager
    def _losses(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # the connection to a rank was closed
            raise RankLost(self._failure()) from error

    def _failure(self) -> str:
        if self.store.check(["failure"]):
            return self.store.get("failure").decode()
        others = "rank 1" if self.size == 2 else f"one of the ranks 1 to {self.size - 1}"
        return f"{others if self.rank == 0 else 'another rank'} has ended unexpectedly"


def join_group() -> ProcessGroup:
    """Join the process group that the environment variables of torchrun describe.

    :raises UserError: they do not, or the ranks do not find each other
    """
    if not is_rank():
        raise UserError(
            "this process is no rank: start it with `torchrun --nproc-per-node 2 SCRIPT`, or train with"
            " `rlzoo train --n-procs 2`"
        )
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError) as error:
        raise UserError(f"RANK and WORLD_SIZE must be integers: {error}") from None
    if not 0 <= rank < size:
        raise UserError(f"RANK must be between 0 and WORLD_SIZE - 1 = {size - 1}, not {rank}")
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    try:
        if not dist.is_initialized():
            method = f"file://{os.environ[RENDEZVOUS]}" if RENDEZVOUS in os.environ else "env://"
            store, rank, size = next(iter(dist.rendezvous(method, rank, size, timeout=MEET)))
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
            atexit.register(_leave_group)
            return ProcessGroup(rank, size, dist.PrefixStore("rlzoo", store))
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(f"rank {rank} does not reach the other ranks: {one_line(error)[:300]}") from error
    store = dist.HashStore()  # the caller's group: other ranks do not see why one has ended
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), store)


def _leave_group() -> None:
    """End the threads of gloo, one of which may hold the last tensor sent, while Python can still free it."""
    if dist.is_initialized():
        dist.destroy_process_group()
