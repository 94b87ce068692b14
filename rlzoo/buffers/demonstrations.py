"""Demonstrations: what an expert saw and did, for behaviour cloning and GAIL.

A file of them is a NumPy archive (`.npz`) with one row for each step, episode after episode:

    obs              [n_steps, ...]; in the place of images their paths, relative to the folder of the archive
    actions          [n_steps, ...]; [n_steps, 1] where an action is a choice
    rewards          [n_steps]
    episode_starts   [n_steps]; whether the step is the first of its episode
    episode_returns  [n_episodes]

Each part of a Dict observation has a separate key, `obs/<part>`. Nothing in a file is executed.
"""

from __future__ import annotations

import inspect
import os
import struct
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.buffers.base_buffer import Obs, map_obs
from rlzoo.core.errors import RunFailed, UserError, unknown
from rlzoo.core.preprocessing import is_image_space
from rlzoo.io.npz import read_npz

KEYS = ("actions", "obs", "rewards", "episode_returns", "episode_starts")
PART = "obs/"  # what the key of a part of Dict observations begins with
NUMBERS = "biuf"
"""Kinds of NumPy's types that are numbers; complex ones are none of an environment's."""
IN_A_FILE = (1, 3, 4)
"""Channels that an image file can have; other numbers are written one below the other."""
MAX_PIXELS = 2**25
"""Of an image that is read."""


