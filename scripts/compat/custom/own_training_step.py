"""Derive an algorithm that overrides `train`."""

import torch
from stable_baselines3 import DQN
from torch.nn import functional


class PlainDQN(DQN):
    """DQN with a squared error."""

    updates = 0

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        self.policy.set_training_mode(True)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size)
            with torch.no_grad():
                best = self.q_net_target(data.next_observations).max(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * self.gamma * best
            chosen = torch.gather(self.q_net(data.observations), dim=1, index=data.actions.long())
            loss = functional.mse_loss(chosen, target)
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()
            self.updates += 1
        self.logger.record("train/loss", loss.item())


model = PlainDQN("MlpPolicy", "CartPole-v1", learning_starts=20, train_freq=4).learn(100)
assert model.updates == 20
