"""Layers that behave differently in training: old values are those of evaluation mode."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import (
    A2C,
    ACER,
    ACKTR,
    DDPG,
    DQN,
    PPO,
    TRPO,
    AdaptiveParamNoiseSpec,
    BaseFeaturesExtractor,
    DummyVecEnv,
    RecurrentPPO,
)
from rlzoo.algorithms.on_policy import trpo
from rlzoo.networks.parameter_noise import perturb
from rlzoo.networks.torch_layers import depends_on_mode


class Features(BaseFeaturesExtractor):
    """One layer, then dropout or batch normalisation."""

    def __init__(self, observation_space: Any, kind: str = "dropout") -> None:
        super().__init__(observation_space, 8)
        mode = nn.Dropout(0.5) if kind == "dropout" else nn.BatchNorm1d(8)
        self.net = nn.Sequential(nn.Linear(4, 8), mode, nn.Tanh())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.net(observations)
        return features


def make(learner: Any, kind: str, **kwargs: Any) -> Any:
    policy_kwargs = {
        "features_extractor_class": Features,
        "features_extractor_kwargs": {"kind": kind},
        **kwargs.pop("policy_kwargs", {}),
    }
    return learner("MlpPolicy", "CartPole-v1", seed=0, policy_kwargs=policy_kwargs, **kwargs)


@pytest.mark.parametrize(("learner", "kind"), [(A2C, "dropout"), (A2C, "batch norm"), (ACKTR, "dropout")])
def test_baseline_is_that_of_evaluation_mode(learner: Any, kind: str) -> None:
    model = make(learner, kind, n_steps=16)
    compared = []
    old_values = model.old_values

    def spy(rollout: Any, columns: Any) -> Any:
        result = old_values(rollout, columns)
        model.policy.set_training_mode(False)
        with torch.no_grad():
            exact = model.policy.predict_values(columns.obs).reshape(16, 1).numpy()
            last = model.policy.predict_values(torch.from_numpy(rollout.last_obs())).numpy()
        compared.append((result[1], exact, result[2][-1], last[0]))
        return result

    model.old_values = spy
    model.learn(32)
    assert len(compared) == 2
    for values, exact, next_value, last in compared:
        np.testing.assert_allclose(values, exact, atol=1e-6)
        np.testing.assert_allclose(next_value, last, atol=1e-6)


def test_a2c_learns_with_batch_norm_in_one_environment() -> None:
    model = make(A2C, "batch norm", n_steps=8)
    model.learn(16)
    assert int(model.policy.features_extractor.net[1].num_batches_tracked) == 2  # one for each update


@pytest.mark.parametrize("kind", ["dropout", "batch norm"])
def test_acer_importance_ratios_of_a_new_rollout_are_one(kind: str) -> None:
    model = make(ACER, kind, n_steps=16, replay_ratio=0)
    ratios = []
    targets = model._targets

    def spy(*args: Any) -> Any:
        ratios.append(targets(*args)[1])
        return targets(*args)

    model._targets = spy
    model.learn(64)
    np.testing.assert_allclose(np.concatenate(ratios), 1.0, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_trpo_gathers_statistics_once_and_keeps_its_kl(shared: bool) -> None:
    model = make(
        TRPO, "batch norm", n_steps=64, batch_size=32, policy_kwargs={"share_features_extractor": shared}
    )
    divergences = []
    improve = model.improve_policy

    def spy(batch: Any) -> Any:
        behaviour = model.policy.pi_features_extractor.net[1]
        before = int(behaviour.num_batches_tracked)
        metrics = improve(batch)
        assert int(behaviour.num_batches_tracked) == before + 1
        with torch.no_grad():
            model.policy.set_training_mode(False)
            divergences.append((copy.deepcopy(model.policy.get_distribution(batch.obs)), batch.obs))
        return metrics

    model.improve_policy = spy
    model.learn(64)
    model.policy.set_training_mode(False)
    after_line_search, obs = divergences[0]
    with torch.no_grad():  # fitting the critic moves neither parameters nor statistics of the actor
        assert torch.equal(after_line_search.probs, model.policy.get_distribution(obs).probs)


def test_trpo_starts_the_line_search_from_a_ratio_of_one() -> None:
    model = make(TRPO, "batch norm", n_steps=64, batch_size=32, normalize_advantage=False)
    found, improve, objective = [], model.improve_policy, trpo.trpo_objective

    def spy(batch: Any) -> Any:
        found.append(batch.advantages.mean())
        return improve(batch)

    def first(distribution: Any, batch: Any, config: Any) -> Any:
        reached = objective(distribution, batch, config)
        if len(found) == 1:
            found.append(reached.detach())
        return reached

    model.improve_policy = spy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trpo, "trpo_objective", first)
        model.learn(64)
    # r = 1 for the policy that acted, although the pass in training mode has moved its statistics since
    assert torch.allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("learner", [PPO, A2C])
def test_action_probability_is_that_of_evaluation_mode(learner: Any) -> None:
    model = make(learner, "dropout", n_steps=16)
    obs = np.full(4, 0.1, np.float32)
    for _ in range(2):  # before and after a training
        mode = model.policy.training
        asked = [model.action_probability(obs).tolist() for _ in range(5)]
        assert asked == asked[:1] * 5
        assert model.policy.training == mode
        model.learn(16)


@pytest.mark.parametrize(
    "layer",
    [
        nn.RReLU(),
        nn.Dropout(),
        nn.AlphaDropout(),
        nn.BatchNorm1d(4),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
        nn.LSTM(4, 4, num_layers=2, dropout=0.1),
    ],
)
def test_layers_that_depend_on_the_mode_are_known(layer: nn.Module) -> None:
    assert any(depends_on_mode(module) for module in layer.modules())
    assert not any(depends_on_mode(module) for module in nn.Sequential(nn.Linear(4, 4), nn.Tanh()).modules())


DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.mark.parametrize("device", DEVICES)
def test_lstm_learns_in_training_mode_after_predict(device: str) -> None:
    """Predicting sets evaluation mode, in which cuDNN has no gradients."""
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, batch_size=16, seed=0, device=device)
    model.policy.predict(np.zeros(4, np.float32))
    assert not model.policy.lstm_actor.training
    modes, evaluate_actions = [], model.policy.evaluate_actions

    def spy(*args: Any, **kwargs: Any) -> Any:
        modes.append(model.policy.lstm_actor.training)
        return evaluate_actions(*args, **kwargs)

    model.policy.evaluate_actions = spy
    model.learn(32)
    assert modes and all(modes)


@pytest.mark.parametrize("layer", [nn.RReLU, nn.Dropout, nn.BatchNorm1d, nn.AlphaDropout])
def test_policy_acts_in_evaluation_mode(layer: Any) -> None:
    class WithLayer(Features):
        def __init__(self, observation_space: Any) -> None:
            super().__init__(observation_space)
            self.net = nn.Sequential(nn.Linear(4, 8), layer(8) if layer is nn.BatchNorm1d else layer())

    model = PPO(
        "MlpPolicy",
        "CartPole-v1",
        n_steps=32,
        batch_size=32,
        n_epochs=1,
        seed=0,
        policy_kwargs={"features_extractor_class": WithLayer},
    )
    modes, act = [], model.policy.act

    def spy(*args: Any, **kwargs: Any) -> Any:
        modes.append(model.policy.training)
        return act(*args, **kwargs)

    model.policy.act = spy
    model.learn(64)
    assert set(modes) == {False}


@pytest.mark.parametrize("kind", ["dropout", "batch norm"])
@pytest.mark.parametrize("learner", [DQN, DDPG])
def test_parameter_noise_acts_and_is_measured_in_evaluation_mode(learner: Any, kind: str) -> None:
    noise = True if learner is DQN else AdaptiveParamNoiseSpec()
    env = "CartPole-v1" if learner is DQN else DummyVecEnv([FourNumbers])
    policy_kwargs = {"features_extractor_class": Features, "features_extractor_kwargs": {"kind": kind}}
    model = learner(
        "MlpPolicy", env, param_noise=noise, learning_starts=10, seed=0, policy_kwargs=policy_kwargs
    )
    modes, adapt = [], model.parameter_noise.adapt

    def spy(distance: Any) -> Any:
        modes.append((model.parameter_noise._trial.training, model.policy.training))
        with torch.no_grad():  # the plain network is the network with noise of size 0
            perturb(model.parameter_noise._network, model.parameter_noise._trial, 0.0)
            assert float(distance(model.parameter_noise._trial)) < 1e-6
        return adapt(distance)

    model.parameter_noise.adapt = spy
    model.learn(120)
    assert modes and set(modes) == {(False, True)}
    assert not model.parameter_noise.exploring.training


class FourNumbers(gym.Env[Any, Any]):
    """Random observations."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}
