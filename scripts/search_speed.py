"""Measure how well a search uses the cores, and compare it with the leading zoo's.

    python scripts/search_speed.py                                    # both, three rounds each
    python scripts/search_speed.py --parts rl_zoo3 --zoo-python other-venv/bin/python --out search_speed.md

1. Two workers against two plain trainings side by side. The trials of the search all train the same (their
   only parameter is a discount that hardly varies), as many steps in sum and with as many evaluations as two
   copies of `rlzoo train`, one thread each, at the same time.
2. One job, two jobs, and `rl_zoo3 train -optimize --n-jobs 2`: trials per minute with a random sampler and
   no pruner, from the search space of RL Baselines3 Zoo for PPO, with the same steps, evaluations and
   episodes.

The sides run in turn, each command from the start of its process to its end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENV = "CartPole-v1"
N_EVALUATIONS = 4
PARTS = ("copies", "rl_zoo3")
HARDLY_A_SPACE = "gamma: {low: 0.98, high: 0.9801}\n"
ZOO_SPACE = """\
batch_size: {low: 4, high: 1024, log: true}
n_steps: {low: 32, high: 4096, log: true}
gamma: {low: 0.97, high: 0.9999}
gae_lambda: {low: 0.9, high: 0.9999}
learning_rate: {low: 1.0e-5, high: 0.002, log: true}
ent_coef: {low: 1.0e-8, high: 0.1, log: true}
clip_range: [0.1, 0.2, 0.3, 0.4]
n_epochs: [1, 5, 10, 20]
max_grad_norm: {low: 0.3, high: 2.0}
policy_kwargs.net_arch: [{pi: [64], vf: [64]}, {pi: [64, 64], vf: [64, 64]}, {pi: [256, 256], vf: [256, 256]}]
policy_kwargs.activation_fn: [nn.Tanh, nn.ReLU]
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps of a trial (default: 20000)")
    parser.add_argument("--trials", type=int, default=16, help="trials of a search (default: 16)")
    parser.add_argument(
        "--zoo-python", default=sys.executable, metavar="PATH", help="an interpreter with rl_zoo3"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="which measurements (default: both)"
    )
    parser.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="write the tables here as well"
    )
    args = parser.parse_args()
    tables = []
    if "copies" in args.parts:
        tables.append(side_by_side(args.rounds, args.steps, args.trials))
    if "rl_zoo3" in args.parts:
        tables.append(against_rl_zoo3(args.rounds, args.steps, args.trials, args.zoo_python))
    text = "\n\n".join(tables)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def side_by_side(rounds: int, steps: int, trials: int) -> str:
    """Seconds of two trainings at the same time, and of a search with two workers for as many steps."""
    total = steps * trials // 2  # of each copy
    copy = ["train", "--algo", "ppo", "--env", ENV, "-n", str(total), "--num-threads", "1", "--verbose", "0"]
    copy += ["--eval-freq", str(steps // N_EVALUATIONS)]
    rows = []
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            copies = timed([ours(copy, "--seed", str(turn * 2 + k), folder=f"{folder}/{k}") for k in (0, 1)])
            search = timed([search_command(folder, HARDLY_A_SPACE, steps, trials, 2, turn)])
        rows.append((copies, search, copies / search))
        print(
            f"two copies {copies:.1f} s, two workers {search:.1f} s: {copies / search:.2f}", file=sys.stderr
        )
    copies, search, ratio = map(statistics.median, zip(*rows, strict=True))
    each = ", ".join(f"{row[2]:.2f}" for row in rows)
    return "\n".join(
        [
            "| two copies of the training | search with two workers | share of their throughput | each |",
            "|---|---|---|---|",
            f"| {copies:.1f} s | {search:.1f} s | **{ratio:.2f}** | {each} |",
        ]
    )


def against_rl_zoo3(rounds: int, steps: int, trials: int, python: str) -> str:
    """Trials per minute of one job, two jobs, and two of RL Baselines3 Zoo."""
    names = ("one job", "two jobs", "rl_zoo3, two jobs")
    speeds: dict[str, list[float]] = {name: [] for name in names}
    theirs = [python, "-m", "rl_zoo3.train", "-optimize", "--algo", "ppo", "--env", ENV, "-n", str(steps)]
    theirs += ["--n-trials", str(trials), "--n-jobs", "2", "--sampler", "random", "--pruner", "none"]
    theirs += ["--n-evaluations", str(N_EVALUATIONS), "--eval-episodes", "5", "--n-eval-envs", "1"]
    theirs += ["--num-threads", "1", "--no-optim-plots", "--verbose", "0"]
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            commands = (
                search_command(f"{folder}/1", ZOO_SPACE, steps, trials, 1, turn),
                search_command(f"{folder}/2", ZOO_SPACE, steps, trials, 2, turn),
                [*theirs, "--seed", str(turn), "-f", f"{folder}/3"],
            )
            for name, command in zip(names, commands, strict=True):
                speeds[name].append(trials / timed([command], folder) * 60)
                print(f"{name}: {speeds[name][-1]:.1f} trials per minute", file=sys.stderr)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    lines = ["| | trials per minute | each | two jobs over it |", "|---|---|---|---|"]
    for name in names:
        each = ", ".join(f"{value:.1f}" for value in speeds[name])
        lines.append(
            f"| {name} | {medians[name]:.1f} | {each} | **{medians['two jobs'] / medians[name]:.2f}** |"
        )
    return "\n".join(lines)


def search_command(folder: str, space: str, steps: int, trials: int, jobs: int, seed: int) -> list[str]:
    """A search of ours; the space is written to a file first."""
    path = Path(folder) / "space.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(space)
    command = ["optimize", "--algo", "ppo", "--env", ENV, "-n", str(steps), "--n-trials", str(trials)]
    command += ["--n-jobs", str(jobs), "--sampler", "random", "--pruner", "none", "--no-optim-plots"]
    command += ["--n-evaluations", str(N_EVALUATIONS), "--num-threads", "1", "--verbose", "0"]
    return ours(command, "--space", str(path), "--seed", str(seed), folder=f"{folder}/logs")


def ours(command: list[str], *more: str, folder: str) -> list[str]:
    """A command of this checkout."""
    return [sys.executable, "-m", "rlzoo", *command, *more, "-f", folder]


def timed(commands: list[list[str]], folder: str | None = None) -> float:
    """Seconds until the last of the commands, started at once, has ended."""
    path = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    began = time.perf_counter()
    running = [
        subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for command in commands
    ]
    for process in running:
        _, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{process.args} failed:\n{errors.decode()}")
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
