"""The replay buffer of a run: made before the training, filled from a file where there is one."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from rlzoo.config.run import RunConfig
from rlzoo.core.errors import CheckpointError
from rlzoo.runs import run_folder


def has_buffer(model: Any) -> bool:
    """Whether the agent learns from replayed experience."""
    return hasattr(type(model), "save_replay_buffer")


def prepare(model: Any, run: RunConfig, agent: Path | None, resumed: bool) -> None:
    """Make the replay buffer, so that mistakes in it are found now, and fill it with the agent's experience.

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
                " the run goes on with an empty one",
                file=sys.stderr,
            )
        return
    in_progress = resumed and "envs" in model._resume["position"]  # else new episodes end those stored
    try:
        model.load_replay_buffer(path, truncate_last_traj=run.truncate_last_trajectory and not in_progress)
    except CheckpointError as error:
        if not resumed:
            raise CheckpointError(f"{error}; move it away to start with an empty replay buffer") from error
        print(f"rlzoo: {error}; the run goes on with an empty replay buffer", file=sys.stderr)
        return
    if run.verbose > 0:
        print(f"replay buffer: {len(replay):,} transitions from {path}")
