"""Loaders of what belongs to agents: model files, statistics, replay buffers, demonstrations."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from rlzoo import VecNormalize
from rlzoo.buffers.demonstrations import ExpertDataset, write_image
from rlzoo.callbacks.callbacks import BaseCallback
from rlzoo.config import catalog
from rlzoo.envs.examples.toy import FakeImageEnv, SimpleMultiObsEnv
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv
from tests.fuzz.archives import mutate_safetensors, mutate_zip
from tests.fuzz.loader import Loader, ctrl_c_after, only
from tests.fuzz.mutations import CANARY, ODD

SMALL: dict[str, Any] = {"net_arch": [4]}
REPLAY: dict[str, Any] = {"buffer_size": 40, "learning_starts": 8, "batch_size": 4, "train_freq": 4}
ROLLOUT: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}
AGENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("ppo", "CartPole-v1", ROLLOUT),
    "ppo_sde": ("ppo", "Pendulum-v1", {**ROLLOUT, "use_sde": True}),
    "ppo_dict": ("ppo", "dict", {**ROLLOUT, "policy": "MultiInputPolicy"}),
    "ppo_lstm": (
        "ppo_lstm",
        "CartPole-v1",
        {**ROLLOUT, "policy": "MlpLstmPolicy", "policy_kwargs": {**SMALL, "lstm_hidden_size": 4}},
    ),
    "ppo_mask": ("ppo_mask", "InvalidActionDiscrete-v0", ROLLOUT),
    "a2c": ("a2c", "CartPole-v1", {"n_steps": 8}),
    "trpo": ("trpo", "Pendulum-v1", {"n_steps": 8, "batch_size": 8}),
    "acktr": ("acktr", "CartPole-v1", {"n_steps": 8}),
    "acer": ("acer", "CartPole-v1", {"n_steps": 8, "replay_start": 8, "buffer_size": 64}),
    "ars": ("ars", "Pendulum-v1", {"n_delta": 2}),
    "dqn": ("dqn", "CartPole-v1", REPLAY),
    "her": ("dqn", "BitFlipping-v0", {**REPLAY, "policy": "MultiInputPolicy", "replay_buffer_class": "her"}),
    "prioritized": ("dqn", "CartPole-v1", {**REPLAY, "replay_buffer_class": "prioritized"}),
    "qrdqn": ("qrdqn", "CartPole-v1", REPLAY),
    "ddpg": ("ddpg", "Pendulum-v1", REPLAY),
    "td3": ("td3", "Pendulum-v1", REPLAY),
    "sac": ("sac", "Pendulum-v1", REPLAY),
    "tqc": ("tqc", "Pendulum-v1", {**REPLAY, "policy_kwargs": {**SMALL, "n_critics": 2, "n_quantiles": 3}}),
    "crossq": ("crossq", "Pendulum-v1", REPLAY),
}
REPLAYING = ("dqn", "her", "prioritized", "td3", "sac")
STEPS = 24

CLASSES = (
    "torch.nn.ReLU", "torch.nn.Tanh", "torch.nn.Linear", "torch.nn.Module", "torch.nn.LSTM",
    "torch.optim.SGD",
    "torch.optim.LBFGS", "torch.optim.SparseAdam", "rlzoo.networks.torch_layers.NatureCNN", "os.system",
    "subprocess.Popen", "builtins.eval", "torch.nn.Module.apply", "rlzoo.envs.vec_env.subproc.SubprocVecEnv",
    "torch.utils.data.DataLoader", f"{CANARY}.Thing", "rlzoo", "torch.nn", "torch.nn.functional.relu",
)  # fmt: skip
ODD_AGENT = (
    *ODD,
    *({"$class": name} for name in CLASSES),
    *({"$callable": name, "value": 0.1} for name in CLASSES[:4]),
    {"$tuple": []}, {"$tuple": 1}, {"$dict": [[1, 2]]}, {"$dict": [[[1], 2]]}, {"$dict": 1},
    {"$float": "nan"}, {"$float": 1},
    {"$schedule": "lin_1"}, {"$schedule": 1}, {"$schedule": "lin_-1e400"}, {"$noise": ["NormalActionNoise",
    {}]},
    {"$noise": 1}, {"$dtype": "float16"}, {"$dtype": "load"}, {"$array": ["float32", [1000000000], [1]]},
    {"$array": ["O", [1], [1]]}, {"$tensor": "x"}, {"$scalar": 1}, {"$space": {}}, {"$x": 1},
    {"type": "Discrete", "n": 10**8, "start": 0}, {"type": "Discrete", "n": 0, "start": 0},
    {"type": "Box", "dtype": "float32", "shape": [2**24], "low": -1, "high": 1},
    {"type": "Box", "dtype": "uint8", "shape": [3, 84, 84], "low": 0, "high": 255},
    {"type": "Box", "dtype": "float32", "shape": [], "low": "-inf", "high": "inf"},
    {"type": "MultiDiscrete", "dtype": "int64", "shape": [2], "nvec": [2, 10**7], "start": 0},
    {"type": "MultiBinary", "shape": [3]}, {"type": "Dict", "spaces": []}, {"type": "Tuple", "spaces": []},
)  # fmt: skip


class Stop(BaseCallback):
    """Ends a training after some steps, whatever its rollouts are."""

    def _on_step(self) -> bool:
        return self.n_calls < STEPS


def make_env(name: str) -> VecEnv:
    """Two environments of a kind of `AGENTS`."""
    if name == "dict":
        return DummyVecEnv([lambda: SimpleMultiObsEnv(random_start=False, channel_last=False)] * 2)
    ensure_registered(name)
    return DummyVecEnv([lambda: gym.make(name)] * 2)


def build(name: str, env: VecEnv | None = None) -> Any:
    """A small agent of `AGENTS`."""
    algo, env_id, arguments = AGENTS[name]
    values: dict[str, Any] = {"policy": "MlpPolicy", "policy_kwargs": SMALL, **arguments}
    if "replay_buffer_class" in values:
        import rlzoo

        kinds = {"her": rlzoo.HerReplayBuffer, "prioritized": rlzoo.PrioritizedReplayBuffer}
        values["replay_buffer_class"] = kinds[values["replay_buffer_class"]]
    torch.manual_seed(0)
    return catalog.load(algo)(values.pop("policy"), env or make_env(env_id), seed=0, device="cpu", **values)


@cache
def example(name: str) -> Any:
    """A trained agent of `AGENTS`, made once in a process."""
    agent = build(name)
    agent.learn(STEPS, callback=Stop())
    return agent


def save_agents(folder: Path) -> None:
    for name in AGENTS:
        example(name).save(folder / f"{name}.zip")
    example("sac").save(folder / "sac_actor.zip", actor_only=True)
    normalized = build("ppo", VecNormalize(make_env("CartPole-v1")))
    normalized.learn(STEPS, callback=Stop())
    normalized.save(folder / "ppo_normalized.zip")


def kind_of(path: Path) -> str:
    """The entry of `AGENTS` that a file of `save_agents` is of."""
    return {"sac_actor": "sac", "ppo_normalized": "ppo"}.get(path.stem, path.stem)


def load_agent(path: Path) -> Any:
    return catalog.load(AGENTS[kind_of(path)][0]).load(path, device="cpu")


def predict(folder: Path, rng: Random) -> None:
    path = only(folder)
    if rng.random() < 0.1:
        build(kind_of(path)).set_parameters(path)
        return
    agent = load_agent(path)
    agent.observation_space.seed(0)
    observation = agent.observation_space.sample()
    agent.predict(observation, deterministic=rng.random() < 0.5)


def train_further(folder: Path, rng: Random) -> None:
    path = only(folder)
    agent = load_agent(path)
    env = make_env(AGENTS[kind_of(path)][1])
    agent.set_env(VecNormalize(env) if path.stem == "ppo_normalized" else env)
    with ctrl_c_after(5):
        agent.learn(STEPS, callback=Stop(), reset_num_timesteps=rng.random() < 0.5)
    agent.save(folder / "again.zip")


def mutate_agent(rng: Random, name: str, data: bytes) -> bytes:
    return mutate_zip(rng, data, ODD_AGENT)


# -- statistics, replay buffers, trajectories ---------------------------------------------------


def save_normalize(folder: Path) -> None:
    for name, env_id in {"vector": "CartPole-v1", "dict": "dict"}.items():
        env = VecNormalize(make_env(env_id), norm_obs_keys=["vec"] if name == "dict" else None)
        env.reset()
        env.step([env.action_space.sample()] * 2)
        env.save(folder / f"{name}.npz")


def load_normalize(folder: Path, rng: Random) -> None:
    path = only(folder)
    env = VecNormalize.load(path, make_env("dict" if path.stem == "dict" else "CartPole-v1"))
    env.training = rng.random() < 0.5
    env.reset()
    env.step([0] * 2)
    env.unnormalize_reward(np.ones(2))
    env.save(folder / "again.npz")


def save_replay(folder: Path) -> None:
    for name in REPLAYING:
        example(name).save_replay_buffer(folder / f"{name}.safetensors")


def load_replay(folder: Path, rng: Random) -> None:
    path = only(folder)
    agent = build(path.stem)
    agent.load_replay_buffer(path, truncate_last_traj=rng.random() < 0.5)
    with ctrl_c_after(5):
        agent.learn(STEPS, callback=Stop(), reset_num_timesteps=False)
    agent.save_replay_buffer(folder / "again.safetensors")


def seal_replay(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Make the checksums of a replay buffer right; that of the header follows in `join_safetensors`."""
    checksums = {name: zlib.crc32(np.ascontiguousarray(array).tobytes()) for name, array in arrays.items()}
    metadata.update(checksum="00000000", checksums=json.dumps(checksums))


