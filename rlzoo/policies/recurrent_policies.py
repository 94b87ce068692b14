"""Recurrent actor-critic policies: LSTMs between the features and the heads."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.accel.fast_mlp import fast_forward
from rlzoo.buffers.sequences import RNNState, Sequences
from rlzoo.core.errors import UserError, unknown
from rlzoo.core.preprocessing import TensorObs
from rlzoo.distributions import Distribution
from rlzoo.networks.lstm import LSTM, LayerNormLSTM, OneStep, OverSequences, reset_state, zero_state
from rlzoo.networks.torch_layers import CombinedExtractor, MlpExtractor, NatureCNN, create_mlp, layer_widths
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.policies.policy_kwargs import policy_keywords

LSTM_KWARGS = ("bias", "dropout")
ACTOR, CRITIC = "lstm_actor", "lstm_critic"  # names of their parts of the recurrent state

State = tuple[np.ndarray, np.ndarray]
"""State of `predict`: h and c of the actor, each [n_layers, n_envs, hidden_size]."""


class RecurrentActorCriticPolicy(ActorCriticPolicy):
    """Recurrent actor and critic for PPO, A2C and their relatives.

        features -> lstm_actor  -> mlp_extractor -> action_net
                 -> lstm_critic -> mlp_extractor -> value_net

    Rows of a batch are read in one of two ways: as `sequences` that follow each other in time, or one by one,
    each one step from its own row of `rnn_state` (without either: from the zero state of an episode's start).

    :param args: as ActorCriticPolicy, as are `kwargs`. `net_arch` is what lies behind the LSTMs; with an
        entry "lstm", as in `[8, "lstm", dict(vf=[5, 10], pi=[10])]`, it is what lies before and behind one
        LSTM that actor and critic share and both train.
    :param lstm_hidden_size: units of each layer of an LSTM
    :param n_lstm_layers: layers of an LSTM
    :param shared_lstm: the critic reads the actor's LSTM, which it does not train
    :param enable_critic_lstm: the critic has a separate LSTM; without it and without `shared_lstm`, it has a
        linear layer instead
    :param lstm_kwargs: `bias` and `dropout` of the LSTMs
    :param layer_norm: layer-normalised LSTMs
    """

    recurrent: ClassVar[bool] = True
    training_only_keys = (*ActorCriticPolicy.training_only_keys, "lstm_critic.", "critic.")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        *args: Any,
        lstm_hidden_size: int = 256,
        n_lstm_layers: int = 1,
        shared_lstm: bool = False,
        enable_critic_lstm: bool = True,
        lstm_kwargs: dict[str, Any] | None = None,
        layer_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        for name, count in {"lstm_hidden_size": lstm_hidden_size, "n_lstm_layers": n_lstm_layers}.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise UserError(f"{name} must be a positive integer, not {count!r}")
        if shared_lstm and enable_critic_lstm:
            raise UserError(
                "shared_lstm=True gives the critic the actor's LSTM, enable_critic_lstm=True one of its own: "
                "for a shared one set enable_critic_lstm=False"
            )
        # These are read by `_build`, before there are modules.
        self.lstm_output_dim, self.n_lstm_layers = lstm_hidden_size, n_lstm_layers
        self.shared_lstm, self.enable_critic_lstm = shared_lstm, enable_critic_lstm
        self.lstm_kwargs = _lstm_kwargs(lstm_kwargs)
        self.layer_norm = layer_norm
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    # ---------------------------------------------------------------- construction

    def _build_features_extractors(self) -> None:
        super()._build_features_extractors()
        before, self.behind_lstm = _around_lstm(self.net_arch)
        self.lstm_trained_by_both = before is not None
        if before is not None and (self.shared_lstm or not self.enable_critic_lstm):
            raise UserError(
                "'lstm' in net_arch is one LSTM that actor and critic share: "
                "leave shared_lstm and enable_critic_lstm as they are"
            )
        self.one_lstm = self.lstm_trained_by_both or self.shared_lstm
        if self.one_lstm and not self.share_features_extractor:
            raise UserError(
                "an LSTM that actor and critic share sees the features of one extractor: "
                "leave share_features_extractor=True"
            )
        self.before_lstm = nn.Sequential(*create_mlp(self.features_dim, 0, before or (), self.activation_fn))
        self.lstm_actor = self._make_lstm(before[-1] if before else self.features_dim)
        self.lstm_critic: LSTM | LayerNormLSTM | None = None
        self.critic: nn.Linear | None = None
        if not self.one_lstm and self.enable_critic_lstm:
            self.lstm_critic = self._make_lstm(self.features_dim)
        elif not self.one_lstm:
            self.critic = nn.Linear(self.features_dim, self.lstm_output_dim)

    def _make_lstm(self, input_size: int) -> LSTM | LayerNormLSTM:
        kind = LayerNormLSTM if self.layer_norm else LSTM
        return kind(input_size, self.lstm_output_dim, self.n_lstm_layers, **self.lstm_kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = MlpExtractor(
            self.lstm_output_dim, self.behind_lstm, self.activation_fn, device=self.device
        )

    def _init_orthogonally(self) -> None:
        super()._init_orthogonally()
        self.before_lstm.apply(partial(self.init_weights, gain=math.sqrt(2)))

    # ---------------------------------------------------------------- recurrent state

    @property
    def lstm_hidden_state_shape(self) -> tuple[int, int, int]:
        """Shape of each array in the state of one environment: [n_lstm_layers, 1, lstm_hidden_size]."""
        return self.n_lstm_layers, 1, self.lstm_output_dim

    def initial_state(self, n_envs: int) -> RNNState:
        """Return the recurrent state at the start of an episode: zeros, [n_envs, n_layers, hidden_size]."""
        rnn_state = zero_state(ACTOR, self.lstm_actor, n_envs, self.device)
        if self.lstm_critic is not None:
            rnn_state.update(zero_state(CRITIC, self.lstm_critic, n_envs, self.device))
        return rnn_state

    def rnn_state_from(self, state: State | None, episode_start: Any, n_envs: int) -> RNNState:
        """Return the recurrent state for a `state` of `predict`; the part of the critic is zero.

        :param episode_start: bool array [n_envs], where the state is reset; None: nowhere
        :raises UserError: the state or `episode_start` is of another number of environments
        """
        rnn_state = self.initial_state(n_envs)
        if state is None:
            return rnn_state
        shape = (self.n_lstm_layers, n_envs, self.lstm_output_dim)
        if [np.shape(part) for part in state] != [shape, shape]:
            raise UserError(
                f"the state of {n_envs} environment{'s' if n_envs > 1 else ''} is a pair of arrays of shape "
                f"{shape}, not {[np.shape(part) for part in state]}; begin with state=None"
            )
        for part, array in zip("hc", state, strict=True):
            tensor = torch.as_tensor(np.asarray(array, np.float32), device=self.device)
            rnn_state[f"{ACTOR}_{part}"] = tensor.transpose(0, 1)
        if episode_start is None:
            return rnn_state
        starts = np.asarray(episode_start, bool).reshape(-1)
        if len(starts) != n_envs:
            raise UserError(f"episode_start has {len(starts)} entries for {n_envs} observations")
        return reset_state(rnn_state, torch.as_tensor(starts, device=self.device))

    # ---------------------------------------------------------------- acting

    def step(
        self, obs: TensorObs, rnn_state: RNNState, episode_starts: Tensor, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, RNNState]:
        """Act on observations and the recurrent state, which is reset where an episode starts.

        :param rnn_state: from `initial_state`, or from the step before
        :param episode_starts: bool, [n_envs]
        :return: actions [n_envs, ...], values [n_envs], log-probabilities [n_envs], the next recurrent state
        """
        run = OneStep(reset_state(rnn_state, episode_starts))
        distribution, values = self._distribution_and_values(obs, run)
        actions = distribution.get_actions(deterministic)
        return self.in_action_shape(actions), values.flatten(), distribution.log_prob(actions), run.after

    def act(self, obs: TensorObs, deterministic: bool = False, rnn_state: RNNState | None = None) -> Tensor:
        """Return actions [B, *action_space.shape] for raw observations; see ActorCriticPolicy."""
        latent_pi = self._latent_pi(obs, self._runner(obs, None, rnn_state))
        return self.in_action_shape(self._distribution(latent_pi).get_actions(deterministic))

    def act_recurrent(
        self, obs: TensorObs, rnn_state: RNNState, deterministic: bool = False
    ) -> tuple[Tensor, RNNState]:
        """Return actions [B, *action_space.shape] for raw observations, and the actor's next state."""
        run = OneStep(rnn_state)
        actions = self._distribution(self._latent_pi(obs, run)).get_actions(deterministic)
        return self.in_action_shape(actions), run.after

    def forward(
        self, obs: TensorObs, deterministic: bool = False, rnn_state: RNNState | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [B, *action_space.shape], values [B, 1] and log-probabilities [B]."""
        distribution, values = self._distribution_and_values(obs, self._runner(obs, None, rnn_state))
        actions = distribution.get_actions(deterministic)
        return self.in_action_shape(actions), values, distribution.log_prob(actions)

    def predict(
        self,
        observation: object,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return the actions to execute, and the `state` for the next observations.

        :param state: recurrent state; None at first
        :param episode_start: where an episode starts and the state is reset, [n_envs]
        """
        obs, vectorized = self.obs_to_tensor(observation)
        rnn_state = self.rnn_state_from(state, episode_start, _n_rows(obs))
        self.set_training_mode(False)
        with torch.inference_mode():
            actions, rnn_state = self.act_recurrent(obs, rnn_state, deterministic)
        executed = self.env_actions(actions.cpu().numpy())
        h, c = (rnn_state[f"{ACTOR}_{part}"].transpose(0, 1).cpu().numpy() for part in "hc")
        return (executed if vectorized else executed.squeeze(axis=0)), (h, c)

    # ---------------------------------------------------------------- learning

    def evaluate_actions(
        self,
        obs: TensorObs,
        actions: Tensor,
        sequences: Sequences | None = None,
        rnn_state: RNNState | None = None,
        *,
        gaussian_actions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values [B, 1], log-probabilities of `actions` [B] and entropies [B] (or None).

        Gradients go back in time to the beginning of each sequence.
        """
        distribution, values = self._distribution_and_values(obs, self._runner(obs, sequences, rnn_state))
        return values, *self._log_prob_and_entropy(distribution, actions, gaussian_actions)

    def predict_values(
        self, obs: TensorObs, sequences: Sequences | None = None, rnn_state: RNNState | None = None
    ) -> Tensor:
        """Return values of raw observations, [B, 1]."""
        run = self._runner(obs, sequences, rnn_state)
        features = self.extract_features(obs, self.vf_features_extractor)
        actor_output = self._actor_lstm(features, run) if self.one_lstm else None
        latent_vf = self.mlp_extractor.forward_critic(self._critic_input(features, actor_output, run))
        return fast_forward(self.value_net, latent_vf)

    def get_distribution(
        self, obs: TensorObs, sequences: Sequences | None = None, rnn_state: RNNState | None = None
    ) -> Distribution:
        """Return the action distribution of raw observations; later calls do not change it."""
        return copy.copy(self._distribution(self._latent_pi(obs, self._runner(obs, sequences, rnn_state))))

    # ---------------------------------------------------------------- parts

    def _runner(
        self, obs: TensorObs, sequences: Sequences | None, rnn_state: RNNState | None
    ) -> OneStep | OverSequences:
        if sequences is not None:
            return OverSequences(sequences)
        return OneStep(self.initial_state(_n_rows(obs)) if rnn_state is None else rnn_state)

    def _distribution_and_values(
        self, obs: TensorObs, run: OneStep | OverSequences | None = None
    ) -> tuple[Distribution, Tensor]:
        run = run or self._runner(obs, None, None)
        features = self.extract_features(obs)
        pi_features, vf_features = (features, features) if self.share_features_extractor else features
        actor_output = self._actor_lstm(pi_features, run)
        critic_input = self._critic_input(vf_features, actor_output, run)
        if critic_input is actor_output:  # layers that both share are evaluated once
            latent_pi, latent_vf = self.mlp_extractor(actor_output)
        else:
            latent_pi = self.mlp_extractor.forward_actor(actor_output)
            latent_vf = self.mlp_extractor.forward_critic(critic_input)
        return self._distribution(latent_pi), fast_forward(self.value_net, latent_vf)

    def _latent_pi(self, obs: TensorObs, run: OneStep | OverSequences) -> Tensor:
        features = self.extract_features(obs, self.pi_features_extractor)
        return self.mlp_extractor.forward_actor(self._actor_lstm(features, run))

    def _actor_lstm(self, features: Tensor, run: OneStep | OverSequences) -> Tensor:
        """Return the output of the actor's LSTM, [B, hidden_size]."""
        return run(ACTOR, self.lstm_actor, fast_forward(self.before_lstm, features))

    def _critic_input(
        self, features: Tensor, actor_output: Tensor | None, run: OneStep | OverSequences
    ) -> Tensor:
        """Return the input of the critic's layers, [B, hidden_size].

        :param actor_output: output of the actor's LSTM; used where there is one LSTM
        """
        if actor_output is not None and self.one_lstm:
            return actor_output if self.lstm_trained_by_both else actor_output.detach()
        if self.critic is not None:
            return fast_forward(self.critic, features)
        assert self.lstm_critic is not None
        return run(CRITIC, self.lstm_critic, features)


class RecurrentActorCriticCnnPolicy(RecurrentActorCriticPolicy):
    """RecurrentActorCriticPolicy for images: a NatureCNN extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class RecurrentMultiInputActorCriticPolicy(RecurrentActorCriticPolicy):
    """RecurrentActorCriticPolicy for Dict observations: a CombinedExtractor extracts the features."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": CombinedExtractor, **kwargs})


class MlpLnLstmPolicy(RecurrentActorCriticPolicy):
    """RecurrentActorCriticPolicy with layer-normalised LSTMs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"layer_norm": True, **kwargs})


class CnnLnLstmPolicy(RecurrentActorCriticCnnPolicy):
    """RecurrentActorCriticCnnPolicy with layer-normalised LSTMs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"layer_norm": True, **kwargs})


