"""Networks evaluated without their modules, against the modules."""

from __future__ import annotations

import copy
import threading
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.utils._python_dispatch import TorchDispatchMode

from rlzoo import A2C, DQN, PPO
from rlzoo.accel.fast_mlp import (
    LARGEST_IN_NUMPY,
    Tape,
    fast_forward,
    has_hooks,
    is_hooked,
    leaf_gradients,
    tanh,
    tanh_,
)
from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.distributions import Categorical
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy


def mlp(activation=nn.Tanh, bias=True):
    return nn.Sequential(
        nn.Linear(4, 8, bias=bias), activation(), nn.Linear(8, 6), activation(), nn.Linear(6, 2)
    )


@pytest.mark.parametrize(
    "network",
    [
        mlp(),
        mlp(nn.ReLU),
        mlp(nn.GELU),
        mlp(bias=False),
        nn.Linear(4, 2),
        nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)),
        nn.Sequential(nn.Tanh(), mlp(), nn.ReLU(), nn.ReLU()),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
        nn.Sequential(),
    ],
)
def test_the_result_is_that_of_the_modules(network):
    x = torch.randn(5, 4)
    before = x.clone()
    rounds = any(isinstance(layer, nn.Tanh) for layer in network.modules())  # NumPy's tanh does
    tolerance = {} if rounds else {"rtol": 0, "atol": 0}
    with torch.no_grad():
        torch.testing.assert_close(fast_forward(network, x), network(x), **tolerance)
    assert torch.equal(x, before)


def test_tanh_is_exact_to_two_units_in_the_last_place():
    x = torch.cat([torch.linspace(-10, 10, LARGEST_IN_NUMPY - 5), torch.tensor([0, -0.0, 1e-40, 1e-30, 50])])
    exact = torch.tanh(x.double())
    with warnings.catch_warnings(action="error"):
        y = tanh_(x)
    assert y is x
    assert ((y - exact).abs() <= 2 * torch.from_numpy(np.spacing(exact.abs().float().numpy()))).all()


def test_tanh_keeps_nan_and_the_ends_without_a_warning():
    with warnings.catch_warnings(action="error"):
        y = tanh_(torch.tensor([float("nan"), float("inf"), -float("inf")] * 20))
    assert torch.equal(y.nan_to_num(7), torch.tensor([7.0, 1, -1] * 20))


def test_tanh_has_the_same_bits_in_a_stack_and_in_new_memory():
    x = torch.randn(10, 256, 65)
    y, before = tanh(x), x.clone()
    assert torch.equal(x, before)
    assert torch.equal(y, torch.stack([tanh_(rows) for rows in x]))


@pytest.mark.parametrize("x", [torch.ones(3, dtype=torch.float64), torch.ones(LARGEST_IN_NUMPY + 1)])
def test_tanh_is_that_of_pytorch_for_other_tensors(x, monkeypatch):
    monkeypatch.setattr(np, "tanh", None)
    assert torch.equal(tanh_(x), torch.tanh(torch.ones_like(x)))


def test_tanh_is_seen_by_dispatch_modes_and_by_vmap():
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names, net, x = [], mlp(), torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(lambda row: fast_forward(net, row))(x), net(x))
        with Names():
            fast_forward(net, x)
    assert names.count("aten.tanh_.default") == 2


def test_plain_layers_are_not_called_and_those_with_hooks_are(monkeypatch):
    net, x = mlp(), torch.randn(5, 4)
    called = []
    monkeypatch.setattr(nn.Linear, "forward", lambda layer, x: called.append(layer) or x)
    with torch.no_grad():
        fast_forward(net, x)
        assert not called
        handle = net[2].register_forward_hook(lambda *_: torch.zeros(5, 6))
        assert torch.equal(fast_forward(net, x), net[4].bias.expand(5, 2))
        assert called == [net[2]]
        handle.remove()
        net.register_forward_pre_hook(lambda *_: None)
        fast_forward(net, x)
        assert called[1:] == [net[0], net[2], net[4]]


