"""`rlzoo plot compare`: learning curves over seeds, algorithms and environments."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlzoo.cli.flags.parser import IntInRange
from rlzoo.cli.plot.plot_flags import (
    add_confidence_flag,
    add_figure_flags,
    add_runs_flags,
    add_steps_flags,
    check_show,
    stem_and_format,
    with_ending,
    write_and_show,
)
from rlzoo.config.run import LOG_FOLDER

EPILOG = """\
examples:
  rlzoo plot compare -a ppo a2c -e CartPole-v1 Acrobot-v1
  rlzoo plot compare -f logs/benchmark --iqm -o results.json
  rlzoo plot compare -a ppo -f logs/old logs/new -l old new --format pdf

Reads evaluations.npz, which `--eval-freq` of `rlzoo train` writes. There is one
panel per environment; a curve is the mean over the runs of an algorithm, or of
a variant of it, with a 95% bootstrap interval. The results file is the input of
`rlzoo plot report`.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_runs_flags(parser)
    parser.add_argument(
        "-f",
        "--folder",
        "--exp-folders",
        dest="folders",
        nargs="+",
        default=[LOG_FOLDER],
        metavar="DIR",
        help=f"folders of the runs, at any depth (default: {LOG_FOLDER})",
    )
    parser.add_argument("-l", "--labels", nargs="+", default=[], metavar="LABEL", help="one label per folder")
    parser.add_argument(
        "-k",
        "--key",
        default="results",
        metavar="KEY",
        help="array of evaluations.npz: results (returns), ep_lengths, successes (default: results)",
    )
    add_steps_flags(parser)
    parser.add_argument(
        "-min",
        "--min-timesteps",
        type=IntInRange(0, special=(-1,)),
        default=-1,
        metavar="STEPS",
        help="only runs evaluated at least until this step (default: those as long as the longest)",
    )
    parser.add_argument(
        "-iqm", "--iqm", action="store_true", help="interquartile mean (IQM) instead of the mean"
    )
    add_confidence_flag(parser)
    parser.add_argument(
        "-median", "--median", action="store_true", help="only the median in the table, without mean and IQM"
    )
    parser.add_argument("-latex", "--latex", action="store_true", help="table in LaTeX")
    parser.add_argument(
        "-print",
        "--print-n-trials",
        action="store_true",
        help="no effect: the table always shows the number of runs",
    )
    add_figure_flags(parser, "results file; figure and table are next to it (default: <DIR>/plots/results)")


def run(args: argparse.Namespace) -> int:
    from rlzoo.plots import compare, comparison_table, gather
    from rlzoo.plots.results import results_text

    default = Path(args.folders[0]) / "plots" / "results"
    stem, kind = stem_and_format(args.output, default, args.format)
    check_show(args.show)
    results = gather(
        args.folders,
        args.labels,
        args.algos,
        args.envs,
        args.key,
        args.max_timesteps,
        None if args.min_timesteps == -1 else args.min_timesteps,
    )
    figure = compare(
        results,
        iqm=args.iqm,
        confidence=args.confidence,
        plain_steps=args.plain_steps,
        figsize=args.figsize,
        fontsize=args.fontsize,
    )
    table_kind = "tex" if args.latex else "md"
    table = comparison_table(results, table_kind, args.median) + "\n"
    print(table)
    texts = {with_ending(stem, ".json"): results_text(results), with_ending(stem, f".{table_kind}"): table}
    write_and_show(texts, {with_ending(stem, f".{kind}"): figure}, kind, args.show)
    return 0
