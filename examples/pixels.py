"""Learn from images: a small game, or Atari with the usual preprocessing.

python examples/pixels.py                              # Catch-v0, 25,000 steps
python examples/pixels.py 10000000 PongNoFrameskip-v4  # takes hours on a CPU
"""

import sys

from rlzoo import PPO, VecFrameStack, evaluate_policy, make_atari_env, make_vec_env


def make(env_id: str, n_envs: int, seed: int):
    """Return vectorised environments with images [channels, height, width]."""
    if "NoFrameskip" not in env_id:
        return make_vec_env(env_id, n_envs=n_envs, seed=seed)
    env = make_atari_env(env_id, n_envs=n_envs, seed=seed)  # 84 x 84 grey, 4 frames skipped, rewards clipped
    return VecFrameStack(env, n_stack=4)  # the last four frames show movement


def main(steps: int = 25_000, env_id: str = "Catch-v0") -> float:
    model = PPO(
        "CnnPolicy",
        make(env_id, n_envs=8, seed=0),
        n_steps=64,
        batch_size=256,
        n_epochs=4,
        learning_rate="lin_2.5e-4",
        clip_range="lin_0.1",
        ent_coef=0.01,
        seed=0,
    )
    model.learn(steps, progress_bar=sys.stdout.isatty())
    mean, std = evaluate_policy(model, make(env_id, n_envs=4, seed=1_000), n_eval_episodes=12)
    print(f"{env_id}: return {mean:.2f} +/- {std:.2f}")
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
