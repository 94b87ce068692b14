"""Whether a gradient step holds code of others, which a CUDA graph might leave out without notice."""

from __future__ import annotations

from typing import Any

from rlzoo.accel.fast_mlp import has_hooks
from rlzoo.accel.gpu.acceleration import optimizers_of
from rlzoo.accel.gpu.capturable import is_known


def has_known_code(model: Any) -> bool:
    """Return whether all code of a gradient step is of this package or of PyTorch.

    A graph repeats operations on tensors. What else a module, a hook or an optimiser of a user does in
    Python, such as counting its calls, would happen only while the graph is captured.
    """
    modules = list(model.policy.modules())
    is_ours = all(type(part).__module__.startswith(("rlzoo.", "torch.nn.")) for part in (model, *modules))
    return is_ours and not any(map(has_hooks, modules)) and all(map(is_known, optimizers_of(model)))
