"""Which networks behave differently while they learn."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrizations import _SpectralNorm

from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.lstm import LSTM, LayerNormLSTM

ALWAYS = (
    _DropoutNd,
    _NormBase,
    nn.RReLU,
    _SpectralNorm,
    BatchRenorm,
)


def depends_on_mode(module: nn.Module) -> bool:
    """Return whether a module, without its submodules, may behave differently in training mode; assumed of
    classes that are neither rlzoo's nor PyTorch's."""
    if isinstance(module, ALWAYS):
        return True
    if isinstance(module, LSTM | LayerNormLSTM | nn.RNNBase | nn.MultiheadAttention):
        return module.dropout > 0
    return not type(module).__module__.startswith(("torch.", "rlzoo."))
