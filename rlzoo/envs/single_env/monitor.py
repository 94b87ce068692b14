"""Episode statistics of one environment (`Monitor`) or of a vector of them (`EpisodeStatistics`), and their
CSV files.

A monitor file starts with a `#` and a line of JSON (`t_start`: Unix time at the start of the file; `env_id`),
then has the column names and one row per finished episode: `r` is its return, `l` its length in steps, `t`
seconds since `t_start`, followed by the keywords that the caller selected.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import math
import os
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, TextIO, TypedDict

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info
from rlzoo.io.csv_cells import is_number

if TYPE_CHECKING:
    import pandas as pd

    from rlzoo.envs.vec_env.vec_env import VecStep


EXTENSION = "monitor.csv"
NUMBERS = ("r", "l", "t")  # columns of every file


class LoadMonitorResultsError(UserError):
    """A folder has no monitor files, or a file is not a monitor file."""


class ResultsWriter:
    """Write one monitor file, a row per episode; each row is flushed to disk.

    :param filename: a folder, for `monitor.csv`, or a file name, to which `.monitor.csv` is appended if it is
        missing
    :param header: values of the first line; `t_start` defaults to the current time
    :param extra_keys: columns after `r`, `l` and `t`
    :param override_existing: replace an existing file; otherwise append to its last complete row, with `t`
        relative to its own `t_start`
    :raises UserError: an existing file to append to has other columns
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        header: Mapping[str, object] | None = None,
        extra_keys: Sequence[str] = (),
        override_existing: bool = True,
    ) -> None:
        self.path = monitor_path(filename)
        self.columns = ("r", "l", "t", *extra_keys)
        self._t_shift = 0.0
        self.n_rows = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        first_line: dict[str, Any] = {"t_start": time.time(), **(header or {})}
        if not override_existing and self._continues(first_line["t_start"]):
            self._file: TextIO = self.path.open("a", newline="")
            self._rows = csv.DictWriter(self._file, self.columns, lineterminator="\n")
            return
        self._file = self.path.open("w", newline="")
        self._file.write(f"#{json.dumps(first_line)}\n")
        self._rows = csv.DictWriter(self._file, self.columns, lineterminator="\n")
        self._rows.writeheader()
        self._file.flush()

    def __deepcopy__(self, memo: dict[int, object]) -> ResultsWriter:
        """Return a writer to no file: two writers would mix their rows."""
        copied = copy.copy(self)
        copied.detach()
        return copied

    def detach(self) -> None:
        """Write to no file from now on."""
        self.path = Path(os.devnull)
        self._file = self.path.open("w", newline="")
        self._rows = csv.DictWriter(self._file, self.columns, lineterminator="\n")

    def _continues(self, t_start: float) -> bool:
        """Return whether the file can be appended to; cut off an incomplete last row."""
        if not self.path.exists():
            return False
        with self.path.open("rb+") as file:
            text = file.read()
            whole = text.rfind(b"\n") + 1
            file.truncate(whole)
        lines = _whole_lines(self.path, text)
        if len(lines) < 2:
            return False
        self._t_shift = t_start - _first_line(self.path, lines[0])["t_start"]
        if tuple(lines[1].split(",")) != self.columns:
            raise UserError(
                f"{self.path} has the columns {lines[1]}, not {','.join(self.columns)}: cannot continue it"
            )
        self.n_rows = len(lines) - 2
        return True

    def write_row(self, episode: Info) -> None:
        """Append an episode: `r`, `l`, `t` (seconds since `t_start` of this writer) and each extra key."""
        self._rows.writerow(
            {**episode, "t": round(episode["t"] + self._t_shift, 6)} if self._t_shift else episode
        )
        self._file.flush()
        self.n_rows += 1

    def truncate(self, n_rows: int) -> None:
        """Keep the first `n_rows` rows: a resumed training repeats the later episodes."""
        if not 0 <= n_rows < self.n_rows:
            return
        with self.path.open("rb+") as file:
            for _ in range(2 + n_rows):
                file.readline()
            file.truncate(file.tell())
        self.n_rows = n_rows

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


