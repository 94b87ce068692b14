"""Compare random search, population based training and population based bandits at the same budget.

    python scripts/compare_schedulers.py

Trains PPO on Pendulum-v1: 8 trials or members of 20,480 steps, with 10 evaluations of 10 episodes, for
each of 5 seeds. Prints a table of the last evaluations: of the best of the 8, and the mean of all. Takes half
an hour on one core; finished searches are not repeated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

import optuna

from rlzoo.tuning.pbt.population_study import load_population, value_of
from rlzoo.tuning.storage.storage import open_storage

SPACE = """\
learning_rate: {low: 0.00003, high: 0.03, log: true}
gamma: {low: 0.8, high: 0.999}
gae_lambda: {low: 0.8, high: 1.0}
clip_range: {low: 0.05, high: 0.4}
max_grad_norm: {low: 0.3, high: 5.0, log: true}
"""
COMMON = "optimize --algo ppo --env Pendulum-v1 -n 20480 -params n_steps:256 --eval-episodes 10"
COMMON += " --n-eval-envs 10 --num-threads 1 --no-optim-plots"
SEARCHES = {
    "random": "--sampler random --pruner none --n-trials 8 --n-evaluations 10",
    "pbt": "--scheduler pbt --population-size 8 --perturbation-interval 2048",
    "pb2": "--scheduler pb2 --population-size 8 --perturbation-interval 2048",
}
STUDY = "ppo_Pendulum-v1"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, default=Path("logs/schedulers"), help="where studies go")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "space.yml").write_text(SPACE)
    found = {
        name: [search(args.folder / f"{name}-{seed}", flags, seed) for seed in args.seeds]
        for name, flags in SEARCHES.items()
    }
    print("| search | " + " | ".join(f"seed {seed}" for seed in args.seeds) + " | mean |")
    print("|---" * (len(args.seeds) + 2) + "|")
    for title, summary in (("best", max), ("mean", statistics.fmean)):
        for name, results in found.items():
            values = [summary(values) for values in results]
            cells = [f"{value:.0f}" for value in [*values, statistics.fmean(values)]]
            print(f"| {name}, {title} of 8 | " + " | ".join(cells) + " |")


def search(folder: Path, flags: str, seed: int) -> list[float]:
    """Return the last evaluations of all trials or members, after the search if it has not been done."""
    done = folder / "done"
    if not done.is_file():
        space = ["--space", str(folder.parent / "space.yml"), "-f", str(folder), "--seed", str(seed)]
        command = [sys.executable, "-m", "rlzoo", *COMMON.split(), *flags.split(), *space]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        done.touch()
    study = folder / "optimize" / STUDY
    if "--scheduler" in flags:
        return [value_of(member) for member in load_population(study).history[-1]]
    loaded = optuna.load_study(study_name=STUDY, storage=open_storage(None, study, create=False))
    return [trial.user_attrs["evaluations"][0][-1] for trial in loaded.get_trials(deepcopy=False)]


if __name__ == "__main__":
    main()
