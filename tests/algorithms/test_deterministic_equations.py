"""Gradient steps of TD3 and DDPG against their equations, written out anew for plain tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlzoo import DDPG, TD3, DummyVecEnv
from rlzoo.algorithms.off_policy.td3 import td3_target
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.schedules import Counters
from rlzoo.core.types import PolicyInput
from tests.algorithms.idle_env import ASYMMETRIC_ACTIONS, IdleEnv

SGD = {"optimizer_class": torch.optim.SGD}
BATCH, TAU, GAMMA = 32, 0.1, 0.9


def make_env():
    return IdleEnv(ASYMMETRIC_ACTIONS)


def agent(cls, n_envs=1, **kwargs):
    kwargs["policy_kwargs"] = {"net_arch": [16, 8], **kwargs.get("policy_kwargs", {})}
    kwargs = {"learning_rate": 0.1, "tau": TAU, "gamma": GAMMA, "buffer_size": 100, **kwargs}
    model = cls("MlpPolicy", DummyVecEnv([make_env] * n_envs), seed=0, device="cpu", **kwargs)
    torch.manual_seed(1)
    with torch.no_grad():  # targets that differ from what they follow
        for target in model.policy.targets():
            for parameter in target.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch_of(seed=0, weights=None):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    discounts = GAMMA * (torch.rand(BATCH, generator=generator) > 0.3).float()
    actions = torch.rand(BATCH, 2, generator=generator) * 2 - 1
    return ReplayBatch(normal(BATCH, 3), actions, normal(BATCH, 3), normal(BATCH), discounts, None, weights)


def parameters(model):
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def mlp(values, name, x):
    """The network whose linear layers are called name.0, name.2, ...: ReLU between them."""
    layers = sorted(
        int(key.split(".")[-2]) for key in values if key.startswith(f"{name}.") and "weight" in key
    )
    for layer in layers:
        x = x @ values[f"{name}.{layer}.weight"].T + values[f"{name}.{layer}.bias"]
        x = x if layer == layers[-1] else x.clamp(min=0)
    return x


def q_value(values, name, obs, actions):
    return mlp(values, name, torch.cat([obs, actions], dim=1)).flatten()


def gradients(loss, values, prefix):
    leaves = {name: value for name, value in values.items() if name.startswith(prefix)}
    found = torch.autograd.grad(loss, list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def expected_step(model, batch, noise, n_critics, update_actor=True):
    """All parameters after one gradient step."""
    values = {name: value.requires_grad_() for name, value in parameters(model).items()}
    next_actions = torch.tanh(mlp(values, "actor_target.mu", batch.next_observations))
    next_actions = (next_actions + noise).clamp(-1, 1)
    following = torch.stack(
        [
            q_value(values, f"critic_target.qf{i}", batch.next_observations, next_actions)
            for i in range(n_critics)
        ]
    )
    y = (batch.rewards + batch.discounts * following.min(dim=0).values).detach()
    weights = torch.ones(BATCH) if batch.weights is None else batch.weights
    differences = torch.stack(
        [q_value(values, f"critic.qf{i}", batch.observations, batch.actions) - y for i in range(n_critics)]
    )
    loss = (weights * differences**2).mean(dim=1).sum()
    new = {name: value.detach().clone() for name, value in values.items()}
    for name, gradient in gradients(loss, values, "critic.").items():
        new[name] -= 0.1 * gradient
    if update_actor:
        critic = {name: value for name, value in new.items() if name.startswith("critic.")}
        actions = torch.tanh(mlp(values, "actor.mu", batch.observations))
        objective = q_value(critic, "critic.qf0", batch.observations, actions).mean()
        for name, gradient in gradients(objective, values, "actor.").items():
            new[name] += 0.1 * gradient
        for name in new:
            if "_target" in name:
                new[name] = TAU * new[name.replace("_target", "")] + (1 - TAU) * new[name]
    return new, loss.detach(), differences.detach().abs().mean(dim=0)


def assert_same(model, expected):
    for name, value in parameters(model).items():
        torch.testing.assert_close(
            value, expected[name], atol=2e-6, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("n_critics", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_of_td3_is_its_equations(n_critics, weighted):
    model = agent(TD3, policy_delay=1, target_policy_noise=0.0, policy_kwargs={"n_critics": n_critics, **SGD})
    batch = batch_of(weights=torch.rand(BATCH) if weighted else None)
    expected, loss, priorities = expected_step(model, batch, 0.0, n_critics)
    metrics = model.update(batch, Counters())
    assert_same(model, expected)
    assert float(metrics["critic_loss"]) == pytest.approx(float(loss), rel=1e-5)
    if weighted:
        torch.testing.assert_close(batch.priorities, priorities)
    else:
        assert batch.priorities is None


@pytest.mark.parametrize("n_critics", [1, 2])
def test_a_step_of_ddpg_is_its_equations(n_critics):
    model = agent(DDPG, policy_kwargs={**SGD, **({} if n_critics == 1 else {"n_critics": 2})})
    assert model.policy.n_critics == n_critics, "one critic unless asked for more"
    expected, _, _ = expected_step(model, batch_of(), 0.0, n_critics)
    model.update(batch_of(), Counters())
    assert_same(model, expected)


def test_the_target_of_td3_is_smoothed_by_clipped_noise():
    sigma, clip = 0.3, 0.4
    model = agent(TD3, target_policy_noise=sigma, target_noise_clip=clip, policy_kwargs=SGD)
    torch.manual_seed(5)
    noise = (sigma * torch.randn(BATCH, 2)).clamp(-clip, clip)
    expected, _, _ = expected_step(model, batch_of(), noise, 2, update_actor=False)
    torch.manual_seed(5)
    model.update(batch_of(), Counters())
    assert_same(model, expected)


def test_noise_on_the_target_stays_in_its_bounds(monkeypatch):
    model = agent(TD3)
    seen = []
    centre = torch.tensor([0.0, 0.95]).expand(BATCH, 2)
    monkeypatch.setattr(model.policy.actor_target, "forward", lambda obs: centre)
    monkeypatch.setattr(
        model.policy.critic_target,
        "all_values",
        lambda obs, a: seen.append(a.clone()) or torch.zeros(2, BATCH, 1),
    )
    for _ in range(100):
        td3_target(model.policy, batch_of(), 0.2, 0.25)
    actions = torch.cat(seen)
    first, second = actions.unbind(dim=1)
    assert float(first.abs().max()) == 0.25 and float(second.max()) == 1.0
    inside = first.abs() < 0.25  # 79% of a normal distribution lie within 1.25 standard deviations
    assert float(inside.float().mean()) == pytest.approx(0.789, abs=0.03)
    assert float(second.min()) == pytest.approx(0.95 - 0.25)
    seen.clear()
    td3_target(model.policy, batch_of(), 0.0, 0.25)
    assert torch.equal(seen[0], centre)


@pytest.mark.parametrize("policy_delay", [1, 2, 3])
def test_actor_and_targets_wait_for_their_turn(policy_delay):
    model = agent(TD3, policy_delay=policy_delay)
    counters = Counters()
    for step in range(1, 8):
        before = parameters(model)
        metrics = model.update(batch_of(step), counters)
        changed = {
            name.split(".")[0]
            for name, value in parameters(model).items()
            if not torch.equal(value, before[name])
        }
        on_turn = step % policy_delay == 0
        assert changed == ({"actor", "critic", "actor_target", "critic_target"} if on_turn else {"critic"})
        assert ("actor_loss" in metrics) == on_turn and counters.n_updates == step


@pytest.mark.parametrize("cls", [TD3, DDPG])
def test_no_gradient_of_the_critic_is_computed_for_the_actor(cls, monkeypatch):
    model = agent(cls, **({"policy_delay": 1} if cls is TD3 else {}))
    optimizer, gradient = model.policy.critic.optimizer, model.critic_flat.vector.grad
    seen = []
    step = optimizer.step
    monkeypatch.setattr(optimizer, "step", lambda: seen.append(gradient.clone()) or step())
    model.update(batch_of(), Counters())
    assert torch.equal(gradient, seen[0]) and float(gradient.abs().max()) > 0


@pytest.mark.parametrize("cls", [TD3, DDPG])
def test_the_learning_rate_follows_the_clock(cls):
    model = agent(cls, learning_rate="lin_1.0", policy_kwargs=SGD)
    metrics = model.update(batch_of(), Counters(num_timesteps=75, total_timesteps=100))
    assert metrics["learning_rate"] == pytest.approx(0.25)
    for network in (model.policy.actor, model.policy.critic):
        assert network.optimizer.param_groups[0]["lr"] == pytest.approx(0.25)


@pytest.mark.parametrize("cls", [TD3, DDPG])
def test_dqn_explores_with_epsilon_greedy(cls):
    n_envs, counters = 400, Counters(num_timesteps=1000)
    obs = torch.randn(n_envs, 3)
    with torch.inference_mode():
        model = agent(cls, n_envs=n_envs)
        greedy = model.policy(obs)
        assert torch.equal(model.act(PolicyInput(obs, None, 0, counters)).action, greedy)
        step = agent(cls, n_envs=n_envs, random_exploration=0.3).act(PolicyInput(obs, None, 0, counters))
        random = (step.action != greedy).any(dim=1)
        assert float(random.float().mean()) == pytest.approx(0.3, abs=0.08)
        assert float(step.action[random].std()) == pytest.approx(3**-0.5, abs=0.08), "uniform in [-1, 1]"
        low, high = ASYMMETRIC_ACTIONS.low, ASYMMETRIC_ACTIONS.high
        np.testing.assert_allclose(
            step.env_action, low + (step.action.numpy() + 1) / 2 * (high - low), rtol=1e-6
        )


@pytest.mark.parametrize("policy", ["LnMlpPolicy", "MlpPolicy"])
@pytest.mark.parametrize("cls", [TD3, DDPG])
def test_a_saved_agent_learns_on_as_if_never_interrupted(cls, policy, tmp_path):
    env = DummyVecEnv([make_env] * 2)
    model = cls(policy, env, seed=0, device="cpu", buffer_size=100, policy_kwargs={"net_arch": [16, 8]})
    for step in range(3):
        model.update(batch_of(step), model.counters)
    model.save(tmp_path / "agent")
    again = cls.load(tmp_path / "agent", device="cpu")
    for step in range(3, 6):
        for one in (model, again):
            torch.manual_seed(step)
            one.update(batch_of(step), one.counters)
    for name, value in parameters(model).items():
        assert torch.equal(value, parameters(again)[name]), name
