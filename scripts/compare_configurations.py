"""Train with random hyperparameters, here and in stable-baselines3, and compare the parameters.

    python scripts/compare_configurations.py --sb3-python PYTHON        # 200 configurations
    python scripts/compare_configurations.py --sb3-python PYTHON --first 1000 --count 500
    python scripts/compare_configurations.py --sb3-python PYTHON --first 17 --count 1  # one, again

PYTHON is the interpreter of an environment with stable-baselines3 and sb3-contrib; rlzoo runs the same lines
under `rlzoo.compat`. Algorithms, hyperparameters, spaces, networks and wrappers are drawn at random. Both
sides start with the same weights, set PyTorch's seed to the same numbers before they draw, and sample the
same rows of their replay buffers; all the rest is theirs. The difference of two trainings is the Euclidean
distance of their parameters over the distance that training has moved them. Rounding grows in a training, so
stable-baselines3 is also compared with itself, from weights that are larger by 1e-7 of their size. What the
pages on coming from these packages list as different is not drawn.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

ON_POLICY = ("A2C", "PPO", "TRPO", "MaskablePPO", "RecurrentPPO")
WITH_ACTORS = ("DDPG", "TD3", "SAC", "TQC", "CrossQ")
ALGORITHMS = (*ON_POLICY, "DQN", "QRDQN", *WITH_ACTORS)
LARGE = 0.01
"""Differences from here on are listed."""
NUDGE = 1e-7


class Draw:
    """Random choices of a configuration.

    :param seed: of the configuration
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one_of(self, *values: Any) -> Any:
        return self.random.choice(values)

    def some(self, **options: tuple[Any, ...]) -> dict[str, Any]:
        """Return values of about half of the options."""
        return {name: self.one_of(*values) for name, values in options.items() if self.random.random() < 0.5}


def configuration(seed: int) -> dict[str, Any]:
    """Return a configuration as JSON can hold it; schedules are `["linear", initial value]`."""
    draw = Draw(seed)
    algo = ALGORITHMS[seed % len(ALGORITHMS)]
    made = on_policy(draw, algo) if algo in ON_POLICY else off_policy(draw, algo)
    rates: tuple[Any, ...] = (1e-3, ["linear", 1e-3])
    if made["observations"] not in ("image", "channels last"):  # where large steps amplify rounding most
        rates = (1e-3, 1e-2, ["linear", 1e-2])
    made["keywords"].update(draw.some(gamma=(0.5, 0.9, 1.0), learning_rate=rates))
    policy = made["keywords"]["policy_kwargs"]
    policy.update(draw.some(activation_fn=("ReLU", "ELU", "Tanh")))
    if algo not in ("A2C", "QRDQN"):  # with optimizer_kwargs they keep their own there
        policy["optimizer_kwargs"] = {"eps": 1e-3, **draw.some(weight_decay=(0.01,))}
    wrappers = {
        "vector": ("", "VecNormalize", "rewards only", "VecFrameStack"),
        "image": ("", "VecFrameStack"),
        "channels last": ("", "VecFrameStack"),
    }
    return {
        "seed": seed,
        "algo": algo,
        **made,
        "limit": draw.one_of(4, 9, 30),
        "wrapper": draw.one_of(*wrappers.get(made["observations"], ("",))),
        "learn_on": draw.one_of(False, True),
    }


