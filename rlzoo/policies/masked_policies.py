"""Actor-critic policies that choose among allowed actions only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.preprocessing import TensorObs
from rlzoo.distributions.masked import MaskableDistribution, make_masked_proba_distribution
from rlzoo.envs.action_masks import checked_masks
from rlzoo.networks.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor, NatureCNN
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy


class MaskableActorCriticPolicy(ActorCriticPolicy):
    """ActorCriticPolicy whose methods take `action_masks`, bool [B, n_choices] (None allows everything).

    The parameters are those of ActorCriticPolicy; there is no noise to configure, as actions are discrete.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        net_arch: list[int] | dict[str, list[int]] | list[Any] | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            activation_fn,
            ortho_init,
            features_extractor_class=features_extractor_class,
            features_extractor_kwargs=features_extractor_kwargs,
            share_features_extractor=share_features_extractor,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Let `get_distribution` decide what `predict` does, also where `forward` is overridden."""
        own = {*vars(cls)}
        super().__init_subclass__(**kwargs)
        decides = own & {"get_distribution", "forward"} and "act" not in own
        if decides and not cls.__module__.startswith("rlzoo."):
            cls.act = _act_by_distribution  # type: ignore[assignment, method-assign]

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        self.action_dist: Any = make_masked_proba_distribution(self.action_space)
        super()._build(lr_schedule)

    # ---------------------------------------------------------------- acting

    def act(self, obs: TensorObs, deterministic: bool = False, action_masks: Tensor | None = None) -> Tensor:
        latent_pi = self.mlp_extractor.forward_actor(self.extract_features(obs, self.pi_features_extractor))
        distribution = self._masked(self._distribution(latent_pi), action_masks)
        return self.in_action_shape(distribution.get_actions(deterministic))

    def forward(
        self, obs: TensorObs, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [B, *action_space.shape], values [B, 1], log-probabilities [B] for observations."""
        distribution, values = self._distribution_and_values(obs)
        actions = self._masked(distribution, action_masks).get_actions(deterministic)
        return self.in_action_shape(actions), values, distribution.log_prob(actions)

    def act_with_values(
        self, obs: TensorObs, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        actions, values, log_prob = self(obs, action_masks=action_masks)
        return actions, values.flatten(), log_prob

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks: npt.ArrayLike | None = None,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return the actions to execute, for one raw observation or a batch of them.

        :param action_masks: what is allowed, bool [n_choices] or [batch, n_choices]; None allows everything
        :raises UserError: masks of another shape, or that forbid everything
        """
        obs, vectorized = self.obs_to_tensor(observation)
        n_obs = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        masks = None if action_masks is None else self.masks_of(action_masks, n_obs)
        self.set_training_mode(False)
        with torch.inference_mode():
            actions = self.act(obs, deterministic, masks)
        executed = self.env_actions(actions.cpu().numpy())
        return (executed if vectorized else executed.squeeze(axis=0)), state

    def masks_of(self, action_masks: Any, n_obs: int) -> Tensor:
        """Return masks for `n_obs` observations as a tensor; see `checked_masks` for errors."""
        rows = [action_masks] if np.ndim(action_masks) == 1 else action_masks
        return torch.as_tensor(checked_masks(rows, self.action_space, n_obs), device=self.device)

    # ---------------------------------------------------------------- learning

    def evaluate_actions(  # type: ignore[override]  # these actions are never squashed
        self, obs: TensorObs, actions: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        distribution, values = self._distribution_and_values(obs)
        distribution = self._masked(distribution, action_masks)
        return values, *self._log_prob_and_entropy(distribution, actions)

    def get_distribution(self, obs: TensorObs, action_masks: Tensor | None = None) -> MaskableDistribution:
        """Return the action distribution of raw observations; later calls do not change it."""
        return self._masked(super().get_distribution(obs), action_masks)

    def _masked(self, distribution: Any, action_masks: Tensor | None) -> MaskableDistribution:
        """Restrict the distribution that `_distribution` has just made, with everything allowed."""
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return cast(MaskableDistribution, distribution)


def _act_by_distribution(
    policy: Any, obs: TensorObs, deterministic: bool = False, action_masks: Tensor | None = None
) -> Tensor:
    """Act by the `get_distribution` that a policy overrides."""
    actions = policy.get_distribution(obs, action_masks).get_actions(deterministic)
    return cast(Tensor, policy.in_action_shape(actions))


class MaskableActorCriticCnnPolicy(MaskableActorCriticPolicy):
    """MaskableActorCriticPolicy for images: a NatureCNN extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MaskableMultiInputActorCriticPolicy(MaskableActorCriticPolicy):
    """MaskableActorCriticPolicy for Dict observations: a CombinedExtractor extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": CombinedExtractor, **kwargs})
