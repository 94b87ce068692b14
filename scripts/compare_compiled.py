"""Compare trainings with compiled gradient steps (`--compile`) with the same trainings without.

    python scripts/compare_compiled.py
    python scripts/compare_compiled.py --cases sac-halfcheetah ppo-cartpole --rounds 5

The cases are those of scripts/compare_speed.py. Both trainings live in one process and take turns; the first
turn, in which PyTorch compiles (or finds the program on disk), is timed apart. Prints a Markdown table: steps
per second of both, their ratio, and the gradient steps after which compiling has paid for itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from compare_speed import CASES, Training, specification
from speed_worker import our_model

from rlzoo.accel.matmul_precision import set_matmul_precision

DEFAULT = ("ppo-cartpole", "ppo-halfcheetah", "a2c-cartpole", "dqn-cartpole", "qrdqn-cartpole",
           "sac-halfcheetah", "td3-halfcheetah", "tqc-halfcheetah", "sac-halfcheetah-medium")  # fmt: skip
SHARE = 6  # of a case's steps in one turn


def turn(model: Any, steps: int) -> tuple[float, float]:
    """Train on; return steps and gradient steps per second."""
    before, updates, began = model.num_timesteps, model.n_updates, time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - began
    return (model.num_timesteps - before) / seconds, (model.n_updates - updates) / seconds


def compare(name: str, rounds: int) -> str:
    """Return the line of one case."""
    case = CASES[name]
    assert isinstance(case, Training)
    spec = specification(case, None)
    torch.set_num_threads(spec["threads"])
    set_matmul_precision(spec["precision"], torch.device("cpu"))
    plain, compiled = our_model(spec), our_model(spec)
    compiled.compile_networks = True
    steps = case.steps // SHARE
    first = steps + getattr(plain.config, "learning_starts", 0)
    plain.learn(first)
    began = time.perf_counter()
    compiled.learn(first)
    seconds = time.perf_counter() - began
    turns = [(turn(plain, steps), turn(compiled, steps)) for _ in range(rounds)]
    rates = [statistics.median(pair[side][0] for pair in turns) for side in (0, 1)]
    updates = [statistics.median(pair[side][1] for pair in turns) for side in (0, 1)]
    ratio = statistics.median(pair[1][0] / pair[0][0] for pair in turns)
    gained = 1 / updates[0] - 1 / updates[1]  # seconds of a gradient step
    waited = max(seconds - first / rates[1], 0)
    pays = f"{round(waited / gained, -2):,.0f}" if gained > 0 else "never"
    return f"| {name} | {rates[0]:,.0f} | {rates[1]:,.0f} | **{ratio:.2f}** | {waited:.0f} s | {pays} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    training = [name for name, case in CASES.items() if isinstance(case, Training)]
    parser.add_argument("--cases", nargs="+", choices=training, default=list(DEFAULT), metavar="CASE")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each side (default: 4)")
    args = parser.parse_args()
    print("| case | steps/s | compiled | ratio | compiling | has paid after gradient steps |")
    print("|---|---|---|---|---|---|")
    for name in args.cases:
        print(compare(name, args.rounds), flush=True)


if __name__ == "__main__":
    main()
