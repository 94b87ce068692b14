"""Several images as one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def tile_images(images: Sequence[np.ndarray]) -> np.ndarray:
    """Arrange images [height, width, channels] of one size in a nearly square grid; the rest is black.

    :return: [rows * height, columns * width, channels]
    """
    height, width, channels = images[0].shape
    rows = math.ceil(math.sqrt(len(images)))
    columns = math.ceil(len(images) / rows)
    grid = np.zeros((rows * columns, height, width, channels), dtype=images[0].dtype)
    grid[: len(images)] = images
    tiled = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return tiled.reshape(rows * height, columns * width, channels)
