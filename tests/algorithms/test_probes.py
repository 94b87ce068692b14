"""Environments so small that the right values are known: each fails for one kind of mistake."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.config import catalog
from rlzoo.core.action_noise import NormalActionNoise

ON_POLICY = ["ppo", "a2c", "acktr", "trpo"]
Q_LEARNING = ["dqn", "qrdqn"]
Q_FAST = {
    "learning_rate": 3e-3,
    "learning_starts": 100,
    "target_update_interval": 100,
    "train_freq": 2,
    "exploration_fraction": 0.5,
    "exploration_final_eps": 0.2,
}
CONTINUOUS = ["ddpg", "td3", "sac", "tqc", "crossq"]
CONTINUOUS_FAST = {
    "learning_rate": 3e-3,
    "learning_starts": 100,
    "batch_size": 64,
    "train_freq": 2,
    "tau": 0.05,
    "policy_kwargs": {"net_arch": [32, 32]},
}
QUIET = {**CONTINUOUS_FAST, "ent_coef": 0.01}
NOISY = {**CONTINUOUS_FAST, "action_noise": NormalActionNoise(0.0, 0.3)}
FAST = {
    "ppo": {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "learning_rate": 3e-3},
    "a2c": {"n_steps": 4, "learning_rate": 3e-3},
    "acktr": {"n_steps": 4, "learning_rate": 0.25, "lr_schedule": "constant", "kfac_clip": 0.01},
    "trpo": {"n_steps": 32, "batch_size": 64, "n_critic_updates": 4, "learning_rate": 5e-3},
    "dqn": Q_FAST,
    "qrdqn": {**Q_FAST, "policy_kwargs": {"n_quantiles": 10}},
    "ddpg": NOISY,
    "td3": {**NOISY, "tau": 0.1},
    "sac": QUIET,
    "tqc": {**QUIET, "top_quantiles_to_drop_per_net": 0},
    "crossq": {**{name: value for name, value in QUIET.items() if name != "tau"}, "gradient_steps": 4},
}
ONE = spaces.Box(-1, 1, (1,), np.float32)


class Probe(gym.Env):
    """One observation, one reward; subclasses say how they depend on what."""

    observation_space = ONE
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def observe(self):
        return np.zeros(1, np.float32)


class ConstantReward(Probe):
    """Reward 1 and the end: V = 1."""

    def step(self, action):
        return self.observe(), 1.0, True, False, {}


class ObservedReward(Probe):
    """The reward is the observation: V(s) = s."""

    def observe(self):
        self.shown = float(self.np_random.choice([-1, 1]))
        return np.array([self.shown], np.float32)

    def step(self, action):
        reward = self.shown
        return self.observe(), reward, True, False, {}


class TwoSteps(Probe):
    """Reward 1 on the second step: V(0) = gamma, V(1) = 1."""

    def observe(self):
        return np.array([self.t], np.float32)

    def step(self, action):
        self.t += 1
        return self.observe() * (self.t < 2), float(self.t == 2), self.t == 2, False, {}


class EndlessReward(Probe):
    """Reward 1 for ever, cut off after 5 steps: V = 1 / (1 - gamma), not less."""

    def step(self, action):
        self.t += 1
        return self.observe(), 1.0, False, self.t >= 5, {}


class RightAction(Probe):
    """Action 1 is worth 1."""

    def step(self, action):
        return self.observe(), float(action), True, False, {}


class MatchingAction(ObservedReward):
    """The right action is the sign of the observation."""

    def step(self, action):
        reward = 1.0 if (action == 1) == (self.shown > 0) else -1.0
        return self.observe(), reward, True, False, {}


class AsymmetricBox(Probe):
    """The best action is 3, in a Box that begins at 1."""

    action_space = spaces.Box(1.0, 5.0, (1,), np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observe(), -((float(action[0]) - 3.0) ** 2), True, False, {}


def train(algo, env_class, steps, n_envs=8, **kwargs):
    from rlzoo import DummyVecEnv

    env = DummyVecEnv([env_class] * n_envs)
    model = catalog.load(algo)("MlpPolicy", env, seed=0, device="cpu", **{**FAST[algo], **kwargs})
    return model.learn(steps)


def value(model, obs):
    with torch.no_grad():
        return model.policy.predict_values(torch.tensor([[obs]], dtype=torch.float32)).item()


@pytest.mark.parametrize("algo", ON_POLICY)
def test_a_constant_reward_is_the_value(algo):
    assert value(train(algo, ConstantReward, 8000), 0.0) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("algo", ON_POLICY)
def test_the_value_depends_on_the_observation(algo):
    model = train(algo, ObservedReward, 8000)
    assert value(model, 1.0) == pytest.approx(1, abs=0.1) and value(model, -1.0) == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize("algo", ON_POLICY)
def test_a_later_reward_is_discounted(algo):
    model = train(algo, TwoSteps, 16_000, gamma=0.5)
    assert value(model, 0.0) == pytest.approx(0.5, abs=0.08) and value(model, 1.0) == pytest.approx(
        1, abs=0.08
    )


@pytest.mark.parametrize("algo", ON_POLICY)
@pytest.mark.parametrize("gae_lambda", [0.5, 1.0])
def test_a_truncated_episode_is_worth_its_future(algo, gae_lambda):
    model = train(algo, EndlessReward, 20_000, gamma=0.8, gae_lambda=gae_lambda, learning_rate=5e-3)
    assert value(model, 0.0) == pytest.approx(1 / (1 - 0.8), abs=0.4)


@pytest.mark.parametrize("algo", ON_POLICY)
def test_the_better_action_is_taken(algo):
    model = train(algo, RightAction, 8000)
    assert model.action_probability(np.zeros(1, np.float32))[1] > 0.9


@pytest.mark.parametrize("algo", ON_POLICY)
def test_the_action_depends_on_the_observation(algo):
    model = train(algo, MatchingAction, 8000)
    assert model.predict(np.ones(1, np.float32), deterministic=True)[0] == 1
    assert model.predict(-np.ones(1, np.float32), deterministic=True)[0] == 0


@pytest.mark.parametrize("algo", ON_POLICY)
def test_an_asymmetric_box_is_searched_in_its_own_units(algo):
    model = train(algo, AsymmetricBox, 16_000)
    assert model.predict(np.zeros(1, np.float32), deterministic=True)[0][0] == pytest.approx(3, abs=0.5)


Q_OPTIONS = [
    {},
    {"double_q": True, "prioritized_replay": True},
    {"n_steps": 3, "policy_kwargs": {"dueling": True}},
]
Q_CASES = [("dqn", options) for options in Q_OPTIONS] + [("qrdqn", {})]


@pytest.mark.parametrize("algo", Q_LEARNING)
def test_q_learning_values_depend_on_the_observation(algo):
    model = train(algo, ObservedReward, 6000)
    assert value(model, 1.0) == pytest.approx(1, abs=0.1) and value(model, -1.0) == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize(("algo", "options"), Q_CASES)
def test_q_learning_discounts_a_later_reward(algo, options):
    model = train(algo, TwoSteps, 8000, gamma=0.5, **options)
    assert value(model, 0.0) == pytest.approx(0.5, abs=0.08)
    assert value(model, 1.0) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(("algo", "options"), Q_CASES)
def test_q_learning_looks_beyond_a_truncation(algo, options):
    model = train(algo, EndlessReward, 8000, gamma=0.8, **options)
    assert value(model, 0.0) == pytest.approx(1 / (1 - 0.8), abs=0.4)


@pytest.mark.parametrize("algo", Q_LEARNING)
def test_q_learning_takes_the_action_for_the_observation(algo):
    model = train(algo, MatchingAction, 6000)
    assert model.predict(np.ones(1, np.float32), deterministic=True)[0] == 1
    assert model.predict(-np.ones(1, np.float32), deterministic=True)[0] == 0


def with_box(env_class):
    """The same probe with actions that do not matter, in a Box that begins at 1."""
    return type(env_class.__name__, (env_class,), {"action_space": AsymmetricBox.action_space})


class MatchingBox(ObservedReward):
    """The best action is 2 or 4, one above or below the middle, as the observation says."""

    action_space = AsymmetricBox.action_space

    def step(self, action):
        reward = -((float(action[0]) - 3.0 - self.shown) ** 2)
        return self.observe(), reward, True, False, {}


def critics(model, obs, action=0.0):
    """What the critics give to an action in [-1, 1], on average."""
    row = torch.tensor([[obs]], dtype=torch.float32)
    model.policy.set_training_mode(False)
    with torch.no_grad():
        return model.policy.critic.all_values(row, torch.full((1, 1), action)).mean().item()


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_critics_see_the_observation_and_the_reward(algo):
    model = train(algo, with_box(ObservedReward), 4000)
    assert critics(model, 1.0) == pytest.approx(1, abs=0.15)
    assert critics(model, -1.0) == pytest.approx(-1, abs=0.15)


@pytest.mark.parametrize(("algo", "options"), [*((algo, {}) for algo in CONTINUOUS), ("td3", {"n_steps": 3})])
def test_critics_discount_a_later_reward(algo, options):
    model = train(algo, with_box(TwoSteps), 4000, gamma=0.5, **options)
    assert critics(model, 0.0) == pytest.approx(0.5, abs=0.12)
    assert critics(model, 1.0) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_critics_look_beyond_a_truncation(algo):
    model = train(algo, with_box(EndlessReward), 6000, gamma=0.8)
    assert critics(model, 0.0) == pytest.approx(1 / (1 - 0.8), abs=0.5)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_actors_find_the_best_action_for_the_observation(algo):
    model = train(algo, MatchingBox, 6000)
    for obs, best in ((1.0, 4.0), (-1.0, 2.0)):
        action, _ = model.predict(np.full(1, obs, np.float32), deterministic=True)
        assert action[0] == pytest.approx(best, abs=0.5)
