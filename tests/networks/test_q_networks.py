"""Q networks: shapes and names of every variant, the dueling identity, what is normalised, what follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.core.errors import UserError
from rlzoo.networks.torch_layers import NatureCNN
from rlzoo.policies.policy_registry import get_policy_class
from rlzoo.policies.value_based import DQNPolicy, QNetwork, QRDQNPolicy

IMAGE = spaces.Box(0, 255, (3, 36, 40), np.uint8)
VECTOR = spaces.Box(-1, 1, (4,))
OBSERVATIONS = {
    "MlpPolicy": VECTOR,
    "LnMlpPolicy": spaces.Discrete(5),
    "CnnPolicy": IMAGE,
    "LnCnnPolicy": IMAGE,
    "MultiInputPolicy": spaces.Dict(image=IMAGE, vector=VECTOR, kind=spaces.Discrete(3)),
}


def make(name="MlpPolicy", family="q_network", observations=None, n_actions=3, **kwargs):
    torch.manual_seed(0)
    space = OBSERVATIONS[name] if observations is None else observations
    policy_class = get_policy_class(family, name)
    return policy_class(space, spaces.Discrete(n_actions, start=5), lambda progress: 1e-3, **kwargs)


def sample(policy, n=6):
    rows = [policy.observation_space.sample() for _ in range(n)]
    if isinstance(rows[0], dict):
        return policy.obs_to_tensor({key: np.stack([row[key] for row in rows]) for key in rows[0]})[0]
    return policy.obs_to_tensor(np.stack(rows))[0]


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("family", ["q_network", "quantile"])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_shapes_on_every_observation_space(name, family, dueling):
    kwargs = {"n_quantiles": 7} if family == "quantile" else {}
    policy = make(name, family, dueling=dueling, **kwargs)
    obs = sample(policy)
    q_values = policy.q_values(obs)
    assert q_values.shape == (6, 3) and q_values.requires_grad
    assert torch.equal(policy(obs), q_values.argmax(1))
    assert torch.equal(policy.predict_values(obs), q_values.max(1, keepdim=True).values)
    if family == "quantile":
        quantiles = policy.quantiles(obs)
        assert quantiles.shape == (6, 7, 3)
        assert torch.allclose(quantiles.mean(1), q_values)
    single, state = policy.predict(policy.observation_space.sample())
    assert single.shape == () and 5 <= single < 8 and state is None


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("policy_class", [DQNPolicy, QRDQNPolicy])
def test_the_same_with_and_without_gradients(policy_class, dueling, layer_norm):
    policy = policy_class(
        VECTOR, spaces.Discrete(3), lambda _: 1e-3, dueling=dueling, layer_norm=layer_norm, net_arch=[16, 8]
    )
    obs = sample(policy)
    with torch.no_grad():
        plain = policy.q_values(obs)
    assert torch.allclose(policy.q_values(obs), plain, atol=1e-6)


@pytest.mark.parametrize("family", ["q_network", "quantile"])
def test_a_dueling_network_is_value_plus_centred_advantages(family):
    kwargs = {"n_quantiles": 4} if family == "quantile" else {}
    policy = make(family=family, dueling=True, net_arch=[8], **kwargs)
    network, obs = policy.online_net(), sample(policy)
    shape = (6, 4) if family == "quantile" else (6,)
    values = network.value_net(obs).view(*shape, 1)
    advantages = network.advantage_net(obs).view(*shape, 3)
    out = network(obs)
    assert torch.allclose(out.mean(-1), values.squeeze(-1), atol=1e-6)
    assert torch.allclose(out - values, advantages - advantages.mean(-1, keepdim=True), atol=1e-6)


def test_state_dicts_have_the_names_that_files_of_others_use():
    names = [f"q_net.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    expected = [f"{net}.{name}" for net in ("q_net", "q_net_target") for name in names]
    assert list(make().state_dict()) == expected
    quantile = make(family="quantile").state_dict()
    assert list(quantile) == [name.replace("q_net", "quantile_net") for name in expected]
    assert quantile["quantile_net.quantile_net.4.weight"].shape == (200 * 3, 64)
    cnn = list(make("CnnPolicy").state_dict())
    assert cnn[0] == "q_net.features_extractor.cnn.0.weight" and "q_net.q_net.0.weight" in cnn


def test_layer_norm_precedes_activations_and_norms_features():
    kinds = [type(layer).__name__ for layer in make("LnMlpPolicy", net_arch=[8, 8]).q_net.q_net]
    assert kinds == ["Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear"]
    assert [type(layer) for layer in make("LnCnnPolicy").q_net.q_net] == [nn.LayerNorm, nn.Linear]
    assert not any(isinstance(part, nn.LayerNorm) for part in make(net_arch=[8]).modules())


def test_hidden_layers_by_default_and_as_asked_for():
    def widths(policy):
        return [layer.out_features for layer in policy.q_net.q_net if isinstance(layer, nn.Linear)]

    assert widths(make()) == [64, 64, 3]
    assert widths(make("CnnPolicy")) == [3]
    assert widths(make("MultiInputPolicy")) == [64, 64, 3]
    assert widths(make("CnnPolicy", net_arch=[32])) == [32, 3]
    assert widths(make(net_arch=[])) == [3]
    assert widths(make("MlpPolicy", observations=IMAGE, features_extractor_class=NatureCNN)) == [3]


def test_the_copy_begins_equal_and_never_learns():
    policy = make("LnMlpPolicy", dueling=True)
    target = policy.q_net_target
    assert all(
        torch.equal(mine, own)
        for mine, own in zip(policy.q_net.parameters(), target.parameters(), strict=True)
    )
    assert not any(parameter.requires_grad for parameter in target.parameters())
    learned = {id(parameter) for parameter in policy.q_net.parameters()}
    assert {id(p) for group in policy.optimizer.param_groups for p in group["params"]} == learned
    policy.set_training_mode(True)
    assert policy.q_net.training and not target.training


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"net_arch": {"pi": [8]}}, "list of layer widths"),
        ({"net_arch": [8, 0]}, "positive integer"),
        ({"optimizer_kwargs": {"no_such": 1}}, "optimizer_kwargs.*no_such"),
    ],
)
def test_wrong_keywords(kwargs, message):
    with pytest.raises(UserError, match=message):
        make(**kwargs)


@pytest.mark.parametrize("n_quantiles", [0, -1, 2.5, "many"])
def test_wrong_numbers_of_quantiles(n_quantiles):
    with pytest.raises(UserError, match="n_quantiles must be"):
        make(family="quantile", n_quantiles=n_quantiles)


@pytest.mark.parametrize("kwargs", [{}, {"dueling": True}, {"layer_norm": True}, {"activation_fn": nn.GELU}])
@pytest.mark.parametrize("family", ["q_network", "quantile"])
def test_gradients_are_those_of_the_modules(family, kwargs, monkeypatch):
    policy = make(family=family, net_arch=[8, 8], **kwargs)
    obs, network = sample(policy), policy.online_net()
    parameters = list(network.parameters())
    gradient = torch.randn_like(network(obs))
    gradients = torch.autograd.grad(network(obs), parameters, gradient)
    monkeypatch.setattr("rlzoo.accel.fast_mlp.FAST", False)
    for fast, stock in zip(gradients, torch.autograd.grad(network(obs), parameters, gradient), strict=True):
        assert torch.allclose(fast, stock, atol=1e-5)


def test_a_network_of_ones_own_is_called():
    class Doubled(QNetwork):
        def forward(self, obs):
            return 2 * super().forward(obs)

    class Policy(DQNPolicy):
        def make_q_net(self):
            return Doubled(**self._update_features_extractor(self.net_args, features_extractor=None))

    policy = Policy(VECTOR, spaces.Discrete(3), lambda _: 1e-3)
    obs = sample(policy)
    assert torch.equal(policy.q_values(obs), 2 * QNetwork.forward(policy.q_net, obs))
