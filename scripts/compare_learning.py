"""Compare what rlzoo and stable-baselines3 (sb3-contrib) learn with the same hyperparameters and seeds.

    python scripts/compare_learning.py run --rows td3:LunarLanderContinuous-v3 --seeds 0-9 --sb3-python PATH
    python scripts/compare_learning.py table

`run` trains every missing (row, seed, side), one after the other, each in a separate process with one
thread, and adds its score to scripts/learning_comparison.json as soon as it is known; a run that was stopped
is continued by the same command. Both sides get the shipped hyperparameters, one training environment with
the same seed, and are evaluated alike: 100 episodes in environments with other seeds, with deterministic
actions, and with sampled actions, too, for policies with state-dependent exploration. `table` prints the
scores, the difference of the means with a 95% bootstrap interval, and the two-sided p-value of an exact
Mann-Whitney U test.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("learning_comparison.json")
SIDES = ("rlzoo", "sb3")
EPISODES = 100
EVALUATION_SEED = 1_000_000  # added to the training seed: apart from every seed of training
RESAMPLES = 10_000


def train_and_score(side: str, algo: str, env_id: str, seed: int) -> dict[str, Any]:
    """Train one agent on one side and return its scores.

    :param side: "rlzoo" or "sb3"
    """
    import torch

    torch.set_num_threads(1)
    values = shipped_values(algo, env_id)
    began = time.process_time()
    # In both packages `make_vec_env`, `VecNormalize` and `evaluate_policy` have the same arguments.
    vec_env, evaluation = modules(side)
    env = normalized(vec_env, vec_env.make_vec_env(env_id, n_envs=1, seed=seed), values)
    model = learner(side, algo)(
        values["policy"], env, seed=seed, device="cpu", **keywords(side, values, env.action_space)
    )
    model.learn(int(values["n_timesteps"]))
    cpu_seconds = time.process_time() - began
    eval_env = normalized(
        vec_env, vec_env.make_vec_env(env_id, n_envs=1, seed=EVALUATION_SEED + seed), values
    )
    if values.get("normalize"):
        vec_env.sync_envs_normalization(env, eval_env)
        eval_env.training = eval_env.norm_reward = False
    training_returns = [episode["r"] for episode in model.ep_info_buffer]
    result = {
        "version": importlib.metadata.version("stable-baselines3" if side == "sb3" else "rlzoo"),
        "commit": commit() if side == "rlzoo" else None,
        "steps": model.num_timesteps,
        "cpu_seconds": round(cpu_seconds),
        "last_training_episodes": round(float(np.mean(training_returns)), 2) if training_returns else None,
    }
    for kind, deterministic in {"deterministic": True, "sampled": False}.items():
        if deterministic or values.get("use_sde"):
            mean, std = evaluation.evaluate_policy(model, eval_env, EPISODES, deterministic=deterministic)
            result[kind] = [round(float(mean), 2), round(float(std), 2)]
    return result


def shipped_values(algo: str, env_id: str) -> dict[str, Any]:
    """The shipped entry of the hyperparameter file, as plain values."""
    from rlzoo.config.hyperparams import lookup
    from rlzoo.config.values_as_text import plain

    values: dict[str, Any] = plain(lookup(algo, env_id).values)
    if values.get("n_envs", 1) != 1:
        raise SystemExit(f"{env_id} is trained in {values['n_envs']} environments; only one is compared here")
    return values


def modules(side: str) -> tuple[Any, Any]:
    """(where make_vec_env, VecNormalize and sync_envs_normalization are, where evaluate_policy is)."""
    if side == "rlzoo":
        rlzoo = importlib.import_module("rlzoo")
        return rlzoo, rlzoo
    vec_env = importlib.import_module("stable_baselines3.common.vec_env")
    vec_env.make_vec_env = importlib.import_module("stable_baselines3.common.env_util").make_vec_env  # type: ignore[attr-defined]
    return vec_env, importlib.import_module("stable_baselines3.common.evaluation")


def normalized(vec_env: Any, env: Any, values: dict[str, Any]) -> Any:
    return vec_env.VecNormalize(env, gamma=values["gamma"]) if values.get("normalize") else env


def learner(side: str, algo: str) -> Any:
    """The class of an algorithm."""
    from speed_worker import CLASSES

    name = CLASSES.get(algo, algo.upper())
    packages = ("rlzoo",) if side == "rlzoo" else ("stable_baselines3", "sb3_contrib")
    found = [getattr(importlib.import_module(package), name, None) for package in packages]
    return next(candidate for candidate in found if candidate is not None)


def keywords(side: str, values: dict[str, Any], action_space: Any) -> dict[str, Any]:
    """The arguments of the algorithm's constructor."""
    from speed_worker import our_value, their_value

    from rlzoo.config.hyperparams import ZOO_KEYS
    from rlzoo.experiment.noise_config import NOISE_KEYS

    convert = our_value if side == "rlzoo" else their_value
    not_arguments = {*ZOO_KEYS, *NOISE_KEYS, "policy"}
    made = {name: convert(name, value) for name, value in values.items() if name not in not_arguments}
    if values.get("noise_type") == "normal":
        package = "rlzoo" if side == "rlzoo" else "stable_baselines3.common.noise"
        shape = action_space.shape
        made["action_noise"] = importlib.import_module(package).NormalActionNoise(
            np.zeros(shape), np.full(shape, values["noise_std"])
        )
    elif values.get("noise_type") is not None:
        raise SystemExit(f"noise_type {values['noise_type']} is not compared here")
    return made


