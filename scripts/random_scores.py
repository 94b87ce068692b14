"""Measure the returns of random actions: the zero of normalised scores.

    python scripts/random_scores.py              # writes benchmarks/random_scores.csv
    python scripts/random_scores.py --envs CartPole-v1 Pendulum-v1

Plays 100 episodes (of images 20; Atari: whole games, unclipped rewards) of uniformly random actions in every
environment of the shipped hyperparameters and published scores that can be made here, environment and actions
seeded with 0. A box without bounds is sampled by its own `sample`. Environments that are in the file already
are not played again.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TARGET = ROOT / "benchmarks" / "random_scores.csv"
COLUMNS = ("env_id", "mean_reward", "std_reward", "n_episodes")
EPISODES, IMAGE_EPISODES = 100, 20


def env_ids() -> list[str]:
    """Return the ids of the shipped hyperparameters, and of the published Atari scores."""
    from rlzoo.config.catalog import names
    from rlzoo.config.hyperparams import shipped_envs
    from rlzoo.config.run import is_atari

    with (ROOT / "benchmarks" / "reference_scores.csv").open(newline="") as file:
        games = {line["env_id"] for line in csv.DictReader(file) if is_atari(line["env_id"])}
    return sorted(games.union(*(shipped_envs(algo) for algo in names())))


def make(env_id: str) -> gym.Env[Any, Any]:
    """Make an environment as it is evaluated; Atari with whole games and unclipped rewards."""
    from rlzoo.config.run import is_atari
    from rlzoo.envs.atari.atari_wrappers import AtariWrapper
    from rlzoo.envs.single_env.registration import ensure_registered

    ensure_registered(env_id)
    env = gym.make(env_id)
    return AtariWrapper(env, terminal_on_life_loss=False, clip_reward=False) if is_atari(env_id) else env


def random_returns(env: gym.Env[Any, Any], n_episodes: int) -> list[float]:
    """Play with random actions and return the returns."""
    env.action_space.seed(0)
    returns = []
    for episode in range(n_episodes):
        env.reset(seed=0 if episode == 0 else None)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--envs", nargs="+", default=None, metavar="ENV", help="only these (default: all)")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if TARGET.is_file():
        with TARGET.open(newline="") as file:
            rows = {row["env_id"]: row for row in csv.DictReader(file)}
    for env_id in args.envs or env_ids():
        if env_id in rows and not args.envs:
            continue
        try:
            env = make(env_id)
        except (ImportError, OSError, ValueError, gym.error.Error) as error:
            print(f"{env_id}: left out: {error}"[:160], file=sys.stderr)
            continue
        n_episodes = IMAGE_EPISODES if len(env.observation_space.shape or ()) == 3 else EPISODES
        returns = random_returns(env, n_episodes)
        env.close()
        values = (env_id, f"{np.mean(returns):.3f}", f"{np.std(returns):.3f}", n_episodes)
        rows[env_id] = dict(zip(COLUMNS, values, strict=True))
        print(*values, flush=True)
        with TARGET.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[key] for key in sorted(rows))


if __name__ == "__main__":
    main()
