"""Whether a gradient step holds custom code, which a CUDA graph might leave out without notice."""

from __future__ import annotations

from typing import Any

from rlzoo.accel.fast_mlp import holds_custom_code
from rlzoo.accel.gpu.acceleration import optimizers_of
from rlzoo.accel.gpu.capturable import is_known


def has_custom_code(model: Any) -> bool:
    """Return whether algorithm, modules, hooks or optimisers are not those of this package or of PyTorch.

    A graph repeats operations on tensors. What else custom code does in Python, such as counting its calls,
    would happen only while the graph is captured.
    """
    is_patched = "gradient_step" in vars(model) and not model.is_captured
    return is_patched or holds_custom_code(model) or not all(map(is_known, optimizers_of(model)))