def on_policy(draw: Draw, algo: str) -> dict[str, Any]:
    """Return spaces, number of environments and keywords; a minibatch is the whole rollout, so that its order
    does not matter."""
    n_envs, n_steps = draw.one_of(1, 2, 3), draw.one_of(5, 8, 16)
    keywords: dict[str, Any] = {"n_steps": n_steps, **draw.some(gae_lambda=(0.0, 0.5, 1.0))}
    keywords.update(draw.some(normalize_advantage=(True, False)))
    if algo == "A2C":
        keywords.update(rms_prop_eps=1e-3, **draw.some(use_rms_prop=(False,)))
    else:
        keywords["batch_size"] = n_envs * n_steps
    if algo == "TRPO":
        keywords.update(draw.some(cg_max_steps=(5, 10), n_critic_updates=(1, 3), target_kl=(0.001, 0.05)))
    else:
        keywords.update(draw.some(ent_coef=(0.01, 0.1), vf_coef=(0.1, 1.0), max_grad_norm=(0.1, 10.0)))
    if algo in ("PPO", "MaskablePPO", "RecurrentPPO"):
        keywords["n_epochs"] = draw.one_of(1, 2, 4)
        keywords.update(draw.some(clip_range=(0.05, 0.3), clip_range_vf=(0.05, 0.2)))
    networks: tuple[Any, ...] = ([], [8, 8], {"pi": [8], "vf": [16, 8]}, {"pi": [], "vf": [8]})
    policy = draw.some(net_arch=networks, ortho_init=(False,))
    actions = ["discrete", "multidiscrete", "multibinary"]
    observations = ["vector", "matrix", "integers", "discrete", "multibinary", "dict"]
    if algo != "TRPO":  # whose conjugate gradients amplify rounding with many parameters
        observations += ["image", "channels last"]
    if algo == "RecurrentPPO":
        policy.update(lstm_hidden_size=8, **draw.some(n_lstm_layers=(2,)))
        actions.remove("multibinary")  # for which it raises a RuntimeError there
    else:
        policy.update(draw.some(share_features_extractor=(False,)))
    if algo != "MaskablePPO":
        actions += ["box", "wide box", "matrix"]
        policy.update(draw.some(log_std_init=(-1.0,)))
    return {
        "observations": draw.one_of(*observations),
        "actions": draw.one_of(*actions),
        "n_envs": n_envs,
        "keywords": {**keywords, "policy_kwargs": policy},
    }