class Monitor(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Record return, length and time of each episode, in `info["episode"]` and in a CSV file.

    >>> env = Monitor(gym.make("Pendulum-v1"), "logs/0", info_keywords=("TimeLimit.truncated",))
    >>> for _ in range(3):
    ...     obs, info = env.reset()
    ...     done = False
    ...     while not done:
    ...         obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ...         done = terminated or truncated
    >>> len(load_results("logs")["r"])  # returns of all episodes
    3

    Put the Monitor inside of all wrappers that change rewards or episode ends, so that the statistics are
    those of the task.

    :param env: the environment
    :param filename: see `ResultsWriter`; None writes no file
    :param allow_early_resets: whether `reset` may be called before the end of an episode
    :param reset_keywords: keyword arguments of `reset` to record
    :param info_keywords: keys of an episode's last info to record
    :param override_existing: replace an existing file instead of appending to it
    :raises UserError: the file has other columns; or, in `reset` and `step`, a keyword is missing
    :raises RuntimeError: `step` is called before `reset`, or `reset` early where that is not allowed
    """

    EXT = EXTENSION

    def __init__(
        self,
        env: gym.Env[ObsType, ActType],
        filename: str | os.PathLike[str] | None = None,
        allow_early_resets: bool = True,
        reset_keywords: Sequence[str] = (),
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.allow_early_resets = allow_early_resets
        self.reset_keywords = tuple(reset_keywords)
        self.info_keywords = tuple(info_keywords)
        self.results_writer: ResultsWriter | None = None
        if filename is not None:
            header = {
                "t_start": self.t_start,
                "env_id": env.spec.id if env.spec is not None else None,
            }
            extra_keys = self.reset_keywords + self.info_keywords
            self.results_writer = ResultsWriter(filename, header, extra_keys, override_existing)
        self.needs_reset = True
        self._return = 0.0
        self._length = 0
        self._reset_values: Info = {}
        self._total_steps = 0
        self._episode_returns: list[float] = []
        self._episode_lengths: list[int] = []
        self._episode_times: list[float] = []

    @property
    def return_so_far(self) -> float:
        """Sum of the rewards of the current episode."""
        return self._return

    def continue_from(
        self,
        t_start: float,
        return_so_far: float,
        length: int,
        total_steps: int,
        episodes: np.ndarray,
        results_writer: ResultsWriter | None,
        needs_reset: bool,
    ) -> None:
        """Continue statistics that were recorded without this Monitor.

        :param episodes: return, length and seconds of each finished episode [n_episodes, 3]
        :param results_writer: the open monitor file, if any
        """
        self.t_start, self.results_writer, self.needs_reset = t_start, results_writer, needs_reset
        self._return, self._length, self._total_steps = return_so_far, length, total_steps
        self._episode_returns = [float(row[0]) for row in episodes]
        self._episode_lengths = [int(row[1]) for row in episodes]
        self._episode_times = [float(row[2]) for row in episodes]

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Start an episode.

        :raises RuntimeError: the current episode has not ended and early resets are not allowed
        :raises UserError: one of `reset_keywords` is missing
        """
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError(
                "the environment was reset before the end of the episode; allow_early_resets=True permits it"
            )
        missing = [key for key in self.reset_keywords if key not in kwargs]
        if missing:
            raise UserError(
                f"Monitor: reset() was called without its keyword {missing[0]!r}, one of reset_keywords"
            )
        self._reset_values = {key: kwargs[key] for key in self.reset_keywords}
        self._return, self._length, self.needs_reset = 0.0, 0, False
        return self.env.reset(**kwargs)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step; at the end of an episode, set `info["episode"]` to `r`, `l`, `t` and the keywords."""
        if self.needs_reset:
            raise RuntimeError("step() was called after the end of the episode; call reset() first")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._length += 1
        self._total_steps += 1
        if terminated or truncated:
            self.needs_reset = True
            limit = truncated and not terminated  # a VecEnv adds it to `info` only later
            info["episode"] = self._end_episode({"TimeLimit.truncated": limit, **info})
        return observation, reward, terminated, truncated, info

    def _end_episode(self, info: Info) -> Info:
        elapsed = time.time() - self.t_start
        episode: Info = {
            "r": round(self._return, 6),
            "l": self._length,
            "t": round(elapsed, 6),
        }
        missing = [key for key in self.info_keywords if key not in info]
        if missing:
            raise UserError(
                f"Monitor: the last info of the episode lacks {missing[0]!r}, one of info_keywords"
            )
        episode.update({key: info[key] for key in self.info_keywords}, **self._reset_values)
        self._episode_returns.append(self._return)
        self._episode_lengths.append(self._length)
        self._episode_times.append(elapsed)
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        return episode

    def close(self) -> None:
        """Close the environment and the file."""
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    def get_total_steps(self) -> int:
        """Return the number of steps taken in all episodes, including the current one."""
        return self._total_steps

    def get_episode_rewards(self) -> list[float]:
        """Return the returns of the finished episodes."""
        return self._episode_returns

    def get_episode_lengths(self) -> list[int]:
        """Return the lengths of the finished episodes, in steps."""
        return self._episode_lengths

    def get_episode_times(self) -> list[float]:
        """Return the seconds from the creation of the Monitor to the end of each finished episode."""
        return self._episode_times

    @property
    def total_steps(self) -> int:
        """Number of steps taken in all episodes, including the current one."""
        return self._total_steps

    @property
    def episode_returns(self) -> list[float]:
        """Returns of the finished episodes."""
        return self._episode_returns

    @property
    def episode_lengths(self) -> list[int]:
        """Lengths of the finished episodes, in steps."""
        return self._episode_lengths

    @property
    def episode_times(self) -> list[float]:
        """Seconds from the creation of the Monitor to the end of each finished episode."""
        return self._episode_times

    @property
    def current_reset_info(self) -> Info:
        """Values of `reset_keywords` at the last reset."""
        return self._reset_values

    @property
    def rewards(self) -> list[float]:
        """Raise AttributeError: rewards of single steps are not stored."""
        raise AttributeError("Monitor stores only the sum of an episode's rewards: return_so_far")


MONITOR_NAMES = frozenset(vars(Monitor)) - {"rewards"} | {
    "allow_early_resets",
    "env",
    "info_keywords",
    "needs_reset",
    "reset_keywords",
    "results_writer",
    "t_start",
}
"""Attributes of a Monitor itself, and not of the environment inside."""


def monitor_path(filename: str | os.PathLike[str]) -> Path:
    """Return the path of the monitor file for a `filename` of Monitor."""
    path = Path(filename)
    if path.name.endswith(EXTENSION):
        return path
    return path / EXTENSION if path.is_dir() else path.with_name(f"{path.name}.{EXTENSION}")


def get_monitor_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the monitor files of a folder, sorted by name."""
    return sorted(str(file) for file in Path(path).glob(f"*{EXTENSION}"))


def load_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return all episodes of the monitor files of a folder, in the order of their ends.

    >>> smoothed = load_results("logs").rolling(100)["r"].mean()

    :return: columns `r`, `l`, `t` and the recorded keywords; `t` in seconds since the earliest `t_start`
    :raises LoadMonitorResultsError: no monitor file, or a damaged one
    """
    import pandas as pd

    files = get_monitor_files(path)
    if not files:
        raise LoadMonitorResultsError(f"no monitor file (*{EXTENSION}) found in {path}")
    starts, frames = [], []
    for name in files:
        lines = _whole_lines(name, Path(name).read_bytes())
        if len(lines) < 2:
            continue
        starts.append(float(_first_line(name, lines[0])["t_start"]))
        frames.append(_table(name, lines[1:]))
    if not frames:
        raise LoadMonitorResultsError(f"the monitor files in {path} are empty")
    for start, frame in zip(starts, frames, strict=True):
        frame["t"] += start - min(starts)
    return pd.concat(frames).sort_values("t", kind="stable").reset_index(drop=True)


def _whole_lines(file: str | os.PathLike[str], content: bytes) -> list[str]:
    """Return the complete lines of a monitor file: a killed process may leave an incomplete last one."""
    try:
        return content[: content.rfind(b"\n") + 1].decode().splitlines()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = "is not a monitor file: it" if line == 1 else f"is damaged: line {line}"
        raise LoadMonitorResultsError(f"{file} {what} is not text") from None


def _table(file: str | os.PathLike[str], lines: Sequence[str]) -> pd.DataFrame:
    """Return the episodes: the lines after the first."""
    import pandas as pd

    try:
        table = pd.read_csv(io.StringIO("\n".join(lines)))
    except (ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
        what = _damaged_line(lines) or " ".join(str(error).split())
        raise LoadMonitorResultsError(f"{file} is damaged: {what}") from error
    for column in NUMBERS:
        if column not in table or (len(table) and table[column].dtype.kind not in "iuf"):
            what = _damaged_line(lines) or f"it has no numbers in a column {column!r}"
            raise LoadMonitorResultsError(f"{file} is damaged: {what}")
    return table


def _damaged_line(lines: Sequence[str]) -> str | None:
    """Return what is wrong with the first damaged line; None if each line alone can be read.

    :param lines: those of a monitor file after its first
    """
    columns: list[str] = []
    try:
        for number, line in enumerate(lines, 2):
            row = next(csv.reader([line]), [])
            if number == 2:
                columns = row
                missing = [column for column in NUMBERS if column not in columns]
                if missing:
                    return f"line 2 names no column {missing[0]!r}"
            elif len(row) > len(columns):
                return f"line {number} has {len(row)} values for {len(columns)} columns"
            for column, value in zip(columns, row if number > 2 else (), strict=False):
                if column in NUMBERS and value and not is_number(value):
                    return f"line {number} has {value[:40]!r} in the column {column!r}, not a number"
    except csv.Error as error:
        return f"line {number}: {error}"
    return None


def _first_line(file: str | os.PathLike[str], line: str) -> Info:
    """Return the values of the first line."""
    try:
        values: Any = json.loads(line.removeprefix("#")) if line.startswith("#") else None
        good = isinstance(values, dict) and math.isfinite(values["t_start"])
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        values, good = {}, False
    if not good:
        raise LoadMonitorResultsError(
            f'{file} is not a monitor file: its first line is not #{{"t_start": ...}}'
        )
    return dict(values)


class StatisticsState(TypedDict):
    """Statistics of the episodes in progress, as stored in a checkpoint."""

    returns: np.ndarray  # [n_envs] float64
    lengths: np.ndarray  # [n_envs] int64
    rows: list[int]  # episodes in each monitor file


class EpisodeStatistics:
    """Record what a `Monitor` around each environment would, in a fraction of the time.

    :param num_envs: number of environments
    :param filename: a folder for one `<i>.monitor.csv` per environment; any other name is one file for all;
        None writes no file
    :param info_keywords: keys of an episode's last info to record
    :param override_existing: replace existing files instead of appending to them
    :param start_index: number of the first file in a folder
    :param env_id: id of the environment, written to the files
    """

    def __init__(
        self,
        num_envs: int,
        filename: str | os.PathLike[str] | None = None,
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
        start_index: int = 0,
        env_id: str | None = None,
    ) -> None:
        self.info_keywords = tuple(info_keywords)
        self.t_start = time.time()
        self.returns = np.zeros(num_envs, dtype=np.float64)
        self._began = np.zeros(num_envs, dtype=np.int64)  # value of `_steps` at the start of each episode
        self._steps = 0
        self._episodes = array("d")  # environment, return, length, seconds of each finished episode
        self._was_reset = False
        self.writers: list[ResultsWriter] = []
        if filename is None:
            return
        header = {"t_start": self.t_start, "env_id": env_id}
        path = Path(filename)
        files = [path / str(start_index + index) for index in range(num_envs)] if path.is_dir() else [path]
        self.writers = [ResultsWriter(file, header, self.info_keywords, override_existing) for file in files]

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of the current episodes so far, in steps [n_envs]."""
        return self._steps - self._began

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes."""
        return len(self._episodes) // 4

    def start_episodes(self) -> None:
        """Start a new episode in every environment; call it at a reset."""
        self.returns[:] = 0.0
        self._began[:] = self._steps
        self._was_reset = True

    def record(self, step: VecStep) -> None:
        """Count a step; where an episode ended, set `step.infos[i]["episode"]` (in a new list).

        :raises UserError: the last info of an episode lacks one of `info_keywords`
        """
        self._steps += 1
        self.returns += step.rewards
        if len(step.ended):
            self._end_episodes(step)

    def _end_episodes(self, step: VecStep) -> None:
        seconds = round(time.time() - self.t_start, 6)
        infos: list[Info] = list(step.infos)
        for index in step.ended.tolist():
            info = infos[index]
            limit = bool(step.truncated[index] and not step.terminated[index])
            known = {"TimeLimit.truncated": limit, **info}
            length = int(self._steps - self._began[index])
            episode: Info = {"r": round(float(self.returns[index]), 6), "l": length, "t": seconds}
            for key in self.info_keywords:
                if key not in known:
                    raise UserError(f"the last info of an episode has no {key!r}; it has {sorted(info)}")
                episode[key] = known[key]
            infos[index] = {**info, "episode": episode}
            self._episodes.extend((index, self.returns[index], length, seconds))
            if self.writers:
                self.writers[index % len(self.writers)].write_row(episode)
        step.infos = infos
        self.returns[step.ended] = 0.0
        self._began[step.ended] = self._steps

    def state(self) -> StatisticsState:
        """Return the statistics of the episodes in progress, for a checkpoint."""
        rows = [writer.n_rows for writer in self.writers]
        return {"returns": self.returns.copy(), "lengths": self.lengths, "rows": rows}

    def load_state(self, state: StatisticsState) -> None:
        """Restore what `state` returned; remove rows that were written to the files since."""
        self.returns[:] = state["returns"]
        self._began[:] = self._steps - state["lengths"]
        for writer, n_rows in zip(self.writers, state["rows"], strict=False):
            writer.truncate(n_rows)

    def wrap_in_monitors(self, envs: Sequence[gym.Env]) -> list[gym.Env]:
        """Return the environments, each in a Monitor that continues these statistics and files."""
        episodes = np.array(self._episodes).reshape(-1, 4)
        monitors: list[gym.Env] = []
        for index, env in enumerate(envs):
            monitor = Monitor(env, info_keywords=self.info_keywords)
            own = episodes[episodes[:, 0] == index]
            writer = self.writers[index % len(self.writers)] if self.writers else None
            monitor.continue_from(
                self.t_start,
                float(self.returns[index]),
                int(self.lengths[index]),
                self._steps,
                own[:, 1:],
                writer,
                needs_reset=not self._was_reset,
            )
            monitors.append(monitor)
        return monitors

    def close(self) -> None:
        """Close the monitor files."""
        for writer in self.writers:
            writer.close()
