"""A search space: hyperparameters by key, and how each is sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rlzoo.config.values_as_text import plain
from rlzoo.core.errors import UserError
from rlzoo.params.grid import Label, NotEnumerable, SuggestingTrial, combinations
from rlzoo.params.search_parameters import OTHER_VERSION, Parameter

LARGEST = 100_000
"""Combinations that a grid search may have."""


@dataclass(frozen=True)
class Space:
    """Hyperparameters in the order of sampling; one that depends on another comes after it.

    :param rows: by key, such as `learning_rate` or `policy_kwargs.net_arch`
    :param given: fixed values on which rows depend
    """

    rows: dict[str, Parameter]
    given: dict[str, Any] = field(default_factory=dict)

    def sample(self, trial: SuggestingTrial) -> dict[str, Any]:
        """Sample plain values by key, without those that have no effect."""
        known, sampled = dict(self.given), {}
        for key, parameter in self.rows.items():
            if parameter.applies(known):
                known[key] = sampled[key] = parameter.suggest(trial, key, known)
        return sampled

    def without(self, keys: Iterable[str]) -> Space:
        """Return the space without fixed keys, their parents and their children.

        `policy_kwargs` takes all of `policy_kwargs.*` with it, `policy_kwargs.net_arch.pi` the whole of
        `policy_kwargs.net_arch`.
        """
        fixed = list(keys)
        rows = {
            key: row for key, row in self.rows.items() if not any(_overlap(key, other) for other in fixed)
        }
        return Space(rows, self.given)

    def outside(self, values: Mapping[str, Any]) -> list[str]:
        """Return the keys whose value in `values` (flat, complete) the space cannot sample."""
        known = {**self.given, **plain(values)}
        return [
            key
            for key, row in self.rows.items()
            if key in values and row.applies(known) and not row.contains(known[key], known)
        ]

    def grid(self) -> list[dict[str, Label]]:
        """Return all combinations, as parameters of trials.

        :raises UserError: a row is continuous, or there are too many combinations
        """
        try:
            points = [params for params, _ in islice(combinations(self.sample), LARGEST + 1)]
        except NotEnumerable as error:
            raise UserError(
                f"the space cannot be searched one by one: {error.name} has no countable values; give it"
                " choices or a step, or use another sampler"
            ) from None
        if len(points) > LARGEST:
            raise UserError(f"the space cannot be searched one by one: over {LARGEST:,} combinations")
        return points

    @property
    def size(self) -> int | None:
        """Number of combinations; None if a grid search cannot try them all."""
        try:
            return len(self.grid())
        except UserError:
            return None

    def to_json(self) -> dict[str, object]:
        """Return the space as a study stores it."""
        return {"rows": {key: row.to_json() for key, row in self.rows.items()}, "given": self.given}

    @classmethod
    def from_json(cls, values: object) -> Space:
        """Build the space that `to_json` described.

        :raises UserError: another version of rlzoo, or another program, wrote it
        """
        if not isinstance(values, Mapping):
            raise UserError(OTHER_VERSION)
        try:
            rows = {key: Parameter.from_json(row) for key, row in values["rows"].items()}
            return cls(rows, dict(values["given"]))
        except (AttributeError, KeyError, TypeError):
            raise UserError(OTHER_VERSION) from None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten `policy_kwargs` and `replay_buffer_kwargs` into key paths."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and key in NESTED and not prefix:
            found |= flat(value, f"{key}.")
        else:
            found[prefix + key] = value
    return found


NESTED = ("policy_kwargs", "replay_buffer_kwargs")


def _overlap(key: str, other: str) -> bool:
    return key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")
