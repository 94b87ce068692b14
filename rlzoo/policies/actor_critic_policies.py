"""Actor-critic policies: one network pair for actions and values."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.accel.fast_mlp import Terms, fast_forward, recording_tape, takes_arrays
from rlzoo.accel.flat_parameters import without_dynamo
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs
from rlzoo.core.returns import CategoricalTerms, GaussianTerms
from rlzoo.distributions import (
    Categorical,
    DiagGaussian,
    Distribution,
    StateDependentNoise,
    make_proba_distribution,
)
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    MlpExtractor,
    NatureCNN,
)
from rlzoo.policies.base_policy import BasePolicy
from rlzoo.policies.policy_kwargs import policy_keywords


class ActorCriticPolicy(BasePolicy):
    """Actor and critic for PPO, A2C and their relatives.

        raw observations -> features_extractor -> mlp_extractor -> the actor's latent and the critic's
        the actor's latent -> action_net -> parameters of the action distribution
        the critic's latent -> value_net -> value

    :param lr_schedule: learning rate as a function of the remaining progress; the optimiser starts at its
        value for 1
    :param net_arch: hidden layers, see `NetArch.parse`; by default two of 64 for each, none after a NatureCNN
    :param activation_fn: activation of the hidden layers
    :param ortho_init: orthogonal initial weights, of gain sqrt(2) in hidden layers, 0.01 for actions, 1 for
        values
    :param use_sde: explore with gSDE (Box actions only); see StateDependentNoise for `full_std`,
        `use_expln` and `squash_output`
    :param log_std_init: initial log standard deviation of Gaussian actions
    :param share_features_extractor: actor and critic see the same features
    :param normalize_images: divide images by 255
    :param optimizer_class: called with the parameters, `lr` and `optimizer_kwargs`
    """

    training_only_keys: ClassVar[tuple[str, ...]] = (
        "value_net.",
        "mlp_extractor.value_net.",
        "vf_features_extractor.",
    )

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        net_arch: list[int] | dict[str, list[int]] | list[Any] | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        use_sde: bool = False,
        log_std_init: float = 0.0,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if squash_output and not use_sde:
            raise UserError("squash_output=True needs use_sde=True: only gSDE squashes actions here")
        if squash_output and isinstance(action_space, spaces.Box) and not action_space.is_bounded():
            raise UserError(
                f"squash_output=True scales actions to their bounds, and some bounds of {action_space} are"
                " infinite; leave squash_output out"
            )
        if optimizer_kwargs is None and optimizer_class is torch.optim.Adam:
            optimizer_kwargs = {"eps": 1e-5}  # torch's 1e-8 lets tiny gradients take full steps
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=squash_output,
        )
        if net_arch is None:
            net_arch = [] if features_extractor_class is NatureCNN else {"pi": [64, 64], "vf": [64, 64]}
        self.net_arch = net_arch
        self.activation_fn = activation_fn
        self.ortho_init = ortho_init
        self.log_std_init = log_std_init
        self.use_sde = use_sde
        self.share_features_extractor = share_features_extractor
        noise = {"full_std": full_std, "use_expln": use_expln, "squash_output": squash_output}
        self.dist_kwargs: dict[str, Any] | None = noise if use_sde else None
        self.action_dist = make_proba_distribution(action_space, use_sde, self.dist_kwargs)
        self._build_features_extractors()
        self._build(lr_schedule)

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Let methods that scripts for stable-baselines3 override decide what those here do."""
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if cls.__module__.startswith("rlzoo."):
            return
        acts_by_forward = "forward" in own and "act" not in own
        if acts_by_forward:
            cls.act = _act_by_forward  # type: ignore[assignment, method-assign]
        if (acts_by_forward or "get_distribution" in own) and cls._predict.__module__.startswith("rlzoo."):
            cls._predict = _predict_by_distribution  # type: ignore[assignment, method-assign]
        if "_get_action_dist_from_latent" in own and "_distribution" not in own:
            cls._distribution = own["_get_action_dist_from_latent"]  # type: ignore[method-assign]

    # ---------------------------------------------------------------- construction

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        self._build_mlp_extractor()
        latent_dim = self.mlp_extractor.latent_dim_pi
        if isinstance(self.action_dist, DiagGaussian | StateDependentNoise):
            self.action_net, self.log_std = self.action_dist.proba_distribution_net(
                latent_dim, log_std_init=self.log_std_init
            )
        else:
            self.action_net = self.action_dist.proba_distribution_net(latent_dim)
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim_vf, self._n_values())
        if self.ortho_init:
            self._init_orthogonally()
        make: Any = without_dynamo(self.optimizer_class)
        try:
            self.optimizer = make(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
        except (TypeError, ValueError) as error:
            raise UserError(f"the policy's optimizer_class or optimizer_kwargs: {error}") from error

    def _build_features_extractors(self) -> None:
        """Build one extractor or two; each has both names, but a module is registered under one name only."""
        if self.share_features_extractor:
            self.features_extractor = self.make_features_extractor()
            self.__dict__["pi_features_extractor"] = self.__dict__["vf_features_extractor"] = (
                self.features_extractor
            )
        else:
            self.pi_features_extractor = self.make_features_extractor()
            self.vf_features_extractor = self.make_features_extractor()
            self.__dict__["features_extractor"] = self.pi_features_extractor
        self.register_load_state_dict_pre_hook(_drop_other_names)
        self.features_dim = self.features_extractor.features_dim

    def _build_mlp_extractor(self) -> None:
        """Hook for custom networks: set `self.mlp_extractor`, a module with what `MlpExtractor` has:
        latent_dim_pi, latent_dim_vf, forward, forward_actor and forward_critic.
        """
        self.mlp_extractor = MlpExtractor(
            self.features_dim, self.net_arch, self.activation_fn, device=self.device
        )

    def _n_values(self) -> int:
        """Return how many numbers the critic gives for an observation; hook for critics of actions."""
        return 1

    def _init_orthogonally(self) -> None:
        gains: list[tuple[nn.Module, float]] = [
            (self.mlp_extractor, math.sqrt(2)),
            (self.action_net, 0.01),
            (self.value_net, 1.0),
            (self.pi_features_extractor, math.sqrt(2)),
        ]
        if not self.share_features_extractor:
            gains.append((self.vf_features_extractor, math.sqrt(2)))
        for module, gain in gains:
            module.apply(partial(self.init_weights, gain=gain))

    # ---------------------------------------------------------------- acting

    def reset_noise(self, n_envs: int = 1) -> None:
        """Draw new exploration noise, one matrix per environment (gSDE only)."""
        if not isinstance(self.action_dist, StateDependentNoise):
            raise UserError("reset_noise() is for policies with use_sde=True")
        with torch.no_grad():
            self.action_dist.sample_weights(self.log_std, batch_size=n_envs)

    def act(self, obs: TensorObs, deterministic: bool = False) -> Tensor:
        """Return actions for raw observations, without values or log-probabilities; call it under
        `torch.no_grad`.

        :return: [B, *action_space.shape], before clipping or scaling (see `env_actions`)
        """
        latent_pi = self.mlp_extractor.forward_actor(self.extract_features(obs, self.pi_features_extractor))
        return self.in_action_shape(self._distribution(latent_pi).get_actions(deterministic))

    def forward(self, obs: TensorObs, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [B, *action_space.shape], values [B, 1], log-probabilities [B] for observations."""
        distribution, values = self._distribution_and_values(obs)
        actions = distribution.get_actions(deterministic)
        return self.in_action_shape(actions), values, distribution.log_prob(actions)

    def act_with_values(self, obs: TensorObs) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `forward` does, with values [B]: one pass through features that both share."""
        actions, values, log_prob = self(obs)
        return actions, values.flatten(), log_prob

    def _predict(self, observation: TensorObs, deterministic: bool = False) -> Tensor:
        return self.act(observation, deterministic)

    # ---------------------------------------------------------------- learning

    def evaluate_actions(
        self, obs: TensorObs, actions: Tensor, *, gaussian_actions: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute values [B, 1], log-probabilities of `actions` [B] and entropies [B], with gradients.

        :param gaussian_actions: squashed actions before the tanh, where they are known, [B, A]
        """
        distribution, values = self._distribution_and_values(obs)
        return values, *self._log_prob_and_entropy(distribution, actions, gaussian_actions)

    def predict_values(self, obs: TensorObs) -> Tensor:
        """Compute values of raw observations, [B, 1]."""
        latent_vf = self.mlp_extractor.forward_critic(self.extract_features(obs, self.vf_features_extractor))
        return fast_forward(self.value_net, latent_vf)

    def get_distribution(self, obs: TensorObs) -> Distribution:
        """Return the action distribution of raw observations; later calls do not change it."""
        latent_pi = self.mlp_extractor.forward_actor(self.extract_features(obs, self.pi_features_extractor))
        return copy.copy(self._distribution(latent_pi))

    # ---------------------------------------------------------------- parts

    def extract_features(self, obs: TensorObs, features_extractor: nn.Module | None = None) -> Any:
        """Return features of raw observations; with two extractors and none named, (actor's, critic's)."""
        if features_extractor is not None:
            return super().extract_features(obs, features_extractor)
        if self.share_features_extractor:
            return super().extract_features(obs, self.features_extractor)
        return tuple(
            super(ActorCriticPolicy, self).extract_features(obs, extractor)
            for extractor in (self.pi_features_extractor, self.vf_features_extractor)
        )

    def _distribution_and_values(self, obs: TensorObs) -> tuple[Distribution, Tensor]:
        """Return action distribution and values [B, 1]; what actor and critic share is computed once."""
        features = self.extract_features(obs)
        if self.share_features_extractor:
            latent_pi, latent_vf = self.mlp_extractor(features)
        else:
            pi_features, vf_features = features
            latent_pi = self.mlp_extractor.forward_actor(pi_features)
            latent_vf = self.mlp_extractor.forward_critic(vf_features)
        return self._distribution(latent_pi), fast_forward(self.value_net, latent_vf)

    def _distribution(self, latent_pi: Tensor) -> Distribution:
        """Return the action distribution for the actor's latent [B, latent_dim_pi]."""
        params = fast_forward(self.action_net, latent_pi)
        if isinstance(self.action_dist, DiagGaussian):
            return self.action_dist.proba_distribution(params, self.log_std)
        if isinstance(self.action_dist, StateDependentNoise):
            return self.action_dist.proba_distribution(params, self.log_std, latent_pi)
        return self.action_dist.proba_distribution(params)

    # The name by which scripts for stable-baselines3 override it.
    _get_action_dist_from_latent = _distribution

    def _log_prob_and_entropy(
        self, distribution: Distribution, actions: Tensor, gaussian_actions: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute log-probabilities of stored actions, and entropies, [B]; see `evaluate_actions`."""
        known = {} if gaussian_actions is None else {"gaussian_actions": gaussian_actions}
        return log_prob_and_entropy(distribution, self._flat(actions), **known)

    def in_action_shape(self, actions: Tensor) -> Tensor:
        """Return actions of the distribution, [B] or [B, A], in the shape of the space."""
        shape = self.action_space.shape or ()
        return actions if actions.dim() == 1 + len(shape) else actions.reshape(-1, *shape)

    def _flat(self, actions: Tensor) -> Tensor:
        """Return stored actions as the distribution takes them: [B] for Discrete, [B, A] for all others."""
        if isinstance(self.action_dist, Categorical):
            return actions.reshape(len(actions))
        return actions.reshape(len(actions), -1)


def log_prob_and_entropy(distribution: Any, actions: Tensor, **known: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return `distribution.log_prob(actions, **known)` and `distribution.entropy()`.

    Those of a Categorical or DiagGaussian are computed in NumPy where nobody needs gradients, and, with
    derivatives in closed form, where a `Tape` holds the network below. PyTorch takes some ten operations,
    and about as many for the gradients.
    """
    kind, tape = terms_class(distribution, actions), recording_tape()
    if kind is not None and not torch.is_grad_enabled():
        log_prob, entropy = map(torch.from_numpy, kind(distribution, actions).outputs)
        return log_prob, entropy
    if kind is not None and tape is not None and all(param.is_leaf for param in distribution.params):
        return tape.add_terms(distribution.params, kind(distribution, actions))
    return distribution.log_prob(actions, **known), distribution.entropy()


def terms_class(distribution: Any, actions: Tensor) -> Callable[[Any, Tensor], Terms] | None:
    """Return what computes log-probabilities and entropies of a distribution in NumPy, if anything does."""
    kind = type(distribution)
    if not issubclass(kind, DiagGaussian | Categorical) or not kind.__module__.startswith("rlzoo."):
        return None
    if not takes_arrays(params := distribution.params[0]):
        return None
    methods = kind.log_prob, kind.entropy  # subclasses override them
    if methods == (DiagGaussian.log_prob, DiagGaussian.entropy) and actions.shape == params.shape:
        return _gaussian_terms
    if methods == (Categorical.log_prob, Categorical.entropy) and actions.shape == params.shape[:-1]:
        return _categorical_terms
    return None


def _categorical_terms(distribution: Categorical, actions: Tensor) -> CategoricalTerms:
    return CategoricalTerms(distribution.logits.detach().log_softmax(dim=-1).numpy(), actions.long().numpy())


def _gaussian_terms(distribution: DiagGaussian, actions: Tensor) -> GaussianTerms:
    mean, log_std = distribution.mean.detach(), distribution.log_std.detach()
    return GaussianTerms(mean.numpy(), log_std.numpy(), actions.numpy())


def _act_by_forward(
    policy: Any, obs: TensorObs, deterministic: bool = False, *masks: Tensor | None, **context: Any
) -> Tensor:
    """Act by the `forward` that a policy overrides."""
    return cast(Tensor, policy(obs, deterministic, *masks, **context)[0])


def _predict_by_distribution(policy: Any, observation: TensorObs, deterministic: bool = False) -> Tensor:
    """Predict by `get_distribution`, in a policy that overrides it or `forward`."""
    return cast(
        Tensor, policy.in_action_shape(policy.get_distribution(observation).get_actions(deterministic))
    )


class ActorCriticCnnPolicy(ActorCriticPolicy):
    """ActorCriticPolicy for images: a NatureCNN extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MultiInputActorCriticPolicy(ActorCriticPolicy):
    """ActorCriticPolicy for Dict observations: a CombinedExtractor extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": CombinedExtractor, **kwargs})


class FeedForwardPolicy(ActorCriticPolicy):
    """ActorCriticPolicy to derive one's own from, which takes the keywords of Stable Baselines 2 as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **policy_keywords(ActorCriticPolicy, kwargs))


MlpPolicy = ActorCriticPolicy
CnnPolicy = ActorCriticCnnPolicy
MultiInputPolicy = MultiInputActorCriticPolicy


def _drop_other_names(policy: nn.Module, state_dict: dict[str, object], prefix: str, *_: object) -> None:
    """Leave out the further names that files of stable-baselines3 have for the same extractors."""
    known = {"features_extractor", "pi_features_extractor", "vf_features_extractor"}
    own = known & dict(policy.named_modules(remove_duplicate=False)).keys()
    first = "features_extractor" if "features_extractor" in own else "pi_features_extractor"
    if any(key.startswith(f"{prefix}{first}.") for key in state_dict):
        others = tuple(f"{prefix}{name}." for name in known - own)
        for key in [key for key in state_dict if key.startswith(others)]:
            del state_dict[key]
