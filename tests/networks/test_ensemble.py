"""An ensemble of networks against as many networks of PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.ensemble import EnsembleMlp

N, IN, OUT, WIDTHS = 3, 5, 2, [8, 6]
KINDS = {
    "plain": {},
    "layer_norm": {"layer_norm": True},
    "dropout": {"dropout": 0.5, "layer_norm": True},
    "batch_norm": {"batch_norm": BatchRenorm},
    "tanh": {"activation_fn": nn.Tanh},
    "linear": {"net_arch": []},
    "values": {"output_dim": 1},
    "linear values": {"net_arch": [], "output_dim": 1},
}

CASES = [
    (kind, training) for kind in KINDS for training in (True, False) if (kind, training) != ("dropout", True)
]


def ensemble(kind="plain", **kwargs):
    torch.manual_seed(0)
    return EnsembleMlp(
        **{"n": N, "input_dim": IN, "output_dim": OUT, "net_arch": WIDTHS, **KINDS[kind], **kwargs}
    )


def separate(kind):
    """The same networks, each an nn.Sequential with values of its own."""
    options = {"net_arch": WIDTHS, "activation_fn": nn.ReLU, "output_dim": OUT, **KINDS[kind]}
    networks = []
    for _ in range(N):
        layers = [BatchRenorm(IN)] if "batch_norm" in options else []
        width = IN
        for next_width in options["net_arch"]:
            layers.append(nn.Linear(width, next_width))
            if options.get("dropout"):
                layers.append(nn.Dropout(options["dropout"]))
            if options.get("layer_norm"):
                layers.append(nn.LayerNorm(next_width))
            layers.append(options["activation_fn"]())
            if "batch_norm" in options:
                layers.append(BatchRenorm(next_width))
            width = next_width
        network = nn.Sequential(*layers, nn.Linear(width, options["output_dim"]))
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.5)
        for module in network:
            if isinstance(module, BatchRenorm):
                module.ra_mean.normal_()
                module.ra_var.uniform_(0.5, 2)
                module.steps.fill_(7)
        networks.append(network)
    return networks


def joint_state(networks):
    return {
        f"qf{i}.{name}": value
        for i, network in enumerate(networks)
        for name, value in network.state_dict().items()
    }


def last_gradients(network):
    """Of the last layer, shaped as an ensemble has them."""
    return network[-1].weight.grad.t(), network[-1].bias.grad.unsqueeze(0)


@pytest.mark.parametrize(("kind", "training"), CASES)
def test_it_is_as_many_networks_with_the_same_state_dict(kind, training):
    together, networks = ensemble(kind), separate(kind)
    together.load_state_dict(joint_state(networks))
    together.train(training)
    x = torch.randn(7, IN, requires_grad=True)
    expected = torch.stack([network.train(training)(x) for network in networks])
    found = together(x)
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)
    if kind != "batch_norm":
        assert torch.allclose(together.first(x), expected[0], atol=1e-5)
    gradients = [torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (found, expected)]
    assert torch.allclose(*gradients, atol=1e-4)
    found.square().sum().backward()
    expected.square().sum().backward()
    for mine, *theirs in zip(together.layers[-1].parameters(), *map(last_gradients, networks), strict=True):
        assert torch.allclose(mine.grad, torch.stack(theirs), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_dict_goes_round_and_holds_the_networks_apart(kind):
    together, networks = ensemble(kind), separate(kind)
    state = joint_state(networks)
    together.load_state_dict(state)
    found = together.state_dict()
    assert list(found) == list(state)
    assert all(torch.equal(found[name], value) for name, value in state.items())
    other = ensemble(kind)
    other.load_state_dict(found)
    for mine, theirs in zip(together.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    networks[1].load_state_dict(
        {name.removeprefix("qf1."): value for name, value in found.items() if name.startswith("qf1.")}
    )


def test_state_dict_entries_are_the_parameters_themselves():
    together = ensemble()
    together.state_dict()["qf1.0.weight"].fill_(0.25)
    assert (together.layers[0].weight[1] == 0.25).all()
    assert not (together.layers[0].weight[0] == 0.25).any()


@pytest.mark.parametrize("spoil", ["missing", "shape", "extra"])
def test_a_state_dict_that_does_not_fit_is_refused(spoil):
    together = ensemble()
    state = dict(together.state_dict())
    if spoil == "missing":
        del state["qf1.0.weight"]
    elif spoil == "shape":
        state["qf2.2.weight"] = torch.zeros(3, 3)
    else:
        state["qf3.0.weight"] = state["qf1.0.weight"]
    with pytest.raises(RuntimeError, match="Error"):
        together.load_state_dict(state)


def test_initial_values_are_those_of_linear_layers():
    together = ensemble(n=4, net_arch=[400])
    for layer, fan_in in ((together.layers[0], IN), (together.layers[2], 400)):
        bound = fan_in**-0.5
        for tensor in (layer.weight, layer.bias):
            assert tensor.abs().max() <= bound and tensor.abs().max() > 0.7 * bound
            assert not torch.equal(tensor[0], tensor[1])


def test_dropout_differs_per_network_and_is_off_in_evaluation():
    together = ensemble("dropout", dropout=0.5, layer_norm=False)
    x = torch.randn(200, IN)
    assert torch.equal(together.eval()(x), together(x))
    dropped = together.layers[1].train()(torch.ones(N, 200, 8))
    share = (dropped == 0).float().mean()
    assert share == pytest.approx(0.5, abs=0.05) and set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(dropped[0], dropped[1])


def test_the_loss_of_one_network_leaves_the_others_alone():
    together = ensemble("layer_norm")
    together(torch.randn(4, IN))[1].sum().backward()
    for parameter in together.parameters():
        assert parameter.grad[1].abs().sum() > 0
        assert not parameter.grad[0].any() and not parameter.grad[2].any()


@pytest.mark.parametrize("layers", [{"layer_norm": True, "dropout": 0.1}, {"batch_norm": BatchRenorm}, {}])
def test_single_networks_are_views_of_the_ensemble(layers):
    ensemble = EnsembleMlp(3, 4, 2, [8, 5], **layers).eval()
    x = torch.randn(6, 4)
    networks = ensemble.networks()
    with torch.no_grad():
        ensemble.layers[-1].bias += torch.arange(3.0).view(3, 1, 1)
    for network, expected in zip(networks, ensemble(x), strict=True):
        torch.testing.assert_close(network(x), expected)
        linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
        assert [layer.in_features for layer in linear] == [4, 8, 5]
        assert not any(parameter.requires_grad for parameter in network.parameters())