class ExpertDataset:
    """Demonstrations, split into rows to train on and rows to validate with.

    The split is by steps, and the same whenever a file is read. What else is drawn comes from NumPy's global
    generator, which `set_random_seed` seeds.

    Example:
        >>> from rlzoo import PPO, generate_expert_traj
        >>> recorded = generate_expert_traj(PPO("MlpPolicy", "CartPole-v1"), n_episodes=2)
        >>> dataset = ExpertDataset(traj_data=recorded, batch_size=16, verbose=0)

    :param expert_path: an `.npz` file; give either this or `traj_data`
    :param traj_data: the arrays of such a file, as `generate_expert_traj` returns them; image paths are then
        relative to the working directory
    :param train_fraction: share of the rows to train on, the others are for validation; GAIL, which does not
        validate, uses all
    :param batch_size: rows of a minibatch
    :param traj_limitation: use only the first so many episodes; -1: all
    :param randomize: split at random, and shuffle the rows before each pass; otherwise keep their order
    :param verbose: from 1 on, say what was read
    :param sequential_preprocessing: load the images of a minibatch when it is asked for; otherwise a thread
        loads the next minibatch meanwhile
    :raises UserError: no such file, a damaged one or one of another kind; no episodes, or numbers of steps
        that do not agree
    """

    def __init__(
        self,
        expert_path: str | os.PathLike[str] | None = None,
        traj_data: Mapping[str, Any] | None = None,
        train_fraction: float = 0.7,
        batch_size: int = 64,
        traj_limitation: int = -1,
        randomize: bool = True,
        verbose: int = 1,
        sequential_preprocessing: bool = False,
    ) -> None:
        if (expert_path is None) == (traj_data is None):
            raise UserError("ExpertDataset takes either expert_path or traj_data")
        if not 0 < train_fraction <= 1:
            raise UserError(f"train_fraction must be above 0 and at most 1, not {train_fraction!r}")
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, not {batch_size!r}")
        if traj_limitation == 0 or traj_limitation < -1:
            raise UserError(f"traj_limitation must be at least 1, or -1 for all, not {traj_limitation!r}")
        self.train_fraction, self.batch_size, self.randomize = train_fraction, batch_size, randomize
        self.verbose, self.sequential_preprocessing = verbose, sequential_preprocessing
        self.name = "traj_data" if expert_path is None else str(expert_path)
        self._folder = Path() if expert_path is None else Path(expert_path).parent
        self._take(traj_data if expert_path is None else read_archive(expert_path), traj_limitation)
        n_train = max(1, int(train_fraction * len(self)))
        order = np.random.default_rng(0).permutation(len(self)) if randomize else np.arange(len(self))
        self.train_rows, self.val_rows = order[:n_train], order[n_train:]
        self.train_loader = Batches(self, self.train_rows, batch_size)
        self.val_loader = Batches(self, self.val_rows, batch_size)
        self.dataloader: Batches | None = None
        if verbose > 0:
            self.log_info()

    def _take(self, data: Any, traj_limitation: int) -> None:
        """Check the arrays and keep those of the first `traj_limitation` episodes."""
        columns = check_columns(self.name, data)
        n_steps = len(columns["actions"])
        starts = np.flatnonzero(columns["episode_starts"])
        if 0 < traj_limitation < len(starts):
            n_steps = int(starts[traj_limitation])
        parts = {key.removeprefix(PART): columns[key][:n_steps] for key in columns if key.startswith(PART)}
        self.observations: Obs = parts
        self.of_images = not parts and columns["obs"].dtype.kind in "US"
        if not parts:
            obs = columns["obs"][:n_steps]
            self.observations = obs.astype(str).reshape(-1) if self.of_images else obs
        self.actions = columns["actions"][:n_steps]
        self.rewards = columns["rewards"][:n_steps].reshape(-1)
        self.episode_starts = columns["episode_starts"][:n_steps]
        self.returns = columns["episode_returns"][: traj_limitation if traj_limitation > 0 else None]

    def __len__(self) -> int:
        """Return steps of all episodes."""
        return len(self.actions)

    @property
    def num_transition(self) -> int:
        return len(self)

    @property
    def num_traj(self) -> int:
        return len(self.returns)

    @property
    def avg_ret(self) -> float:
        """Mean return of an episode."""
        return float(np.mean(self.returns))

    @property
    def std_ret(self) -> float:
        """Standard deviation of the return of an episode."""
        return float(np.std(self.returns))

    def read(self, rows: np.ndarray) -> tuple[Obs, np.ndarray]:
        """Return observations and actions of some rows; images are [n_rows, height, width, channels].

        :raises UserError: an image is missing or cannot be read
        """
        obs = map_obs(lambda column: column[rows], self.observations)
        if self.of_images:
            obs = np.stack([read_image(self._image_path(path)) for path in obs])
        return obs, self.actions[rows]

    def _image_path(self, path: str) -> Path:
        for candidate in (self._folder / path, Path(path)):
            if candidate.is_file():
                return candidate
        raise UserError(f"{self.name} names the image {path}, which is not there")

    def get_next_batch(self, split: str | None = None) -> tuple[Obs, np.ndarray]:
        """Return the next minibatch, without end.

        :param split: "train" or "val"; None: of all rows, in batches of the size given to `init_dataloader`
        :return: observations and actions
        """
        if split is None and self.dataloader is None:
            self.init_dataloader(self.batch_size)
        loaders = {"train": self.train_loader, "val": self.val_loader, None: self.dataloader}
        if split not in loaders:
            raise UserError(f"split must be 'train', 'val' or None, not {split!r}")
        loader = loaders[split]
        assert loader is not None
        return next(loader)

    def init_dataloader(self, batch_size: int) -> None:
        """Let `get_next_batch(None)` go through all rows in minibatches of this size."""
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, not {batch_size!r}")
        self.dataloader = Batches(self, np.arange(len(self)), batch_size)

    def prepare_pickling(self) -> None:
        """End the threads that load images; the next minibatch starts them again."""
        for loader in (self.train_loader, self.val_loader, self.dataloader):
            if loader is not None:
                loader.stop()

    def log_info(self) -> None:
        """Print how many episodes and steps there are, and their returns."""
        print(
            f"demonstrations: {self.num_traj:,} episodes, {self.num_transition:,} steps, "
            f"return {self.avg_ret:.2f} +/- {self.std_ret:.2f}"
        )

    def plot(self) -> None:
        """Show a histogram of the returns of the episodes."""
        import matplotlib.pyplot as plt  # not before it is needed: it takes a while to load

        _, axes = plt.subplots()
        axes.hist(self.returns)
        axes.set(title=f"{self.num_traj} demonstrations", xlabel="return", ylabel="episodes")
        plt.show()


