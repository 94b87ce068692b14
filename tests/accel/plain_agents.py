"""Train a few updates of every algorithm and save the parameters: `python plain_agents.py FILE.npz`.

`test_plain.py` runs it with and without the speed-ups.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable

import numpy as np
import torch

import rlzoo

SMALL = {"net_arch": [16, 16]}
REPLAY = {"learning_starts": 30, "batch_size": 16, "buffer_size": 200, "policy_kwargs": SMALL}


def box(algorithm: str, steps: int = 40, **kwargs: object) -> Callable[[], object]:
    return lambda: getattr(rlzoo, algorithm)("MlpPolicy", "Pendulum-v1", seed=3, **kwargs).learn(steps)


def discrete(algorithm: str, steps: int, policy: str = "MlpPolicy", **kwargs: object) -> Callable[[], object]:
    return lambda: getattr(rlzoo, algorithm)(policy, "CartPole-v1", seed=3, **kwargs).learn(steps)


def imitation(algorithm: str, steps: int, **kwargs: object) -> object:
    with tempfile.TemporaryDirectory() as folder:
        expert = rlzoo.PPO("MlpPolicy", "CartPole-v1", seed=3, n_steps=64)
        path = os.path.join(folder, "expert.npz")
        rlzoo.generate_expert_traj(expert, path, n_episodes=3)
        dataset = rlzoo.ExpertDataset(path)
        return getattr(rlzoo, algorithm)("MlpPolicy", "CartPole-v1", dataset, seed=3, **kwargs).learn(steps)


AGENTS: dict[str, Callable[[], object]] = {
    "a2c": discrete("A2C", 20),
    "acer": discrete("ACER", 40, replay_ratio=0),
    "acktr": discrete("ACKTR", 40),
    "ars": discrete("ARS", 1_500, n_delta=2),
    "bc": lambda: imitation("BC", 64 * 5),
    # A bias below a normalisation has a gradient of 0 but for rounding, which Adam would scale up to a step.
    "crossq": box("CrossQ", **{**REPLAY, "policy_kwargs": {**SMALL, "optimizer_class": torch.optim.SGD}}),
    "ddpg": box("DDPG", clip_norm=1.0, **REPLAY),
    "dqn": discrete("DQN", 60, target_update_interval=20, **REPLAY),
    "gail": lambda: imitation("GAIL", 64, n_steps=64),
    "maskable_ppo": lambda: rlzoo.MaskablePPO(
        "MlpPolicy", rlzoo.InvalidActionEnvDiscrete(dim=8), seed=3, n_steps=64, n_epochs=2
    ).learn(64),
    "ppo": box("PPO", 64, n_steps=64, n_epochs=2, batch_size=32),
    "qrdqn": discrete("QRDQN", 60, target_update_interval=20, **REPLAY),
    "recurrent_ppo": discrete("RecurrentPPO", 64, "MlpLstmPolicy", n_steps=64, n_epochs=2, batch_size=32),
    "sac": box("SAC", **REPLAY),
    "td3": box("TD3", **REPLAY),
    "tqc": box("TQC", **REPLAY),
    "trpo": box("TRPO", 64, n_steps=64, n_critic_updates=2),
}


def main(path: str) -> None:
    torch.set_num_threads(1)
    vectors: dict[str, np.ndarray] = {}
    for name, train in AGENTS.items():
        policy = train().policy  # type: ignore[attr-defined]
        tensors = [tensor.detach().double().reshape(-1) for tensor in policy.parameters()]
        vectors[name] = torch.cat(tensors).numpy()
    np.savez(path, **vectors)


if __name__ == "__main__":
    main(sys.argv[1])
