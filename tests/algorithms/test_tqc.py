"""Gradient steps of TQC against its equations, written out anew in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import distributions as td

from rlzoo import TQC, DummyVecEnv, UserError
from rlzoo.algorithms.off_policy.tqc import (
    tqc_actor_loss,
    tqc_critic_loss,
    tqc_target,
    truncate_quantiles,
)
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from tests.algorithms.idle_env import IdleEnv

BATCH, TAU, GAMMA, LR, N_QUANTILES = 16, 0.1, 0.9, 0.05, 5


def agent(**kwargs):
    policy_kwargs = {"net_arch": [16, 8], "n_quantiles": N_QUANTILES, "optimizer_class": torch.optim.SGD}
    kwargs["policy_kwargs"] = {**policy_kwargs, **kwargs.get("policy_kwargs", {})}
    kwargs = {"learning_rate": LR, "tau": TAU, "gamma": GAMMA, "buffer_size": 100, **kwargs}
    model = TQC("MlpPolicy", DummyVecEnv([IdleEnv]), seed=0, device="cpu", **kwargs)
    torch.manual_seed(1)
    with torch.no_grad():  # targets that differ from what they follow, and quantiles further apart
        for parameter in model.policy.critic_target.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_of(seed=0, weights=None):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    discounts = GAMMA * (torch.rand(BATCH, generator=generator) > 0.3).float()
    actions = torch.rand(BATCH, 2, generator=generator) * 2 - 1
    return ReplayBatch(normal(BATCH, 3), actions, normal(BATCH, 3), normal(BATCH), discounts, None, weights)


def parameters(model):
    state = {name: value.double().clone() for name, value in model.policy.state_dict().items()}
    return {name: value.requires_grad_() for name, value in state.items()}


def linear(values, name, x):
    return x @ values[f"{name}.weight"].T + values[f"{name}.bias"]


def act(values, obs, noise):
    """Actions for unit noise, and their log-densities by the change of variables."""
    hidden = linear(values, "actor.latent_pi.0", obs.double()).clamp(min=0)
    hidden = linear(values, "actor.latent_pi.2", hidden).clamp(min=0)
    mean, log_std = linear(values, "actor.mu", hidden), linear(values, "actor.log_std", hidden)
    before = mean + log_std.exp() * noise.double()
    log_prob = td.Normal(mean, log_std.exp()).log_prob(before) - (1 - before.tanh() ** 2).log()
    return before.tanh(), log_prob.sum(dim=1)


def quantiles(values, name, obs, actions, n_critics):
    """[n_critics][batch, n_quantiles]"""
    joint = torch.cat([obs.double(), actions.double()], dim=1)
    found = []
    for i in range(n_critics):
        x = linear(values, f"{name}.qf{i}.0", joint).clamp(min=0)
        x = linear(values, f"{name}.qf{i}.2", x).clamp(min=0)
        found.append(linear(values, f"{name}.qf{i}.4", x))
    return found


def pooled_targets(values, batch, noise, alpha, n_critics, n_drop):
    """One list of k numbers for each row: the smallest of all critics' quantiles, backed up."""
    next_actions, next_log_probs = act(values, batch.next_observations, noise)
    found = quantiles(values, "critic_target", batch.next_observations, next_actions, n_critics)
    rows = []
    for row in range(BATCH):
        pool = sorted(float(z) for network in found for z in network[row].detach())
        kept = pool[: n_critics * (N_QUANTILES - n_drop)]
        entropy_term = alpha * float(next_log_probs[row].detach())
        rows.append(
            [float(batch.rewards[row]) + float(batch.discounts[row]) * (z - entropy_term) for z in kept]
        )
    return torch.tensor(rows, dtype=torch.float64)


def row_losses(network, targets):
    """The mean of the quantile Huber loss over the pairs of each row, [batch]."""
    losses = []
    for theta, y in zip(network, targets, strict=True):
        total = 0.0
        for i in range(N_QUANTILES):
            probability = (2 * i + 1) / (2 * N_QUANTILES)
            delta = y - theta[i]
            huber = torch.where(delta.abs() <= 1, 0.5 * delta**2, delta.abs() - 0.5)
            total = total + ((probability - (delta < 0).double()).abs() * huber).mean()
        losses.append(total / N_QUANTILES)
    return torch.stack(losses)


