"""Follow a training of rlzoo and one of stable-baselines3 step by step, with the same random numbers.

    python scripts/compare_runs.py                                    # TD3 on LunarLanderContinuous-v3
    python scripts/compare_runs.py --algo sac --env Pendulum-v1
    python scripts/compare_runs.py --algo tqc --env MountainCarContinuous-v0
    python scripts/compare_runs.py --algo sac --env HalfCheetahBulletEnv-v0 --shipped

Runs in an environment that has both packages. rlzoo's agent starts with the weights of the other one, and
takes random actions and batches as stable-baselines3 draws them (`_sample_action`, `replay_buffer.sample`);
all the rest is rlzoo's: environments, noise, replay, losses, optimisers. Printed are the largest differences
of the actions so far, and beside them those of stable-baselines3 from itself, with critics whose weights are
larger by 1e-7 of their size: what rounding becomes in a training.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rlzoo
from rlzoo.buffers.samples import ReplayBufferSamples
from rlzoo.config.run import RunConfig
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.experiment.resolve import resolve_run

SEED = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "td3": {"learning_starts": 500, "learning_rate": 1e-3, "policy_kwargs": {"net_arch": [400, 300]}},
    "ddpg": {"learning_starts": 500, "learning_rate": 1e-3},
    "sac": {"learning_starts": 500},
    "tqc": {
        "learning_starts": 0, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "gamma": 0.9999,
        "tau": 0.01, "train_freq": 32, "gradient_steps": 32, "use_sde": True,
        "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]},
    },
}  # fmt: skip
PRINTED = (100, 210, 220, 230, 240, 250, 260, 300, 500, 510, 550, 600, 650, 700, 800, 1000, 1500, 2000, 3000)


def shipped(algo: str, env_id: str) -> dict[str, Any]:
    """Return the shipped hyperparameters, with which gradient steps begin after 200 steps here."""
    resolved = resolve_run(RunConfig(algo=algo, env_id=env_id))
    values = {**resolved.hyperparams, "policy_kwargs": resolved.policy_kwargs, "learning_starts": 200}
    if isinstance(values["learning_rate"], str):  # such as lin_7e-4, which the constructors do not take
        values["learning_rate"] = rlzoo.linear_schedule(float(values["learning_rate"].removeprefix("lin_")))
    return values


def their_agent(algo: str, env_id: str) -> Any:
    """Return an agent of stable-baselines3."""
    vec_env = importlib.import_module("stable_baselines3.common.env_util").make_vec_env(env_id, 1, seed=SEED)
    noise = importlib.import_module("stable_baselines3.common.noise").NormalActionNoise
    package = importlib.import_module("sb3_contrib" if algo == "tqc" else "stable_baselines3")
    learner = getattr(package, algo.upper())
    return learner("MlpPolicy", vec_env, seed=SEED, device="cpu", **arguments(algo, vec_env, noise))


def our_agent(algo: str, env_id: str, other: Any) -> Any:
    """Return an agent of rlzoo with the weights of another one, which draws as stable-baselines3 draws."""
    base = importlib.import_module("stable_baselines3.common.off_policy_algorithm").OffPolicyAlgorithm
    learner: Any = type("Own", (getattr(rlzoo, algo.upper()),), {"_sample_action": base._sample_action})
    vec_env = rlzoo.make_vec_env(env_id, 1, seed=SEED)
    options = arguments(algo, vec_env, rlzoo.NormalActionNoise)
    model = learner("MlpPolicy", vec_env, seed=SEED, device="cpu", **options)
    with tempfile.TemporaryDirectory() as folder:
        other.save(Path(folder) / "other.zip")
        model.set_parameters(str(Path(folder) / "other.zip"))
    model.replay_buffer.sample = lambda batch_size, env=None: draw(model.replay_buffer, batch_size)
    return model


def arguments(algo: str, vec_env: Any, noise: Callable[..., Any]) -> dict[str, Any]:
    """Return what both constructors are given."""
    shape = vec_env.action_space.shape
    has_noise = algo in ("td3", "ddpg")
    return OPTIONS[algo] | (
        {"action_noise": noise(np.zeros(shape), np.full(shape, 0.1))} if has_noise else {}
    )


def draw(replay: Any, batch_size: int) -> ReplayBufferSamples:
    """Draw a batch by NumPy's global generator: first slots, then environments."""
    slots = np.random.randint(0, replay.buffer_size if replay.full else replay.pos, size=batch_size)
    at = slots, np.random.randint(0, high=replay.n_envs, size=batch_size)
    columns = {name: getattr(replay, name)[at] for name in ("observations", "actions", "next_observations")}
    columns["dones"] = (replay.dones[at] * (1 - replay.timeouts[at])).reshape(-1, 1)
    columns["rewards"] = replay.rewards[at].reshape(-1, 1)
    tensors = {name: torch.as_tensor(np.array(values)).float() for name, values in columns.items()}
    return ReplayBufferSamples(**{**dict.fromkeys(ReplayBufferSamples._fields), **tensors})  # type: ignore[arg-type]


def actions_of(model: Any, steps: int) -> np.ndarray:
    """Train an agent from equal random states; return the actions [steps, ...] that were executed."""
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    model.action_space.seed(SEED)
    model.env.seed(SEED)
    actions: list[np.ndarray] = []

    def note(local_variables: Any, global_variables: Any) -> bool:
        actions.append(np.array(local_variables["actions"][0]))
        return True

    model.learn(steps, note)
    return np.stack(actions)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algo", choices=list(OPTIONS), default="td3")
    parser.add_argument("--env", default="LunarLanderContinuous-v3")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--shipped", action="store_true", help="use the shipped hyperparameters")
    args = parser.parse_args()
    ensure_registered(args.env)
    if args.shipped:
        OPTIONS[args.algo] = shipped(args.algo, args.env)
    torch.set_num_threads(1)
    theirs, nudged = (their_agent(args.algo, args.env) for _ in range(2))
    ours = our_agent(args.algo, args.env, theirs)
    with torch.no_grad():
        for parameter in nudged.critic.parameters():
            parameter.mul_(1 + 1e-7)
    reference = actions_of(theirs, args.steps)
    gaps = [np.abs(actions_of(model, args.steps) - reference).max(axis=1) for model in (ours, nudged)]
    print("| steps | rlzoo | stable-baselines3, nudged |\n|---:|---:|---:|")
    for steps in (step for step in PRINTED if step <= args.steps):
        cells = " | ".join(f"{gap[:steps].max():.1e}" for gap in gaps)
        print(f"| {steps:,} | {cells} |")


if __name__ == "__main__":
    main()