def test_hooks_for_all_modules_are_called():
    net, x, called = mlp(), torch.randn(5, 4), []
    handle = register_module_forward_hook(lambda module, *_: called.append(type(module)))
    try:
        with torch.no_grad():
            fast_forward(net, x)
    finally:
        handle.remove()
    assert called.count(nn.Linear) == 3 and nn.Sequential in called and not is_hooked(net)
    handle = register_module_full_backward_hook(lambda module, *_: called.append(module))
    try:
        assert has_hooks(net) and not is_hooked(net)
        tape = Tape()
        with tape:
            fast_forward(net, x.requires_grad_()).sum().backward()
    finally:
        handle.remove()
    assert {*net} <= {*called} and not has_hooks(net)


@pytest.mark.parametrize(
    "action_space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])]
)
@pytest.mark.parametrize("arch", [[], {"pi": [16], "vf": [8, 8]}, [12, {"pi": [8]}]])
def test_a_policy_gives_the_same_with_and_without_gradients(action_space, arch):
    policy = ActorCriticPolicy(spaces.Box(-1, 1, (4,)), action_space, lambda _: 1e-3, net_arch=arch)
    obs = torch.randn(9, 4)
    with torch.no_grad():
        actions, values, log_prob = policy(obs)
        assert torch.allclose(policy.predict_values(obs), values, atol=1e-6)
    learned = policy.evaluate_actions(obs, actions)
    assert torch.allclose(learned[0], values, atol=1e-6)
    assert torch.allclose(learned[1], log_prob, atol=1e-6)


def test_policies_have_second_derivatives():
    policy = ActorCriticPolicy(spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (2,)), lambda _: 1e-3)
    log_prob = policy.evaluate_actions(torch.randn(9, 4), torch.randn(9, 2))[1].mean()
    parameters = [policy.action_net.weight, policy.mlp_extractor.policy_net[0].weight]
    gradients = torch.autograd.grad(log_prob, parameters, create_graph=True)
    curvature = torch.autograd.grad(gradients[1].square().sum(), parameters)
    assert all(c.any() for c in curvature)


def with_zero_gradients(*networks):
    """Return the networks' parameters, whose gradients are zero."""
    parameters = [parameter for network in networks for parameter in network.parameters()]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return parameters


def check_tape(loss, *networks):
    """Compare a tape's gradients with those of autograd, for a loss of a function that evaluates a network.

    :return: number of networks that were recorded
    """
    parameters = with_zero_gradients(*networks)
    expected = torch.autograd.grad(loss(lambda network, x: network(x)), parameters)
    tape = Tape()
    with tape:
        value = loss(fast_forward)
    n_recorded = len(tape.networks)
    torch.testing.assert_close(value, loss(lambda network, x: network(x)), rtol=1e-6, atol=1e-7)
    tape.backward(value)
    assert not tape.networks
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)
    return n_recorded


