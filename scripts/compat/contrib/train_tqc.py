"""Train TQC."""

import gymnasium as gym
import numpy as np
from sb3_contrib import TQC

env = gym.make("Pendulum-v1")
kwargs = {"n_critics": 2, "n_quantiles": 25, "net_arch": [32]}
model = TQC(
    "MlpPolicy", env, top_quantiles_to_drop_per_net=2, policy_kwargs=kwargs, learning_starts=20, batch_size=16
)
model.learn(total_timesteps=100, log_interval=4)
model.save("tqc")
loaded = TQC.load("tqc")
assert loaded.top_quantiles_to_drop_per_net == 2
assert loaded.critic.n_critics == 2 and loaded.critic.quantiles_total == 50
obs, _ = env.reset(seed=0)
np.testing.assert_allclose(
    loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0], rtol=1e-5
)
