"""Compare the backends of vector environments with those of stable-baselines3: steps per second.

    pip install -e '.[bench,pybullet,envpool]'
    python scripts/compare_vec_envs.py
    python scripts/compare_vec_envs.py --envs HalfCheetah-v5 --n-envs 16 --rounds 4

Steps 8 environments of each family with random actions, sampled before the clock starts. Both sides make
them with `make_vec_env`, so that episodes are recorded (Monitor); Atari gets `AtariWrapper`. All backends
take turns of a quarter of a second in one process, so that what else the machine does slows all of them.
Prints a Markdown table of medians at the end; a backend that an environment does not have is a dash.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import gymnasium as gym
import numpy as np
from stable_baselines3.common import atari_wrappers, vec_env
from stable_baselines3.common.env_util import make_vec_env as their_make_vec_env

import rlzoo

ENVS = (
    "CartPole-v1",
    "Pendulum-v1",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "HalfCheetah-v5",
    "HalfCheetahBulletEnv-v0",
    "PongNoFrameskip-v4",
)
OURS = ("dummy", "subproc", "native", "envpool")
THEIRS = {"dummy": vec_env.DummyVecEnv, "subproc": vec_env.SubprocVecEnv}
SECONDS, N_BATCHES = 0.25, 256


class Turn:
    """Environments of one backend, stepped for a part of a second at a time."""

    def __init__(self, venv: Any, actions: list[np.ndarray]) -> None:
        self.venv, self.actions = venv, actions
        self.speeds: list[float] = []  # steps per second of each turn
        venv.reset()

    def step_for(self, seconds: float) -> None:
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            self.venv.step(self.actions[steps % N_BATCHES])
            steps += 1
        self.speeds.append(steps * self.venv.num_envs / (time.perf_counter() - began))


def ours(backend: str, env_id: str, n_envs: int) -> Any:
    """Return environments of rlzoo; None where there is no such backend."""
    wrapper = rlzoo.AtariWrapper if "NoFrameskip" in env_id and backend != "envpool" else None
    try:
        return rlzoo.make_vec_env(env_id, n_envs, seed=0, wrapper_class=wrapper, backend=backend)
    except rlzoo.UserError:
        return None


def theirs(backend: str, env_id: str, n_envs: int) -> Any:
    """Return environments of stable-baselines3; workers are forked, to know what is registered here."""
    return their_make_vec_env(
        env_id,
        n_envs,
        seed=0,
        wrapper_class=atari_wrappers.AtariWrapper if "NoFrameskip" in env_id else None,
        vec_env_cls=THEIRS[backend],
        vec_env_kwargs={"start_method": "fork"} if backend == "subproc" else {},
    )


def register(env_id: str) -> None:
    """Import the package of environments that Gymnasium does not register itself."""
    if "NoFrameskip" in env_id:
        import ale_py

        gym.register_envs(ale_py)
    if "Bullet" in env_id:
        import pybullet_envs_gymnasium  # noqa: F401


def compare(env_id: str, n_envs: int, rounds: int) -> str:
    """Return a row of the table: steps per second of each backend, and the fastest of each side compared."""
    register(env_id)
    venvs = [ours(backend, env_id, n_envs) for backend in OURS]
    venvs += [theirs(backend, env_id, n_envs) for backend in THEIRS]
    venvs[-1].action_space.seed(0)
    sample = venvs[-1].action_space.sample
    actions = [np.stack([sample() for _ in range(n_envs)]) for _ in range(N_BATCHES)]
    turns = [Turn(venv, actions) if venv else None for venv in venvs]
    for _ in range(rounds + 1):
        for turn in turns:
            if turn:
                turn.step_for(SECONDS)
    for turn in turns:
        if turn:
            turn.venv.close()
    medians = [statistics.median(turn.speeds[1:]) if turn else None for turn in turns]  # [0] is a warm-up
    fastest = [max(filter(None, side)) for side in (medians[: len(OURS)], medians[len(OURS) :])]
    cells = [f"{median:,.0f}" if median else "-" for median in medians]
    return f"| {env_id} | {' | '.join(cells)} | **{fastest[0] / fastest[1]:.2f}** |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20, help="turns of each backend")
    options = parser.parse_args()
    heads = [*(f"rlzoo: {backend}" for backend in OURS), *(f"stable-baselines3: {one}" for one in THEIRS)]
    print(f"| {' | '.join(['environment', *heads, 'fastest against fastest'])} |")
    print("|---" * (len(heads) + 2) + "|", flush=True)
    for env_id in options.envs:
        print(compare(env_id, options.n_envs, options.rounds), flush=True)


if __name__ == "__main__":
    main()
