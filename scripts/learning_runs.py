"""Train the shipped hyperparameters on several seeds, play the final agents, and write a table.

    python scripts/learning_runs.py                           # every row of the table
    python scripts/learning_runs.py --rows ppo:CartPole-v1    # one row
    python scripts/learning_runs.py --reuse                   # play agents that are there already

Each agent is trained by the command line with one thread, `--jobs` at a time. The final model, not the best
one, then plays deterministically in environments whose seeds training never used.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
HELD_OUT = (
    1_000_000  # environments are seeded from here on; training uses its seed and the numbers just above it
)
N_ENVS = 10


@dataclass(frozen=True)
class Row:
    """An agent to train, and what the median of its seeds has to reach."""

    algo: str
    env: str
    target: float | None = None
    episodes: int = 100


ROWS = (
    Row("ppo", "CartPole-v1", 500),
    Row("ppo", "Pendulum-v1", -190, episodes=1000),
    Row("ppo", "MountainCarContinuous-v0", 85),
    Row("a2c", "CartPole-v1", 495),
    Row("a2c", "MountainCarContinuous-v0", 88),
)


@dataclass(frozen=True)
class Result:
    """One training seed of a row."""

    seed: int
    mean: float
    std: float
    steps: int
    seconds: float | None  # training; None when the agent was there already


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--rows", nargs="+", type=parse_row, default=ROWS, metavar="ALGO:ENV", help="default: all"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="training seeds (default: 0 1 2)")
    parser.add_argument(
        "--episodes", type=int, default=None, help="episodes to play (default: the row's own)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="agents trained at a time (default: 2)")
    parser.add_argument("--folder", type=Path, default=Path("logs/learning"), help="where the runs go")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "scripts" / "learning_results.md", help="the table"
    )
    parser.add_argument("--reuse", action="store_true", help="do not train again what has been trained")
    args = parser.parse_args()

    work = [(row, seed) for row in args.rows for seed in args.seeds]
    with ThreadPoolExecutor(args.jobs) as pool:
        times = dict(
            zip(work, pool.map(lambda item: train(*item, args.folder, args.reuse), work), strict=True)
        )
    results = {
        row: [
            play(row, seed, args.folder, args.episodes or row.episodes, times[row, seed])
            for seed in args.seeds
        ]
        for row in args.rows
    }
    text = report(results, args.episodes)
    print(text)
    args.out.write_text(text)


def parse_row(text: str) -> Row:
    """`ppo:CartPole-v1`: a row of the table if it is there, else one without a target."""
    algo, colon, env = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"expected ALGO:ENV, not {text!r}")
    return next((row for row in ROWS if (row.algo, row.env) == (algo, env)), Row(algo, env))


def training_command(row: Row, seed: int) -> list[str]:
    """The arguments of `rlzoo` that train an agent; evaluation would only cost time here."""
    return ["train", "--algo", row.algo, "--env", row.env, "--seed", str(seed), "--eval-freq", "-1"]


def model_path(row: Row, seed: int, folder: Path) -> Path | None:
    """The final model of the newest run of a row and seed, if there is one."""
    from rlzoo.config.run import model_file

    found = (folder / f"seed{seed}" / row.algo).glob(f"*/{model_file(row.env)}")
    runs = [path for path in found if path.parent.name.startswith(f"{row.env.replace('/', '-')}_")]
    return max(runs, key=lambda path: path.stat().st_mtime, default=None)


def train(row: Row, seed: int, folder: Path, reuse: bool) -> float | None:
    """Train one agent in a process of its own; returns the seconds it took."""
    if reuse and model_path(row, seed, folder):
        return None
    where = ["--log-folder", str(folder / f"seed{seed}"), "--num-threads", "1", "--verbose", "0"]
    command = [sys.executable, "-m", "rlzoo", *training_command(row, seed), *where]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    seconds = time.perf_counter() - began
    print(f"{row.algo} {row.env} seed {seed}: trained in {seconds:.0f} s", file=sys.stderr, flush=True)
    return seconds


def play(row: Row, seed: int, folder: Path, episodes: int, seconds: float | None) -> Result:
    """Play the final agent deterministically in environments that training never saw."""
    import torch

    from rlzoo import evaluate_policy
    from rlzoo.config.hyperparams import lookup
    from rlzoo.envs.vec_env import load_env_state
    from rlzoo.experiment.blueprint import check_hyperparams
    from rlzoo.experiment.environments import build_evaluation_env

    torch.set_num_threads(1)
    path = model_path(row, seed, folder)
    if path is None:
        raise SystemExit(f"no agent of {row.algo} {row.env} seed {seed} in {folder}")
    blueprint = check_hyperparams(row.algo, lookup(row.algo, row.env).values)
    env = build_evaluation_env(blueprint, row.env, n_envs=N_ENVS, seed=HELD_OUT, backend="auto")
    model = blueprint.algorithm.load(path, device="cpu")
    if model.normalize_state:
        load_env_state(env, model.normalize_state)
    returns, _ = evaluate_policy(model, env, episodes, deterministic=True, return_episode_rewards=True)
    env.close()
    return Result(seed, statistics.fmean(returns), statistics.pstdev(returns), model.num_timesteps, seconds)


def report(results: dict[Row, list[Result]], episodes: int | None) -> str:
    """The table as Markdown, and the commands that made it."""
    seeds = [result.seed for result in next(iter(results.values()))]
    lines = [
        "# What the shipped hyperparameters learn",
        "",
        "Final model, deterministic, mean return ± standard deviation over episodes, in environments seeded",
        f"from {HELD_OUT:,} on, which training never used. Required: of the median over the seeds.",
        "",
        "| algorithm | environment | steps | episodes | "
        + " | ".join(f"seed {seed}" for seed in seeds)
        + " | median | required | |",
        "|---" * (len(seeds) + 7) + "|",
        *(table_row(row, found, episodes or row.episodes) for row, found in results.items()),
        "",
        "Made by",
        "",
        f"    python scripts/learning_runs.py --seeds {' '.join(map(str, seeds))}",
        "",
        "which trains each agent with one thread by",
        "",
        *(f"    rlzoo {' '.join(training_command(row, seed))}" for row in results for seed in seeds),
    ]
    return "\n".join(lines) + "\n"


def table_row(row: Row, results: list[Result], episodes: int) -> str:
    median = statistics.median(result.mean for result in results)
    required = "" if row.target is None else f"{row.target:g}"
    verdict = "" if row.target is None else ("reached" if median >= row.target else "**missed**")
    each = " | ".join(f"{result.mean:.1f} ± {result.std:.1f}" for result in results)
    head = f"| {row.algo} | {row.env} | {results[0].steps:,} | {episodes:,} "
    return f"{head}| {each} | {median:.1f} | {required} | {verdict} |"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
