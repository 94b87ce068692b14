"""What a study is: everything that its workers, on this machine or on others, must know to run a trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from rlzoo.core.errors import UserError
from rlzoo.io.atomic import atomic_write
from rlzoo.runs.json_records import check_fields


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Stands in the study itself, as JSON."""

    algo: str
    env_id: str
    config: str  # YAML of the hyperparameters that the sampled ones are merged into, n_timesteps included
    space: Any  # `Space.to_json()`
    seed: int
    sampler: str
    pruner: str
    n_startup_trials: int
    n_evaluations: int  # of one training
    eval_episodes: int  # of one evaluation
    n_eval_envs: int
    n_seeds: int  # trainings of one trial
    objective: str  # how the evaluations of one training become its value
    vec_env: str = "auto"
    device: str = "auto"
    gym_packages: tuple[str, ...] = ()
    expert: str = ""
    log_path: str = ""  # evaluations and best agent of each trial go here
    retrain: bool = False  # nothing is sampled: each trial carries its configuration

    @property
    def directions(self) -> list[Literal["minimize", "maximize"]]:
        """The return; with two objectives also the wall time."""
        return ["maximize", "minimize"] if self.sampler == "nsga2" else ["maximize"]

    def config_file(self, folder: Path) -> Path:
        """Return a file of the base hyperparameters for `RunConfig.conf_file`, written where missing."""
        path = folder / "config.yml"
        if not path.is_file() or path.read_text() != self.config:
            with atomic_write(path) as file:
                file.write(self.config.encode())
        return path

    def to_json(self) -> dict[str, Any]:
        """Return only what JSON has, so that what was read back equals what was written."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    @classmethod
    def from_json(cls, values: Any) -> StudySettings:
        """:raises UserError: another version of rlzoo, or another program, made the study"""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or not set(values) <= names:
            raise UserError("the study was not made by this version of rlzoo")
        try:
            return cls(**check_fields("the study", cls, values))
        except TypeError as error:
            raise UserError(f"the study was not made by this version of rlzoo: {error}") from None
