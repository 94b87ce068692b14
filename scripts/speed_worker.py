"""One training run of scripts/compare_speed.py, on one side, in a separate process.

    python scripts/speed_worker.py rlzoo|reference|chunks '{"algo": "ppo", ...}'

Prints one JSON line. The reference is stable-baselines3, sb3-contrib or SBX, as `spec["reference"]` says.
`chunks` trains rlzoo in short pieces, one for each line on standard input, and prints a line for each.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import resource
import sys
import time
from typing import Any

SEED = 1
DISTRIBUTIONS = {"sbx": "sbx-rl"}  # packages that are installed under another name
CLASSES = {
    "crossq": "CrossQ",
    "ppo_lstm": "RecurrentPPO",
    "ppo_mask": "MaskablePPO",
}  # the others are upper case
BIT_FLIPPING = "BitFlipping-v0"
INVALID_ACTIONS = "InvalidActionDiscrete-v0"


def run(side: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Train as `spec` says and measure `learn()` alone, after `spec["warm_up"]` steps of it."""
    import torch

    torch.set_num_threads(spec["threads"])
    ours = side == "rlzoo"
    if ours:
        from rlzoo.accel.matmul_precision import set_matmul_precision

        set_matmul_precision(spec["precision"], torch.device("cpu"))
    model = (our_model if ours else their_model)(spec)
    if ours:
        model.compile_networks = spec["compiled"]
    if spec["warm_up"]:
        model.learn(spec["warm_up"])
    before = model.num_timesteps
    options = {"reset_num_timesteps": not spec["warm_up"]}
    if spec["workers"]:
        options["async_eval"] = workers(
            spec, model, "rlzoo" if ours else "sb3_contrib.common.vec_env.async_eval"
        )
    cpu, wall = processor_time(), time.perf_counter()
    model.learn(spec["steps"], **options)
    wall = time.perf_counter() - wall
    if spec["workers"]:
        options["async_eval"].close()  # processes count when they have ended
    cpu = processor_time() - cpu
    steps = model.num_timesteps - (before if spec["warm_up"] else 0)
    result = {
        "steps_per_s": steps / wall,
        "steps": steps,
        "seconds": wall,
        "cpu_seconds": cpu,
        "package": "rlzoo" if ours else spec["reference"].replace("_", "-"),
        "version": importlib.import_module("rlzoo").__version__ if ours else their_version(spec["reference"]),
        "torch": torch.__version__,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if hasattr(model, "replay_buffer"):
        result["replay_mb"] = replay_bytes(model.replay_buffer) / 1e6
    return result


def serve_chunks(spec: dict[str, Any]) -> None:
    """Train rlzoo for `spec["chunk"]` steps whenever a line comes in; print the processor time per step."""
    import torch

    torch.set_num_threads(spec["threads"])
    model = our_model(spec)
    model.learn(2 * spec["chunk"] + spec["hyperparams"].get("learning_starts", 0))
    print("ready", flush=True)
    for _ in sys.stdin:
        steps, cpu = model.num_timesteps, processor_time()
        model.learn(spec["chunk"], reset_num_timesteps=False)
        print(json.dumps((processor_time() - cpu) / (model.num_timesteps - steps)), flush=True)


def processor_time() -> float:
    """Seconds that this process and its finished children have used."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def workers(spec: dict[str, Any], model: Any, module: str) -> Any:
    """The processes of random search."""
    import gymnasium

    makers = [functools.partial(gymnasium.make, spec["env"]) for _ in range(spec["workers"])]
    return importlib.import_module(module).AsyncEval(makers, model.policy)


def our_model(spec: dict[str, Any]) -> Any:
    import rlzoo

    wrapper = rlzoo.AtariWrapper if spec["atari"] else None
    env = rlzoo.make_vec_env(
        spec["env"], spec["n_envs"], seed=SEED, wrapper_class=wrapper, images=spec["atari"]
    )  # each side as its own `train` makes them
    if spec["atari"]:
        env = rlzoo.VecFrameStack(env, n_stack=4)
    if spec["normalize"]:
        env = rlzoo.VecNormalize(env, gamma=spec["hyperparams"]["gamma"])
    learner = getattr(rlzoo, CLASSES.get(spec["algo"], spec["algo"].upper()))
    hyperparams = {name: our_value(name, value) for name, value in spec["hyperparams"].items()}
    return learner(spec["policy"], env, seed=SEED, device="cpu", **hyperparams)


def their_model(spec: dict[str, Any]) -> Any:
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.envs import BitFlippingEnv
    from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

    if spec["atari"]:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
    wrapper = AtariWrapper if spec["atari"] else None
    made_from: Any = spec["env"]
    if made_from == BIT_FLIPPING:
        made_from = BitFlippingEnv
    elif made_from == INVALID_ACTIONS:
        contrib = importlib.import_module("sb3_contrib.common.envs")
        made_from = functools.partial(contrib.InvalidActionEnvDiscrete, dim=80, n_invalid_actions=60)
    elif "NoVel" in made_from:
        made_from = made_from.replace("NoVel", "")
        wrapper = importlib.import_module("rl_zoo3.wrappers").MaskVelocityWrapper
    env: Any = make_vec_env(made_from, spec["n_envs"], seed=SEED, wrapper_class=wrapper)
    if spec["atari"]:
        env = VecFrameStack(env, n_stack=4)
    if spec["normalize"]:
        env = VecNormalize(env, gamma=spec["hyperparams"]["gamma"])
    learner = getattr(
        importlib.import_module(spec["reference"]), CLASSES.get(spec["algo"], spec["algo"].upper())
    )
    hyperparams = {name: their_value(name, value) for name, value in spec["hyperparams"].items()}
    return learner(spec["policy"], env, seed=SEED, device="cpu", **hyperparams)


def our_value(name: str, value: Any) -> Any:
    """What JSON cannot hold: a class, or a tuple."""
    if name == "replay_buffer_class":
        return getattr(importlib.import_module("rlzoo"), value)
    if name == "policy_kwargs":
        return policy_kwargs(value)
    return tuple(value) if name == "train_freq" and isinstance(value, list) else value


def their_value(name: str, value: Any) -> Any:
    """The same for stable-baselines3, which takes a linear schedule as a function."""
    if name == "replay_buffer_class":
        return getattr(importlib.import_module("stable_baselines3"), value)
    if name == "policy_kwargs":
        return policy_kwargs(value)
    if isinstance(value, str) and value.startswith("lin_"):
        initial = float(value.removeprefix("lin_"))
        return lambda progress_remaining: progress_remaining * initial
    return tuple(value) if name == "train_freq" and isinstance(value, list) else value


def policy_kwargs(values: dict[str, Any]) -> dict[str, Any]:
    """With the class of the activation, which JSON names."""
    import torch

    name = values.get("activation_fn")
    return values if name is None else {**values, "activation_fn": getattr(torch.nn, name.rpartition(".")[2])}


def their_version(package: str) -> str:
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def replay_bytes(replay: Any) -> int:
    """Memory of the experience in a replay buffer, in bytes."""
    if hasattr(replay, "nbytes"):
        return int(replay.nbytes)
    arrays = [
        array
        for held in vars(replay).values()
        for array in (held.values() if isinstance(held, dict) else [held])
    ]
    return sum(array.nbytes for array in arrays if hasattr(array, "nbytes"))


if __name__ == "__main__":
    if sys.argv[1] == "chunks":
        serve_chunks(json.loads(sys.argv[2]))
    else:
        print(json.dumps(run(sys.argv[1], json.loads(sys.argv[2]))))
