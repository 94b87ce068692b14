"""Matrix products in float32: the library that computes them, and lower precision.

`highest` is float32; the others are faster where there is hardware.

high    CUDA: TF32, with 10 bits of mantissa instead of 23; CPU: gradients of wide linear layers in bfloat16,
        with 7 bits, where the processor multiplies it
medium  CUDA: TF32 or bfloat16; CPU: values of actor-critic algorithms' critics, too

On a CPU, the factors of a product are rounded to bfloat16, the processor adds in float32, and the result is
rounded to bfloat16. Weights, biases and optimisers stay float32, as in mixed-precision training (Micikevicius
et al. 2018, section 3.1; Kalamkar et al. 2019). So do actions, log-probabilities and values that PPO and DQN
learn; with `medium`, a critic's value of 900 is rounded by up to 2, more than many actions differ by.

Layers with fewer than 128 inputs or outputs stay float32, which usually are those from observations, and to
values, quantiles and actions; so do feature extractors, LSTMs and critics of users. PyTorch's own setting
rounds every product of the process, and only on processors with AMX.

PyTorch leaves float32 products to the Math Kernel Library, which takes half of what AMD processors since
Zen 5 can do (AVX2 instead of AVX-512). There gradient steps of wide networks use oneDNN, in float32, too.
"""

from __future__ import annotations

import functools
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._C import _is_tracing as is_tracing
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_dynamo_compiling
from torch.nn import functional as F

from rlzoo.core.errors import UserError
from rlzoo.core.runtime import precision_of_torch

LEAST_WIDTH = 128
"""Inputs and outputs from which on a layer is wide."""
LEAST_MULTIPLICATIONS = 2**23
"""Of one product, from which on bfloat16 is faster, and oneDNN where it ever is: 128 rows with 256 inputs and
outputs."""

gradients_in_bfloat16 = False
"""Whether gradients of wide layers of this process are computed in bfloat16."""
values_in_bfloat16 = False
"""Whether values of critics are, too."""


def set_matmul_precision(precision: str, device: torch.device) -> None:
    """Set the precision of this process; print one line where it has no effect.

    :param precision: "highest", "high" or "medium"
    """
    global gradients_in_bfloat16, values_in_bfloat16
    reason = without_effect(precision, device)
    gradients_in_bfloat16 = device.type == "cpu" and precision != "highest" and reason is None
    values_in_bfloat16 = gradients_in_bfloat16 and precision == "medium"
    of_torch = "highest" if device.type == "cpu" else precision  # on a CPU, it would round every product
    if of_torch != precision_of_script():
        torch.set_float32_matmul_precision(of_torch)
    if reason is not None:
        print(f"rlzoo: --matmul-precision {precision} has no effect: {reason}", file=sys.stderr)


@contextmanager
def precision_of_products(precision: str, device: torch.device) -> Iterator[None]:
    """Set the precision of this process as `set_matmul_precision` does, and restore it at the end.

    :raises UserError: a script has set it in PyTorch's newer way
    """
    global gradients_in_bfloat16, values_in_bfloat16
    before = gradients_in_bfloat16, values_in_bfloat16, precision_of_script()
    if before[-1] is None:
        raise UserError(
            "matmul_precision cannot be set where fp32_precision of torch.backends is: remove one of them"
        )
    try:
        set_matmul_precision(precision, device)
        yield
    finally:
        gradients_in_bfloat16, values_in_bfloat16, of_torch = before
        if of_torch not in (None, precision_of_script()):
            torch.set_float32_matmul_precision(of_torch)


def without_effect(precision: str, device: torch.device) -> str | None:
    """Return why a precision is float32 on a device all the same, else None."""
    if precision == "highest":
        return None
    if device.type == "cuda":
        major = torch.cuda.get_device_capability(device)[0]
        return None if major >= 8 else "TF32 needs compute capability 8.0 (Ampere)"
    if device.type == "cpu":
        return None if cpu_multiplies_bfloat16() else "this processor does not multiply bfloat16"
    return f"it is for CUDA devices and CPUs, not for {device.type}"


