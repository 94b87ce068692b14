"""Returns and lengths of episodes, counted on the device and read once in many steps."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rlzoo.core.errors import EnvironmentFailed
from rlzoo.core.observations import Info
from rlzoo.envs.single_env.monitor import EpisodeStatistics

READ_INTERVAL = 64
"""Steps between two readings of the episodes that have ended: each waits for the device."""


class TensorEpisodes:
    """Episode statistics of all environments of a vector, as tensors.

    :param num_envs: number of environments
    :param device: of the tensors
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.num_envs = num_envs
        self.returns = torch.zeros(num_envs, device=device)
        self.lengths = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.total = torch.zeros((), device=device)  # of all rewards and observations: NaN after a NaN
        self.unread: list[tuple[Tensor, Tensor, Tensor]] = []  # ended, returns and lengths of each step
        self.n_steps = 0
        self._files: EpisodeStatistics | None = None
        self._began = time.time()

    def write_files(
        self, folder: str | os.PathLike[str] | None, override: bool, start_index: int, env_id: str
    ) -> None:
        """Write `<start_index + i>.monitor.csv` into a folder; None writes no files."""
        self._files = EpisodeStatistics(self.num_envs, folder, (), override, start_index, env_id)

    def to(self, device: torch.device) -> None:
        """Move the tensors to a device."""
        self.returns, self.lengths = self.returns.to(device), self.lengths.to(device)
        self.total = self.total.to(device)
        self.unread = [(e.to(device), r.to(device), n.to(device)) for e, r, n in self.unread]

    def start(self) -> None:
        """Start a new episode in every environment."""
        self.returns, self.lengths = torch.zeros_like(self.returns), torch.zeros_like(self.lengths)

    def count(self, rewards: Tensor, next_obs: Tensor) -> Tensor:
        """Count a step; return the lengths of the episodes, [n_envs]."""
        self.n_steps += 1
        self.returns = self.returns + rewards
        self.lengths = self.lengths + 1
        self.total = self.total + rewards.sum()
        if next_obs.is_floating_point():
            self.total = self.total + next_obs.sum()
        return self.lengths

    def end(self, ended: Tensor) -> None:
        """End the episodes of the environments where `ended` [n_envs]."""
        self.unread.append((ended, self.returns, self.lengths))
        self.returns = self.returns.masked_fill(ended, 0.0)
        self.lengths = self.lengths.masked_fill(ended, 0)

    @property
    def is_due(self) -> bool:
        """Whether the episodes that have ended should be read."""
        return len(self.unread) >= READ_INTERVAL

    def read(self) -> list[tuple[int, Info]]:
        """Return environment and info of each episode that has ended since the last reading.

        :raises EnvironmentFailed: a reward or an observation since then was NaN or infinite
        """
        if not self.unread:
            return []
        ended, returns, lengths = (torch.stack(column) for column in zip(*self.unread, strict=True))
        self.unread = []
        self._check_finite(len(ended))
        steps, envs = ended.nonzero(as_tuple=True)
        columns = torch.stack([envs.double(), returns[steps, envs].double(), lengths[steps, envs].double()])
        seconds = round(time.time() - self._began, 6)
        finished: list[tuple[int, Info]] = []
        for env, total, length in columns.t().tolist():
            episode: Info = {"r": round(total, 6), "l": int(length), "t": seconds}
            finished.append((int(env), {"episode": episode}))
            if self._files is not None and self._files.writers:
                self._files.writers[int(env) % len(self._files.writers)].write_row(episode)
        return finished

    def _check_finite(self, n_steps: int) -> None:
        total = self.total.item()
        self.total = torch.zeros_like(self.total)
        if not math.isfinite(total):
            last = self.n_steps
            raise EnvironmentFailed(
                f"an environment returned NaN or infinity in steps {last - n_steps + 1} to {last}", 0, last
            )

    def state(self) -> dict[str, np.ndarray | list[int]]:
        """Return the statistics of the episodes in progress, for a checkpoint."""
        rows = [] if self._files is None else [writer.n_rows for writer in self._files.writers]
        return {"returns": self.returns.cpu().numpy(), "lengths": self.lengths.cpu().numpy(), "rows": rows}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned; remove rows that were written to the files since."""
        self.returns = torch.as_tensor(state["returns"], device=self.returns.device)
        self.lengths = torch.as_tensor(state["lengths"], device=self.lengths.device)
        self.unread = []
        for writer, n_rows in zip(self._files.writers if self._files else [], state["rows"], strict=False):
            writer.truncate(int(n_rows))

    def close(self) -> None:
        """Write the last episodes and close the files."""
        if self._files is not None:
            self.read()
            self._files.close()