def seal_trajectories(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), checksum)
    metadata["checksum"] = str(checksum)


def save_acer(folder: Path) -> None:
    example("acer").save_replay_buffer(folder / "acer.safetensors")


def load_acer(folder: Path, rng: Random) -> None:
    agent = build("acer")
    agent.load_replay_buffer(only(folder))
    with ctrl_c_after(5):
        agent.learn(STEPS, callback=Stop(), reset_num_timesteps=False)
    agent.save_replay_buffer(folder / "again.safetensors")


def sealed(
    seal: Callable[[dict[str, Any], dict[str, np.ndarray]], None],
) -> Callable[[Random, str, bytes], bytes]:
    return lambda rng, name, data: mutate_safetensors(rng, data, seal)


# -- demonstrations -----------------------------------------------------------------------------


def save_expert(folder: Path) -> None:
    rng, n_steps = np.random.default_rng(0), 12
    starts = np.zeros(n_steps, bool)
    starts[[0, 6]] = True
    columns = {
        "obs": rng.normal(size=(n_steps, 4)).astype(np.float32),
        "actions": rng.integers(0, 2, (n_steps, 1)),
        "rewards": np.ones(n_steps, np.float32),
        "episode_starts": starts,
        "episode_returns": np.array([6.0, 6.0], np.float32),
    }
    np.savez(folder / "expert.npz", **columns)


