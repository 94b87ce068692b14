"""Compare the speed of rlzoo with stable-baselines3, sb3-contrib, rl_zoo3 and SBX on the same work.

    python scripts/compare_speed.py                                  # every case, three pairs each
    python scripts/compare_speed.py --cases ppo-cartpole help --pairs 5
    python scripts/compare_speed.py --sb3-python other-venv/bin/python --sbx-python third-venv/bin/python
    python scripts/compare_speed.py --out speed.md

Both sides run in turn (A B A B ...), each in a new process, with the same environment, hyperparameters,
number of steps and threads, so that whatever else the machine does meets both alike; quote the ratios, not
the figures. A training case is the time inside `learn()`: neither imports nor building environments
count, and each side uses the vector environment that it picks by itself; where a case has a warm-up (JAX
compiles during it), the steps after it. A cold case is the wall time of a whole command. Prints one JSON line
per run and Markdown tables at the end. scripts/compare_checkouts.py compares two checkouts of rlzoo.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("speed_worker.py")
OURS, OTHER = "rlzoo", "reference"
SB3, CONTRIB, SBX = "stable_baselines3", "sb3_contrib", "sbx"


@dataclass(frozen=True)
class Training:
    """Time inside `learn()`, in steps per second."""

    algo: str
    env: str
    steps: int
    n_envs: int = 1
    threads: int = 1
    shipped: bool = True  # the shipped hyperparameters of the environment; else the algorithm's defaults
    conf: str | None = None  # another hyperparameter file, relative to the checkout
    changes: dict[str, Any] = field(default_factory=dict)  # on top of those hyperparameters
    reference: str = SB3  # the package to compare with
    warm_up: int = 0  # steps before the clock starts
    workers: int = 0  # processes that play the candidates of a population
    precision: str = "highest"  # of rlzoo's matrix products; the reference has float32
    compiled: bool = False  # whether rlzoo's gradient steps are; compiling is part of the warm-up


@dataclass(frozen=True)
class Cold:
    """Wall time of a whole command in an empty folder, in seconds."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


