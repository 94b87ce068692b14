"""Train each case for five updates, as one process or as a rank, and write its parameters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import rlzoo
from rlzoo.distributed import join
from rlzoo.distributed.launch import is_rank
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize

N_ENVS = 4
# name: (algorithm, environment, options, steps of five updates, VecNormalize)
CASES: dict[str, tuple[str, str, dict[str, Any], int, bool]] = {
    "ppo": ("PPO", "CartPole-v1", {"n_steps": 32, "batch_size": 16, "n_epochs": 2}, 640, False),
    "ppo_box": ("PPO", "Pendulum-v1", {"n_steps": 32, "batch_size": 3, "n_epochs": 2}, 640, True),
    "ppo_kl": ("PPO", "CartPole-v1", {"n_steps": 32, "batch_size": 16, "target_kl": 0.001}, 640, False),
    "ppo_sde": ("PPO", "Pendulum-v1", {"n_steps": 32, "batch_size": 32, "use_sde": True}, 640, False),
    "a2c": ("A2C", "CartPole-v1", {"n_steps": 8, "normalize_advantage": True}, 160, False),
    "a2c_box": ("A2C", "Pendulum-v1", {"n_steps": 8}, 160, True),
    "trpo": ("TRPO", "CartPole-v1", {"n_steps": 32, "batch_size": 16}, 640, False),
    "trpo_box": ("TRPO", "Pendulum-v1", {"n_steps": 32, "sub_sampling_factor": 2}, 640, True),
    "ppo_mask": ("MaskablePPO", "", {"n_steps": 32, "batch_size": 16, "n_epochs": 2}, 640, False),
    "sac": ("SAC", "Pendulum-v1", {"learning_starts": 40, "train_freq": 8, "gradient_steps": 2}, 80, True),
    "td3": ("TD3", "Pendulum-v1", {"learning_starts": 40, "batch_size": 7, "n_steps": 3}, 60, False),
    "tqc": ("TQC", "Pendulum-v1", {"learning_starts": 40, "buffer_size": 32, "batch_size": 16}, 60, False),
    "dqn": ("DQN", "CartPole-v1", {"learning_starts": 40, "train_freq": 2, "batch_size": 16}, 80, False),
    "ppo_lstm": ("RecurrentPPO", "CartPole-v1", {"n_steps": 32, "batch_size": 48, "n_epochs": 2}, 640, False),
}


def train(name: str, folder: Path) -> None:
    algorithm, env_id, options, n_timesteps, normalize = CASES[name]
    make = RANKS.make_vec_env if RANKS else rlzoo.make_vec_env
    venv = make(env_id or rlzoo.InvalidActionEnvDiscrete, n_envs=N_ENVS, seed=3)
    if normalize:
        venv = VecNormalize(venv)
    policy = "MlpLstmPolicy" if algorithm == "RecurrentPPO" else "MlpPolicy"
    model = getattr(rlzoo, algorithm)(policy, venv, seed=3, policy_kwargs={"net_arch": [16]}, **options)
    model.learn(n_timesteps)
    if RANKS is None or RANKS.rank == 0:
        parameters = [part.detach().numpy().ravel() for part in model.policy.parameters()]
        episodes = [episode["r"] for episode in model.ep_info_buffer]
        statistics = np.array([model.num_timesteps, model.n_updates, *episodes])
        metrics = {key: value for key, value in model.logger.name_to_value.items() if "train/" in key}
        values = np.array([float(metrics[key]) for key in sorted(metrics)])
        np.savez(
            folder / f"{name}.npz",
            parameters=np.concatenate(parameters),
            statistics=statistics,
            metrics=values,
        )


RANKS = join() if is_rank() else None
if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        train(case, Path(sys.argv[1]))
