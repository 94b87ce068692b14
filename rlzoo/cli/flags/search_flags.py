"""The flags of a search for hyperparameters, as `optimize` and `train -optimize` take them."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import OneOf, Parser, Whole, actions_of
from rlzoo.cli.flags.training_flags import run_config
from rlzoo.config.tune import OBJECTIVES, PRUNERS, SAMPLERS, TuneConfig


def add_search_flags(parser: argparse.ArgumentParser) -> None:
    """Add what is searched, and how."""
    how = parser.add_argument_group("how to search")
    how.add_argument(
        "--n-trials",
        type=Whole(1),
        default=500,
        metavar="N",
        help="trials of the study, however often the command is repeated (default: 500)",
    )
    how.add_argument(
        "--max-total-trials",
        type=Whole(1),
        default=None,
        metavar="N",
        help="the same; it goes before --n-trials",
    )
    how.add_argument(
        "--n-jobs",
        type=Whole(1),
        default=1,
        metavar="N",
        help="worker processes, which share the cores (default: 1)",
    )
    how.add_argument(
        "--sampler",
        type=OneOf("sampler", SAMPLERS),
        default="tpe",
        metavar="NAME",
        help=f"{', '.join(SAMPLERS)} (default: tpe)",
    )
    how.add_argument(
        "--pruner",
        type=OneOf("pruner", PRUNERS),
        default=None,
        metavar="NAME",
        help=f"{', '.join(PRUNERS)} (default: median; none with nsga2)",
    )
    how.add_argument(
        "--n-startup-trials",
        type=Whole(0),
        default=10,
        metavar="N",
        help="trials drawn at random and never pruned, before sampler and pruner learn (default: 10)",
    )
    how.add_argument(
        "--n-evaluations",
        type=Whole(1),
        default=None,
        metavar="N",
        help="evaluations of one training, the last at its end (default: one in 100,000 steps, at least 4)",
    )
    how.add_argument(
        "--objective",
        type=OneOf("objective", OBJECTIVES),
        default="last",
        metavar="NAME",
        help="what a training is worth: the mean of its last third of evaluations, the best of them, or the"
        " area under the curve: last, best, auc (default: last)",
    )
    how.add_argument(
        "--n-seeds",
        type=Whole(1),
        default=None,
        metavar="N",
        help="trainings of one trial, averaged (default: 1)",
    )
    how.add_argument(
        "--space",
        default=None,
        metavar="FILE",
        help="search space in YAML instead of the algorithm's, e.g. gamma: {low: 0.9, high: 0.999}",
    )
    how.add_argument(
        "--fixed",
        nargs="+",
        default=[],
        metavar="KEY",
        help="hyperparameters that keep their value; those of -params do anyway",
    )
    how.add_argument(
        "--timeout", type=_seconds, default=None, metavar="SECONDS", help="end the search after this long"
    )
    how.add_argument(
        "--optimization-log-path",
        default="",
        metavar="DIR",
        help="keep the evaluations and the best agent of each trial here",
    )
    how.add_argument("--no-optim-plots", action="store_true", help="draw no figures at the end")


def add_study_flags(parser: argparse.ArgumentParser) -> None:
    """Add which study, and which of its trials."""
    which = parser.add_argument_group("which study")
    which.add_argument(
        "--study-name", default=None, metavar="NAME", help="name of the study (default: ALGO_ENV)"
    )
    which.add_argument(
        "--storage",
        default=None,
        metavar="URL",
        help="where it is kept: a journal (FILE.log), sqlite:///FILE, postgresql://..., mysql://..., or"
        " grpc://HOST:PORT (default: a journal in the study's folder)",
    )
    which.add_argument(
        "--trial-id",
        type=Whole(0),
        default=None,
        metavar="K",
        help="train an agent with the hyperparameters of this trial",
    )


def search_keys() -> set[str]:
    """Where the flags of `add_search_flags` are in the parsed arguments."""
    parser = Parser("", "")
    add_search_flags(parser)
    return {action.dest for action in actions_of(parser)}


def tune_config(args: argparse.Namespace, env_id: str) -> TuneConfig:
    """The search that the flags describe."""
    return TuneConfig(
        run=run_config(args, env_id),
        n_trials=args.max_total_trials or args.n_trials,
        n_jobs=args.n_jobs,
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
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, not {text!r}")
    return seconds
