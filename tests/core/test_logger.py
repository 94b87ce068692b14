"""The logger and its sinks."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from rlzoo.core.errors import UserError
from rlzoo.metrics import logger as formats
from rlzoo.metrics import logger as logs
from rlzoo.metrics.log_files import read_csv, read_json
from rlzoo.metrics.logger import (
    CSVOutputFormat,
    Figure,
    FormatUnsupportedError,
    HParam,
    HumanOutputFormat,
    Image,
    JSONOutputFormat,
    KVWriter,
    Logger,
    Video,
    configure,
    configure_logger,
)


class Recorder(KVWriter):
    """A user's writer."""

    def __init__(self) -> None:
        self.dumps: list[tuple[int, dict[str, Any]]] = []

    def write(self, key_values: dict[str, Any], key_excluded: formats.Excluded, step: int = 0) -> None:
        self.dumps.append((step, formats.filter_excluded_keys(key_values, key_excluded, "mine")))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def logger(recorder: Recorder) -> Logger:
    return Logger(None, [recorder])


def test_importing_the_logger_imports_no_torch() -> None:
    code = "import sys, rlzoo.metrics.logger; print([m for m in ('torch', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_tensors_are_converted_at_dump_only(logger: Logger, recorder: Recorder) -> None:
    loss = torch.tensor(2.5, requires_grad=True)
    logger.record("loss", loss)
    assert logger.name_to_value["loss"] is loss
    logger.record("bf16", torch.tensor([1.5], dtype=torch.bfloat16))
    logger.record("np", np.float32(0.25))
    logger.record("n", np.int64(3))
    logger.record("weights", torch.arange(3))
    logger.dump(7)
    step, values = recorder.dumps[0]
    weights = values.pop("weights")
    assert step == 7
    assert values == {"loss": 2.5, "bf16": 1.5, "np": 0.25, "n": 3}
    assert {type(value) for value in values.values()} == {float, int}
    np.testing.assert_array_equal(weights, [0, 1, 2])


def test_a_dump_starts_anew(logger: Logger, recorder: Recorder) -> None:
    logger.record("a", 1, exclude="mine")
    logger.record_mean("m", 4)
    logger.dump(1)
    logger.record("a", 2)
    logger.record_mean("m", 1)
    logger.dump(2)
    logger.dump(3)
    assert recorder.dumps == [(1, {"m": 4}), (2, {"a": 2, "m": 1})]


def test_record_mean_averages_and_skips_none(logger: Logger, recorder: Recorder) -> None:
    for value in (1, 2, None, torch.tensor(6.0)):
        logger.record_mean("m", value)
    logger.dump()
    assert recorder.dumps[0][1]["m"] == pytest.approx(3)


def test_exclude_takes_a_name_or_several(logger: Logger, recorder: Recorder) -> None:
    logger.record("a", 1, exclude="mine")
    logger.record("b", 1, exclude=("csv", "mine"))
    logger.record("c", 1, exclude=("csv",))
    logger.dump()
    assert recorder.dumps == [(0, {"c": 1})]


def test_table_has_sections_in_order() -> None:
    out = io.StringIO()
    HumanOutputFormat(out).write(
        {"train/loss": 0.123456, "time/n": 1234567, "lone": "x", "train/a": 2.0}, {}, 0
    )
    assert out.getvalue() == (
        "----------------------\n"
        "| lone    | x        |\n"
        "| time/   |          |\n"
        "|    n    | 1234567  |\n"
        "| train/  |          |\n"
        "|    a    | 2        |\n"
        "|    loss | 0.123    |\n"
        "----------------------\n"
    )


def test_long_names_that_look_alike_are_both_shown() -> None:
    out = io.StringIO()
    HumanOutputFormat(out).write({"a" * 50 + "1": 1, "a" * 50 + "2": "two\nlines"}, {}, 0)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert "a" * 33 + "..." in lines[1]


def test_console_table_goes_to_the_current_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    logger = configure_logger(verbose=1)
    old, sys.stdout = sys.stdout, io.StringIO()
    try:
        logger.record("a", 1)
        logger.dump()
        assert "| a | 1 |" in sys.stdout.getvalue()
    finally:
        sys.stdout = old
    assert capsys.readouterr().out == ""


