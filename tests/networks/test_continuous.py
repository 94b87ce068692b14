"""Policies for continuous actions: their parts, the names of their parameters, what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions as td
from torch import nn

from rlzoo import UserError
from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.torch_layers import FlattenExtractor
from rlzoo.policies.continuous_policies import CrossQPolicy, SACPolicy, TD3Policy, TQCPolicy
from rlzoo.policies.policy_registry import get_policy_class

OBS = spaces.Box(-np.array([1, 1, 8], np.float32), np.array([1, 1, 8], np.float32))
ACT = spaces.Box(-2.0, 2.0, (1,), np.float32)
WIDE = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))
IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
DICT = spaces.Dict({"a": OBS, "b": spaces.Discrete(3)})
POLICIES = {"deterministic": TD3Policy, "squashed": SACPolicy, "tqc": TQCPolicy, "crossq": CrossQPolicy}


def make(cls=SACPolicy, observation_space=OBS, action_space=ACT, **kwargs):
    torch.manual_seed(0)
    return cls(observation_space, action_space, lambda _: 1e-3, **kwargs)


def linears(prefix, *layers):
    """Names and shapes of linear layers: {index: (out, in)} as pairs."""
    shapes = {}
    for index, n_out, n_in in layers:
        shapes[f"{prefix}{index}weight"] = (n_out, n_in)
        shapes[f"{prefix}{index}bias"] = (n_out,)
    return shapes


def renorm(prefix, width):
    shapes = {f"{prefix}.{name}": (width,) for name in ("scale", "bias", "ra_mean", "ra_var")}
    return {**shapes, f"{prefix}.steps": ()}


def mlp(prefix, n_in, first, second, n_out):
    return linears(prefix, (".0.", first, n_in), (".2.", second, first), (".4.", n_out, second))


def latent(n_in=3, first=256, second=256):
    heads = {**linears("actor.", ("mu.", 1, second), ("log_std.", 1, second))}
    return {**linears("actor.latent_pi", (".0.", first, n_in), (".2.", second, first)), **heads}


def normalised(prefix, n_in, width):
    return {
        **renorm(f"{prefix}.0", n_in),
        **linears(prefix, (".1.", width, n_in)),
        **renorm(f"{prefix}.3", width),
        **linears(prefix, (".4.", width, width)),
        **renorm(f"{prefix}.6", width),
    }


# As stable-baselines3 2.9.2 and sb3-contrib list them for MlpPolicy on Pendulum-v1.
NAMES = {
    "squashed": {
        **latent(),
        **mlp("critic.qf0", 4, 256, 256, 1),
        **mlp("critic.qf1", 4, 256, 256, 1),
        **mlp("critic_target.qf0", 4, 256, 256, 1),
        **mlp("critic_target.qf1", 4, 256, 256, 1),
    },
    "deterministic": {
        **mlp("actor.mu", 3, 400, 300, 1),
        **mlp("actor_target.mu", 3, 400, 300, 1),
        **mlp("critic.qf0", 4, 400, 300, 1),
        **mlp("critic.qf1", 4, 400, 300, 1),
        **mlp("critic_target.qf0", 4, 400, 300, 1),
        **mlp("critic_target.qf1", 4, 400, 300, 1),
    },
    "tqc": {
        **latent(),
        **mlp("critic.qf0", 4, 256, 256, 25),
        **mlp("critic.qf1", 4, 256, 256, 25),
        **mlp("critic_target.qf0", 4, 256, 256, 25),
        **mlp("critic_target.qf1", 4, 256, 256, 25),
    },
    "crossq": {
        **normalised("actor.latent_pi", 3, 256),
        **linears("actor.", ("mu.", 1, 256), ("log_std.", 1, 256)),
        **normalised("critic.qf0", 4, 1024),
        **linears("critic.qf0", (".7.", 1, 1024)),
        **normalised("critic.qf1", 4, 1024),
        **linears("critic.qf1", (".7.", 1, 1024)),
    },
}


@pytest.mark.parametrize("family", POLICIES)
def test_parameters_have_the_names_and_shapes_that_users_know(family):
    shapes = {name: tuple(tensor.shape) for name, tensor in make(POLICIES[family]).state_dict().items()}
    assert shapes == NAMES[family]


@pytest.mark.parametrize("family", POLICIES)
@pytest.mark.parametrize("name", ["MlpPolicy", "CnnPolicy", "MultiInputPolicy", "LnMlpPolicy", "LnCnnPolicy"])
def test_every_variant_acts_within_the_bounds(family, name):
    if family == "crossq" and name.startswith("Ln"):
        with pytest.raises(UserError, match="unknown policy"):
            get_policy_class(family, name)
        return
    space = IMAGE if "Cnn" in name else DICT if "Multi" in name else OBS
    policy = make(get_policy_class(family, name), space, WIDE)
    has_norm = any(isinstance(module, nn.LayerNorm) for module in policy.actor.modules())
    assert has_norm == name.startswith("Ln")
    for deterministic in (True, False):
        action, state = policy.predict(space.sample(), deterministic=deterministic)
        assert WIDE.contains(action) and action.shape == (2,) and state is None
    many = {key: np.stack([part.sample()] * 4) for key, part in DICT.items()}
    batch = np.stack([space.sample()] * 4) if space is not DICT else many
    assert policy.predict(batch)[0].shape == (4, 2)


@pytest.mark.parametrize(
    "net_arch", [[64, 0], [64, "64"], 64, "64", [2.5], {"pi": [8]}, {"pi": [8], "vf": [8]}, [True]]
)
def test_a_bad_architecture_is_refused(net_arch):
    with pytest.raises(UserError, match="net_arch"):
        make(net_arch=net_arch)


@pytest.mark.parametrize(
    ("kwargs", "named"),
    [
        ({"n_critics": 0}, "n_critics"),
        ({"layer_norm": "actor"}, "layer_norm"),
        ({"dropout": 1.0}, "dropout"),
        ({"cls": TQCPolicy, "n_quantiles": 0}, "n_quantiles"),
        ({"cls": CrossQPolicy, "batch_norm_momentum": 0.0}, "batch_norm_momentum"),
        ({"cls": CrossQPolicy, "batch_norm_eps": 0.0}, "batch_norm_eps"),
        ({"action_space": spaces.Box(-np.inf, 1.0, (1,), np.float32)}, "finite"),
    ],
)
def test_values_out_of_range_are_refused(kwargs, named):
    with pytest.raises(UserError, match=named):
        make(**kwargs)


def test_architectures_of_actor_and_critics():
    policy = make(net_arch={"pi": [8], "qf": [16, 4]}, n_critics=3, activation_fn=nn.Tanh)
    assert [layer.out_features for layer in policy.actor.latent_pi if isinstance(layer, nn.Linear)] == [8]
    assert policy.critic.state_dict()["qf2.2.weight"].shape == (4, 16)
    assert isinstance(policy.critic.layers[1], nn.Tanh) and isinstance(policy.actor.latent_pi[1], nn.Tanh)
    linear = make(net_arch=[])
    assert linear.actor.mu.in_features == 3 and linear.critic.state_dict()["qf0.0.weight"].shape == (1, 4)
    obs, actions = torch.randn(5, 3), torch.randn(5, 1)
    values = linear.critic.all_values(obs, actions)
    assert values.shape == (2, 5, 1)
    assert torch.allclose(linear.critic.first_values(obs, actions).flatten(), values[0].flatten())


@pytest.mark.parametrize("layer_norm", [True, False, "critic"])
def test_layer_norm_in_all_networks_or_only_the_critics(layer_norm):
    policy = make(layer_norm=layer_norm)
    in_actor = any(isinstance(module, nn.LayerNorm) for module in policy.actor.latent_pi)
    assert in_actor == (layer_norm is True)
    in_critic = policy.critic.state_dict()["qf0.1.weight"].shape if layer_norm else None
    assert in_critic == (torch.Size([256]) if layer_norm else None)


def test_log_densities_are_those_of_a_squashed_gaussian():
    policy, obs = make(action_space=WIDE), torch.randn(6, 3)
    actions, log_probs = policy.actor.action_log_prob(obs)
    hidden = policy.actor.latent_pi(obs)
    normal = td.Normal(policy.actor.mu(hidden), policy.actor.log_std(hidden).exp())
    squashed = td.Independent(td.TransformedDistribution(normal, td.TanhTransform()), 1)
    assert torch.allclose(log_probs, squashed.log_prob(actions), atol=1e-4)
    assert torch.allclose(policy.evaluate_actions(obs, actions)[1], log_probs, atol=1e-4)
    assert torch.allclose(policy._predict(obs, deterministic=True), torch.tanh(policy.actor.mu(hidden)))


def test_standard_deviations_are_bounded():
    policy, obs = make(), torch.randn(4, 3)
    with torch.no_grad():
        for bias, log_std in ((100.0, 2.0), (-100.0, -20.0)):
            policy.actor.log_std.bias.fill_(bias)
            assert torch.equal(policy.actor.distribution(obs).log_std, torch.full((4, 1), log_std))


def test_gsde_noise_resamples_and_its_std_gets_gradients():
    policy, obs = make(use_sde=True, log_std_init=-1.0), torch.randn(4, 3)
    first = policy._predict(obs)
    assert torch.equal(first, policy._predict(obs))
    policy.reset_noise()
    drawn = policy._predict(obs)
    assert not torch.equal(first, drawn)
    assert not torch.equal(drawn, policy._predict(obs, deterministic=True))
    (gradient,) = torch.autograd.grad(drawn.sum(), policy.actor.log_std)
    hidden, noise = policy.actor.latent_pi(obs), policy.actor.action_dist.exploration_mat
    slope = 1 - drawn.square()  # d tanh(x); W = exp(log_std) * unit noise is its own derivative
    assert torch.allclose(gradient, noise * (hidden.T @ slope), atol=1e-6)


def test_the_mean_is_bounded_with_gsde():
    policy = make(use_sde=True, clip_mean=0.5)
    with torch.no_grad():
        policy.actor.mu[0].bias.fill_(9.0)
    assert torch.allclose(
        policy._predict(torch.randn(2, 3), deterministic=True), torch.tensor(math.tanh(0.5)), atol=1e-6
    )


@pytest.mark.parametrize("family", POLICIES)
@pytest.mark.parametrize("shared", [True, False])
def test_a_shared_extractor_is_learned_by_the_actor_alone(family, shared):
    name = "CnnPolicy"
    policy = make(get_policy_class(family, name), IMAGE, share_features_extractor=shared)
    assert (policy.critic.features_extractor is policy.actor.features_extractor) == shared
    obs = torch.from_numpy(np.stack([IMAGE.sample() for _ in range(3)]))
    policy.critic.all_values(obs, torch.zeros(3, 1)).sum().backward()
    touched = [name for name, p in policy.critic.named_parameters() if p.grad is not None and p.grad.any()]
    assert any(name.startswith("features_extractor.") for name in touched) != shared
    assert any(name.startswith("layers.") for name in touched)
    learned = {id(parameter) for parameter in policy.critic.trainable_parameters()}
    extractor = [id(parameter) for parameter in policy.critic.features_extractor.parameters()]
    assert learned.isdisjoint(extractor) == shared
    policy.zero_grad()
    actions = policy.actor(obs)
    actions.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.actor.features_extractor.parameters())


def test_copies_have_no_gradients_and_extractors_of_their_own():
    policy = make(get_policy_class("deterministic", "CnnPolicy"), IMAGE, share_features_extractor=True)
    assert not any(p.requires_grad for target in policy.targets() for p in target.parameters())
    own = [policy.actor_target.features_extractor, policy.critic_target.features_extractor]
    assert own[0] is not own[1] and policy.actor.features_extractor not in own


def test_dropout_and_normalisation_follow_the_mode():
    policy, obs, actions = make(dropout=0.5), torch.randn(4, 3), torch.zeros(4, 1)
    policy.set_training_mode(True)
    assert not torch.equal(policy.critic.all_values(obs, actions), policy.critic.all_values(obs, actions))
    policy.set_training_mode(False)
    assert torch.equal(policy.critic.all_values(obs, actions), policy.critic.all_values(obs, actions))


class WithDropout(FlattenExtractor):
    """Flattened observations of which half are dropped."""

    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.dropout = nn.Dropout(0.5)

    def forward(self, observations):
        return self.dropout(super().forward(observations))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("cls", [TD3Policy, SACPolicy])
def test_targets_stay_in_evaluation_mode_except_for_droq(cls, dropout):
    policy = make(cls, features_extractor_class=WithDropout, dropout=dropout)
    for mode in (True, False):
        policy.set_training_mode(mode)
        modes = {
            name: module.training for name, module in policy.named_modules() if isinstance(module, nn.Dropout)
        }
        of_targets = {name: modes.pop(name) for name in list(modes) if "_target." in name}
        assert set(modes.values()) == {mode}
        hidden = {name for name in of_targets if ".layers." in name}
        assert len(hidden) == (2 if dropout else 0)
        assert all(training == (mode and name in hidden) for name, training in of_targets.items())


def test_crossq_normalises_all_its_networks_or_none():
    options = {"batch_norm_momentum": 0.2, "batch_norm_eps": 0.1, "renorm_warmup_steps": 7}
    policy = make(CrossQPolicy, **options)
    norms = [module for module in policy.modules() if isinstance(module, BatchRenorm)]
    assert len(norms) == 6
    assert {(norm.momentum, norm.eps, norm.warmup_steps) for norm in norms} == {(0.2, 0.1, 7)}
    plain = make(CrossQPolicy, batch_norm=False)
    assert not any(isinstance(module, BatchRenorm) for module in plain.modules())
    assert plain.critic.state_dict()["qf0.0.weight"].shape == (1024, 4)


def test_crossq_has_its_own_momentum_unless_options_are_given():
    assert make(CrossQPolicy).optimizer_kwargs == {"betas": (0.5, 0.999)}
    assert make(CrossQPolicy, optimizer_kwargs={"eps": 1e-4}).optimizer_kwargs == {"eps": 1e-4}
    assert make(CrossQPolicy, optimizer_class=torch.optim.SGD).optimizer_kwargs == {}


def test_single_critics_have_names():
    critic, obs, actions = make().critic, torch.rand(5, 3), torch.rand(5, 1)
    for single, values in zip((critic.qf0, critic.qf1), critic(obs, actions), strict=True):
        torch.testing.assert_close(single(torch.cat([obs, actions], dim=1)), values)
    for missing in ("qf2", "qf", "qfx"):
        assert not hasattr(critic, missing)
