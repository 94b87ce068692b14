"""An environment of your own: check it, train on it, play it.

python examples/own_environment.py
"""

import sys

import gymnasium as gym
import numpy as np

from rlzoo import PPO, check_env, evaluate_policy, make_vec_env


class Thermostat(gym.Env):
    """Keep a room at a wanted temperature; observations are both temperatures, scaled to about 1."""

    observation_space = gym.spaces.Box(-3, 3, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)  # heater off, half, full

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.room, self.wanted = self.np_random.uniform(5, 15), self.np_random.uniform(18, 24)
        return self._observe(), {}

    def _observe(self):
        return np.clip(np.array([self.room - 20, self.wanted - 20], np.float32) / 10, -3, 3)

    def step(self, action):
        self.t += 1
        self.room += 0.5 * int(action) - 0.03 * (self.room - 5)
        reward = -min(1.0, abs(self.room - self.wanted) / 10)
        return self._observe(), reward, False, self.t >= 200, {}  # the clock truncates; nothing terminates


def main(steps: int = 60_000) -> float:
    check_env(Thermostat())  # raises an error that says what is wrong
    model = PPO("MlpPolicy", make_vec_env(Thermostat, n_envs=8, seed=0), n_steps=128, batch_size=256, seed=0)
    held_out = make_vec_env(Thermostat, n_envs=10, seed=1_000)
    before, _ = evaluate_policy(model, held_out, n_eval_episodes=20)
    model.learn(steps)
    after, _ = evaluate_policy(model, held_out, n_eval_episodes=20)
    print(f"return {before:.1f} before training, {after:.1f} after")
    return after


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
