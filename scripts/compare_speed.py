"""Compare the speed of rlzoo with stable-baselines3 and rl_zoo3 on the same work.

    python scripts/compare_speed.py                                  # every case, three pairs each
    python scripts/compare_speed.py --cases ppo-cartpole help --pairs 5
    python scripts/compare_speed.py --sb3-python other-venv/bin/python --out speed.md

Both sides run in turn (A B A B ...), each in a fresh process, with the same environment, hyperparameters,
number of steps and threads, so that whatever else the machine does meets both alike; quote the ratios, not
the figures. A training case is the time inside `learn()`: neither imports nor building environments
count, and each side uses the vector environment that it picks by itself. A cold case is the wall time of a
whole command. Prints one JSON line per run and a Markdown table at the end.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS, THEIRS = "rlzoo", "stable-baselines3"
SEED = 1


@dataclass(frozen=True)
class Training:
    """Time inside `learn()`, in steps per second."""

    algo: str
    env: str
    steps: int
    n_envs: int = 1
    threads: int = 1
    shipped: bool = True  # the shipped hyperparameters of the environment; else the algorithm's defaults


@dataclass(frozen=True)
class Cold:
    """Wall time of a whole command in an empty folder, in seconds."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


CASES: dict[str, Training | Cold] = {
    "ppo-cartpole": Training("ppo", "CartPole-v1", steps=100_000, n_envs=8),
    "a2c-cartpole": Training("a2c", "CartPole-v1", steps=100_000, n_envs=8),
    "ppo-halfcheetah": Training("ppo", "HalfCheetah-v5", steps=20_480, shipped=False),
    "ppo-pong": Training("ppo", "PongNoFrameskip-v4", steps=8_192, n_envs=8, threads=2),
    "help": Cold(("rlzoo", "--help"), ("rl_zoo3.train", "--help")),
    "train-cold": Cold(
        ("rlzoo", "train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "20000"),
        ("rl_zoo3.train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "20000"),
    ),
}


# -- one run, in its own process ---------------------------------------------------------------------------


def train_once(side: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Train as `spec` says and measure `learn()` alone."""
    import torch

    torch.set_num_threads(spec["threads"])
    model = (our_model if side == OURS else their_model)(spec)
    cpu, wall = time.process_time(), time.perf_counter()
    model.learn(spec["steps"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "steps_per_s": model.num_timesteps / wall,
        "steps": model.num_timesteps,
        "seconds": wall,
        "cpu_seconds": cpu,
        "version": our_version() if side == OURS else importlib.metadata.version(THEIRS),
        "torch": torch.__version__,
    }


def our_version() -> str:
    import rlzoo

    return rlzoo.__version__


def our_model(spec: dict[str, Any]) -> Any:
    import rlzoo

    wrapper = rlzoo.AtariWrapper if spec["atari"] else None
    env = rlzoo.make_vec_env(spec["env"], spec["n_envs"], seed=SEED, wrapper_class=wrapper)
    if spec["atari"]:
        env = rlzoo.VecFrameStack(env, n_stack=4)
    return getattr(rlzoo, spec["algo"].upper())(
        spec["policy"], env, seed=SEED, device="cpu", **spec["hyperparams"]
    )


def their_model(spec: dict[str, Any]) -> Any:
    import stable_baselines3
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    if spec["atari"]:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
    wrapper = AtariWrapper if spec["atari"] else None
    env: Any = make_vec_env(spec["env"], spec["n_envs"], seed=SEED, wrapper_class=wrapper)
    if spec["atari"]:
        env = VecFrameStack(env, n_stack=4)
    hyperparams = {name: their_value(value) for name, value in spec["hyperparams"].items()}
    learner = getattr(stable_baselines3, spec["algo"].upper())
    return learner(spec["policy"], env, seed=SEED, device="cpu", **hyperparams)


def their_value(value: Any) -> Any:
    """A linear schedule as the function that stable-baselines3 takes; anything else as it is."""
    if isinstance(value, str) and value.startswith("lin_"):
        initial = float(value.removeprefix("lin_"))
        return lambda progress_remaining: progress_remaining * initial
    return value


# -- the pairs ---------------------------------------------------------------------------------------------


def specification(case: Training, steps: int | None) -> dict[str, Any]:
    """What both sides are given, as plain JSON values."""
    from rlzoo.config.hyperparams import ZOO_KEYS, lookup

    values: dict[str, Any] = dict(lookup(case.algo, case.env).values) if case.shipped else {}
    n_envs = case.n_envs if not case.shipped else values.get("n_envs", 1)
    if n_envs != case.n_envs:
        raise SystemExit(f"{case.env} ships with {n_envs} environments, this case says {case.n_envs}")
    return {
        **asdict(case),
        "steps": steps or case.steps,
        "atari": "NoFrameskip" in case.env,
        "policy": values.get("policy", "MlpPolicy"),
        "hyperparams": {name: value for name, value in values.items() if name not in (*ZOO_KEYS, "policy")},
    }


def process_environment(side: str, threads: int) -> dict[str, str]:
    """This checkout comes first for our side; both sides get the same number of threads."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if side == OURS:
        path = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    return environment


def run_training(side: str, python: str, spec: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [python, __file__, "--worker", side, json.dumps(spec)],
        capture_output=True,
        text=True,
        env=process_environment(side, spec["threads"]),
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_cold(side: str, python: str, case: Cold) -> dict[str, Any]:
    command = [python, "-m", *(case.ours if side == OURS else case.theirs)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=process_environment(side, 1), check=False
        )
        seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return {"seconds": seconds}


def compare(name: str, pythons: dict[str, str], pairs: int, steps: int | None) -> list[dict[str, Any]]:
    """Run one case, both sides in turn; returns a row per run and prints it as it comes."""
    case = CASES[name]
    spec = specification(case, steps) if isinstance(case, Training) else {}
    rows = []
    for pair in range(pairs):
        for side, python in pythons.items():
            if isinstance(case, Training):
                result = run_training(side, python, spec)
            else:
                result = run_cold(side, python, case)
            rows.append({"case": name, "pair": pair, "side": side, **result})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def table_row(name: str, rows: list[dict[str, Any]]) -> str:
    """One line of the table. Training: our steps/s over theirs. Cold: our seconds over theirs."""
    training = isinstance(CASES[name], Training)
    key, unit, digits = ("steps_per_s", "steps/s", 0) if training else ("seconds", "s", 2)
    sides = [[row for row in rows if row["side"] == side] for side in (OURS, THEIRS)]
    ours, theirs = ([row[key] for row in side] for side in sides)
    medians = [statistics.median(ours), statistics.median(theirs)]
    each = ", ".join(f"{a / b:.2f}" for a, b in zip(ours, theirs, strict=True))
    by_cpu = "-"
    if training:
        rates = [statistics.median(row["steps"] / row["cpu_seconds"] for row in side) for side in sides]
        by_cpu = f"{rates[0] / rates[1]:.2f}"
    figures = [f"{median:,.{digits}f} {unit}" for median in medians]
    return f"| {name} | {figures[0]} | {figures[1]} | **{medians[0] / medians[1]:.2f}** | {each} | {by_cpu} |"


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians, the ratio of medians, and the ratio of every pair."""
    versions = sorted({f"{row['side']} {row['version']}" for row in rows if "version" in row})
    names = list(dict.fromkeys(row["case"] for row in rows))
    return "\n".join(
        [
            ", ".join(
                [processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}", *versions]
            ),
            "",
            "| case | rlzoo | leader | ratio of medians | each pair | by processor time |",
            "|---|---|---|---|---|---|",
            *(table_row(name, [row for row in rows if row["case"] == name]) for name in names),
            "",
            "Training: steps per second inside `learn()`; commands: wall time. Ratios are rlzoo over leader.",
            "By processor time: steps per second of it, which other work on the machine disturbs least.",
        ]
    )


def processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE", help=", ".join(CASES)
    )
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument(
        "--steps", type=int, default=None, help="steps of a training case (default: the case's own)"
    )
    parser.add_argument(
        "--sb3-python",
        default=sys.executable,
        metavar="PATH",
        help="an interpreter with stable-baselines3 and rl_zoo3",
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="write the table here as well")
    args = parser.parse_args()

    sys.path.insert(0, str(ROOT))
    probe = subprocess.run(
        [args.sb3_python, "-c", "import stable_baselines3, rl_zoo3"], capture_output=True, check=False
    )
    if probe.returncode:
        parser.error(f"{args.sb3_python} lacks stable-baselines3 or rl_zoo3; the extra `bench` brings them")
    pythons = {OURS: sys.executable, THEIRS: args.sb3_python}
    rows = [row for name in args.cases for row in compare(name, pythons, args.pairs, args.steps)]
    print("\n" + table(rows))
    if args.out:
        args.out.write_text(table(rows) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(train_once(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        main()
