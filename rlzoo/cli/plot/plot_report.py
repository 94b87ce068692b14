"""`rlzoo plot report`: aggregate metrics and performance profiles from a results file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.plot.plot_flags import (
    add_confidence_flag,
    add_figure_flags,
    add_million_flag,
    check_show,
    stem_and_format,
    with_ending,
    write_and_show,
)
from rlzoo.core.errors import UserError

if TYPE_CHECKING:
    from rlzoo.plots.results import Results

EPILOG = """\
examples:
  rlzoo plot report results.json
  rlzoo plot report results.json --rliable --versus --format pdf -o paper/fig
  rlzoo plot report results.json --boxplot --skip-timesteps --latex
  rlzoo plot report results.json --normalize scales.yml

Figures: learning curves, aggregate metrics with intervals, performance
profiles, probability of improvement, sample efficiency, box plots. Scores of
several environments are normalised: 0 is random actions and 1 the best
published score or, if these are unknown, the lowest and the highest evaluation
in the file.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "file", nargs="?", default=None, metavar="FILE", help="results file of `rlzoo plot compare`"
    )
    parser.add_argument("-i", "--input", default=None, metavar="FILE", help="same as FILE")
    parser.add_argument(
        "--merge",
        nargs="+",
        default=[],
        metavar="FILE",
        help="results files to add; of equal names the last file counts",
    )
    what = parser.add_argument_group("figures (default: all)")
    what.add_argument(
        "-r", "--rliable", action="store_true", help="aggregate metrics with intervals, performance profiles"
    )
    what.add_argument("-vs", "--versus", action="store_true", help="probability of improvement")
    what.add_argument("-iqm", "--iqm", action="store_true", help="sample efficiency: IQM during training")
    what.add_argument("-b", "--boxplot", action="store_true", help="box plots of the last evaluations")
    what.add_argument("--skip-timesteps", action="store_true", help="no learning curves")
    parser.add_argument(
        "--normalize",
        default="auto",
        metavar="HOW",
        help="auto, published, range, none or a YAML file of ENV: [low, high] (default: auto)",
    )
    parser.add_argument("--keep-envs", nargs="+", default=[], metavar="ENV", help="only these environments")
    parser.add_argument(
        "-skip", "--skip-envs", nargs="+", default=[], metavar="ENV", help="without these environments"
    )
    parser.add_argument("--keep-keys", nargs="+", default=[], metavar="NAME", help="only these algorithms")
    parser.add_argument("--skip-keys", nargs="+", default=[], metavar="NAME", help="without these algorithms")
    parser.add_argument(
        "-l", "--labels", nargs="+", default=[], metavar="LABEL", help="new names of the algorithms, in order"
    )
    parser.add_argument(
        "-loc",
        "--legend-loc",
        metavar="PLACE",
        help="no effect: the legend is below the panels",
    )
    add_confidence_flag(parser)
    add_million_flag(parser)
    parser.add_argument("-latex", "--latex", action="store_true", help="tables in LaTeX")
    add_figure_flags(parser, "prefix of the files, or folder (default: next to FILE)")


def run(args: argparse.Namespace) -> int:
    from rlzoo.plots.normalisation import normalise
    from rlzoo.plots.report_parts import AGGREGATED, report_figures, report_tables

    path = _file(args)
    stem, kind = stem_and_format(args.output, path.with_name(path.name.removesuffix(".json")), args.format)
    check_show(args.show)
    results = _results(path, args)
    wanted = _wanted(args, results)
    scores = normalise(results, args.normalize) if set(wanted) & set(AGGREGATED) else None
    look = (args.confidence, args.plain_steps, args.figsize, args.fontsize)
    figures = report_figures(results, scores, wanted, *look)
    table_kind = "tex" if args.latex else "md"
    tables = report_tables(results, scores, table_kind, args.confidence) + "\n"
    print(tables)
    files = {with_ending(stem, f"_{name}.{kind}"): figure for name, figure in figures.items()}
    write_and_show({with_ending(stem, f"_tables.{table_kind}"): tables}, files, kind, args.show)
    return 0


def _file(args: argparse.Namespace) -> Path:
    """Return the results file, whose suffix may be left out, or be that of RL Baselines3 Zoo."""
    if (args.file is None) == (args.input is None):
        raise UserError("name one results file: rlzoo plot report FILE")
    path = Path(args.file or args.input)
    with_suffix = with_ending(path.with_suffix("") if path.suffix == ".pkl" else path, ".json")
    return with_suffix if not path.exists() and with_suffix.is_file() else path


def _results(path: Path, args: argparse.Namespace) -> Results:
    from rlzoo.plots.results import choose, merge, read_results, rename

    results = merge(read_results(path), map(read_results, args.merge))
    results = choose(results, args.keep_envs, args.skip_envs, args.keep_keys, args.skip_keys)
    return rename(results, args.labels) if args.labels else results


def _wanted(args: argparse.Namespace, results: Results) -> list[str]:
    """Return the names of the selected figures, or of all possible ones if none is selected."""
    asked = {
        "aggregates": args.rliable,
        "profiles": args.rliable,
        "improvement": args.versus,
        "efficiency": args.iqm,
        "boxes": args.boxplot,
    }
    wanted = [name for name, given in asked.items() if given]
    if not wanted:
        wanted = [name for name in asked if name != "improvement" or len(results.names) > 1]
    return wanted if args.skip_timesteps else ["curves", *wanted]
