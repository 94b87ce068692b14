"""Train QR-DQN and look at its quantiles."""

import torch
from sb3_contrib import QRDQN

kwargs = {"n_quantiles": 20, "net_arch": [32]}
model = QRDQN("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, learning_starts=30, verbose=1)
model.learn(total_timesteps=200, log_interval=4)
obs = model.policy.obs_to_tensor(model.get_env().reset())[0]
with torch.no_grad():
    quantiles = model.quantile_net(obs)
assert quantiles.shape == (1, 20, 2)
best = quantiles.mean(dim=1).argmax(dim=1)
assert model.predict(obs.numpy(), deterministic=True)[0][0] == best.item()
model.save("qrdqn")
assert QRDQN.load("qrdqn").n_quantiles == 20
