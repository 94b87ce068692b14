"""Change the learning rate and the clip range while training."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule, get_linear_fn


def decay(initial: float):
    def schedule(progress_remaining: float) -> float:
        return progress_remaining * initial

    return schedule


class Rates(BaseCallback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self.seen.append(self.model.policy.optimizer.param_groups[0]["lr"])


rates = Rates()
model = PPO(
    "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, learning_rate=decay(1e-3), clip_range=decay(0.2)
)
model.learn(256, callback=rates)
assert rates.seen == sorted(rates.seen, reverse=True) and rates.seen[-1] < 5e-4
assert model.lr_schedule(0.5) == 5e-4 and model.clip_range(1.0) == 0.2

linear = LinearSchedule(start=1.0, end=0.1, end_fraction=0.5)
assert (linear(1.0), linear(0.2)) == (1.0, 0.1)
assert abs(linear(0.75) - 0.55) < 1e-9
assert FloatSchedule(0.3)(0.7) == ConstantSchedule(0.3)(0.1) == 0.3
assert get_linear_fn(1.0, 0.0, 1.0)(0.25) == 0.25
PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, learning_rate=linear).learn(64).save("scheduled")
PPO.load("scheduled")
