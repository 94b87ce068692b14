"""Policies written for stable-baselines3 act by the methods that they override."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rlzoo import A2C, PPO, SAC, BaseFeaturesExtractor, ReplayBuffer, RolloutBuffer, UserError
from rlzoo.distributions import Categorical
from rlzoo.networks.torch_layers import create_mlp, get_actor_critic_arch
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.policies.continuous_policies import SACPolicy


class Two(BaseFeaturesExtractor):
    def __init__(self, observation_space, features_dim=2):
        super().__init__(observation_space, features_dim)
        self.net = nn.Linear(observation_space.shape[0], features_dim)

    def forward(self, observations):
        return self.net(observations)


def test_forward_of_a_policy_chooses_the_actions():
    class First(ActorCriticPolicy):
        def forward(self, obs, deterministic=False):
            actions, values, log_prob = super().forward(obs, deterministic)
            return torch.zeros_like(actions), values, log_prob

    model = A2C(First, "CartPole-v1", n_steps=8).learn(8)
    assert not model.rollout_buffer.actions.any()


def test_distribution_of_a_latent_is_used_everywhere():
    class Sharp(ActorCriticPolicy):
        def _get_action_dist_from_latent(self, latent_pi):
            distribution = super()._get_action_dist_from_latent(latent_pi)
            return Categorical(2).proba_distribution(torch.tensor([0.0, 50.0]) + 0 * distribution.logits)

    model = PPO(Sharp, "CartPole-v1", n_steps=16, batch_size=8, n_epochs=1).learn(16)
    assert model.rollout_buffer.actions.all()
    obs = torch.zeros(3, 4)
    assert model.policy.get_distribution(obs).probs[:, 1].min() > 0.99
    assert model.predict(np.zeros(4, np.float32))[0] == 1


def test_distribution_of_a_policy_decides_its_predictions():
    class Always(ActorCriticPolicy):
        def get_distribution(self, obs):
            return Categorical(2).proba_distribution(torch.tensor([[0.0, 99.0]]).expand(len(obs), 2))

    model = PPO(Always, "CartPole-v1")
    assert model.predict(np.zeros((5, 4), np.float32))[0].tolist() == [1] * 5


@pytest.mark.parametrize("share", [True, False])
def test_shared_features_of_critics_are_the_actors(share):
    kwargs = {"features_extractor_class": Two, "share_features_extractor": share, "net_arch": [8]}
    model = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, learning_starts=10).learn(20)
    same = model.critic.features_extractor is model.actor.features_extractor
    assert same is share and isinstance(model.actor.features_extractor, Two)


@pytest.mark.parametrize("name", ["train", "collect_rollouts", "_sample_action", "_on_step"])
def test_methods_that_are_never_called_are_refused(name):
    own = type("Own", (PPO,), {name: lambda self: None})
    with pytest.raises(UserError, match=rf"Own overrides {name}\(\), which rlzoo never calls; override "):
        own("MlpPolicy", "CartPole-v1")


def test_overridden_train_error_names_its_replacement():
    from rlzoo import OffPolicyAlgorithm

    class Mine(OffPolicyAlgorithm):
        def train(self, gradient_steps, batch_size):
            pass

    with pytest.raises(UserError, match=r"overrides train\(\).*update\(batch, counters\)"):
        Mine("MlpPolicy", "CartPole-v1", learning_rate=1e-3)


def test_critics_of_another_layout_are_refused():
    own = type("Own", (SACPolicy,), {"make_critic": lambda self, features_extractor=None: None})
    with pytest.raises(UserError, match=r"make_critic\(\).*make_critics\(features_extractor"):
        SAC(own, "Pendulum-v1")


def test_subclass_that_adds_to_learn_and_predict_is_called():
    calls = []

    class Logged(PPO):
        def __init__(self, policy, env, note, **kwargs):
            super().__init__(policy, env, **kwargs)
            self.note = note

        def _setup_model(self):
            super()._setup_model()
            calls.append("setup")

        def learn(self, *args, **kwargs):
            calls.append("learn")
            return super().learn(*args, **kwargs)

        def predict(self, *args, **kwargs):
            calls.append("predict")
            return super().predict(*args, **kwargs)

        def _excluded_save_params(self):
            return [*super()._excluded_save_params(), "verbose"]

    model = Logged("MlpPolicy", "CartPole-v1", "a note", n_steps=16, batch_size=16, verbose=0).learn(16)
    model.predict(np.zeros(4, np.float32))
    assert calls == ["setup", "learn", "predict"] and model.note == "a note"


def test_rollouts_are_kept_in_a_class_of_ones_own():
    class Named(RolloutBuffer):
        def __init__(self, *args, label, **kwargs):
            super().__init__(*args, **kwargs)
            self.label = label

    model = A2C(
        "MlpPolicy", "CartPole-v1", rollout_buffer_class=Named, rollout_buffer_kwargs={"label": "mine"}
    )
    assert model.learn(10).rollout_buffer.label == "mine"
    with pytest.raises(UserError, match="derived from RolloutBuffer"):
        A2C("MlpPolicy", "CartPole-v1", rollout_buffer_class=ReplayBuffer)
    own = type("Own", (RolloutBuffer,), {"compute_returns_and_advantage": lambda self: None})
    with pytest.raises(UserError, match=r"compute_returns_and_advantage\(\).*update\(rollout, counters\)"):
        PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=own)


def test_layers_stand_before_and_behind_linear_ones():
    layers = create_mlp(3, 2, [5], pre_linear_modules=[nn.BatchNorm1d], post_linear_modules=[nn.LayerNorm])
    kinds = [type(layer).__name__ for layer in layers]
    assert kinds == ["BatchNorm1d", "Linear", "LayerNorm", "ReLU", "BatchNorm1d", "Linear"]
    assert layers[0].num_features == 3 and layers[4].num_features == 5


def test_layers_of_actor_and_critics_are_told_apart():
    assert get_actor_critic_arch([8, 4]) == ([8, 4], [8, 4])
    assert get_actor_critic_arch({"pi": [8], "qf": [4]}) == ([8], [4])
    with pytest.raises(AssertionError, match="lacks 'qf'"):
        get_actor_critic_arch({"pi": [8]})