class LstmPolicy(RecurrentActorCriticPolicy):
    """RecurrentActorCriticPolicy to derive one's own from, which takes the keywords of Stable Baselines 2 as
    well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **policy_keywords(RecurrentActorCriticPolicy, kwargs))


def _lstm_kwargs(lstm_kwargs: Any) -> dict[str, Any]:
    if not isinstance(lstm_kwargs or {}, Mapping):
        raise UserError(f"lstm_kwargs must be a mapping such as dict(dropout=0.1), not {lstm_kwargs!r}")
    for name in lstm_kwargs or {}:
        if name not in LSTM_KWARGS:
            raise unknown("entry of lstm_kwargs", name, LSTM_KWARGS)
    return dict(lstm_kwargs or {})


def _around_lstm(net_arch: object) -> tuple[tuple[int, ...] | None, Any]:
    """Return the layers before a shared LSTM (None: there are none), and the `net_arch` of those behind.

    :raises UserError: several LSTMs, or widths that are none
    """
    if not isinstance(net_arch, Sequence) or isinstance(net_arch, str) or "lstm" not in net_arch:
        return None, net_arch
    layers = list(net_arch)
    if layers.count("lstm") > 1:
        raise UserError(f"net_arch has one 'lstm', for several layers set n_lstm_layers; not {net_arch!r}")
    place = layers.index("lstm")
    behind = layers[place + 1 :]
    if not (behind and isinstance(behind[-1], Mapping)):
        behind.append({})  # these layers are shared, too
    return layer_widths(layers[:place]), behind


def _n_rows(obs: TensorObs) -> int:
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)


MlpLstmPolicy = RecurrentActorCriticPolicy
CnnLstmPolicy = RecurrentActorCriticCnnPolicy
MultiInputLstmPolicy = RecurrentMultiInputActorCriticPolicy
