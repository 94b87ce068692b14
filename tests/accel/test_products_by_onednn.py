"""Products of gradient steps on wide networks, where oneDNN is faster and computes in float32, too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import rlzoo
from rlzoo.accel import matmul_precision, threads
from rlzoo.accel.matmul_precision import (
    amd_family,
    onednn_is_faster,
    onednn_suits,
    precision_of_products,
    products_as_outside,
    products_by_onednn,
)
from rlzoo.accel.threads import ThreadTuner

ZEN_5 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
ZEN_4 = ZEN_5.replace("26", "25")
INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n"
WIDE = {"policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 256, "learning_starts": 20}

precision = torch.get_float32_matmul_precision


@pytest.fixture(autouse=True)
def without_cache() -> Iterator[None]:
    onednn_suits.cache_clear()
    yield
    onednn_suits.cache_clear()


@pytest.mark.parametrize(
    ("description", "family"),
    [
        (ZEN_5, 26),
        (ZEN_4, 25),
        (INTEL, 0),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", 26),
        ("Intel64 Family 6 Model 143 Stepping 8, GenuineIntel", 0),
        ("arm", 0),
        ("", 0),
    ],
)
def test_family_is_read_from_what_the_system_says(description: str, family: int) -> None:
    assert amd_family(description) == family


@pytest.mark.parametrize("description", [ZEN_4, INTEL, ""])
def test_other_processors_keep_their_library(description: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_precision, "processor_description", lambda: description)
    assert not onednn_is_faster()


@pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()), reason="one library"
)
def test_zen_5_changes_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_precision, "processor_description", lambda: ZEN_5)
    monkeypatch.setattr(matmul_precision, "FLOAT32_ERROR", float("inf"))
    assert onednn_is_faster()


def test_library_that_rounds_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_precision, "processor_description", lambda: ZEN_5)
    monkeypatch.setattr(matmul_precision, "FLOAT32_ERROR", 0.0)
    assert not onednn_is_faster()


def test_library_is_changed_for_steps_alone() -> None:
    tuner = ThreadTuner(1, ("update", "act"), by_onednn=True)
    assert tuner.call("update", precision) == "highest"  # outside of `learn`
    tuner.start(torch.get_num_threads())
    assert tuner.call("update", precision) == "medium" and tuner.call("act", precision) == "highest"
    assert tuner.stepping("update", precision)() == "medium"
    for _ in tuner.timed([1, 2]):
        assert precision() == "medium"
    assert precision() == "highest"
    with pytest.raises(ZeroDivisionError):
        tuner.call("update", lambda: 1 / 0)
    assert precision() == "highest"


def test_precision_of_the_user_stays() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with products_by_onednn():
            assert precision() == "high"
        assert precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_precision_that_a_step_sets_stays() -> None:
    try:
        with products_by_onednn():
            torch.set_float32_matmul_precision("high")
        assert precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


STEP = """
import torch
from rlzoo.accel.threads import ThreadTuner
tuner = ThreadTuner(by_onednn=True)
tuner.start(1)
tuner.call("update", print, "step")
"""
INHERITED = """
left = iter(tuner.timed([1]))
next(left)  # an exception may hold it longer than the training
tuner.stop()
del left
torch.backends.fp32_precision = "tf32"
"""
SET_IN_A_CALLBACK = """
torch.backends.cuda.matmul.fp32_precision = "tf32"
tuner.stop()
"""


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="an older PyTorch")
@pytest.mark.parametrize("after", [INHERITED, SET_IN_A_CALLBACK], ids=["inherited", "set in a callback"])
def test_precision_of_a_backend_is_that_of_the_script_afterwards(after: str) -> None:
    program = f"{STEP}{after}print(torch.backends.cuda.matmul.fp32_precision)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["step", "tf32"], done.stderr


def test_older_pytorch_has_no_precision_of_single_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    with products_by_onednn():
        assert precision() == "medium"
    assert precision() == "highest"


def test_session_that_opens_meanwhile_leaves_the_library() -> None:
    with products_by_onednn(), precision_of_products("highest", torch.device("cpu")):
        assert precision() == "medium"
    assert precision() == "highest"


def test_last_of_overlapping_steps_restores_the_library() -> None:
    first, second = products_by_onednn(), products_by_onednn()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert precision() == "medium"
    with products_as_outside():  # another training takes its turn
        assert precision() == "highest"
        with products_by_onednn():
            assert precision() == "medium"
        assert precision() == "highest"
    assert precision() == "medium"
    assert matmul_precision.precision_of_script() == "highest"
    second.__exit__(None, None, None)
    assert precision() == "highest"


def test_failed_training_leaves_no_mode_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "onednn_is_faster", lambda: True)

    def broken(*args: Any, **kwargs: Any) -> Any:
        assert precision() == "medium"
        raise KeyboardInterrupt

    wide = {"policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 256}
    model = rlzoo.PPO("MlpPolicy", "Pendulum-v1", n_steps=256, device="cpu", **wide)
    monkeypatch.setattr(model, "gradient_step", broken)
    with pytest.raises(KeyboardInterrupt):
        model.learn(256)
    assert precision() == "highest"  # while the traceback is there


def test_answer_does_not_depend_on_an_earlier_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_precision, "processor_description", lambda: ZEN_5)
    monkeypatch.setattr(matmul_precision, "onednn_is_float32", lambda: True)
    torch.set_float32_matmul_precision("high")
    try:
        assert not onednn_is_faster()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert onednn_is_faster() == (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available())


def test_precision_of_the_newer_kind_stays() -> None:
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("an older PyTorch")
    program = """
