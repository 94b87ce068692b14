"""Gradient steps compiled by `torch.compile` are those of the algorithms."""

from __future__ import annotations

import copy
import functools
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rlzoo
from rlzoo.accel import matmul_precision
from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.accel.gpu.acceleration import captured
from rlzoo.accel.gpu.capturable import capturable
from rlzoo.accel.gpu.compiled_step import TracedParameters, compiled
from rlzoo.accel.threads import ThreadTuner
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import get_rng_state, set_rng_state


class OwnAdam(torch.optim.Adam):
    def step(self, closure: Any = None) -> None:
        """Take no step."""


ALGORITHMS = ("PPO", "A2C", "SAC", "TD3", "TQC", "CrossQ", "DQN", "QRDQN")


def make(name: str, **kwargs: Any) -> Any:
    env_id = "CartPole-v1" if name in ("PPO", "A2C", "DQN", "QRDQN") else "Pendulum-v1"
    options: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}
    if name == "PPO":
        options |= {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
    elif name != "A2C":
        options |= {"learning_starts": 20, "batch_size": 8, "train_freq": 1, "buffer_size": 500}
    return getattr(rlzoo, name)("MlpPolicy", rlzoo.make_vec_env(env_id, 2, seed=0), **{**options, **kwargs})


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled is called as it stands."""

    def as_it_stands(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
        return function

    monkeypatch.setattr(torch, "compile", as_it_stands)
    monkeypatch.setattr("rlzoo.accel.gpu.compiled_step.require_compiler", lambda device: None)


def assert_same_learning(plain: Any, other: Any, steps: int = 60, tolerance: float = 1e-5) -> None:
    before = torch.cat([parameter.detach().flatten() for parameter in plain.policy.parameters()])
    state = get_rng_state()
    plain.learn(steps)
    set_rng_state(state)
    other.compile_networks = True
    other.learn(steps)
    one, two = (torch.cat([p.detach().flatten() for p in m.policy.parameters()]) for m in (plain, other))
    # Adam makes whole steps of gradients that are rounding alone, as of a bias before a normalisation
    assert torch.isclose(one, two, rtol=1e-3, atol=tolerance).float().mean() > 0.98
    torch.testing.assert_close(one, two, rtol=1e-2, atol=2e-3)
    assert (one - before).abs().max() > 1e-4 and plain.n_updates == other.n_updates > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in ALGORITHMS), ("SAC", {"use_sde": True})]
)
def test_compiled_steps_learn_the_same(name: str, options: dict[str, Any]) -> None:
    if options.get("use_sde") and torch.__version__.startswith("2.11"):
        pytest.skip("PyTorch 2.11 draws the two matrices of noise in the other order, where it compiles")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    assert_same_learning(make(name, **options), make(name, **options), tolerance=1e-4)
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] > 0 and not counters["graph_break"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_traced_parameters_learn_the_same(name: str, uncompiled: None) -> None:
    assert_same_learning(make(name), make(name))


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute products of all layers in bfloat16."""
    for name in ("LEAST_WIDTH", "LEAST_MULTIPLICATIONS"):
        monkeypatch.setattr(matmul_precision, name, 1)
    for name in ("gradients_in_bfloat16", "values_in_bfloat16"):
        monkeypatch.setattr(matmul_precision, name, True)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch, rounded: None) -> list[tuple[int, ...]]:
    """Return the three sizes of each product in bfloat16, as they are computed."""
    sizes: list[tuple[int, ...]] = []
    product = matmul_precision.rounded_product

    def noted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(sorted((*a.shape[-2:], b.shape[-1]))))
        return product(a, b)

    monkeypatch.setattr(matmul_precision, "rounded_product", noted)
    return sizes