CASES: dict[str, Training | Cold] = {
    "ppo-cartpole": Training("ppo", "CartPole-v1", steps=100_000, n_envs=8),
    "a2c-cartpole": Training("a2c", "CartPole-v1", steps=100_000, n_envs=8),
    "ppo-lunarlander": Training("ppo", "LunarLander-v3", steps=100_000, n_envs=16),
    "ppo-halfcheetah": Training("ppo", "HalfCheetah-v5", steps=20_480, shipped=False),
    "ppo-pong": Training("ppo", "PongNoFrameskip-v4", steps=8_192, n_envs=8, threads=2),
    "dqn-cartpole": Training("dqn", "CartPole-v1", steps=25_000),
    "qrdqn-cartpole": Training("qrdqn", "CartPole-v1", steps=25_000, reference=CONTRIB),
    "sac-halfcheetah": Training("sac", "HalfCheetah-v5", steps=3_000, threads=2, shipped=False),
    "td3-halfcheetah": Training("td3", "HalfCheetah-v5", steps=3_000, threads=2, shipped=False),
    "tqc-halfcheetah": Training(
        "tqc", "HalfCheetah-v5", steps=3_000, threads=2, shipped=False, reference=CONTRIB
    ),
    "sac-halfcheetah-sbx": Training(
        "sac", "HalfCheetah-v5", steps=3_000, threads=2, shipped=False, reference=SBX, warm_up=500
    ),
    "her-bitflipping": Training(
        "her", "BitFlipping-v0", steps=20_000, conf="scripts/bit_flipping_documented.yml"
    ),
    "her-bitflipping-wide": Training(
        "her", "BitFlipping-v0", steps=4_000, conf="benchmarks/bit_flipping_her.yml"
    ),
    # A memory that is filled once over, so that what it takes can be measured.
    "dqn-pong": Training(
        "dqn",
        "PongNoFrameskip-v4",
        steps=8_000,
        threads=2,
        changes={"buffer_size": 8_000, "learning_starts": 1_000},
    ),
    "trpo-cartpole": Training("trpo", "CartPole-v1", steps=50_000, n_envs=2, reference=CONTRIB),
    "ppo_lstm-cartpolenovel": Training(
        "ppo_lstm", "CartPoleNoVel-v1", steps=15_000, n_envs=8, reference=CONTRIB
    ),
    "ppo_mask-invalid-actions": Training(
        "ppo_mask",
        "InvalidActionDiscrete-v0",
        steps=20_000,
        reference=CONTRIB,
        conf="benchmarks/invalid_actions.yml",
    ),
    "ars-cartpole": Training("ars", "CartPole-v1", steps=100_000, workers=2, reference=CONTRIB),
    "help": Cold(("rlzoo", "--help"), ("rl_zoo3.train", "--help")),
    "train-cold": Cold(
        ("rlzoo", "train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "20000"),
        ("rl_zoo3.train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "20000"),
    ),
}

MEDIUM = ("sac-halfcheetah", "td3-halfcheetah", "tqc-halfcheetah", "sac-halfcheetah-sbx")
COMPILED = {
    "ppo-cartpole": 2_000,
    "a2c-cartpole": 2_000,
    "ppo-lunarlander": 16_384,
    "ppo-halfcheetah": 2_048,
    "ppo-pong": 1_024,
    "dqn-cartpole": 2_000,
    "qrdqn-cartpole": 2_000,
    "sac-halfcheetah": 500,
    "td3-halfcheetah": 500,
    "tqc-halfcheetah": 500,
    "sac-halfcheetah-sbx": 500,
    "her-bitflipping": 1_500,
    "her-bitflipping-wide": 1_500,
    "dqn-pong": 1_500,
}
"""Cases that are timed with `--compile`, too, and the steps before the clock starts, in which it compiles."""


def variant(name: str, **changes: Any) -> Training:
    case = CASES[name]
    assert isinstance(case, Training)
    return replace(case, **changes)


CASES.update({f"{name}-medium": variant(name, precision="medium") for name in MEDIUM})
CASES.update(
    {
        f"{name}-medium-compiled": variant(f"{name}-medium", compiled=True, warm_up=COMPILED[name])
        for name in MEDIUM
    }
)
CASES.update(
    {f"{name}-compiled": variant(name, compiled=True, warm_up=steps) for name, steps in COMPILED.items()}
)


def specification(case: Training, steps: int | None) -> dict[str, Any]:
    """What both sides are given, as plain JSON values."""
    from rlzoo.config.her_entries import expand_her
    from rlzoo.config.hyperparams import ZOO_KEYS, lookup
    from rlzoo.config.values_as_text import plain

    algo, values = case.algo, {}
    if case.shipped:
        conf = None if case.conf is None else ROOT / case.conf
        raw = expand_her(lookup(case.algo, case.env, conf))
        algo, values = raw.algo, raw.values
    n_envs = case.n_envs if not case.shipped else values.get("n_envs", 1)
    if n_envs != case.n_envs:
        raise SystemExit(f"{case.env} ships with {n_envs} environments, this case says {case.n_envs}")
    hyperparams = {name: value for name, value in values.items() if name not in (*ZOO_KEYS, "policy")}
    return {
        **asdict(case),
        "algo": algo,
        "steps": steps or case.steps,
        "atari": "NoFrameskip" in case.env,
        "policy": values.get("policy", "MlpPolicy"),
        "normalize": bool(values.get("normalize")),
        "hyperparams": plain({**hyperparams, **case.changes}),
    }


def process_environment(checkout: Path | None, threads: int) -> dict[str, str]:
    """Put a checkout of rlzoo first, if one is given; both sides get the same number of threads."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if checkout:
        path = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{checkout}{os.pathsep}{path}" if path else str(checkout)
    return environment


def run_training(side: str, python: str, spec: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(WORKER), side, json.dumps(spec)],
        capture_output=True,
        text=True,
        env=process_environment(ROOT if side == OURS else None, spec["threads"]),
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_cold(python: str, arguments: tuple[str, ...], checkout: Path | None) -> dict[str, Any]:
    command = [python, "-m", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            env=process_environment(checkout, 1),
            check=False,
        )
        seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return {"seconds": seconds}


def compare(name: str, interpreters: dict[str, str], pairs: int, steps: int | None) -> list[dict[str, Any]]:
    """Run one case, both sides in turn; return a row per run and print it as it comes.

    :param interpreters: by the package that a reference is in
    """
    case = CASES[name]
    pythons = {OURS: sys.executable, OTHER: interpreters[reference_of(case)]}
    spec = specification(case, steps) if isinstance(case, Training) else {}
    rows = []
    for pair in range(pairs):
        for side, python in pythons.items():
            if isinstance(case, Training):
                result = run_training(side, python, spec)
            elif side == OURS:
                result = run_cold(python, case.ours, ROOT)
            else:
                result = run_cold(python, case.theirs, None)
            rows.append({"case": name, "pair": pair, "side": side, **result})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def table_row(name: str, rows: list[dict[str, Any]]) -> str:
    """One line of the table. Training: our steps/s over theirs. Cold: our seconds over theirs."""
    training = isinstance(CASES[name], Training)
    key, unit, digits = ("steps_per_s", "steps/s", 0) if training else ("seconds", "s", 2)
    sides = by_side(rows)
    ours, theirs = ([row[key] for row in side] for side in sides)
    medians = [statistics.median(ours), statistics.median(theirs)]
    each = ", ".join(f"{a / b:.2f}" for a, b in zip(ours, theirs, strict=True))
    by_cpu = "-"
    if training:
        rates = [statistics.median(row["steps"] / row["cpu_seconds"] for row in side) for side in sides]
        by_cpu = f"{rates[0] / rates[1]:.2f}"
    figures = [f"{median:,.{digits}f} {unit}" for median in medians]
    return f"| {name} | {figures[0]} | {figures[1]} | **{medians[0] / medians[1]:.2f}** | {each} | {by_cpu} |"


def memory_row(name: str, rows: list[dict[str, Any]]) -> str:
    """One line of the table of memory: the replay buffer, and the whole process at its largest."""
    ours, theirs = by_side(rows)
    cells = []
    for key in ("replay_mb", "peak_mb"):
        megabytes = [statistics.median(row[key] for row in side) for side in (ours, theirs)]
        cells += [*(f"{value:,.1f} MB" for value in megabytes), f"**{megabytes[0] / megabytes[1]:.2f}**"]
    return f"| {name} | {' | '.join(cells)} |"


def by_side(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [[row for row in rows if row["side"] == side] for side in (OURS, OTHER)]


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: medians, their ratio, and the ratio of every pair; then memory, where there is replay."""
    versions = sorted({f"{row['package']} {row['version']}" for row in rows if "version" in row})
    by_case = {
        name: [row for row in rows if row["case"] == name] for name in dict.fromkeys(r["case"] for r in rows)
    }
    lines = [
        ", ".join([processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}", *versions]),
        "",
        f"| case | rlzoo | {OTHER} | ratio of medians | each pair | by processor time |",
        "|---|---|---|---|---|---|",
        *(table_row(name, found) for name, found in by_case.items()),
        "",
        f"Training: steps per second inside `learn()`; commands: wall time. Ratios are rlzoo over {OTHER}.",
        "By processor time: steps per second of it, which other work on the machine disturbs least.",
        "Reference: stable-baselines3; SBX, compilation left out, if named;",
        "sb3-contrib for QR-DQN, TQC, TRPO, ARS, recurrent and masked PPO.",
    ]
    with_replay = {name: found for name, found in by_case.items() if all("replay_mb" in row for row in found)}
    if with_replay:
        lines += [
            "",
            f"| case | replay memory: rlzoo | {OTHER} | ratio | whole process: rlzoo | {OTHER} | ratio |",
            "|---|---|---|---|---|---|---|",
            *(memory_row(name, found) for name, found in with_replay.items()),
        ]
    return "\n".join(lines)


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
        help="an interpreter with stable-baselines3, sb3-contrib and rl_zoo3",
    )
    parser.add_argument(
        "--sbx-python", default=sys.executable, metavar="PATH", help="an interpreter with sbx-rl"
    )
    parser.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="write the tables here as well"
    )
    args = parser.parse_args()

    sys.path.insert(0, str(ROOT))
    interpreters = {SB3: args.sb3_python, CONTRIB: args.sb3_python, SBX: args.sbx_python}
    for package in {reference_of(CASES[name]) for name in args.cases}:
        packages = "stable_baselines3, rl_zoo3" if package == SB3 else package
        probe = [interpreters[package], "-c", f"import {packages}"]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            parser.error(f"{interpreters[package]} lacks {packages}; the extra `bench` brings them")
    rows = [row for name in args.cases for row in compare(name, interpreters, args.pairs, args.steps)]
    made = table(rows)
    print("\n" + made)
    if args.out:
        args.out.write_text(made + "\n")


def reference_of(case: Training | Cold) -> str:
    return case.reference if isinstance(case, Training) else SB3


if __name__ == "__main__":
    main()
