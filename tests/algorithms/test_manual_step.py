"""Manual gradient steps do what autograd does, and only where nobody would notice."""

from __future__ import annotations

import copy
import dataclasses
import functools

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
from rlzoo.algorithms.off_policy import sac
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.errors import UserError
from rlzoo.networks.ensemble import EnsembleMlp
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.policies.actors import SquashedGaussianActor
from rlzoo.policies.critics import Critics

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


def beyond_bounds(model):
    """Let the network ask for more than the largest and less than the smallest log standard deviation."""
    with torch.no_grad():
        model.policy.actor.log_std.bias.copy_(torch.tensor([2.05, 1.95, -20.05, -19.95]))


def move(model):
    """Take parameters and gradients out of their vectors, as scripts do."""
    for parameter in model.policy.critic.parameters():
        parameter.data = parameter.data * 1.01
        parameter.grad = None


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
    "sac-bounded-deviation": (SAC, {"change": lambda model: beyond_bounds(model)}),
    "sac-actor-now-and-then": (SAC, {"due": [{**DUE[SAC], "update_actor": k % 2 == 0} for k in range(4)]}),
    "sac-moved-parameters": (SAC, {"between": lambda model: move(model)}),
    "td3": (TD3, {}),
    "td3-discrete-observations": (TD3, {"space": gym.spaces.Discrete(5)}),
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
    options = dict(options)
    dues, between = options.pop("due", DUE[kind]), options.pop("between", None)
    change = options.pop("change", lambda model: None)
    model = trained(kind, **options)
    change(model)
    other = copy.deepcopy(model)
    step = ManualStep(other)
    for k in range(4):
        due = dues[k] if isinstance(dues, list) else dues
        if between is not None:
            between(model)
            between(other)
        assert step.is_possible()
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
    """Notes the gradient step of each environment step, and calls a function, later another one."""

    def __init__(self, change=lambda model: None, later=lambda model: None):
        super().__init__()
        self.steps, self.change, self.later = [], change, later

    def _on_step(self):
        self.steps.append(vars(self.model).get("gradient_step"))
        if self.num_timesteps == 12:
            self.change(self.model)
        if self.num_timesteps == 14:
            self.later(self.model)
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


class OwnOptimizer(NetworkOptimizer):
    pass


def put(path, value):
    """Return a function that replaces an attribute of a model by a function of it."""
    *way, name = path.split(".")

    def change(model):
        owner = model
        for step in way:
            owner = getattr(owner, step)
        setattr(owner, name, value(getattr(owner, name)))

    return change


def tie(model):
    model.policy.actor.log_std.weight = model.policy.actor.mu.weight
    model.setup_optimizers()


def freeze_before(model):
    model.policy.actor.mu.requires_grad_(False)
    model.setup_optimizers()


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
    "gradient-step": (SAC, {}, put("gradient_step", lambda step: step)),
    "method": (SAC, {}, put("policy.actor.get_action_dist_params", lambda method: method)),
    "step-of-optimiser": (SAC, {}, put("critic_optimizer.step", lambda step: step)),
    "averaged": (SAC, {}, put("critic_optimizer.average", lambda _: lambda group: None)),
    "own-optimiser": (
        TD3, {}, put("actor_optimizer", lambda one: OwnOptimizer(one.owner, one.parameters, only=True)),
    ),
    "hooked": (SAC, {}, lambda model: model.policy.critic.layers[0].register_forward_hook(lambda *_: None)),
    "two-activations": (SAC, {}, lambda model: model.policy.actor.latent_pi.append(nn.Tanh())),
    "activation-first": (SAC, {}, lambda model: model.policy.critic.layers.insert(0, nn.Tanh())),
    "tied": (SAC, {}, tie),
    "frozen": (SAC, {}, freeze_before),
    "ranks": (SAC, {}, put("ranks", lambda _: object())),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_POSSIBLE)
def test_others_are_trained_by_autograd(name):
    kind, options, change = NOT_POSSIBLE[name]
    model = kind("MlpPolicy", "Pendulum-v1", **{"batch_size": 256, **options})
    if change is not None:
        assert manual_step(model) is not None
        change(model)
    assert manual_step(model) is None


REPLACED = [
    (sac, "sac_actor_loss"),
    (sac, "sac_target"),
    (SAC, "gradient_step"),
    (SquashedGaussianActor, "action_log_prob"),
    (Critics, "all_values"),
    (NetworkOptimizer, "step"),
]


