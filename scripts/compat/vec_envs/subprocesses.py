"""Train with one environment in each of several processes."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import SubprocVecEnv


def build(env_id: str, rank: int, seed: int = 0):
    def thunk() -> gym.Env:
        env = gym.make(env_id)
        env.reset(seed=seed + rank)
        return env

    set_random_seed(seed)
    return thunk


if __name__ == "__main__":
    venv = SubprocVecEnv([build("CartPole-v1", rank) for rank in range(2)])
    assert venv.num_envs == 2
    model = PPO("MlpPolicy", venv, n_steps=32, batch_size=32, verbose=1).learn(128)
    obs = venv.reset()
    for _ in range(20):
        obs, _rewards, _dones, _infos = venv.step(model.predict(obs)[0])
    venv.close()

    again = make_vec_env(
        "CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"}
    )
    assert isinstance(again, SubprocVecEnv)
    assert again.get_attr("spec")[1].id == "CartPole-v1"
    again.close()
