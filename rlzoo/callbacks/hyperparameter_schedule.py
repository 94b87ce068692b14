"""Callback that changes hyperparameters at given steps of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.core.errors import UserError

CHANGEABLE = (
    "learning_rate",
    "clip_range",
    "clip_range_vf",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "gamma",
    "gae_lambda",
    "n_epochs",
    "batch_size",
    "target_kl",
    "tau",
)
"""Hyperparameters that an update reads, so that they can change between two updates."""


class HyperparameterSchedule(BaseCallback):
    """Changes hyperparameters before the first rollout at or after given numbers of steps.

    The schedule that population based training finds is such a list; see `rlzoo optimize --scheduler pbt`.

    Example, in a hyperparameter file:

        callback:
          - rlzoo.callbacks.hyperparameter_schedule.HyperparameterSchedule:
              changes: [[20000, {learning_rate: 0.0003}], [40000, {learning_rate: 0.0001, gamma: 0.99}]]

    :param changes: pairs (steps over all environments, hyperparameters that hold from there on)
    :raises UserError: a hyperparameter cannot be changed during training, or the steps do not increase
    """

    def __init__(self, changes: Sequence[Sequence[object]], verbose: int = 0) -> None:
        super().__init__(verbose)
        self.changes = [_change(pair) for pair in _pairs(changes)]
        steps = [step for step, _ in self.changes]
        if steps != sorted(set(steps)):
            raise UserError(f"changes: the steps must increase, not be {steps}")
        self.n_made = 0

    def _on_training_start(self) -> None:
        self.n_made = 0

    def _on_rollout_start(self) -> None:
        while self.n_made < len(self.changes) and self.changes[self.n_made][0] <= self.model.num_timesteps:
            self.model.replace_config(**self.changes[self.n_made][1])
            self.n_made += 1

    def _on_step(self) -> bool:
        return True


def _pairs(changes: object) -> Sequence[object]:
    """Return the changes as they are given.

    :raises UserError: they are no list
    """
    if isinstance(changes, str) or not isinstance(changes, Sequence):
        raise UserError(f"changes: expected a list of pairs [steps, hyperparameters], not {changes!r:.60}")
    return changes


def _change(pair: object) -> tuple[int, dict[str, object]]:
    """Return the steps and the hyperparameters of a change.

    :raises UserError: it is no such pair, the steps are not an integer of at least 0, or a hyperparameter
        cannot be changed
    """
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise UserError(f"changes: expected pairs [steps, hyperparameters], not {pair!r:.60}")
    try:
        steps = float(pair[0])
    except (TypeError, ValueError):
        steps = -1.0
    if steps < 0 or not steps.is_integer():
        raise UserError(f"changes: steps must be an integer of at least 0, not {pair[0]!r:.60}")
    return int(steps), _checked(pair[1])


def _checked(values: object) -> dict[str, object]:
    """Return the hyperparameters of a change.

    :raises UserError: one cannot be changed during training
    """
    if not isinstance(values, Mapping):
        raise UserError(f"changes: expected pairs of steps and hyperparameters, not {values!r:.60}")
    for key in values:
        if key not in CHANGEABLE:
            raise UserError(
                f"changes: {key} cannot change during training; those that can: {', '.join(CHANGEABLE)}"
            )
    return {str(key): value for key, value in values.items()}
