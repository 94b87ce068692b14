"""Behaviour cloning: learning to act as demonstrations do, as a supervised problem.

Pomerleau (1991), Efficient training of artificial neural networks for autonomous navigation. `pretrain` does
it to an agent of any algorithm before, or between, its own trainings; `supervised` is the loop of an
algorithm that learns in no other way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional as F

from rlzoo.buffers.base_buffer import Obs, map_obs
from rlzoo.buffers.demonstrations import as_dataset, fit_actions, fit_observations, is_given
from rlzoo.buffers.rollout_buffer import PolicyContext
from rlzoo.buffers.sequences import Sequences
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.callbacks.progress import log_progress
from rlzoo.core.errors import TrainingDiverged, UserError
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.distributions import Distribution
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import (
    unknown_wrapper,
    vec_normalize_wrappers,
    warn_unknown_wrapper,
)
from rlzoo.networks.running_normalizer import ObservationNormalizer


@dataclass
class Examples:
    """One minibatch, as the networks of an agent see it.

    :param obs: observations, tensors [n, ...]
    :param actions: as a rollout stores them, [n, ...]
    :param executed: the same as the environment takes them, array [n, ...]
    :param context: keywords for the policy; `sequences` of the rows for a recurrent one
    """

    obs: TensorObs
    actions: Tensor
    executed: np.ndarray
    context: PolicyContext

    def __len__(self) -> int:
        return len(self.actions)


class Demonstrations:
    """A dataset, through the eyes of an agent: scaled by its VecNormalize and by the bounds of its actions.

    A VecNormalize that learns, and a normaliser of the agent's own (`normalize_observations` of DDPG), takes
    the statistics of the demonstrations if it has seen nothing yet.

    :param dataset: an ExpertDataset, the path of its file, or the arguments of one
    :raises UserError: they are of another environment, or cannot be scaled as the agent's observations are
    """

    def __init__(self, model: Any, dataset: Any) -> None:
        self.source, self.env = dataset, model.env
        self.dataset = dataset = as_dataset(dataset)
        self.policy, self.device = model.policy, model.device
        self.normalizer = _normalizer(model)
        shown = model.observation_space
        self.space = shown if self.normalizer is None else self.normalizer.venv.observation_space
        self.executed = fit_actions(dataset.name, dataset.actions, model.action_space)
        stored = self.executed
        if isinstance(model.action_space, spaces.Discrete):
            stored = stored - model.action_space.start
        elif getattr(self.policy, "squash_output", False):
            stored = self.policy.scale_action(stored).astype(np.float32)
        self.actions = torch.from_numpy(stored).to(self.device)
        whole = np.arange(1 if dataset.of_images else len(dataset))
        obs = fit_observations(dataset.name, dataset.read(whole)[0], self.space)
        if self.normalizer is not None and not dataset.of_images:
            _learn_statistics(self.normalizer, obs)
        own = getattr(model, "normalizer", None)
        if isinstance(own, ObservationNormalizer) and own.n_seen == 0 and not dataset.of_images:
            own.update(self.examples(whole, obs).obs)
        starts = np.append(np.flatnonzero(dataset.episode_starts), len(dataset))
        self.episodes = [np.arange(*bounds) for bounds in pairwise(starts)]
        self.n_train_episodes = max(1, int(dataset.train_fraction * len(self.episodes)))

    def examples(self, rows: np.ndarray, obs: Obs = None) -> Examples:
        """Return some rows.

        :param obs: their observations where they have been read already
        """
        obs = self.dataset.read(rows)[0] if obs is None else obs
        obs = fit_observations(self.dataset.name, obs, self.space)
        if self.normalizer is not None:
            obs = self.normalizer.normalize_obs(obs)
        tensors = map_obs(lambda part: torch.from_numpy(_storable(part)).to(self.device), obs)
        context: PolicyContext = {}
        if getattr(self.policy, "recurrent", False):
            starts = self.dataset.episode_starts[rows].copy()
            starts[0] = True
            rnn_state = self.policy.initial_state(int(starts.sum()))
            context["sequences"] = Sequences(starts, np.arange(len(rows)), rnn_state, self.device)
        return Examples(tensors, self.actions[rows], self.executed[rows], context)

    def draw(self, batch_size: int) -> Examples:
        """Sample rows of the training split; of a recurrent policy, whole episodes."""
        if not getattr(self.policy, "recurrent", False):
            rows = self.dataset.train_rows
            return self.examples(rows[torch.randint(len(rows), (batch_size,)).numpy()])
        chosen: list[np.ndarray] = []
        while sum(map(len, chosen)) < batch_size:
            chosen.append(self.episodes[int(torch.randint(self.n_train_episodes, ()))])
        return self.examples(np.concatenate(chosen))

    def draw_any(self, n_rows: int) -> Examples:
        """Sample rows of both splits, for a discriminator of single steps."""
        return self.examples(torch.randint(len(self.dataset), (n_rows,)).numpy())

    def one_pass(self, split: str) -> Iterator[Examples]:
        """Yield minibatches of a split ("train" or "val"); of whole episodes for recurrent policies."""
        if not getattr(self.policy, "recurrent", False):
            loader = self.dataset.train_loader if split == "train" else self.dataset.val_loader
            for _ in range(len(loader)):
                rows, obs, _ = loader.draw()
                yield self.examples(rows, obs)
            return
        n_train = self.n_train_episodes
        episodes = self.episodes[:n_train] if split == "train" else self.episodes[n_train:]
        chosen: list[np.ndarray] = []
        for index in np.random.permutation(len(episodes)):
            chosen.append(episodes[index])
            if sum(map(len, chosen)) >= self.dataset.batch_size:
                yield self.examples(np.concatenate(chosen))
                chosen = []
        if chosen:
            yield self.examples(np.concatenate(chosen))


def demonstrations_of(algorithm: Any, known: Demonstrations | None) -> Demonstrations:
    """Return the demonstrations that an algorithm was given, as it sees them in its present environment.

    :param known: those of the last call, which are returned while source and environment are the same
    :raises UserError: there are none, or they are of another environment
    """
    source = algorithm.config.expert_dataset
    if not is_given(source):
        raise UserError(
            f"{type(algorithm).__name__} learns from demonstrations: give expert_dataset, an ExpertDataset or"
            " the path of its file"
        )
    if known is None or known.source is not source or known.env is not algorithm.env:
        return Demonstrations(algorithm, source)
    return known


def _storable(part: np.ndarray) -> np.ndarray:
    """Return an array that networks take: floats in single precision, axes in memory order."""
    return np.ascontiguousarray(part, np.float32 if part.dtype.kind == "f" else None)


def _normalizer(model: Any) -> Any:
    """Return the VecNormalize that scales the observations of the agent, if any."""
    scaling = [normalize for normalize in vec_normalize_wrappers(model.env) if normalize.norm_obs]
    if not scaling:
        return None
    if len(scaling) > 1:
        raise UserError(
            f"demonstrations cannot be scaled by {len(scaling)} VecNormalize: set norm_obs=False in all but"
            " one"
        )
    normalize = scaling[0]
    if normalize.observation_space != model.observation_space:
        raise UserError(
            "demonstrations cannot be scaled as this agent's observations are: a wrapper around VecNormalize"
            " changes them; put VecNormalize outermost"
        )
    if (opaque := unknown_wrapper(model.env)) is not None:
        warn_unknown_wrapper(opaque, "demonstrations are learned from without what it does")
    return normalize


def _learn_statistics(normalizer: Any, obs: Obs) -> None:
    statistics = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
    if normalizer.training and all(running.count < 1 for running in statistics.values()):
        for key, running in statistics.items():
            running.update(obs[key] if key else obs)


# -- the objective ------------------------------------------------------------------------------


def imitation_loss(
    policy: Any, examples: Examples, distribution: Distribution | None = None
) -> tuple[Tensor, Metrics]:
    """Compute how far a policy is from what was demonstrated.

    Discrete actions: mean negative log-likelihood, with Q-values as logits where the policy has no
    distribution. Box actions: mean squared error of the mode, in the policy's units; unlike the likelihood it
    does not change the exploration noise.

    :param distribution: of the policy at these rows, where it is known already
    :return: the scalar loss; metrics, detached
    """
    obs, actions = examples.obs, examples.actions
    if distribution is None and hasattr(policy, "get_distribution"):
        distribution = policy.get_distribution(obs, **examples.context)
    if isinstance(policy.action_space, spaces.Box):
        predicted = policy(obs) if distribution is None else distribution.mode()
        loss = F.mse_loss(predicted.reshape(len(actions), -1), actions.reshape(len(actions), -1))
        return loss, {"loss": loss.detach()}
    if distribution is None:
        scores = policy.q_values(obs)
        loss, chosen = F.cross_entropy(scores, actions), scores.argmax(dim=1)
    else:
        loss, chosen = -distribution.log_prob(actions).mean(), distribution.mode()
    accuracy = (chosen.reshape(-1) == actions).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


def validation_metrics(model: Any, demonstrations: Demonstrations) -> Metrics:
    """Return `val_loss` and its like: means over the rows not trained on; empty without such rows."""
    model.set_training_mode(False)
    history, sizes = [], []
    with torch.no_grad():
        for examples in demonstrations.one_pass("val"):
            history.append(imitation_loss(model.policy, examples)[1])
            sizes.append(len(examples))
    names = history[0] if history else ()
    return {
        f"val_{name}": float(np.average([float(metrics[name]) for metrics in history], weights=sizes))
        for name in names
    }


# -- pretraining --------------------------------------------------------------------------------


def pretrain(
    model: Any,
    dataset: Any,
    n_epochs: int = 10,
    learning_rate: float = 1e-4,
    adam_epsilon: float = 1e-8,
    val_interval: int | None = None,
) -> Any:
    """Train an agent to imitate demonstrations, with a separate Adam optimiser.

    The agent's optimisers and counters are unchanged; target networks are synchronised afterwards.

    :param dataset: an ExpertDataset, the path of its file, or the arguments of one
    :param n_epochs: passes over the rows to train on
    :param val_interval: epochs between two reports of the losses, where the agent is verbose; None: a tenth
        of all
    :return: the agent
    :raises UserError: the demonstrations are of another environment, the actions neither Box nor Discrete, or
        there is no more of the agent than its actor
    :raises TrainingDiverged: the loss is NaN or infinite
    """
    for name, value in {"n_epochs": n_epochs, "val_interval": val_interval}.items():
        if value is not None and value < 1:
            raise UserError(f"{name} must be at least 1, not {value!r}")
    model.require_trainable()
    demonstrations, policy = Demonstrations(model, dataset), model.policy
    parameters = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    if sum(parameter.dim() > 1 for parameter in parameters) > 1 and not any(map(torch.any, parameters)):
        raise UserError(
            "hidden layers whose weights are all zero cannot learn from a gradient: give zero_policy=False"
        )
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, eps=adam_epsilon)
    val_interval = val_interval or max(n_epochs // 10, 1)
    for epoch in range(1, n_epochs + 1):
        model.set_training_mode(True)
        losses = []
        for examples in demonstrations.one_pass("train"):
            loss, _ = imitation_loss(policy, examples)
            optimizer.zero_grad(set_to_none=False)  # gradients are views into one vector
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not math.isfinite(mean):
            raise TrainingDiverged(
                f"the loss became NaN or infinite in epoch {epoch} of pretraining; most likely at fault:"
                f" learning_rate ({learning_rate!r})"
            )
        if model.verbose > 0 and epoch % val_interval == 0:
            held_out = validation_metrics(model, demonstrations).get("val_loss")
            shown = "" if held_out is None else f", validation loss {held_out:.6g}"
            print(f"pretraining: epoch {epoch} of {n_epochs}, training loss {mean:.6g}{shown}")
    model.set_training_mode(False)
    _sync_target_networks(model)
    return model


def _sync_target_networks(model: Any) -> None:
    """Copy the trained network to its target networks, and perturb the network of parameter noise again."""
    for name in ("target_q_net", "target_actor", "target_critic", "target_policy"):
        if (copy := getattr(model, name, None)) is not None:
            copy.update(1.0)
    if (noise := getattr(model, "parameter_noise", None)) is not None:
        noise.perturb()


# -- the loop of an algorithm that only imitates --------------------------------------------------


def supervised(algorithm: Any, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Learn from demonstrations until `counters.total_timesteps` of their steps have been learned from.

    A step that is learned from twice counts twice; those of the environment, which is not stepped, do not
    count. `on_step` is called after each minibatch. An iteration is a pass over the rows to train on.

    :param log_interval: iterations between two dumps of metrics
    """
    counters = algorithm.counters
    locals_ = LoopLocals(algorithm)
    size = len(algorithm.demonstrations.dataset.train_rows)
    history: list[Metrics] = []
    locals_.history = history
    try:
        callback.on_training_start(locals_, globals())
        callback.on_rollout_start()
        callback.update_locals(locals_)
        while counters.num_timesteps < counters.total_timesteps:
            examples = algorithm.demonstrations.draw(algorithm.config.batch_size)
            algorithm.set_training_mode(True)  # a callback may have called `predict`
            history.append(algorithm.threads.call("update", algorithm.update, examples, counters))
            counters.num_timesteps += len(examples)
            if not callback.on_step():
                break
            finished = counters.num_timesteps >= counters.total_timesteps
            if (passes := counters.num_timesteps // size) > counters.iteration or finished:
                counters.iteration = passes
                if passes % log_interval == 0 or finished:
                    metrics = algorithm.summarise(history, counters)
                    log_progress(
                        algorithm, {**metrics, **validation_metrics(algorithm, algorithm.demonstrations)}
                    )
                    history = locals_.history = []
        callback.on_rollout_end()
    finally:  # also after Ctrl-C: a progress bar gives the terminal back
        algorithm.set_training_mode(False)
        callback.on_training_end()
