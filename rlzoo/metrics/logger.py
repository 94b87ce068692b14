"""The logger: record values by name, and write them to every output format at `dump`.

logger = configure("logs/run", ["stdout", "csv", "tensorboard"])
logger.record("train/loss", loss)  # a tensor is only converted (and synchronised) by `dump`
logger.dump(step=10_000)

Output formats: console table, text file, CSV, JSON lines and TensorBoard. No torch at import: tensors are
recognised by their methods.
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
from typing import TYPE_CHECKING, TextIO, TypeAlias, cast

import numpy as np

from rlzoo.core.errors import UserError, unknown
from rlzoo.io.atomic import atomic_write

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure as MatplotlibFigure
    from tensorboard.compat.proto.summary_pb2 import Summary


DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50
DEFAULT_FORMATS = "stdout,log,csv"
FOLDER_VARIABLES = ("RLZOO_LOGDIR", "SB3_LOGDIR")
FORMATS_VARIABLES = ("RLZOO_LOG_FORMAT", "SB3_LOG_FORMAT")


class Logger:
    """Collect values and write them to output formats.

    :param folder: the folder of the output formats, or None
    :param output_formats: see `make_output_format`
    """

    def __init__(self, folder: str | None, output_formats: list[KVWriter]) -> None:
        self.dir = folder
        self.output_formats = output_formats
        self.level = INFO
        self.name_to_value: dict[str, object] = {}
        self.name_to_count: dict[str, int] = {}
        self.name_to_excluded: dict[str, tuple[str, ...]] = {}

    def record(self, key: str, value: object, exclude: str | tuple[str, ...] | None = None) -> None:
        """Record a value for the next dump; a second call replaces it.

        :param key: name, with a section before the first `/` ("train/loss")
        :param value: a number, string, tensor, array, list, Figure, Image, Video or HParam
        :param exclude: output formats that do not write it ("stdout", "tensorboard", ...)
        """
        self.name_to_value[key] = value
        self.name_to_excluded[key] = excluded_formats(exclude)

    def record_mean(
        self,
        key: str,
        value: float | np.ndarray | torch.Tensor | None,
        exclude: str | tuple[str, ...] | None = None,
    ) -> None:
        """Record the mean of the values of all calls since the last dump; None is skipped."""
        if value is None:
            return
        count = self.name_to_count.get(key, 0) + 1
        mean = cast(float, self.name_to_value.get(key, 0.0) if count > 1 else 0.0)  # or a tensor
        self.name_to_count[key] = count
        self.record(key, mean + (value - mean) / count, exclude)

    def dump(self, step: int = 0) -> None:
        """Write all recorded values to all output formats, and clear them.

        :param step: number of environment steps so far
        """
        if self.level >= DISABLED:
            return
        values = {key: to_plain(value) for key, value in self.name_to_value.items()}
        excluded = dict(self.name_to_excluded)
        self.name_to_value.clear()
        self.name_to_count.clear()
        self.name_to_excluded.clear()
        if values:
            for output in self.output_formats:
                output.write(values, excluded, step)

    def csv_rows(self) -> list[int]:
        """Return the number of rows in each CSV file, for a checkpoint."""
        return [output.n_rows for output in self.output_formats if isinstance(output, CSVOutputFormat)]

    def truncate_csv(self, csv_rows: Sequence[int]) -> None:
        """Keep the number of rows in each CSV file that `csv_rows` returned, when training resumes."""
        files = [output for output in self.output_formats if isinstance(output, CSVOutputFormat)]
        for output, n_rows in zip(files, csv_rows, strict=False):
            output.truncate(n_rows)

    def log(self, *args: object, level: int = INFO) -> None:
        """Write a message to the output formats that support it, unless its level is below the logger's."""
        if self.level <= level:
            for output in self.output_formats:
                if isinstance(output, SeqWriter):
                    output.write_sequence([str(arg) for arg in args])

    def debug(self, *args: object) -> None:
        """Write a message of level DEBUG."""
        self.log(*args, level=DEBUG)

    def info(self, *args: object) -> None:
        """Write a message of level INFO."""
        self.log(*args, level=INFO)

    def warn(self, *args: object) -> None:
        """Write a message of level WARN."""
        self.log(*args, level=WARN)

    def error(self, *args: object) -> None:
        """Write a message of level ERROR."""
        self.log(*args, level=ERROR)

    def set_level(self, level: int) -> None:
        """Drop messages below `level`; at DISABLED, drop recorded values, too."""
        self.level = level

    def get_dir(self) -> str | None:
        """Return the folder of the output formats, or None."""
        return self.dir

    def close(self) -> None:
        """Close the output formats."""
        for output in self.output_formats:
            output.close()


