"""scripts/gpu_check.py runs without a GPU, and says so."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "gpu_check.py"
    spec = importlib.util.spec_from_file_location("gpu_check", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_report_has_a_row_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    script, cpu = load(), torch.device("cpu")
    monkeypatch.setattr(script, "ppo_learns", lambda device, small: "ok")
    short = dataclasses.replace(script.CASES["dqn-tensors"], small=128)
    broken = dataclasses.replace(short, env_id="NoSuchEnv-v0")
    monkeypatch.setattr(script, "CASES", {"dqn-tensors": short, "broken": broken})
    ways = ["plain", "graphs"]
    lines = script.report(cpu, ["dqn-tensors", "broken"], ways, small=True, with_tests=False)
    text = "\n".join(lines)
    assert "**CPU tensors**" in text and "| environments on the device equal those on the CPU | ok" in text
    assert len([line for line in lines if line.startswith("| dqn-tensors | 64 |")]) == 1
    assert "| broken | 64 | FAILED: UnknownEnvironment" in text  # one failure does not hide the others
