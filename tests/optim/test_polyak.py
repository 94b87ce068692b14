from __future__ import annotations

import pytest
import torch

from rlzoo.optim import polyak_update


def test_targets_move_by_tau_in_place():
    source, target = [torch.tensor([1.0, 2.0])], [torch.tensor([0.0, 10.0])]
    same = target[0]
    polyak_update(source, target, 0.25)
    assert torch.allclose(same, torch.tensor([0.25, 8.0]))
    polyak_update(source, target, 1.0)
    assert torch.equal(same, source[0])


def test_it_works_on_module_parameters_and_refuses_unequal_lists():
    source, target = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    polyak_update(source.parameters(), target.parameters(), 0.0)
    assert not torch.equal(source.weight, target.weight)
    with pytest.raises(ValueError, match="2 parameters cannot update 1"):
        polyak_update(source.parameters(), [target.weight], 0.5)
