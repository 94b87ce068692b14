"""Examples of the Stable Baselines guide that are about more than one algorithm, with a changed import."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo import A2C, PPO2, make_atari_env
from rlzoo.config import catalog
from rlzoo.training.on_policy_loop import on_policy

STOCHASTIC = [name for name in catalog.names() if getattr(catalog.load(name), "loop", None) is on_policy]


def mutate(params: dict[str, Any]) -> dict[str, Any]:
    """Mutate parameters by adding normal noise to them."""
    return {name: param + np.random.normal(size=param.shape) for name, param in params.items()}


def evaluate(env: gym.Env[Any, Any], model: Any) -> float:
    """The return of one episode."""
    total, done = 0.0, False
    obs, _ = env.reset(seed=0)
    while not done:
        action, _states = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, _info = env.step(action)
        total, done = total + float(reward), terminated or truncated
    return total


def test_evolution_by_editing_parameters() -> None:
    np.random.seed(0)
    env = gym.make("CartPole-v1")
    model = A2C("MlpPolicy", env, ent_coef=0.0, learning_rate=0.01, policy_kwargs={"net_arch": [8]}, seed=0)
    model.learn(total_timesteps=100)
    before = {name: value.clone() for name, value in model.get_parameters()["policy"].items()}

    # only those that affect the action
    mean_params = {
        name: value.numpy() for name, value in before.items() if "policy" in name or "action" in name
    }
    assert mean_params and len(mean_params) < len(before)
    fitness = []
    for _ in range(4):
        population = []
        for _ in range(10):
            candidate = mutate(mean_params)
            model.load_parameters(candidate, exact_match=False)
            population.append((candidate, evaluate(env, model)))
        top = sorted(population, key=lambda pair: pair[1], reverse=True)[:2]
        mean_params = {name: np.stack([each[0][name] for each in top]).mean(0) for name in mean_params}
        fitness.append(top[0][1])
    assert fitness[-1] > fitness[0] + 20

    model.load_parameters(mean_params, exact_match=False)
    after = model.get_parameters()["policy"]
    for name, value in before.items():
        expected = mean_params[name] if name in mean_params else value.numpy()
        np.testing.assert_allclose(after[name].numpy(), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:PPO2 is now PPO")
def test_continual_learning_by_changing_the_environment() -> None:
    pytest.importorskip("ale_py")
    env = make_atari_env("DemonAttackNoFrameskip-v4", num_env=2, seed=0)
    model = PPO2("CnnPolicy", env, n_steps=8, noptepochs=1)
    model.learn(total_timesteps=16)
    before = {name: value.clone() for name, value in model.get_parameters()["policy"].items()}
    env.close()
    env = make_atari_env("SpaceInvadersNoFrameskip-v4", num_env=2, seed=0)
    model.set_env(env)
    model.learn(total_timesteps=16)
    assert model.get_env().num_envs == 2 and model.n_updates == 4
    after = model.get_parameters()["policy"]
    assert all(not after[name].equal(value) for name, value in before.items())
    obs = env.reset()
    action, _states = model.predict(obs)
    env.step(action)
    env.close()


@pytest.mark.filterwarnings("ignore:PPO2 is now PPO", "ignore:policy keyword")
def test_a_recurrent_policy() -> None:
    model = PPO2("MlpLstmPolicy", "CartPole-v1", nminibatches=1, policy_kwargs={"n_lstm": 16}, seed=0)
    model.learn(128)
    env = model.get_env()
    obs, state, done = env.reset(), None, [False]
    for _ in range(3):
        action, state = model.predict(obs, state=state, mask=done)
        obs, _reward, done, _ = env.step(action)
    assert state is not None


@pytest.mark.parametrize("algo", STOCHASTIC)
def test_action_probability(algo: str) -> None:
    policy = "MlpLstmPolicy" if algo == "ppo_lstm" else "MlpPolicy"
    model = catalog.load(algo)(policy, "CartPole-v1", seed=0)
    obs = model.get_env().reset()
    probabilities = model.action_probability(obs)
    assert probabilities.shape == (1, model.action_space.n)
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    of_first = model.action_probability(obs, actions=np.array([0]))
    assert of_first[0] == pytest.approx(probabilities[0, 0], rel=1e-5)
    logarithm = model.action_probability(obs, actions=np.array([0]), logp=True)
    assert np.exp(logarithm[0]) == pytest.approx(of_first[0], rel=1e-5)
