"""Mask invalid actions with a wrapper."""

import gymnasium as gym
import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.wrappers import ActionMasker


class Even(gym.Env):
    """Only even actions are allowed on even steps."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(6)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.valid()[action], "an invalid action was taken"
        self.steps += 1
        return np.full(2, self.steps / 20, np.float32), float(action), False, self.steps == 20, {}

    def valid(self):
        return (np.arange(6) + self.steps) % 2 == 0


def mask(env: gym.Env) -> np.ndarray:
    return env.unwrapped.valid()


env = ActionMasker(Even(), mask)
model = MaskablePPO(
    MaskableActorCriticPolicy, env, n_steps=64, batch_size=64, learning_rate=3e-3, seed=0
).learn(640)
obs, _ = env.reset()
for _ in range(20):
    action, _ = model.predict(obs, action_masks=env.action_masks())
    obs, *_ = env.step(int(action))
assert model.rollout_buffer.action_masks.size == 64 * 6
