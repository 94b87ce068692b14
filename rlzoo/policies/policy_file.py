"""Policies and their parts in files: parameters as safetensors, with a JSON description of how to build them.

The description names the class of the policy and the arguments of its constructor; a part (an actor, a
Q-network) names the policy that it belongs to. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from rlzoo.accel.memory import TooManyParameters, parameter_budget
from rlzoo.core.device_and_seed import get_device
from rlzoo.core.errors import CheckpointError, UserError, WrongParameters
from rlzoo.io.container import FileKind, PathOrFile, described_from_bytes, described_to_bytes
from rlzoo.io.encoding import decode_value, encode_value

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


def write_policy(module: nn.Module, recipe: Recipe | None, path: PathOrFile) -> None:
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


def read_policy(
    cls: type,
    path: PathOrFile,
    device: torch.device | str,
    custom_objects: dict[str, Any] | None = None,
    trusted_modules: tuple[str, ...] = (),
) -> Any:
    """Read what `write_policy` wrote; see `SavableModule.load`."""
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


Self = TypeVar("Self", bound="SavableModule")
Part = TypeVar("Part", bound=nn.Module)


class SavableModule(nn.Module):
    """A policy or a part of one (an actor, critics, a Q-network)."""

    recipe: Recipe | None = None

    def __new__(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments of the constructor, for `save`."""
        module: Self = super().__new__(cls)
        module.__dict__["recipe"] = Recipe.of(cls, args, kwargs)
        return module

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        for parameter in self.parameters():
            return parameter.device
        return torch.device("cpu")

    def set_training_mode(self, mode: bool) -> None:
        """Set training or evaluation mode of dropout and normalisation layers."""
        self.train(mode)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set gradients to zero in place, since they are views into the vector that the optimiser steps on.

        :param set_to_none: of no effect, for scripts that give it
        """
        super().zero_grad(set_to_none=False)

    def parameters_to_vector(self) -> np.ndarray:
        """Return all parameters as one array [n_parameters], a copy."""
        vector = torch.cat([parameter.detach().reshape(-1).cpu() for parameter in self.parameters()])
        return vector.numpy()

    def load_from_vector(self, vector: np.ndarray) -> None:
        """Set all parameters from one array, as `parameters_to_vector` gives it.

        :raises WrongParameters: the array is of another size
        """
        parameters = list(self.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        values = torch.as_tensor(vector, dtype=torch.float32).reshape(-1)
        if len(values) != sum(sizes):
            raise WrongParameters(
                f"the vector has {len(values)} numbers, the network {sum(sizes)} parameters"
            )
        with torch.no_grad():
            for parameter, part in zip(parameters, values.split(sizes), strict=True):
                parameter.copy_(part.view_as(parameter))

    def save(self, path: PathOrFile) -> None:
        """Write the parameters, and what is needed to build the network again, to a path or a file object.

        The file is one of safetensors, whatever the suffix. It has no optimiser: save the model to
        resume training.

        >>> model = PPO("MlpPolicy", "CartPole-v1")
        >>> model.policy.save("policy.safetensors")
        >>> policy = type(model.policy).load("policy.safetensors")
        """
        write_policy(self, self.recipe, path)

    @classmethod
    def load(
        cls: type[Self],
        path: PathOrFile,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        trusted_modules: tuple[str, ...] = (),
    ) -> Self:
        """Read what `save` wrote, from a path or a binary file object; nothing in it is executed.

        :param custom_objects: custom classes that the file names, by their dotted names or keywords
        :param trusted_modules: modules from which such classes may be imported
        :raises CheckpointError: the file is damaged, of another class, or names an unknown class
        """
        loaded: Self = read_policy(cls, path, device, custom_objects, trusted_modules)
        return loaded

    def own(self, name: str, part: Part) -> Part:
        """Tell a part which policy it belongs to, as `name`; returns it."""
        if isinstance(part, SavableModule) and self.recipe is not None:
            recipe = self.recipe
            part.__dict__["recipe"] = Recipe(
                recipe.policy_class, recipe.args, recipe.kwargs, name, recipe.learning_rate
            )
            part.__dict__.setdefault("action_space", getattr(self, "action_space", None))
        return part
