"""`--matmul-precision`: bfloat16 in wide layers on a CPU; one line where it has no effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from rlzoo import PPO
from rlzoo.accel import matmul_precision
from rlzoo.accel.batched_linear import batched_linear
from rlzoo.accel.fast_mlp import Tape, fast_forward
from rlzoo.accel.matmul_precision import linear, set_matmul_precision, without_effect
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.session import open_session
from rlzoo.networks.ensemble import EnsembleLinear
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


def test_cpus_round_with_medium_only() -> None:
    for precision, expected in (("high", False), ("medium", True), ("highest", False)):
        set_matmul_precision(precision, CPU)
        assert matmul_precision.in_bfloat16 is expected
        assert torch.get_float32_matmul_precision() == "highest"  # it would round every layer


def test_one_line_says_where_it_has_no_effect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert without_effect("medium", CPU) is None
    assert without_effect("highest", CPU) is None
    assert "TF32" in str(without_effect("high", CPU))
    monkeypatch.setattr(matmul_precision, "cpu_multiplies_bfloat16", lambda: False)
    set_matmul_precision("medium", CPU)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--matmul-precision medium has no effect" in said
    assert not matmul_precision.in_bfloat16


def test_old_gpus_have_no_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    for major, text in ((7, "compute capability 8.0"), (8, "None")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, major=major: (major, 0))
        assert text in str(without_effect("high", torch.device("cuda")))


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(UserError, match="unknown matmul_precision 'mediun'; did you mean 'medium'"):
        resolve_config("sac", {"policy": "MlpPolicy", "matmul_precision": "mediun"})


@pytest.mark.parametrize(
    ("flag", "hyperparameter", "expected"),
    [(None, "medium", True), ("high", "medium", False), ("medium", None, True), (None, None, False)],
)
def test_the_precision_holds_until_the_training_is_closed(
    flag: str | None, hyperparameter: str | None, expected: bool
) -> None:
    values = {"policy": "MlpPolicy", **({"matmul_precision": hyperparameter} if hyperparameter else {})}
    run = RunConfig(algo="ppo", env_id="CartPole-v1", seed=0, eval_freq=-1, verbose=0, matmul_precision=flag)
    with open_session(run, resolve_config("ppo", values)):
        assert matmul_precision.in_bfloat16 is expected
    assert not matmul_precision.in_bfloat16


def test_factors_and_product_of_a_wide_layer_are_rounded() -> None:
    x, weight, bias = matrices((256, 256), (128, 256), (128,))
    exact = rounded(x) @ rounded(weight).t()
    before = linear(x, weight, bias)
    set_matmul_precision("medium", CPU)
    y = linear(x, weight, bias)
    # the sum in float32 may fall to the other side of the middle between two numbers of bfloat16
    assert torch.allclose(y.double() - bias, exact, rtol=STEP, atol=1e-5)
    assert (before - y).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("n_rows", "n_in", "n_out"),
    [(256, 105, 256), (256, 256, 127), (127, 256, 256), (1, 1024, 1024)],
    ids=["narrow input", "narrow output", "few rows", "one row"],
)
def test_small_products_keep_their_bits(n_rows: int, n_in: int, n_out: int) -> None:
    x, weight, bias = matrices((n_rows, n_in), (n_out, n_in), (n_out,))
    expected = linear(x, weight, bias)
    set_matmul_precision("medium", CPU)
    assert torch.equal(linear(x, weight, bias), expected)


def test_a_batched_layer_rounds_as_single_layers_do() -> None:
    x, weight, bias = matrices((2, 256, 256), (2, 256, 256), (2, 1, 256))
    set_matmul_precision("medium", CPU)
    together = batched_linear(x, weight, bias)
    apart = torch.stack([linear(*layer) for layer in zip(x, weight.mT, bias[:, 0], strict=True)])
    assert torch.allclose(together, apart, rtol=STEP, atol=1e-5)
    layer = EnsembleLinear(2, 256, 256)
    layer.weight.data, layer.bias.data = weight, bias
    assert torch.allclose(layer.first(x[0]), together[0], rtol=STEP, atol=1e-5)


@pytest.mark.parametrize("on_tape", [True, False], ids=["tape", "autograd"])
def test_gradients_are_products_of_rounded_factors(on_tape: bool) -> None:
    network = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    (x,) = matrices((256, 8))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_matmul_precision("medium", CPU)
    if on_tape:
        tape = Tape()
        with tape:
            loss = fast_forward(network, x).square().sum()
        tape.backward(loss)
    else:
        fast_forward(network, x).square().sum().backward()

    with torch.no_grad():
        hidden = network[:2](x)
        wide = network[2]
        outputs = linear(hidden, wide.weight, wide.bias).relu()
        of_wide = (2 * network[4](outputs) @ network[4].weight) * (outputs > 0)
        by_weight = rounded(of_wide).t() @ rounded(hidden)
        of_hidden = (rounded(of_wide) @ rounded(wide.weight)) * (hidden > 0)
        by_first_weight = of_hidden.t() @ x.double()
    assert torch.allclose(wide.weight.grad.double(), by_weight, rtol=2 * STEP, atol=1e-2)
    assert torch.allclose(network[0].weight.grad.double(), by_first_weight, rtol=2 * STEP, atol=1e-1)


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
    set_matmul_precision("medium", CPU)
    assert stack_problem(model) == "matmul_precision is medium"
