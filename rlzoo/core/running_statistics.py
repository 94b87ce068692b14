"""Running mean and variance, updated batch by batch."""

from __future__ import annotations

import numpy as np


class RunningMeanStd:
    """Running mean and population variance of arrays of one shape (float64).

    Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).

    :param epsilon: weight of the initial values (mean 0, variance 1), in samples; avoids division by zero
    :param shape: shape of one sample
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        self.mean: np.ndarray = np.zeros(shape, np.float64)
        self.var: np.ndarray = np.ones(shape, np.float64)
        self.count: float = epsilon

    def copy(self) -> RunningMeanStd:
        """Return an independent copy."""
        new = RunningMeanStd(shape=np.shape(self.mean))
        new.mean, new.var, new.count = np.array(self.mean), np.array(self.var), float(self.count)
        return new

    def update(self, arr: np.ndarray) -> int:
        """Update the statistics with a batch of samples [n, *shape]; skip samples with NaN or infinity.

        :return: the number of samples skipped
        """
        n = len(arr)
        deviation = arr - self.mean  # float64: the mean is
        if n == 1:
            total = deviation[0]
            squares = total * total
        else:
            total = np.add.reduce(deviation)
            squares = np.add.reduce(deviation * deviation)
        if not squares.sum() < np.inf:  # one such sample would spoil the statistics for good
            finite = arr[np.isfinite(arr).reshape(n, -1).all(axis=1)]
            if len(finite) < n:
                if len(finite):
                    self.update(finite)
                return n - len(finite)
        # These are sums about the old mean. With N samples before, the sum of squares about the new mean is
        # var * N + squares - total^2 / (N + n).
        count = self.count + n
        shift = total / count
        self.var = (self.var * self.count + squares - total * shift) / count
        self.mean = self.mean + shift
        self.count = count
        return 0

    def update_from_moments(self, batch_mean: np.ndarray, batch_var: np.ndarray, batch_count: float) -> None:
        """Update the statistics with the mean, population variance and size of a batch."""
        count = self.count + batch_count
        delta = batch_mean - self.mean
        between = np.square(delta) * self.count * batch_count / count
        self.var = (self.var * self.count + batch_var * batch_count + between) / count
        self.mean = self.mean + delta * batch_count / count
        self.count = count

    def combine(self, other: RunningMeanStd) -> None:
        """Merge the statistics of another stream of samples."""
        self.update_from_moments(other.mean, other.var, other.count)
