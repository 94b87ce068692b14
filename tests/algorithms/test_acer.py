"""The equations of ACER against their definitions, and when it replays what."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import ACER, DummyVecEnv, VecFrameStack, VecNormalize
from rlzoo.algorithms.off_policy.acer import policy_gradient, trust_region
from rlzoo.buffers.trajectories import Trajectories
from rlzoo.core.errors import UserError
from rlzoo.core.returns import retrace
from rlzoo.core.schedules import Counters
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer

N, N_ACTIONS = 12, 4


class RandomWalk(gym.Env):
    """Episodes of four steps, of which every other is truncated."""

    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(N_ACTIONS)

    def __init__(self):
        self.episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.observe(), {}

    def observe(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action):
        self.steps += 1
        over, truncated = self.steps == 4, self.episodes % 2 == 0
        return (
            self.observe(),
            float(self.np_random.normal() + action),
            over and not truncated,
            over and truncated,
            {},
        )


def agent(policy="MlpPolicy", n_envs=3, **kwargs):
    options = {"n_steps": 10, "seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    return ACER(policy, DummyVecEnv([RandomWalk] * n_envs), **{**options, **kwargs})


def random_rows():
    rng = torch.Generator().manual_seed(0)
    logits, log_mu, q = (torch.randn(N, N_ACTIONS, generator=rng, dtype=torch.float64) for _ in range(3))
    actions = torch.randint(N_ACTIONS, (N,), generator=rng)
    targets = torch.randn(N, generator=rng, dtype=torch.float64)
    return logits.mul(2).log_softmax(1), log_mu.mul(2).log_softmax(1), actions, q, targets


def test_acer_gradient_is_truncated_with_bias_correction():
    """Eq. 7 and the entropy, row by row, differentiated with respect to the probabilities."""
    log_probs, log_mu, actions, q, targets = random_rows()
    config = ACER.Config(correction_term=1.5, ent_coef=0.3)
    f = log_probs.exp().requires_grad_()
    now, mu = f.detach(), log_mu.exp()
    objective = 0.0
    for row in range(N):
        a, value = actions[row], now[row] @ q[row]
        rho = now[row] / mu[row]
        objective = objective + min(1.5, rho[a]) * (targets[row] - value) * f[row, a].log()
        for b in range(N_ACTIONS):
            weight = max(0.0, float(1 - 1.5 / rho[b])) * now[row, b]
            objective = objective + weight * (q[row, b] - value) * f[row, b].log()
        objective = objective - 0.3 * (f[row] * f[row].log()).sum()
    (expected,) = torch.autograd.grad(objective, f)
    found = policy_gradient(log_probs, log_mu, actions, q, targets, config)
    torch.testing.assert_close(found, expected)
    assert ((now / mu) > 1.5).any() and ((now / mu) < 1.5).any()


def test_the_correction_makes_truncated_weights_unbiased():
    """Over actions of mu, the gradient is that of E_pi[Q], whatever the weights are truncated at."""
    log_probs, log_mu, _, q, _ = random_rows()
    found = []
    for c in (0.5, 1e9):
        config, total = ACER.Config(correction_term=c, ent_coef=0.0), 0.0
        for a in range(N_ACTIONS):
            actions = torch.full((N,), a)
            # E_mu of the first term, and the second counted once
            g = policy_gradient(log_probs, log_mu, actions, q, q[:, a], config)
            total = total + log_mu.exp()[:, a : a + 1] * g
        found.append(total)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_the_trust_region_is_the_projection_on_a_half_space(delta):
    """min |z - g|^2 subject to k.z <= delta has z = g, or z on the border with g - z along k."""
    log_probs, log_average, *_ = random_rows()
    probs, average = log_probs.exp(), log_average.exp()
    g = 3 * torch.randn(N, N_ACTIONS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    f = probs.clone().requires_grad_()
    kl = (average * (average.log() - f.log())).sum()
    (k,) = torch.autograd.grad(kl, f)
    z = trust_region(g, probs, average, delta)
    inside = (k * g).sum(1) <= delta
    assert inside.any() and not inside.all()
    torch.testing.assert_close(z[inside], g[inside])
    torch.testing.assert_close(
        (k * z).sum(1)[~inside], torch.full((int((~inside).sum()),), delta, dtype=z.dtype)
    )
    multiple = (g - z)[~inside] / k[~inside]
    torch.testing.assert_close(multiple, multiple[:, :1].expand_as(multiple))
    assert (multiple > 0).all()


def collected(model):
    """The rollout that a model has just made, with its trajectories."""
    model.learn(model.n_steps * model.n_envs)
    return Trajectories.of_rollout(model.rollout_buffer, ())


def networks(policy, obs):
    extractor = policy.mlp_extractor
    return policy.action_net(extractor.policy_net(obs)).log_softmax(1), policy.value_net(
        extractor.value_net(obs)
    )


@pytest.mark.parametrize("trusted", [False, True])
def test_an_update_is_one_step_along_the_gradient(trusted):
    """Every row evaluated by itself, final observations too; plain gradient ascent."""
    sgd = {"optimizer_class": torch.optim.SGD, "net_arch": [8]}
    options = {"trust_region": trusted, "delta": 0.01, "ent_coef": 0.05, "q_coef": 0.7, "gamma": 0.9}
    model = agent(
        replay_ratio=0, learning_rate="const_0.5", max_grad_norm=1e9, alpha=0.5, policy_kwargs=sgd, **options
    )
    trajectories = collected(model)  # its update has moved the policy away from the one that acted
    assert trajectories.finals is not None and trajectories.terminated.any()
    policy = model.policy
    obs = torch.from_numpy(trajectories.obs[:-1].reshape(-1, 3).copy())
    log_probs, q = networks(policy, obs)
    with torch.no_grad():
        average_probs = networks(model.average_policy, obs)[0].exp()
        following = trajectories.obs[1:].copy()
        following[trajectories.finals[1]] = trajectories.finals[0]
        next_log_probs, next_q = networks(policy, torch.from_numpy(following.reshape(-1, 3)))
        next_values = (next_log_probs.exp() * next_q).sum(1)
        actions = torch.from_numpy(trajectories.actions.reshape(-1).copy())
        log_mu = torch.from_numpy(trajectories.log_mu.reshape(-1, N_ACTIONS).copy())
        taken = actions[:, None]
        ratios = (log_probs - log_mu).exp().gather(1, taken)
        shaped = [part.reshape(10, 3).numpy() for part in (q.gather(1, taken), next_values, ratios)]
        ended = (trajectories.terminated, trajectories.truncated)
        targets = torch.from_numpy(retrace(trajectories.rewards, *shaped, *ended, 0.9).reshape(-1))
        z = policy_gradient(log_probs, log_mu, actions, q, targets, model.config)
        if trusted:
            projected = trust_region(z, log_probs.exp(), average_probs, 0.01)
            assert not torch.equal(projected, z)
            z = projected
    assert not torch.allclose(ratios, torch.ones(()))
    objective = (z * log_probs.exp()).sum(1).mean()
    objective = objective - 0.7 * 0.5 * (targets - q.gather(1, taken).flatten()).square().mean()
    gradients = torch.autograd.grad(objective, list(policy.parameters()))
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    average_before = [parameter.clone() for parameter in model.average_policy.parameters()]

    model._learn(trajectories, Counters())
    for parameter, old, gradient in zip(policy.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), old + 0.5 * gradient, atol=1e-5, rtol=1e-4)
    for average, old, new in zip(
        model.average_policy.parameters(), average_before, policy.parameters(), strict=True
    ):
        torch.testing.assert_close(average, 0.5 * old + 0.5 * new.detach())


def test_values_are_expected_q_values():
    policy = agent().policy
    obs = torch.randn(5, 3)
    log_probs, q = networks(policy, obs)
    values = (log_probs.exp() * q).sum(1, keepdim=True)
    torch.testing.assert_close(policy.predict_values(obs), values)
    torch.testing.assert_close(policy.evaluate_actions(obs, torch.zeros(5, dtype=torch.long))[0], values)
    torch.testing.assert_close(policy(obs)[1], values)
    assert [part.shape for part in policy.log_probs_and_q_values(obs)] == [(5, N_ACTIONS)] * 2


def test_the_behaviour_is_kept_as_it_acted():
    model = agent(learning_rate=0.0, replay_ratio=0)
    trajectories = collected(model)
    with torch.no_grad():
        log_probs, _ = networks(model.policy, torch.from_numpy(trajectories.obs[:-1].reshape(-1, 3)))
    np.testing.assert_allclose(trajectories.log_mu.reshape(-1, N_ACTIONS), log_probs.numpy(), atol=1e-6)


def test_acer_replay_starts_and_repeats_as_configured():
    model = agent(replay_start=30, replay_ratio=3, buffer_size=50)
    updates = [0]

    def count(locals_, _):
        if model.n_updates != updates[-1]:
            updates.append(model.n_updates)

    model.learn(2010, count)
    steps = np.diff(updates)
    assert list(steps[:2]) == [1, 1]  # two rollouts are not yet 30 steps of each environment
    assert len(np.unique(steps[2:])) > 3 and steps[2:].mean() == pytest.approx(4, abs=0.6)
    assert model.replay_buffer.steps_held == 50 and len(model.replay_buffer) == 150


def test_without_replay_every_rollout_is_one_update():
    model = agent(replay_ratio=0).learn(300)
    assert model.n_updates == 10 and len(model.replay_buffer) == 0


def test_a_learning_rate_falls_linearly_unless_told_otherwise():
    for options, expected in (
        ({}, [7e-4, 3.5e-4, 0.0]),
        ({"learning_rate": 0.01}, [0.01, 0.005, 0.0]),
        ({"lr_schedule": "constant"}, [7e-4, 7e-4, 7e-4]),
    ):
        schedule = agent(**options).schedules["learning_rate"]
        assert [schedule(remaining) for remaining in (1.0, 0.5, 0.0)] == pytest.approx(expected)


def test_the_optimiser_is_the_one_that_was_asked_for():
    group = agent(rprop_alpha=0.9, rprop_epsilon=1e-3).policy.optimizer.param_groups[0]
    assert (group["alpha"], group["eps"]) == (0.9, 1e-3)
    adam = {"optimizer_class": torch.optim.Adam}
    assert isinstance(agent(policy_kwargs=adam).policy.optimizer, torch.optim.Adam)


def test_box_actions_are_refused_in_one_line():
    with pytest.raises(UserError, match="ACER does not support Box actions; it supports Discrete"):
        ACER("MlpPolicy", "Pendulum-v1")


def test_replay_buffer_below_replay_start_is_refused():
    with pytest.raises(UserError, match=r"replay_start \(1000\).*buffer_size \(500\)"):
        agent(buffer_size=500)


def test_a_policy_that_is_no_actor_critic_is_refused_in_one_line():
    class Other(nn.Module):
        pass

    with pytest.raises(UserError, match="Other has no Q values"):
        agent(Other, policy_kwargs=None)


LSTM = {"lstm_hidden_size": 8, "net_arch": [8]}


def test_recurrent_probabilities_are_those_that_acted():
    """Run over sequences with the stored hidden state, a policy that has not changed says the same."""
    options = {"learning_rate": 0.0, "replay_start": 20, "replay_ratio": 2, "buffer_size": 40}
    model = agent("MlpLstmPolicy", policy_kwargs=LSTM, **options)
    model.learn(400)
    for _ in range(5):
        drawn = model.replay_buffer.sample()
        obs, sequences = drawn.all_obs(model.device), drawn.sequences(model.device)
        with torch.no_grad():
            log_probs, _ = model.policy.log_probs_and_q_values(obs, sequences=sequences)
        np.testing.assert_allclose(log_probs[:30].numpy(), drawn.log_mu.reshape(30, -1), atol=1e-5)


@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "MlpLnLstmPolicy"])
def test_recurrent_policies_learn_from_replay(policy):
    options = {"replay_start": 20, "replay_ratio": 2, "buffer_size": 40}
    model = agent(policy, policy_kwargs=LSTM, **options)
    before = {name: value.detach().clone() for name, value in model.policy.named_parameters()}
    model.learn(400)
    assert model.n_updates > 20
    assert [name for name, value in model.policy.named_parameters() if torch.equal(value, before[name])] == []


@pytest.mark.parametrize(("policy", "network"), [("MlpPolicy", {"net_arch": [8]}), ("MlpLstmPolicy", LSTM)])
def test_training_goes_on_to_the_bit_with_its_trajectories(policy, network, tmp_path):
    options = {"replay_start": 20, "replay_ratio": 2, "buffer_size": 40, "policy_kwargs": network}
    model = agent(policy, **options)
    model.learn(30 * 6)
    model.save(tmp_path / "agent")
    model.save_replay_buffer(tmp_path / "replay")
    model.env.seed(model.restart_seed())
    for env in model.env.envs:
        env.unwrapped.episodes = 0  # as in a new environment
    model._last_obs = None
    model.learn(30 * 8, reset_num_timesteps=False)

    torch.manual_seed(99)
    again = ACER.load(tmp_path / "agent", env=DummyVecEnv([RandomWalk] * 3), device="cpu")
    again.load_replay_buffer(tmp_path / "replay")
    again.learn(30 * 8, reset_num_timesteps=False)
    assert again.n_updates == model.n_updates > 20
    for mine, other in ((model.policy, again.policy), (model.average_policy, again.average_policy)):
        assert all(map(torch.equal, mine.parameters(), other.parameters()))
    for name, array in model.replay_buffer.arrays().items():
        np.testing.assert_array_equal(array, again.replay_buffer.arrays()[name])


class Steps(RandomWalk):
    """Observations of double precision, at an offset that single precision rounds; a reward of 1."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observe(self):
        return 1e8 + self.np_random.normal(0, 0.01, 2)

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, 1.0, *rest


