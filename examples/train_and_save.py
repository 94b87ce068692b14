"""Train an agent, save it, load it, evaluate it, and train it further.

python examples/train_and_save.py            # 50,000 steps
python examples/train_and_save.py 5000
"""

import sys
import tempfile
from pathlib import Path

from rlzoo import PPO, evaluate_policy, make_vec_env


def main(steps: int = 50_000) -> float:
    env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=256, learning_rate="lin_1e-3", seed=0)
    model.learn(steps)

    path = Path(tempfile.mkdtemp()) / "cartpole.zip"
    model.save(path)  # weights, optimiser and counters; no executable code
    loaded = PPO.load(path, env=env)
    assert loaded.num_timesteps == model.num_timesteps

    mean, std = evaluate_policy(loaded, make_vec_env("CartPole-v1", n_envs=4, seed=1_000), n_eval_episodes=20)
    print(f"{path} was trained for {loaded.num_timesteps:,} steps: return {mean:.1f} +/- {std:.1f}")

    loaded.learn(steps // 5, reset_num_timesteps=False)  # continues, with the optimiser where it was
    print(f"now {loaded.num_timesteps:,} steps")
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
