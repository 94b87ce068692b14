"""Give a loaded model another environment, and be refused one with other spaces."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32)
model.set_env(make_vec_env("CartPole-v1", n_envs=1, seed=5))
model.learn(32)
model.save("agent")

four = make_vec_env("CartPole-v1", n_envs=4)
loaded = PPO.load("agent", env=four)
assert loaded.n_envs == 4
loaded.learn(128)

for wrong in (make_vec_env("Acrobot-v1"), make_vec_env("CartPole-v1", n_envs=2)):
    try:
        model.set_env(wrong)
    except (ValueError, AssertionError):
        continue
    raise SystemExit("an environment that does not fit was accepted")
