"""Mask invalid actions with a method of the environment; evaluate with masks."""

from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.env_util import make_vec_env

env = InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10)
watch = MaskableEvalCallback(make_vec_env(lambda: env), eval_freq=200, n_eval_episodes=2, log_path="evals")
model = MaskablePPO("MlpPolicy", env, gamma=0.4, n_steps=128, batch_size=64, seed=32, verbose=1)
model.learn(512, callback=watch)
mean, _ = evaluate_policy(model, env, n_eval_episodes=5, warn=False)
assert mean >= 0 and watch.last_mean_reward >= 0
model.save("maskable")
loaded = MaskablePPO.load("maskable")

venv = make_vec_env(lambda: InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10), n_envs=2)
assert is_masking_supported(venv)
obs = venv.reset()
for _ in range(10):
    masks = get_action_masks(venv)
    assert masks.shape == (2, 20) and masks.sum(axis=1).tolist() == [10, 10]
    actions, _ = loaded.predict(obs, action_masks=masks)
    assert masks[[0, 1], actions].all()
    obs, *_ = venv.step(actions)
