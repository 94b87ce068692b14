"""Sum tree: sampling of indices in proportion to weights that change.

What Schaul et al. (2016), "Prioritized experience replay", do with a binary tree of twenty levels, vectorised
and therefore flat: nodes of 32 children, as many levels of them as it takes to come to a list short enough
to be summed again after every change. A million leaves have two such levels. A node is recomputed from its
children, never adjusted, so rounding errors do not accumulate.
"""

from __future__ import annotations

import numpy as np

BRANCHES = 32
SHORT = 2048


class SumTree:
    """Sum tree over the indices 0 to `n_leaves` - 1 in double precision, all zero at first."""

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        self.weights: list[np.ndarray] = []  # [n_nodes, BRANCHES] of each level, the leaves first
        self.prefix_sums: list[np.ndarray] = []  # the same shapes: sums over a node's children up to each one
        n_nodes = n_leaves
        while n_nodes > SHORT or not self.weights:
            n_nodes = -(-n_nodes // BRANCHES)
            self.weights.append(np.zeros((n_nodes, BRANCHES)))
            self.prefix_sums.append(np.zeros((n_nodes, BRANCHES)))
        self.top = np.zeros(n_nodes)  # the sums of the last level's nodes
        self.root_prefix_sums = np.zeros(n_nodes)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.root_prefix_sums[-1])

    @property
    def leaves(self) -> np.ndarray:
        """The weights of all indices, [n_leaves]; a view, to be read only."""
        return self.weights[0].reshape(-1)[: self.n_leaves]

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return 2 * sum(level.nbytes for level in (*self.weights, self.top))

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Return the weights of indices [n]."""
        return self.leaves.take(indices)

    def set(self, indices: np.ndarray, values: np.ndarray | float) -> None:
        """Set the weights of indices [n] to `values` [n], or to one number; none may be negative.

        Where an index comes twice, its last value counts.
        """
        nodes = indices
        for weights, prefix_sums in zip(self.weights, self.prefix_sums, strict=True):
            weights.reshape(-1)[nodes] = values
            nodes = nodes // BRANCHES
            if len(nodes) > len(prefix_sums):
                nodes = np.unique(nodes)
            sums = weights.take(nodes, axis=0).cumsum(axis=1)
            prefix_sums[nodes] = sums
            values = sums[:, -1]
        self.top[nodes] = values
        self.root_prefix_sums = self.top.cumsum()

    def find(self, sums: np.ndarray) -> np.ndarray:
        """Return the first index whose prefix sum is larger, for each of `sums` [n] in [0, total).

        An index of weight zero is never found.
        """
        nodes = self.root_prefix_sums.searchsorted(sums, side="right")
        sums = sums - (self.root_prefix_sums.take(nodes) - self.top.take(nodes))
        starts = np.arange(len(sums)) * BRANCHES
        for weights, prefix_sums in zip(reversed(self.weights), reversed(self.prefix_sums), strict=True):
            children = prefix_sums.take(nodes, axis=0)
            # Rounding must neither lead before the first child nor past the last.
            sums = np.maximum(np.minimum(sums, np.nextafter(children[:, -1], 0.0)), 0.0)
            child = (children > sums[:, None]).argmax(axis=1)
            nodes = nodes * BRANCHES + child
            sums -= children.take(starts + child) - weights.take(nodes)
        return nodes