def test_csv_stays_readable_when_columns_appear(tmp_path: Path) -> None:
    writer = CSVOutputFormat(tmp_path / "progress.csv")
    writer.write({"b": 1, "text": 'quo"ted, and\nbroken'}, {}, 1)
    writer.write({"a": 2.5, "b": 2}, {}, 2)
    writer.write({"c": None, "a": True}, {}, 3)
    writer.write({"b": 4, "hidden": 1}, {"hidden": ("csv",)}, 4)
    frame = read_csv(tmp_path / "progress.csv")
    assert list(frame.columns) == ["b", "text", "a", "c"]
    assert frame["b"].tolist()[:2] == [1, 2] and frame["b"].isna().tolist() == [False, False, True, False]
    assert frame["text"][0] == 'quo"ted, and\nbroken'
    assert frame["a"].isna().tolist() == [True, False, False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["progress.csv"]


def test_csv_continues_behind_the_last_whole_row(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    writer = CSVOutputFormat(path)
    writer.write({"a": 1, "b": 1}, {}, 1)
    writer.close()
    path.write_text(path.read_text() + "2")  # killed in the middle of a row
    writer = CSVOutputFormat(path, append=True)
    writer.write({"b": 3}, {}, 3)
    writer.write({"c": 4}, {}, 4)
    assert path.read_text() == "a,b,c\n1,1,\n,3,\n,,4\n"
    CSVOutputFormat(path).close()
    assert path.read_text() == ""


def test_json_lines_are_strict_json(tmp_path: Path) -> None:
    writer = JSONOutputFormat(tmp_path / "p.json")
    writer.write({"a": float("nan"), "b": [1, np.float32(2.5)], "c": np.arange(2), "d": "ü"}, {}, 1)
    writer.write({"a": 1, "x": 1}, {"x": ("json",)}, 2)
    lines = (tmp_path / "p.json").read_text().splitlines()
    forbid = pytest.fail
    assert json.loads(lines[0], parse_constant=forbid) == {"a": None, "b": [1, 2.5], "c": [0, 1], "d": "ü"}
    assert json.loads(lines[1]) == {"a": 1}
    assert read_json(tmp_path / "p.json")["a"].tolist()[1] == 1


@pytest.mark.parametrize("name", ["stdout", "log", "csv", "json"])
@pytest.mark.parametrize(
    "value", [Figure(None, False), Image(np.zeros((2, 2)), "HW"), Video(np.zeros(1), 1), HParam({}, {})]
)
def test_media_are_for_tensorboard(tmp_path: Path, name: str, value: Any) -> None:
    logger = configure(tmp_path, [name])
    logger.record("k", value)
    with pytest.raises(FormatUnsupportedError, match="exclude"):
        logger.dump()
    logger.record("k", value, exclude=("stdout", "log", "csv", "json"))
    logger.dump()


def test_tensorboard_gets_every_kind_of_value(tmp_path: Path) -> None:
    from matplotlib.figure import Figure as MplFigure
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = configure(tmp_path, ["tensorboard"])
    logger.record("loss", torch.tensor(0.5))
    logger.record("hidden", 1, exclude="tensorboard")
    logger.record("text", "hello")
    logger.record("weights", torch.randn(10))
    logger.record("image", Image(torch.zeros(3, 4, 4), "CHW"))
    logger.record("figure", Figure(MplFigure(), close=True))
    logger.record("video", Video(torch.rand(2, 3, 3, 8, 6), fps=10))
    logger.record("grey", Video(np.zeros((1, 2, 1, 8, 6), np.uint8), fps=10))
    logger.record("hparams", HParam({"lr": 1e-3, "algo": "ppo"}, {"loss": 0.0}))
    logger.dump(12)
    logger.record("loss", 0.25)
    logger.dump(24)
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    tags = events.Tags()
    assert tags["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(12, 0.5), (24, 0.25)]
    assert tags["histograms"] == ["weights"]
    assert set(tags["images"]) == {"image", "figure", "video", "grey"}
    video = events.Images("video")[0]
    assert (video.width, video.height) == (12, 8) and video.encoded_image_string.startswith(b"GIF")
    assert "text/text_summary" in tags["tensors"]
    assert "_hparams_/session_start_info" in events.summary_metadata


def test_a_video_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    logger = configure(tmp_path, ["tensorboard"])
    logger.record("video", Video(np.zeros((3, 4, 4)), 30))
    with pytest.raises(UserError, match=r"\[3, 4, 4\]"):
        logger.dump()


def test_levels(capsys: pytest.CaptureFixture[str], recorder: Recorder) -> None:
    logger = Logger(None, [HumanOutputFormat(sys.stdout), recorder])
    logger.info("shown", 1)
    logger.debug("not shown")
    logger.set_level(logs.ERROR)
    logger.warn("not shown")
    logger.error("bad")
    logger.set_level(logs.DISABLED)
    logger.error("not shown")
    logger.record("a", 1)
    logger.dump()
    assert capsys.readouterr().out == "shown 1\nbad\n"
    assert recorder.dumps == []


def test_configure_writes_into_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = configure(tmp_path / "new" / "run", ["stdout", "log", "csv", "json"])
    logger.record("a", 1)
    logger.dump()
    logger.close()
    folder = tmp_path / "new" / "run"
    assert logger.get_dir() == str(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "progress.csv", "progress.json"]
    assert "| a | 1 |" in capsys.readouterr().out and "| a | 1 |" in (folder / "log.txt").read_text()
    again = configure(folder, ["csv", "json", "log"], append=True)
    again.record("a", 2)
    again.dump()
    assert pd.read_csv(folder / "progress.csv")["a"].tolist() == [1, 2]
    assert len((folder / "progress.json").read_text().splitlines()) == 2
    assert (folder / "log.txt").read_text().count("| a |") == 2


def test_configure_reads_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLZOO_LOGDIR", str(tmp_path / "env"))
    monkeypatch.setenv("RLZOO_LOG_FORMAT", "csv, json")
    logger = configure()
    assert logger.get_dir() == str(tmp_path / "env")
    assert [type(output) for output in logger.output_formats] == [CSVOutputFormat, JSONOutputFormat]


def test_configure_without_a_folder_makes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLZOO_LOGDIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = configure(format_strings=["csv"]).get_dir()
    assert folder is not None and Path(folder).parent == tmp_path and (Path(folder) / "progress.csv").exists()


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        configure(tmp_path, ["tensorbord"])


def test_configure_logger_numbers_tensorboard_folders(tmp_path: Path) -> None:
    first = configure_logger(0, tmp_path, "PPO").get_dir()
    second = configure_logger(0, tmp_path, "PPO").get_dir()
    continued = configure_logger(0, tmp_path, "PPO", reset_num_timesteps=False).get_dir()
    other = configure_logger(0, tmp_path, "A2C", reset_num_timesteps=False).get_dir()
    names = [Path(folder or "").name for folder in (first, second, continued, other)]
    assert names == ["PPO_1", "PPO_2", "PPO_2", "A2C_1"]


def test_configure_logger_makes_no_folder_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert configure_logger(0).output_formats == []
    assert [type(output) for output in configure_logger(1).output_formats] == [HumanOutputFormat]
    assert configure_logger(1).get_dir() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"a,b\n\xff\n", b"a,b\n" + b"x" * 200_000 + b"\n"])
def test_damaged_table_is_not_continued(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"progress\.csv is damaged, so it cannot be continued"):
        CSVOutputFormat(tmp_path / "progress.csv", append=True)


@pytest.mark.parametrize("read", [read_csv, read_json])
@pytest.mark.parametrize("content", [b"a,b\n\xff\n", b'{"a": 1}\n\x00', b"[" * 100_000, b"[1]\n"])
def test_damaged_tables_are_refused_in_one_line(read: Any, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    try:
        read(tmp_path / "log")
    except UserError as error:
        assert str(error).startswith(f"{tmp_path / 'log'} is damaged: ")
        assert len(str(error).splitlines()) == 1


def test_empty_table_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(b"")  # as of a run that ended before its first table
    with pytest.raises(UserError, match=r"progress\.csv is empty: nothing has been logged yet"):
        read_csv(tmp_path / "progress.csv")
    assert read_json(tmp_path / "progress.csv").empty


@pytest.mark.parametrize("read", [read_csv, read_json])
def test_a_missing_table_is_named(read: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*log: No such file"):
        read(tmp_path / "log")
