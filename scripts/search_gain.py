"""Search for hyperparameters, and compare them with the shipped entry and the algorithm's defaults.

    python scripts/search_gain.py

Runs the search, trains its best.yml, the shipped entry and the defaults with fresh seeds, plays the final
agents in environments that no training has seen, and writes the figures to search_results.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rlzoo.benchmark.run_list import WITHOUT_EVALUATIONS, jobs_of, run_jobs
from rlzoo.benchmark.scoring import find_agents, score_all
from rlzoo.config.benchmark import Row

ROOT = Path(__file__).resolve().parents[1]
SEARCH = "optimize --algo ppo --env MountainCarContinuous-v0 --n-trials 30 -n 20000 --n-jobs 2 --sampler tpe"
SEARCH += " --pruner median --seed 1"
SEEDS = (10, 11, 12)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, default=Path("logs/search"), help="where studies and runs go")
    parser.add_argument("--out", type=Path, default=ROOT / "scripts" / "search_results.md")
    args = parser.parse_args()
    folder = args.folder.resolve()

    minutes = search(folder)
    best = folder / "optimize" / "ppo_MountainCarContinuous-v0" / "best.yml"
    rows = {
        "best.yml": best,
        "the shipped entry": ROOT / "hyperparams" / "ppo.yml",
        "the algorithm's defaults": ROOT / "scripts" / "ppo_defaults.yml",
    }
    lines = [
        "| hyperparameters | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " | mean |",
        "|---" * (len(SEEDS) + 2) + "|",
        *(table_row(name, conf, folder / conf.stem) for name, conf in rows.items()),
    ]
    text = "\n".join(
        [
            "# What a search is worth",
            "",
            f"`rlzoo {SEARCH}` took {minutes:.0f} minutes. What it found, the",
            "entry that rlzoo ships and the defaults of the algorithm, trained with fresh seeds for as many",
            "steps: mean return ± standard deviation of the final model over 100 episodes in environments",
            "seeded from 1,000,000 on (`python scripts/search_gain.py`):",
            "",
            *lines,
            "",
            "best.yml:",
            "",
            *(f"    {line}" for line in best.read_text().splitlines() if not line.startswith("#")),
        ]
    )
    print(text)
    args.out.write_text(text + "\n")


def search(folder: Path) -> float:
    """Run the search; returns the minutes it took."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "rlzoo", *SEARCH.split(), "--verbose", "0", "-f", str(folder)]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT, check=True)
    return (time.perf_counter() - began) / 60


def table_row(name: str, conf: Path, folder: Path) -> str:
    """Train with some hyperparameters, play, and say how that went."""
    row = Row(algo="ppo", env="MountainCarContinuous-v0", seeds=SEEDS, conf_file=str(conf))
    jobs = run_jobs(jobs_of([row]), folder, 2, WITHOUT_EVALUATIONS)
    if problems := [ended.problem for ended in jobs if ended.problem]:
        raise SystemExit(problems[0])
    scores = [result.score for result in score_all(find_agents(folder), [row], n_jobs=2) if result.score]
    cells = [f"{score.mean:.1f} ± {score.std:.1f}" for score in sorted(scores, key=lambda score: score.seed)]
    return f"| {name} | {' | '.join(cells)} | {statistics.fmean(score.mean for score in scores):.1f} |"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
