"""Gradient steps of CrossQ against its equations, written out anew in double precision; its modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions as td

from rlzoo import CrossQ, DummyVecEnv, UserError
from rlzoo.algorithms.off_policy.crossq import crossq_actor_loss, crossq_critic_loss
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from tests.algorithms.idle_env import OBSERVATIONS, IdleEnv

BATCH, GAMMA, LR, MOMENTUM, EPS = 16, 0.9, 0.05, 0.1, 1e-2
STATISTICS = ("ra_mean", "ra_var", "steps")


def parts_env():
    return IdleEnv(observation_space=spaces.Dict({"a": OBSERVATIONS, "b": spaces.Discrete(3)}))


def agent(policy="MlpPolicy", env=IdleEnv, **kwargs):
    policy_kwargs = {
        "net_arch": {"pi": [16, 8], "qf": [24, 12]},
        "optimizer_class": torch.optim.SGD,
        "batch_norm_momentum": MOMENTUM,
        "batch_norm_eps": EPS,
    }
    kwargs["policy_kwargs"] = {**policy_kwargs, **kwargs.get("policy_kwargs", {})}
    kwargs = {"learning_rate": LR, "gamma": GAMMA, "buffer_size": 100, **kwargs}
    return CrossQ(policy, DummyVecEnv([env]), seed=0, device="cpu", **kwargs)


def batch_of(seed=0, weights=None):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    discounts = GAMMA * (torch.rand(BATCH, generator=generator) > 0.3).float()
    actions = torch.rand(BATCH, 2, generator=generator) * 2 - 1
    return ReplayBatch(
        normal(BATCH, 3), actions, normal(BATCH, 3) + 1, normal(BATCH), discounts, None, weights
    )


def parameters(model):
    values = {name: value.double().clone() for name, value in model.policy.state_dict().items()}
    for name, value in values.items():
        value.requires_grad_(not name.endswith(STATISTICS))
    return values


def network(values, name, x, gathered):
    """Linear layers with ReLU, and batch normalisation before the first and after each.

    :param gathered: a dict that takes the new statistics of training, or None in evaluation
    """
    layers = sorted({int(key.split(".")[-2]) for key in values if key.startswith(f"{name}.")})
    for layer in layers:
        of = f"{name}.{layer}"
        if f"{of}.weight" in values:
            x = x @ values[f"{of}.weight"].T + values[f"{of}.bias"]
            x = x.clamp(min=0) if layer + 2 in layers else x
            continue
        mean, var = values[f"{of}.ra_mean"], values[f"{of}.ra_var"]
        if gathered is not None:
            mean_now, var_now = x.mean(dim=0), x.var(dim=0)
            gathered[f"{of}.ra_mean"] = (1 - MOMENTUM) * mean + MOMENTUM * mean_now.detach()
            gathered[f"{of}.ra_var"] = (1 - MOMENTUM) * var + MOMENTUM * var_now.detach()
            gathered[f"{of}.steps"] = values[f"{of}.steps"] + 1
            mean, var = mean_now, var_now
        x = values[f"{of}.scale"] * (x - mean) / (var + EPS).sqrt() + values[f"{of}.bias"]
    return x


def act(values, obs, noise, gathered=None):
    hidden = network(values, "actor.latent_pi", obs.double(), gathered)
    mean = hidden @ values["actor.mu.weight"].T + values["actor.mu.bias"]
    log_std = hidden @ values["actor.log_std.weight"].T + values["actor.log_std.bias"]
    before = mean + log_std.exp() * noise.double()
    log_prob = td.Normal(mean, log_std.exp()).log_prob(before) - (1 - before.tanh() ** 2).log()
    return before.tanh(), log_prob.sum(dim=1)


def descend(values, loss, prefix):
    names = [name for name in values if name.startswith(prefix) and values[name].requires_grad]
    gradients = torch.autograd.grad(loss, [values[name] for name in names])
    return {name: (values[name] - LR * g) for name, g in zip(names, gradients, strict=True)}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("ent_coef", "n_critics"), [("auto_0.2", 2), (0.3, 3)])
def test_a_gradient_step_is_that_of_the_equations(ent_coef, n_critics, weighted):
    model = agent(ent_coef=ent_coef, policy_delay=1, policy_kwargs={"n_critics": n_critics})
    for seed in range(2):  # statistics that are no longer those of the beginning
        model.update(batch_of(seed + 7), model.counters)
    alpha = float(model.entropy_coefficient.value())
    weights = torch.rand(BATCH) + 0.5 if weighted else None
    batch, values = batch_of(weights=weights), parameters(model)
    torch.manual_seed(5)
    for_target, for_actor = torch.randn(BATCH, 2), torch.randn(BATCH, 2)
    torch.manual_seed(5)
    metrics = model.update(batch, model.counters)

    expected = dict(values)
    next_actions, next_log_probs = act(values, batch.next_observations, for_target)
    joint = torch.cat(
        [
            torch.cat([batch.observations.double(), batch.actions.double()], dim=1),
            torch.cat([batch.next_observations.double(), next_actions.detach()], dim=1),
        ]
    )
    both = [network(values, f"critic.qf{i}", joint, expected)[:, 0] for i in range(n_critics)]
    next_values = torch.stack([q[BATCH:] for q in both]).amin(dim=0) - alpha * next_log_probs
    target = (batch.rewards + batch.discounts * next_values).detach()
    w = torch.ones(BATCH) if weights is None else weights
    critic_loss = sum(0.5 * (w * (q[:BATCH] - target) ** 2).mean() for q in both)
    expected.update(descend(values, critic_loss, "critic."))
    actions, log_probs = act(values, batch.observations, for_actor, expected)
    joint = torch.cat([batch.observations.double(), actions], dim=1)
    judged = torch.stack([network(expected, f"critic.qf{i}", joint, None)[:, 0] for i in range(n_critics)])
    actor_loss = (alpha * log_probs - judged.amin(dim=0)).mean()
    expected.update(descend(values, actor_loss, "actor."))

    for name, value in model.policy.state_dict().items():
        assert torch.allclose(value.double(), expected[name].double(), atol=1e-5), name
    assert metrics["critic_loss"].item() == pytest.approx(critic_loss.item(), rel=1e-4)
    assert metrics["actor_loss"].item() == pytest.approx(actor_loss.item(), rel=1e-3, abs=1e-5)
    gap = log_probs.mean().item() - 2  # whose sign is that of the first step of Adam
    moved = np.log(alpha) + (LR * np.sign(gap) if ent_coef == "auto_0.2" else 0)
    assert float(model.entropy_coefficient.value().log()) == pytest.approx(moved, rel=1e-4)
    if weighted:
        errors = torch.stack([(q[:BATCH] - target).abs() for q in both]).mean(dim=0)
        assert torch.allclose(batch.priorities.double(), errors, atol=1e-4)
    else:
        assert batch.priorities is None


def test_losses_are_their_definitions():
    values, target, weights = torch.randn(2, 5), torch.randn(5), torch.rand(5)
    loss, differences = crossq_critic_loss(values, target, weights)
    rows = [np.mean([0.5 * float(weights[b] * (q[b] - target[b]) ** 2) for b in range(5)]) for q in values]
    assert float(loss) == pytest.approx(sum(rows), rel=1e-5) and torch.equal(differences, values - target)
    by_hand = np.mean([0.5 * float(target[b]) - min(float(q[b]) for q in values) for b in range(5)])
    assert float(crossq_actor_loss(values, target, torch.tensor(0.5))) == pytest.approx(by_hand, rel=1e-5)


def test_there_are_no_target_networks():
    model = agent()
    assert not model.policy.targets() and not any("target" in name for name in model.policy.state_dict())
    assert "tau" not in {*vars(model.config)} and model.policy_delay == 3


def test_actor_and_its_statistics_wait_for_the_policy_delay():
    model, seen = agent(policy_delay=3), []
    for seed in range(6):
        before, alpha = parameters(model), float(model.entropy_coefficient.value())
        metrics = model.update(batch_of(seed), model.counters)
        after = parameters(model)
        moved = {name for name in after if not torch.equal(after[name], before[name])}
        gathering = {name.split(".")[0] for name in moved if name.endswith(STATISTICS)}
        learning = {name.split(".")[0] for name in moved if not name.endswith(STATISTICS)}
        assert gathering == learning and "critic" in learning
        assert (
            ("actor" in learning)
            == ("actor_loss" in metrics)
            == (float(model.entropy_coefficient.value()) != alpha)
        )
        seen.append("actor" in learning)
    assert seen == [False, False, True, False, False, True]
    assert model.policy.state_dict()["critic.qf1.3.steps"] == 6
    assert model.policy.state_dict()["actor.latent_pi.3.steps"] == 2


def test_statistics_are_gathered_by_learning_and_by_nothing_else():
    model = agent(learning_starts=20, train_freq=4, gradient_steps=2, batch_size=8, policy_delay=1)
    assert model.has_train_mode_layers
    model.learn(20)
    assert model.policy.state_dict()["actor.latent_pi.0.steps"] == 0
    model.learn(20, reset_num_timesteps=False)
    assert model.policy.state_dict()["actor.latent_pi.0.steps"] == model.counters.n_updates == 10
    before = parameters(model)
    model.set_training_mode(True)
    many = np.stack([OBSERVATIONS.sample() for _ in range(5)])
    together = model.predict(many, deterministic=True)[0]
    alone = model.predict(many[2], deterministic=True)[0]
    assert np.allclose(together[2], alone, atol=1e-6)
    assert all(torch.equal(value, before[name]) for name, value in parameters(model).items())


@pytest.mark.parametrize(
    ("policy", "env", "options"),
    [
        ("MlpPolicy", IdleEnv, {"use_sde": True, "sde_sample_freq": 2}),
        ("MlpPolicy", IdleEnv, {"n_steps": 3, "ent_coef": 0.1}),
        ("MlpPolicy", IdleEnv, {"policy_kwargs": {"batch_norm": False}}),
        ("MlpPolicy", IdleEnv, {"policy_kwargs": {"renorm_warmup_steps": 2}}),
        ("MultiInputPolicy", parts_env, {"policy_kwargs": {"share_features_extractor": True}}),
        ("MultiInputPolicy", parts_env, {}),
    ],
)
def test_options_work(policy, env, options):
    model = agent(
        policy,
        env,
        learning_starts=20,
        train_freq=4,
        gradient_steps=2,
        batch_size=8,
        policy_delay=2,
        **options,
    )
    actor, critic = (flat.vector.detach().clone() for flat in (model.actor_flat, model.critic_flat))
    model.learn(60)
    assert model.counters.n_updates == 20
    assert not torch.equal(model.actor_flat.vector, actor) and not torch.equal(
        model.critic_flat.vector, critic
    )


def test_a_policy_delay_below_one_is_refused():
    with pytest.raises(UserError, match="policy_delay"):
        agent(policy_delay=0)