@pytest.mark.parametrize(
    "network",
    [
        mlp(),
        mlp(nn.ReLU),
        mlp(bias=False),
        nn.Linear(4, 2),
        nn.Sequential(nn.Tanh(), nn.Linear(4, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Tanh(), nn.Linear(8, 2)),
        nn.Sequential(nn.Tanh(), nn.ReLU(), nn.Tanh(), nn.Linear(4, 2), nn.Tanh(), nn.ReLU()),
    ],
)
def test_gradients_of_a_tape_are_those_of_autograd(network):
    x = torch.randn(5, 4)
    before = x.clone()
    assert check_tape(lambda evaluate: evaluate(network, x).exp().mean(), network) == 1
    assert torch.equal(x, before)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_features", [4, 20])
@pytest.mark.parametrize("bias", [True, False])
def test_a_chain_overwrites_gradients_without_the_engine(weighted, n_features, bias, monkeypatch):
    network = nn.Sequential(nn.Linear(n_features, 8, bias=bias), nn.ReLU(), nn.Linear(8, 2, bias=bias))
    x, target, actions = torch.randn(8, n_features), torch.randn(8), torch.randint(2, (8, 1))

    def loss(q_values):
        losses = nn.functional.smooth_l1_loss(
            q_values.gather(1, actions).squeeze(1), target, reduction="none"
        )
        return (losses * torch.arange(8.0)).mean() if weighted else losses.mean()

    expected = torch.autograd.grad(loss(network(x)), list(network.parameters()))
    monkeypatch.setattr(torch.Tensor, "backward", None)
    group = FlatParameters(network.parameters())
    group.vector.grad.fill_(7.0)
    with group.recorded(OwnedByRlzoo()):
        value = loss(fast_forward(network, x))
    group.backward(value)
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


def test_gradients_of_leaves_are_those_of_autograd():
    values, log_probs = torch.randn(2, 8, 1, requires_grad=True), torch.randn(8, requires_grad=True)
    loss = (0.3 * log_probs - values[..., 0].amin(0)).mean() - (values * values).square().mean()
    found = leaf_gradients(loss)
    assert found is not None
    assert sum(leaf is values for leaf, _ in found) == 3  # one for each path
    expected = torch.autograd.grad(loss, [values, log_probs])
    for leaf, gradient in zip([values, log_probs], expected, strict=True):
        torch.testing.assert_close(sum(ours for other, ours in found if other is leaf), gradient)


def test_gradients_of_leaves_take_known_operations():
    values = torch.randn(8, requires_grad=True)
    loss = values.exp().mean()
    assert leaf_gradients(loss) is None
    loss.backward()  # the graph is as before
    torch.testing.assert_close(values.grad, values.detach().exp() / 8)
    assert leaf_gradients(torch.tensor(1.0)) is None


@pytest.mark.parametrize("case", ["other parameter", "penalty", "frozen", "twice"])
def test_other_losses_and_parameters_take_autograd(case):
    network, other, x = mlp(nn.ReLU), nn.Linear(2, 2), torch.randn(8, 4)
    if case == "twice":
        shared = nn.Linear(4, 4)
        network = nn.Sequential(shared, nn.Tanh(), shared)
    parameters = [*network.parameters(), *(other.parameters() if case == "other parameter" else ())]
    group = FlatParameters(parameters)

    def loss(evaluate):
        value = evaluate(network, x).mean()
        return value + parameters[0].square().sum() if case == "penalty" else value

    if case == "frozen":
        parameters[1].requires_grad_(False)
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    expected = torch.autograd.grad(loss(lambda net, x: net(x)), learned, allow_unused=True)
    group.vector.grad.fill_(7.0)
    with group.recorded(OwnedByRlzoo()):
        value = loss(fast_forward)
    group.backward(value)
    gradients = dict(zip(learned, expected, strict=True))
    for parameter in parameters:
        gradient = gradients.get(parameter)
        torch.testing.assert_close(
            parameter.grad, torch.zeros_like(parameter) if gradient is None else gradient
        )


class OwnedByRlzoo:
    """What a group takes for a policy of this package."""

    __module__ = "rlzoo.policies"


def test_a_tape_follows_networks_behind_networks():
    trunk, head, other, x = mlp(), mlp_of(2, 3), mlp_of(2, 1), torch.randn(5, 4)

    def loss(evaluate):
        latent = evaluate(trunk, x)
        return (evaluate(head, latent).square().sum() + evaluate(other, latent).sum()) * latent.exp().mean()

    assert check_tape(loss, trunk, head, other) == 3


@pytest.mark.parametrize("two_paths", [lambda output: output * output, lambda output: output.exp()])
def test_other_losses_of_one_network_take_the_engine(two_paths):
    network, x = mlp(), torch.randn(5, 4)
    assert check_tape(lambda evaluate: two_paths(evaluate(network, x)).mean(), network) == 1


def test_losses_of_two_networks_take_the_engine():
    one, other, x = mlp_of(4, 1), mlp_of(4, 1), torch.randn(5, 4)
    assert check_tape(lambda evaluate: evaluate(one, x).sum() + evaluate(other, x).sum(), one, other) == 2


def mlp_of(n_inputs, n_outputs):
    return nn.Sequential(nn.Linear(n_inputs, 6), nn.Tanh(), nn.Linear(6, n_outputs))


def test_a_network_evaluated_twice_gets_both_gradients():
    network, x, y = mlp(), torch.randn(5, 4), torch.randn(3, 4)
    assert check_tape(lambda run: run(network, x).mean() - run(network, y).exp().mean(), network) == 2


def test_other_parameters_of_a_loss_get_their_gradients():
    class Log(nn.Module):
        def __init__(self):
            super().__init__()
            self.std = nn.Parameter(torch.ones(2))

    network, log, x = mlp(), Log(), torch.randn(5, 4)
    penalty = network[0].weight

    def loss(evaluate):
        return (evaluate(network, x) * log.std.exp()).mean() + penalty.square().sum()

    assert check_tape(loss, network, log) == 1


def test_a_tape_leaves_frozen_parameters_alone():
    network, x = mlp(), torch.randn(5, 4)
    parameters = with_zero_gradients(network)
    network[2].requires_grad_(False)
    tape = Tape()
    with tape:
        loss = fast_forward(network, x).square().mean()
    tape.backward(loss)
    assert [bool(parameter.grad.any()) for parameter in parameters] == [True, True, False, False, True, True]


def is_recorded(network, x):
    with_zero_gradients(network)
    tape = Tape()
    with tape:
        output = fast_forward(network, x)
    torch.testing.assert_close(output, network(x))
    return bool(tape.networks)


def test_what_a_tape_cannot_follow_is_left_to_autograd():
    x = torch.randn(5, 4)
    assert is_recorded(mlp(), x)
    others = [mlp(nn.GELU), nn.Sequential(mlp(), nn.ReLU()), nn.Sequential(), mlp().requires_grad_(False)]
    assert not any(is_recorded(network, x) for network in others)
    assert not is_recorded(mlp(), x.clone().requires_grad_())
    assert not is_recorded(mlp(), torch.randn(2, 5, 4))


def test_hooks_are_left_to_autograd():
    x = torch.randn(5, 4)
    for where in (0, None):
        hooked = mlp()
        (hooked if where is None else hooked[where]).register_full_backward_hook(lambda *_: None)
        assert not is_recorded(hooked, x)
    for method in ("register_hook", "register_post_accumulate_grad_hook"):
        hooked = mlp()
        getattr(hooked[0].weight, method)(lambda _: None)
        assert not is_recorded(hooked, x)
    patched = mlp()
    patched[0].forward = lambda x: torch.zeros(len(x), 8)
    assert not is_recorded(patched, x)


def test_parameters_without_a_gradient_are_left_to_autograd():
    network, tape = mlp(), Tape()
    with tape:
        output = fast_forward(network, torch.randn(5, 4))
    assert not tape.networks and output.grad_fn is not None
    tape.backward(output.sum())
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("behind", ["network", "loss"])
def test_a_hook_on_an_output_is_called(behind):
    trunk, head, seen = mlp(), mlp_of(2, 1), []
    with_zero_gradients(trunk, head)
    tape = Tape()
    with tape:
        latent = fast_forward(trunk, torch.randn(5, 4))
        latent.register_hook(lambda gradient: seen.append(gradient))
        loss = (fast_forward(head, latent) if behind == "network" else latent).mean()
    tape.backward(loss)
    assert len(seen) == 1 and trunk[0].weight.grad.any()


def test_a_tape_adds_to_gradients_that_are_there():
    network, x = mlp(), torch.randn(5, 4)
    parameters = with_zero_gradients(network)
    expected = torch.autograd.grad(network(x).mean(), parameters)
    tape = Tape()
    for _ in range(2):
        with tape:
            loss = fast_forward(network, x).mean()
        tape.backward(loss)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient)


