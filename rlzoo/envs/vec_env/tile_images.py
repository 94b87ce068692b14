"""Tile images into one, and show an image in a window."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlzoo.core.errors import UserError


def tile_images(images: Sequence[np.ndarray]) -> np.ndarray:
    """Arrange images [height, width, channels] of one size in a nearly square grid; empty cells are black.

    :return: [rows * height, columns * width, channels]
    """
    height, width, channels = images[0].shape
    rows = math.ceil(math.sqrt(len(images)))
    columns = math.ceil(len(images) / rows)
    grid = np.zeros((rows * columns, height, width, channels), dtype=images[0].dtype)
    grid[: len(images)] = images
    tiled = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return tiled.reshape(rows * height, columns * width, channels)


def show_image(image: np.ndarray) -> None:
    """Show an image uint8 [height, width, 3] in a window, in place of the previous one.

    :raises UserError: there is no display, or pygame is missing
    """
    try:
        import pygame

        if not pygame.display.get_init():
            pygame.display.init()
        height, width = image.shape[:2]
        screen = pygame.display.get_surface()
        if screen is None or screen.get_size() != (width, height):
            screen = pygame.display.set_mode((width, height))
        screen.blit(pygame.surfarray.make_surface(image.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()  # a window that handles no events is reported as not responding
        pygame.display.flip()
    except ImportError:
        raise UserError("showing images in a window needs pygame: pip install pygame") from None
    except pygame.error as error:
        raise UserError(f"no window can be opened: {error}") from None
