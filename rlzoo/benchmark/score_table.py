"""Scores grouped by algorithm and environment: the rows of tables in all formats."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from rlzoo.benchmark.scores import Score
from rlzoo.config.benchmark import Row, planned_steps
from rlzoo.core.errors import UserError
from rlzoo.plots.aggregates import Aggregate, aggregate
from rlzoo.plots.references import Reference, reference


@dataclass(frozen=True)
class TableRow:
    """The scores of one algorithm, or variant of it, on one environment.

    :param row: the task in the benchmark list
    :param scores: of all training seeds there are, in their order
    """

    row: Row
    scores: tuple[Score, ...]

    @property
    def seeds(self) -> list[int]:
        """Training seeds."""
        return [score.seed for score in self.scores]

    @cached_property
    def means(self) -> list[float]:
        """Mean return of each seed's episodes, or their success rate if the task measures success.

        :raises UserError: the environment does not report success
        """
        if self.row.measure == "return":
            return [score.mean for score in self.scores]
        rates = [score.success_rate for score in self.scores if score.success_rate is not None]
        if len(rates) < len(self.scores):
            raise UserError(
                f"{self.row.label} on {self.row.env}: the list asks for success, which was not recorded"
            )
        return rates

    @cached_property
    def stds(self) -> list[float]:
        """Standard deviation over the episodes of each seed."""
        if self.row.measure == "return":
            return [score.std for score in self.scores]
        return [(rate * (1 - rate)) ** 0.5 for rate in self.means]

    @cached_property
    def aggregate(self) -> Aggregate:
        """Statistics over the seeds."""
        return aggregate(self.means)

    @cached_property
    def reference(self) -> Reference | None:
        """The published result, which exists for returns only."""
        return reference(self.row.algo, self.row.env) if self.row.measure == "return" else None

    @property
    def n_timesteps(self) -> int:
        """Environment steps of training, median over the seeds: they may differ by an episode."""
        return statistics.median_low(score.n_timesteps for score in self.scores)

    @property
    def episodes(self) -> int:
        """The smallest number of episodes that an agent played."""
        return min(score.episodes for score in self.scores)

    @property
    def training_seconds(self) -> float | None:
        """Median training time over the seeds for which it is known."""
        known = [score.training_seconds for score in self.scores if score.training_seconds is not None]
        return statistics.median(known) if known else None

    @property
    def n_missing(self) -> int:
        """Seeds in the list without a score."""
        return len(set(self.row.seeds).difference(self.seeds))

    @property
    def reached(self) -> bool | None:
        """Whether the median over the seeds in the list meets the requirement.

        Seeds that were added later do not count, as they may have been added because the listed ones failed.
        None without a requirement, with missing scores, and with scores of other settings.
        """
        median = self.median_of_listed_seeds
        if median is None or self.n_missing or not self.is_as_listed:
            return None
        return self.row.reached(median)

    @property
    def median_of_listed_seeds(self) -> float | None:
        """Median over the seeds in the list; None if none of them has a score."""
        of_listed_seeds = [
            mean for seed, mean in zip(self.seeds, self.means, strict=True) if seed in self.row.seeds
        ]
        return statistics.median(of_listed_seeds) if of_listed_seeds else None

    @cached_property
    def is_as_listed(self) -> bool:
        """Whether training steps (roughly) and evaluation episodes are those of the task."""
        steps = planned_steps(self.row)
        return all(score.is_of(self.row.episodes) for score in self.scores) and (
            steps is None or all(0.99 * steps <= score.n_timesteps <= 1.25 * steps for score in self.scores)
        )


def table(
    scores: Iterable[Score],
    rows: Iterable[Row] | None = None,
    experts: Collection[tuple[str, str, int]] = (),
) -> list[TableRow]:
    """Group scores by algorithm (or variant) and environment.

    :param rows: tasks of a benchmark list: its order, measures and requirements; tasks without scores and
        scores without a task are left out. Without a list, rows are sorted and nothing is required.
    :param experts: algorithm, environment and seed of agents that are left out
    """
    wanted = None if rows is None else list(rows)
    by_key: dict[tuple[str, str], list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        if (*score.key, score.seed) not in experts:
            by_key.setdefault(score.key, []).append(score)
    if wanted is None:
        firsts = (by_key[key][0] for key in sorted(by_key))
        wanted = [Row(algo=score.algo, env=score.env_id, name=score.name, seeds=()) for score in firsts]
    grouped = (
        TableRow(row, tuple(score for score in by_key.get(row.key, ()) if score.algo == row.algo))
        for row in wanted
    )
    return [row for row in grouped if row.scores]