def normalised(n_stack=1, **kwargs):
    env = VecNormalize(DummyVecEnv([Steps] * 2))
    env = VecFrameStack(env, n_stack) if n_stack > 1 else env
    options = {"n_steps": 10, "replay_start": 20, "buffer_size": 100, "seed": 0, "device": "cpu"}
    return ACER("MlpPolicy", env, **{**options, **kwargs})


@pytest.mark.parametrize("n_stack", [1, 2])
def test_replayed_trajectories_are_scaled_by_present_statistics(n_stack):
    model, shown = normalised(n_stack), []
    learn = model._learn
    model._learn = lambda trajectories, counters: (shown.append(trajectories), learn(trajectories, counters))[
        1
    ]
    normalize = model.get_vec_normalize_env()
    model.learn(200)
    normalize.training = False
    normalize.obs_rms.mean, normalize.obs_rms.var = np.full(2, 1e8 + 0.02), np.full(2, 1e-4)
    normalize.ret_rms.var = np.float64(16.0)
    model.learn(20, reset_num_timesteps=False)  # the first observations of this rollout are of before
    shown.clear()
    model.learn(100, reset_num_timesteps=False)
    assert len(shown) > 10
    for trajectories in shown:
        np.testing.assert_allclose(trajectories.rewards, 0.25)
        assert trajectories.obs.dtype == np.float32
    means = [one.obs[..., -2:].mean() for one in shown]
    np.testing.assert_allclose(means, -2, atol=0.7)  # 0.02 is two standard deviations
    finals = np.concatenate([one.finals[0][..., -2:] for one in shown if one.finals])
    assert abs(finals.mean() + 2) < 0.5


