"""Evaluate a policy: mean and deviation, single episodes, a callback, a threshold."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

env = Monitor(gym.make("CartPole-v1"))
model = PPO("MlpPolicy", env, n_steps=256, seed=0).learn(1024)

mean, std = evaluate_policy(model, env, n_eval_episodes=5, deterministic=True)
assert isinstance(mean, float) and mean > 0 and std >= 0

rewards, lengths = evaluate_policy(model, env, n_eval_episodes=3, return_episode_rewards=True)
assert len(rewards) == len(lengths) == 3
assert rewards == [float(length) for length in lengths]

seen = []


def watch(local_names, global_names):
    seen.append((local_names["current_rewards"].copy(), local_names["episode_counts"].sum()))
    assert {"observations", "actions", "dones", "infos", "env", "model"} <= set(local_names)
    assert isinstance(global_names, dict)


evaluate_policy(model, model.get_env(), n_eval_episodes=2, callback=watch, warn=False)
assert len(seen) >= 2
try:
    evaluate_policy(model, env, n_eval_episodes=1, reward_threshold=1e6)
except AssertionError as error:
    assert "threshold" in str(error)
else:
    raise SystemExit("a mean reward below the threshold was accepted")