def commit() -> str:
    """The commit of this checkout."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def run(args: argparse.Namespace) -> None:
    """Train what is missing, one after the other."""
    for seed in args.seeds:
        for row in args.rows:
            for side in args.sides:
                if score_of(read(args.results), row, side, seed) is None:
                    add(args.results, row, side, seed, in_process(side, row, seed, args.sb3_python))


def in_process(side: str, row: str, seed: int, sb3_python: str) -> dict[str, Any]:
    """Train and score in a separate process."""
    python = sys.executable if side == "rlzoo" else sb3_python
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}
    command = [python, __file__, "one", side, row, str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def read(path: Path) -> dict[str, Any]:
    """{row: {side: {seed: scores}}}."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def score_of(results: dict[str, Any], row: str, side: str, seed: int) -> dict[str, Any] | None:
    found: dict[str, Any] | None = results.get(row, {}).get(side, {}).get(str(seed))
    return found


def add(path: Path, row: str, side: str, seed: int, scores: dict[str, Any]) -> None:
    """Add one score; another process may add its own at the same time."""
    import fcntl

    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        results = read(path)
        results.setdefault(row, {}).setdefault(side, {})[str(seed)] = scores
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        unfinished.replace(path)
    finally:
        os.close(folder)
    print(row, side, seed, json.dumps(scores), flush=True)


def table(results: dict[str, Any]) -> str:
    """Markdown, one line per row and kind of actions."""
    lines = [
        "| row | actions | rlzoo: each seed | sb3: each seed | means | difference (95% interval) | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, sides in sorted(results.items()):
        for kind in ("deterministic", "sampled"):
            ours, theirs = (returns(sides.get(side, {}), kind) for side in SIDES)
            if ours or theirs:
                lines.append(table_line(row, kind, ours, theirs))
    return "\n".join(lines)


def returns(by_seed: dict[str, Any], kind: str) -> list[float]:
    """Mean return of each seed, in the order of the seeds."""
    return [by_seed[seed][kind][0] for seed in sorted(by_seed, key=int) if kind in by_seed[seed]]


def table_line(row: str, kind: str, ours: list[float], theirs: list[float]) -> str:
    """One line; without a difference where a side has a single seed."""
    means = " / ".join(f"{np.mean(side):.1f}" if side else "-" for side in (ours, theirs))
    difference = p_value = "-"
    if min(len(ours), len(theirs)) > 1:
        from scipy.stats import mannwhitneyu

        low, high = interval(ours, theirs)
        difference = f"{np.mean(ours) - np.mean(theirs):.1f} [{low:.1f}, {high:.1f}]"
        p_value = f"{mannwhitneyu(ours, theirs, method='auto').pvalue:.2f}"
    each = " | ".join(", ".join(f"{value:.1f}" for value in side) or "-" for side in (ours, theirs))
    return f"| {row} | {kind} | {each} | {means} | {difference} | {p_value} |"


def interval(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """95% percentile bootstrap interval of the difference of the means."""
    generator = np.random.RandomState(0)  # NumPy promises that its numbers never change
    means = [generator.choice(side, size=(RESAMPLES, len(side))).mean(axis=1) for side in (ours, theirs)]
    low, high = np.quantile(means[0] - means[1], (0.025, 0.975))
    return float(low), float(high)


def seeds(text: str) -> list[int]:
    """Seeds as "0-9" or "0,3,4"."""
    if "-" in text:
        first, _, last = text.partition("-")
        return list(range(int(first), int(last) + 1))
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="train and score what is missing")
    runs.add_argument("--rows", nargs="+", required=True, metavar="ALGO:ENV")
    runs.add_argument("--seeds", type=seeds, default=seeds("0-9"), help="such as 0-9 or 0,3 (default: 0-9)")
    runs.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    runs.add_argument("--sb3-python", default=sys.executable, metavar="PATH", help="has stable-baselines3")
    commands.add_parser("table", help="print the table")
    one = commands.add_parser("one", help="train and score one agent in this process")
    one.add_argument("side", choices=SIDES)
    one.add_argument("row", metavar="ALGO:ENV")
    one.add_argument("seed", type=int)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if args.command == "run":
        run(args)
    elif args.command == "table":
        print(table(read(args.results)))
    else:
        algo, _, env_id = args.row.partition(":")
        print(json.dumps(train_and_score(args.side, algo, env_id, args.seed)))


if __name__ == "__main__":
    main()