def off_policy(draw: Draw, algo: str) -> dict[str, Any]:
    """Return spaces, number of environments and keywords; all actions are the policy's."""
    keywords: dict[str, Any] = {"learning_starts": 0, "batch_size": draw.one_of(8, 16)}
    keywords["buffer_size"] = draw.one_of(50, 1000)
    keywords.update(train_freq=draw.one_of(1, 3, 4), gradient_steps=draw.one_of(1, 2, -1))
    observations = ["vector"] if algo == "CrossQ" else ["vector", "matrix", "discrete", "image", "dict"]
    observed = draw.one_of(*observations)
    if observed not in ("dict", "image"):
        keywords.update(draw.some(n_steps=(2, 3)))
    if observed != "dict" and "n_steps" not in keywords and algo != "CrossQ":
        keywords.update(draw.some(optimize_memory_usage=(True,)))
    if draw.one_of(False, True) or "optimize_memory_usage" in keywords:
        keywords["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    policy: dict[str, Any] = {"net_arch": draw.one_of([16], [8, 8])}
    if algo in WITH_ACTORS:
        policy.update(draw.some(n_critics=(1, 3)), net_arch=draw.one_of([8, 8], {"pi": [8], "qf": [16, 8]}))
    if algo != "CrossQ":
        keywords["tau"] = draw.one_of(0.005, 0.5)
    if algo in ("DQN", "QRDQN"):
        keywords.update(exploration_initial_eps=0.0, exploration_final_eps=0.0)
        keywords.update(target_update_interval=draw.one_of(1, 7, 10), **draw.some(max_grad_norm=(0.5,)))
    if algo == "TD3":
        keywords.update(draw.some(policy_delay=(1, 3), target_policy_noise=(0.1, 0.5)))
    if algo in ("SAC", "TQC", "CrossQ"):
        keywords.update(draw.some(ent_coef=(0.1, "auto_0.3"), target_entropy=(-1.5,), use_sde=(True,)))
        keywords.update({"sde_sample_freq": draw.one_of(-1, 2)} if "use_sde" in keywords else {})
    if algo in ("TQC", "QRDQN"):
        policy["n_quantiles"] = draw.one_of(5, 8)
    if algo == "TQC":
        keywords.update(draw.some(top_quantiles_to_drop_per_net=(0, 3)))
    if algo == "CrossQ":
        keywords.update(draw.some(policy_delay=(1, 2)))
        policy.update(draw.some(batch_norm_momentum=(0.1,)))
    actions = ("discrete",) if algo in ("DQN", "QRDQN") else ("box", "wide box", "matrix")
    return {
        "observations": observed,
        "actions": draw.one_of(*actions),
        "n_envs": 1,
        "keywords": {**keywords, "policy_kwargs": policy},
    }


# ---------------------------------------------------------------------- one side, in its own process


def spaces_of(made: dict[str, Any]) -> tuple[Any, Any]:
    """Return the observation and the action space of a configuration."""
    from gymnasium import spaces

    unit = spaces.Box(-1, 1, (3,), np.float32)
    observations = {
        "vector": unit,
        "matrix": spaces.Box(-2, 3, (2, 3), np.float64),
        "integers": spaces.Box(-5, 5, (3,), np.int64),
        "discrete": spaces.Discrete(5),
        "multibinary": spaces.MultiBinary(4),
        "image": spaces.Box(0, 255, (1, 36, 36), np.uint8),
        "channels last": spaces.Box(0, 255, (36, 36, 3), np.uint8),
        "dict": spaces.Dict({"a": spaces.Discrete(3), "b": unit}),
    }
    actions = {
        "discrete": spaces.Discrete(3),
        "multidiscrete": spaces.MultiDiscrete([2, 3]),
        "multibinary": spaces.MultiBinary(3),
        "box": spaces.Box(-1, 1, (2,), np.float32),
        "wide box": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
        "matrix": spaces.Box(-1, 1, (2, 2), np.float32),
    }
    return observations[made["observations"]], actions[made["actions"]]


def make_env(made: dict[str, Any], rank: int) -> Any:
    """Return an environment with random observations, and rewards that depend on the action."""
    import gymnasium
    from gymnasium import spaces

    class Env(gymnasium.Env[Any, Any]):
        def __init__(self) -> None:
            self.observation_space, self.action_space = spaces_of(made)
            self.source, _ = spaces_of(made)  # a second one: stable-baselines3 samples observation_space
            self.source.seed(100 * made["seed"] + rank)
            self.n_steps = self.steps_of_episode = 0

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.steps_of_episode = 0
            return self.source.sample(), {}

        def step(self, action: Any) -> Any:
            self.steps_of_episode += 1
            self.n_steps += 1
            reward = float(np.sin(np.sum(np.asarray(action, np.float64)) + 0.37 * self.n_steps))
            ended = (7919 * self.n_steps + rank) % 11 == 0
            cut = not ended and self.steps_of_episode >= made["limit"]
            return self.source.sample(), reward, ended, cut, {}

        def action_masks(self) -> np.ndarray:
            space: Any = self.action_space
            masks = {
                spaces.Discrete: lambda: np.arange(3) != self.n_steps % 3,
                spaces.MultiDiscrete: lambda: np.arange(5) != self.n_steps % 2,
                spaces.MultiBinary: lambda: np.arange(6) != 2 * (self.n_steps % 3),
            }
            return np.asarray(masks[type(space)]())

    return Env()


def vec_env(made: dict[str, Any]) -> Any:
    """Return the environments of a configuration, wrapped."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

    made_envs = [lambda rank=rank: make_env(made, rank) for rank in range(made["n_envs"])]
    envs: Any = VecMonitor(DummyVecEnv(made_envs))
    if made["wrapper"] == "VecFrameStack":
        return VecFrameStack(envs, 2)
    if made["wrapper"]:
        return VecNormalize(envs, norm_obs=made["wrapper"] == "VecNormalize", gamma=0.9)
    return envs


def same_draws(model: Any, is_on_policy: bool) -> Any:
    """Let an agent sample its replay buffer in a fixed order; return a callback that seeds PyTorch."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    class Seeds(BaseCallback):
        n_seeds = 0

        def seed(self) -> None:
            self.n_seeds += 1
            torch.manual_seed(self.n_seeds)

        def _on_rollout_start(self) -> None:
            if is_on_policy:
                self.seed()

        def _on_step(self) -> bool:
            if not is_on_policy:
                self.seed()
            return True

    seeds = Seeds()
    if is_on_policy:
        return seeds
    buffer, n_sampled = model.replay_buffer, 0

    def sample(batch_size: int, env: Any = None) -> Any:
        nonlocal n_sampled
        n_sampled += 1
        upper = buffer.buffer_size if buffer.full else buffer.pos
        rows = 7 * np.arange(batch_size) + 3 * n_sampled
        if buffer.full and buffer.optimize_memory_usage:  # the row at `pos` has lost its next observation
            samples = buffer._get_samples((rows % (upper - 1) + buffer.pos + 1) % upper, env=env)
        else:
            samples = buffer._get_samples(rows % upper, env=env)
        torch.manual_seed(n_sampled)
        return samples

    buffer.sample = sample
    return seeds


def trained(made: dict[str, Any], nudge: float) -> dict[str, np.ndarray]:
    """Train an agent; return what gradients have changed, and with `before/` in front of the name, from what.

    :param nudge: initial weights are larger by this part of their size
    """
    import stable_baselines3
    import torch

    sb3_contrib: Any = importlib.import_module("sb3_contrib")
    algo, keywords = made["algo"], dict(made["keywords"])
    is_on_policy = algo in ON_POLICY
    policy_kwargs = keywords["policy_kwargs"] = dict(keywords["policy_kwargs"])
    if "activation_fn" in policy_kwargs:
        policy_kwargs["activation_fn"] = getattr(torch.nn, policy_kwargs["activation_fn"])
    if isinstance(keywords.get("learning_rate"), list):
        initial = keywords["learning_rate"][1]
        keywords["learning_rate"] = lambda progress: initial * progress
    if not is_on_policy and "n_steps" not in keywords:  # a class of one's own, so that `sample` is called
        from stable_baselines3.common import buffers

        base = buffers.DictReplayBuffer if made["observations"] == "dict" else buffers.ReplayBuffer
        keywords["replay_buffer_class"] = type("Own", (base,), {"sample": lambda self, n, env=None: None})
    kind = {"image": "Cnn", "channels last": "Cnn", "dict": "MultiInput"}.get(made["observations"], "Mlp")
    policy = f"{kind}LstmPolicy" if algo == "RecurrentPPO" else f"{kind}Policy"
    cls = getattr(stable_baselines3, algo, None) or getattr(sb3_contrib, algo)
    model = cls(policy, vec_env(made), seed=made["seed"], device="cpu", **keywords)
    shares = policy_kwargs.get("share_features_extractor", is_on_policy)

    def name_of(name: str) -> str:
        """Of extractors under several names, one."""
        if is_on_policy and shares:
            return name.replace("pi_features", "features").replace("vf_features", "features")
        return f"pi_{name}" if is_on_policy and name.startswith("features") else name.replace("_target", "")

    def weights(name: str, value: Any) -> Any:
        if not value.is_floating_point():
            return value
        generator = torch.Generator().manual_seed(zlib.crc32(name_of(name).encode()))
        drawn = torch.randn(value.shape, generator=generator) / max(1, value[0].numel()) ** 0.5
        drawn *= 1 + nudge
        if "var" in name:
            return drawn.square() + 0.5
        # Small actions: near the bounds, the densities of these differ.
        if algo in ("SAC", "TQC", "CrossQ"):
            return 0.3 * drawn - 3 * ("log_std" in name and value.dim() == 1)
        return drawn

    def parameters(before: str = "") -> dict[str, np.ndarray]:
        return {
            before + name_of(name): value.double().numpy().copy()
            for name, value in model.policy.state_dict().items()
            if value.is_floating_point() and "_target" not in name and ".ra_" not in name
        }

    model.policy.load_state_dict({n: weights(n, value) for n, value in model.policy.state_dict().items()})
    found = parameters("before/")
    callback = same_draws(model, is_on_policy)
    n_steps = 3 * keywords["n_steps"] * made["n_envs"] if is_on_policy else 60
    model.learn(n_steps, callback=callback)
    if made["learn_on"]:
        model.learn(n_steps // 3, callback=callback, reset_num_timesteps=False)
    return {**found, **parameters()}


def run_side(seeds: range, folder: Path, nudge: float) -> None:
    """Train every configuration; write parameters, or what was raised, into a folder."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    zero = torch.zeros((), dtype=torch.int64)
    for seed in seeds:
        made = configuration(seed)
        with ExitStack() as stack:
            if made["algo"] == "RecurrentPPO":  # both cut a rollout at a random row, of different sources
                stack.enter_context(mock.patch("numpy.random.randint", lambda *_, **__: 0))
                stack.enter_context(mock.patch("torch.randint", lambda *_, **__: zero))
            try:
                np.savez(folder / f"{seed}.npz", **trained(made, nudge))  # type: ignore[arg-type]
            except Exception as error:
                (folder / f"{seed}.txt").write_text(f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------------- both sides


def difference(one: Path, other: Path) -> float:
    """Return the distance of parameters over how far training has moved those of `other`.

    :return: infinity for parameters that are no numbers
    :raises ValueError: parameters have other names, shapes or initial values
    """
    a, b = np.load(one), np.load(other)
    for name in {*a.files, *b.files}:
        if name not in a.files or name not in b.files or a[name].shape != b[name].shape:
            raise ValueError(f"{name} is not the same on both sides")
        if name.startswith("before/") and not np.allclose(a[name], b[name], rtol=1e-6, atol=1e-7):
            raise ValueError(f"{name} differs before training")
    names = [name for name in b.files if not name.startswith("before/")]
    apart = sum(float(np.sum((a[name] - b[name]) ** 2)) for name in names)
    moved = sum(float(np.sum((b[name] - b[f"before/{name}"]) ** 2)) for name in names)
    if not moved:
        return float(apart > 0)
    return float((apart / moved) ** 0.5) if np.isfinite(apart) else float("inf")


def table(folders: Sequence[Path], seeds: range) -> str:
    """Return a Markdown table with a row for each algorithm, and the configurations that differ.

    :param folders: of rlzoo, stable-baselines3, and stable-baselines3 from nudged weights
    """
    found: dict[str, list[tuple[float, float]]] = {}
    notes = []
    for seed in seeds:
        made = configuration(seed)
        files = [folder / f"{seed}.npz" for folder in folders]
        if not all(file.exists() for file in files):
            errors = [file.with_suffix(".txt") for file in files]
            texts = [path.read_text()[:150] if path.exists() else "runs" for path in errors]
            notes.append(f"- {json.dumps(made)}: here {texts[0]}; there {texts[1]}")
            continue
        try:
            values = difference(files[0], files[1]), difference(files[2], files[1])
        except ValueError as error:
            notes.append(f"- {json.dumps(made)}: {error}")
            continue
        found.setdefault(made["algo"], []).append(values)
        if not values[0] < LARGE:
            notes.append(f"- {values[0]:.1e} (nudged {values[1]:.1e}): {json.dumps(made)}")
    lines = [
        "| algorithm | configurations | median | largest | nudged: median | largest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for algo in ALGORITHMS:
        if algo in found:
            columns = list(zip(*found[algo], strict=True))
            cells = [f"{part(column):.1e}" for column in columns for part in (statistics.median, max)]
            lines.append(f"| {algo} | {len(found[algo])} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *notes])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--sb3-python", help="interpreter with stable-baselines3 and sb3-contrib")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--side", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--nudge", type=float, default=0.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.count)
    if args.side:
        run_side(seeds, args.side, args.nudge)
        return
    if args.sb3_python is None:
        parser.error("--sb3-python is needed")
    sides: dict[str, tuple[list[str], float]] = {
        "here": ([sys.executable, "-m", "rlzoo.compat"], 0.0),
        "there": ([args.sb3_python], 0.0),
        "nudged": ([args.sb3_python], NUDGE),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in sides]
        running = []
        for folder, (interpreter, nudge) in zip(folders, sides.values(), strict=True):
            folder.mkdir()
            options = ["--side", folder, "--nudge", nudge, "--first", args.first, "--count", args.count]
            command = [*interpreter, __file__, *map(str, options)]
            running.append(subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        if any(process.wait() for process in running):
            raise SystemExit("a side has failed, see above")
        print(table(folders, seeds))


if __name__ == "__main__":
    main()
