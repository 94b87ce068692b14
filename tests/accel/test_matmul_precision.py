"""`--matmul-precision`: gradients in bfloat16 on a CPU; one line where it has no effect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from rlzoo import PPO, SAC
from rlzoo.accel import matmul_precision
from rlzoo.accel.batched_linear import batched_linear
from rlzoo.accel.fast_mlp import Tape, fast_forward
from rlzoo.accel.matmul_precision import (
    affine,
    linear,
    precision_of_products,
    set_matmul_precision,
    without_effect,
)
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.session import open_session
from rlzoo.stacked.stack import stack_problem

CPU = torch.device("cpu")
STEP = 2.0**-8
"""Relative error of rounding to bfloat16."""


@pytest.fixture(autouse=True)
def multiplies_bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the processor of the test multiply bfloat16, be it slowly; end with float32."""
    monkeypatch.setattr(matmul_precision, "cpu_multiplies_bfloat16", lambda: True)
    yield
    set_matmul_precision("highest", CPU)


def rounded(x: Tensor) -> Tensor:
    return x.bfloat16().double()


def matrices(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def rounds() -> tuple[bool, bool]:
    """Return whether gradients, and whether values of critics are rounded."""
    return matmul_precision.gradients_in_bfloat16, matmul_precision.values_in_bfloat16


def test_cpus_round_gradients_and_with_medium_values() -> None:
    for precision, expected in (
        ("high", (True, False)),
        ("medium", (True, True)),
        ("highest", (False, False)),
    ):
        set_matmul_precision(precision, CPU)
        assert rounds() == expected
        assert torch.get_float32_matmul_precision() == "highest"  # it would round every layer


def test_one_line_says_where_it_has_no_effect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert without_effect("medium", CPU) is None
    assert without_effect("highest", CPU) is None
    monkeypatch.setattr(matmul_precision, "cpu_multiplies_bfloat16", lambda: False)
    set_matmul_precision("medium", CPU)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--matmul-precision medium has no effect" in said
    assert rounds() == (False, False)


def test_old_gpus_have_no_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    for major, text in ((7, "compute capability 8.0"), (8, "None")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, major=major: (major, 0))
        assert text in str(without_effect("high", torch.device("cuda")))


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(UserError, match="unknown matmul_precision 'mediun'; did you mean 'medium'"):
        resolve_config("sac", {"policy": "MlpPolicy", "matmul_precision": "mediun"})


@pytest.mark.parametrize(
    ("flag", "hyperparameter", "expected"),
    [
        (None, "medium", (True, True)),
        ("high", "medium", (True, False)),
        ("highest", "high", (False, False)),
        (None, None, (False, False)),
    ],
)
def test_the_precision_holds_until_the_training_is_closed(
    flag: str | None, hyperparameter: str | None, expected: tuple[bool, bool]
) -> None:
    values = {"policy": "MlpPolicy", **({"matmul_precision": hyperparameter} if hyperparameter else {})}
    run = RunConfig(algo="ppo", env_id="CartPole-v1", seed=0, eval_freq=-1, verbose=0, matmul_precision=flag)
    with open_session(run, resolve_config("ppo", values)):
        assert rounds() == expected
    assert rounds() == (False, False)


def test_precision_of_the_newer_kind_needs_no_flag(tmp_path: Path) -> None:
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("an older PyTorch")
    program = """
import torch
from rlzoo.config.run import RunConfig
from rlzoo.experiment.training_run import train
torch.backends.fp32_precision = "tf32"
for flag in (None, "high"):
    train(RunConfig(algo="ppo", env_id="CartPole-v1", n_timesteps=8, eval_freq=-1, matmul_precision=flag,
                    log_folder="logs", hyperparams={"n_steps": 8, "n_envs": 1, "batch_size": 8}))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Done after 8 steps" in done.stdout
    assert (
        "UserError: matmul_precision cannot be set where fp32_precision of torch.backends is" in done.stderr
    )


def wide_network() -> tuple[nn.Sequential, Tensor]:
    """Return a network of which one layer is wide, with gradients of zero, and a batch."""
    network = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return network, matrices((256, 8))[0]


@pytest.mark.parametrize("on_tape", [True, False], ids=["tape", "autograd"])
def test_gradients_are_products_of_rounded_factors(on_tape: bool) -> None:
    network, x = wide_network()
    before = network(x)
    set_matmul_precision("high", CPU)
    if on_tape:
        tape = Tape()
        with tape:
            y = fast_forward(network, x)
            loss = y.square().sum()
        tape.backward(loss)
    else:
        y = fast_forward(network, x)
        y.square().sum().backward()
    assert torch.equal(y, before)  # values are float32

    wide = network[2]
    with torch.no_grad():
        hidden = network[:2](x)
        outputs = network[:4](x)
        of_wide = (2 * y @ network[4].weight) * (outputs > 0)
        by_weight = rounded(of_wide).t() @ rounded(hidden)
        of_hidden = (rounded(of_wide) @ rounded(wide.weight)) * (hidden > 0)
        by_first_weight = of_hidden.t() @ x.double()
    # the sum in float32 may fall to the other side of the middle between two numbers of bfloat16
    assert torch.allclose(wide.weight.grad.double(), by_weight, rtol=STEP, atol=1e-3)
    assert torch.allclose(network[0].weight.grad.double(), by_first_weight, rtol=STEP, atol=1e-1)
    assert torch.allclose(wide.bias.grad, of_wide.sum(0), rtol=1e-5, atol=1e-4)
    exact = of_wide.t() @ hidden
    assert (wide.weight.grad - exact).abs().max() > 1e-3 * exact.abs().max()


@pytest.mark.parametrize(
    ("n_rows", "n_in", "n_out"),
    [(256, 105, 256), (256, 256, 127), (127, 256, 256)],
    ids=["narrow input", "narrow output", "few rows"],
)
def test_gradients_of_small_products_keep_their_bits(n_rows: int, n_in: int, n_out: int) -> None:
    def gradients() -> list[Tensor]:
        x, weight, bias = (
            tensor.requires_grad_() for tensor in matrices((n_rows, n_in), (n_out, n_in), (n_out,))
        )
        linear(x, weight, bias).square().sum().backward()
        return [tensor.grad for tensor in (x, weight, bias) if tensor.grad is not None]

    expected = gradients()
    set_matmul_precision("medium", CPU)
    assert all(map(torch.equal, gradients(), expected))


@pytest.mark.parametrize("function", [linear, affine])
def test_gradients_lie_in_memory_as_weights_do(function: Callable[..., Tensor]) -> None:
    x, weight, bias = matrices((256, 200), (300, 200) if function is linear else (200, 300), (300,))
    set_matmul_precision("high", CPU)
    (gradient,) = torch.autograd.grad(function(x, weight.requires_grad_(), bias).square().sum(), weight)
    assert gradient.stride() == weight.stride()


def test_layers_of_critics_have_gradients_of_single_layers() -> None:
    x, weight, bias = (
        tensor.requires_grad_() for tensor in matrices((2, 256, 256), (2, 256, 256), (2, 1, 256))
    )
    set_matmul_precision("high", CPU)
    together = batched_linear(x, weight, bias)
    apart = torch.stack([linear(*layer) for layer in zip(x, weight.mT, bias[:, 0], strict=True)])
    first = affine(x[0], weight[0], bias[0, 0])
    assert torch.allclose(together, apart, rtol=1e-4, atol=1e-4)
    of_apart = torch.autograd.grad(apart.square().sum(), (x, weight, bias))
    of_together = torch.autograd.grad(together.square().sum(), (x, weight, bias))
    of_first = torch.autograd.grad(first.square().sum(), (x, weight, bias))
    for ours, theirs, alone in zip(of_together, of_apart, of_first, strict=True):
        assert torch.allclose(ours, theirs, rtol=STEP, atol=1e-2)
        assert torch.allclose(alone[0], theirs[0], rtol=STEP, atol=1e-2)


def test_values_of_critics_are_rounded_with_medium() -> None:
    critic = SAC("MlpPolicy", "Pendulum-v1", buffer_size=100, seed=0, device="cpu").policy.critic
    obs, actions = matrices((256, 3), (256, 1))
    for values in (critic.all_values, critic.first_values):
        set_matmul_precision("high", CPU)
        exact = values(obs, actions)
        set_matmul_precision("medium", CPU)
        for context in (torch.enable_grad(), torch.no_grad()):
            with context:
                error = (values(obs, actions) - exact).abs().max()
            assert 0 < error < 4 * STEP * exact.abs().max()


def test_hooks_of_a_network_are_called() -> None:
    network, x = wide_network()
    calls: list[nn.Module] = []
    network.register_full_backward_hook(lambda module, *_: calls.append(module))
    set_matmul_precision("high", CPU)
    fast_forward(network, x).sum().backward()
    assert calls == [network]


def test_graphs_and_transforms_are_float32() -> None:
    network, x = wide_network()
    x.requires_grad_()
    (expected,) = torch.autograd.grad(network(x).sum(), x)
    set_matmul_precision("medium", CPU)

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Tensor) -> Tensor:
            return fast_forward(self.network, x)

    assert torch.equal(torch.func.grad(lambda x: Policy()(x).sum())(x.detach()), expected)
    assert torch.equal(torch.jit.trace(Policy(), x)(x), network(x))


def test_highest_is_float32_whatever_pytorch_was_set_to() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with precision_of_products("highest", CPU):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_precision_of_the_caller_is_restored() -> None:
    set_matmul_precision("high", CPU)
    with precision_of_products("highest", CPU):
        assert rounds() == (False, False)
        with pytest.raises(ZeroDivisionError), precision_of_products("medium", CPU):
            assert rounds() == (True, True)
            raise ZeroDivisionError
        assert rounds() == (False, False)
    assert rounds() == (True, False)


def test_only_trainings_with_wide_layers_change() -> None:
    def trained(width: int, precision: str) -> Tensor:
        set_matmul_precision(precision, CPU)
        model = PPO(
            "MlpPolicy", "CartPole-v1", n_steps=256, batch_size=256, n_epochs=1, seed=0, device="cpu",
            policy_kwargs={"net_arch": [width, width]},
        )  # fmt: skip
        model.learn(256)
        return nn.utils.parameters_to_vector(model.policy.parameters()).detach()

    assert torch.equal(trained(64, "highest"), trained(64, "medium"))
    assert not torch.equal(trained(256, "highest"), trained(256, "medium"))


def test_seeds_are_not_stacked_in_bfloat16() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    assert stack_problem(model) is None
    set_matmul_precision("high", CPU)
    assert stack_problem(model) == "matmul_precision rounds its gradients"
