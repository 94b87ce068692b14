"""`rlzoo list`: what there is to train with, to train on, and to play."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from rlzoo.cli.flags.parser import Choice, output_width
from rlzoo.config import catalog
from rlzoo.core.errors import printable

EPILOG = """\
examples:
  rlzoo list algos
  rlzoo list algos --algo ppo --verbose
  rlzoo list envs --algo ppo
  rlzoo list envs --all
  rlzoo list agents -f logs

`envs` have shipped hyperparameters; any other Gymnasium environment works too.
`agents` are your runs and the pretrained agents, with training steps, score
(mean return ± standard deviation over episodes, success rate) and file size. In
120 columns or more (COLUMNS=120) also with training seed and folder.
"""
WIDE = 120  # columns of a terminal that has room for all


Table: TypeAlias = "tuple[tuple[str, ...], list[tuple[str, ...]]]"  # headings, rows


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "what",
        type=Choice("thing to list", ("algos", "envs", "agents")),
        metavar="algos|envs|agents",
        help="what to list",
    )
    parser.add_argument(
        "--algo", type=Choice("algorithm", catalog.names()), metavar="ALGO", help="only of this algorithm"
    )
    parser.add_argument(
        "--all", action="store_true", help="every environment that is installed (with `envs`)"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="papers, actions and hyperparameters (with `algos`)"
    )
    parser.add_argument(
        "-f", "--folder", default="logs", metavar="DIR", help="where runs are kept (default: logs)"
    )


def run(args: argparse.Namespace) -> int:
    algos = [args.algo] if args.algo else catalog.names()
    if args.what == "agents":
        return _show_agents(algos, args.folder)
    if args.what == "algos" and args.verbose:
        from rlzoo.cli.explain import summary

        print(printable("\n\n".join("\n".join(summary(algo)) for algo in algos)))
        return 0
    if args.what == "algos":
        print_table(_algorithms(algos))
    else:
        _print_environments(_environments(algos, args.all))
    return 0


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows with aligned columns, so that the first column can be cut out."""
    for line in aligned(rows):
        print(line)


def _print_environments(rows: list[tuple[str, ...]]) -> None:
    """Print environments and their algorithms; in a terminal long lines are wrapped below the algorithms."""
    width, longest = output_width(), max(len(env_id) for env_id, _ in rows)
    if width is None or width < longest + 20:
        print_table(rows)
        return
    for env_id, algos in rows:
        first, *rest = textwrap.wrap(algos, width - longest - 2) or [""]
        print(printable(f"{env_id:<{longest}}  {first}".rstrip()))
        for line in rest:
            print(" " * (longest + 2) + line)


def aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, with columns of the same width."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [printable("  ".join(map(str.ljust, row, widths)).rstrip()) for row in rows]


def _algorithms(algos: list[str]) -> list[tuple[str, ...]]:
    from rlzoo.config.hyperparams import shipped_files

    return [
        (
            algo,
            catalog.resolve(algo).partition(":")[2],
            " ".join(catalog.action_spaces(algo)),
            f"{len(set().union(*(file.entries for file in shipped_files(algo))))} entries",
        )
        for algo in algos
    ]


def _environments(algos: list[str], every: bool) -> list[tuple[str, ...]]:
    """Return environment ids, and the algorithms that have an entry for them."""
    from rlzoo.config.hyperparams import shipped_envs

    by_env: dict[str, list[str]] = {}
    if every:
        from rlzoo.envs.single_env.registration import known_env_ids

        by_env = {env_id: [] for env_id in known_env_ids()}
    for algo in algos:
        for env_id in shipped_envs(algo):
            by_env.setdefault(env_id, []).append(algo)
    return [(env_id, " ".join(by_env[env_id])) for env_id in sorted(by_env)]


def _show_agents(algos: list[str], folder: str) -> int:
    """Print the user's runs that hold an agent, then the shipped agents; with headings in a terminal."""
    columns = shutil.get_terminal_size().columns
    tables = [_runs(algos, folder, columns), _shipped(algos, columns >= WIDE)]
    found = [(heading, rows) for heading, rows in tables if rows]
    if not found:
        print(f"no agents in {folder}", file=sys.stderr)
    for number, (heading, rows) in enumerate(found):
        if sys.stdout.isatty():
            print("\n" * bool(number), end="")
            rows = [heading, *rows]
        print_table(rows)
    return 0


def _runs(algos: list[str], folder: str, columns: int) -> Table:
    """Return the runs that hold an agent: algorithm, environment, number, folder, and number of saved files.

    :param columns: of the terminal; the folders are left out where there is no room for them
    """
    from rlzoo.config.run import all_runs, check_folder

    check_folder(folder)
    heading = ("algorithm", "environment", "run", "folder", "agents")
    rows: list[tuple[str, ...]] = []
    for algo in algos:
        for env_name, number, path in all_runs(folder, algo):
            if n_files := len(list(path.glob("*.zip"))):
                files = f"{n_files} file{'s' * (n_files > 1)}"
                rows.append((algo, env_name, str(number), str(path), files))
    if rows and max(map(len, aligned([heading, *rows]))) > columns:
        without = [row[:3] + row[4:] for row in (heading, *rows)]
        return without[0], without[1:]
    return heading, rows


def _shipped(algos: list[str], is_wide: bool) -> Table:
    """Return the shipped agents: algorithm, environment, steps, score and size, then seed and folder."""
    from rlzoo.metrics.short_count import short_count
    from rlzoo.runs.pretrained_registry import shipped_agents, shipped_root

    root = shipped_root()
    root = root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root
    rows: list[tuple[str, ...]] = []
    for agent in shipped_agents():
        if agent.algo in algos:
            algo = f"{agent.algo}:{agent.name}" if agent.name else agent.algo
            row = (algo, agent.env_id, short_count(agent.n_timesteps), agent.summary())
            more = (agent.choice(), str(root / agent.path)) if is_wide else ()
            rows.append((*row, f"{short_count(agent.bytes)}B", *more))
    more = ("seed", "folder") if is_wide else ()
    return ("algorithm", "environment", "steps", "score", "size", *more), rows