def without_stored(data):
    """The bytes of a file as earlier versions wrote them."""
    length = int.from_bytes(data[:8], "little")
    tree = json.loads(data[8 : 8 + length])
    del tree["__metadata__"]["stored"]
    header = json.dumps(tree).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def test_trajectories_scaled_by_an_earlier_version_can_be_loaded(tmp_path):
    older, path = normalised(), tmp_path / "older.safetensors"
    older.keeps_raw_rollouts = False
    older.learn(60)
    older.save_replay_buffer(path)
    path.write_bytes(without_stored(path.read_bytes()))
    model = normalised()
    model.get_vec_normalize_env().load_state_dict(older.get_vec_normalize_env().state_dict())
    model.load_replay_buffer(path)
    torch.manual_seed(0)
    expected = older.replay_buffer.sample()
    torch.manual_seed(0)
    raw = model.replay_buffer.sample()
    assert raw.obs.dtype == np.float64
    found = raw.scaled(ExperienceNormalizer.of(model.env))
    np.testing.assert_allclose(found.rewards, expected.rewards, rtol=1e-5)
    held = len(model.replay_buffer)
    model.learn(40)
    assert len(model.replay_buffer) == held + 40


def test_acer_resume_without_buffer_collects_first(tmp_path):
    model = agent(replay_start=20, replay_ratio=5, buffer_size=40).learn(300)
    model.save(tmp_path / "agent")
    again = ACER.load(tmp_path / "agent", env=DummyVecEnv([RandomWalk] * 3), device="cpu")
    again.learn(30, reset_num_timesteps=False)
    assert again.n_updates == model.n_updates + 1


