"""Start from a random warm-up and the exploration schedule of DQN."""

from stable_baselines3 import DQN

model = DQN(
    "MlpPolicy",
    "MountainCar-v0",
    learning_starts=50,
    exploration_fraction=0.2,
    exploration_initial_eps=1.0,
    exploration_final_eps=0.05,
    gradient_steps=2,
    seed=0,
)
assert model.exploration_rate == 0.0 or model.exploration_rate == 1.0
model.learn(200)
assert abs(model.exploration_rate - 0.05) < 1e-9
assert abs(model.exploration_schedule(0.9) - 0.525) < 1e-6
obs = model.get_env().reset()
assert all(
    model.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0] for _ in range(5)
)
model.exploration_rate = 1.0
assert {int(model.predict(obs)[0][0]) for _ in range(60)} == {0, 1, 2}
