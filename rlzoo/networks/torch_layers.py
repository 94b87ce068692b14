"""Feature extractors (preprocessed observations to one vector per row), and the MLPs behind them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrizations import _SpectralNorm

from rlzoo.accel.fast_mlp import FAST, fast_forward, is_hooked
from rlzoo.core.errors import UnsupportedSpace, UserError, unknown
from rlzoo.core.preprocessing import get_flattened_obs_dim, is_image_space, preprocess_obs
from rlzoo.core.runtime import get_device
from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.lstm import LSTM, LayerNormLSTM


class BaseFeaturesExtractor(nn.Module):
    """What a user's own extractor derives from: `forward(observations)` gives [B, features_dim].

    :param observation_space: space of one observation
    :param features_dim: width of the output
    """

    def __init__(self, observation_space: gym.Space, features_dim: int = 0) -> None:
        super().__init__()
        if features_dim <= 0:
            raise UserError(f"features_dim must be positive, not {features_dim}")
        self._observation_space = observation_space
        self._features_dim = features_dim

    @property
    def features_dim(self) -> int:
        """Width of the output."""
        return self._features_dim


class FlattenExtractor(BaseFeaturesExtractor):
    """The observation as one vector, unchanged."""

    def __init__(self, observation_space: gym.Space) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise UnsupportedSpace("MlpPolicy cannot read Dict observations; use MultiInputPolicy")
        super().__init__(observation_space, get_flattened_obs_dim(observation_space))
        self.only_converts = _only_converted(observation_space)

    def forward(self, observations: Tensor) -> Tensor:
        return observations.reshape(observations.shape[0], -1)  # a scalar observation is a vector of one


class NatureCNN(BaseFeaturesExtractor):
    """The network of Mnih et al. (2015), "Human-level control through deep reinforcement learning".

    :param observation_space: images with channels first, at least 36 pixels high and wide; channels last are
        recognised where channels first would make the images too small
    :param features_dim: units of the last, linear layer
    :param normalized_image: the images need not be uint8 in [0, 255]: any Box of three axes. Policies with
        `normalize_images=False` set it.
    :raises UnsupportedSpace: no images, or too small ones
    """

    SMALLEST = 36  # pixels

    def __init__(
        self, observation_space: gym.Space, features_dim: int = 512, normalized_image: bool = False
    ) -> None:
        if not isinstance(observation_space, spaces.Box) or not is_image_space(
            observation_space, normalized_image=normalized_image
        ):
            raise UnsupportedSpace(
                f"NatureCNN needs images (a uint8 Box of three axes, 0 to 255), not {observation_space}; "
                "use MlpPolicy for vectors, MultiInputPolicy for a Dict, and "
                "policy_kwargs=dict(normalize_images=False) for images that are floats or normalised already"
            )
        super().__init__(observation_space, features_dim)
        shape = observation_space.shape
        self.channels_last = min(shape[1:]) < self.SMALLEST <= min(shape[:2])
        height, width, channels = shape if self.channels_last else (*shape[1:], shape[0])
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        if min(height, width) < self.SMALLEST:
            raise UnsupportedSpace(f"NatureCNN needs images of at least 36x36 pixels, not {height}x{width}")
        with torch.no_grad():
            n_flat = self.cnn(torch.zeros(1, channels, height, width)).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flat, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        if self.channels_last:
            observations = observations.permute(0, 3, 1, 2)
        return self.linear(self.cnn(as_channels_last(observations)))  # type: ignore[no-any-return]


def as_channels_last(images: Tensor) -> Tensor:
    """Return images [B, C, H, W], on a CPU in channels-last memory format: convolutions are 1.6 to 2 times as
    fast with it."""
    return images.contiguous(memory_format=torch.channels_last) if images.device.type == "cpu" else images


class CombinedExtractor(BaseFeaturesExtractor):
    """For Dict observations: a NatureCNN per image, all else flattened, in the order of the space.

    :param cnn_output_dim: features per image
    :param normalized_image: see NatureCNN; what is too small for one and no uint8 image is flattened
    """

    def __init__(
        self, observation_space: spaces.Dict, cnn_output_dim: int = 256, normalized_image: bool = False
    ) -> None:
        if not isinstance(observation_space, spaces.Dict) or not observation_space.spaces:
            raise UnsupportedSpace(
                f"MultiInputPolicy needs a Dict space with entries, not {observation_space}"
            )
        if dotted := [key for key in observation_space.spaces if "." in key]:
            raise UserError(f"the key {dotted[0]!r} of the Dict observations must not hold a dot")
        extractors: dict[str, nn.Module] = {}
        features_dim = 0
        for key, space in observation_space.spaces.items():
            if is_image_space(space) or (
                normalized_image
                and is_image_space(space, normalized_image=True)
                and sorted(space.shape or ())[1] >= NatureCNN.SMALLEST
            ):
                extractors[key] = NatureCNN(space, cnn_output_dim, normalized_image)
                features_dim += cnn_output_dim
            else:
                extractors[key] = nn.Flatten()
                features_dim += get_flattened_obs_dim(space)
        super().__init__(observation_space, features_dim)
        self.extractors = nn.ModuleDict(extractors)
        parts = observation_space.spaces
        self.joins = tuple(parts) if all(_only_converted(part) for part in parts.values()) else ()

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return torch.cat([extractor(observations[key]) for key, extractor in self.extractors.items()], dim=1)


def _only_converted(space: gym.Space) -> bool:
    """Return whether preprocessing only converts observations to float32."""
    return isinstance(space, spaces.Box | spaces.MultiBinary) and not is_image_space(space)


def features_of(
    extractor: nn.Module, obs: Any, observation_space: gym.Space, normalize_images: bool = True
) -> Any:
    """Preprocess raw observations [B, ...] and run an extractor on them.

    Vectors that are only flattened and joined are converted at once, without calling the modules; images of
    a `NatureCNN` get their memory format before they are converted.

    :return: features, [B, features_dim]; what a custom extractor returns
    """
    if FAST and not is_hooked(extractor):
        if type(extractor) is FlattenExtractor and extractor.only_converts:
            return obs.float() if obs.dim() == 2 else obs.float().reshape(obs.shape[0], -1)
        if (
            type(extractor) is CombinedExtractor
            and extractor.joins
            and not any(map(is_hooked, extractor.extractors.values()))
        ):
            parts = [obs[key] for key in extractor.joins]
            parts = [part if part.dim() == 2 else part.flatten(1) for part in parts]
            if len({part.dtype for part in parts}) == 1:  # else each is rounded by itself
                return torch.cat(parts, dim=1).float()
        if type(extractor) is NatureCNN and not extractor.channels_last:
            obs = as_channels_last(obs)  # bytes are a quarter of the floats they become
    return extractor(preprocess_obs(obs, observation_space, normalize_images))


def create_mlp(
    input_dim: int,
    output_dim: int,
    net_arch: Sequence[int],
    activation_fn: type[nn.Module] = nn.ReLU,
    squash_output: bool = False,
    with_bias: bool = True,
    pre_linear_modules: Sequence[type[nn.Module]] | None = None,
    post_linear_modules: Sequence[type[nn.Module]] | None = None,
) -> list[nn.Module]:
    """Build linear layers of the widths `net_arch`, each followed by the activation, for nn.Sequential.

    :param output_dim: width of a last linear layer without activation; none is added when it is not positive
    :param squash_output: end with a tanh
    :param pre_linear_modules: modules before each linear layer, the last one too, made from its input width,
        such as `nn.BatchNorm1d`
    :param post_linear_modules: modules between each hidden linear layer and its activation, made from the
        width, such as `nn.LayerNorm`
    """
    modules: list[nn.Module] = []
    width = input_dim
    before, behind = pre_linear_modules or (), post_linear_modules or ()
    for next_width in net_arch:
        modules += [module(width) for module in before]
        modules.append(nn.Linear(width, next_width, bias=with_bias))
        modules += [module(next_width) for module in behind]
        modules.append(activation_fn())
        width = next_width
    if output_dim > 0:
        modules += [module(width) for module in before]
        modules.append(nn.Linear(width, output_dim, bias=with_bias))
    if squash_output:
        modules.append(nn.Tanh())
    return modules


@dataclass(frozen=True)
class NetArch:
    """Widths of the hidden layers: `shared` by both, then the actor's (`pi`) and the critic's (`vf`)."""

    shared: tuple[int, ...] = ()
    pi: tuple[int, ...] = ()
    vf: tuple[int, ...] = ()

    @classmethod
    def parse(cls, net_arch: Any) -> NetArch:
        """Read a user's `net_arch`.

        `[64, 64]` gives actor and critic two layers each, `dict(pi=[64], vf=[32])` says it apart, and
        `[128, dict(vf=[256], pi=[16])]` puts shared layers first.

        :raises UserError: for anything else
        """
        if isinstance(net_arch, Mapping):
            return cls((), *_branches(net_arch))
        if isinstance(net_arch, Sequence) and not isinstance(net_arch, str):
            if net_arch and isinstance(net_arch[-1], Mapping):
                if len(net_arch) == 1:
                    warnings.warn(
                        "net_arch=[dict(pi=..., vf=...)] is the form of older versions; pass the dictionary"
                        " itself: net_arch=dict(pi=..., vf=...)",
                        stacklevel=2,
                    )
                return cls(layer_widths(net_arch[:-1]), *_branches(net_arch[-1]))
            return cls((), layer_widths(net_arch), layer_widths(net_arch))
        raise UserError(
            f"net_arch must be a list of layer widths or dict(pi=[...], vf=[...]), not {net_arch!r}"
        )


def get_actor_critic_arch(net_arch: Any) -> tuple[list[int], list[int]]:
    """Return the hidden layers of actor and critics: `[64, 64]` for both, or `dict(pi=[...], qf=[...])`.

    :raises UserError: a branch is missing, unknown, or no list of layer widths

    >>> get_actor_critic_arch({"pi": [64], "qf": [256, 256]})
    ([64], [256, 256])
    """
    branches = [net_arch, net_arch]
    if isinstance(net_arch, Mapping):
        for key in net_arch:
            if key not in ("pi", "qf"):
                raise unknown("net_arch branch", key, ("pi", "qf"))
        if missing := {"pi", "qf"} - net_arch.keys():
            raise UserError(f"net_arch lacks {min(missing)!r}: give dict(pi=[...], qf=[...])")
        branches = [net_arch["pi"], net_arch["qf"]]
    for branch in branches:
        widths = isinstance(branch, list | tuple) and all(type(width) is int for width in branch)
        if not widths or any(width <= 0 for width in branch):
            raise UserError(
                f"net_arch must be a list of layer widths or dict(pi=[...], qf=[...]), not {net_arch!r}"
            )
    return list(branches[0]), list(branches[1])


def _branches(branches: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    for key in branches:
        if key not in ("pi", "vf"):
            raise unknown("net_arch branch", key, ("pi", "vf"))
    return layer_widths(branches.get("pi", ())), layer_widths(branches.get("vf", ()))


def layer_widths(layers: Any) -> tuple[int, ...]:
    """Return the widths of hidden layers as a user gave them.

    :raises UserError: they are no list of positive integers
    """
    if not isinstance(layers, Sequence) or isinstance(layers, str):
        raise UserError(f"net_arch must hold a list of layer widths, not {layers!r}")
    for width in layers:
        if isinstance(width, bool) or not isinstance(width, int) or width <= 0:
            raise UserError(f"a layer width in net_arch must be a positive integer, not {width!r}")
    return tuple(layers)


class MlpExtractor(nn.Module):
    """Features [B, feature_dim] -> the actor's latent [B, latent_dim_pi] and the critic's [B, latent_dim_vf].

    :param net_arch: see `NetArch.parse`
    """

    def __init__(
        self,
        feature_dim: int,
        net_arch: Any,
        activation_fn: type[nn.Module],
        device: torch.device | str = "auto",
    ) -> None:
        super().__init__()
        arch = NetArch.parse(net_arch)
        if arch.shared:
            self.shared_net = nn.Sequential(*create_mlp(feature_dim, 0, arch.shared, activation_fn))
        shared_dim = arch.shared[-1] if arch.shared else feature_dim
        self.has_shared_net = bool(arch.shared)
        self.latent_dim_pi = arch.pi[-1] if arch.pi else shared_dim
        self.latent_dim_vf = arch.vf[-1] if arch.vf else shared_dim
        self.policy_net = nn.Sequential(*create_mlp(shared_dim, 0, arch.pi, activation_fn))
        self.value_net = nn.Sequential(*create_mlp(shared_dim, 0, arch.vf, activation_fn))
        self.to(get_device(device))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        shared = self._shared(features)
        return fast_forward(self.policy_net, shared), fast_forward(self.value_net, shared)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Compute the actor's latent alone."""
        return fast_forward(self.policy_net, self._shared(features))

    def forward_critic(self, features: Tensor) -> Tensor:
        """Compute the critic's latent alone."""
        return fast_forward(self.value_net, self._shared(features))

    def _shared(self, features: Tensor) -> Tensor:
        return fast_forward(self.shared_net, features) if self.has_shared_net else features


ALWAYS = (
    _DropoutNd,
    _NormBase,
    nn.RReLU,
    _SpectralNorm,
    BatchRenorm,
)


def depends_on_mode(module: nn.Module) -> bool:
    """Return whether a module, without its submodules, may behave differently in training mode; assumed of
    classes that are neither rlzoo's nor PyTorch's."""
    if isinstance(module, ALWAYS):
        return True
    if isinstance(module, LSTM | LayerNormLSTM | nn.RNNBase | nn.MultiheadAttention):
        return module.dropout > 0
    return not type(module).__module__.startswith(("torch.", "rlzoo."))
