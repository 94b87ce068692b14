"""`rlzoo benchmark page`: write the results of a benchmark as a static website."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlzoo.cli.benchmark.benchmark_table import LIST, SCORES, read_table
from rlzoo.cli.flags.list_flags import add_rows_flag
from rlzoo.cli.flags.parser import IntInRange

EPILOG = """\
examples:
  rlzoo benchmark page -o site           # the published results of rlzoo
  rlzoo benchmark page logs/benchmark --list my_list.yml -o site
  rlzoo benchmark page logs/benchmark --list my_list.yml -o site --no-videos

Run `rlzoo benchmark run` and `rlzoo benchmark score` first. Then open
site/index.html, or copy the folder to any web server for static files.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        metavar="RUNS",
        help="folders of scored runs, or files of `rlzoo benchmark score -o` (default: the published scores"
        " and pretrained agents of rlzoo)",
    )
    parser.add_argument("--list", default=None, metavar="LIST", help="benchmark list (YAML)")
    add_rows_flag(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the website"
    )
    parser.add_argument("--title", default=None, help="heading (default: the name of the list)")
    parser.add_argument("--no-videos", action="store_true", help="no videos")
    parser.add_argument(
        "-n",
        "--n-timesteps",
        type=IntInRange(1),
        default=500,
        metavar="STEPS",
        help="environment steps per video (default: 500)",
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.benchmark.site.site import SiteOptions, write_site
    from rlzoo.benchmark.site.site_rows import site_rows
    from rlzoo.config.hyperparams import shipped_folder

    places = [Path(place) for place in args.places]
    if not args.places:
        args.places, args.list = [SCORES], args.list or LIST
        places = [shipped_folder("trained_agents")]
    _, rows = read_table(args.places, args.list, args.rows)
    title = args.title or f"Results of {args.list or ' '.join(args.places)}"
    options = SiteOptions(title=title, videos=not args.no_videos, video_steps=args.n_timesteps)
    index = write_site(site_rows(rows, places), args.output, options, lambda line: print(line, flush=True))
    print(f"{len(rows)} rows are in {index}")
    return 0
