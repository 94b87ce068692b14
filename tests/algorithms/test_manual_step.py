"""Manual gradient steps do what autograd does, and only where nobody would notice."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlzoo import DDPG, SAC, TD3, TQC, BaseCallback, CrossQ, PrioritizedReplayBuffer
from rlzoo.accel import matmul_precision
from rlzoo.algorithms.manual import manual_step as module
from rlzoo.algorithms.manual.manual_networks import ManualNetwork
from rlzoo.algorithms.manual.manual_step import ManualStep, manual_step
from rlzoo.networks.ensemble import EnsembleMlp

NARROW = {"net_arch": [16, 12]}
WIDE = {"policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 256, "learning_starts": 10}
DUE = {
    SAC: {"update_actor": True, "update_target": True},
    TD3: {"update_actor": True},
    TQC: {"update_target": True},
}


class Shapes(gym.Env):
    """Actions [2, 2], and observations of a given space."""

    action_space = gym.spaces.Box(-1, 1, (2, 2))

    def __init__(self, observation_space):
        self.observation_space = observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return (
            self.observation_space.sample(),
            float(np.sum(action)),
            bool(self.np_random.random() < 0.1),
            False,
            {},
        )


def trained(kind, space=None, **options):
    space = space or gym.spaces.Box(-1, 1, (3,), seed=1)
    space.seed(1)
    options.setdefault("policy_kwargs", NARROW)
    model = kind("MlpPolicy", Shapes(space), seed=3, learning_starts=20, batch_size=32, **options)
    model.action_space.seed(2)
    return model.learn(30)


def vectors(model):
    networks = (model.policy.actor, model.policy.critic, model.policy.critic_target)
    return [nn.utils.parameters_to_vector(network.parameters()).detach() for network in networks]


def gradients(model, due):
    groups = (model.critic_flat, *([model.actor_flat] if due.get("update_actor", True) else []))
    return [torch.cat([p.grad.flatten() for p in group.parameters]) for group in groups]


CASES = {
    "sac": (SAC, {}),
    "sac-fixed-coefficient": (SAC, {"ent_coef": 0.2}),
    "sac-tanh": (SAC, {"policy_kwargs": {**NARROW, "activation_fn": nn.Tanh}}),
    "sac-redq": (SAC, {"policy_kwargs": {**NARROW, "n_critics": 5}, "n_target_critics": 2}),
    "sac-one-critic": (SAC, {"policy_kwargs": {**NARROW, "n_critics": 1}}),
    "sac-critic-alone": (SAC, {"due": {"update_actor": False, "update_target": True}}),
    "sac-one-layer": (SAC, {"policy_kwargs": {"net_arch": [8]}}),
    "sac-no-layer": (SAC, {"policy_kwargs": {"net_arch": []}}),
    "sac-prioritised": (SAC, {"replay_buffer_class": PrioritizedReplayBuffer}),
    "sac-discrete-observations": (SAC, {"space": gym.spaces.Discrete(5)}),
    "sac-matrix-observations": (SAC, {"space": gym.spaces.Box(-1, 1, (2, 3))}),
    "sac-rmsprop": (SAC, {"policy_kwargs": {**NARROW, "optimizer_class": torch.optim.RMSprop}}),
    "sac-weight-decay": (SAC, {"policy_kwargs": {**NARROW, "optimizer_kwargs": {"weight_decay": 0.1}}}),
    "td3": (TD3, {}),
    "td3-critic-alone": (TD3, {"due": {"update_actor": False}}),
    "td3-without-noise": (TD3, {"target_policy_noise": 0.0}),
    "td3-prioritised": (TD3, {"replay_buffer_class": PrioritizedReplayBuffer}),
    "tqc": (TQC, {}),
    "tqc-five-critics": (TQC, {"policy_kwargs": {**NARROW, "n_critics": 5}}),
    "tqc-prioritised": (TQC, {"replay_buffer_class": PrioritizedReplayBuffer}),
}


@pytest.mark.parametrize("name", CASES)
def test_manual_steps_are_those_of_autograd(name):
    kind, options = CASES[name]
    due = options.get("due", DUE[kind])
    model = trained(kind, **{key: value for key, value in options.items() if key != "due"})
    other = copy.deepcopy(model)
    step = ManualStep(other, other.actor_flat, other.critic_flat)
    for k in range(4):
        torch.manual_seed(k)
        (batch,) = model.replay_buffer.batches(1, 32)
        twin = copy.deepcopy(batch)
        state = torch.get_rng_state()
        expected = model.gradient_step(batch, **due)
        drawn = torch.get_rng_state()
        torch.set_rng_state(state)
        metrics = step(twin, **due)
        assert torch.equal(torch.get_rng_state(), drawn)
        assert metrics.keys() == expected.keys()
        for key in metrics:
            assert float(metrics[key]) == pytest.approx(float(expected[key]), rel=1e-4, abs=1e-6)
        if batch.priorities is not None:
            torch.testing.assert_close(twin.priorities, batch.priorities, rtol=1e-4, atol=1e-6)
        for found, gradient in zip(gradients(other, due), gradients(model, due), strict=True):
            assert torch.linalg.norm(found - gradient) <= 1e-4 * torch.linalg.norm(gradient)
    for found, vector in zip(vectors(other), vectors(model), strict=True):
        assert torch.linalg.norm(found - vector) <= 1e-5 * torch.linalg.norm(vector)


@pytest.mark.parametrize("first", [False, True])
def test_network_passes_are_those_of_its_layers(first):
    torch.manual_seed(0)
    ensemble = EnsembleMlp(3, 4, 2, [6, 5], nn.Tanh)
    x = torch.randn(7, 4, requires_grad=True)
    y = ensemble.first(x) if first else ensemble(x)
    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    expected = [p.grad.clone() for p in ensemble.parameters()]
    for parameter in ensemble.parameters():
        parameter.grad = torch.full_like(parameter, 9.0)
    network = ManualNetwork(ensemble.layers, first=first)
    with torch.no_grad():
        values = network.forward(x.detach())
        of_inputs = network.backward(values, weights, n_inputs=3, learn=not first)
    torch.testing.assert_close(values[-1], y.detach())
    torch.testing.assert_close(of_inputs if first else of_inputs.sum(0), x.grad[:, 1:])
    for parameter, gradient in zip(ensemble.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, torch.full_like(gradient, 9.0) if first else gradient)


class Watch(BaseCallback):
    """Notes the gradient step of each environment step, and calls a function once."""

    def __init__(self, change=lambda model: None):
        super().__init__()
        self.steps, self.change = [], change

    def _on_step(self):
        self.steps.append(vars(self.model).get("gradient_step"))
        if self.num_timesteps == 12:
            self.change(self.model)
        return True


@pytest.mark.parametrize("kind", [SAC, TD3, TQC])
def test_wide_networks_are_trained_by_manual_steps(kind):
    watch = Watch()
    model = kind("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(14, callback=watch)
    assert all(isinstance(step, ManualStep) for step in watch.steps)
    assert "gradient_step" not in vars(model)


class OwnSAC(SAC):
    pass


class OwnActivation(nn.ReLU):
    pass


def patched(model):
    model.gradient_step = model.gradient_step


def hooked(model):
    model.policy.critic.layers[0].register_forward_hook(lambda *_: None)


def overriding(model):
    model.policy.actor.action_log_prob = model.policy.actor.action_log_prob


NOT_POSSIBLE = {
    "narrow": (SAC, {"policy_kwargs": {"net_arch": [64, 64]}}, None),
    "small-batches": (SAC, {"batch_size": 32}, None),
    "own-class": (OwnSAC, {}, None),
    "own-activation": (SAC, {"policy_kwargs": {"activation_fn": OwnActivation}}, None),
    "other-activation": (SAC, {"policy_kwargs": {"activation_fn": nn.ELU}}, None),
    "dropout": (SAC, {"policy_kwargs": {"dropout": 0.1}}, None),
    "layer-norm": (SAC, {"policy_kwargs": {"layer_norm": True}}, None),
    "gsde": (SAC, {"use_sde": True}, None),
    "ddpg": (DDPG, {}, None),
    "crossq": (CrossQ, {}, None),
    "patched": (SAC, {}, patched),
    "hooked": (SAC, {}, hooked),
    "overriding": (SAC, {}, overriding),
}


@pytest.mark.parametrize("name", NOT_POSSIBLE)
def test_others_are_trained_by_autograd(name):
    kind, options, change = NOT_POSSIBLE[name]
    model = kind("MlpPolicy", "Pendulum-v1", **{"batch_size": 256, **options})
    if change is not None:
        assert manual_step(model) is not None
        change(model)
    assert manual_step(model) is None


def test_switch_turns_manual_steps_off(monkeypatch):
    model = SAC("MlpPolicy", "Pendulum-v1")
    assert manual_step(model) is not None
    monkeypatch.setattr(module, "ON", False)
    assert manual_step(model) is None


def test_frozen_parameters_stay_as_they_are():
    frozen = []

    def freeze(model):
        (first, *_) = model.policy.critic.layers
        frozen.extend([first.weight.requires_grad_(False), first.weight.clone()])

    SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(16, callback=Watch(freeze))
    assert torch.equal(*frozen)


def test_hook_of_a_callback_is_called():
    seen = []

    def watch(model):
        model.policy.actor.mu.register_full_backward_hook(lambda *_: seen.append(model.num_timesteps))

    SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(16, callback=Watch(watch))
    assert set(seen) == {12, 13, 14, 15, 16}


def test_tensor_hook_of_a_callback_is_called():
    seen = []

    def watch(model):
        model.policy.actor.mu.weight.register_hook(lambda gradient: seen.append(gradient.shape))

    SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(14, callback=Watch(watch))
    assert seen


def test_rounded_products_are_left_to_autograd(monkeypatch):
    model = trained(SAC)
    step = ManualStep(model, model.actor_flat, model.critic_flat)
    assert step.is_possible()
    monkeypatch.setattr(matmul_precision, "gradients_in_bfloat16", True)
    assert not step.is_possible()
