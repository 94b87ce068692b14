"""Name the environment, let the model build it, and run the agent in `model.get_env()`."""

from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import VecEnv

model = A2C("MlpPolicy", "CartPole-v1", verbose=1, seed=1).learn(1_000, log_interval=50)

venv = model.get_env()
assert isinstance(venv, VecEnv) and venv.num_envs == model.n_envs == 1
obs = venv.reset()
finished = 0
for _ in range(200):
    action, _state = model.predict(obs, deterministic=True)
    obs, reward, done, info = venv.step(action)
    if done[0]:
        finished += 1
        assert info[0]["episode"]["l"] > 0
        assert info[0]["terminal_observation"].shape == (4,)
assert finished >= 1
