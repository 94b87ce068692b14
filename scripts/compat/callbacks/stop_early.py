"""Stop after a number of episodes, or when evaluations no longer improve."""

from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import (
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
)
from stable_baselines3.common.env_util import make_vec_env

limit = StopTrainingOnMaxEpisodes(max_episodes=3, verbose=1)
model = A2C("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2)).learn(100_000, callback=limit)
assert model.num_timesteps < 10_000
assert limit.n_episodes >= 6  # three episodes in each of the two environments

patience = StopTrainingOnNoModelImprovement(max_no_improvement_evals=2, min_evals=1, verbose=1)
watch = EvalCallback(
    make_vec_env("Pendulum-v1"), eval_freq=50, n_eval_episodes=1, callback_after_eval=patience
)
model = A2C("MlpPolicy", "Pendulum-v1", learning_rate=0.0, seed=2).learn(20_000, callback=watch)
assert model.num_timesteps < 20_000
