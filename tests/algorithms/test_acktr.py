"""ACKTR: its objective, its Fisher matrix, and one update against both."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import ACKTR, BaseFeaturesExtractor, DummyVecEnv
from rlzoo.algorithms.on_policy.acktr import acktr_loss, sampled_log_likelihood
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.returns import gae
from rlzoo.core.schedules import Counters
from rlzoo.distributions import Categorical, DiagGaussian

SPACES = {"Discrete": spaces.Discrete(3), "Box": spaces.Box(-1, 1, (2,), np.float32)}


class RandomWalk(gym.Env):
    """Random observations and rewards; episodes of five steps at most."""

    observation_space = spaces.Box(-1, 1, (3,))

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def observe(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action):
        self.steps += 1
        ended = self.np_random.random() < 0.1
        return self.observe(), float(self.np_random.normal() + np.sum(action)), ended, self.steps == 5, {}


def agent(space="Discrete", policy="MlpPolicy", **kwargs):
    env = DummyVecEnv([lambda: RandomWalk(SPACES[space])] * 3)
    options = {"n_steps": 8, "seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    return ACKTR(policy, env, **{**options, **kwargs})


def test_the_objective_is_its_definition():
    rng = torch.Generator().manual_seed(0)
    values, log_probs, entropy, advantages, returns = torch.randn(5, 7, generator=rng)
    config = ACKTR.Config(vf_coef=0.3, ent_coef=0.2)
    expected = (
        -(advantages * log_probs).mean() + 0.3 * ((values - returns) ** 2).mean() - 0.2 * entropy.mean()
    )
    loss, _ = acktr_loss(values, log_probs, entropy, advantages, returns, config)
    torch.testing.assert_close(loss, expected)


def test_sampled_scores_have_the_fisher_covariance():
    """diag(p) - p p^T for logits, 1 / variance for means, and a multiple of 1 for values."""
    torch.manual_seed(0)
    logits = torch.tensor([0.5, -1.0, 0.2]).repeat(200_000, 1).requires_grad_()
    values = torch.zeros(200_000, requires_grad=True)
    log_likelihood = sampled_log_likelihood(Categorical(3).proba_distribution(logits), values, 0.5)
    of_logits, of_values = torch.autograd.grad(log_likelihood.sum(), (logits, values))
    probs = logits[0].detach().softmax(-1)
    fisher = torch.diag(probs) - torch.outer(probs, probs)
    torch.testing.assert_close(of_logits.T @ of_logits / 200_000, fisher, atol=2e-3, rtol=0)
    assert float(of_values.square().mean()) == pytest.approx(VALUE_SCALE(0.5), rel=0.02)

    means = torch.zeros(200_000, 1, requires_grad=True)
    gaussian = DiagGaussian(1).proba_distribution(means, torch.tensor([0.7]))
    (of_means,) = torch.autograd.grad(sampled_log_likelihood(gaussian, values, 0.0).sum(), means)
    assert float(of_means.square().mean()) == pytest.approx(float(np.exp(-1.4)), rel=0.02)


def VALUE_SCALE(coefficient):
    """(2 c)^2: the score of -c (V - v)^2 with v of variance one."""
    return 4 * coefficient**2


@pytest.mark.parametrize("gae_lambda", [None, 0.7])
@pytest.mark.parametrize("space", SPACES)
def test_acktr_update_is_a_clipped_natural_gradient(space, gae_lambda):
    options = {"gae_lambda": gae_lambda, "gamma": 0.8, "vf_coef": 0.4, "ent_coef": 0.05, "max_grad_norm": 1e9}
    model = agent(space, learning_rate=10.0, momentum=0.0, **options)
    model.learn(24)  # collects a rollout; then the same again, by hand
    rollout, policy = model.rollout_buffer, model.policy
    obs, actions = rollout.flat_obs(model.device), rollout.flat_actions(model.device)
    values, log_probs, entropy = policy.evaluate_actions(obs, actions)
    baseline = values.detach().numpy().reshape(8, 3)
    ended = (rollout.terminated, rollout.truncated)
    next_values = model.next_values(rollout, baseline)
    advantages, returns = gae(rollout.reward_column, baseline, next_values, *ended, 0.8, gae_lambda or 1.0)
    advantages, returns = (torch.from_numpy(array.reshape(-1)) for array in (advantages, returns))
    objective = (advantages * log_probs).mean() - 0.4 * (values.flatten() - returns).square().mean()
    objective = objective + 0.05 * entropy.mean()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(objective, list(policy.parameters()))])
    before = model.flat.vector.detach().clone()

    model.update(rollout, Counters(total_timesteps=100))
    model.flat.vector.grad.copy_(gradient)
    model.factors.precondition(model.damping)
    natural = model.flat.vector.grad
    length = min(10.0, float((2 * model.kfac_clip / (natural @ gradient)).sqrt()))
    assert length < 10
    torch.testing.assert_close(model.flat.vector.detach(), before + length * natural, atol=1e-5, rtol=1e-4)


def moved(model, counters):
    before = model.flat.vector.detach().clone()
    model.update(model.rollout_buffer, counters)
    return float((model.flat.vector.detach() - before).norm() / model.flat.vector.grad.norm())


def test_acktr_learning_rate_follows_its_schedule():
    model = agent(learning_rate="lin_0.4", kfac_clip=1e9, max_grad_norm=1e9).learn(24)
    model.momentum = 0.0
    assert moved(model, Counters(num_timesteps=75, total_timesteps=100)) == pytest.approx(0.1, rel=1e-3)


def rates(model):
    return [model.schedules["learning_rate"](remaining) for remaining in (1.0, 0.5, 0.0)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.25, 0.125, 0.0]),
        ({"learning_rate": 0.06}, [0.06, 0.03, 0.0]),
        ({"learning_rate": 0.06, "lr_schedule": "constant"}, [0.06, 0.06, 0.06]),
        ({"lr_schedule": "double_linear_con"}, [0.25, 0.25 / 8, 0.25 / 8]),
        ({"learning_rate": "const_0.06"}, [0.06, 0.06, 0.06]),
        ({"learning_rate": "lin_0.06_0.02"}, [0.06, 0.04, 0.02]),
    ],
)
def test_a_learning_rate_goes_by_its_schedule(options, expected, tmp_path):
    model = agent(**options)
    assert rates(model) == pytest.approx(expected)
    model.save(tmp_path / "agent")
    assert rates(ACKTR.load(tmp_path / "agent")) == pytest.approx(expected)


def test_a_learning_rate_or_its_schedule_may_be_assigned():
    model = agent()
    model.learning_rate = 0.1
    assert rates(model) == pytest.approx([0.1, 0.05, 0.0])
    model.lr_schedule = "constant"
    assert rates(model) == pytest.approx([0.1, 0.1, 0.1])
    with pytest.raises(UserError, match="did you mean 'linear'"):
        model.lr_schedule = "linaer"
    assert rates(model) == pytest.approx([0.1, 0.1, 0.1])
    model.learning_rate = "lin_1"
    assert rates(model) == pytest.approx([1.0, 0.5, 0.0])


def test_the_optimiser_cannot_be_replaced():
    with pytest.raises(UserError, match="optimizer_class in policy_kwargs is of no use"):
        agent(policy_kwargs={"optimizer_class": torch.optim.Adam})


class Normalized(BaseFeaturesExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, observations):
        return self.norm(observations)


def test_acktr_names_unfactorable_layers():
    with pytest.raises(UserError, match=r"features_extractor\.norm .BatchNorm1d.; use Linear.*A2C") as error:
        agent(policy_kwargs={"features_extractor_class": Normalized})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "MlpLnLstmPolicy"])
def test_recurrent_policies_learn(policy):
    model = agent(policy=policy, policy_kwargs={"net_arch": [8], "lstm_hidden_size": 8}, ent_coef=0.01)
    before = {name: value.detach().clone() for name, value in model.policy.named_parameters()}
    model.learn(240)
    after = dict(model.policy.named_parameters())
    assert [name for name, value in before.items() if torch.equal(value, after[name])] == []
    assert all(value.isfinite().all() for value in after.values())


@pytest.mark.parametrize(
    "options", [{"momentum": 1.0}, {"stats_decay": 1.0}, {"damping": 0}, {"kfac_update": 0}]
)
def test_values_out_of_range_are_refused(options):
    with pytest.raises(UserError, match=next(iter(options))):
        agent(**options)


@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize(
    ("policy", "network"), [("MlpPolicy", {}), ("MlpLstmPolicy", {"lstm_hidden_size": 8})]
)
def test_training_goes_on_to_the_bit(policy, network, aside, tmp_path):
    options = {"async_eigen_decomp": aside, "kfac_update": 2, "policy_kwargs": {"net_arch": [8], **network}}
    model = agent("Box", policy, **options)
    model.learn(24 * 5)
    model.save(tmp_path / "agent")
    model.env.seed(model.restart_seed())
    model._last_obs = None
    model.learn(24 * 6, reset_num_timesteps=False)

    torch.manual_seed(99)
    again = ACKTR.load(tmp_path / "agent", env=agent("Box").env, device="cpu")
    again.learn(24 * 6, reset_num_timesteps=False)
    assert again.n_updates == model.n_updates == 11
    assert torch.equal(model.flat.vector, again.flat.vector)
    mine, other = (each.factors.state_dict() for each in (model, again))
    assert mine["n_averages"] == other["n_averages"] and bool(mine["awaited"]) is aside
    assert mine["averages"].keys() == other["averages"].keys()
    assert all(torch.equal(value, other["averages"][name]) for name, value in mine["averages"].items())


def test_damaged_factors_are_a_line(tmp_path):
    model = agent().learn(48)
    model.factors.averages["value_net.A"] = torch.zeros(2, 2)
    model.save(tmp_path / "agent")
    with pytest.raises(CheckpointError, match=r"value_net\.A is \(2, 2\), not \(9, 9\)"):
        ACKTR.load(tmp_path / "agent", device="cpu")
