"""Flags of `optimize`, `benchmark run` and `train --seeds` that run their work on a Ray cluster."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import Choice
from rlzoo.config.cluster import RayConfig
from rlzoo.core.errors import UserError

BACKENDS = ("processes", "ray")
RAY_KEYS = {"backend", "ray_address", "cpus_per_trial", "gpus_per_trial"}
"""Destinations of the flags."""


def add_ray_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--backend` and the flags of Ray.

    :param what: what runs there, for the help
    """
    group = parser.add_argument_group("cluster (needs the extra `ray`)")
    group.add_argument(
        "--backend",
        type=Choice("backend", BACKENDS),
        default="processes",
        metavar="NAME",
        help=f"run the {what} in processes of this machine, or as tasks of Ray: ray (default: processes)",
    )
    group.add_argument(
        "--ray-address",
        default=None,
        metavar="ADDRESS",
        help="Ray cluster: auto, the one that this machine belongs to, or HOST:PORT (default: start Ray on"
        " this machine, and stop it at the end)",
    )
    each = what.removesuffix("s")
    group.add_argument(
        "--cpus-per-trial",
        type=_positive,
        default=1.0,
        metavar="N",
        help=f"CPUs of Ray for each {each}, and its PyTorch threads without --num-threads (default: 1)",
    )
    group.add_argument(
        "--gpus-per-trial",
        type=_not_negative,
        default=0.0,
        metavar="N",
        help=f"GPUs of Ray for each {each}; 0.25: four share one GPU (default: 0)",
    )


def ray_config(args: argparse.Namespace, max_parallel: int | None) -> RayConfig | None:
    """Return the Ray cluster that the flags ask for; None without `--backend ray`.

    :param max_parallel: `--n-jobs`
    :raises UserError: there are flags of Ray without `--backend ray`, or a fraction of several GPUs
    """
    if getattr(args, "backend", "processes") != "ray":
        for key, default in (("ray_address", None), ("cpus_per_trial", 1.0), ("gpus_per_trial", 0.0)):
            if getattr(args, key, default) != default:
                raise UserError(f"--{key.replace('_', '-')} is for Ray: add --backend ray")
        return None
    if args.gpus_per_trial > 1 and args.gpus_per_trial % 1:
        raise UserError(f"--gpus-per-trial must be an integer above 1, not {args.gpus_per_trial:g}")
    return RayConfig(
        address=args.ray_address,
        cpus_per_trial=args.cpus_per_trial,
        gpus_per_trial=args.gpus_per_trial,
        max_parallel=max_parallel,
    )


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 10_000:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, not {text!r}")
    return number


def _positive(text: str) -> float:
    if (number := _not_negative(text)) == 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return number
