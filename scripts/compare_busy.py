"""Measure training beside busy neighbours: rlzoo with its own choice of threads and with fixed ones, others.

    python scripts/compare_busy.py --sb3-python other-venv/bin/python              # about 20 minutes
    python scripts/compare_busy.py --cases sac-halfcheetah --neighbours 0 1 --pairs 3 --out busy.md

Every side runs in turn, each in a fresh process, beside 0, 1, 2 and 4 processes that keep a core busy. Steps
per second are counted for a few seconds after a warm-up, between the starts of rollouts. The machine has to
be idle otherwise. Prints one JSON line per run and a Markdown table of medians; ratios are to the better of
the fixed numbers of threads. Columns of sides whose interpreter is not given are empty.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEED = 1
LIMIT = 120  # seconds that a run may take; a slower one counts as what it was until then
SIDES = ("adaptive", "1 thread", "2 threads", "stable_baselines3", "sbx")
PPO = {"n_steps": 32, "batch_size": 64, "n_epochs": 4}
CASES: dict[str, dict[str, Any]] = {
    "sac-halfcheetah": {
        "algo": "SAC",
        "policy": "MlpPolicy",
        "env": "HalfCheetah-v5",
        "hyperparams": {"learning_starts": 100},
        "warm_up": 140,  # JAX compiles during it
        "sides": SIDES,
    },
    "ppo-dict-image": {
        "algo": "PPO",
        "policy": "MultiInputPolicy",
        "image": [64, 64, 3],
        "is_dict": True,
        "n_envs": 4,
        "hyperparams": PPO,
        "sides": SIDES[:4],
    },
    "ppo-cnn": {
        "algo": "PPO",
        "policy": "CnnPolicy",
        "image": [84, 84, 4],
        "n_envs": 8,
        "hyperparams": PPO,
        "sides": SIDES[:4],
    },
}
BURN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


# ---------------------------------------------------------------------- one run, in a separate process


def work(spec: dict[str, Any], side: str, seconds: float) -> None:
    """Train for some seconds after the warm-up and print the steps per second."""
    ours = side not in SIDES[3:]
    package = "rlzoo" if ours else side
    makers = importlib.import_module("rlzoo" if ours else "stable_baselines3.common.env_util")
    n_envs = spec.get("n_envs", 1)
    env = makers.make_vec_env(spec["env"] if "env" in spec else image_env(spec), n_envs, seed=SEED)
    learner = getattr(importlib.import_module(package), spec["algo"])
    model = learner(spec["policy"], env, seed=SEED, device="cpu", **spec["hyperparams"])
    if side in SIDES[1:3]:
        model.num_threads = int(side[0])
    rollout = n_envs * spec["hyperparams"].get("n_steps", 1)
    warm_up = spec.get("warm_up", rollout)
    began: list[float] = []
    result = {"steps": 0, "seconds": 0.0}

    def on_step(locals_: Any, _: Any) -> bool:
        steps = locals_["self"].num_timesteps - n_envs  # before this step
        if steps < warm_up or steps % rollout:
            return True
        now = time.perf_counter()
        began.append(now)
        result["steps"], result["seconds"] = steps - warm_up, now - began[0]
        print(json.dumps(result), flush=True)
        return result["seconds"] < seconds

    model.learn(10**9, callback=on_step)
    if side == "adaptive":
        print(json.dumps({**result, "threads": model.threads.summary()}), flush=True)


def image_env(spec: dict[str, Any]) -> Any:
    """Return a class of environments that show random images, in episodes of 200 steps."""
    import gymnasium
    import numpy as np
    from gymnasium import spaces

    image = spaces.Box(0, 255, tuple(spec["image"]), np.uint8)

    class Images(gymnasium.Env):
        action_space = spaces.Discrete(6)
        observation_space = (
            spaces.Dict({"image": image, "vector": spaces.Box(-1, 1, (8,), np.float32)})
            if spec.get("is_dict")
            else image
        )

        def observe(self) -> Any:
            pixels = np.roll(self.frame, self.t, axis=1)
            return {"image": pixels, "vector": np.zeros(8, np.float32)} if spec.get("is_dict") else pixels

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.t = 0
            self.frame = self.np_random.integers(0, 256, image.shape, np.uint8)
            return self.observe(), {}

        def step(self, action: Any) -> Any:
            self.t += 1
            return self.observe(), float(action == 0), False, self.t >= 200, {}

    return Images


# ---------------------------------------------------------------------- all runs


@contextlib.contextmanager
def neighbours(count: int, seconds: float) -> Iterator[None]:
    """Keep `count` cores busy inside; the processes end by themselves after `seconds`."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN.format(seconds)]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def measure(name: str, side: str, python: str, seconds: float, count: int) -> dict[str, Any]:
    """Run one side of a case beside `count` busy processes."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "MKL_"))}
    if side in SIDES[:3]:
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    spec = {key: value for key, value in CASES[name].items() if key != "sides"}
    command = [python, str(Path(__file__).resolve()), "--work", json.dumps([spec, side, seconds])]
    with neighbours(count, LIMIT + 10):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=LIMIT, check=False
            )
            out, error = done.stdout, done.stderr if done.returncode else ""
        except subprocess.TimeoutExpired as expired:
            out, error = (expired.stdout or b"").decode(), ""
    if error:
        raise SystemExit(f"{name}, {side} failed:\n{error}")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    result = json.loads(lines[-1]) if lines else {"steps": 0, "seconds": 0.0}
    return {**result, "steps_per_s": result["steps"] / result["seconds"] if result["seconds"] else 0.0}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians of steps per second, and their ratio to the better fixed number of threads."""
    from compare_speed import processor

    lines = [
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "",
        "| case | busy neighbours | " + " | ".join(SIDES) + " | adaptive / best fixed |",
        "|---|---" + "|---" * (len(SIDES) + 1) + "|",
    ]
    for name, count in dict.fromkeys((row["case"], row["neighbours"]) for row in rows):
        found = [row for row in rows if (row["case"], row["neighbours"]) == (name, count)]
        medians = {
            side: statistics.median(row["steps_per_s"] for row in found if row["side"] == side)
            for side in SIDES
            if any(row["side"] == side for row in found)
        }
        best = max(medians.get("1 thread", 0.0), medians.get("2 threads", 0.0))
        cells = [
            f"{medians[side]:,.1f} ({medians[side] / best:.2f})" if side in medians and best else "-"
            for side in SIDES
        ]
        ratio = f"**{medians['adaptive'] / best:.2f}**" if best and "adaptive" in medians else "-"
        lines.append(f"| {name} | {count} | {' | '.join(cells)} | {ratio} |")
    lines += ["", "Steps per second (in brackets: over the better of 1 and 2 threads), medians of the runs."]
    return "\n".join(lines)


