"""Save a replay buffer beside the model and train on from both."""

import glob

import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl
from stable_baselines3.sac.policies import MlpPolicy

model = SAC(MlpPolicy, "Pendulum-v1", learning_starts=20, batch_size=16, buffer_size=1_000).learn(120)
model.save("sac")
model.save_replay_buffer("memory")
assert len(glob.glob("memory.*")) == 1

loaded = SAC.load("sac")
assert loaded.replay_buffer is None or loaded.replay_buffer.size() == 0
loaded.load_replay_buffer("memory")
assert loaded.replay_buffer.size() == 120
np.testing.assert_array_equal(loaded.replay_buffer.rewards[:120], model.replay_buffer.rewards[:120])
loaded.set_env(model.get_env())
loaded.learn(40, reset_num_timesteps=False)
assert loaded.replay_buffer.size() == loaded.num_timesteps == 160

policy = loaded.policy
policy.save("actor_critic")
again = MlpPolicy.load("actor_critic")
obs = loaded.observation_space.sample()
np.testing.assert_allclose(
    again.predict(obs, deterministic=True)[0], loaded.predict(obs, deterministic=True)[0], rtol=1e-5
)
save_to_pkl("numbers.pkl", {"a": 1})
assert load_from_pkl("numbers.pkl") == {"a": 1}
