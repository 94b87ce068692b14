"""Weights and Biases, for those who have it installed."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError, install_command
from rlzoo.experiment.resolved_config import ResolvedConfig


def require_wandb() -> None:
    """Raise UserError if wandb is not installed."""
    if find_spec("wandb") is None:
        raise UserError(f"--track needs Weights & Biases: {install_command('wandb')}")


def start(run: RunConfig, resolved: ResolvedConfig, folder: Path) -> Any:
    """Start a tracked run that uploads the TensorBoard files; its `finish` ends it.

    :raises UserError: wandb refuses it: there is no account, say
    """
    wandb = import_module("wandb")
    try:
        return wandb.init(
            name=f"{run.env_id}__{run.algo}__{run.seed}__{folder.name}",
            project=run.wandb_project_name,
            entity=run.wandb_entity,
            group=run.wandb_group,
            tags=list(run.wandb_tags),
            config={**dataclasses.asdict(run), "hyperparams": resolved.values},
            sync_tensorboard=True,
            save_code=False,
        )
    except wandb.errors.Error as error:
        reason = f"{error}; see `wandb login`, WANDB_API_KEY and WANDB_MODE=offline"
        raise UserError(f"--track: Weights & Biases: {reason}") from error
