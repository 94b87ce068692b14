"""Base classes of policies: preprocessing, feature extraction, prediction and scaling of actions."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs, is_vectorized_observation, maybe_transpose, preprocess_obs
from rlzoo.core.signatures import constructor_parameters
from rlzoo.envs.single_env.goal_env import GOAL_KEYS, split_goals
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
)
from rlzoo.policies.policy_file import SavableModule


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
        return extractor(preprocess_obs(obs, self.observation_space, self.normalize_images))

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
        tensor = torch.as_tensor(array, device=self.device)
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
        was_training = self.training
        self.set_training_mode(False)
        with torch.inference_mode():
            actions = self._predict(obs, deterministic=deterministic)
        self.set_training_mode(was_training)
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

        Scaled or clipped into a Box, shifted to where a discrete space starts, in the dtype of the space.
        """
        space = self.action_space
        if isinstance(space, spaces.Box):
            if self.squash_output:
                actions = self.unscale_action(actions)
            actions = np.clip(actions, space.low, space.high)
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
    """A network inside a policy that acts by itself, such as an actor or a Q-network.

    Its action space is the policy's, which gives it by `own`.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        features_extractor: nn.Module,
        normalize_images: bool = True,
        squash_output: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        self.observation_space, self.normalize_images = observation_space, normalize_images
        self.features_extractor, self.squash_output = features_extractor, squash_output


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
