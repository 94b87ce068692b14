"""Write a callback with all of its hooks."""

from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv


class Hooks(BaseCallback):
    def __init__(self, verbose: int = 0):
        super().__init__(verbose)
        self.order: list[str] = []

    def _init_callback(self) -> None:
        assert isinstance(self.model, BaseAlgorithm) and isinstance(self.training_env, VecEnv)
        self.order.append("init")

    def _on_training_start(self) -> None:
        assert self.num_timesteps == 0 and self.n_calls == 0
        assert self.locals["total_timesteps"] == 64
        self.order.append("start")

    def _on_rollout_start(self) -> None:
        self.order.append("rollout")

    def _on_step(self) -> bool:
        assert {"rewards", "dones", "infos", "actions", "new_obs", "values", "log_probs"} <= set(self.locals)
        assert self.locals["self"] is self.model
        assert isinstance(self.globals, dict)
        self.logger.record_mean("own/reward", float(self.locals["rewards"].mean()))
        return True

    def _on_rollout_end(self) -> None:
        assert self.model.rollout_buffer.full
        assert self.model.rollout_buffer.advantages.shape == (32, 1)
        self.order.append("rollout end")

    def _on_training_end(self) -> None:
        self.order.append("end")


hooks = Hooks()
PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32).learn(64, callback=hooks)
assert hooks.order == ["init", "start", "rollout", "rollout end", "rollout", "rollout end", "end"]
assert hooks.n_calls == hooks.num_timesteps == 64