@pytest.mark.parametrize("name", ("PPO", "SAC", "TD3", "TQC", "DQN"))
def test_traced_steps_round_the_same_products(
    name: str, uncompiled: None, products: list[tuple[int, ...]]
) -> None:
    seen = []
    for compile_networks in (False, True):
        model = make(name)
        model.compile_networks = compile_networks
        products.clear()
        model.learn(40)
        seen.append(set(products))
    assert seen[0] == seen[1] != set()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_powers_of_adam_are_computed_in_no_loop() -> None:
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    model = make("DQN")
    model.compile_networks = True
    _, programs = run_and_get_code(model.learn, 30)
    assert any("sqrt" in program for program in programs)
    assert not any("std::pow" in program for program in programs)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_rounded_products_are_compiled(rounded: None) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    assert_same_learning(make("SAC"), make("SAC"), tolerance=1e-3)
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] > 0 and not counters["graph_break"]


def test_optimiser_of_a_file_is_used_and_saved(uncompiled: None, tmp_path: Any) -> None:
    plain, other = make("SAC"), make("SAC")
    assert_same_learning(plain, other, 40)
    for model in (plain, other):
        model.save(tmp_path / model.policy.__class__.__name__, include=["position"])
    states = [model.policy.critic.optimizer.state_dict() for model in (plain, other)]
    for one, two in zip(*(state["state"].values() for state in states), strict=True):
        assert float(one["step"]) == float(two["step"]) > 0
        torch.testing.assert_close(one["exp_avg"], two["exp_avg"], rtol=1e-3, atol=1e-6)
    assert states[1]["param_groups"][0]["lr"] == pytest.approx(3e-4)
    other.set_parameters(plain.get_parameters())
    assert_same_learning(plain, other, 40)


def test_learning_rate_of_replaced_options_is_followed(uncompiled: None) -> None:
    plain, other = (make("SAC", learning_rate=rlzoo.LinearSchedule(1e-3, 0.0, 1.0)) for _ in range(2))
    assert_same_learning(plain, other, 40)
    other.set_parameters(plain.get_parameters())
    assert_same_learning(plain, other, 40)


def test_assigned_optimiser_takes_the_steps(uncompiled: None) -> None:
    model = make("SAC")
    model.compile_networks = True

    class Assign(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 20:
                critic = model.policy.critic
                critic.optimizer = torch.optim.Adam(critic.parameters(), lr=0.0)
            return True

    model.learn(60, Assign())
    states = model.policy.critic.optimizer.state.values()
    assert states and all(float(state["step"]) > 0 for state in states)


def test_wholly_frozen_network_is_left_alone(uncompiled: None) -> None:
    model = make("SAC")
    model.compile_networks = True
    model.actor.requires_grad_(False)
    before = [parameter.clone() for parameter in model.actor.parameters()]
    model.learn(40)
    assert all(map(torch.equal, before, model.actor.parameters())) and model.n_updates > 0


def test_copy_of_an_agent_compiles_for_itself(uncompiled: None) -> None:
    model = make("DQN")
    model.compile_networks = True
    copied = copy.deepcopy(model.learn(40).policy), copy.deepcopy(model.compiled_step)
    assert copied[1] is None


def test_second_training_uses_the_compiled_step_again(uncompiled: None) -> None:
    model = make("DQN")
    model.compile_networks = True
    step = model.learn(40).compiled_step
    assert model.learn(40, reset_num_timesteps=False).compiled_step is step and step is not None
    model.policy = make("DQN").policy
    assert model.learn(40).compiled_step is not step


def test_step_for_a_fixed_number_of_threads_is_not_adapted(
    uncompiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make("DQN")
    model.compile_networks = True
    step = model.learn(40).compiled_step
    assert step.is_for(model)
    monkeypatch.setattr(ThreadTuner, "is_active", True)
    assert not step.is_for(model)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_steps_that_compile_are_told_to_the_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    model = make("TD3")
    model.compile_networks = True
    monkeypatch.setattr(ThreadTuner, "ignore_step", lambda tuner: told.append(model.n_updates))
    assert model.learn(60).n_updates > 10
    assert told == [1, 2]  # without and with the actor


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [
        (torch.optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.99)}),
        (torch.optim.Adam, {"betas": (0.0, 0.9)}),
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        (torch.optim.RMSprop, {"alpha": 0.9, "eps": 1e-4}),
    ],
)
def test_steps_are_those_of_pytorch(optimizer_class: Any, options: dict[str, Any]) -> None:
    network = torch.nn.Linear(3, 2)
    reference = torch.nn.Linear(3, 2)
    reference.load_state_dict(network.state_dict())
    known = optimizer_class(reference.parameters(), lr=0.05, **options)
    group = parameter_group(network.parameters())
    optimizer = group.optimizer(optimizer_class, lr=0.05, **options)
    with capturable([optimizer], torch.device("cpu")):
        traced = TracedParameters(group, optimizer)
        for _ in range(5):
            x = torch.randn(4, 3)
            traced.backward(network(x).square().sum())
            traced.clip_grad_norm(0.5)
            traced.step(optimizer)
            known.zero_grad()
            reference(x).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
            known.step()
    for mine, theirs in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_frozen_and_unused_parameters_are_left_alone() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    group = parameter_group(network.parameters())
    optimizer = group.optimizer(torch.optim.Adam, lr=0.1)
    network[0].requires_grad_(False)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    with capturable([optimizer], torch.device("cpu")):
        traced = TracedParameters(group, optimizer)
        traced.backward(network[1].weight.sum())
        traced.step(optimizer)
    same = [torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)]
    assert same == [True, True, False, True]


