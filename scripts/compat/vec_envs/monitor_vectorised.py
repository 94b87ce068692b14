"""Record the episodes of a vectorised environment that has no Monitor inside."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, is_vecenv_wrapped

inner = DummyVecEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
venv = VecMonitor(inner, "logs/run", info_keywords=())
assert is_vecenv_wrapped(venv, VecMonitor)
model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, verbose=1).learn(256)
venv.close()

table = load_results("logs")
assert list(table.columns) == ["index", "r", "l", "t"] or {"r", "l", "t"} <= set(table.columns)
assert len(table) >= 5
assert (table["r"] == table["l"]).all()
assert len(model.ep_info_buffer) == len(table)
assert model.ep_info_buffer[0].keys() == {"r", "l", "t"}
