"""A replay buffer of your own, which samples recent transitions more often.

python examples/own_replay_buffer.py
"""

import sys

import numpy as np

from rlzoo import DQN, ReplayBuffer, evaluate_policy, make_vec_env


class RecentReplayBuffer(ReplayBuffer):
    """Replay buffer whose newest transitions are the most likely; `recency` 1 samples uniformly."""

    def __init__(self, *args, recency: float = 2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.recency = recency

    def _draw(self, count: int) -> np.ndarray:
        """Return the indices [count] of transitions, counted from the oldest one around the ring."""
        stored = self.size() * self.n_envs
        places = (stored * np.random.random(count) ** (1 / self.recency)).astype(np.int64)
        return (self.oldest * self.n_envs + places) % (self.n_slots * self.n_envs)


def main(steps: int = 20_000) -> float:
    model = DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=1, seed=0),
        replay_buffer_class=RecentReplayBuffer,
        replay_buffer_kwargs={"recency": 3.0},
        buffer_size=20_000,
        learning_rate=2.3e-3,
        learning_starts=500,
        train_freq=64,
        gradient_steps=32,
        target_update_interval=64,
        seed=0,
    )
    model.learn(steps)
    mean, std = evaluate_policy(model, make_vec_env("CartPole-v1", n_envs=4, seed=1_000), n_eval_episodes=20)
    print(f"{type(model.replay_buffer).__name__}: return {mean:.1f} +/- {std:.1f}")
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