class OneStep(gym.Env):
    """The reward is the observation where the action is 1, else nothing."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = np.float32(self.np_random.choice([-1.0, 1.0]))
        return np.array([self.shown]), {}

    def step(self, action):
        return np.array([self.shown]), float(self.shown * action), True, False, {}


def test_acer_learns_q_values_and_acts_greedily():
    options = {"n_steps": 5, "replay_start": 20, "buffer_size": 200, "learning_rate": 5e-3, "ent_coef": 0.0}
    model = ACER("MlpPolicy", DummyVecEnv([OneStep] * 4), seed=0, device="cpu", **options).learn(4000)
    shown = torch.tensor([[1.0], [-1.0]])
    assert model.predict(shown.numpy(), deterministic=True)[0].tolist() == [1, 0]
    with torch.no_grad():
        log_probs, q = model.policy.log_probs_and_q_values(shown)
    assert log_probs.exp().amax(1).min() > 0.9
    torch.testing.assert_close(
        q.gather(1, torch.tensor([[1], [0]])), torch.tensor([[1.0], [0.0]]), atol=0.1, rtol=0
    )


class Endless(gym.Env):
    """One unit of reward per step; every third step is truncated."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, False, self.steps == 3, {}


def test_a_truncated_episode_is_worth_its_future():
    options = {"n_steps": 5, "replay_start": 20, "buffer_size": 200, "learning_rate": 5e-3, "gamma": 0.8}
    model = ACER("MlpPolicy", DummyVecEnv([Endless] * 4), seed=0, device="cpu", **options).learn(6000)
    with torch.no_grad():
        assert float(model.policy.predict_values(torch.zeros(1, 1))) == pytest.approx(5, abs=0.4)
