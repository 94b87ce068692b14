"""Invalid actions: an environment that says which actions are valid, and an agent that never tries others.

python examples/action_masks.py
"""

import sys

import gymnasium as gym
import numpy as np

from rlzoo import MaskablePPO, evaluate_policy, get_action_masks, make_vec_env


class Nim(gym.Env):
    """Take 1 to 3 matches from a heap, in turns, never more than there are; the last one wins."""

    observation_space = gym.spaces.MultiBinary(22)  # one-hot: the number of matches
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heap = int(self.np_random.integers(5, 22))
        return self._observe(), {}

    def _observe(self):
        return (np.arange(22) == self.heap).astype(np.int8)

    def action_masks(self) -> np.ndarray:
        """Return which actions are valid: MaskablePPO calls this at every step."""
        return np.arange(1, 4) <= self.heap

    def step(self, action):
        self.heap -= int(action) + 1
        if self.heap == 0:
            return self._observe(), 1.0, True, False, {}
        most = min(3, self.heap)
        self.heap -= self.heap % 4 or int(self.np_random.integers(1, most + 1))  # plays perfectly
        return self._observe(), -float(self.heap == 0), self.heap == 0, False, {}


def main(steps: int = 60_000) -> float:
    env = make_vec_env(Nim, n_envs=8, seed=0)
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=128, gamma=1.0, ent_coef=0.01, seed=0)
    model.learn(steps)
    mean, _ = evaluate_policy(model, make_vec_env(Nim, n_envs=10, seed=1_000), n_eval_episodes=200)
    obs = env.reset()
    action, _ = model.predict(obs, action_masks=get_action_masks(env), deterministic=True)
    print(f"mean result {mean:.2f} (a perfect player: 0.53, since it loses from heaps of 8, 12, 16 and 20)")
    print(f"from heaps of {obs.argmax(axis=1)} it takes {action + 1}")
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
