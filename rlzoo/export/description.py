"""What an exported policy says of itself."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gymnasium import spaces

from rlzoo import __version__
from rlzoo.algorithms.agent.saving import env_id_of
from rlzoo.export.observation_layers import SINGLE, Part
from rlzoo.export.policy_module import PolicyModule
from rlzoo.io.space_json import space_to_json

FORMAT, FORMAT_VERSION = "rlzoo policy", 1


def describe(model: Any, module: PolicyModule) -> dict[str, Any]:
    """Return the metadata of an exported agent, as plain JSON.

    `inputs` and `outputs` give names, shapes and dtypes in the order of the module's arguments. `frame_stack`
    tells, for each input that is stacked, the axis (without the batch), and what stands for the frames before
    the first one of an episode.
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


def as_texts(description: dict[str, Any]) -> dict[str, str]:
    """Return the metadata as one text for each entry: texts as they are, all else as JSON."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in description.items()}


def _shown_space(module: PolicyModule) -> spaces.Space[Any]:
    """The space of what comes in."""
    parts = {name: part.space for name, part in module.parts.items()}
    return spaces.Dict(parts) if module.is_dict else parts[SINGLE]


def _stack(part: Part) -> dict[str, Any]:
    assert part.stack is not None
    return {**dataclasses.asdict(part.stack), "order": "oldest first, newest last"}