def load_expert(folder: Path, rng: Random) -> None:
    path = only(folder)
    dataset = ExpertDataset(path, batch_size=4, verbose=1, traj_limitation=rng.choice((-1, 1)))
    dataset.get_next_batch("train")
    algo = rng.choice(("bc", "gail"))
    small = {"expert_dataset": dataset, "policy_kwargs": SMALL, "device": "cpu", "seed": 0}
    if algo == "gail":
        small["n_steps"] = 8
    with ctrl_c_after(5):
        catalog.load(algo)("MlpPolicy", make_env("CartPole-v1"), **small).learn(8, callback=Stop())


def save_images(folder: Path) -> None:
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    paths = [f"images/{number}.png" for number in range(4)]
    for path in paths:
        write_image(folder / path, rng.integers(0, 256, (40, 40, 3), np.uint8))
    columns = {"obs": np.array(paths), "actions": np.zeros((4, 1), np.int64), "rewards": np.ones(4)}
    np.savez(
        folder / "expert.npz",
        **columns,
        episode_starts=np.array([1, 0, 0, 0], bool),
        episode_returns=np.ones(1),
    )


def load_images(folder: Path, rng: Random) -> None:
    dataset = ExpertDataset(
        folder / "expert.npz", batch_size=4, verbose=0, train_fraction=1.0, sequential_preprocessing=True
    )
    dataset.get_next_batch("train")
    env = DummyVecEnv([lambda: FakeImageEnv(2, 40, 40, 3)])
    small = {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 4}}, "device": "cpu", "seed": 0}
    with ctrl_c_after(5):
        catalog.load("bc")("CnnPolicy", env, expert_dataset=dataset, **small).learn(4, callback=Stop())


LOADERS = (
    Loader("model", save_agents, predict, mutate=mutate_agent, share=10),
    Loader("model_learn", save_agents, train_further, ("[!s]*.zip", "sac.zip"), mutate_agent, share=3),
    Loader("vec_normalize", save_normalize, load_normalize, share=2),
    Loader("replay", save_replay, load_replay, mutate=sealed(seal_replay), share=2),
    Loader("trajectories", save_acer, load_acer, mutate=sealed(seal_trajectories)),
    Loader("expert", save_expert, load_expert, share=1),
    Loader("expert_images", save_images, load_images, alone=False, share=0.5),
)