@pytest.mark.parametrize(("n_critics", "n_drop"), [(2, 2), (3, 1), (1, 0)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ent_coef", ["auto_0.2", 0.3])
def test_a_gradient_step_is_that_of_the_equations(ent_coef, weighted, n_critics, n_drop):
    model = agent(
        ent_coef=ent_coef, top_quantiles_to_drop_per_net=n_drop, policy_kwargs={"n_critics": n_critics}
    )
    weights = torch.rand(BATCH) + 0.5 if weighted else None
    batch, values = batch_of(weights=weights), parameters(model)
    torch.manual_seed(5)
    for_actor, for_target = torch.randn(BATCH, 2), torch.randn(BATCH, 2)
    torch.manual_seed(5)
    metrics = model.update(batch, model.counters)

    alpha = 0.2 if ent_coef == "auto_0.2" else 0.3
    actions, log_probs = act(values, batch.observations, for_actor)
    targets = pooled_targets(values, batch, for_target, alpha, n_critics, n_drop)
    judged = quantiles(values, "critic", batch.observations, batch.actions, n_critics)
    w = torch.ones(BATCH) if weights is None else weights
    critic_loss = sum((w * row_losses(network, targets)).mean() for network in judged) / n_critics
    expected = dict(values)
    names = [name for name in values if name.startswith("critic.")]
    for name, gradient in zip(
        names, torch.autograd.grad(critic_loss, [values[n] for n in names]), strict=True
    ):
        expected[name] = values[name] - LR * gradient
        target_name = name.replace("critic.", "critic_target.")
        expected[target_name] = (1 - TAU) * values[target_name] + TAU * expected[name]
    actors_quantiles = quantiles(expected, "critic", batch.observations, actions, n_critics)
    actor_loss = (alpha * log_probs - torch.stack(actors_quantiles).mean(dim=(0, 2))).mean()
    names = [name for name in values if name.startswith("actor.")]
    for name, gradient in zip(
        names, torch.autograd.grad(actor_loss, [values[n] for n in names]), strict=True
    ):
        expected[name] = values[name] - LR * gradient

    for name, value in model.policy.state_dict().items():
        assert torch.allclose(value.double(), expected[name], atol=2e-6), name
    assert metrics["critic_loss"].item() == pytest.approx(critic_loss.item(), rel=1e-5)
    assert metrics["actor_loss"].item() == pytest.approx(actor_loss.item(), rel=1e-4, abs=1e-6)
    gap = log_probs.mean().item() - 2  # whose sign is that of the first step of Adam
    moved = np.log(0.2) + LR * np.sign(gap) if ent_coef == "auto_0.2" else np.log(0.3)
    assert float(model.entropy_coefficient.value().log()) == pytest.approx(moved, rel=1e-5)
    assert ("ent_coef_loss" in metrics) == (ent_coef == "auto_0.2")
    if weighted:
        errors = torch.stack([(network.mean(dim=1) - targets.mean(dim=1)).abs() for network in judged])
        assert torch.allclose(batch.priorities.double(), errors.mean(dim=0), atol=1e-5)
    else:
        assert batch.priorities is None


def test_truncation_keeps_the_smallest_of_the_pool():
    first, second = torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[8.0, 7.0, 2.0]])
    kept = truncate_quantiles(torch.stack([first, second]), 1)
    assert sorted(kept[0].tolist()) == [1, 2, 3, 7]
    assert sorted(truncate_quantiles(torch.stack([first, second]), 2)[0].tolist()) == [1, 2]
    assert sorted(truncate_quantiles(torch.stack([first, second]), 0)[0].tolist()) == [1, 2, 3, 7, 8, 9]


def test_each_row_keeps_its_own():
    quantiles = torch.randn(3, 7, 4)
    kept = truncate_quantiles(quantiles, 1)
    for row in range(7):
        assert kept[row].sort().values.tolist() == sorted(quantiles[:, row].flatten().tolist())[:9]


def test_the_critics_gradient_is_a_finite_difference():
    torch.manual_seed(0)
    theta = torch.randn(2, 4, N_QUANTILES, dtype=torch.float64, requires_grad=True)
    target, weights = 2 * torch.randn(4, 8, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda theta: tqc_critic_loss(theta, target, weights), (theta,))


def test_the_actors_loss_is_its_definition():
    quantiles, log_probs = torch.randn(2, 3, 4), torch.randn(3)
    by_hand = np.mean([0.5 * float(log_probs[b]) - float(quantiles[:, b].mean()) for b in range(3)])
    assert float(tqc_actor_loss(quantiles, log_probs, torch.tensor(0.5))) == pytest.approx(by_hand, rel=1e-5)


def test_discounts_are_those_of_the_rows():
    model, batch = agent(), batch_of()
    batch.discounts = torch.zeros(BATCH)
    batch.discounts[0] = 0.5
    target = tqc_target(model.policy, batch, torch.tensor(0.1), 2)
    assert target.shape == (BATCH, 6) and not target.requires_grad
    assert torch.equal(target[1:], batch.rewards[1:, None].expand(-1, 6))
    assert not torch.isclose(target[0], batch.rewards[0]).any()


def test_targets_follow_at_their_interval():
    model, seen = agent(target_update_interval=2), []
    for seed in range(4):
        before = model.target_critic.vector.clone()
        model.update(batch_of(seed), model.counters)
        seen.append(not torch.equal(model.target_critic.vector, before))
    assert seen == [False, True, False, True]


@pytest.mark.parametrize(
    "wrong", [{"top_quantiles_to_drop_per_net": N_QUANTILES}, {"top_quantiles_to_drop_per_net": -1}]
)
def test_a_truncation_that_leaves_nothing_is_refused(wrong):
    with pytest.raises(UserError, match="top_quantiles_to_drop_per_net"):
        agent(**wrong)
    model = agent()
    before = model.top_quantiles_to_drop_per_net
    with pytest.raises(UserError, match="top_quantiles_to_drop_per_net"):
        model.top_quantiles_to_drop_per_net = wrong["top_quantiles_to_drop_per_net"]
    assert model.top_quantiles_to_drop_per_net == before


@pytest.mark.parametrize(
    "options",
    [{"use_sde": True}, {"n_steps": 3}, {"policy_kwargs": {"dropout": 0.1, "layer_norm": "critic"}}],
)
def test_options_work_together(options):
    model = agent(learning_starts=20, train_freq=4, gradient_steps=2, batch_size=8, **options)
    before = model.critic_flat.vector.detach().clone()
    model.learn(60)
    assert model.counters.n_updates == 20 and not torch.equal(model.critic_flat.vector, before)
