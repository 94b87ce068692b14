"""Policies with `squash_output` in algorithms that learn from rollouts."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlzoo import A2C, GAIL, PPO, TRPO, ExpertDataset, RecurrentPPO, UserError
from rlzoo.algorithms.on_policy.ppo import ppo_loss

SQUASHED = {"squash_output": True, "log_std_init": 0.0}


def far_out(learner, policy="MlpPolicy", **kwargs):
    """An agent whose mean is 9 before the tanh."""
    model = learner(policy, "Pendulum-v1", use_sde=True, policy_kwargs=SQUASHED, seed=0, **kwargs)
    with torch.no_grad():
        model.policy.action_net.bias.fill_(9.0)
    return model


@pytest.mark.parametrize("learner, policy", [(PPO, "MlpPolicy"), (RecurrentPPO, "MlpLstmPolicy")])
def test_rollout_keeps_actions_before_the_tanh(learner, policy):
    model = far_out(learner, policy, n_steps=64, batch_size=16, n_epochs=1, learning_rate=0.0)
    seen = []
    update = model.update
    model.update = lambda rollout, counters: (
        seen.append(model.read_rollout(rollout)) or update(rollout, counters)
    )
    model.learn(64)
    columns = seen[0]
    u = columns.context["gaussian_actions"]
    assert (u > 7.3).any()
    assert torch.allclose(torch.tanh(u), columns.actions.reshape(u.shape))
    for batch in model.minibatches(columns, 16, model.rollout_buffer):
        assert torch.equal(torch.tanh(batch.context["gaussian_actions"]), batch.actions.reshape(-1, 1))


@pytest.mark.parametrize("learner", [PPO, A2C, TRPO])
def test_score_is_zero_on_average_far_out(learner):
    """E[d log pi / d mean] at the policy that acted; with an inverted tanh it is -7 at a mean of 9."""
    model = far_out(learner, n_steps=2048)
    columns = []
    model.update = lambda rollout, counters: columns.append(model.read_rollout(rollout)) or {}
    model.learn(2048)
    batch = columns[0]
    _, log_probs, _ = model.policy.evaluate_actions(batch.obs, batch.actions, **batch.context)
    (score,) = torch.autograd.grad(log_probs.mean(), [model.policy.action_net.bias])
    u = batch.context["gaussian_actions"]
    with torch.no_grad():
        dist = model.policy.get_distribution(batch.obs)
        exact = ((u - dist.mean) / dist.stddev.square()).mean()
    assert float(score) == pytest.approx(float(exact), abs=1e-4)


def test_entropy_bonus_has_a_gradient():
    model = PPO(
        "MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs=SQUASHED, n_steps=256, ent_coef=1.0, seed=0
    )
    columns = []
    model.update = lambda rollout, counters: columns.append(model.read_rollout(rollout)) or {}
    model.learn(256)
    batch = columns[0]
    zeros = torch.zeros(256)
    batch.advantages = batch.returns = batch.values = zeros
    with torch.no_grad():
        batch.log_probs = model.policy.evaluate_actions(batch.obs, batch.actions, **batch.context)[1]
    loss, _ = ppo_loss(model.policy, batch, 0.2, None, model.config)
    (of_loss,) = torch.autograd.grad(loss, [model.policy.log_std])
    entropy = model.policy.evaluate_actions(batch.obs, batch.actions)[2]
    (of_entropy,) = torch.autograd.grad(entropy.mean(), [model.policy.log_std])
    assert torch.allclose(of_loss, -of_entropy, atol=1e-6)
    assert float(of_entropy.abs().sum()) > 0.1


def test_squash_output_refuses_unbounded_actions():
    class Unbounded(gym.Wrapper):
        action_space = gym.spaces.Box(-np.inf, np.inf, (1,))

    with pytest.raises(UserError, match="infinite"):
        PPO("MlpPolicy", Unbounded(gym.make("Pendulum-v1")), use_sde=True, policy_kwargs=SQUASHED)


def test_gail_learns_with_a_squashed_policy(tmp_path):
    rng = np.random.default_rng(0)
    steps = {
        "obs": rng.normal(size=(64, 3)).astype(np.float32),
        "actions": rng.uniform(-2, 2, (64, 1)).astype(np.float32),
        "rewards": np.zeros(64),
        "episode_returns": np.zeros(1),
        "episode_starts": np.arange(64) == 0,
    }
    dataset = ExpertDataset(traj_data=steps, verbose=0)
    model = GAIL(
        "MlpPolicy", "Pendulum-v1", dataset, n_steps=64, use_sde=True, policy_kwargs=SQUASHED, seed=0
    )
    model.learn(128)
    assert all(torch.isfinite(p).all() for p in model.policy.parameters())
