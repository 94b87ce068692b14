"""Record a video of a trained agent."""

import glob
import os

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecVideoRecorder

venv = make_vec_env("CartPole-v1", n_envs=1, env_kwargs={"render_mode": "rgb_array"})
venv = VecVideoRecorder(
    venv, "videos", record_video_trigger=lambda step: step == 0, video_length=30, name_prefix="agent-cartpole"
)
model = PPO("MlpPolicy", venv.unwrapped, n_steps=32, batch_size=32)
obs = venv.reset()
for _ in range(31):
    obs, _, _, _ = venv.step(model.predict(obs)[0])
venv.close()
(path,) = glob.glob("videos/agent-cartpole-step-0-to-step-30.mp4")
assert os.path.getsize(path) > 1000
