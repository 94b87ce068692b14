"""Save and load a policy without its algorithm."""

import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.ppo.policies import MlpPolicy

model = PPO(MlpPolicy, "CartPole-v1", n_steps=64, batch_size=64).learn(64)
model.policy.save("policy.pkl")
policy = MlpPolicy.load("policy.pkl", device="cpu")
obs = model.get_env().reset()
np.testing.assert_array_equal(
    policy.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0]
)
evaluate_policy(policy, model.get_env(), n_eval_episodes=1, warn=False)

dqn = DQN("MlpPolicy", "CartPole-v1")
dqn.policy.save("dqn_policy")
loaded = DQNPolicy.load("dqn_policy")
for key, value in dqn.policy.state_dict().items():
    assert torch.equal(loaded.state_dict()[key], value)
torch.save(policy.state_dict(), "weights.pt")
model.policy.load_state_dict(torch.load("weights.pt"))
assert torch.load("weights.pt").keys() == model.policy.state_dict().keys()
