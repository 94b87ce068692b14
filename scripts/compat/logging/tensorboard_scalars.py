"""Log custom values from a callback."""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Angles(BaseCallback):
    def _on_step(self) -> bool:
        self.logger.record("own/angle", float(np.abs(self.locals["new_obs"][:, 2]).max()))
        self.logger.record("own/hidden", 1.0, exclude=("tensorboard", "stdout"))
        self.logger.record_mean("own/mean_action", float(self.locals["actions"].mean()))
        if self.n_calls == 50:
            self.logger.dump(self.num_timesteps)
        return True


model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, tensorboard_log="tb", verbose=1)
model.learn(128, callback=Angles())
events = EventAccumulator(model.logger.dir)
events.Reload()
tags = events.Tags()["scalars"]
assert "own/angle" in tags and "own/mean_action" in tags and "own/hidden" not in tags
assert 50 in [event.step for event in events.Scalars("own/angle")]
