"""Log-probabilities and entropies in NumPy with derivatives in closed form, against autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlzoo import PPO
from rlzoo.accel.fast_mlp import KnownGradients, Tape, fast_forward
from rlzoo.distributions import Categorical, DiagGaussian, MaskableCategoricalDistribution
from rlzoo.policies.actor_critic_policies import log_prob_and_entropy, terms_class
from rlzoo.stacked.stacked_policies import _Terms

PARAMS: dict[str, tuple[torch.Size, ...]] = {
    "categorical": (torch.Size([7, 3]),),
    "one choice": (torch.Size([4, 1]),),
    "stacked categorical": (torch.Size([2, 7, 3]),),
    "gaussian": (torch.Size([7, 3]), torch.Size([3])),
    "one action": (torch.Size([5, 1]), torch.Size([1])),
    "deviation of each row": (torch.Size([7, 3]), torch.Size([7, 3])),
    "stacked gaussian": (torch.Size([2, 7, 3]), torch.Size([2, 1, 3])),
}


def make(name: str) -> tuple[Any, tuple[Tensor, ...], Tensor]:
    """Return a distribution, its parameters with gradients, and actions."""
    torch.manual_seed(0)
    params = tuple(torch.randn(shape).requires_grad_() for shape in PARAMS[name])
    shape = params[0].shape
    if len(params) == 1:
        return (
            Categorical(shape[-1]).proba_distribution(*params),
            params,
            torch.randint(shape[-1], shape[:-1]),
        )
    return DiagGaussian(shape[-1]).proba_distribution(*params), params, torch.randn(shape)


def by_autograd(distribution: Any, params: tuple[Tensor, ...], actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of PyTorch, with a graph."""
    if isinstance(distribution, DiagGaussian):
        theirs: Any = torch.distributions.Normal(params[0], params[1].exp())
        return theirs.log_prob(actions).sum(-1), theirs.entropy().sum(-1)
    theirs = torch.distributions.Categorical(logits=params[0])
    return theirs.log_prob(actions), theirs.entropy()


@pytest.mark.parametrize("name", PARAMS)
def test_terms_are_log_prob_and_entropy(name: str) -> None:
    distribution, params, actions = make(name)
    kind = terms_class(distribution, actions)
    assert kind is not None
    for output, expected in zip(
        kind(distribution, actions).outputs, by_autograd(distribution, params, actions), strict=True
    ):
        torch.testing.assert_close(torch.from_numpy(output), expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["log_prob", "entropy", "both"])