def test_what_a_hook_or_another_layer_keeps_is_not_changed():
    kept = []
    hooked = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    hooked[0].register_forward_hook(lambda module, inputs, output: kept.append(output))
    keeper = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.ReLU())
    keeper[1].forward = lambda x: kept.append(x) or x
    x = torch.randn(5, 4)
    with torch.no_grad():
        for network in (hooked, keeper):
            fast_forward(network, x)
            assert torch.equal(kept.pop(), nn.functional.linear(x, network[0].weight, network[0].bias))


def test_other_threads_do_not_record():
    network, tape, outputs = mlp(), Tape(), []
    with_zero_gradients(network)
    with tape:
        thread = threading.Thread(target=lambda: outputs.append(fast_forward(network, torch.randn(5, 4))))
        thread.start()
        thread.join()
    assert not tape.networks and outputs[0].grad_fn is not None


class OwnPolicy(ActorCriticPolicy):
    pass


class OwnDistribution(Categorical):
    def proba_distribution(self, action_logits):
        return super().proba_distribution(action_logits.clamp_(-1, 1))


class OwnA2C(A2C):
    def gradient_step(self, batch, evaluated):
        values, log_probs, _ = evaluated or self.policy.evaluate_actions(batch.obs, batch.actions)
        loss = values.square().mean() - (batch.advantages * log_probs).mean()
        self.policy.optimizer.zero_grad()
        loss.backward()
        self.policy.optimizer.step()
        return {"loss": loss.detach()}


