"""Noise on parameters: where it goes, how large it becomes, and that it can be continued."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec
from rlzoo.core.errors import CheckpointError
from rlzoo.networks.parameter_noise import ParameterNoise, action_distance, greedy_distance


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def network():
    net = nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 64))
    nn.init.uniform_(net[1].weight)
    return net.eval()


def test_parameter_noise_spares_layer_normalisation():
    net = network()
    noise = ParameterNoise(net, AdaptiveParamNoiseSpec(initial_stddev=0.3))
    for index in (0, 4):
        for plain, noisy in zip(net[index].parameters(), noise.exploring[index].parameters(), strict=True):
            difference = noisy - plain.detach()
            assert float(difference.std()) == pytest.approx(0.3, rel=0.25)
            assert float(difference.mean()) == pytest.approx(0, abs=4 * 0.3 / math.sqrt(difference.numel()))
    for plain, noisy in zip(net[1].parameters(), noise.exploring[1].parameters(), strict=True):
        assert torch.equal(plain, noisy)


def test_parameter_noise_is_centred_on_current_parameters():
    net = network()
    flat = FlatParameters(net.parameters())
    noise = ParameterNoise(net, AdaptiveParamNoiseSpec(initial_stddev=1e-3))
    first = noise.exploring[0].weight.clone()
    with torch.no_grad():
        flat.vector.add_(5)
        net[3].running_mean += 1
    before = flat.vector.detach().clone()
    assert torch.equal(noise.exploring[0].weight, first), "the noise of an episode stays as it is"
    with torch.inference_mode():  # as in the loop
        noise.perturb()
    assert torch.allclose(noise.exploring[0].weight, net[0].weight, atol=0.01)
    assert not torch.equal(noise.exploring[0].weight, net[0].weight)
    assert torch.equal(noise.exploring[3].running_mean, net[3].running_mean)
    assert torch.equal(flat.vector, before)
    assert not any(parameter.requires_grad for parameter in noise.exploring.parameters())


def test_parameter_noise_scale_reaches_the_target_distance():
    net, obs = network(), torch.randn(64, 4)
    spec = AdaptiveParamNoiseSpec(initial_stddev=5.0, desired_action_stddev=0.2)
    noise = ParameterNoise(net, spec)
    with torch.no_grad():
        actions = net(obs)
    distances = [noise.adapt(lambda perturbed: action_distance(actions, perturbed(obs))) for _ in range(600)]
    assert sum(distances[-100:]) / 100 == pytest.approx(0.2, rel=0.2)
    assert spec.current_stddev == 5.0 and noise.stddev < 1, "the spec that was given is not changed"


def test_measuring_does_not_change_the_noise_of_the_episode():
    net, obs = network(), torch.randn(8, 4)
    noise = ParameterNoise(net, AdaptiveParamNoiseSpec())
    before = noise.exploring(obs)
    noise.adapt(lambda perturbed: action_distance(net(obs), perturbed(obs)))
    assert torch.equal(noise.exploring(obs), before)


def test_distances_are_their_definitions():
    actions, other = torch.tensor([[0.0, 1.0], [2.0, 3.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]])
    assert float(action_distance(actions, other)) == pytest.approx(math.sqrt((1 + 9) / 4))
    q, q_other = torch.randn(5, 3), torch.randn(5, 3)
    softmax = torch.distributions.Categorical
    expected = torch.distributions.kl_divergence(softmax(logits=q), softmax(logits=q_other)).mean()
    assert float(greedy_distance(q, q_other)) == pytest.approx(float(expected), rel=1e-5)
    assert float(greedy_distance(q, q + 3)) == pytest.approx(0, abs=1e-6)


def test_it_goes_on_from_its_state():
    net, obs = network(), torch.randn(8, 4)
    noise = ParameterNoise(net, AdaptiveParamNoiseSpec())
    noise.adapt(lambda perturbed: action_distance(net(obs), perturbed(obs)))
    again = ParameterNoise(net, AdaptiveParamNoiseSpec())
    assert not torch.equal(again.exploring(obs), noise.exploring(obs))
    again.load_state_dict(noise.state_dict())
    assert torch.equal(again.exploring(obs), noise.exploring(obs)) and again.stddev == noise.stddev
    with pytest.raises(CheckpointError, match="does not fit"):
        ParameterNoise(nn.Linear(3, 3), AdaptiveParamNoiseSpec()).load_state_dict(noise.state_dict())
