"""Subclass ReplayBuffer: draw recent transitions more often, and count what is added."""

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize


class RecentReplayBuffer(ReplayBuffer):
    def __init__(self, *args, recent: int = 50, **kwargs):
        super().__init__(*args, **kwargs)
        self.recent = recent
        self.added = 0

    def add(self, obs, next_obs, action, reward, done, infos) -> None:
        assert obs.shape == (self.n_envs, *self.obs_shape) and len(infos) == self.n_envs
        super().add(obs, next_obs, action, reward, done, infos)
        self.added += 1

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        upper = self.buffer_size if self.full else self.pos
        indices = np.random.randint(max(0, upper - self.recent), upper, size=batch_size)
        return self._get_samples(indices, env=env)


kwargs = {"recent": 10}
model = DQN(
    "MlpPolicy",
    "CartPole-v1",
    replay_buffer_class=RecentReplayBuffer,
    replay_buffer_kwargs=kwargs,
    learning_starts=20,
    batch_size=8,
)
model.learn(100)
assert model.replay_buffer.added == 100 and model.replay_buffer.recent == 10
observations, actions, next_observations, dones, rewards, *_ = model.replay_buffer.sample(5)
assert observations.shape == next_observations.shape == (5, 4)
assert actions.shape == dones.shape == rewards.shape == (5, 1)
