"""Search for hyperparameters, and compare what they learn with what the algorithm's defaults do.

    python scripts/search_gain.py

Runs the search, trains its best.yml and the defaults with fresh seeds, plays the final agents in environments
that neither has seen, and keeps the figures as a section of learning_results.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from learning_runs import ROOT, Row, play, run_rlzoo, train

SEARCH = "optimize --algo ppo --env MountainCarContinuous-v0 --n-trials 30 -n 20000 --n-jobs 2 --sampler tpe"
SEARCH += " --pruner median --seed 1"
SEEDS = (10, 11, 12)
HEADING = "## What a search is worth"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, default=Path("logs/search"), help="where studies and runs go")
    parser.add_argument("--out", type=Path, default=ROOT / "scripts" / "learning_results.md")
    args = parser.parse_args()
    folder = args.folder.resolve()

    began = time.perf_counter()
    run_rlzoo([*SEARCH.split(), "--verbose", "0", "-f", str(folder)])
    minutes = (time.perf_counter() - began) / 60
    best = folder / "optimize" / "ppo_MountainCarContinuous-v0" / "best.yml"
    rows = {"best.yml": str(best), "the algorithm's defaults": "scripts/ppo_defaults.yml"}
    lines = [
        "| hyperparameters | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " | mean |",
        "|---" * 5 + "|",
    ]
    for name, conf in rows.items():
        row = Row("ppo", "MountainCarContinuous-v0", conf=conf)
        results = [play(row, seed, train(row, seed, folder / Path(conf).stem, reuse=False)) for seed in SEEDS]
        cells = " | ".join(f"{result.mean:.1f} ± {result.std:.1f}" for result in results)
        lines.append(f"| {name} | {cells} | {statistics.fmean(result.mean for result in results):.1f} |")
    text = "\n".join(
        [
            HEADING,
            "",
            f"`rlzoo {SEARCH}` took {minutes:.0f} minutes. What it found and the",
            "algorithm's own hyperparameters, trained with fresh seeds for as many steps and played as",
            "above (`python scripts/search_gain.py`):",
            "",
            *lines,
            "",
            "best.yml:",
            "",
            *(f"    {line}" for line in best.read_text().splitlines() if not line.startswith("#")),
        ]
    )
    print(text)
    earlier = args.out.read_text().partition(HEADING)[0].rstrip() if args.out.is_file() else ""
    args.out.write_text(f"{earlier}\n\n{text}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
