"""The logger: values recorded by name, written to every sink at `dump`.

    logger = configure("logs/run", ["stdout", "csv", "tensorboard"])
    logger.record("train/loss", loss)          # a tensor stays a tensor until it is dumped
    logger.dump(step=10_000)

Sinks: console table (`stdout`), the same in a file (`log`), `csv`, JSON lines (`json`), `tensorboard`, and
any `KVWriter` of the user. No torch at import: tensors are recognised by what they can do.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import os
import re
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np

from rlzoo.core.errors import UserError, unknown
from rlzoo.io.atomic import atomic_write

if TYPE_CHECKING:
    import pandas as pd

DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50
FORMATS = ("stdout", "log", "json", "csv", "tensorboard")
DEFAULT_FORMATS = "stdout,log,csv"
FOLDER_VARIABLES = ("RLZOO_LOGDIR", "SB3_LOGDIR")
FORMATS_VARIABLES = ("RLZOO_LOG_FORMAT", "SB3_LOG_FORMAT")

Excluded: TypeAlias = Mapping[str, tuple[str, ...] | str | None]  # name -> sinks that do not get it


@dataclass
class Figure:
    """A matplotlib figure to log; `close`: close it once it is written."""

    figure: Any
    close: bool


@dataclass
class Image:
    """An image to log: array or tensor in the layout `dataformats` ("CHW", "HWC", "HW", ...)."""

    image: Any
    dataformats: str


@dataclass
class Video:
    """Videos to log: array or tensor [n, time, channel, height, width], uint8 or float in [0, 1]."""

    frames: Any
    fps: float


@dataclass
class HParam:
    """Hyperparameters of a run, and the scalars to compare runs by (their names count, not the values)."""

    hparam_dict: Mapping[str, bool | str | float | int | None]
    metric_dict: Mapping[str, float | int]


class FormatUnsupportedError(UserError, NotImplementedError):
    """A value that a sink cannot show.

    :param unsupported_formats: names of the sink
    :param value_description: what was logged
    """

    def __init__(self, unsupported_formats: Sequence[str], value_description: str) -> None:
        names = ", ".join(unsupported_formats)
        super().__init__(
            f"{names} cannot show a {value_description}: record it with exclude={tuple(unsupported_formats)}"
        )


class KVWriter(ABC):
    """A sink. Subclass it, and append an instance to `logger.output_formats`."""

    @abstractmethod
    def write(self, key_values: dict[str, Any], key_excluded: Excluded, step: int = 0) -> None:
        """Write what was recorded since the last dump.

        :param key_values: name -> number, string, array, list or one of Figure, Image, Video, HParam
        :param key_excluded: see `filter_excluded_keys`
        :param step: environment steps so far
        """

    def close(self) -> None:
        """Release files; closing twice is fine."""


class SeqWriter(ABC):
    """A sink that also takes messages."""

    @abstractmethod
    def write_sequence(self, sequence: list[str]) -> None:
        """Write one message, given in words."""


def filter_excluded_keys(
    key_values: Mapping[str, Any], key_excluded: Excluded, *formats: str
) -> dict[str, Any]:
    """The values that are meant for a sink that goes by one of the names `formats`."""
    return {
        key: value
        for key, value in key_values.items()
        if not set(_as_tuple(key_excluded.get(key))) & set(formats)
    }


def _as_tuple(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The names of sinks that `exclude` says: one name, several or none."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def _refuse_media(values: Iterable[Any], *formats: str) -> None:
    for value in values:
        if isinstance(value, Figure | Image | Video | HParam):
            raise FormatUnsupportedError(formats, type(value).__name__.lower())


def _plain(value: Any) -> Any:
    """Tensors as numbers or arrays, NumPy scalars as numbers; anything else as it is."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()  # NumPy has no bfloat16
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        return value.item()
    return value


