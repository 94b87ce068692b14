"""Run every GPU test and timing, and write one Markdown table.

    python scripts/gpu_check.py                        # about ten minutes on a GPU
    python scripts/gpu_check.py --out gpu.md --quick   # a minute, small sizes
    python scripts/gpu_check.py --cases sac-tensors td3-mujoco --ways plain graphs both --no-tests

Without a GPU the same code runs with small sizes on CPU tensors, and graphs repeat their steps: that checks
the script, its figures say nothing about a GPU. Each case is timed in this process, after a warm-up, plainly,
with captured gradient steps, with compiled ones, and with both; `--ways sb3` adds stable-baselines3 where it
is installed. The time is that of `learn` and ends when the device has finished. Reference figures are those
given for stable-baselines3 and LeanRL on an H100.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import rlzoo  # noqa: E402
from rlzoo.accel.gpu import acceleration  # noqa: E402
from rlzoo.accel.gpu.captured_step import WARM_UP, CapturedStep, CudaGraph  # noqa: E402
from rlzoo.accel.matmul_precision import set_matmul_precision, without_effect  # noqa: E402

TESTS = (
    "tests/accel/test_captured_steps.py",
    "tests/accel/test_compiled_step.py",
    "tests/training/test_tensor_training.py",
)
SB3 = ("stable_baselines3", "sb3_contrib")
SB3_ENVIRONMENTS = "stable_baselines3.common.env_util"
SB3_WRAPPERS = "stable_baselines3.common.vec_env"
WAYS = {
    "sb3": "stable-baselines3",
    "plain": "plain",
    "graphs": "CUDA graphs",
    "compiled": "compiled",
    "both": "compiled and graphs",
}
PENDULUM = {"policy_kwargs": {"net_arch": [256, 256]}}
OF_LEANRL = {"learning_starts": 1000, "batch_size": 256, "train_freq": 1, "gradient_steps": 1}


class HostGraph:
    """A graph for a machine without a CUDA device: a replay runs the step again."""

    def __init__(self, device: torch.device) -> None:
        self.run: Callable[[], Any] = lambda: None

    def warm_up(self, run: Callable[[], Any]) -> Any:
        return run()

    def capture(self, run: Callable[[], Any]) -> Any:
        self.run = run
        return run()

    def replay(self) -> None:
        self.run()


@dataclass(frozen=True)
class Case:
    """A training to time.

    :param steps: environment steps that are timed on a GPU; `small` of them without one
    :param reference: published steps per second, and where they are from
    """

    algo: str
    env_id: str
    n_envs: int
    steps: int
    small: int
    small_envs: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    policy: str = "MlpPolicy"
    reference: str = ""
    precision: str = "highest"


BREAKOUT = "BreakoutNoFrameskip-v4"
PPO_ATARI = {"n_steps": 128, "batch_size": 256, "n_epochs": 4}
CASES = {
    "ppo-atari": Case(
        "PPO", BREAKOUT, 8, 40_000, 128, 2, PPO_ATARI, "CnnPolicy", "6,800 (stable-baselines3)"
    ),
    "ppo-atari-tf32": Case(
        "PPO", BREAKOUT, 8, 40_000, 128, 2, PPO_ATARI, "CnnPolicy", "6,800 (stable-baselines3)",
        "high",
    ),
    "sac-mujoco": Case("SAC", "HalfCheetah-v5", 1, 4000, 60, 1, OF_LEANRL, reference="725 (LeanRL)"),
    "td3-mujoco": Case("TD3", "HalfCheetah-v5", 1, 4000, 60, 1, OF_LEANRL, reference="936 (LeanRL)"),
    "tqc-mujoco": Case("TQC", "HalfCheetah-v5", 1, 3000, 40, 1, OF_LEANRL),
    "crossq-mujoco": Case("CrossQ", "HalfCheetah-v5", 1, 3000, 40, 1, OF_LEANRL),
    "ppo-tensors": Case(
        "PPO", "TensorCartPole-v1", 4096, 2_000_000, 2048, 64,
        {"n_steps": 32, "batch_size": 16_384, "n_epochs": 4},
    ),
    "a2c-tensors": Case("A2C", "TensorCartPole-v1", 4096, 2_000_000, 2048, 64, {"n_steps": 8}),
    "sac-tensors": Case(
        "SAC", "TensorPendulum-v1", 4096, 2_000_000, 1024, 64,
        {**PENDULUM, "learning_starts": 0, "batch_size": 4096, "train_freq": 1, "gradient_steps": 8},
    ),
    "dqn-tensors": Case(
        "DQN", "TensorCartPole-v1", 4096, 2_000_000, 1024, 64,
        {**PENDULUM, "learning_starts": 0, "batch_size": 4096, "train_freq": 1, "gradient_steps": 8},
    ),
    "qrdqn-tensors": Case(
        "QRDQN", "TensorCartPole-v1", 4096, 1_000_000, 512, 64,
        {**PENDULUM, "learning_starts": 0, "batch_size": 512, "train_freq": 1, "gradient_steps": 8},
    ),
}  # fmt: skip


def finish(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def build(case: Case, device: torch.device, small: bool, way: str) -> Any:
    """Return the untrained agent of a case."""
    n_envs = case.small_envs if small else case.n_envs
    kwargs = dict(case.kwargs)
    if small and "n_steps" in kwargs:
        kwargs["n_steps"] = min(kwargs["n_steps"], 16)
    if small and kwargs.get("learning_starts"):
        kwargs["learning_starts"] = 10
    if small and case.policy == "MlpPolicy":
        kwargs["policy_kwargs"] = {"net_arch": [16]}
    packages = [rlzoo] if way != "sb3" else list(map(importlib.import_module, SB3))
    found = [getattr(package, case.algo, None) for package in packages]
    algorithm: Any = next(candidate for candidate in found if candidate is not None)
    return algorithm(case.policy, environments(case, n_envs, way), device=device, seed=0, **kwargs)


def environments(case: Case, n_envs: int, way: str) -> Any:
    """Return the training environments of a case, made by the functions of each package."""
    makers: Any = rlzoo if way != "sb3" else importlib.import_module(SB3_ENVIRONMENTS)
    if "NoFrameskip" not in case.env_id:
        return makers.make_vec_env(case.env_id, n_envs=n_envs, seed=0)
    importlib.import_module("gymnasium").register_envs(importlib.import_module("ale_py"))
    stack: Any = makers if way != "sb3" else importlib.import_module(SB3_WRAPPERS)
    return stack.VecFrameStack(makers.make_atari_env(case.env_id, n_envs=n_envs, seed=0), n_stack=4)


@contextmanager
def accelerated(model: Any, way: str) -> Iterator[None]:
    """Compile and capture the gradient steps of a model inside, as a way of `WAYS` says."""
    kind = CudaGraph if model.device.type == "cuda" else HostGraph
    if way != "sb3":
        model.cuda_graphs = "off"
    with ExitStack() as stack:
        if way in ("compiled", "both"):
            acceleration.check_compilable(model)
            from rlzoo.accel.gpu.compiled_step import compiled

            stack.enter_context(compiled(model))
        if way in ("graphs", "both"):
            stack.enter_context(acceleration.captured(model, kind))
        yield


def speed(case: Case, device: torch.device, small: bool, way: str) -> float | str:
    """Return the environment steps per second of `learn`, after a warm-up; "-" where sb3 lacks the case."""
    if way == "sb3" and case.env_id.startswith("Tensor"):
        return "-"
    set_matmul_precision(case.precision, device)
    model = build(case, device, small, way)
    steps = case.small if small else case.steps
    warm_up = model.n_envs * getattr(model, "n_steps", 1) * 4
    if hasattr(model, "learning_starts"):
        warm_up = max(warm_up, model.learning_starts) + 20 * model.n_envs
    try:
        with accelerated(model, way):
            model.learn(warm_up)
            finish(device)
            before, began = model.num_timesteps, time.perf_counter()
            model.learn(steps, reset_num_timesteps=False)
            finish(device)
            return (model.num_timesteps - before) / (time.perf_counter() - began)
    finally:
        model.env.close()
        set_matmul_precision("highest", device)


def draws_are_new(device: torch.device) -> str:
    """Check that a captured stochastic policy draws new numbers at every replay."""
    model = rlzoo.SAC("MlpPolicy", rlzoo.make_vec_env("TensorPendulum-v1", 2), device=device, seed=0)
    obs = torch.zeros(64, 3, device=device)

    def sample(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {"actions": model.policy.actor.action_log_prob(batch["obs"])[0]}

    if device.type != "cuda":
        first, second = sample({"obs": obs})["actions"], sample({"obs": obs})["actions"]
        return "ok (not captured)" if not torch.equal(first, second) else "FAILED: the same numbers"
    step = CapturedStep(sample, device)
    draws = [step({"obs": obs})["actions"] for _ in range(WARM_UP + 6)][WARM_UP:]
    same = any(torch.equal(a, b) for i, a in enumerate(draws) for b in draws[:i])
    spread = torch.stack(draws).std(0).mean().item()
    return (
        f"FAILED: spread {spread:.3g}" if same or spread < 1e-3 else f"ok, spread {spread:.3f} over replays"
    )


def environments_agree(device: torch.device) -> str:
    """Check that environments take the same steps on the device and on the CPU."""
    worst = 0.0
    for kind in (rlzoo.TensorCartPole, rlzoo.TensorPendulum):
        here, there = kind(1000, device="cpu"), kind(1000, device=device)
        states = here.initial_states(1000)
        actions = (
            torch.randint(2, (1000,))
            if kind is rlzoo.TensorCartPole
            else torch.empty(1000, 1).uniform_(-2, 2)
        )
        for _ in range(10):
            expected = here.transition(states, actions)[0]
            found = there.transition(states.to(device), actions.to(device))[0].cpu()
            worst = max(worst, (found - expected).abs().max().item())
            states = expected
    return f"ok, largest difference {worst:.1e}" if worst < 1e-4 else f"FAILED: difference {worst:.1e}"


def ppo_learns(device: torch.device, small: bool) -> str:
    """Return the scores of PPO on CartPole, plainly and with captured steps."""
    scores = []
    for way in ("plain", "graphs"):
        venv = rlzoo.make_vec_env("TensorCartPole-v1", n_envs=64, seed=1)
        model = rlzoo.PPO(
            "MlpPolicy", venv, n_steps=32, batch_size=512, n_epochs=8, learning_rate=2e-3, gae_lambda=0.8,
            gamma=0.98, device=device, seed=1,
        )  # fmt: skip
        with accelerated(model, way):
            model.learn(4096 if small else 200_000)
        scores.append(sum(episode["r"] for episode in model.ep_info_buffer) / len(model.ep_info_buffer))
    plain, graphs = scores
    good = small or min(scores) > 300
    return f"{'ok' if good else 'FAILED'}: return {plain:.0f} without graphs, {graphs:.0f} with"


def run_tests() -> str:
    """Run the GPU tests, slow ones included; return pytest's last line."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "slow or not slow",
        *TESTS,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).strip().splitlines() or ["no output"]
    if done.returncode:
        print("\n".join(lines[-40:]), file=sys.stderr)
    return f"{'ok' if done.returncode == 0 else 'FAILED'}: {lines[-1].strip('= ')}"


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result, or what went wrong as text: one failure does not hide the other results."""
    try:
        return function(*arguments)
    except Exception as error:
        print(f"{function.__name__}{arguments[:1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return f"FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:90]


def machine(device: torch.device, small: bool) -> list[str]:
    """Return what the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU"
    lines = [f"- device: {device} ({name}), torch {torch.__version__}, Python {platform.python_version()}"]
    if device.type != "cuda":
        lines.append(
            "- **CPU tensors**: the same code paths with small sizes, and graphs that repeat their steps; no"
            " figure here says anything about a GPU"
        )
    elif small:
        lines.append("- **small sizes** (--quick): the figures are not comparable with the references")
    effects = {p: without_effect(p, device) or "has an effect" for p in ("high", "medium")}
    lines += [f"- --matmul-precision {precision}: {effect}" for precision, effect in effects.items()]
    return lines


