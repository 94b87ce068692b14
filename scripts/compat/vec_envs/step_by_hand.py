"""Step a vectorised environment: automatic resets, terminal observations, time limits."""

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

venv = DummyVecEnv([lambda: gym.make("MountainCar-v0", max_episode_steps=10) for _ in range(2)])
venv.seed(0)
obs = venv.reset()
assert len(venv.reset_infos) == 2
for step in range(1, 21):
    venv.step_async(np.array([1, 1]))
    new_obs, rewards, dones, infos = venv.step_wait()
    assert rewards.dtype == np.float32 and dones.dtype == bool
    if step % 10 == 0:
        assert dones.all()
        for index, info in enumerate(infos):
            assert info["TimeLimit.truncated"] is True
            assert info["terminal_observation"].shape == (2,)
            assert not np.array_equal(info["terminal_observation"], new_obs[index])
    else:
        assert not dones.any()
        assert "terminal_observation" not in infos[0]
    obs = new_obs

venv.set_options({"low": -0.5, "high": -0.4})
start = venv.reset()
assert (start[:, 0] >= -0.5).all() and (start[:, 0] <= -0.4).all()
venv.close()