def _open(filename: str | os.PathLike[str], append: bool) -> TextIO:
    """A text file, emptied or continued behind its last whole line (a killed process leaves half of one)."""
    if append and os.path.exists(filename):
        with open(filename, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    return open(filename, "a" if append else "w", newline="", encoding="utf-8")


class HumanOutputFormat(KVWriter, SeqWriter):
    """A table for people.

    :param filename_or_file: a path, which is overwritten, or an open text file, which is not closed
    :param max_length: longer names and values are cut to so many characters
    :param append: go on behind what the file holds
    """

    def __init__(
        self, filename_or_file: str | os.PathLike[str] | TextIO, max_length: int = 36, append: bool = False
    ) -> None:
        self.max_length = max_length
        self._owned: TextIO | None = None
        self._given: TextIO | None = None
        if isinstance(filename_or_file, str | os.PathLike):
            self._owned = _open(filename_or_file, append)
        elif not hasattr(filename_or_file, "write"):
            raise UserError(
                f"HumanOutputFormat writes to a path or an open file, not to {filename_or_file!r}"
            )
        elif filename_or_file is not sys.stdout:
            self._given = filename_or_file

    @property
    def file(self) -> TextIO:
        """Where the table goes. Standard output is looked up each time: a progress bar stands in for it."""
        return self._owned or self._given or sys.stdout

    def write(self, key_values: dict[str, Any], key_excluded: Excluded, step: int = 0) -> None:
        values = filter_excluded_keys(key_values, key_excluded, "stdout", "log")
        _refuse_media(values.values(), "stdout", "log")
        if values:
            self.file.write(self.table(values))
            self.file.flush()

    def table(self, values: Mapping[str, Any]) -> str:
        """Rows sorted by name, below a heading per section: the part of the name before the first `/`."""
        rows: list[tuple[str, str]] = []
        section = ""
        for key, value in sorted(values.items()):
            head, slash, rest = key.partition("/")
            if slash and head != section:
                rows.append((self._cut(f"{head}/"), ""))
            section = head if slash else ""
            text = f"{value:<8.3g}" if isinstance(value, float) else str(value).replace("\n", " ")
            rows.append((self._cut(f"   {rest}" if slash else key), self._cut(text)))
        key_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
        line = "-" * (key_width + value_width + 7)
        body = [f"| {key:<{key_width}} | {value:<{value_width}} |" for key, value in rows]
        return "\n".join([line, *body, line, ""])

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.max_length else text[: self.max_length - 3] + "..."

    def write_sequence(self, sequence: list[str]) -> None:
        self.file.write(" ".join(sequence) + "\n")
        self.file.flush()

    def close(self) -> None:
        if self._owned is not None:
            self._owned.close()


class JSONOutputFormat(KVWriter):
    """One JSON object per dump and line; NaN and infinity, which JSON lacks, are null.

    :param filename: the file
    :param append: go on behind what it holds, instead of overwriting it
    """

    def __init__(self, filename: str | os.PathLike[str], append: bool = False) -> None:
        self.file = _open(filename, append)

    def write(self, key_values: dict[str, Any], key_excluded: Excluded, step: int = 0) -> None:
        values = filter_excluded_keys(key_values, key_excluded, "json")
        _refuse_media(values.values(), "json")
        if values:
            self.file.write(
                json.dumps({key: _json_value(value) for key, value in values.items()}, default=str) + "\n"
            )
            self.file.flush()

    def close(self) -> None:
        self.file.close()


def _json_value(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class CSVOutputFormat(KVWriter):
    """One row per dump. A name that appears later adds a column, in which the rows before it are empty.

    :param filename: the file
    :param append: go on behind what it holds, instead of overwriting it
    """

    def __init__(self, filename: str | os.PathLike[str], append: bool = False) -> None:
        self.path = Path(filename)
        self.file = _open(self.path, append)
        rows = self._rows()
        self.columns, self.n_rows = rows[0] if rows else [], max(len(rows) - 1, 0)

    def _rows(self) -> list[list[str]]:
        try:
            with self.path.open(newline="", encoding="utf-8") as file:
                return list(csv.reader(file))
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{self.path} is damaged, so it cannot be continued: {error}") from None

    def write(self, key_values: dict[str, Any], key_excluded: Excluded, step: int = 0) -> None:
        values = filter_excluded_keys(key_values, key_excluded, "csv")
        _refuse_media(values.values(), "csv")
        if not values:
            return
        if not values.keys() <= set(self.columns):
            self._add_columns(sorted(values.keys() - set(self.columns)))
        csv.writer(self.file, lineterminator="\n").writerow(values.get(column, "") for column in self.columns)
        self.file.flush()
        self.n_rows += 1

    def truncate(self, n_rows: int) -> None:
        """Keep the first `n_rows` rows: a resumed training writes those behind them again."""
        if n_rows < self.n_rows:
            self._rewrite(self._rows()[1 : n_rows + 1])
            self.n_rows = n_rows

    def _add_columns(self, names: list[str]) -> None:
        rows = self._rows()[1:]
        self.columns += names
        self._rewrite(rows)

    def _rewrite(self, rows: list[list[str]]) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(row + [""] * (len(self.columns) - len(row)) for row in rows)
        self.file.close()
        with atomic_write(self.path) as file:
            file.write(text.getvalue().encode())
        self.file = _open(self.path, append=True)

    def close(self) -> None:
        self.file.close()


class TensorBoardOutputFormat(KVWriter):
    """TensorBoard: scalars, strings as text, arrays as histograms, and Figure, Image, Video, HParam.

    :param folder: where the event file goes
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError("TensorBoard is not installed: pip install tensorboard") from error
        self.writer: Any = SummaryWriter(log_dir=str(folder))

    def write(self, key_values: dict[str, Any], key_excluded: Excluded, step: int = 0) -> None:
        for key, value in filter_excluded_keys(key_values, key_excluded, "tensorboard").items():
            self._add(key, value, step)
        self.writer.flush()

    def _add(self, key: str, value: Any, step: int) -> None:
        if hasattr(value, "detach"):
            value = _plain(value)
        match value:
            case bool() | int() | float():
                self.writer.add_scalar(key, value, step)
            case str():
                self.writer.add_text(key, value, step)
            case np.ndarray():
                self.writer.add_histogram(key, value, step)
            case Figure():
                self.writer.add_figure(key, value.figure, step, close=value.close)
            case Image():
                self.writer.add_image(key, value.image, step, dataformats=value.dataformats)
            case Video():
                self.writer.file_writer.add_summary(_video_summary(key, value), step)
            case HParam():
                from torch.utils.tensorboard import summary

                make: Any = summary.hparams
                for part in make(dict(value.hparam_dict), dict(value.metric_dict)):
                    self.writer.file_writer.add_summary(part)

    def close(self) -> None:
        self.writer.close()


def _video_summary(key: str, video: Video) -> Any:
    """A TensorBoard summary with the videos side by side, as an animated GIF (torch's own needs moviepy)."""
    from PIL import Image as PillowImage
    from tensorboard.compat.proto.summary_pb2 import Summary

    frames = np.asarray(_plain(video.frames))
    if frames.ndim != 5 or frames.shape[2] not in (1, 3):
        raise UserError(
            f"Video frames are [n, time, channel (1 or 3), height, width], not {list(frames.shape)}"
        )
    if frames.dtype != np.uint8:
        frames = (np.clip(frames, 0, 1) * 255).round().astype(np.uint8)
    n, time, channel, height, width = frames.shape
    tiled = frames.transpose(1, 3, 0, 4, 2).reshape(time, height, n * width, channel)
    images = [PillowImage.fromarray(frame.squeeze(-1) if channel == 1 else frame) for frame in tiled]
    gif = io.BytesIO()
    images[0].save(gif, "GIF", save_all=True, append_images=images[1:], duration=1000 / video.fps, loop=0)
    image = Summary.Image(
        height=height, width=n * width, colorspace=channel, encoded_image_string=gif.getvalue()
    )
    return Summary(value=[Summary.Value(tag=key, image=image)])


def make_output_format(
    _format: str, log_dir: str | os.PathLike[str] | None, log_suffix: str = "", append: bool = False
) -> KVWriter:
    """The sink of that name.

    :param _format: one of `FORMATS`
    :param log_dir: folder of the files; only `stdout` needs none
    :param log_suffix: inserted before the ending of file names
    :param append: continue csv, json and log files
    :raises UserError: unknown name
    """
    if _format not in FORMATS:
        raise unknown("log format", _format, FORMATS)
    if _format == "stdout":
        return HumanOutputFormat(sys.stdout)
    if log_dir is None:
        raise UserError(f"the log format {_format!r} needs a folder")
    folder = Path(log_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if _format == "log":
        return HumanOutputFormat(folder / f"log{log_suffix}.txt", append=append)
    if _format == "json":
        return JSONOutputFormat(folder / f"progress{log_suffix}.json", append)
    if _format == "csv":
        return CSVOutputFormat(folder / f"progress{log_suffix}.csv", append)
    return TensorBoardOutputFormat(folder)


class Logger:
    """Collects values and hands them to sinks.

    :param folder: where the sinks write, or None
    :param output_formats: the sinks
    """

    def __init__(self, folder: str | None, output_formats: list[KVWriter]) -> None:
        self.dir = folder
        self.output_formats = output_formats
        self.level = INFO
        self.name_to_value: dict[str, Any] = {}
        self.name_to_count: dict[str, int] = {}
        self.name_to_excluded: dict[str, tuple[str, ...]] = {}

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Set the value of `key` until the next dump; a second call replaces it.

        :param value: number, string, tensor, array, list, or Figure, Image, Video, HParam
        :param exclude: sinks that do not get it, of `FORMATS`
        """
        self.name_to_value[key] = value
        self.name_to_excluded[key] = _as_tuple(exclude)

    def record_mean(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Like `record`, but the mean of all calls since the last dump is written; None is skipped."""
        if value is None:
            return
        count = self.name_to_count.get(key, 0) + 1
        mean = self.name_to_value.get(key, 0.0) if count > 1 else 0.0
        self.name_to_count[key] = count
        self.record(key, mean + (value - mean) / count, exclude)

    def dump(self, step: int = 0) -> None:
        """Write everything recorded to every sink and start anew.

        :param step: environment steps so far
        """
        if self.level >= DISABLED:
            return
        values = {key: _plain(value) for key, value in self.name_to_value.items()}
        excluded = dict(self.name_to_excluded)
        self.name_to_value.clear()
        self.name_to_count.clear()
        self.name_to_excluded.clear()
        if values:
            for output in self.output_formats:
                output.write(values, excluded, step)

    def csv_rows(self) -> list[int]:
        """The number of rows in each CSV file, for a checkpoint."""
        return [output.n_rows for output in self.output_formats if isinstance(output, CSVOutputFormat)]

    def truncate_csv(self, csv_rows: Sequence[int]) -> None:
        """Keep as many rows of each CSV file as `csv_rows` returned: what came later is written again."""
        files = [output for output in self.output_formats if isinstance(output, CSVOutputFormat)]
        for output, n_rows in zip(files, csv_rows, strict=False):
            output.truncate(n_rows)

    def log(self, *args: Any, level: int = INFO) -> None:
        """Write a message to the sinks that take messages, unless its level is below the logger's."""
        if self.level <= level:
            for output in self.output_formats:
                if isinstance(output, SeqWriter):
                    output.write_sequence([str(arg) for arg in args])

    def debug(self, *args: Any) -> None:
        self.log(*args, level=DEBUG)

    def info(self, *args: Any) -> None:
        self.log(*args, level=INFO)

    def warn(self, *args: Any) -> None:
        self.log(*args, level=WARN)

    def error(self, *args: Any) -> None:
        self.log(*args, level=ERROR)

    def set_level(self, level: int) -> None:
        """Messages below `level` are dropped; at `DISABLED`, dumps are too."""
        self.level = level

    def get_dir(self) -> str | None:
        """The folder of the sinks, or None when nothing goes to files."""
        return self.dir

    def close(self) -> None:
        """Close the sinks."""
        for output in self.output_formats:
            output.close()


def configure(
    folder: str | os.PathLike[str] | None = None,
    format_strings: Sequence[str] | None = None,
    append: bool = False,
) -> Logger:
    """A logger that writes to `folder`.

    :param folder: default: the environment variable RLZOO_LOGDIR or SB3_LOGDIR, else a new temporary folder
    :param format_strings: of `FORMATS`; default: RLZOO_LOG_FORMAT or SB3_LOG_FORMAT (comma-separated), else
        stdout, log and csv
    :param append: continue the csv, json and log files that the folder holds, instead of overwriting them
    """
    if folder is None:
        now = datetime.datetime.now().strftime("%Y-%m-%d-%H-%M-%S-")
        folder = _variable(FOLDER_VARIABLES) or tempfile.mkdtemp(prefix=f"rlzoo-{now}")
    if format_strings is None:
        format_strings = (_variable(FORMATS_VARIABLES) or DEFAULT_FORMATS).split(",")
    names = [name.strip() for name in format_strings if name.strip()]
    Path(folder).mkdir(parents=True, exist_ok=True)
    logger = Logger(str(folder), [make_output_format(name, folder, append=append) for name in names])
    if names and names != ["stdout"]:
        logger.log(f"Logging to {folder}")
    return logger


def configure_logger(
    verbose: int = 0,
    tensorboard_log: str | os.PathLike[str] | None = None,
    tb_log_name: str = "",
    reset_num_timesteps: bool = True,
) -> Logger:
    """The logger that `learn` uses when it is given none.

    :param verbose: from 1 on, tables on the console
    :param tensorboard_log: parent of the folder `<tb_log_name>_<n>`, or None for no TensorBoard
    :param reset_num_timesteps: take the next free n, else continue the newest
    """
    outputs = ["stdout"] if verbose >= 1 else []
    if tensorboard_log is None:
        return Logger(_variable(FOLDER_VARIABLES), [make_output_format(name, None) for name in outputs])
    return configure(
        _tensorboard_folder(Path(tensorboard_log), tb_log_name, reset_num_timesteps),
        [*outputs, "tensorboard"],
    )


def _variable(names: Sequence[str]) -> str | None:
    """The value of the first of these environment variables that has one."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def get_latest_run_id(log_path: str | os.PathLike[str] = "", log_name: str = "") -> int:
    """The largest n among the folders `<log_name>_<n>` in `log_path`; 0 without any."""
    first = Path(log_path) / f"{log_name}_1"
    if not first.parent.is_dir():
        return 0
    pattern = re.compile(re.escape(Path(log_name).name) + r"_(\d+)")
    matches = (pattern.fullmatch(path.name) for path in first.parent.iterdir() if path.is_dir())
    return max((int(match[1]) for match in matches if match), default=0)


def _tensorboard_folder(parent: Path, name: str, new: bool) -> Path:
    (parent / f"{name}_1").parent.mkdir(parents=True, exist_ok=True)
    newest = get_latest_run_id(parent, name)
    if not new and newest:
        return parent / f"{name}_{newest}"
    while True:
        newest += 1
        try:
            (parent / f"{name}_{newest}").mkdir()  # fails where another run was faster
        except FileExistsError:
            continue
        return parent / f"{name}_{newest}"


def read_csv(filename: str | os.PathLike[str]) -> pd.DataFrame:
    """What a `CSVOutputFormat` wrote, one row per dump.

    :raises UserError: the file is not there or damaged
    """
    import pandas as pd

    try:
        return pd.read_csv(filename)
    except (OSError, OverflowError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise _unreadable(filename, error) from None


def read_json(filename: str | os.PathLike[str]) -> pd.DataFrame:
    """What a `JSONOutputFormat` wrote, one row per dump.

    :raises UserError: the file is not there or damaged
    """
    import pandas as pd

    try:
        with open(filename, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is no object")
        return pd.DataFrame(rows)
    except (OSError, OverflowError, RecursionError, ValueError) as error:
        raise _unreadable(filename, error) from None


def _unreadable(filename: str | os.PathLike[str], error: Exception) -> UserError:
    if isinstance(error, OSError):
        return UserError(f"cannot read {os.fspath(filename)}: {error.strerror}")
    return UserError(f"{os.fspath(filename)} is damaged: {' '.join(str(error).split())[:200]}")
