"""Train TRPO."""

from sb3_contrib import TRPO
from stable_baselines3.common.env_util import make_vec_env

venv = make_vec_env("Pendulum-v1", n_envs=2)
model = TRPO(
    "MlpPolicy",
    venv,
    n_steps=64,
    batch_size=64,
    cg_max_steps=5,
    target_kl=0.02,
    n_critic_updates=2,
    verbose=1,
)
model.learn(256, log_interval=1)
assert model.logger.name_to_value.get("train/kl_divergence_loss", 0.0) < 0.03
model.save("trpo")
loaded = TRPO.load("trpo", env=venv)
assert loaded.target_kl == 0.02
loaded.learn(128)
