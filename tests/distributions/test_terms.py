"""Log-probabilities and entropies in NumPy with derivatives in closed form, against autograd."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlzoo import PPO, MaskablePPO
from rlzoo.accel.fast_mlp import KnownGradients, Tape, fast_forward
from rlzoo.distributions import Categorical, DiagGaussian, Distribution, MaskableCategoricalDistribution
from rlzoo.policies.actor_critic_policies import (
    ActorCriticPolicy,
    log_prob_and_entropy,
    terms_class,
)
from rlzoo.stacked.stacked_policies import terms_with_graph

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
    through_engine = torch.autograd.grad(
        terms_with_graph(kind(distribution, actions), params), params, weights
    )
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

    class OtherEntropy(Categorical):
        __slots__ = ()

        def entropy(self) -> Tensor:
            return super().entropy() / 2

    OtherEntropy.__module__ = "rlzoo.distributions"
    logits, actions = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert terms_class(OtherEntropy(3).proba_distribution(logits), actions) is None
    assert terms_class(Categorical(3).proba_distribution(logits), actions) is not None
    assert terms_class(MaskableCategoricalDistribution(3).proba_distribution(logits), actions) is not None
    assert terms_class(Custom(3).proba_distribution(logits), actions) is None
    assert terms_class(Categorical(3).proba_distribution(logits.double()), actions) is None
    assert terms_class(Categorical(3).proba_distribution(logits), actions[:1]) is None


@pytest.mark.parametrize("action", [3, -1])
def test_an_action_out_of_range_is_an_error(action: int) -> None:
    distribution = Categorical(3).proba_distribution(torch.randn(2, 3))
    with torch.no_grad(), pytest.raises(IndexError):
        log_prob_and_entropy(distribution, torch.tensor([0, action]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32])
def test_indices_of_actions_may_be_of_any_type(dtype: torch.dtype) -> None:
    distribution, actions = Categorical(2).proba_distribution(torch.randn(3, 2)), torch.tensor([0, 1, 1])
    with torch.no_grad():
        log_prob, _ = log_prob_and_entropy(distribution, actions.to(dtype))
    torch.testing.assert_close(log_prob, distribution.log_prob(actions))


class Bare(Distribution):
    """A distribution with what actor and critic need, and no more."""

    __slots__ = ("logits",)

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def sample(self) -> Tensor:
        return torch.distributions.Categorical(logits=self.logits).sample()

    def log_prob(self, actions: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=self.logits).log_prob(actions)

    def entropy(self) -> Tensor:
        return torch.distributions.Categorical(logits=self.logits).entropy()


class BarePolicy(ActorCriticPolicy):
    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        return Bare(self.action_net(latent_pi))


def test_policies_with_a_distribution_of_their_own_learn() -> None:
    model = PPO(BarePolicy, "CartPole-v1", seed=0, n_steps=8, batch_size=8)
    before = model.policy.action_net.weight.clone()
    model.learn(8)
    assert not torch.equal(before, model.policy.action_net.weight)


def test_without_gradients_nothing_is_recorded() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", seed=0, n_steps=8, batch_size=8)
    obs, actions = torch.randn(5, 3), torch.randn(5, 1)
    with model.network_optimizer.recorded(), torch.no_grad():
        _, log_prob, entropy = model.policy.evaluate_actions(obs, actions)
    assert not log_prob.requires_grad and entropy is not None and not entropy.requires_grad


def test_a_model_can_be_copied_after_target_kl_has_stopped_it() -> None:
    model = MaskablePPO(
        "MlpPolicy", "InvalidActionDiscrete-v0", seed=0, n_steps=8, batch_size=4, target_kl=1e-9
    )
    model.learn(8)
    assert model.counters.n_updates < 2 * model.config.n_epochs
    copied = copy.deepcopy(model)
    for ours, theirs in zip(model.policy.parameters(), copied.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class LogProbs(nn.Module):
    """Log-probabilities of the first action, as a module that can be traced."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Tensor) -> Tensor:
        return self.policy.evaluate_actions(obs, torch.zeros(len(obs), dtype=torch.long))[1]


def test_traced_policies_follow_their_observations() -> None:
    module = LogProbs(PPO("MlpPolicy", "CartPole-v1", seed=0).policy)
    obs = torch.randn(3, 4)
    with torch.no_grad():
        traced = torch.jit.trace(module, (obs,), check_trace=False)
        torch.testing.assert_close(traced(30 * obs), module(30 * obs))
        assert not torch.allclose(module(obs), module(30 * obs), atol=1e-4)


def test_terms_overflow_without_a_warning() -> None:
    distribution = DiagGaussian(1).proba_distribution(torch.randn(2, 1), torch.tensor([-100.0]))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        log_prob, _ = log_prob_and_entropy(distribution, torch.randn(2, 1))
    assert not torch.isfinite(log_prob).all()


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
        assert entropy is not None and log_prob.is_leaf == (tape is not None and not shares)
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
