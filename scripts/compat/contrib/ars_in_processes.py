"""Train augmented random search with candidates evaluated in several processes."""

from sb3_contrib import ARS
from sb3_contrib.common.vec_env import AsyncEval
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

if __name__ == "__main__":
    model = ARS("LinearPolicy", "CartPole-v1", n_delta=4, n_top=2, zero_policy=True, seed=0)
    model.learn(2_000)
    venvs = [lambda: make_vec_env("CartPole-v1", n_envs=1) for _ in range(2)]
    parallel = AsyncEval(venvs, model.policy)
    model.learn(total_timesteps=3_000, log_interval=4, async_eval=parallel)
    assert model.num_timesteps >= 3_000
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5, warn=False)
    assert mean > 9
    model.save("ars")
    ARS.load("ars").predict(model.get_env().reset())
