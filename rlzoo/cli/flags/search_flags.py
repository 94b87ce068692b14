"""Flags of the hyperparameter search, for `optimize` and `train -optimize`, and of Ray clusters."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import Choice, FlagGroup, IntInRange, Parser
from rlzoo.cli.flags.training_flags import run_config, seed_range
from rlzoo.config.tune import OBJECTIVES, PRUNERS, SAMPLERS, RayConfig, TuneConfig
from rlzoo.core.errors import UserError

BACKEND = Choice("backend", ("processes", "ray"))
RAY_KEYS = {"backend", "ray_address", "cpus_per_trial", "gpus_per_trial"}
"""Destinations of the flags."""

TRAIN_ONLY_FLAGS = (
    "uuid",
    "n_procs",
    "eval_freq",
    "save_freq",
    "save_replay_buffer",
    "truncate_last_trajectory",
    "tensorboard_log",
    "log_interval",
    "matmul_precision",
    "cuda_graphs",
    "compile",
    "progress",
    "track",
    "wandb_project_name",
    "wandb_entity",
    "wandb_group",
    "wandb_tags",
)
"""Destinations of flags that save, log or show a single run: they have no effect in a search."""


def add_search_flags(parser: argparse.ArgumentParser) -> None:
    """Add the budget, the sampler, the pruner and the objective of a search."""
    how = parser.add_argument_group("search")
    how.add_argument(
        "--n-trials",
        type=IntInRange(1),
        default=500,
        metavar="N",
        help="trials of the study, over all runs of the command (default: 500)",
    )
    how.add_argument(
        "--max-total-trials",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="same as --n-trials; takes precedence over it",
    )
    how.add_argument(
        "--n-jobs",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="worker processes, which share the cores (default: 1; with Ray as many as fit on the cluster)",
    )
    how.add_argument(
        "--sampler",
        type=Choice("sampler", SAMPLERS),
        default="tpe",
        metavar="NAME",
        help=f"{', '.join(SAMPLERS)} (default: tpe)",
    )
    how.add_argument(
        "--pruner",
        type=Choice("pruner", PRUNERS),
        default=None,
        metavar="NAME",
        help=f"{', '.join(PRUNERS)} (default: median; none with nsga2)",
    )
    how.add_argument(
        "--n-startup-trials",
        type=IntInRange(0),
        default=10,
        metavar="N",
        help="random trials before the sampler starts, never pruned by median and percentile (default: 10)",
    )
    how.add_argument(
        "--n-evaluations",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="evaluations per training, the last at its end (default: one per 100,000 steps, at least 4)",
    )
    how.add_argument(
        "--objective",
        type=Choice("objective", OBJECTIVES),
        default="last",
        metavar="NAME",
        help="objective value of a training: last (mean of the last third of its evaluations), best, or auc"
        " (mean of all) (default: last)",
    )
    how.add_argument(
        "--n-seeds",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="trainings per trial, with different seeds; their mean counts (default: 1)",
    )
    how.add_argument(
        "--space",
        default=None,
        metavar="FILE",
        help="search space in YAML instead of the default one, e.g. gamma: {low: 0.9, high: 0.999}",
    )
    how.add_argument(
        "--fixed",
        nargs="+",
        default=[],
        metavar="KEY",
        help="hyperparameters that are not searched, like those of -params",
    )
    how.add_argument(
        "--timeout", type=_seconds, default=None, metavar="SECONDS", help="stop the search after this time"
    )
    how.add_argument(
        "--optimization-log-path",
        default="",
        metavar="DIR",
        help="store the evaluations and the best agent of each trial here",
    )
    how.add_argument("--no-optim-plots", action="store_true", help="write no report.html and no figures")


def add_study_flags(parser: argparse.ArgumentParser) -> None:
    """Add the name and the storage of the study, and one of its trials."""
    which = parser.add_argument_group("study")
    which.add_argument(
        "--study-name", default=None, metavar="NAME", help="name of the study (default: ALGO_ENV)"
    )
    which.add_argument(
        "--storage",
        default=None,
        metavar="URL",
        help="storage: a journal (FILE.log), sqlite:///FILE, postgresql://..., mysql://... or"
        " grpc://HOST:PORT (default: a journal in the folder of the study)",
    )
    which.add_argument(
        "--trial-id",
        type=IntInRange(0),
        default=None,
        metavar="K",
        help="train an agent with the hyperparameters of this trial",
    )


def search_keys() -> set[str]:
    """Return the destinations of the flags that `add_search_flags` adds."""
    parser = Parser("", "")
    add_search_flags(parser)
    return {action.dest for action in parser.actions}


def unused_keys(args: argparse.Namespace) -> set[str]:
    """Return the destinations of flags that have no effect without a search."""
    return search_keys() - {"n_jobs"} if args.seeds else search_keys() | RAY_KEYS


def tune_config(args: argparse.Namespace, env_id: str) -> TuneConfig:
    """Build the configuration of the search from the flags."""
    return TuneConfig(
        run=run_config(args, env_id),
        n_trials=args.max_total_trials or args.n_trials,
        n_jobs=args.n_jobs or 1,
        sampler=args.sampler,
        pruner=args.pruner,
        n_startup_trials=args.n_startup_trials,
        n_evaluations=args.n_evaluations,
        storage=args.storage,
        study_name=args.study_name,
        space=args.space,
        fixed=tuple(args.fixed),
        objective=args.objective,
        n_seeds=args.n_seeds,
        timeout=args.timeout,
        log_path=args.optimization_log_path,
        figures=not args.no_optim_plots,
        ray=ray_config(args, args.n_jobs),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, not {text!r}")
    return seconds


def add_ray_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--backend` and the flags of Ray.

    :param what: what runs there, for the help
    """
    group = parser.add_argument_group("cluster (needs the extra `ray`)")
    group.add_argument(
        "--backend",
        type=BACKEND,
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


def add_hidden_search_flags(group: FlagGroup, parser: Parser) -> None:
    """Add `-optimize` and the flags of a search, which the help of `rlzoo optimize` describes.

    :param group: the group of `-optimize` and `--seeds`
    """
    before = set(parser.actions)
    group.add_argument(
        "-optimize",
        "--optimize-hyperparameters",
        "--optimize",
        action="store_true",
        help="search for hyperparameters",
    )
    group.add_argument(
        "--seeds",
        nargs="+",
        type=seed_range,
        default=[],
        metavar="SEED",
        help="train one run for each seed, such as 0-9 or 0 100 200; --n-jobs N at a time, or --backend ray",
    )
    group.add_argument(
        "--stack-seeds",
        choices=("auto", "on", "off"),
        default="auto",
        help="train the seeds of --seeds in --n-jobs processes, in each of which they share batched matrix"
        " products; auto: where that is supported and faster (default: auto)",
    )
    add_study_flags(parser)
    add_search_flags(parser)
    add_ray_flags(parser, "trials")
    parser.hide(
        action
        for action in parser.actions
        if action not in before and action.dest not in ("seeds", "stack_seeds")
    )
