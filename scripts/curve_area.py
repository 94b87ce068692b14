"""The area under learning curves: the mean return over the steps of a training.

    python scripts/curve_area.py --steps 100000 rlzoo:RUN_FOLDER rlzoo:RUN_FOLDER rl_zoo3:RUN_FOLDER ...

Reads the monitor files of run folders (those of rl_zoo3 have the same form). Every step counts with the
return of the episode that it belongs to; steps of an unfinished last episode are left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def area(folder: Path, n_steps: int) -> float:
    """Mean return per step over the first `n_steps`.

    :raises SystemExit: the run is shorter by more than one episode
    """
    from rlzoo.envs.single_env.monitor import load_results

    episodes = load_results(folder)
    returns, lengths = np.asarray(episodes["r"], float), np.asarray(episodes["l"], float)
    if lengths.sum() + lengths.max() < n_steps:
        raise SystemExit(f"{folder} has {lengths.sum():,.0f} steps, not {n_steps:,}")
    begun = np.cumsum(lengths) - lengths
    counted = np.clip(n_steps - begun, 0, lengths)
    return float((returns * counted).sum() / counted.sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="+", metavar="SIDE:FOLDER")
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    sides: dict[str, list[float]] = {}
    for run in args.runs:
        side, _, folder = run.partition(":")
        sides.setdefault(side, []).append(area(Path(folder), args.steps))
    print("| side | area of each seed | worst | mean |\n|---|---|---|---|")
    for side, areas in sides.items():
        each = ", ".join(f"{value:.0f}" for value in areas)
        print(f"| {side} | {each} | {min(areas):.0f} | {np.mean(areas):.0f} |")


if __name__ == "__main__":
    main()
