"""Log matplotlib figures and images."""

import matplotlib.pyplot as plt
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Figure, Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Pictures(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls % 50 == 0:
            figure, axes = plt.subplots()
            axes.plot(self.locals["rewards"])
            self.logger.record(
                "pictures/figure", Figure(figure, close=True), exclude=("stdout", "log", "json", "csv")
            )
            plt.close()
            frame = self.training_env.render(mode="rgb_array")
            exclude = ("stdout", "log", "json", "csv")
            self.logger.record("pictures/frame", Image(frame, "HWC"), exclude=exclude)
            self.logger.dump(self.num_timesteps)
        return True


venv = make_vec_env("CartPole-v1", env_kwargs={"render_mode": "rgb_array"})
model = A2C("MlpPolicy", venv, tensorboard_log="tb").learn(100, callback=Pictures())
events = EventAccumulator(model.logger.dir)
events.Reload()
assert {"pictures/figure", "pictures/frame"} <= set(events.Tags()["images"])
assert events.Images("pictures/frame")[0].width == 600
