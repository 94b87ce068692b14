"""Train the shipped hyperparameters on several seeds, play the final agents, and write a table.

    python scripts/learning_runs.py                           # every row of the table
    python scripts/learning_runs.py --rows ppo:CartPole-v1    # one row
    python scripts/learning_runs.py --reuse                   # play agents that are there already

Each agent is trained by the command line with one thread, `--jobs` at a time. The final model, not the best
one, then plays deterministically in environments whose seeds training never used.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
HELD_OUT = (
    1_000_000  # environments are seeded from here on; training uses its seed and the numbers just above it
)
N_ENVS = 10
TIME = "training_seconds.txt"  # written into the folder of a finished run


@dataclass(frozen=True)
class Row:
    """An agent to train, and what the median of its seeds has to reach."""

    algo: str
    env: str
    target: float | None = None
    episodes: int = 100
    conf: str | None = None  # a hyperparameter file of its own, from the top of the checkout
    success: bool = False  # the measure is the success rate, not the return
    fails: bool = False  # the median has to stay below the target: what another row is compared with
    expert_episodes: int = 0  # learns from so many episodes of a PPO agent, which is trained first
    seeds: tuple[int, ...] = ()  # instead of those of the command line: few where a run is long, many where
    # seeds differ much

    def reached(self, median: float) -> bool:
        """Whether the median over the seeds is what is asked for."""
        assert self.target is not None
        return median < self.target if self.fails else median >= self.target


ROWS = (
    Row("ppo", "CartPole-v1", 500),
    Row("ppo", "Pendulum-v1", -190, episodes=1000),
    Row("ppo", "MountainCarContinuous-v0", 85),
    Row("a2c", "CartPole-v1", 495),
    Row("a2c", "MountainCarContinuous-v0", 88),
    Row("ppo", "Catch-v0", 0.95, conf="scripts/catch.yml"),
    Row("dqn", "CartPole-v1", 475),
    Row("qrdqn", "CartPole-v1", 450),
    Row("sac", "Pendulum-v1", -165, episodes=1000),
    Row("td3", "Pendulum-v1", -165, episodes=1000),
    Row("ddpg", "Pendulum-v1", -170, episodes=1000),
    Row("tqc", "Pendulum-v1", -165, episodes=1000),
    Row("crossq", "Pendulum-v1", -170, episodes=1000),
    Row("sac", "MountainCarContinuous-v0", 90),
    Row("her", "BitFlipping-v0", 0.95, conf="scripts/bit_flipping_her.yml", success=True),
    Row("dqn", "BitFlipping-v0", 0.2, conf="scripts/bit_flipping_dqn.yml", success=True, fails=True),
    Row("sac", "FetchReach-v4", 0.9, success=True),  # needs rlzoo[robotics]
    Row("trpo", "CartPole-v1", 500, seeds=tuple(range(11))),
    Row("trpo", "Pendulum-v1", -205, episodes=1000),
    Row("trpo", "MountainCarContinuous-v0", 90),
    Row("trpo", "Swimmer-v5", 300, seeds=(0,)),
    Row("trpo", "Hopper-v5", 2500, seeds=(0,)),
    Row("acktr", "CartPole-v1", 475),
    Row("acktr", "Pendulum-v1", -245, episodes=1000),
    Row("acer", "CartPole-v1", 485),
    Row("acer", "Acrobot-v1", -95),
    Row("ppo_lstm", "CartPoleNoVel-v1", 500),
    Row("ppo_lstm", "PendulumNoVel-v1", -245, episodes=1000, seeds=tuple(range(7))),
    Row("ppo_lstm", "MountainCarContinuousNoVel-v0", 88),
    Row("ars", "CartPole-v1", 500),
    Row("ars", "Pendulum-v1", -245, episodes=1000),
    Row("ppo_mask", "InvalidActionDiscrete-v0", 90, conf="scripts/invalid_actions.yml"),
    Row("ppo", "InvalidActionDiscrete-v0", 45, conf="scripts/invalid_actions.yml", fails=True),
    Row("bc", "CartPole-v1", 480, expert_episodes=25),
    Row("bc", "Pendulum-v1", -220, episodes=1000, expert_episodes=25),
    Row("bc", "LunarLander-v3", 190, expert_episodes=25),
    Row("gail", "CartPole-v1", 460, expert_episodes=10),
    Row("gail", "Pendulum-v1", -260, episodes=1000, expert_episodes=10),
)
EXPERT_SEED = 100  # of the PPO agent that others imitate


@dataclass(frozen=True)
class Result:
    """One training seed of a row."""

    seed: int
    mean: float
    std: float
    steps: int
    seconds: float  # of training, start of the process included


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--rows", nargs="+", type=parse_row, default=ROWS, metavar="ALGO:ENV", help="default: all"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="training seeds (default: 0 1 2)")
    parser.add_argument(
        "--episodes", type=int, default=None, help="episodes to play (default: the row's own)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="agents trained at a time (default: 2)")
    parser.add_argument("--folder", type=Path, default=Path("logs/learning"), help="where the runs go")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "scripts" / "learning_results.md", help="the table"
    )
    parser.add_argument("--reuse", action="store_true", help="do not train again what has been trained")
    args = parser.parse_args()

    rows = [replace(row, episodes=args.episodes or row.episodes) for row in args.rows]
    work = [(row, seed) for row in rows for seed in row.seeds or args.seeds]
    for row in rows:
        if row.expert_episodes:
            record_expert(row, args.folder)
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = list(pool.map(lambda item: train(*item, args.folder, args.reuse), work))
    results: dict[Row, list[Result]] = {row: [] for row in rows}
    for (row, seed), run in zip(work, runs, strict=True):
        results[row].append(play(row, seed, run))
    text = report(results, args.out.read_text() if args.out.is_file() else "")
    print(text)
    args.out.write_text(text)


def parse_row(text: str) -> Row:
    """`ppo:CartPole-v1`: a row of the table if it is there, else one without a target."""
    algo, colon, env = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"expected ALGO:ENV, not {text!r}")
    return next((row for row in ROWS if (row.algo, row.env) == (algo, env)), Row(algo, env))


def training_command(row: Row, seed: int | str, folder: Path = Path("logs/learning")) -> list[str]:
    """The arguments of `rlzoo` that train an agent; evaluation would only cost time here."""
    conf = ["--conf-file", row.conf] if row.conf else []
    expert = ["--expert", str(expert_file(row, folder))] if row.expert_episodes else []
    given = ["--algo", row.algo, "--env", row.env, "--seed", str(seed), "--eval-freq", "-1"]
    return ["train", *given, *conf, *expert]


def expert_file(row: Row, folder: Path) -> Path:
    """Where the demonstrations of a row are."""
    return folder / "experts" / f"{row.env}_{row.expert_episodes}.npz"


def record_command(row: Row, folder: Path) -> list[str]:
    """The arguments of `rlzoo` that record the demonstrations of a row."""
    expert = ["--algo", "ppo", "--env", row.env, "-f", str(folder / f"seed{EXPERT_SEED}")]
    return ["record-expert", *expert, "-n", str(row.expert_episodes), "-o", str(expert_file(row, folder))]


def record_expert(row: Row, folder: Path) -> None:
    """Train the PPO agent to be imitated, unless it is there, and record its episodes."""
    folder = folder.resolve()
    train(Row("ppo", row.env), EXPERT_SEED, folder, reuse=True)
    expert_file(row, folder).parent.mkdir(parents=True, exist_ok=True)
    run_rlzoo(record_command(row, folder))


def run_rlzoo(arguments: list[str]) -> None:
    """One command of `rlzoo`, with one thread, from the top of the checkout."""
    command = [sys.executable, "-m", "rlzoo", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def newest_run(row: Row, logs: Path) -> Path:
    """The folder of the newest run of a row, which may not exist."""
    from rlzoo.config.run import latest_run_id, run_name

    return logs / row.algo / run_name(row.env, latest_run_id(logs, row.algo, row.env))


def train(row: Row, seed: int, folder: Path, reuse: bool) -> Path:
    """Train one agent in a process of its own; returns the folder of the run."""
    logs = folder.resolve() / f"seed{seed}"
    if reuse and (newest_run(row, logs) / TIME).is_file():
        return newest_run(row, logs)
    where = ["--log-folder", str(logs), "--num-threads", "1", "--verbose", "0"]
    began = time.perf_counter()
    run_rlzoo([*training_command(row, seed, folder.resolve()), *where])
    seconds = time.perf_counter() - began
    print(f"{row.algo} {row.env} seed {seed}: trained in {seconds:.0f} s", file=sys.stderr, flush=True)
    run = newest_run(row, logs)
    (run / TIME).write_text(f"{seconds:.1f}\n")
    return run


def play(row: Row, seed: int, run: Path) -> Result:
    """Play the final agent deterministically in environments that training never saw."""
    import torch

    from rlzoo.config.hyperparams import lookup
    from rlzoo.config.run import model_file
    from rlzoo.envs.vec_env import load_env_state
    from rlzoo.experiment.blueprint import check_hyperparams
    from rlzoo.experiment.environments import build_evaluation_env
    from rlzoo.training.evaluate import play_episodes

    torch.set_num_threads(1)
    conf = None if row.conf is None else ROOT / row.conf
    blueprint = check_hyperparams(row.algo, lookup(row.algo, row.env, conf).values)
    env = build_evaluation_env(blueprint, row.env, n_envs=N_ENVS, seed=HELD_OUT, backend="auto")
    model = blueprint.algorithm.load(run / model_file(row.env), device="cpu")
    if model.normalize_state:
        load_env_state(env, model.normalize_state)
    episodes = play_episodes(model, env, row.episodes, deterministic=True)
    env.close()
    values = [float(success) for success in episodes.succeeded] if row.success else episodes.returns
    seconds = float((run / TIME).read_text())
    return Result(seed, statistics.fmean(values), statistics.pstdev(values), model.num_timesteps, seconds)


def report(results: dict[Row, list[Result]], earlier: str = "") -> str:
    """The table as Markdown, and the commands that made it.

    :param earlier: a report whose other rows are kept, where it has the same columns
    """
    earlier, heading, section = earlier.partition("\n## ")  # sections that other scripts have added
    columns = ["algorithm", "environment", "steps", "training", "episodes"]
    columns += [*(f"seed {seed}" for seed in SEEDS), "further seeds", "median", "required", ""]
    header = f"| {' | '.join(columns)} |"
    lines = table_lines(earlier) if header in earlier.splitlines() else {}
    lines |= {(row.algo, row.env): table_row(row, found) for row, found in results.items()}
    known = [(row.algo, row.env) for row in ROWS]
    rows = {
        key: next((row for row in [*results, *ROWS] if (row.algo, row.env) == key), Row(*key))
        for key in sorted(lines, key=lambda key: known.index(key) if key in known else len(known))
    }
    parts = [
        "# What the shipped hyperparameters learn",
        "",
        "Final model, deterministic, mean return (or success rate) ± standard deviation over episodes, in",
        f"environments seeded from {HELD_OUT:,} on, which training never used. Required: of the median over",
        "the seeds. Training: seconds with one thread, median over the seeds, while other work went on: how",
        "long one waits at most, no measure of speed.",
        "",
        header,
        "|---" * len(columns) + "|",
        *(lines[key] for key in rows),
        "",
        "Made by `python scripts/learning_runs.py --rows ALGORITHM:ENVIRONMENT ...`, which trains agents by",
        "",
        *(f"    rlzoo {' '.join(training_command(row, 'SEED'))}" for row in rows.values()),
    ]
    if experts := [row for row in rows.values() if row.expert_episodes]:
        parts += [
            "",
            f"Demonstrations are of PPO agents with the shipped hyperparameters and seed {EXPERT_SEED}, by",
            "",
            *(f"    rlzoo {' '.join(record_command(row, Path('logs/learning')))}" for row in experts),
        ]
    return "\n".join(parts) + "\n" + heading + section


def table_lines(text: str) -> dict[tuple[str, str], str]:
    """The rows of a report by algorithm and environment."""
    cells = {line: [cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line}
    rows = {(cell[1], cell[2].removesuffix(", success")): line for line, cell in cells.items()}
    return {key: line for key, line in rows.items() if key[0] != "algorithm" and not key[0].startswith("-")}


def table_row(row: Row, results: list[Result]) -> str:
    """One line of the table; says whether what is required was reached."""
    median = statistics.median(result.mean for result in results)
    seconds = statistics.median(result.seconds for result in results)
    digits = 1 if abs(median) >= 10 else 2
    required = verdict = ""
    if row.target is not None:
        required = f"below {row.target:g}" if row.fails else f"{row.target:g}"
        verdict = "reached" if row.reached(median) else "**missed**"
    cells = {result.seed: f"{result.mean:.{digits}f} ± {result.std:.{digits}f}" for result in results}
    further = [f"{result.mean:.{digits}f} ({result.seed})" for result in results if result.seed not in SEEDS]
    each = " | ".join([*(cells.get(seed, "-") for seed in SEEDS), ", ".join(further) or "-"])
    measured = f"{row.env}, success" if row.success else row.env
    head = f"| {row.algo} | {measured} | {results[0].steps:,} | {seconds:.0f} s | {row.episodes:,} "
    return f"{head}| {each} | {median:.{digits}f} | {required} | {verdict} |"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
