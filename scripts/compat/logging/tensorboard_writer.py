"""Reach the summary writer of the TensorBoard output."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import TensorBoardOutputFormat
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Writer(BaseCallback):
    def _on_training_start(self) -> None:
        formats = self.logger.output_formats
        self.tensorboard = next(form for form in formats if isinstance(form, TensorBoardOutputFormat))

    def _on_step(self) -> bool:
        if self.n_calls == 10:
            self.tensorboard.writer.add_text("notes", "ten steps", self.num_timesteps)
            self.tensorboard.writer.add_histogram("weights", self.model.policy.action_net.weight, 10)
            self.logger.record("values", torch.linspace(0, 1, 20))
            self.tensorboard.writer.flush()
        return True


model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, tensorboard_log="tb").learn(
    64, callback=Writer()
)
events = EventAccumulator(model.logger.dir)
events.Reload()
assert "weights" in events.Tags()["histograms"] and "values" in events.Tags()["histograms"]
assert "notes/text_summary" in events.Tags()["tensors"]
