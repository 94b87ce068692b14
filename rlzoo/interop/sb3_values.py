"""Encode hyperparameters of stable-baselines3 as JSON of rlzoo's model files (`rlzoo.io.encoding`).

Classes become names, which the reader of the JSON must trust; schedules and noise become the equivalents of
rlzoo. Functions cannot be read, except for the closures over numbers that stable-baselines3 and
RL Baselines3 Zoo create: their names are known, and the numbers are in the pickle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlzoo.core.errors import CheckpointError
from rlzoo.core.schedules import ConstantSchedule, LinearSchedule, Schedule, schedule_text
from rlzoo.io.pickle_tree import Instance, Reference
from rlzoo.io.pickled_values import plain_value

THEIRS = ("stable_baselines3.", "sb3_contrib.", "rl_zoo3.", "utils.")
CLASSES = {
    "NatureCNN": "rlzoo.networks.torch_layers.NatureCNN",
    "FlattenExtractor": "rlzoo.networks.torch_layers.FlattenExtractor",
    "CombinedExtractor": "rlzoo.networks.torch_layers.CombinedExtractor",
    "RMSpropTFLike": "rlzoo.optim.rmsprop_tf.RMSpropTFLike",
    "HerReplayBuffer": "rlzoo.buffers.replay.her_replay_buffer.HerReplayBuffer",
}
"""Classes of stable-baselines3 by name, and their equivalents in rlzoo."""
PLAIN_BUFFERS = ("ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer")
"""Replay buffers that the algorithms of rlzoo select themselves."""
NOISE: dict[str, dict[str, str]] = {
    "NormalActionNoise": {"mean": "_mu", "sigma": "_sigma"},
    "OrnsteinUhlenbeckActionNoise": {
        "mean": "_mu",
        "sigma": "_sigma",
        "theta": "_theta",
        "dt": "_dt",
        "initial_noise": "initial_noise",
    },
}
"""Arguments of action noise in rlzoo, and the attributes of stable-baselines3."""


class Unreadable(Exception):
    """A value that cannot be read without running code of the file; the message describes it."""


def encode(value: object) -> object:
    """Return a value of the tree as JSON of rlzoo's model files.

    :raises Unreadable: a function, or an object of an unknown class
    """
    try:
        return _encode(value)
    except RecursionError:
        raise Unreadable("nested without end") from None


def _encode(value: object) -> object:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, np.ndarray):
        return {"$array": [str(value.dtype), list(value.shape), [_encode(item) for item in value.ravel()]]}
    if isinstance(value, tuple):
        return {"$tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise Unreadable("a dictionary whose keys are no texts")
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, Reference):
        return {"$class": class_path(value)}
    if isinstance(value, Instance):
        return _encode_instance(value)
    raise Unreadable(f"a {type(value).__name__}")


def class_path(reference: Reference) -> str:
    """Return the dotted name of the equivalent class in rlzoo, or of the class itself."""
    known = CLASSES.get(reference.name) if reference.module.startswith(THEIRS) else None
    return known or reference.path


def _encode_instance(value: Instance) -> object:
    name = value.path.rpartition(".")[2]
    if name in ("TrainFrequencyUnit", "GoalSelectionStrategy") and len(value.args) == 1:  # members of an Enum
        return _encode_plain(value.args[0])
    if name == "TrainFreq" and len(value.args) == 2:
        count, unit = value.args
        if isinstance(unit, Instance) and unit.path.endswith(".TrainFrequencyUnit") and len(unit.args) == 1:
            (unit,) = unit.args
        count, unit = _encode_plain(count), _encode_plain(unit)
        return count if unit == "step" else {"$tuple": [count, unit]}
    if (schedule := read_schedule(value)) is not None:
        return {"$schedule": schedule_text(schedule)}
    if name in NOISE or name == "VectorizedActionNoise":
        return _encode_noise(name, value)
    if name in ("_make_skeleton_class", "_make_class_def") and len(value.args) > 1:
        if isinstance(value.args[1], str):
            return {"$class": f"__main__.{value.args[1]}"}  # a class that was pickled with its code
    raise Unreadable(describe(value))


def _encode_plain(value: object) -> object:
    """Encode a number, string or array; refuse nested objects, which could be endless."""
    if value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray):
        return _encode(value)
    raise Unreadable(describe(value))


def describe(value: object) -> str:
    """Describe a value for a message: `a function (linear_schedule.<locals>.func)`."""
    if isinstance(value, Reference):
        return f"the class {value.path[:80]}"
    if isinstance(value, Instance):
        if (function := function_of(value)) is not None:
            return f"a function ({function[0][:80]})"
        return f"an object of {value.path[:80] or 'an unknown class'}"
    return f"a {type(value).__name__}"


# -- noise ---------------------------------------------------------------------------------------


def _encode_noise(name: str, value: Instance) -> object:
    attributes = _attributes(value)
    if name == "VectorizedActionNoise":
        noises = attributes.get("_noises", attributes.get("noises"))
        base = attributes.get("_base_noise", attributes.get("base_noise"))
        if not (isinstance(base, Instance) and base.path.rpartition(".")[2] in NOISE):
            raise Unreadable(describe(value))
        n_envs = len(noises) if isinstance(noises, list | tuple) else 1
        arguments: dict[str, object] = {"base_noise": _encode(base), "n_envs": max(n_envs, 1)}
    else:
        arguments = {ours: _encode_plain(attributes.get(theirs)) for ours, theirs in NOISE[name].items()}
    return {"$noise": [name, arguments]}


def _attributes(value: Instance) -> dict[str, Any]:
    attributes: dict[str, Any] = plain_value(value.attributes())
    return attributes


# -- schedules -----------------------------------------------------------------------------------


def read_schedule(value: object, depth: int = 0) -> Schedule | None:
    """Return the schedule of an object or closure of stable-baselines3 or RL Baselines3 Zoo, else None."""
    if (number := _number(value)) is not None:
        return ConstantSchedule(number)
    if not isinstance(value, Instance) or depth > 5:
        return None
    try:
        if (function := function_of(value)) is not None:
            name, variables = function
        elif value.path.startswith(THEIRS):
            name, variables = value.path.rpartition(".")[2], _attributes(value)
        else:
            return None
    except CheckpointError:
        return None
    for key in ("value_schedule", "value"):
        if key in variables and name in _AROUND:
            return read_schedule(variables[key], depth + 1)
    make, wanted = _SCHEDULES.get(name, (None, ()))
    numbers = [_number(next((variables[key] for key in keys if key in variables), None)) for keys in wanted]
    if make is None or None in numbers:
        return None
    return make(*numbers)


_AROUND = ("FloatSchedule", "get_schedule_fn.<locals>.<lambda>")
_SCHEDULES: dict[str, tuple[Callable[..., Schedule], tuple[tuple[str, ...], ...]]] = {
    "ConstantSchedule": (ConstantSchedule, (("val",),)),
    "constant_fn.<locals>.func": (ConstantSchedule, (("val",),)),
    "LinearSchedule": (LinearSchedule, (("start",), ("end",), ("end_fraction",))),
    "get_linear_fn.<locals>.func": (LinearSchedule, (("start",), ("end",), ("end_fraction",))),
    "SimpleLinearSchedule": (lambda start: LinearSchedule(start, 0.0), (("initial_value",),)),
    "linear_schedule.<locals>.func": (
        lambda start: LinearSchedule(start, 0.0),
        (("initial_value_", "initial_value"),),
    ),
}
"""Schedule of rlzoo and names of the variables of its arguments, by name of a class or closure."""


def _number(value: object) -> float | None:
    if isinstance(value, np.generic):
        value = value.item()
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def function_of(value: Instance) -> tuple[str, dict[str, Any]] | None:
    """Return the qualified name of a function that cloudpickle wrote, and its closure variables.

    :return: None if it is not a function
    """
    name = value.path.rpartition(".")[2]
    if name == "_make_skel_func":  # cloudpickle on Python 3.7 and older
        state = value.state if isinstance(value.state, Mapping) else {}
        cells = state.get("closure_values")
        qualified = state.get("qualname")
    elif name == "_make_function":
        slots = value.state[1] if isinstance(value.state, tuple) and len(value.state) == 2 else {}
        slots = slots if isinstance(slots, Mapping) else {}
        closure = slots.get("__closure__")
        cells = [cell.args[0] for cell in closure if _is_cell(cell)] if isinstance(closure, tuple) else []
        qualified = slots.get("__qualname__")
    else:
        return None
    code = value.args[0] if value.args else None
    freevars = code.args[-2] if isinstance(code, Instance) and len(code.args) > 2 else ()
    qualified = qualified if isinstance(qualified, str) else "a function without a name"
    if not isinstance(freevars, tuple) or not isinstance(cells, list | tuple):
        return qualified, {}
    named = zip(freevars, cells, strict=False)
    return qualified, {key: item for key, item in named if isinstance(key, str)}


def _is_cell(cell: object) -> bool:
    return isinstance(cell, Instance) and cell.path.endswith("._make_cell") and len(cell.args) == 1
