"""Use the helper functions of the zoo: schedules, wrappers and callbacks from hyperparameters."""

import gymnasium as gym
from rl_zoo3.utils import (
    ALGOS,
    StoreDict,
    get_callback_list,
    get_class_by_name,
    get_wrapper_class,
    linear_schedule,
)
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback

assert ALGOS["ppo"] is PPO
assert {"a2c", "dqn", "sac", "td3", "ddpg", "tqc", "qrdqn", "trpo", "ars", "ppo_lstm", "crossq"} <= set(ALGOS)
schedule = linear_schedule(3e-4)
assert schedule(1.0) == 3e-4 and schedule(0.0) == 0.0
assert linear_schedule("1e-3")(0.5) == 5e-4
assert (
    get_class_by_name("stable_baselines3.ppo.PPO") is PPO or get_class_by_name("stable_baselines3.PPO") is PPO
)

wrapper = get_wrapper_class(
    {
        "env_wrapper": [
            {"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 9}},
            "rl_zoo3.wrappers.ActionSmoothingWrapper",
        ]
    }
)
env = wrapper(gym.make("Pendulum-v1"))
assert type(env).__name__ == "ActionSmoothingWrapper"
assert get_wrapper_class({}) is None
env.reset()
assert [env.step(env.action_space.sample())[3] for _ in range(9)][-1]

(callback,) = get_callback_list(
    {
        "callback": [
            {"stable_baselines3.common.callbacks.CheckpointCallback": {"save_freq": 10, "save_path": "."}}
        ]
    }
)
assert isinstance(callback, CheckpointCallback)

import argparse  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--hyperparams", nargs="+", action=StoreDict)
assert parser.parse_args(["--hyperparams", "gamma:0.9", "n_steps:8"]).hyperparams == {
    "gamma": 0.9,
    "n_steps": 8,
}