def recorded_networks(monkeypatch, model):
    """Return how many networks each gradient step of a short training has recorded."""
    counts = []
    backward = FlatParameters.backward

    def counted(self, loss, only=False):
        counts.append(len(self._tape.networks))
        backward(self, loss, only)

    monkeypatch.setattr(FlatParameters, "backward", counted)
    model.learn(20)
    return set(counts)


def a2c(kind=A2C, policy="MlpPolicy"):
    return kind(policy, "CartPole-v1", n_steps=5, seed=0, device="cpu")


def test_agents_record_their_networks(monkeypatch):
    assert recorded_networks(monkeypatch, a2c()) == {4}
    ppo = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, device="cpu")
    assert recorded_networks(monkeypatch, ppo) == {4}
    dqn = DQN("MlpPolicy", "CartPole-v1", learning_starts=2, train_freq=1, batch_size=2, device="cpu")
    assert recorded_networks(monkeypatch, dqn) == {1}


def test_policies_and_distributions_of_users_are_not_recorded(monkeypatch):
    assert recorded_networks(monkeypatch, a2c(policy=OwnPolicy)) == {0}
    model = a2c()
    model.policy.action_dist = OwnDistribution(2)
    assert recorded_networks(monkeypatch, model) == {0}


def test_autocast_is_not_recorded(monkeypatch):
    with torch.autocast("cpu", torch.bfloat16):
        model = DQN("MlpPolicy", "CartPole-v1", learning_starts=2, train_freq=1, batch_size=2, device="cpu")
        assert recorded_networks(monkeypatch, model) == {0}


def test_a_gradient_step_of_the_user_learns():
    model = a2c(OwnA2C)
    before = model.policy.state_dict()["mlp_extractor.policy_net.0.weight"].clone()
    model.learn(20)
    assert not torch.equal(model.policy.state_dict()["mlp_extractor.policy_net.0.weight"], before)


def test_copies_do_not_keep_a_recorded_loss():
    network = mlp()
    group = FlatParameters(network.parameters())
    with group.recorded(ActorCriticPolicy.__new__(ActorCriticPolicy)):
        fast_forward(network, torch.randn(5, 4))
    assert group._tape.networks and not copy.deepcopy(group)._tape.networks


def test_without_a_tape_gradients_are_autograds():
    network, x = mlp(), torch.randn(5, 4)
    assert fast_forward(network, x).grad_fn is not None


def test_the_next_recording_forgets_a_loss_that_was_not_used():
    network, tape = mlp(), Tape()
    with_zero_gradients(network)
    for _ in range(2):
        with tape:
            fast_forward(network, torch.randn(5, 4))
    assert len(tape.networks) == 1