def cpu_multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 in hardware (AVX512-BF16, AMX, ARM BF16)."""
    if not torch.backends.mkldnn.is_available():
        return False
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def is_rounded(x: Tensor, weight: Tensor) -> bool:
    """Return whether products of a layer with this input gain from bfloat16, and may be computed in it.

    :param x: [..., batch, features]
    :param weight: [..., in, out] or [..., out, in]
    """
    if not gradients_in_bfloat16 or not x.is_cpu or x.dtype is not torch.float32:
        return False
    if not is_dynamo_compiling() and (is_tracing() or peek_interpreter_stack() is not None):
        return False  # graphs of torch.jit and transforms of torch.func
    height, width = weight.shape[-2:]
    if min(height, width, x.shape[-1]) < LEAST_WIDTH:
        return False
    return x.numel() // x.shape[-1] * height * width >= LEAST_MULTIPLICATIONS


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b, as `torch.nn.functional.linear` does; gradients may be computed in bfloat16.

    :param x: [..., in]
    :param weight: [out, in]
    :param bias: [out]
    """
    if bias is None or x.dim() != 2 or not torch.is_grad_enabled() or not is_rounded(x, weight):
        return F.linear(x, weight, bias)
    y: Tensor = _RoundedGradients.apply(x, weight.t(), bias)  # type: ignore[no-untyped-call]
    return y


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W + b of a critic's layer, or of those of `n` critics; it may be computed in bfloat16.

    :param x: [batch, in], or [n, batch, in]
    :param weight: [in, out], or [n, in, out]
    :param bias: [out], or [n, 1, out]
    """
    if not (values_in_bfloat16 or torch.is_grad_enabled()) or not is_rounded(x, weight):
        return torch.addmm(bias, x, weight) if x.dim() == 2 else torch.baddbmm(bias, x, weight)
    if values_in_bfloat16:
        return rounded_product(x, weight).add_(bias)
    y: Tensor = _RoundedGradients.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices [..., p, q] and [..., q, r], computed in bfloat16."""
    return (a.bfloat16() @ b.bfloat16()).float()


# ---------------------------------------------------------------------- the library

ZEN_5 = 26
"""The first family of AMD's processors of which those for servers and desktops compute 512 bits at once."""
FLOAT32_ERROR = 1e-5
"""Of a product of 256 x 256 matrices, relative to its largest element; in bfloat16 it is some 1e-3."""


def precision_of_script() -> str | None:
    """Return `precision_of_torch` as it is outside of `products_by_onednn`."""
    return "highest" if _OneDNN.n_inside else precision_of_torch()


class _OneDNN(threading.local):
    """How often a Python thread is inside of `products_by_onednn`, and what all of them have changed."""

    n_own = 0
    n_inside: ClassVar[int] = 0
    n_trainings: ClassVar[int] = 0
    before: ClassVar[tuple[str | None, ...]] = ()
    """Precision of single backends, until it is restored."""


_onednn, _lock = _OneDNN(), threading.RLock()  # a generator that is collected may leave inside of another


@contextmanager
def products_by_onednn() -> Iterator[None]:
    """Let oneDNN compute all products of the process inside, unless a script has set another precision.

    PyTorch has no switch for the library. With its precision `medium`, products go to oneDNN, which may then
    round their factors to bfloat16, but does not where `onednn_is_faster`. Python threads may overlap: the
    last one restores the precision, and that of single backends unless trainings `keep_backends`.
    """
    with _lock:
        is_set = precision_of_script() == "highest"
        if is_set:
            _enter_onednn(1)
    try:
        yield
    finally:
        if is_set:
            with _lock:
                _leave_onednn(1)


@contextmanager
def products_as_outside() -> Iterator[None]:
    """Leave `products_by_onednn` inside: for code of others that takes its turn in the same Python thread."""
    with _lock:
        n = _leave_onednn(_onednn.n_own)
    try:
        yield
    finally:
        with _lock:
            _enter_onednn(n)


def is_by_onednn() -> bool:
    """Return whether this Python thread is inside of `products_by_onednn`."""
    return _onednn.n_own > 0


def _enter_onednn(n: int) -> None:
    if n and not _OneDNN.n_inside:
        _OneDNN.before = _OneDNN.before or precision_of_backends()
        torch.set_float32_matmul_precision("medium")
    _OneDNN.n_inside += n
    _onednn.n_own += n


