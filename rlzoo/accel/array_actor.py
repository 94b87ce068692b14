"""Linear and multi-layer policies in NumPy, with separate weights for each environment.

A candidate of a random search sees one observation at a time. There NumPy is through with the products of a
small network before PyTorch has arranged them, and a worker process without PyTorch starts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.preprocessing import is_image_space

Function = Callable[[np.ndarray], np.ndarray]
Act = Callable[[Any], np.ndarray]
"""Observations [n_envs, ...] -> the actions that the environments execute, [n_envs, ...]."""

ACTIVATIONS: dict[str, Function] = {
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, np.float32(0)),
    "Sigmoid": lambda x: np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5),
    "Identity": lambda x: x,
}
"""By the name of their class in `torch.nn`."""


@dataclass(frozen=True)
class Linear:
    """The shape of a linear layer, whose matrix [n_out, n_in] comes before its bias."""

    n_in: int
    n_out: int
    bias: bool


@dataclass(frozen=True)
class ArrayActor:
    """What a policy of plain layers does with given weights.

    :param layers: linear layers, and names of activations
    :param squash_output: actions lie in [-1, 1] and are scaled to the Box; otherwise they are clipped to it
    """

    observation_space: spaces.Space[object]
    action_space: spaces.Space[object]
    layers: Sequence[Linear | str]
    squash_output: bool

    def with_weights(self, weights: np.ndarray) -> Act:
        """Return a function that acts for `n_envs` environments.

        :param weights: float32 [n_envs, n_parameters], as the policy orders them
        """
        functions: list[Function] = []
        start = 0
        for layer in self.layers:
            if isinstance(layer, str):
                functions.append(ACTIVATIONS[layer])
                continue
            end = start + layer.n_in * layer.n_out
            matrices = weights[:, start:end].reshape(-1, layer.n_out, layer.n_in)
            start = end + layer.n_out * layer.bias
            functions.append(_linear(matrices, weights[:, end:start, None] if layer.bias else None))
        features, executed = (
            _features(self.observation_space),
            _executed(self.action_space, self.squash_output),
        )

        def act(obs: Any) -> np.ndarray:
            x = features(obs)[:, :, None]
            for function in functions:
                x = function(x)
            return executed(x[:, :, 0])

        return act


def _linear(matrices: np.ndarray, biases: np.ndarray | None) -> Function:
    """:param matrices: [n_envs, n_out, n_in]; :param biases: [n_envs, n_out, 1]"""
    matrices = np.ascontiguousarray(matrices)
    if biases is None:
        return lambda x: matrices @ x
    return lambda x: matrices @ x + biases


def _features(space: spaces.Space[object]) -> Function:
    """Return raw observations [n_envs, ...] as float32 [n_envs, n_features], images scaled, one-hot."""
    if isinstance(space, spaces.Discrete):
        table, first = np.eye(int(space.n), dtype=np.float32), int(space.start)
        return lambda obs: table[obs.reshape(-1) - first]
    if isinstance(space, spaces.MultiDiscrete):
        tables = [np.eye(n, dtype=np.float32) for n in space.nvec.ravel().tolist()]

        def one_hot(obs: np.ndarray) -> np.ndarray:
            columns = (obs - space.start).reshape(len(obs), -1).T
            return np.concatenate([t[column] for t, column in zip(tables, columns, strict=True)], axis=1)

        return one_hot
    if is_image_space(space):
        return lambda obs: obs.reshape(len(obs), -1).astype(np.float32) / np.float32(255)
    return lambda obs: obs.reshape(len(obs), -1).astype(np.float32, copy=False)


def _executed(space: spaces.Space[object], squash_output: bool) -> Function:
    """Convert the output of the network, [n_envs, n], to actions in the space, [n_envs, *shape]."""
    if isinstance(space, spaces.Discrete):
        start, dtype = space.start, space.dtype
        return lambda x: (x.argmax(axis=1) + start).astype(dtype, copy=False)
    assert isinstance(space, spaces.Box)
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    integers = np.issubdtype(space.dtype, np.integer)

    def executed(x: np.ndarray) -> np.ndarray:
        if squash_output:
            x = low + 0.5 * (x + 1.0) * (high - low)
        x = np.minimum(np.maximum(x, low), high)
        x = np.rint(x) if integers else x
        return x.astype(space.dtype, copy=False).reshape(-1, *space.shape)

    return executed
