"""Use the callbacks of the zoo in training scripts."""

import optuna
from rl_zoo3.callbacks import (
    ParallelTrainCallback,
    RawStatisticsCallback,
    SaveVecNormalizeCallback,
    TrialEvalCallback,
)
from stable_baselines3 import A2C, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

venv = VecNormalize(make_vec_env("CartPole-v1"))
save = SaveVecNormalizeCallback(save_freq=1, save_path="stats")
watch = EvalCallback(
    VecNormalize(make_vec_env("CartPole-v1"), training=False, norm_reward=False),
    eval_freq=50,
    n_eval_episodes=1,
    callback_on_new_best=save,
)
A2C("MlpPolicy", venv, tensorboard_log="tb").learn(100, callback=[watch, RawStatisticsCallback()])
VecNormalize.load("stats/vecnormalize.pkl", make_vec_env("CartPole-v1"))

study = optuna.create_study(direction="maximize")
trial = study.ask()
watch = TrialEvalCallback(make_vec_env("CartPole-v1"), trial, n_eval_episodes=1, eval_freq=50)
A2C("MlpPolicy", "CartPole-v1").learn(100, callback=watch)
assert watch.eval_idx == 2 and watch.is_pruned is False

model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=20, batch_size=8, train_freq=(1, "episode"))
model.learn(400, callback=ParallelTrainCallback(gradient_steps=4))