class Batches:
    """Minibatches of some rows without end: pass after pass, the last of each may be smaller."""

    def __init__(self, dataset: ExpertDataset, rows: np.ndarray, batch_size: int) -> None:
        self.dataset, self.rows, self.batch_size = dataset, rows, batch_size
        self._prefetches = dataset.of_images and not dataset.sequential_preprocessing
        self._order, self._position = rows, len(rows)
        self._thread: ThreadPoolExecutor | None = None
        self._ahead: Future[tuple[np.ndarray, Obs, np.ndarray]] | None = None

    def __len__(self) -> int:
        """Return minibatches of a pass."""
        return -(-len(self.rows) // self.batch_size)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> tuple[Obs, np.ndarray]:
        _, obs, actions = self.draw()
        return obs, actions

    def draw(self) -> tuple[np.ndarray, Obs, np.ndarray]:
        """Return the numbers of the rows of the next minibatch, their observations and their actions."""
        if not len(self.rows):
            raise UserError("there are no rows to validate with: train_fraction leaves none")
        if not self._prefetches:
            return self._read(self._next_rows())
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        current = self._ahead or self._thread.submit(self._read, self._next_rows())
        self._ahead = self._thread.submit(self._read, self._next_rows())
        return current.result()

    def _read(self, rows: np.ndarray) -> tuple[np.ndarray, Obs, np.ndarray]:
        return rows, *self.dataset.read(rows)

    def _next_rows(self) -> np.ndarray:
        if self._position >= len(self.rows):
            self._position = 0
            self._order = np.random.permutation(self.rows) if self.dataset.randomize else self.rows
        rows = self._order[self._position : self._position + self.batch_size]
        self._position += len(rows)
        return rows

    def stop(self) -> None:
        """End the thread that loads images; what it has loaded is drawn again."""
        if self._thread is not None:
            self._thread.shutdown()
            self._position -= 0 if self._ahead is None else len(self._ahead.result()[0])
            self._thread = self._ahead = None


def check_source(value: object) -> None:
    """Check that `expert_dataset` is None, a dataset, the path of a file, or arguments of `ExpertDataset`.

    :raises UserError: it is something else, or an argument is unknown
    """
    if isinstance(value, Mapping):
        known = list(inspect.signature(ExpertDataset).parameters)
        for name in value:
            if name not in known:
                raise unknown("argument of ExpertDataset", str(name), known)
    elif not isinstance(value, ExpertDataset | str | os.PathLike | None):
        raise UserError(f"expert_dataset must be an ExpertDataset or the path of its file, not {value!r}")


def is_given(value: object) -> bool:
    """Return whether `expert_dataset` names a source of demonstrations; keyword arguments alone do not."""
    if isinstance(value, Mapping):
        return value.get("expert_path") is not None or value.get("traj_data") is not None
    return value is not None


def as_dataset(value: Any) -> ExpertDataset:
    """Return the dataset that `expert_dataset` names; see `check_source`."""
    check_source(value)
    if isinstance(value, ExpertDataset):
        return value
    if isinstance(value, Mapping):
        return ExpertDataset(**{"verbose": 0, **value})
    return ExpertDataset(value, verbose=0)


# -- files --------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of an `.npz` file.

    :raises UserError: there is no such file, it is damaged or of another kind, or holds pickled objects
    """
    data = read_npz(path, "demonstrations")
    check_keys(str(path), data)
    return data


def check_keys(name: str, keys: Collection[str]) -> None:
    """:raises UserError: the first key of demonstrations that is not among `keys`"""
    has_parts = any(str(key).startswith(PART) for key in keys)
    for key in KEYS:
        if key not in keys and not (key == "obs" and has_parts):
            raise UserError(f"{name} holds no demonstrations: it lacks {key!r} of {', '.join(KEYS)}")


def check_columns(name: str, data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of demonstrations, as many rows in each as there are steps.

    :raises UserError: they do not agree, hold objects or numbers that are not finite, or there are none
    """
    check_keys(name, data)
    columns = {
        key: np.asarray(value) for key, value in data.items() if key in KEYS or str(key).startswith(PART)
    }
    returns = columns["episode_returns"] = columns["episode_returns"].reshape(-1)
    n_steps = len(columns["actions"]) if columns["actions"].ndim else 0
    if not n_steps or not len(returns):
        raise UserError(f"{name} holds no episodes")
    for key, column in columns.items():
        if column.dtype.kind not in NUMBERS and not (key == "obs" and column.dtype.kind in "US"):
            held = "Python objects" if column.dtype.kind == "O" else f"values of type {column.dtype}"
            raise UserError(f"{name}: {key!r} holds {held} instead of numbers")
        if key != "episode_returns" and (column.ndim == 0 or len(column) != n_steps):
            rows = len(column) if column.ndim else 1
            raise UserError(f"{name}: {key!r} has {rows} rows, but 'actions' has {n_steps}")
        if column.dtype.kind == "f" and not (np.abs(column) <= np.finfo(np.float32).max).all():
            raise UserError(f"{name}: {key!r} holds NaN, infinity or numbers beyond single precision")
    starts = columns["episode_starts"] = columns["episode_starts"].reshape(-1).astype(bool)
    if not starts[0] or starts.sum() != len(returns):
        raise UserError(
            f"{name}: 'episode_starts' tells {int(starts.sum())} episodes"
            f"{'' if starts[0] else ' and begins within one'}, but there are {len(returns)} returns"
        )
    return columns


def write_image(path: Path, image: np.ndarray) -> None:
    """Write an image [height, width, channels] without loss.

    :raises RunFailed: the disk does not take it
    """
    import cv2  # not before it is needed: it takes a while to load

    if image.shape[-1] not in IN_A_FILE:
        image = np.concatenate(np.moveaxis(image, -1, 0))[..., None]
    if image.shape[-1] == 3:
        image = image[..., ::-1]  # OpenCV has blue first
    try:
        written = cv2.imwrite(str(path), np.ascontiguousarray(image))
    except cv2.error:
        written = False
    if not written:
        raise RunFailed(f"cannot write {path}")


def read_image(path: Path) -> np.ndarray:
    """Return an image as [height, width, channels].

    :raises UserError: the file is no image, or a damaged or very large one
    """
    import cv2

    _check_image(path)
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise UserError(f"{path} is no image, or damaged")
    if image.ndim == 2:
        return image[..., None]
    return image[..., ::-1] if image.shape[-1] == 3 else image


def _check_image(path: Path) -> None:
    """Look at the frame of a file before it is decoded.

    OpenCV believes the lengths in a file: 600 bytes of a PNG made it take 3 GB and ten seconds.
    """
    from PIL import Image

    damage = (OSError, SyntaxError, ValueError, LookupError, struct.error, Image.DecompressionBombError)
    try:
        with Image.open(path) as image:
            width, height = image.size
            image.verify()
    except damage as error:
        raise UserError(f"{path} is no image, or damaged: {type(error).__name__}") from None
    if width * height > MAX_PIXELS:
        raise UserError(f"{path} is an image of {width} x {height} pixels, which no environment shows")


# -- what an environment makes of them ----------------------------------------------------------


def fit_observations(name: str, obs: Obs, space: spaces.Space[object]) -> Obs:
    """Return recorded observations [n, ...] as an environment of this observation space gives them.

    :raises UserError: they are of another environment
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or not space.spaces.keys() <= obs.keys():
            raise _foreign(name, f"lack a part of {', '.join(space.spaces)}")
        return {key: fit_observations(name, obs[key], part) for key, part in space.spaces.items()}
    if isinstance(obs, dict):
        raise _foreign(name, f"are a Dict of {', '.join(obs)}")
    shape = space.shape or ()
    if is_image_space(space) and obs.ndim == 4:
        return _fit_images(name, obs, shape)
    if obs.shape[1:] != shape and not (shape == () and obs.shape[1:] == (1,)):
        raise _foreign(name, f"are of shape {obs.shape[1:]}, those of the environment of shape {shape}")
    if (
        isinstance(space, spaces.Discrete)
        and not ((obs >= space.start) & (obs < space.start + space.n)).all()
    ):
        raise _foreign(name, f"are not all in {space}")
    return obs.reshape(-1, *shape)


def _fit_images(name: str, images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return images [n, height, width, channels] in the shape of a space: channels first or last."""
    if images.shape[1:] == shape:
        return images
    first = np.moveaxis(images, -1, 1)
    if first.shape[1:] == shape:
        return first
    for channels, height, width in (shape, (shape[2], *shape[:2])):  # written one below the other
        if images.shape[1:] == (channels * height, width, 1):
            apart = images.reshape(-1, channels, height, width)
            return apart if shape == (channels, height, width) else np.moveaxis(apart, 1, -1)
    raise _foreign(name, f"are images of shape {images.shape[1:]}, those of the environment {shape}")


def fit_actions(name: str, actions: np.ndarray, space: spaces.Space[object]) -> np.ndarray:
    """Return recorded actions [n, ...] as an environment with this action space takes them, [n, *shape].

    :raises UserError: they are of another environment, or neither Box nor Discrete
    """
    shape = space.shape or ()
    n_rows = len(actions)
    if not isinstance(space, spaces.Box | spaces.Discrete):
        raise UserError(f"demonstrations are for Box and Discrete actions, not for {type(space).__name__}")
    if actions.size != n_rows * int(np.prod(shape)):
        text = f"are of shape {actions.shape[1:]}, those of the environment of shape {shape}"
        raise _foreign(name, text, "actions")
    actions = actions.reshape(n_rows, *shape)
    if isinstance(space, spaces.Discrete):
        low, high, fits = space.start, space.start + space.n - 1, (actions == np.round(actions)).all()
        if not fits or actions.min() < low or actions.max() > high:
            raise _foreign(name, f"are not all in {space}", "actions")
        return actions.astype(np.int64)
    slack = 1e-4 * np.maximum(1.0, np.abs(actions))
    inside = (actions >= space.low - slack) & (actions <= space.high + slack)
    if (actions.dtype.kind != "f" and space.dtype.kind == "f") or not inside.all():
        raise _foreign(name, f"are not all in {space}", "actions")
    return np.clip(actions, space.low, space.high).astype(np.float32)


def _foreign(name: str, how: str, what: str = "observations") -> UserError:
    return UserError(f"{name} holds demonstrations of another environment: its {what} {how}")
