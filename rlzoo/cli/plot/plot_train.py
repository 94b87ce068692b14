"""`rlzoo plot train`: plot returns, success rates or lengths of training episodes."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlzoo.cli.flags.parser import Choice, IntInRange
from rlzoo.cli.plot.plot_flags import (
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
  rlzoo plot train -a ppo -e CartPole-v1
  rlzoo plot train -a ppo a2c -e CartPole-v1 Acrobot-v1 -x time -w 20 -o fig.svg
  rlzoo plot train -a tqc -e FetchReach-v4 -y success

There is one panel per environment and one line per run: the mean of the last
--episode-window episodes, or of all episodes so far if there are fewer.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_runs_flags(parser)
    parser.add_argument(
        "-f",
        "--folder",
        "--exp-folder",
        dest="folder",
        default=LOG_FOLDER,
        metavar="DIR",
        help=f"folder of the runs, at any depth (default: {LOG_FOLDER})",
    )
    parser.add_argument(
        "-x",
        "--x-axis",
        type=Choice("x axis", ("steps", "episodes", "time")),
        default="steps",
        metavar="steps|episodes|time",
        help="x axis (default: steps)",
    )
    parser.add_argument(
        "-y",
        "--y-axis",
        type=Choice("y axis", ("reward", "success", "length")),
        default="reward",
        metavar="reward|success|length",
        help="y axis (default: reward)",
    )
    parser.add_argument(
        "-w",
        "--episode-window",
        type=IntInRange(1),
        default=100,
        metavar="N",
        help="episodes of the moving average (default: 100)",
    )
    add_steps_flags(parser)
    add_figure_flags(parser, "image file or folder (default: <folder>/plots/train_<y>.png)")


def run(args: argparse.Namespace) -> int:
    from rlzoo.plots import train

    default = Path(args.folder) / "plots" / f"train_{args.y_axis}"
    stem, kind = stem_and_format(args.output, default, args.format)
    check_show(args.show)
    figure = train(
        args.folder,
        args.algos,
        args.envs,
        x=args.x_axis,
        y=args.y_axis,
        window=args.episode_window,
        max_timesteps=args.max_timesteps,
        plain_steps=args.plain_steps,
        figsize=args.figsize,
        fontsize=args.fontsize,
    )
    write_and_show({}, {with_ending(stem, f".{kind}"): figure}, kind, args.show)
    return 0
