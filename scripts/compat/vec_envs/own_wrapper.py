"""Write a wrapper of vectorised environments."""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, unwrap_vec_wrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn


class Negate(VecEnvWrapper):
    """Observations with the opposite sign, and a bonus on every reward."""

    def __init__(self, venv: VecEnv, bonus: float = 1.0):
        super().__init__(venv=venv)
        self.bonus = bonus

    def reset(self) -> np.ndarray:
        return -self.venv.reset()

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        return -obs, rewards + self.bonus, dones, infos


venv = VecMonitor(Negate(make_vec_env("CartPole-v1", n_envs=2), bonus=2.0))
assert venv.bonus == 2.0  # found in the wrapped wrapper
assert venv.unwrapped.num_envs == 2
obs = venv.reset()
_, rewards, _, _ = venv.step([venv.action_space.sample() for _ in range(2)])
assert rewards.tolist() == [3.0, 3.0]
assert unwrap_vec_wrapper(venv, Negate).bonus == 2.0
model = PPO("MlpPolicy", venv, n_steps=32, batch_size=32).learn(64)
assert model.rollout_buffer.rewards.mean() > 2.0
