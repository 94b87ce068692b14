"""Recurrent policies: updates against loops step by step, and tasks that nobody solves without."""

from __future__ import annotations

import copy
from itertools import pairwise
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import A2C, DQN, PPO, DummyVecEnv, RecurrentPPO, VecMonitor, evaluate_policy
from rlzoo.core.errors import UserError
from rlzoo.networks.lstm import OneStep

N_STEPS, N_ENVS = 6, 3
GAMMA, GAE_LAMBDA = 0.8, 0.9
ARRANGEMENTS = {
    "own": {},
    "actor's": {"shared_lstm": True, "enable_critic_lstm": False},
    "none": {"enable_critic_lstm": False},
    "both's": {"net_arch": [7, "lstm", {"pi": [5], "vf": []}]},
    "layers": {"n_lstm_layers": 2},
    "normalised": {"layer_norm": True},
}
ACTIONS = {"Discrete": spaces.Discrete(3), "Box": spaces.Box(-1, 1, (2,), np.float32)}


class RandomWalk(gym.Env):
    """Random observations and rewards; episodes end by chance, in either way."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def observe(self):
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def step(self, action):
        terminated, truncated = self.np_random.random(2) < 0.15
        return self.observe(), float(self.np_random.normal()), bool(terminated), bool(truncated), {}


def agent(cls, arrangement="own", actions="Discrete", **kwargs):
    env = DummyVecEnv([lambda: RandomWalk(ACTIONS[actions])] * N_ENVS)
    policy_kwargs = {"net_arch": [8], "lstm_hidden_size": 6, "ortho_init": False, **ARRANGEMENTS[arrangement]}
    policy_kwargs.update(kwargs.pop("policy_kwargs", {}))
    kwargs = {"n_steps": N_STEPS, "seed": 0, "device": "cpu", **kwargs}
    return cls("MlpLstmPolicy", env, policy_kwargs=policy_kwargs, **kwargs)


def recorded(model, n_updates, **kwargs):
    """What each update was given: the policy before it, the rollout, and the recurrent state around it."""
    updates, update = [], model.update

    def remember(rollout, counters):
        columns = ("obs_column", "action_column", "reward_column", "terminated", "truncated", "starts_column")
        rnn_state = {
            name: value[0].clone() for name, value in rollout.extra_columns.items() if name.startswith("lstm")
        }
        updates.append(
            SimpleNamespace(
                policy=copy.deepcopy(model.policy),
                finals=copy.deepcopy(rollout.finals()),
                rnn_state=rnn_state,
                state_after={name: value.clone() for name, value in model.rnn_state.items()},
                **{name: getattr(rollout, name).copy() for name in columns},
            )
        )
        return update(rollout, counters)

    model.update = remember
    model.learn(n_updates * N_STEPS * N_ENVS, **kwargs)
    return updates


def by_loop(given):
    """Log-probabilities, values, entropies, values of what follows, [n_steps, n_envs], and the last state.

    One environment after the other, one step after the other, with gradients back to the rollout's start.
    """
    finals = {}
    if given.finals is not None:
        final_obs, (steps, envs) = given.finals
        finals = {
            (int(t), int(e)): final_obs[row] for row, (t, e) in enumerate(zip(steps, envs, strict=True))
        }
    policy, rows, following, last = given.policy, {}, np.zeros((N_STEPS, N_ENVS), np.float32), {}
    for e in range(N_ENVS):
        rnn_state = {name: value[e : e + 1].clone() for name, value in given.rnn_state.items()}
        for t in range(N_STEPS):
            if given.starts_column[t, e]:
                rnn_state = policy.initial_state(1)
            run = OneStep(rnn_state)
            distribution, value = policy._distribution_and_values(as_row(given.obs_column[t, e]), run)
            action = as_row(given.action_column[t, e])
            rows[t, e] = distribution.log_prob(action)[0], value[0, 0], distribution.entropy()[0]
            rnn_state = run.after
            end = given.terminated[t, e] or given.truncated[t, e]
            seen_next = finals.get((t, e)) if end else given.obs_column[t + 1, e]
            if seen_next is not None:
                with torch.no_grad():
                    following[t, e] = policy.predict_values(as_row(seen_next), rnn_state=rnn_state)
        last[e] = {name: value.detach() for name, value in rnn_state.items()}
    columns = [
        torch.stack([torch.stack([rows[t, e][part] for e in range(N_ENVS)]) for t in range(N_STEPS)])
        for part in range(3)
    ]
    return *columns, following, {name: torch.cat([last[e][name] for e in range(N_ENVS)]) for name in last[0]}


def as_row(value):
    return torch.as_tensor(np.asarray(value)).unsqueeze(0)


def advantages_by_loop(given, values, following):
    advantages = np.zeros((N_STEPS, N_ENVS))
    for e in range(N_ENVS):
        later = 0.0
        for t in reversed(range(N_STEPS)):
            end = given.terminated[t, e] or given.truncated[t, e]
            next_value = 0.0 if given.terminated[t, e] else following[t, e]
            delta = given.reward_column[t, e] + GAMMA * next_value - values[t, e]
            later = delta + (0.0 if end else GAMMA * GAE_LAMBDA * later)
            advantages[t, e] = later
    return torch.tensor(advantages, dtype=torch.float32)


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("cls", [A2C, PPO, RecurrentPPO])
def test_an_update_is_one_step_along_the_gradient_of_a_loop(cls, arrangement, actions):
    """On the first pass the ratio of PPO is 1, and its gradient that of log pi A."""
    options = {
        "ent_coef": 0.05,
        "vf_coef": 0.3,
        "gamma": GAMMA,
        "gae_lambda": GAE_LAMBDA,
        "max_grad_norm": 1e9,
    }
    if cls is not A2C:
        options |= {"batch_size": N_STEPS * N_ENVS, "n_epochs": 1}
    sgd = {"policy_kwargs": {"optimizer_class": torch.optim.SGD}}
    model = agent(cls, arrangement, actions, normalize_advantage=True, learning_rate=0.2, **options, **sgd)
    updates = recorded(model, 3)
    n_ends = sum(int(given.truncated.sum() + given.terminated.sum()) for given in updates)
    assert n_ends > 5 and any(given.finals is not None for given in updates)
    for given, after in zip(updates, [*(given.policy for given in updates[1:]), model.policy], strict=True):
        log_probs, values, entropy, following, last_state = by_loop(given)
        baseline = values.detach()
        advantages = advantages_by_loop(given, baseline.numpy(), following)
        normalised = (advantages - advantages.mean()) / advantages.std()
        value_loss = (values - advantages - baseline).square().mean()
        objective = (log_probs * normalised).mean() - 0.3 * value_loss + 0.05 * entropy.mean()
        parameters = list(given.policy.parameters())
        gradients = torch.autograd.grad(objective, parameters)
        for parameter, gradient, learned in zip(parameters, gradients, after.parameters(), strict=True):
            expected = parameter.detach() + 0.2 * gradient
            torch.testing.assert_close(learned.detach(), expected, atol=2e-6, rtol=1e-4)
        for name, value in last_state.items():
            torch.testing.assert_close(value, given.state_after[name], atol=1e-5, rtol=1e-4)
    for given, later in pairwise(updates):
        for name, value in given.state_after.items():
            assert torch.equal(value, later.rnn_state[name]), "the next rollout continues from this state"


@pytest.mark.filterwarnings("ignore:batch_size")
@pytest.mark.parametrize("batch_size", [4, 13])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_cut_sequences_give_what_was_collected(arrangement, batch_size):
    model = agent(RecurrentPPO, arrangement, n_epochs=1, learning_rate=0.0, batch_size=batch_size)
    model.learn(3 * N_STEPS * N_ENVS)
    rollout = model.rollout_buffer
    batch = model.read_rollout(rollout)
    batch.log_probs, values, _ = model.old_values(rollout, batch)
    batch.values = torch.tensor(values).flatten()
    n_rows = 0
    for minibatch in model.minibatches(batch, batch_size, rollout):
        context = minibatch.context
        with torch.no_grad():
            values, log_probs, _ = model.policy.evaluate_actions(minibatch.obs, minibatch.actions, **context)
        torch.testing.assert_close(values.flatten(), minibatch.values, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(log_probs, minibatch.log_probs, atol=1e-5, rtol=1e-4)
        n_rows += len(log_probs)
    assert n_rows == N_STEPS * N_ENVS


def test_the_first_ratios_of_an_update_are_one():
    model = agent(RecurrentPPO, n_epochs=1, batch_size=N_STEPS * N_ENVS)
    metrics = []
    update = model.update
    model.update = lambda *args: metrics.append(update(*args)) or metrics[-1]
    model.learn(4 * N_STEPS * N_ENVS)
    assert all(float(one["clip_fraction"]) == 0 and abs(float(one["approx_kl"])) < 1e-6 for one in metrics)


# Tasks that need a recurrent state


class Recall(gym.Env):
    """A sign is shown at first and asked for at the end: +1 for the right answer, -1 for the wrong one."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    length = 4

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sign, self.t = float(self.np_random.choice([-1, 1])), 0
        return np.array([self.sign], np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        reward = (1.0 if (action == 1) == (self.sign > 0) else -1.0) if over else 0.0
        return np.zeros(1, np.float32), reward, over, False, {}


FAST = {"n_steps": 32, "batch_size": 256, "n_epochs": 8, "learning_rate": 5e-3}
LEARNERS = {
    "ppo_lstm": (RecurrentPPO, "MlpLstmPolicy", FAST),
    "ppo": (PPO, "MlpLstmPolicy", {**FAST, "batch_size": 128, "n_epochs": 6}),
    "ppo_ln": (PPO, "MlpLnLstmPolicy", FAST),
    "a2c": (A2C, "MlpLstmPolicy", {"n_steps": 8, "learning_rate": 3e-3}),
    "ppo_mlp": (PPO, "MlpPolicy", FAST),
}


def score(model, n_envs=3):
    return evaluate_policy(model, VecMonitor(DummyVecEnv([Recall] * n_envs)), n_eval_episodes=60)[0]


@pytest.mark.parametrize("name", LEARNERS)
def test_what_was_seen_is_remembered(name):
    cls, policy, options = LEARNERS[name]
    policy_kwargs = {"net_arch": [16], **({} if name == "ppo_mlp" else {"lstm_hidden_size": 16})}
    env = DummyVecEnv([Recall] * 8)
    model = cls(policy, env, policy_kwargs=policy_kwargs, seed=0, device="cpu", gamma=0.95, **options)
    model.learn(10_000)
    if name == "ppo_mlp":
        assert abs(score(model)) < 0.6
    else:
        assert score(model) > 0.9 and score(model, n_envs=1) > 0.9


class EndlessCount(gym.Env):
    """Reward 1 for ever, cut off after 5 steps: V = 1 / (1 - gamma), not less."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, False, self.t == 5, {}


@pytest.mark.parametrize("name", ["ppo_lstm", "a2c"])
def test_a_truncated_episode_is_worth_its_future(name):
    """The LSTM could count to five and would, if the end of the counting were the end of all."""
    cls, policy, options = LEARNERS[name]
    env = DummyVecEnv([EndlessCount] * 8)
    kwargs = {"net_arch": [16], "lstm_hidden_size": 16}
    model = cls(policy, env, policy_kwargs=kwargs, seed=0, device="cpu", gamma=0.8, **options)
    model.learn(12_000)
    rnn_state, values = model.policy.initial_state(1), []
    with torch.no_grad():
        for _ in range(5):
            _, value, _, rnn_state = model.policy.step(
                torch.zeros(1, 1), rnn_state, torch.zeros(1, dtype=torch.bool)
            )
            values.append(float(value))
    np.testing.assert_allclose(values, 1 / (1 - 0.8), atol=0.5)


# The public face


def test_probabilities_are_those_of_the_state():
    model = agent(RecurrentPPO)
    obs = np.random.default_rng(0).uniform(-1, 1, (2, N_ENVS, 4)).astype(np.float32)
    _, state = model.predict(obs[0])
    rnn_state = model.policy.rnn_state_from(state, None, N_ENVS)
    with torch.no_grad():
        expected = model.policy.get_distribution(torch.tensor(obs[1]), rnn_state=rnn_state).probs.numpy()
    probabilities = model.action_probability(obs[1], state)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert np.abs(probabilities - model.action_probability(obs[1])).max() > 1e-4
    fresh = model.action_probability(obs[1], state, mask=np.ones(N_ENVS, bool))
    np.testing.assert_allclose(fresh, model.action_probability(obs[1]), atol=1e-6)
    of_actions = model.action_probability(obs[1], state, actions=[0, 1, 2])
    np.testing.assert_allclose(of_actions, expected[np.arange(3), [0, 1, 2]], atol=1e-6)


def test_mask_is_the_old_name_of_episode_start():
    model = agent(RecurrentPPO)
    obs = np.ones((N_ENVS, 4), np.float32)
    _, state = model.predict(obs)
    _, old = model.predict(obs, state=state, mask=[True] * N_ENVS)
    _, new = model.predict(obs, state=state, episode_start=np.ones(N_ENVS, bool))
    np.testing.assert_array_equal(old, new)


def test_values_in_locals_are_those_of_the_memory():
    seen = []
    model = agent(RecurrentPPO, batch_size=N_STEPS * N_ENVS)
    model.learn(N_STEPS * N_ENVS, callback=lambda locals_, _: seen.append(locals_["values"].flatten()))
    assert torch.equal(torch.stack(seen), model.rollout_buffer.extra_columns["values"])


def test_other_n_envs_resets_the_rnn_state():
    model = agent(RecurrentPPO).learn(N_STEPS * N_ENVS)
    model.replace_env(DummyVecEnv([lambda: RandomWalk(ACTIONS["Discrete"])] * 2))
    model.learn(2 * N_STEPS)
    assert all(len(value) == 2 for value in model.rnn_state.values())


def test_noise_that_depends_on_the_state():
    model = agent(RecurrentPPO, actions="Box", use_sde=True, sde_sample_freq=2, batch_size=6)
    before = model.flat.vector.detach().clone()
    model.learn(2 * N_STEPS * N_ENVS)
    assert model.n_updates > 0 and (model.flat.vector != before).any()


def test_dropout_is_for_updates_alone():
    kwargs = {"n_lstm_layers": 2, "lstm_kwargs": {"dropout": 0.5}}
    model = agent(RecurrentPPO, policy_kwargs=kwargs, batch_size=N_STEPS * N_ENVS)
    assert model.has_train_mode_layers
    model.learn(N_STEPS * N_ENVS)
    model.set_training_mode(False)
    obs, rnn_state = torch.ones(2, 4), model.policy.initial_state(2)
    first, second = (model.policy.predict_values(obs, rnn_state=rnn_state) for _ in range(2))
    assert torch.equal(first, second)


def test_the_right_policy_for_the_right_algorithm():
    env = DummyVecEnv([lambda: RandomWalk(ACTIONS["Discrete"])])
    with pytest.raises(UserError, match="MlpPolicy is not recurrent"):
        RecurrentPPO("MlpPolicy", env)
    with pytest.raises(UserError, match="MlpLstmPolicy is recurrent"):
        DQN("MlpLstmPolicy", env)
