"""Modules that can be saved to a file, and read or written as one parameter vector."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from rlzoo.core.errors import WrongParameters
from rlzoo.io.container import PathOrFile
from rlzoo.policies import policy_file

Self = TypeVar("Self", bound="SavableModule")
Part = TypeVar("Part", bound=nn.Module)


class SavableModule(nn.Module):
    """A policy or a part of one (an actor, critics, a Q-network)."""

    recipe: policy_file.Recipe | None = None

    def __new__(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments of the constructor, for `save`."""
        module: Self = super().__new__(cls)
        module.__dict__["recipe"] = policy_file.Recipe.of(cls, args, kwargs)
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
        policy_file.save(self, self.recipe, path)

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
        loaded: Self = policy_file.load(cls, path, device, custom_objects, trusted_modules)
        return loaded

    def own(self, name: str, part: Part) -> Part:
        """Tell a part which policy it belongs to, as `name`; returns it."""
        if isinstance(part, SavableModule) and self.recipe is not None:
            recipe = self.recipe
            part.__dict__["recipe"] = policy_file.Recipe(
                recipe.policy_class, recipe.args, recipe.kwargs, name, recipe.learning_rate
            )
            part.__dict__.setdefault("action_space", getattr(self, "action_space", None))
        return part