def has(python: str, package: str) -> bool:
    """Return whether an interpreter has a package."""
    return not subprocess.run(
        [python, "-c", f"import {package}"], capture_output=True, check=False
    ).returncode


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE")
    parser.add_argument("--neighbours", nargs="+", type=int, default=[0, 1, 2, 4], metavar="N")
    parser.add_argument("--pairs", type=int, default=2, help="runs of each side (default: 2)")
    parser.add_argument(
        "--seconds", type=float, default=7.0, help="of each run after the warm-up (default: 7)"
    )
    parser.add_argument(
        "--sb3-python", default=sys.executable, metavar="PATH", help="has stable-baselines3, sbx"
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="write the table here as well")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(*json.loads(args.work))
        return
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    missing = {side for side in SIDES[3:] if side in args.sides and not has(args.sb3_python, side)}
    rows = []
    for name in args.cases:
        for count in args.neighbours:
            for pair in range(args.pairs):
                for side in (s for s in CASES[name]["sides"] if s in args.sides and s not in missing):
                    python = args.sb3_python if side in SIDES[3:] else sys.executable
                    result = measure(name, side, python, args.seconds, count)
                    rows.append({"case": name, "neighbours": count, "pair": pair, "side": side, **result})
                    print(json.dumps(rows[-1]), flush=True)
                    if args.out:
                        args.out.write_text(table(rows) + "\n")
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