def configure(
    folder: str | os.PathLike[str] | None = None,
    format_strings: Sequence[str] | None = None,
    append: bool = False,
) -> Logger:
    """Return a logger that writes to `folder`.

    >>> model = PPO("MlpPolicy", "CartPole-v1")
    >>> model.set_logger(configure("logs/run", ["stdout", "csv", "tensorboard"]))
    Logging to logs/run

    :param folder: None: the environment variable RLZOO_LOGDIR or SB3_LOGDIR, else a new temporary folder
    :param format_strings: of "stdout", "log", "json", "csv" and "tensorboard"; None: the environment variable
        RLZOO_LOG_FORMAT or SB3_LOG_FORMAT (comma-separated), else stdout, log and csv
    :param append: append to csv, json and log files in the folder instead of overwriting them
    :raises UserError: an unknown format
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
    """Return the default logger of `learn`.

    :param verbose: 1: print tables on the console
    :param tensorboard_log: parent of the folder `<tb_log_name>_<n>`; None: no TensorBoard
    :param tb_log_name: name of the run
    :param reset_num_timesteps: use the next free n; otherwise the largest one
    """
    outputs = ["stdout"] if verbose >= 1 else []
    if tensorboard_log is None:
        return Logger(_variable(FOLDER_VARIABLES), [make_output_format(name, None) for name in outputs])
    return configure(
        _tensorboard_folder(Path(tensorboard_log), tb_log_name, reset_num_timesteps),
        [*outputs, "tensorboard"],
    )


def _variable(names: Sequence[str]) -> str | None:
    """Return the value of the first of these environment variables that is set."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def get_latest_run_id(log_path: str | os.PathLike[str] = "", log_name: str = "") -> int:
    """Return the largest n of the folders `<log_name>_<n>` in `log_path`; 0 if there are none."""
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
            (parent / f"{name}_{newest}").mkdir()  # fails if another run took the number
        except FileExistsError:
            continue
        return parent / f"{name}_{newest}"


# ---------------------------------------------------------------------- output formats

FORMATS = ("stdout", "log", "json", "csv", "tensorboard")

Excluded: TypeAlias = Mapping[str, tuple[str, ...] | str | None]  # name -> formats that do not get the value


@dataclass
class Figure:
    """A matplotlib figure to log; `close`: close it after writing."""

    figure: MatplotlibFigure
    close: bool


@dataclass
class Image:
    """An image to log, with the axes `dataformats` ("CHW", "HWC", "HW", ...)."""

    image: np.ndarray | torch.Tensor
    dataformats: str


@dataclass
class Video:
    """Videos to log, [n, time, channel, height, width], uint8 or float in [0, 1]."""

    frames: np.ndarray | torch.Tensor
    fps: float


@dataclass
class HParam:
    """Hyperparameters of a run, and the names of the scalars to compare runs by (the values do not count)."""

    hparam_dict: Mapping[str, bool | str | float | int | None]
    metric_dict: Mapping[str, float | int]


class FormatUnsupportedError(UserError, NotImplementedError):
    """A value that an output format cannot write.

    :param unsupported_formats: names of the format
    :param value_description: kind of the value
    """

    def __init__(self, unsupported_formats: Sequence[str], value_description: str) -> None:
        names = ", ".join(unsupported_formats)
        super().__init__(
            f"{names} cannot write {value_description}s: record it with exclude={tuple(unsupported_formats)}"
        )


class KVWriter(ABC):
    """Base class of output formats; append an instance to `logger.output_formats`.

    >>> class Printer(KVWriter):
    ...     def write(self, key_values, key_excluded, step=0):
    ...         print(step, filter_excluded_keys(key_values, key_excluded, "printer"))
    """

    @abstractmethod
    def write(self, key_values: dict[str, object], key_excluded: Excluded, step: int = 0) -> None:
        """Write the values recorded since the last dump; `Logger.dump` calls it.

        :param key_values: numbers, strings, arrays, lists, or Figure, Image, Video, HParam, by name
        :param key_excluded: see `filter_excluded_keys`
        :param step: number of environment steps so far
        """

    def close(self) -> None:
        """Close files; a second call does nothing."""


class SeqWriter(ABC):
    """Base class of output formats that also write messages."""

    @abstractmethod
    def write_sequence(self, sequence: list[str]) -> None:
        """Write one message, given as words."""


def filter_excluded_keys(
    key_values: Mapping[str, object], key_excluded: Excluded, *formats: str
) -> dict[str, object]:
    """Return the values that are not excluded from any of `formats`, the names of an output format."""
    return {
        key: value
        for key, value in key_values.items()
        if not set(excluded_formats(key_excluded.get(key))) & set(formats)
    }


