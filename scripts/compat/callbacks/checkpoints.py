"""Save checkpoints with their replay buffer and normalisation statistics."""

import os

from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

venv = VecNormalize(make_vec_env("Pendulum-v1"))
keep = CheckpointCallback(
    save_freq=100, save_path="checkpoints", name_prefix="sac", save_replay_buffer=True, save_vecnormalize=True
)
every = EveryNTimesteps(n_steps=60, callback=CheckpointCallback(save_freq=1, save_path="often"))
model = SAC("MlpPolicy", venv, learning_starts=50, batch_size=16)
model.learn(200, callback=CallbackList([keep, every]))

assert sorted(os.listdir("checkpoints")) == [
    "sac_100_steps.zip",
    "sac_200_steps.zip",
    "sac_replay_buffer_100_steps.pkl",
    "sac_replay_buffer_200_steps.pkl",
    "sac_vecnormalize_100_steps.pkl",
    "sac_vecnormalize_200_steps.pkl",
]
assert sorted(os.listdir("often")) == [
    "rl_model_120_steps.zip",
    "rl_model_180_steps.zip",
    "rl_model_60_steps.zip",
]
loaded = SAC.load(
    "checkpoints/sac_200_steps",
    env=VecNormalize.load("checkpoints/sac_vecnormalize_200_steps.pkl", venv.venv),
)
loaded.load_replay_buffer("checkpoints/sac_replay_buffer_200_steps.pkl")
assert loaded.num_timesteps == 200 and loaded.replay_buffer.size() in (199, 200)
