"""Running sums over a changing list of weights, to draw indices in proportion to them.

A tree with 32 branches, vectorised: an update and a search are each one pass per level, four for a million
leaves (the binary tree of Schaul et al., 2016, "Prioritized experience replay", would take twenty). A node is
computed from its children anew, never adjusted, so rounding errors do not add up.
"""

from __future__ import annotations

import numpy as np

BRANCHES = 32


class SumTree:
    """Weights of the indices 0 to `n_leaves` - 1 in double precision, all zero at first."""

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        self.weights: list[np.ndarray] = []  # [n_nodes, BRANCHES] of each level, the leaves first
        self.running: list[np.ndarray] = []  # the same shapes: sums over a node's children up to each one
        n_nodes = n_leaves
        while n_nodes > 1 or not self.weights:
            n_nodes = -(-n_nodes // BRANCHES)
            self.weights.append(np.zeros((n_nodes, BRANCHES)))
            self.running.append(np.zeros((n_nodes, BRANCHES)))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.running[-1][0, -1])

    @property
    def leaves(self) -> np.ndarray:
        """The weights of all indices, [n_leaves]; a view, to be read only."""
        return self.weights[0].reshape(-1)[: self.n_leaves]

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return 2 * sum(level.nbytes for level in self.weights)

    def get(self, indices: np.ndarray) -> np.ndarray:
        """The weights of indices [n]."""
        return self.leaves[indices]

    def set(self, indices: np.ndarray, values: np.ndarray | float) -> None:
        """Change the weights of indices [n] to `values` [n], or to one number; none may be negative.

        Where an index comes twice, its last value counts.
        """
        nodes = indices
        for weights, running in zip(self.weights, self.running, strict=True):
            weights.reshape(-1)[nodes] = values
            nodes = nodes // BRANCHES
            if len(nodes) > len(running):
                nodes = np.unique(nodes)
            sums = weights[nodes].cumsum(axis=1)
            running[nodes] = sums
            values = sums[:, -1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """The first index up to which the weights sum to more, for each of `sums` [n] in [0, total).

        An index of weight zero is never found.
        """
        nodes = np.zeros(len(sums), np.int64)
        rows = np.arange(len(sums))
        for weights, running in zip(reversed(self.weights), reversed(self.running), strict=True):
            children = running[nodes]
            sums = np.minimum(
                sums, np.nextafter(children[:, -1], 0.0)
            )  # rounding must not pass the last child
            child = (children <= sums[:, None]).sum(axis=1)
            sums = np.maximum(sums - (children[rows, child] - weights[nodes, child]), 0.0)
            nodes = nodes * BRANCHES + child
        return nodes