def report(
    device: torch.device, names: list[str], ways: list[str], small: bool, with_tests: bool
) -> list[str]:
    """Run everything; return the lines of the report."""
    checks: list[tuple[str, Callable[[], Any]]] = [
        ("captured policy draws new numbers at every replay", lambda: draws_are_new(device)),
        ("environments on the device equal those on the CPU", lambda: environments_agree(device)),
        ("PPO learns with and without graphs", lambda: ppo_learns(device, small)),
    ]
    if with_tests:
        checks.append((f"tests: {', '.join(TESTS)}", run_tests))
    lines = ["# GPU check", "", *machine(device, small), "", "| check | result |", "|---|---|"]
    for name, check in checks:
        lines.append(f"| {name} | {attempt(check)} |")
        print(lines[-1], flush=True)
    head = f"| case | environments | {' | '.join(WAYS[way] for way in ways)} | published, H100 |"
    lines += ["", head, f"|---|---:|{'---:|' * len(ways)}---|"]
    print(head)
    for name in names:
        case = CASES[name]
        speeds = [attempt(speed, case, device, small, way) for way in ways]
        n_envs = case.small_envs if small else case.n_envs
        cells = [f"{value:,.0f}" if isinstance(value, float) else value for value in speeds]
        lines.append(f"| {name} | {n_envs} | {' | '.join(cells)} | {case.reference} |")
        print(lines[-1], flush=True)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu (default: auto)")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--quick", action="store_true", help="small sizes, also on a GPU")
    parser.add_argument("--no-tests", action="store_true", help="timings and checks without pytest")
    parser.add_argument("--out", default="", metavar="FILE", help="write the report to this file")
    args = parser.parse_args()
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if args.device == "auto" else args.device)
    small = args.quick or device.type != "cuda"
    ways = args.ways or (["plain", "graphs"] if device.type == "cpu" else list(WAYS)[1:])
    lines = report(device, args.cases, ways, small, not args.no_tests)
    if args.out:
        Path(args.out).write_text("\n".join(lines) + "\n")
    return int(any("FAILED" in line for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
