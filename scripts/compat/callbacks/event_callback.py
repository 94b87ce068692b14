"""Write an event callback that triggers another one."""

from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback, EventCallback


class OnFall(EventCallback):
    """Trigger the child whenever an episode ends early."""

    def _on_step(self) -> bool:
        if self.locals["dones"].any() and "TimeLimit.truncated" in self.locals["infos"][0]:
            if not self.locals["infos"][0]["TimeLimit.truncated"]:
                return self._on_event()
        return True


class Count(BaseCallback):
    count = 0

    def _on_step(self) -> bool:
        assert isinstance(self.parent, OnFall)
        self.count += 1
        return self.count < 5


count = Count()
model = A2C("MlpPolicy", "CartPole-v1", seed=0).learn(5_000, callback=OnFall(count))
assert count.count == count.n_calls == 5
assert count.num_timesteps == model.num_timesteps < 5_000
