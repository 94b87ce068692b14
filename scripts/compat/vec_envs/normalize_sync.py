"""Evaluate during training with the running statistics of the training environment."""

import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

train = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2), gamma=0.9)
test = VecNormalize(make_vec_env("Pendulum-v1"), training=False, norm_reward=False)
watch = EvalCallback(test, n_eval_episodes=1, eval_freq=100, best_model_save_path="best", log_path="evals")
model = A2C("MlpPolicy", train, gamma=0.9).learn(400, callback=watch)
assert watch.last_mean_reward < -10
assert not np.allclose(train.obs_rms.mean, 0)

sync_envs_normalization(train, test)
np.testing.assert_allclose(test.obs_rms.mean, train.obs_rms.mean)
np.testing.assert_allclose(test.ret_rms.var, train.ret_rms.var)
assert test.obs_rms is not train.obs_rms
A2C.load("best/best_model").predict(test.reset())
