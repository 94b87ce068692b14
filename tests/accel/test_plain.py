"""With `RLZOO_PLAIN=1` everything is stock PyTorch, and every algorithm learns the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rlzoo
from rlzoo.accel.flat_parameters import FlatParameters, ParameterGroup, fit_layout
from rlzoo.accel.switch import TRICKS, enabled
from rlzoo.core.errors import UserError
from tests.accel.plain_agents import AGENTS

SCRIPT = Path(__file__).with_name("plain_agents.py")
TOLERANCE = 1e-5  # of the norm of the parameters
NAMES = [name for name in AGENTS if name != "ars"]
LAYOUTS = [(FlatParameters, ParameterGroup), (ParameterGroup, FlatParameters)]
SETTINGS = {"": True, "0": True, "1": False, "fast_mlp": False, "threads, fast_mlp": False, "threads": True}


def trained(path: Path, plain: str) -> dict[str, np.ndarray]:
    variables = {**os.environ, "RLZOO_PLAIN": plain, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(path)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(path))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("plain")
    return trained(folder / "fast.npz", ""), trained(folder / "plain.npz", "1")


@pytest.mark.parametrize("name", NAMES)
def test_parameters_agree_to_float32_rounding(both, name):
    fast, plain = both[0][name], both[1][name]
    assert np.linalg.norm(fast - plain) <= TOLERANCE * np.linalg.norm(fast)


def test_ars_learns_the_same_to_the_bit(both):
    assert np.array_equal(both[0]["ars"], both[1]["ars"])


def test_every_algorithm_is_compared(both):
    algorithms = {name.lower() for name in rlzoo.__all__ if hasattr(getattr(rlzoo, name, None), "Config")}
    assert algorithms - {"algorithm"} <= {name.replace("_", "") for name in both[0]}


@pytest.mark.parametrize(("setting", "expected"), SETTINGS.items())
def test_switch_turns_off_all_or_those_listed(setting, expected):
    assert enabled("fast_mlp", setting) is expected


def test_switch_refuses_unknown_names():
    with pytest.raises(ValueError, match="unknown speed-up 'flat'"):
        enabled("flat")
    with pytest.raises(UserError, match="unknown speed-up in RLZOO_PLAIN 'fastmlp'; did you mean 'fast_mlp'"):
        enabled("threads", "fastmlp")
    assert list(TRICKS) == sorted(TRICKS)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize(
    ("first", "second"), [(FlatParameters, ParameterGroup), (ParameterGroup, FlatParameters)]
)
def test_optimiser_state_fits_the_other_layout(optimizer_class, first, second):
    x = torch.randn(5, 3)

    def steps(net, group, optimizer):
        for _ in range(3):
            group.backward(net(x).square().sum())
            optimizer.step()

    nets = network(), network()
    groups = first(nets[0].parameters()), second(nets[1].parameters())
    optimizers = [group.optimizer(optimizer_class, lr=0.01) for group in groups]
    steps(nets[0], groups[0], optimizers[0])
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers[1].load_state_dict(fit_layout(optimizers[0].state_dict(), optimizers[1]))
    for net, group, optimizer in zip(nets, groups, optimizers, strict=True):
        steps(net, group, optimizer)
    torch.testing.assert_close(groups[0].vector.detach(), groups[1].vector.detach())