def _leave_onednn(n: int) -> int:
    _OneDNN.n_inside -= n
    _onednn.n_own -= n
    if n and not _OneDNN.n_inside and precision_of_torch() == "medium":  # else code inside has set another
        torch.set_float32_matmul_precision("highest")
    _restore_backends()
    return n


def keep_backends() -> None:
    """Restore the precision of single backends at `release_backends` only: it takes as long as all the rest.

    Backends inherit that of `torch.backends` where theirs is "none", and `highest` sets "ieee". So until then
    `torch.backends.fp32_precision` has no effect on products.
    """
    with _lock:
        _OneDNN.n_trainings += 1


def release_backends() -> None:
    """End what `keep_backends` has begun, for this training."""
    with _lock:
        _OneDNN.n_trainings -= 1
        _restore_backends()


def _restore_backends() -> None:
    if _OneDNN.n_inside or _OneDNN.n_trainings:
        return
    for backend, precision in zip(_matmul_backends(), _OneDNN.before, strict=False):
        if precision is not None and backend.fp32_precision == "ieee":  # else a script has set another
            backend.fp32_precision = precision
    _OneDNN.before = ()


def precision_of_backends() -> tuple[str | None, ...]:
    """Return the precision of products of single backends; None where PyTorch is older than 2.9."""
    return tuple(getattr(backend, "fp32_precision", None) for backend in _matmul_backends())


def _matmul_backends() -> tuple[Any, ...]:
    return tuple(getattr(backend, "matmul", None) for backend in (torch.backends.mkldnn, torch.backends.cuda))


def onednn_is_faster() -> bool:
    """Return whether oneDNN computes large float32 products on the CPU faster than PyTorch's other library,
    as far as the family of the processor tells, and as exactly; False where a script has set another
    precision."""
    return precision_of_script() == "highest" and onednn_suits()


@functools.cache
def onednn_suits() -> bool:
    """Return whether the processor and its oneDNN are of that kind."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    return amd_family(processor_description()) >= ZEN_5 and onednn_is_float32()


def processor_description() -> str:
    """Return what the system says of the processor."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            return file.read(1000)
    except OSError:  # not Linux
        return platform.processor()


def amd_family(description: str) -> int:
    """Return the family number of one of AMD's processors, 0 for others.

    >>> amd_family("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD")
    26
    """
    found = re.search(r"family\s*:?\s*(\d+)", description, re.IGNORECASE)
    return int(found.group(1)) if found and "AuthenticAMD" in description else 0


def onednn_is_float32() -> bool:
    """Return whether oneDNN computes a product in float32 where it may round the factors."""
    a = torch.arange(256 * 256, dtype=torch.float32, device="cpu").reshape(256, 256).sin()
    exact = a.double() @ a.double()
    with products_by_onednn():
        error = (a @ a - exact).abs().max() / exact.abs().max()
    return bool(error < FLOAT32_ERROR)


# ---------------------------------------------------------------------- gradients in bfloat16


class _Context:
    """What autograd keeps between the two passes."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    save_for_backward: Callable[..., None]


class _RoundedGradients(torch.autograd.Function):
    """`affine` in float32, with gradients of its input and weights in bfloat16.

    PyTorch does not say that a loss needs no gradients of the weights, as the actor's does not: they are
    computed in vain.
    """

    @staticmethod
    def forward(ctx: _Context, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight) if x.dim() == 2 else torch.baddbmm(bias, x, weight)

    @staticmethod
    def backward(ctx: _Context, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        by_x, by_weight, by_bias = ctx.needs_input_grad
        narrow = gradient.bfloat16()
        of_weight = None
        if by_weight:  # in the layout of the weights: optimisers read both
            is_transposed = weight.stride(-1) > weight.stride(-2)
            of_weight = rounded_product(narrow.mT, x).mT if is_transposed else rounded_product(x.mT, narrow)
        return (
            rounded_product(narrow, weight.mT) if by_x else None,
            of_weight,
            gradient.sum(-2, keepdim=gradient.dim() == 3) if by_bias else None,
        )
