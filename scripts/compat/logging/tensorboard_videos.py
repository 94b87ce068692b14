"""Log a video of the agent now and then."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Video
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Film(BaseCallback):
    def __init__(self, env: gym.Env, every: int):
        super().__init__()
        self.env, self.every = env, every

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0:
            frames = []

            def grab(_locals, _globals) -> None:
                frame = self.env.render()[::8, ::8]
                frames.append(frame.transpose(2, 0, 1))

            evaluate_policy(self.model, self.env, callback=grab, n_eval_episodes=1, warn=False)
            video = Video(torch.from_numpy(np.asarray([frames[:20]])), fps=30)
            self.logger.record("film/run", video, exclude=("stdout", "log", "json", "csv"))
        return True


model = A2C("MlpPolicy", "CartPole-v1", tensorboard_log="tb")
model.learn(100, callback=Film(gym.make("CartPole-v1", render_mode="rgb_array"), every=60), log_interval=5)
events = EventAccumulator(model.logger.dir)
events.Reload()
assert "film/run" in events.Tags()["images"]
