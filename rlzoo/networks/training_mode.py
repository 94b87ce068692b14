"""Which networks behave differently while they learn."""

from __future__ import annotations

from torch import nn

from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.lstm import LSTM, LayerNormLSTM


def depends_on_mode(module: nn.Module) -> bool:
    """Whether a module, its parts aside, may behave differently in training: what is not ours or torch's is
    taken to."""
    if isinstance(module, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._NormBase | BatchRenorm):
        return True
    if isinstance(module, LSTM | LayerNormLSTM):
        return module.dropout > 0
    return not type(module).__module__.startswith(("torch.", "rlzoo."))
