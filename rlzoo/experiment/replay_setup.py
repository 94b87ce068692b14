"""The replay buffer of a run: made before the training, loaded from a file if there is one."""

from __future__ import annotations

import io
import sys
from collections.abc import Sized
from pathlib import Path
from typing import BinaryIO, Protocol, TypeGuard

from rlzoo.algorithms.agent.position import ResumeState
from rlzoo.algorithms.base import Algorithm
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import CheckpointError
from rlzoo.runs import run_folder


class ReplayModel(Protocol):
    """A model with a replay buffer."""

    resume_state: ResumeState

    @property
    def replay_buffer(self) -> Sized:
        """The replay buffer, made when it is first used."""

    def save_replay_buffer(self, path: Path | BinaryIO) -> None:
        """Write the replay buffer to a file."""

    def load_replay_buffer(self, path: Path, truncate_last_traj: bool = True) -> None:
        """Read the replay buffer from a file."""


def has_buffer(model: Algorithm) -> TypeGuard[ReplayModel]:
    """Return whether a model has a replay buffer."""
    return hasattr(type(model), "save_replay_buffer")


def prepare(model: ReplayModel, run: RunConfig, agent: Path | None, resumed: bool) -> None:
    """Make the replay buffer, so that mistakes in it are found now, and load the experience of the agent.

    :param agent: the file that the agent was loaded from
    :raises UserError: the environment has no goals for hindsight, the buffer's arguments are wrong, or it is
        to be saved and cannot be
    :raises CheckpointError: a new run starts from an agent whose replay buffer cannot be read
    """
    replay = model.replay_buffer
    if run.save_replay_buffer:
        model.save_replay_buffer(io.BytesIO())  # still empty
    if agent is None:
        return
    path = run_folder.replay_of(agent, saved_together=resumed)
    if path is None:
        if resumed:
            print(
                f"rlzoo: no replay buffer was saved with {agent} (see --save-replay-buffer);"
                " the run continues with an empty one",
                file=sys.stderr,
            )
        return
    in_progress = resumed and model.resume_state.continues_episodes  # else new episodes end those stored
    try:
        model.load_replay_buffer(path, truncate_last_traj=run.truncate_last_trajectory and not in_progress)
    except CheckpointError as error:
        if not resumed:
            raise CheckpointError(f"{error}; move it away to start with an empty replay buffer") from error
        print(f"rlzoo: {error}; the run continues with an empty replay buffer", file=sys.stderr)
        return
    if run.verbose > 0:
        print(f"replay buffer: {len(replay):,} transitions from {path}")
