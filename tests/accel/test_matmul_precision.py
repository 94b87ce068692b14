"""`--matmul-precision`: set for the process, with one line where it has no effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from rlzoo.accel.gpu import matmul_precision
from rlzoo.accel.gpu.matmul_precision import set_matmul_precision, without_effect
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.session import open_session

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def test_precision_is_set() -> None:
    for precision in ("high", "medium", "highest"):
        set_matmul_precision(precision, CPU)
        assert torch.get_float32_matmul_precision() == precision


def test_one_line_says_where_it_has_no_effect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matmul_precision, "cpu_multiplies_bfloat16", lambda: False)
    set_matmul_precision("medium", CPU)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--matmul-precision medium has no effect" in said
    monkeypatch.setattr(matmul_precision, "cpu_multiplies_bfloat16", lambda: True)
    assert without_effect("medium", CPU) is None
    assert without_effect("highest", CPU) is None
    assert "TF32" in str(without_effect("high", CPU))


def test_old_gpus_have_no_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    for major, text in ((7, "compute capability 8.0"), (8, "None")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, major=major: (major, 0))
        assert text in str(without_effect("high", torch.device("cuda")))


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(UserError, match="unknown matmul_precision 'mediun'; did you mean 'medium'"):
        resolve_config("sac", {"policy": "MlpPolicy", "matmul_precision": "mediun"})


@pytest.mark.parametrize(
    ("flag", "hyperparameter", "expected"),
    [(None, "medium", "medium"), ("high", "medium", "high"), ("high", None, "high"), (None, None, "highest")],
)
def test_the_precision_holds_until_the_training_is_closed(
    flag: str | None, hyperparameter: str | None, expected: str
) -> None:
    values = {"policy": "MlpPolicy", **({"matmul_precision": hyperparameter} if hyperparameter else {})}
    run = RunConfig(algo="ppo", env_id="CartPole-v1", seed=0, eval_freq=-1, verbose=0, matmul_precision=flag)
    with open_session(run, resolve_config("ppo", values)):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == "highest"
