"""`rlzoo train --n-procs N`, and `rlzoo train` under torchrun: several processes train one agent."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError

if TYPE_CHECKING:
    from rlzoo.distributed.ranks import Ranks

LAUNCHED = "RLZOO_RENDEZVOUS"  # set by `rlzoo.distributed.launch`
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def several_processes(n_procs: int) -> bool:
    """Return whether several processes train: as asked for, or since torchrun has started this one."""
    if n_procs > 1 or LAUNCHED in os.environ:
        return True
    return os.environ.get("WORLD_SIZE", "1") != "1" and all(name in os.environ for name in OF_TORCHRUN)


def train_in_ranks(args: argparse.Namespace, runs: list[RunConfig], changes: dict[str, Any] | None) -> int:
    """Start the ranks, or train as one of them.

    :param runs: runs to train one after the other
    :param changes: settings that `--resume` changes; None: new runs
    """
    is_started = LAUNCHED in os.environ
    if args.n_procs > 1 and not is_started:
        if all(name in os.environ for name in OF_TORCHRUN):
            raise UserError("--n-procs starts the processes itself: leave it out under torchrun")
        from rlzoo.distributed.launch import launch

        return launch(args.n_procs, sys.argv[1:])
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