def excluded_formats(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the formats that an argument `exclude` names: one, several or none."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def _refuse_media(values: Iterable[object], *formats: str) -> None:
    for value in values:
        if isinstance(value, Figure | Image | Video | HParam):
            raise FormatUnsupportedError(formats, type(value).__name__.lower())


def to_plain(value: object) -> object:
    """Convert tensors to numbers or arrays, and NumPy scalars to numbers; return other values unchanged."""
    if hasattr(value, "detach"):
        tensor: torch.Tensor = value.detach().cpu()
        value = (tensor.double() if tensor.is_floating_point() else tensor).numpy()  # NumPy has no bfloat16
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        return value.item()
    return value


def _open(filename: str | os.PathLike[str], append: bool) -> TextIO:
    """Open a text file to overwrite, or to append after its last complete line (a process may be killed)."""
    if append and os.path.exists(filename):
        with open(filename, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    return open(filename, "a" if append else "w", newline="", encoding="utf-8")


class HumanOutputFormat(KVWriter, SeqWriter):
    """Tables of metrics for the console or a log file.

    :param filename_or_file: a path, or an open text file, which is not closed
    :param max_length: names and values are cut to this number of characters
    :param append: append to the file instead of overwriting it
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
        """The file written to. Standard output is looked up at each write: a progress bar may replace it."""
        return self._owned or self._given or sys.stdout

    def write(self, key_values: dict[str, object], key_excluded: Excluded, step: int = 0) -> None:
        values = filter_excluded_keys(key_values, key_excluded, "stdout", "log")
        _refuse_media(values.values(), "stdout", "log")
        if values:
            self.file.write(self.table(values))
            self.file.flush()

    def table(self, values: Mapping[str, object]) -> str:
        """Return a table of rows sorted by name, grouped by the part of the name before the first `/`."""
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
    """Write one line with a JSON object per dump; NaN and infinity become null.

    :param filename: the file
    :param append: append to the file instead of overwriting it
    """

    def __init__(self, filename: str | os.PathLike[str], append: bool = False) -> None:
        self.file = _open(filename, append)

    def write(self, key_values: dict[str, object], key_excluded: Excluded, step: int = 0) -> None:
        values = filter_excluded_keys(key_values, key_excluded, "json")
        _refuse_media(values.values(), "json")
        if values:
            self.file.write(
                json.dumps({key: _json_value(value) for key, value in values.items()}, default=str) + "\n"
            )
            self.file.flush()

    def close(self) -> None:
        self.file.close()


def _json_value(value: object) -> object:
    value = to_plain(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class CSVOutputFormat(KVWriter):
    """Write one row per dump. A new name adds a column, which is empty in the rows before.

    :param filename: the file
    :param append: append to the file instead of overwriting it
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

    def write(self, key_values: dict[str, object], key_excluded: Excluded, step: int = 0) -> None:
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
        """Keep the first `n_rows` rows: a resumed training writes the later ones again."""
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
    """Write TensorBoard events: scalars, text, arrays as histograms, and Figure, Image, Video, HParam.

    :param folder: folder of the event file
    :raises UserError: TensorBoard is not installed
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError("TensorBoard is not installed: pip install tensorboard") from error
        self.writer = SummaryWriter(log_dir=str(folder))

    def write(self, key_values: dict[str, object], key_excluded: Excluded, step: int = 0) -> None:
        for key, value in filter_excluded_keys(key_values, key_excluded, "tensorboard").items():
            self._add(key, value, step)
        self.writer.flush()

    def _add(self, key: str, value: object, step: int) -> None:
        if hasattr(value, "detach"):
            value = to_plain(value)
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
                self._write_summary(_video_summary(key, value), step)
            case HParam():
                from torch.utils.tensorboard import summary

                for part in summary.hparams(dict(value.hparam_dict), dict(value.metric_dict)):
                    self._write_summary(part)

    def _write_summary(self, summary: Summary, step: int | None = None) -> None:
        assert self.writer.file_writer is not None
        self.writer.file_writer.add_summary(summary, step)

    def close(self) -> None:
        self.writer.close()


def _video_summary(key: str, video: Video) -> Summary:
    """Return a summary with the videos side by side as a GIF; that of PyTorch needs moviepy."""
    from PIL import Image as PillowImage
    from tensorboard.compat.proto.summary_pb2 import Summary

    frames = np.asarray(to_plain(video.frames))
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
    """Return the output format of a name.

    :param _format: one of `FORMATS`
    :param log_dir: folder of the files; not needed for "stdout"
    :param log_suffix: inserted before the suffix of file names
    :param append: append to csv, json and log files instead of overwriting them
    :raises UserError: an unknown name, or no folder
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
