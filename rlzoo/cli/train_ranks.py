"""`rlzoo train --n-procs N`, and `rlzoo train` under torchrun: several processes train one agent."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.distributed.launch import RENDEZVOUS, is_rank, launch

if TYPE_CHECKING:
    from rlzoo.distributed.ranks import Ranks


def several_processes(n_procs: int) -> bool:
    """Return whether several processes train: as asked for, or since torchrun has started this one."""
    return n_procs > 1 or is_rank()


def train_in_ranks(args: argparse.Namespace, runs: list[RunConfig], changes: dict[str, Any] | None) -> int:
    """Start the ranks, or train as one of them.

    :param runs: runs to train one after the other
    :param changes: settings that `--resume` changes; None: new runs
    """
    if RENDEZVOUS not in os.environ and args.n_procs > 1:
        if is_rank():
            raise UserError("--n-procs starts the processes itself: leave it out under torchrun")
        return launch(args.n_procs, args.command_line)
    from rlzoo.distributed.ranks import join
    from rlzoo.experiment.data_parallel.rank_run import as_rank

    ranks = join()
    return as_rank(ranks, lambda: _train(ranks, args, runs, changes))


def _train(
    ranks: Ranks, args: argparse.Namespace, runs: list[RunConfig], changes: dict[str, Any] | None
) -> int:
    from rlzoo.experiment.data_parallel.rank_run import resume_run, train

    if changes is not None:
        resume_run(ranks, args.resume, **changes)
        return 0
    command = shlex.join(["rlzoo", *sys.argv[1:]])
    for config in runs:
        if train(ranks, config, command):
            break
    return 0
