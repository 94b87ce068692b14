"""Change a model's settings while it trains: exploration, learning rate, environments."""

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import update_learning_rate


class Curriculum(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls == 40:
            self.training_env.set_attr("length", 1.0)
            self.model.ent_coef = 0.02
            self.model.learning_rate = 1e-5
            self.model.lr_schedule = lambda _: 1e-5
            update_learning_rate(self.model.policy.optimizer, 1e-5)
        return True


model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32).learn(96, callback=Curriculum())
assert model.ent_coef == 0.02
assert model.policy.optimizer.param_groups[0]["lr"] == 1e-5
assert model.get_env().get_attr("length") == [1.0]


class Explore(BaseCallback):
    seen: list = []

    def _on_step(self) -> bool:
        self.seen.append(self.model.exploration_rate)
        self.model.gamma = 0.9
        return True


agent = DQN(
    "MlpPolicy", "CartPole-v1", exploration_fraction=0.5, exploration_final_eps=0.1, learning_starts=10
)
agent.learn(100, callback=Explore())
assert len(Explore.seen) == 100 and Explore.seen[1] > Explore.seen[20] > Explore.seen[80]
assert abs(Explore.seen[1] - 0.982) < 0.02 and abs(agent.exploration_rate - 0.1) < 1e-9