@pytest.mark.parametrize(("owner", "name"), REPLACED)
@pytest.mark.parametrize("wrapped", [False, True])
def test_replaced_functions_are_called_by_autograd(monkeypatch, owner, name, wrapped):
    original = getattr(owner, name)

    def replacement(*args, **kwargs):
        return original(*args, **kwargs)

    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE)
    step = manual_step(model)
    assert step is not None and step.is_possible()
    monkeypatch.setattr(owner, name, functools.wraps(original)(replacement) if wrapped else replacement)
    assert manual_step(model) is None
    if owner is sac or name == "gradient_step":
        assert not step.is_possible()


def final_networks(*changes):
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE)
    return vectors(model.learn(18, callback=Watch(*changes)))


def frozen(value):
    return lambda model: model.policy.critic.layers[0].weight.requires_grad_(not value)


CHANGES = {
    "nothing": lambda model: None,
    "optimisers": lambda model: model.setup_optimizers(),
    "layer": lambda model: model.policy.critic.layers.__setitem__(1, nn.Tanh()),
    "target": lambda model: setattr(model.policy, "critic_target", copy.deepcopy(model.policy.critic_target)),
    "parameters": lambda model: model.policy.actor.load_state_dict(
        copy.deepcopy(model.policy.actor.state_dict()), assign=True
    ),
    "method": put("policy.actor.action_log_prob", lambda method: lambda obs: method(0.9 * obs)),
    "optimiser": put(
        "critic_optimizer.step", lambda step: lambda loss, max_grad_norm=None: step(2 * loss, 0.1)
    ),
    "layer-method": put("policy.critic.layers.0.forward", lambda _: lambda x: x @ torch.ones(2, 4, 256)),
    "learning-rate": lambda model: setattr(model, "learning_rate", 0.01),
    "gradients": move,
}


@pytest.mark.parametrize("name", [*CHANGES, "frozen for two steps"])
def test_changes_in_a_callback_have_the_effect_they_had(monkeypatch, name):
    changes = [CHANGES[name]] if name in CHANGES else [frozen(True), frozen(False)]
    found = final_networks(*changes)
    monkeypatch.setattr(module, "ON", False)
    for one, other in zip(found, final_networks(*changes), strict=True):
        assert torch.linalg.norm(one - other) <= 1e-5 * torch.linalg.norm(other)


def test_hook_on_a_critic_in_a_callback_is_called():
    seen = []

    def watch(model):
        model.policy.critic.layers[0].register_forward_hook(lambda *_: seen.append(model.num_timesteps))

    TD3("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(14, callback=Watch(watch))
    assert {12, 13, 14} <= set(seen)


def test_step_of_a_callback_stays_in_the_next_training():
    calls = []

    def wrap(model):
        step = model.gradient_step
        model.gradient_step = lambda batch, **due: calls.append(1) or step(batch, **due)

    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE).learn(14, callback=Watch(wrap))
    assert (len(calls), "is_captured" in vars(model)) == (3, False)
    model.learn(4, reset_num_timesteps=False)
    assert len(calls) == 7


def test_step_that_a_callback_deletes_is_no_error():
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE)
    model.learn(14, callback=Watch(lambda model: delattr(model, "gradient_step")))
    assert "gradient_step" not in vars(model)


def test_arguments_may_be_positional():
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, **WIDE)

    def call(model):
        (batch,) = model.replay_buffer.batches(1, 8)
        assert "actor_loss" in model.gradient_step(batch, True, True)

    model.learn(13, callback=Watch(call))


def test_batches_of_other_classes_are_left_to_autograd():
    model = trained(SAC)
    (batch,) = model.replay_buffer.batches(1, 8)

    class OwnBatch(ReplayBatch):
        pass

    own = OwnBatch(**{f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)})
    step = ManualStep(model)
    step.agent.policy.actor.begin = None  # called by a manual step
    step(own, **DUE[SAC])
    with pytest.raises(TypeError):
        step(batch, **DUE[SAC])


def test_unknown_setting_of_graphs_is_refused():
    model = SAC("MlpPolicy", "Pendulum-v1", **WIDE)
    model.cuda_graphs = "bogus"
    with pytest.raises(UserError, match="cuda_graphs must be one of off, auto, on"):
        model.learn(12)


def test_switch_turns_manual_steps_off(monkeypatch):
    model = SAC("MlpPolicy", "Pendulum-v1")
    assert manual_step(model) is not None
    monkeypatch.setattr(module, "ON", False)
    assert manual_step(model) is None


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
    step = ManualStep(model)
    assert step.is_possible()
    monkeypatch.setattr(matmul_precision, "gradients_in_bfloat16", True)
    assert not step.is_possible()
