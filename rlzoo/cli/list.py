"""`rlzoo list`: what there is to train with, to train on, and to play."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from rlzoo.cli.parser import OneOf
from rlzoo.config import catalog
from rlzoo.core.errors import printable

HELP = "list algorithms, environments or trained agents"
EPILOG = """\
examples:
  rlzoo list algos
  rlzoo list envs --algo ppo
  rlzoo list envs --all
  rlzoo list agents -f logs

`envs` are those with hyperparameters of their own; any other Gymnasium environment can be trained on too.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "what",
        type=OneOf("thing to list", ("algos", "envs", "agents")),
        metavar="algos|envs|agents",
        help="what to list",
    )
    parser.add_argument(
        "--algo", type=OneOf("algorithm", catalog.names()), metavar="ALGO", help="only of this algorithm"
    )
    parser.add_argument(
        "--all", action="store_true", help="every environment that is installed (with `envs`)"
    )
    parser.add_argument(
        "-f", "--folder", default="logs", metavar="DIR", help="where runs are kept (default: logs)"
    )


def run(args: argparse.Namespace) -> int:
    algos = [args.algo] if args.algo else catalog.names()
    if args.what == "algos":
        found = _algorithms(algos)
    elif args.what == "envs":
        found = _environments(algos, args.all)
    else:
        found = _agents(algos, args.folder)
    if not found:
        print(f"no {args.what} in {args.folder}", file=sys.stderr)
    print_table(found)
    return 0


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows with aligned columns, so that the first column can be cut out."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(printable("  ".join(map(str.ljust, row, widths)).rstrip()))


def _algorithms(algos: list[str]) -> list[tuple[str, ...]]:
    from rlzoo.config.hyperparams import shipped_files

    return [
        (
            algo,
            catalog.resolve(algo).partition(":")[2],
            f"{len(set().union(*(file.entries for file in shipped_files(algo))))} sets of hyperparameters",
        )
        for algo in algos
    ]


def _environments(algos: list[str], every: bool) -> list[tuple[str, ...]]:
    """Environment ids, and the algorithms that have an entry for them."""
    from rlzoo.config.hyperparams import shipped_envs

    by_env: dict[str, list[str]] = {}
    if every:
        from rlzoo.envs.registration import known_env_ids

        by_env = {env_id: [] for env_id in known_env_ids()}
    for algo in algos:
        for env_id in shipped_envs(algo):
            by_env.setdefault(env_id, []).append(algo)
    return [(env_id, " ".join(by_env[env_id])) for env_id in sorted(by_env)]


def _agents(algos: list[str], folder: str) -> list[tuple[str, ...]]:
    """Agents: algorithm, environment, number and folder of the run; then of a run of the user how many files
    it has saved, and of a shipped agent how well it plays."""
    from rlzoo.config.run import all_runs
    from rlzoo.experiment.registry import shipped_agents, shipped_root
    from rlzoo.experiment.run_folder import check_folder

    check_folder(folder)
    rows: list[tuple[str, ...]] = []
    for algo in algos:
        for env_name, number, path in all_runs(folder, algo):
            if n_files := len(list(path.glob("*.zip"))):
                files = f"{n_files} file{'s' * (n_files > 1)}"
                rows.append((algo, env_name, str(number), str(path), files))
    root = shipped_root()
    root = root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root
    for agent in shipped_agents():
        if agent.algo in algos:
            where = str(root / agent.path)
            rows.append((agent.algo, agent.env_id, str(agent.number), where, agent.summary()))
    return rows
