"""Gradient steps of SAC against its equations, written out anew in double precision; its options."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import distributions as td
from torch.nn import functional as F

from rlzoo import SAC, DummyVecEnv, UserError
from rlzoo.algorithms.off_policy.sac import sac_actor_loss, sac_critic_loss, sac_target
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.schedules import Counters
from tests.algorithms.idle_env import ASYMMETRIC_ACTIONS, IdleEnv

SGD = {"optimizer_class": torch.optim.SGD}
BATCH, TAU, GAMMA, LR = 32, 0.1, 0.9, 0.05


def agent(**kwargs):
    kwargs["policy_kwargs"] = {"net_arch": [16, 8], **SGD, **kwargs.get("policy_kwargs", {})}
    kwargs = {"learning_rate": LR, "tau": TAU, "gamma": GAMMA, "buffer_size": 100, **kwargs}
    model = SAC(
        "MlpPolicy",
        DummyVecEnv([lambda: IdleEnv(ASYMMETRIC_ACTIONS, truncates=True)]),
        seed=0,
        device="cpu",
        **kwargs,
    )
    torch.manual_seed(1)
    with torch.no_grad():  # targets that differ from what they follow
        for parameter in model.policy.critic_target.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
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


def mlp(values, name, x, last_is_linear):
    """The network whose layers are called name.0, name.1, ...: ReLU after each but the last."""
    layers = sorted({int(key.split(".")[-2]) for key in values if key.startswith(f"{name}.")})
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        weight, bias = values[f"{name}.{layer}.weight"], values[f"{name}.{layer}.bias"]
        if weight.dim() == 1:
            x = F.layer_norm(x, x.shape[-1:], weight, bias)
        else:
            x = x @ weight.T + bias
        normalised_next = following is not None and values[f"{name}.{following}.weight"].dim() == 1
        if not normalised_next and not (last_is_linear and following is None):
            x = x.clamp(min=0)
    return x


def act(values, obs, noise):
    """Actions for unit noise, and their log-densities by the change of variables."""
    hidden = mlp(values, "actor.latent_pi", obs.double(), last_is_linear=False)
    mean = hidden @ values["actor.mu.weight"].T + values["actor.mu.bias"]
    log_std = hidden @ values["actor.log_std.weight"].T + values["actor.log_std.bias"]
    before = mean + log_std.exp() * noise.double()
    log_prob = td.Normal(mean, log_std.exp()).log_prob(before) - (1 - before.tanh() ** 2).log()
    return before.tanh(), log_prob.sum(dim=1)


def q_values(values, name, obs, actions, n=2):
    joint = torch.cat([obs.double(), actions.double()], dim=1)
    return [mlp(values, f"{name}.qf{i}", joint, last_is_linear=True)[:, 0] for i in range(n)]


def descend(values, loss, prefix, lr=LR):
    """One step of plain gradient descent on the parameters that begin so."""
    names = [name for name in values if name.startswith(prefix)]
    gradients = torch.autograd.grad(loss, [values[name] for name in names])
    moved = {name: values[name] - lr * g for name, g in zip(names, gradients, strict=True)}
    return {**values, **{name: value.detach().requires_grad_() for name, value in moved.items()}}


def noises(seed, n=2):
    torch.manual_seed(seed)
    return [torch.randn(BATCH, 2) for _ in range(n)]


def least(values):
    return torch.stack(values).amin(dim=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_critics", [1, 2, 3])
@pytest.mark.parametrize("ent_coef", ["auto_0.2", 0.3])
def test_a_gradient_step_is_that_of_the_equations(ent_coef, n_critics, weighted):
    model = agent(ent_coef=ent_coef, policy_kwargs={"n_critics": n_critics})
    weights = torch.rand(BATCH) + 0.5 if weighted else None
    batch, values = batch_of(weights=weights), parameters(model)
    for_actor, for_target = noises(seed=5)
    torch.manual_seed(5)
    metrics = model.update(batch, model.counters)

    alpha = 0.2 if ent_coef == "auto_0.2" else 0.3
    actions, log_probs = act(values, batch.observations, for_actor)
    with torch.no_grad():
        next_actions, next_log_probs = act(values, batch.next_observations, for_target)
        next_values = least(
            q_values(values, "critic_target", batch.next_observations, next_actions, n_critics)
        )
        target = batch.rewards + batch.discounts * (next_values - alpha * next_log_probs)  # eq. 3
    judged = q_values(values, "critic", batch.observations, batch.actions, n_critics)
    w = torch.ones(BATCH) if weights is None else weights
    critic_loss = sum(0.5 * (w * (q - target) ** 2).mean() for q in judged)  # eq. 5
    expected = descend(values, critic_loss, "critic.")
    actor_values = least(q_values(expected, "critic", batch.observations, actions, n_critics))
    actor_loss = (alpha * log_probs - actor_values).mean()  # eq. 7, with the critics' new parameters
    actor = {name: values[name] for name in values if name.startswith("actor.")}
    gradients = torch.autograd.grad(actor_loss, list(actor.values()))
    for (name, value), gradient in zip(actor.items(), gradients, strict=True):
        expected[name] = value - LR * gradient
    for name in [name for name in expected if name.startswith("critic_target.")]:
        followed = expected[name.replace("critic_target", "critic")]
        expected[name] = (1 - TAU) * values[name] + TAU * followed

    for name, value in model.policy.state_dict().items():
        assert torch.allclose(value.double(), expected[name], atol=2e-6), name
    assert float(metrics["critic_loss"]) == pytest.approx(critic_loss.item(), rel=1e-5)
    assert float(metrics["actor_loss"]) == pytest.approx(actor_loss.item(), rel=1e-4, abs=1e-6)
    assert float(metrics["ent_coef"]) == pytest.approx(alpha) and metrics["learning_rate"] == LR
    assert model.counters.n_updates == 1
    gap = log_probs.mean().item() - 2  # the target entropy is minus the number of dimensions
    if ent_coef == "auto_0.2":  # eq. 18: d J / d log alpha = -gap
        assert float(model.entropy_coefficient.log_ent_coef.grad) == pytest.approx(-gap, rel=1e-5)
        moved = np.log(0.2) + LR * np.sign(gap)  # the first step of Adam
        assert float(model.entropy_coefficient.value().log()) == pytest.approx(moved, rel=1e-5)
        assert float(metrics["ent_coef_loss"]) == pytest.approx(-np.log(0.2) * gap, rel=1e-4)
    else:
        assert (
            float(model.entropy_coefficient.value()) == pytest.approx(0.3) and "ent_coef_loss" not in metrics
        )
    if weighted:
        errors = torch.stack([(q - target).abs() for q in judged]).mean(dim=0)
        assert torch.allclose(batch.priorities.double(), errors, atol=1e-5)
    else:
        assert batch.priorities is None


def test_losses_are_their_definitions():
    values, target, weights = torch.randn(2, 5), torch.randn(5), torch.rand(5)
    loss, differences = sac_critic_loss(values, target, weights)
    rows = [
        [0.5 * float(w * (v - y) ** 2) for v, y, w in zip(row, target, weights, strict=True)]
        for row in values
    ]
    assert float(loss) == pytest.approx(np.mean(rows, axis=1).sum(), rel=1e-5)
    assert torch.equal(differences, values - target)
    assert float(sac_actor_loss(values[0], target, torch.tensor(0.5))) == pytest.approx(
        np.mean([0.5 * float(y) - float(v) for v, y in zip(values[0], target, strict=True)]), rel=1e-5
    )


@pytest.mark.parametrize(
    ("ent_coef", "initial", "learned"),
    [
        ("auto", 1.0, True),
        ("auto_0.1", 0.1, True),
        ("auto_0.2_0.05", 0.2, True),
        (0.05, 0.05, False),
        ("0.05", 0.05, False),
    ],
)
def test_forms_of_the_entropy_coefficient(ent_coef, initial, learned):
    model = agent(ent_coef=ent_coef)
    assert float(model.entropy_coefficient.value()) == pytest.approx(initial)
    for seed in range(3):
        model.update(batch_of(seed), model.counters)
    assert (float(model.entropy_coefficient.value()) != pytest.approx(initial)) == learned
    assert ("log_ent_coef" in model.state()) == learned


@pytest.mark.parametrize("target_entropy", [-50.0, 50.0])
def test_entropy_coefficient_rises_below_target_entropy(target_entropy):
    model = agent(ent_coef="auto_0.5", target_entropy=target_entropy)
    assert model.entropy_coefficient.target_entropy == target_entropy
    model.update(batch_of(), model.counters)
    assert (float(model.entropy_coefficient.value()) > 0.5) == (target_entropy > 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ent_coef": "auto_"},
        {"ent_coef": "auto_x"},
        {"ent_coef": "0.1_5"},
        {"ent_coef": "auto_-1"},
        {"ent_coef": "learn"},
        {"ent_coef": -0.1},
        {"target_entropy": "half"},
        {"target_entropy": float("inf")},
        {"target_update_interval": 0},
        {"policy_delay": 0},
        {"n_target_critics": 0},
    ],
)
def test_hyperparameters_out_of_range_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        agent(**wrong)


def test_the_entropy_coefficient_has_no_options_of_the_networks():
    model = agent(ent_coef="auto_0.5", policy_kwargs={"optimizer_kwargs": {"weight_decay": 0.5}})
    assert model.policy.actor.optimizer.param_groups[0]["weight_decay"] == 0.5
    assert model.entropy_coefficient.optimizer.param_groups[0]["weight_decay"] == 0


def test_the_entropy_coefficient_has_adam_whatever_networks_have():
    model = agent(learning_rate=0.01, policy_kwargs={"optimizer_class": torch.optim.SGD})
    assert isinstance(model.policy.actor.optimizer, torch.optim.SGD)
    model.update(batch_of(0), model.counters)
    step = float(model.entropy_coefficient.value().log())  # from 0
    assert abs(step) == pytest.approx(0.01, rel=1e-3)  # Adam's first step is the learning rate


def changed(model, before):
    after = parameters(model)
    return {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}


def test_targets_follow_at_their_interval():
    model = agent(target_update_interval=2)
    seen = []
    for seed in range(4):
        before = parameters(model)
        model.update(batch_of(seed), model.counters)
        seen.append("critic_target" in changed(model, before))
    assert seen == [False, True, False, True]


def test_actor_and_coefficient_wait_for_the_policy_delay():
    model = agent(policy_delay=3)
    seen = []
    for seed in range(6):
        before, alpha = parameters(model), float(model.entropy_coefficient.value())
        metrics = model.update(batch_of(seed), model.counters)
        moved = changed(model, before)
        assert {"critic", "critic_target"} <= moved
        assert (
            ("actor" in moved)
            == ("actor_loss" in metrics)
            == (float(model.entropy_coefficient.value()) != alpha)
        )
        seen.append("actor" in moved)
    assert seen == [False, False, True, False, False, True]


def test_metrics_average_over_steps_that_have_them():
    model = agent(policy_delay=2, ent_coef=0.1)
    history = [model.update(batch_of(seed), model.counters) for seed in range(3)]
    means = model.summarise(history, model.counters)
    assert float(means["critic_loss"]) == pytest.approx(
        np.mean([float(metrics["critic_loss"]) for metrics in history]), rel=1e-6
    )
    assert float(means["actor_loss"]) == float(history[1]["actor_loss"])
    assert means["learning_rate"] == pytest.approx(LR)


def test_redq_minimises_over_a_random_target_subset():
    model = agent(ent_coef=0.0, n_target_critics=2, policy_kwargs={"n_critics": 5})
    with torch.no_grad():  # none is the least everywhere
        for parameter in model.policy.critic_target.parameters():
            parameter.normal_()
    batch = batch_of()
    pairs = [(i, j) for i in range(5) for j in range(i)]
    seen = set()
    for seed in range(30):
        for_target = noises(seed, n=1)[0]
        torch.manual_seed(seed)
        target = sac_target(model.policy, batch, torch.tensor(0.0), 2)
        values = parameters(model)
        next_actions, _ = act(values, batch.next_observations, for_target)
        q = q_values(values, "critic_target", batch.next_observations, next_actions, 5)
        fitting = [
            (i, j)
            for i, j in pairs
            if torch.allclose(
                batch.rewards + batch.discounts * torch.minimum(q[i], q[j]), target.double(), atol=1e-5
            )
        ]
        assert len(fitting) == 1  # one pair, for all rows
        seen.update(fitting)
    assert len(seen) > 5


@pytest.mark.parametrize(
    ("options", "averaged"),
    [
        ({"n_target_critics": 2}, True),
        ({"policy_kwargs": {"dropout": 1e-7, "layer_norm": "critic"}}, True),
        ({}, False),
    ],
)
def test_redq_and_droq_average_the_critics_in_the_actors_loss(options, averaged):
    policy_kwargs = {"n_critics": 3, **options.pop("policy_kwargs", {})}
    model = agent(ent_coef=0.1, policy_kwargs=policy_kwargs, **options)
    batch, values = batch_of(), parameters(model)
    for_actor = noises(seed=5, n=1)[0]
    model.set_training_mode(True)
    torch.manual_seed(5)
    loss = float(model.update(batch, model.counters)["actor_loss"])
    actions, log_probs = act(values, batch.observations, for_actor)
    q = torch.stack(q_values(parameters(model), "critic", batch.observations, actions, 3))
    judged = q.mean(dim=0) if averaged else q.amin(dim=0)
    assert loss == pytest.approx((0.1 * log_probs - judged).mean().item(), rel=1e-4, abs=1e-6)


def test_gsde_std_gets_the_critic_gradient():
    model = agent(ent_coef=0.0, use_sde=True, policy_kwargs={"log_std_init": -1.0})
    batch, values = batch_of(), parameters(model)
    torch.manual_seed(5)
    noise = torch.randn(8, 2).double()  # of the one matrix for the whole batch
    torch.manual_seed(5)
    model.update(batch, model.counters)
    hidden = mlp(values, "actor.latent_pi", batch.observations.double(), last_is_linear=False)
    mean = (hidden @ values["actor.mu.0.weight"].T + values["actor.mu.0.bias"]).clamp(-2, 2)
    actions = (mean + hidden @ (values["actor.log_std"].exp() * noise)).tanh()
    loss = -least(q_values(parameters(model), "critic", batch.observations, actions)).mean()
    expected = descend(values, loss, "actor.")["actor.log_std"]
    assert not torch.allclose(expected, values["actor.log_std"], atol=1e-6)
    assert torch.allclose(model.policy.actor.log_std.double(), expected, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"sde_sample_freq": 2}, {"use_sde_at_warmup": True}])
def test_gsde_learns_from_an_environment(options):
    model = agent(use_sde=True, learning_starts=20, train_freq=4, gradient_steps=2, batch_size=8, **options)
    before = parameters(model)
    model.learn(60)
    assert model.counters.n_updates > 10 and changed(model, before) == {"actor", "critic", "critic_target"}


def test_discounts_are_those_of_the_rows():
    model, batch = agent(ent_coef=0.0), batch_of()
    batch.discounts = torch.linspace(0, 1, BATCH)
    torch.manual_seed(0)
    ones = sac_target(model.policy, batch, torch.tensor(0.0), None)
    batch.discounts = torch.zeros(BATCH)
    torch.manual_seed(0)
    none = sac_target(model.policy, batch, torch.tensor(0.0), None)
    assert torch.equal(none, batch.rewards) and ones[0] == batch.rewards[0]
    assert not torch.isclose(ones[1:], batch.rewards[1:]).any() and not ones.requires_grad


def test_the_learning_rate_follows_its_schedule():
    model = agent(learning_rate="lin_0.4")
    counters = Counters(num_timesteps=75, total_timesteps=100)
    metrics = model.update(batch_of(), counters)
    assert metrics["learning_rate"] == pytest.approx(0.1)
    for optimizer in (
        model.policy.actor.optimizer,
        model.policy.critic.optimizer,
        model.entropy_coefficient.optimizer,
    ):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
