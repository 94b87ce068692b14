"""Base classes of policies: preprocessing, feature extraction, prediction, scaling of actions, and files.

A file of a policy has its parameters as safetensors, with a JSON description of how to build it: the class
and the arguments of its constructor. A part (an actor, a Q-network) names the policy that it belongs to.
Nothing in a file is executed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from rlzoo.accel.memory import FREE_BYTES, TooManyParameters, parameter_budget
from rlzoo.core.errors import CheckpointError, UserError, WrongParameters
from rlzoo.core.preprocessing import TensorObs, is_vectorized_observation, maybe_transpose
from rlzoo.core.runtime import get_device
from rlzoo.core.signatures import constructor_parameters
from rlzoo.envs.single_env.goal_env import GOAL_KEYS, split_goals
from rlzoo.io.container import FileKind, PathOrFile, described_from_bytes, described_to_bytes
from rlzoo.io.encoding import decode_value, encode_value
from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    features_of,
)

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

    def set_bn_training_mode(self, mode: bool) -> None:
        """Set training or evaluation mode of batch (re)normalisation layers alone."""
        for module in self.modules():
            if isinstance(module, BatchRenorm | nn.BatchNorm1d):
                module.train(mode)

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
        return part


class BaseModel(SavableModule):
    """A network of raw observations: it takes them as arrays, and extracts their features.

    :param features_extractor_class: called with the observation space and `features_extractor_kwargs`
    :param features_extractor: where there is one already
    :param normalize_images: divide images by 255 before they reach the extractor; False: any Box of three
        axes is an image
    :raises UserError: `features_extractor_kwargs` or `optimizer_kwargs` is no mapping
    """

    features_extractor: Any

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        features_extractor: nn.Module | None = None,
    ) -> None:
        super().__init__()
        mappings = {
            "features_extractor_kwargs": features_extractor_kwargs,
            "optimizer_kwargs": optimizer_kwargs,
        }
        for name, value in mappings.items():
            if not isinstance(value or {}, Mapping):
                raise UserError(f"{name} must be a mapping such as dict(name=value), not {value!r}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.features_extractor_class = features_extractor_class
        self.features_extractor_kwargs = dict(features_extractor_kwargs or {})
        self.normalize_images = normalize_images
        self.optimizer_class = optimizer_class
        self.optimizer_kwargs = dict(optimizer_kwargs or {})
        if features_extractor is not None:
            self.features_extractor = features_extractor

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """Return a new extractor as configured."""
        extractor = self.features_extractor_class
        if not (isinstance(extractor, type) and issubclass(extractor, nn.Module)):
            raise UserError(f"features_extractor_class must be a torch.nn.Module class, not {extractor!r}")
        keywords = self.features_extractor_kwargs
        if (
            not self.normalize_images
            and issubclass(extractor, NatureCNN | CombinedExtractor)
            and "normalized_image" in constructor_parameters(extractor)
        ):
            keywords = {**keywords, "normalized_image": True}
        made = extractor(self.observation_space, **keywords)
        if any(isinstance(parameter, UninitializedParameter) for parameter in made.parameters()):
            self._see_once(made)
        return made

    def _update_features_extractor(
        self, net_kwargs: Mapping[str, Any], features_extractor: BaseFeaturesExtractor | None = None
    ) -> dict[str, Any]:
        """Return keywords of a network with its extractor, by default a new one, and the size of features."""
        extractor = self.make_features_extractor() if features_extractor is None else features_extractor
        return {**net_kwargs, "features_extractor": extractor, "features_dim": extractor.features_dim}

    def _see_once(self, extractor: nn.Module) -> None:
        """Show an extractor with lazy layers an observation: they take their shapes from it."""
        sample = copy.deepcopy(self.observation_space).sample()
        if isinstance(sample, dict):
            batch: TensorObs = {key: torch.as_tensor(value)[None] for key, value in sample.items()}
        else:
            batch = torch.as_tensor(sample)[None]
        training = extractor.training
        with torch.no_grad():
            self.extract_features(batch, extractor.eval())
        extractor.train(training)

    def extract_features(self, obs: TensorObs, features_extractor: nn.Module | None = None) -> Any:
        """Preprocess raw observations [B, ...] and run the extractor on them, by default the own one."""
        extractor: Any = self.features_extractor if features_extractor is None else features_extractor
        return features_of(extractor, obs, self.observation_space, self.normalize_images)

    def is_vectorized_observation(self, observation: Any) -> bool:
        """Return whether this is a batch rather than one observation; images may have channels last."""
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            parts = space.spaces.items()
            observation = {key: maybe_transpose(np.asarray(observation[key]), part) for key, part in parts}
        else:
            observation = maybe_transpose(np.asarray(observation), space)
        return is_vectorized_observation(observation, space)

    def obs_to_tensor(self, observation: object) -> tuple[TensorObs, bool]:
        """Return raw observations as tensors with a batch axis, on this policy's device.

        Images with channels last are transposed where the space has channels first.

        :return: the tensor(s), and whether the observation came as a batch
        :raises UserError: when the observation does not fit the observation space
        """
        space = self.observation_space
        if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
            raise UserError(
                "predict() was given the pair that env.reset() returns (mixing Gym API and vector"
                " environments): pass its first element"
            )
        if isinstance(space, spaces.Dict):
            if isinstance(observation, np.ndarray) and space.spaces.keys() == set(GOAL_KEYS):
                observation = split_goals(observation, space.spaces)  # from a HERGoalEnvWrapper
            if not isinstance(observation, dict) or not space.spaces.keys() <= observation.keys():
                raise UserError(f"the observation must be a dict with the keys {', '.join(space.spaces)}")
            parts = {
                key: maybe_transpose(np.asarray(observation[key]), part) for key, part in space.spaces.items()
            }
            vectorized = is_vectorized_observation(parts, space)
            return {key: self._as_batch(part, vectorized) for key, part in parts.items()}, vectorized
        array = maybe_transpose(np.asarray(observation), space)
        vectorized = is_vectorized_observation(array, space)
        return self._as_batch(array, vectorized), vectorized

    def _as_batch(self, array: np.ndarray, vectorized: bool) -> Tensor:
        writable = array if array.flags.writeable else array.copy()  # else PyTorch warns
        tensor = torch.as_tensor(writable, device=self.device)
        return tensor if vectorized else tensor.unsqueeze(0)

    @staticmethod
    def init_weights(module: nn.Module, gain: float = 1.0) -> None:
        """Set orthogonal weights (Saxe et al., 2014) and zero biases, for linear and convolutional layers."""
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(module.weight, gain=gain)
            if module.bias is not None:
                module.bias.data.fill_(0.0)


class BasePolicy(BaseModel):
    """A network that acts. A subclass defines `_predict(obs, deterministic) -> actions`.

    :param args: as BaseModel, as are `kwargs`
    :param squash_output: the network's actions lie in [-1, 1] and are scaled to the space when executed
    """

    recurrent: ClassVar[bool] = False  # acts through `step`, is trained on sequences
    training_only_keys: ClassVar[tuple[str, ...]] = ()  # prefixes; `predict` does not read them

    def __init__(self, *args: Any, squash_output: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.squash_output = squash_output

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return the actions to execute, for one raw observation or a batch of them.

        :param state: hidden state of a recurrent policy; handed back unchanged by all others
        :param episode_start: which hidden states to reset, [n_envs]
        """
        obs, vectorized = self.obs_to_tensor(observation)
        self.set_training_mode(False)
        with torch.inference_mode():
            actions = self._predict(obs, deterministic=deterministic)
        executed = self.env_actions(actions.cpu().numpy())
        return (executed if vectorized else executed.squeeze(axis=0)), state

    def predict_actions(self, observation: TensorObs, deterministic: bool | None = None) -> Tensor:
        """Return the network's actions [B, ...]; `deterministic=None`: as the policy does by default."""
        return (
            self._predict(observation) if deterministic is None else self._predict(observation, deterministic)
        )

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        raise NotImplementedError

    def env_actions(self, actions: np.ndarray) -> np.ndarray:
        """Return what the environment executes for the network's actions [B, ...].

        Scaled or clipped into a Box, to the nearest number where it is one of integers, and shifted to where
        a discrete space starts; in the dtype of the space.
        """
        space = self.action_space
        if isinstance(space, spaces.Box):
            if self.squash_output:
                actions = self.unscale_action(actions)
            actions = actions.clip(space.low, space.high)
            if space.dtype.kind in "iu":
                actions = np.rint(actions)
        elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            actions = actions + space.start
        return actions.astype(space.dtype, copy=False).reshape((-1, *(space.shape or ())))

    def scale_action(self, action: np.ndarray) -> np.ndarray:
        """Scale actions from the Box action space, per dimension, to [-1, 1]."""
        low, high = self._action_bounds()
        return 2.0 * ((action - low) / (high - low)) - 1.0

    def unscale_action(self, scaled_action: np.ndarray) -> np.ndarray:
        """Scale actions from [-1, 1] to the Box action space, per dimension."""
        low, high = self._action_bounds()
        return low + 0.5 * (scaled_action + 1.0) * (high - low)

    def _action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if not isinstance(self.action_space, spaces.Box):
            raise UserError(f"only Box actions can be scaled, not {type(self.action_space).__name__}")
        return self.action_space.low, self.action_space.high


