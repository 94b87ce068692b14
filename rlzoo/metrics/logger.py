"""The logger: record values by name, and write them to every output format at `dump`.

logger = configure("logs/run", ["stdout", "csv", "tensorboard"])
logger.record("train/loss", loss)  # a tensor is only converted (and synchronised) by `dump`
logger.dump(step=10_000)
"""

from __future__ import annotations

import datetime
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from rlzoo.metrics.output_formats import (
    CSVOutputFormat,
    KVWriter,
    SeqWriter,
    excluded_formats,
    make_output_format,
    to_plain,
)

if TYPE_CHECKING:
    import torch

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
