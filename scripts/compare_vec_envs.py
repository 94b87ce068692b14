"""Compare the backends of vector environments with those of stable-baselines3: steps per second.

    python scripts/compare_vec_envs.py --sb3-python other-venv/bin/python
    python scripts/compare_vec_envs.py --envs HalfCheetah-v5 --n-envs 16 --rounds 1

Steps 8 environments of each family with random actions, sampled before the clock starts. Both sides make
them with `make_vec_env`, so that episodes are recorded (Monitor); Atari gets `AtariWrapper`. Every
measurement is a process of its own, and the sides take turns. Prints one JSON line for each, and a Markdown
table of medians at the end; a backend that an environment does not have is a dash.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

ENVS = (
    "CartPole-v1",
    "Pendulum-v1",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "HalfCheetah-v5",
    "HalfCheetahBulletEnv-v0",
    "PongNoFrameskip-v4",
)
OURS, THEIRS = ("dummy", "subproc", "native", "envpool"), ("dummy", "subproc")
WARM_UP, SECONDS, N_BATCHES = 0.5, 2.0, 256


def measure(side: str, backend: str, env_id: str, n_envs: int) -> dict[str, float] | None:
    """Step environments for some seconds; return steps per second, or None without such a backend."""
    if side == "rlzoo":
        import rlzoo

        wrapper = rlzoo.AtariWrapper if "NoFrameskip" in env_id and backend != "envpool" else None
        try:
            venv: Any = rlzoo.make_vec_env(env_id, n_envs, seed=0, wrapper_class=wrapper, backend=backend)
        except rlzoo.UserError:
            return None
    else:
        venv = stable_baselines3_venv(backend, env_id, n_envs)
    venv.action_space.seed(0)
    actions = [np.stack([venv.action_space.sample() for _ in range(n_envs)]) for _ in range(N_BATCHES)]
    venv.reset()
    run(venv, actions, WARM_UP)
    steps, seconds = run(venv, actions, SECONDS)
    venv.close()
    return {"steps_per_s": steps * n_envs / seconds}


def run(venv: Any, actions: list[Any], seconds: float) -> tuple[int, float]:
    """Step until the time is over; return the number of steps and the seconds that they took."""
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        venv.step(actions[steps % len(actions)])
        steps += 1
    return steps, time.perf_counter() - began


def stable_baselines3_venv(backend: str, env_id: str, n_envs: int) -> Any:
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    makers = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}
    wrapper = AtariWrapper if "NoFrameskip" in env_id else None
    if wrapper:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
    if "Bullet" in env_id:
        import pybullet_envs_gymnasium  # noqa: F401  # registers the environments
    kwargs = {"start_method": "fork"} if backend == "subproc" else {}  # workers know what is registered here
    return make_vec_env(
        env_id, n_envs, seed=0, wrapper_class=wrapper, vec_env_cls=makers[backend], vec_env_kwargs=kwargs
    )


def measured(python: str, side: str, backend: str, env_id: str, n_envs: int) -> float | None:
    """Measure in a process of its own."""
    done = subprocess.run(
        [python, __file__, "--one", side, backend, env_id, "--n-envs", str(n_envs)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{env_id}, {side}, {backend} failed:\n{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({"env": env_id, "side": side, "backend": backend, **(result or {})}), flush=True)
    return result and float(result["steps_per_s"])


def row(env_id: str, speeds: dict[tuple[str, str], float | None]) -> str:
    """Return a row of the table: steps per second, and the fastest of each side compared."""
    cells = [f"{speed:,.0f}" if speed else "-" for speed in speeds.values()]
    best = {
        side: max(speed for (of, _), speed in speeds.items() if of == side and speed)
        for side in ("rlzoo", "stable-baselines3")
    }
    return f"| {env_id} | {' | '.join(cells)} | **{best['rlzoo'] / best['stable-baselines3']:.2f}** |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sb3-python", default=sys.executable, help="interpreter that has stable-baselines3")
    parser.add_argument("--one", nargs=3, metavar=("SIDE", "BACKEND", "ENV"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.n_envs)))
        return
    pythons = {"rlzoo": sys.executable, "stable-baselines3": options.sb3_python}
    columns = [("rlzoo", backend) for backend in OURS] + [("stable-baselines3", one) for one in THEIRS]
    heads = [f"{side}: {backend}" for side, backend in columns]
    table = [
        f"| {' | '.join(['environment', *heads, 'fastest against fastest'])} |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for env_id in options.envs:
        results: dict[tuple[str, str], list[float | None]] = {column: [] for column in columns}
        for _ in range(options.rounds):
            for side, backend in columns:
                results[side, backend].append(measured(pythons[side], side, backend, env_id, options.n_envs))
        medians = {
            column: statistics.median(value for value in values if value) if any(values) else None
            for column, values in results.items()
        }
        table.append(row(env_id, medians))
    print("\n".join(table))


if __name__ == "__main__":
    main()