@pytest.mark.parametrize("name", PARAMS)
def test_gradients_of_terms_are_those_of_autograd(name: str, given: str) -> None:
    distribution, params, actions = make(name)
    outputs = by_autograd(distribution, params, actions)
    weights = [torch.randn(outputs[0].shape) * (given in (part, "both")) for part in ("log_prob", "entropy")]
    expected = torch.autograd.grad(outputs, params, weights)
    kind = terms_class(distribution, actions)
    assert kind is not None
    arrays = [
        weight.numpy() if given in (part, "both") else None
        for part, weight in zip(("log_prob", "entropy"), weights, strict=True)
    ]
    for ours, theirs in zip(kind(distribution, actions).gradients(*arrays), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-5)
    through_engine = torch.autograd.grad(_Terms.apply(kind(distribution, actions), *params), params, weights)
    for ours, theirs in zip(through_engine, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lowest", [-math.inf, -1e8])
def test_impossible_choices_add_nothing(lowest: float) -> None:
    logits = torch.tensor([[0.0, math.log(3.0), lowest], [lowest, 0.0, lowest]])
    distribution, actions = Categorical(3).proba_distribution(logits), torch.tensor([1, 1])
    kind = terms_class(distribution, actions)
    assert kind is not None
    terms = kind(distribution, actions)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert terms.outputs[0] == pytest.approx([math.log(0.75), 0.0])
    assert terms.outputs[1] == pytest.approx([entropy, 0.0])
    (gradient,) = terms.gradients(np.ones(2, np.float32), np.ones(2, np.float32))
    assert np.isfinite(gradient).all() and (gradient[logits.numpy() == lowest] == 0).all()


def test_terms_need_known_methods_and_float32() -> None:
    class Custom(Categorical):
        __slots__ = ()

        @property
        def log_probs(self) -> Tensor:
            return super().log_probs / 2

    logits, actions = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert terms_class(Categorical(3).proba_distribution(logits), actions) is not None
    assert terms_class(MaskableCategoricalDistribution(3).proba_distribution(logits), actions) is not None
    assert terms_class(Custom(3).proba_distribution(logits), actions) is None
    assert terms_class(Categorical(3).proba_distribution(logits.double()), actions) is None
    assert terms_class(Categorical(3).proba_distribution(logits), actions[:1]) is None


def test_an_action_out_of_range_is_an_error() -> None:
    distribution = Categorical(3).proba_distribution(torch.randn(2, 3))
    with torch.no_grad(), pytest.raises(IndexError):
        log_prob_and_entropy(distribution, torch.tensor([0, 3]))


def test_terms_have_a_graph_where_nothing_records() -> None:
    distribution, _, actions = make("categorical")
    log_prob, entropy = log_prob_and_entropy(distribution, actions)
    assert log_prob.grad_fn is not None and entropy is not None and entropy.grad_fn is not None
    with torch.no_grad():
        for ours, theirs in zip(
            log_prob_and_entropy(distribution, actions), (log_prob, entropy), strict=True
        ):
            assert ours is not None and not ours.requires_grad
            torch.testing.assert_close(ours, theirs.detach())


class ActorCritic(nn.Module):
    """Heads for logits and values, with a layer below that only autograd can follow, or none."""

    def __init__(self, shares: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Conv1d(1, 4, 3) if shares else nn.Identity()
        self.actor, self.critic = nn.Linear(8, 3), nn.Linear(8, 1)
        for parameter in self.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        latent = self.body(x.unsqueeze(1)).flatten(1)
        return fast_forward(self.actor, latent), fast_forward(self.critic, latent)


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("form", ["tensor", "gradients", "of a function"])
def test_a_tape_carries_gradients_past_terms(form: str, shares: bool) -> None:
    x, weights = torch.randn(6, 4 if shares else 8), torch.randn(3, 6)
    actions = torch.tensor([0, 1, 2, 0, 1, 2])
    gradients = []
    for tape in (None, Tape()):
        module = ActorCritic(shares)
        with tape or torch.enable_grad():
            logits, values = module(x)
            distribution = Categorical(3).proba_distribution(logits)
            log_prob, entropy = log_prob_and_entropy(distribution, actions)
        assert entropy is not None and log_prob.is_leaf == (tape is not None)
        outputs = [values.squeeze(1), log_prob, entropy]
        if form == "of a function":
            outputs[1:] = log_prob.exp(), entropy + log_prob
        loss = sum((row * output).sum() for row, output in zip(weights, outputs, strict=True))
        assert isinstance(loss, Tensor)
        if tape is None:
            loss.backward()
        else:
            tape.backward(loss if form == "tensor" else KnownGradients(outputs, list(weights)))
        gradients.append([parameter.grad for parameter in module.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_hooks_on_log_probs_of_a_policy_are_called() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", seed=0, n_steps=8, batch_size=8)
    obs, actions = torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1])
    gradients = []
    for factor in (1.0, 3.0):
        with model.network_optimizer.recorded():
            _, log_prob, _ = model.policy.evaluate_actions(obs, actions)
            log_prob.register_hook(lambda gradient, factor=factor: factor * gradient)
        model.network_optimizer.parameters.backward(KnownGradients([log_prob], [torch.ones(5)]))
        gradients.append(model.policy.action_net.weight.grad.clone())
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(3 * gradients[0], gradients[1])
