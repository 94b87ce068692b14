"""Policies and their parts in files: parameters as safetensors, with a JSON description of how to build them.

The description names the class of the policy and the arguments of its constructor; a part (an actor, a
Q-network) names the policy that it belongs to. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from rlzoo.core.device import get_device
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.container import FileKind, PathOrFile, described_from_bytes, described_to_bytes
from rlzoo.io.encoding import decode_value, encode_value
from rlzoo.networks.parameter_budget import TooManyParameters, parameter_budget

POLICY_FILE = FileKind("policy file")
KEY = "rlzoo_policy"  # of the description among the metadata
FREE_BYTES = 64 * 2**20  # what networks may have beyond eight times the parameters in a file
REGISTERED_CLASSES: dict[str, type] = {}
"""Users' policies that `register_policy` was given, by their dotted names: files may name them."""
LR_SCHEDULE = 2  # position of `lr_schedule` among the arguments of a policy


@dataclass(frozen=True)
class Recipe:
    """How to build a policy, or a part of one.

    :param part: name of the submodule; "" for the policy itself
    """

    policy_class: type
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    part: str = ""
    learning_rate: float = field(default=0.0)

    @classmethod
    def of(cls, policy_class: type, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Recipe | None:
        """Keep the arguments of a constructor; of a schedule, its first value.

        None where a module is among them: that is a part, which its policy builds.
        """
        if any(isinstance(argument, nn.Module) for argument in (*args, *kwargs.values())):
            return None
        schedule = kwargs.get("lr_schedule", args[LR_SCHEDULE] if len(args) > LR_SCHEDULE else None)
        learning_rate = 0.0
        if callable(schedule) and not isinstance(schedule, type):
            learning_rate = float(schedule(1))
            args = (*args[:LR_SCHEDULE], None, *args[LR_SCHEDULE + 1 :]) if len(args) > LR_SCHEDULE else args
            kwargs = {name: None if name == "lr_schedule" else value for name, value in kwargs.items()}
        return cls(policy_class, args, dict(kwargs), "", learning_rate)

    def build(self) -> nn.Module:
        """Return the policy, or the part, with new parameters."""

        def lr_schedule(_: float) -> float:
            return self.learning_rate

        args = [lr_schedule if i == LR_SCHEDULE and arg is None else arg for i, arg in enumerate(self.args)]
        kwargs = {
            name: lr_schedule if name == "lr_schedule" and value is None else value
            for name, value in self.kwargs.items()
        }
        policy: nn.Module = self.policy_class(*args, **kwargs)
        return policy.get_submodule(self.part)

    def __deepcopy__(self, memo: object) -> Recipe:
        return self


def save(module: nn.Module, recipe: Recipe | None, path: PathOrFile) -> None:
    """Write a policy or a part of one to a path or a binary file object.

    :raises UserError: it was not made by a policy, or with arguments that a file cannot hold
    """
    if recipe is None:
        raise UserError(
            f"a {type(module).__name__} that no policy made cannot be saved: save its state_dict()"
            " with safetensors.torch.save_file"
        )
    description = {
        "class": encode_value(recipe.policy_class),
        "args": encode_value(list(recipe.args)),
        "kwargs": encode_value(dict(recipe.kwargs)),
        "part": recipe.part,
        "learning_rate": recipe.learning_rate,
    }
    content = described_to_bytes(module.state_dict(), KEY, description)
    POLICY_FILE.write(path, [content], len(content))


def load(
    cls: type,
    path: PathOrFile,
    device: torch.device | str,
    custom_objects: dict[str, Any] | None = None,
    trusted_modules: tuple[str, ...] = (),
) -> Any:
    """Read what `save` wrote; see `SavableModule.load`."""
    with POLICY_FILE.open(path) as file:
        content = bytes(file.read())
    description, tensors = _parse(content)
    known = {f"{cls.__module__}.{cls.__qualname__}": cls, **(custom_objects or {})}
    try:
        policy_class = decode_value(description["class"], {**REGISTERED_CLASSES, **known}, trusted_modules)
        args, kwargs = (decode_value(description[key], known, trusted_modules) for key in ("args", "kwargs"))
        recipe = Recipe(policy_class, tuple(args), kwargs, description["part"], description["learning_rate"])
        with parameter_budget(8 * len(content) + FREE_BYTES):
            module = recipe.build()
        if not isinstance(module, cls):
            raise CheckpointError(f"the file holds a {type(module).__name__}, not a {cls.__name__}")
        module.load_state_dict(tensors)
    except (UserError, TooManyParameters):
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"the policy in the file cannot be built: {error}"[:300]) from error
    return module.to(get_device(device))


def _parse(content: bytes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        description, tensors = described_from_bytes(content, KEY)
    except ValueError:
        description = None
    if not isinstance(description, dict):
        raise CheckpointError(
            "this is not the file of a policy that rlzoo saved: a file of PyTorch (a pickle) is not read,"
            " and a model (.zip) is read by the algorithm's load()"
        )
    return description, tensors