import torch
from rlzoo import SAC
from rlzoo.accel import threads
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
threads.onednn_is_faster = lambda: True
wide = {"policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 256, "learning_starts": 10}
SAC("MlpPolicy", "Pendulum-v1", device="cpu", **wide).learn(12)
print(torch.backends.mkldnn.matmul.fp32_precision)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["bf16"], done.stderr


def test_device_that_changes_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "onednn_is_faster", lambda: True)
    model = make().learn(22)
    assert model.threads.by_onednn
    model.device = torch.device("meta")
    with model.training_threads():
        assert not model.threads.by_onednn


def make(**kwargs: Any) -> Any:
    return rlzoo.SAC("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", **{**WIDE, **kwargs})


@pytest.mark.parametrize(
    ("changes", "in_steps"),
    [({}, "medium"), ({"batch_size": 16}, "highest"), ({"policy_kwargs": {"net_arch": [16]}}, "highest")],
)
def test_wide_networks_learn_by_it(changes: Any, in_steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "onednn_is_faster", lambda: True)
    model = make(**changes)
    seen: dict[str, set[str]] = {"gradient_step": set(), "act": set()}
    for name, found in seen.items():
        monkeypatch.setattr(model, name, noting(getattr(model, name), found))
    model.learn(40)
    assert seen == {"gradient_step": {in_steps}, "act": {"highest"}} and precision() == "highest"


def noting(function: Any, found: set[str]) -> Any:
    def noted(*args: Any, **kwargs: Any) -> Any:
        found.add(precision())
        return function(*args, **kwargs)

    return noted


def test_parameters_are_those_of_the_other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    if not matmul_precision.onednn_is_float32():
        pytest.skip("oneDNN rounds here")
    vectors = []
    for is_faster in (True, False):
        monkeypatch.setattr(threads, "onednn_is_faster", lambda chosen=is_faster: chosen)
        vectors.append(torch.nn.utils.parameters_to_vector(make().learn(60).policy.parameters()))
    start = torch.nn.utils.parameters_to_vector(make().policy.parameters())
    one, other = vectors
    assert (one - other).norm() < 1e-3 * (one - start).norm()
