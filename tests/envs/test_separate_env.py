"""Copies of environments, in which EvalCallback evaluates when it is given the training environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import (
    PPO,
    ActionMasker,
    DummyVecEnv,
    EvalCallback,
    Monitor,
    SubprocVecEnv,
    UserError,
    VecFrameStack,
    VecNormalize,
    get_action_masks,
    load_results,
    make_vec_env,
)
from rlzoo.envs.separate_env import separate_copy, share_environments


class Walk(gym.Env):
    """A random walk of 20 steps, which is not registered."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.steps = np.zeros(2, np.float32), 0
        return self.position.copy(), {}

    def step(self, action):
        self.position += self.np_random.normal(size=2) + (2 * action - 1) / 2
        self.steps += 1
        return self.position.copy(), float(self.position[0]), False, self.steps == 20, {}


class Plain(gym.Wrapper):
    """A wrapper that does not record its arguments: `gymnasium.make` cannot repeat it."""


ENVS = {
    "made": lambda: gym.make("CartPole-v1"),
    "made-in-a-wrapper": lambda: Plain(gym.make("CartPole-v1")),
    "box2d": lambda: make_vec_env("LunarLander-v3", 2),
    "native": lambda: make_vec_env("CartPole-v1", 2),
    "normalized": lambda: VecNormalize(VecFrameStack(DummyVecEnv([Walk, Walk]), 2)),
    "not-registered": Walk,
}


def parameters(env, callback):
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=2, seed=0)
    model.learn(128, callback=callback)
    return model.policy.parameters_to_vector()


@pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)
def test_evaluation_in_the_training_env_changes_nothing(make):
    env = make()
    callback = EvalCallback(env, eval_freq=20, n_eval_episodes=2, verbose=0, warn=False)
    with pytest.warns(UserWarning, match="a copy is evaluated in"):
        evaluated = parameters(env, callback)
    assert np.isfinite(callback.last_mean_reward) and not share_environments(
        callback.eval_env, callback.training_env
    )
    np.testing.assert_array_equal(evaluated, parameters(make(), None))


def test_separate_environments_are_not_copied(recwarn):
    env = make_vec_env("CartPole-v1")
    callback = EvalCallback(env, eval_freq=20, n_eval_episodes=1, verbose=0)
    parameters(make_vec_env("CartPole-v1"), callback)
    assert callback.eval_env is env and not [w for w in recwarn if "a copy" in str(w.message)]


def test_a_copy_writes_no_monitor_file(tmp_path):
    venv = DummyVecEnv([lambda: Monitor(Walk(), tmp_path / "walk")])
    copied = separate_copy(venv, seed=3)
    for env in (venv, copied):
        env.reset()
        for _ in range(25):
            env.step([0])
    assert load_results(tmp_path)["l"].tolist() == [20]


def test_a_copy_has_the_same_time_limit_and_arguments():
    venv = DummyVecEnv([lambda: Monitor(gym.make("Pendulum-v1", max_episode_steps=7, g=5.0))])
    copied = separate_copy(venv)
    copied.reset()
    ends = [copied.step(np.zeros((1, 1)))[2][0] for _ in range(14)]
    assert np.flatnonzero(ends).tolist() == [6, 13] and copied.get_attr("g") == [5.0]


def test_environments_of_other_processes_are_refused():
    venv = SubprocVecEnv([Walk])
    try:
        with pytest.raises(UserError, match=r"give it another one \(environments of a SubprocVecEnv"):
            parameters(venv, EvalCallback(venv, warn=False))
    finally:
        venv.close()


def test_a_copy_has_rewards_and_attributes_of_the_original():
    env = gym.wrappers.TransformReward(Monitor(gym.make("CartPole-v1")), lambda reward: 100 * reward)
    env.unwrapped.force_mag = 3.0
    copied = separate_copy(make_vec_env(lambda: env), seed=0)
    copied.reset()
    steps = [copied.step([1]) for _ in range(40)]
    ended = next(infos[0]["episode"] for _, _, dones, infos in steps if dones[0])
    assert steps[0][1] == 100 and ended["r"] == ended["l"] and copied.get_attr("force_mag") == [3.0]


def test_a_copy_of_what_cannot_be_copied_is_made_anew():
    env = Monitor(gym.make("LunarLander-v3", gravity=-5.0))
    env.reset(seed=0)  # there is a world of Box2D now
    copied = separate_copy(DummyVecEnv([lambda: env]))
    assert copied.get_attr("gravity") == [-5.0] and copied.env_is_wrapped(Monitor) == [True]


def test_a_copy_has_masks_of_its_own():
    venv = DummyVecEnv([lambda: ActionMasker(Walk(), lambda env: [True, env.steps == 0])])
    copied = separate_copy(venv)
    for env in (venv, copied):
        env.reset()
    copied.step([0])
    assert get_action_masks(copied).tolist() == [[True, False]] and get_action_masks(venv).all()


def test_an_environment_that_is_its_own_copy_is_refused():
    class Single(Walk):
        def __deepcopy__(self, memo):
            return self

    with pytest.raises(UserError, match="a copy of Single is the environment itself"):
        separate_copy(DummyVecEnv([Single]))
