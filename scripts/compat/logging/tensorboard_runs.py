"""Log several runs to TensorBoard, and continue one."""

import os

from stable_baselines3 import A2C
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

model = A2C("MlpPolicy", "CartPole-v1", tensorboard_log="tb", seed=0)
model.learn(500, tb_log_name="first", log_interval=20)
model.learn(500, tb_log_name="first", log_interval=20)
model.learn(500, tb_log_name="first", log_interval=20, reset_num_timesteps=False)
assert sorted(os.listdir("tb")) == ["first_1", "first_2"]

events = EventAccumulator("tb/first_2")
events.Reload()
tags = set(events.Tags()["scalars"])
assert {
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "time/fps",
    "train/value_loss",
    "train/policy_loss",
} <= tags
steps = [event.step for event in events.Scalars("train/value_loss")]
assert steps == sorted(steps) and steps[-1] == 1000