def test_step_of_a_script_is_back_after_training(uncompiled: None) -> None:
    model = make("SAC")
    with compiled(model):
        first = model.compiled_step
    own = model.gradient_step = functools.partial(model.gradient_step)
    for context in (compiled, captured):
        with context(model):
            assert model.gradient_step is not own and model.is_captured
        assert model.gradient_step is own and not model.is_captured
    assert model.compiled_step is not first


def test_step_is_plain_again_after_training(uncompiled: None) -> None:
    model = make("SAC")
    group = model.critic_optimizer.parameters
    with compiled(model):
        assert model.is_captured and model.critic_optimizer.parameters is not group
    assert "gradient_step" not in vars(model) and not model.is_captured
    assert model.critic_optimizer.parameters is group
    assert isinstance(model.policy.critic.optimizer.param_groups[0]["lr"], float)


def test_missing_compiler_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    model = make("DQN")
    model.compile_networks = True
    with pytest.raises(UserError, match="install g"):
        model.learn(10)


@pytest.mark.parametrize(
    ("name", "kwargs", "reason"),
    [
        ("DQN", {"policy_kwargs": {"optimizer_class": torch.optim.SGD}}, "steps of SGD are not compiled"),
        ("SAC", {"policy_kwargs": {"optimizer_kwargs": {"amsgrad": True}}}, "with amsgrad"),
        ("PPO", {"target_kl": 0.01}, "target_kl stops an update"),
        ("DQN", {"policy_kwargs": {"optimizer_class": OwnAdam}}, "steps of OwnAdam are not compiled"),
        ("TRPO", {"n_steps": 16, "batch_size": 16}, "TRPO has no gradient step"),
    ],
)
def test_what_cannot_be_compiled_is_refused(name: str, kwargs: dict[str, Any], reason: str) -> None:
    options = {"policy_kwargs": {}, "learning_starts": 5, "train_freq": 1} if name in ("DQN", "SAC") else {}
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    model = getattr(rlzoo, name)("MlpPolicy", env, device="cpu", **{**options, **kwargs})
    model.compile_networks = True
    with pytest.raises(UserError, match=f"compile is not possible: .*{reason}"):
        model.learn(10)


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["PPO", "SAC", "TQC", "DQN"])
def test_compiled_steps_are_captured_on_a_gpu(name: str) -> None:
    torch._dynamo.reset()
    plain, both = make(name, device="cuda"), make(name, device="cuda")
    plain.cuda_graphs, both.cuda_graphs = "off", "on"
    before = parameters_of(plain)
    both.compile_networks = True
    for model in (plain, both):
        torch.manual_seed(0)
        model.learn(120)
    assert plain.n_updates == both.n_updates > 0
    one, two = parameters_of(plain), parameters_of(both)
    assert (one - two).norm() < 0.2 * (one - before).norm()


def parameters_of(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])
