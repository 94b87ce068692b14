"""`rlzoo benchmark score`: evaluate trained agents and store their scores."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.benchmark.benchmark_flags import add_jobs_flag, choose_jobs, make_folder
from rlzoo.cli.flags.list_flags import add_packages_flag
from rlzoo.cli.flags.parser import IntInRange, NotNeeded
from rlzoo.core.errors import RunFailed, UserError

if TYPE_CHECKING:
    from rlzoo.benchmark.scores import Score
    from rlzoo.config.benchmark import Row

EPILOG = """\
examples:
  rlzoo benchmark score                       # the pretrained agents
  rlzoo benchmark score logs/benchmark --list my_list.yml -o scores.json
  rlzoo benchmark score logs -n 20 --n-jobs 8

The final model of each run is evaluated, deterministically except for Atari and
MiniGrid. The score is stored next to it, in score.json, and reused until the
model file changes or more episodes are requested.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="folders of runs (default: the pretrained agents)",
    )
    parser.add_argument(
        "-n",
        "--n-episodes",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="minimum episodes per agent (default: from the list, else as in the stored score, else 100)",
    )
    parser.add_argument(
        "--list",
        default=None,
        metavar="LIST",
        help="benchmark list (YAML): evaluate only its agents, with its number of episodes",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="also write all scores to this file; scores of other agents (of the list) in it are kept",
    )
    add_packages_flag(parser)
    add_jobs_flag(parser, "agents")
    add_zoo_flags(parser)


def add_zoo_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of RL Baselines3 Zoo's benchmark."""
    zoo = parser.add_argument_group("flags of RL Baselines3 Zoo")
    zoo.add_argument("--log-dir", type=Path, default=None, metavar="DIR", help="same as DIR")
    zoo.add_argument(
        "--benchmark-dir", type=Path, default=None, metavar="DIR", help="same as -o DIR/scores.json"
    )
    zoo.add_argument("--test-mode", action="store_true", help="evaluate only one agent")
    for flag, reason in {
        "--n-timesteps": "whole episodes are evaluated (--n-episodes N); -n of rl_zoo3 counts steps",
        "--n-envs": "the score determines the number of environments",
        "--seed": "a score always uses the same seeds",
        "--num-threads": "each agent has one thread (--n-jobs)",
        "--verbose": "one line is printed for each agent",
    }.items():
        zoo.add_argument(flag, nargs=1, action=NotNeeded, reason=reason, metavar="N", help="no effect")
    for flag in ("--with-mujoco", "--no-hub"):
        reason = "only the agents of the folder are evaluated; none is downloaded"
        zoo.add_argument(flag, action=NotNeeded, reason=reason, help="no effect")


def run(args: argparse.Namespace) -> int:
    from rlzoo.benchmark.scores import write_scores
    from rlzoo.benchmark.scoring import find_agents, score_all
    from rlzoo.config.benchmark import read_list
    from rlzoo.config.hyperparams import benchmark_file, shipped_folder, shipped_path
    from rlzoo.io.atomic import check_writable

    rows = read_list(benchmark_file(args.list)) if args.list else None
    given = [*args.places, *filter(None, [args.log_dir])]
    places = [shipped_path(place) for place in given] or [shipped_folder("trained_agents")]
    if args.benchmark_dir is not None and args.output is None:
        make_folder(args.benchmark_dir)
        args.output = args.benchmark_dir / "scores.json"
    if args.output is not None:
        check_writable(args.output)
    found = {folder.resolve(): folder for place in places for folder in find_agents(place, rows)}
    folders = list(found.values())[: 1 if args.test_mode else None]
    kept = [] if args.output is None else others(args.output, check_distinct(folders), rows)
    scores, n_cached, n_failed = [], 0, 0
    for ended in score_all(folders, rows or (), args.n_episodes, choose_jobs(args.n_jobs)):
        if ended.score is None:
            n_failed += 1
            print(f"rlzoo: {ended.folder}: {ended.problem}", file=sys.stderr)
            continue
        score = ended.score
        scores.append(score)
        if ended.problem:
            print(f"rlzoo: {ended.folder}: {ended.problem}", file=sys.stderr)
        n_cached += ended.cached
        if not ended.cached:
            success = f", success {score.success_rate:.1%}" if score.success_rate is not None else ""
            print(
                f"{ended.folder}: {score.mean:.2f} +/- {score.std:.2f}{success} ({score.episodes} episodes)",
                flush=True,
            )
    if n_cached:
        print(f"{n_cached} of {len(folders)} had been scored before")
    if args.output and scores:
        write_scores(args.output, [*scores, *kept])
        beside = f", beside {len(kept)} of other agents" if kept else ""
        counted = "1 score is" if len(scores) == 1 else f"{len(scores)} scores are"
        print(f"{counted} in {args.output}{beside}")
    if n_failed:
        raise RunFailed(f"{n_failed} of {len(folders)} agents could not be evaluated")
    return 0


def check_distinct(folders: list[Path]) -> Collection[tuple[str, str, int]]:
    """Check that no two folders have the same row and seed; return name, environment and seed of all.

    :raises UserError: two folders do; names them
    """
    from rlzoo.benchmark.finished import row_key
    from rlzoo.runs.run_folder import read_run

    known: dict[tuple[str, str, int], Path] = {}
    for folder in folders:
        try:
            run = read_run(folder, or_zoo=True)
            key = row_key(folder, run)
        except UserError:
            continue  # reported when it is evaluated
        other = known.setdefault((*key, run.seed), folder)
        if other != folder:
            raise UserError(f"{other} and {folder} are both {' on '.join(key)} with seed {run.seed}")
    return known.keys()


def others(file: Path, found: Collection[tuple[str, str, int]], rows: Iterable[Row] | None) -> list[Score]:
    """Return the scores of other agents that an existing file contains.

    :param rows: of a benchmark list: return only scores of its agents
    :raises UserError: the file is of another kind; it is left unchanged
    """
    from rlzoo.benchmark.scores import read_scores

    listed = None if rows is None else {row.key for row in rows}
    return [
        score
        for score in (read_scores([file]) if file.exists() else ())
        if (*score.key, score.seed) not in found and (listed is None or score.key in listed)
    ]
