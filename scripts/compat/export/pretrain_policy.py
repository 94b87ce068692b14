"""Pretrain a policy on an expert's actions with a separate optimiser, then train on."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from torch.utils.data import DataLoader, TensorDataset

env = gym.make("CartPole-v1")
observations, actions = [], []
obs, _ = env.reset(seed=0)
for _ in range(1_500):
    action = int(obs[2] + 0.5 * obs[3] > 0)
    observations.append(obs)
    actions.append(action)
    obs, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
        obs, _ = env.reset()

student = PPO("MlpPolicy", env, n_steps=256, seed=0)
data = TensorDataset(torch.as_tensor(np.array(observations)), torch.as_tensor(actions))
optimiser = torch.optim.Adam(student.policy.parameters(), lr=3e-3)
student.policy.train()
for _ in range(8):
    for batch, target in DataLoader(data, batch_size=64, shuffle=True):
        logits = student.policy.get_distribution(batch.to(student.device)).distribution.logits
        loss = torch.nn.functional.cross_entropy(logits, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
student.policy.eval()
mean, _ = evaluate_policy(student, env, n_eval_episodes=3, warn=False)
assert mean > 100
student.learn(256)
