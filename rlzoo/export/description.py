"""Metadata of exported policies."""

from __future__ import annotations

import dataclasses
import json
from typing import TypeAlias

from gymnasium import spaces

from rlzoo import __version__
from rlzoo.algorithms.agent.position import env_id_of
from rlzoo.algorithms.base import Algorithm
from rlzoo.export.observation_layers import SINGLE, Part
from rlzoo.export.policy_module import PolicyModule
from rlzoo.io.space_json import space_to_json

FORMAT, FORMAT_VERSION = "rlzoo policy", 1

Description: TypeAlias = dict[str, object]
"""Metadata of an exported agent, ready for JSON."""


def describe(model: Algorithm, module: PolicyModule) -> Description:
    """Return the metadata of an exported agent, as plain JSON.

    `inputs` and `outputs` give names, shapes and dtypes in the order of the module's arguments. `frame_stack`
    gives, for each stacked input, the axis (without the batch axis) and the value of the frames before the
    first one of an episode.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rlzoo_version": __version__,
        "algorithm": type(model).__name__,
        "environment": env_id_of(model),
        "timesteps": int(model.num_timesteps),
        "observation_space": space_to_json(_shown_space(module)),
        "action_space": space_to_json(model.action_space),
        "inputs": [dataclasses.asdict(port) for port in module.inputs],
        "outputs": [dataclasses.asdict(port) for port in module.outputs],
        "deterministic": True,
        "normalized": [name for name, part in module.parts.items() if part.scaling is not None],
        "frame_stack": {name: _stack(part) for name, part in module.parts.items() if part.stack is not None},
        "action_masks": module.is_masked,
        "recurrent": module.is_recurrent,
    }


def as_strings(description: Description) -> dict[str, str]:
    """Return the metadata with each value as a string: strings as they are, other values as JSON."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in description.items()}


def _shown_space(module: PolicyModule) -> spaces.Space[object]:
    """Return the observation space of the exported policy."""
    parts = {name: part.space for name, part in module.parts.items()}
    return spaces.Dict(parts) if module.is_dict else parts[SINGLE]


def _stack(part: Part) -> dict[str, object]:
    assert part.stack is not None
    return {**dataclasses.asdict(part.stack), "order": "oldest first, newest last"}
