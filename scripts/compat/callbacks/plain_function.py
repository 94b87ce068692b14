"""Use a function as a callback; False ends the training."""

from stable_baselines3 import A2C, DQN

calls = []


def count(local_names, global_names):
    calls.append(local_names["self"].num_timesteps)
    return len(calls) < 40


model = A2C("MlpPolicy", "CartPole-v1").learn(1_000, callback=count)
assert len(calls) == 40 and model.num_timesteps == 40

dones = []
model = DQN("MlpPolicy", "CartPole-v1", learning_starts=10)
model.learn(60, callback=lambda local_names, _: dones.append(local_names["dones"][0]) or True)
assert len(dones) == 60
