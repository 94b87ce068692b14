"""Load an agent, change its learning rate and other settings, and train on."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

venv = make_vec_env("CartPole-v1", n_envs=2)
PPO("MlpPolicy", venv, n_steps=32, batch_size=32, learning_rate=1e-3, tensorboard_log="runs").learn(128).save(
    "a"
)

model = PPO.load("a", env=venv, custom_objects={"learning_rate": 5e-5, "lr_schedule": lambda _: 5e-5})
assert model.num_timesteps == 128
model.learn(64, reset_num_timesteps=False)
assert model.num_timesteps == 192
assert abs(model.policy.optimizer.param_groups[0]["lr"] - 5e-5) < 1e-12

model = PPO.load("a", env=venv, learning_rate=2e-4, n_epochs=3, gamma=0.9, print_system_info=True)
assert (model.learning_rate, model.n_epochs, model.gamma) == (2e-4, 3, 0.9)
model.learn(64)
assert model.num_timesteps == 64
assert abs(model.policy.optimizer.param_groups[0]["lr"] - 2e-4) < 1e-12
