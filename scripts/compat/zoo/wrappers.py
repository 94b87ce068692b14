"""Use the wrappers of the zoo."""

import gymnasium as gym
import numpy as np
from rl_zoo3.wrappers import (
    ActionNoiseWrapper,
    DelayedRewardWrapper,
    FrameSkip,
    HistoryWrapper,
    MaskVelocityWrapper,
    TimeFeatureWrapper,
    TruncatedOnSuccessWrapper,
)

env = FrameSkip(gym.make("CartPole-v1"), skip=3)
env.reset(seed=0)
assert env.step(0)[1] == 3.0

env = HistoryWrapper(gym.make("Pendulum-v1"), horizon=3)
obs, _ = env.reset(seed=0)
assert obs.shape == env.observation_space.shape == (3 * (3 + 1),)

env = DelayedRewardWrapper(gym.make("CartPole-v1"), delay=4)
env.reset(seed=0)
rewards = [env.step(step % 2)[1] for step in range(4)]
assert rewards == [0.0, 0.0, 0.0, 4.0]

env = MaskVelocityWrapper(gym.make("CartPole-v1"))
env.reset(seed=0)
obs = env.step(1)[0]
assert obs[1] == obs[3] == 0.0 and obs[0] != 0.0

env = TimeFeatureWrapper(ActionNoiseWrapper(gym.make("Pendulum-v1"), noise_std=0.1))
assert env.reset(seed=0)[0].shape == (4,)


class Reached(gym.Wrapper):
    def step(self, action):
        obs, reward, terminated, truncated, _ = self.env.step(action)
        return obs, reward, terminated, truncated, {"is_success": np.True_}


env = TruncatedOnSuccessWrapper(Reached(gym.make("Pendulum-v1")), reward_offset=0.0, n_successes=2)
env.reset(seed=0)
assert [env.step(env.action_space.sample())[3] for _ in range(2)] == [False, True]