class PolicyPart(BasePolicy):
    """A network inside a policy that acts by itself, such as an actor or a Q-network."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        features_extractor: nn.Module,
        normalize_images: bool = True,
        squash_output: bool = False,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            features_extractor=features_extractor,
            normalize_images=normalize_images,
            squash_output=squash_output,
        )


def with_defaults(policy_class: type, name: str, doc: str, **defaults: Any) -> type:
    """Return a subclass of a policy whose constructor has other defaults."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        policy_class.__init__(self, *args, **{**defaults, **kwargs})  # type: ignore[misc]

    return type(
        name, (policy_class,), {"__init__": __init__, "__doc__": doc, "__module__": policy_class.__module__}
    )


def variants(policy_class: type, base: str, layer_norm: bool = True) -> dict[str, type]:
    """Return a policy and variants for images and Dicts, and with layer norm, by what `policy=` calls them.

    :param base: their class names begin with it
    """
    cnn: dict[str, Any] = {"features_extractor_class": NatureCNN}
    ln: dict[str, Any] = {"layer_norm": True}
    made = {
        "MlpPolicy": policy_class,
        "CnnPolicy": with_defaults(policy_class, f"{base}CnnPolicy", f"{base} for images.", **cnn),
        "MultiInputPolicy": with_defaults(
            policy_class,
            f"{base}MultiInputPolicy",
            f"{base} for Dict observations.",
            features_extractor_class=CombinedExtractor,
        ),
    }
    if layer_norm:
        made["LnMlpPolicy"] = with_defaults(
            policy_class, f"{base}LnMlpPolicy", f"{base} with layer normalisation.", **ln
        )
        made["LnCnnPolicy"] = with_defaults(
            policy_class, f"{base}LnCnnPolicy", f"{base} for images, with layer normalisation.", **cnn, **ln
        )
    return made


# ---------------------------------------------------------------------- files

POLICY_FILE = FileKind("policy file")
KEY = "rlzoo_policy"  # of the description among the metadata
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
