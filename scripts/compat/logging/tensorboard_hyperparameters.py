"""Log hyperparameters with their metrics."""

import glob

from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import HParam
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader


class Settings(BaseCallback):
    def _on_training_start(self) -> None:
        settings = {
            "algorithm": type(self.model).__name__,
            "learning rate": self.model.learning_rate,
            "gamma": self.model.gamma,
        }
        metrics = {"rollout/ep_len_mean": 0.0, "train/value_loss": 0.0}
        self.logger.record("hparams", HParam(settings, metrics), exclude=("stdout", "log", "json", "csv"))

    def _on_step(self) -> bool:
        return True


model = A2C("MlpPolicy", "CartPole-v1", tensorboard_log="tb", verbose=1).learn(600, callback=Settings())
(path,) = glob.glob(f"{model.logger.dir}/events*", recursive=True)
names = {
    value.metadata.plugin_data.plugin_name
    for event in EventFileLoader(path).Load()
    for value in event.summary.value
}
assert "hparams" in names
