"""Sample from the arrays of a replay buffer by a method of one's own, with VecNormalize."""

import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize


class RecentReplayBuffer(ReplayBuffer):
    """Draws the newest transitions more often than old ones."""

    def sample(self, batch_size, env=None):
        size = self.buffer_size if self.full else self.pos
        ages = (np.random.uniform(size=batch_size) ** 2 * size).astype(int)
        return self._get_samples((self.pos - 1 - ages) % size, env=env)

    def _get_samples(self, batch_inds, env=None):
        env_indices = np.random.randint(0, high=self.n_envs, size=len(batch_inds))
        dones = self.dones[batch_inds, env_indices] * (1 - self.timeouts[batch_inds, env_indices])
        data = (
            self._normalize_obs(self.observations[batch_inds, env_indices, :], env),
            self.actions[batch_inds, env_indices, :],
            self._normalize_obs(self.next_observations[batch_inds, env_indices, :], env),
            dones.reshape(-1, 1),
            self._normalize_reward(self.rewards[batch_inds, env_indices].reshape(-1, 1), env),
        )
        return ReplayBufferSamples(*tuple(map(self.to_torch, data)))


env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2, seed=0))
model = SAC("MlpPolicy", env, replay_buffer_class=RecentReplayBuffer, learning_starts=100, batch_size=64)
model.learn(400)
batch = model.replay_buffer.sample(256, env=env)
assert abs(float(batch.observations[:, 2].std()) - 1) < 0.6
assert float(batch.rewards.abs().max()) <= 10
