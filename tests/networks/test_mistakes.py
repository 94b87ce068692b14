"""What a policy is built from: mistakes are one line that says what to use instead, choices are kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import A2C, IdentityEnv, IdentityEnvBox, SimpleMultiObsEnv
from rlzoo.core.errors import UserError
from rlzoo.networks.torch_layers import CombinedExtractor
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy

BOX = spaces.Box(-1, 1, (2,))


def test_a_dict_needs_the_policy_for_dicts():
    with pytest.raises(UserError, match="use MultiInputPolicy"):
        A2C("MlpPolicy", SimpleMultiObsEnv())


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"features_extractor_class": 5}, "features_extractor_class must be"),
        ({"optimizer_kwargs": {"no_such": 1}}, "optimizer_kwargs.*no_such"),
        ({"optimizer_kwargs": {"betas": (2.0, 0.9)}}, "optimizer_kwargs.*beta"),
    ],
)
def test_wrong_policy_kwargs(kwargs, message):
    with pytest.raises(UserError, match=message):
        A2C("MlpPolicy", IdentityEnv(2), use_rms_prop=False, policy_kwargs=kwargs)


def test_a_class_that_is_no_policy():
    with pytest.raises(UserError, match="int is no policy"):
        A2C(int, IdentityEnv(2))


@pytest.mark.parametrize(
    ("space", "message"), [(spaces.Dict(), "entries"), (spaces.Dict({"a.b": BOX}), "a.b")]
)
def test_dict_spaces_that_cannot_be_combined(space, message):
    with pytest.raises(UserError, match=message):
        CombinedExtractor(space)


def test_scalar_boxes_are_vectors_of_one():
    policy = ActorCriticPolicy(spaces.Box(-1, 1, ()), spaces.Box(-1, 1, ()), lambda _: 1e-3)
    obs, actions = torch.zeros(3), torch.zeros(3)
    assert policy.act(obs).shape == (3,)
    values, log_probs, entropy = policy.evaluate_actions(obs, actions)
    assert values.shape == (3, 1) and log_probs.shape == entropy.shape == (3,)
    assert policy.predict(np.zeros(3, np.float32))[0].shape == (3,)


def test_the_optimiser_keywords_of_a2c_extend_its_own():
    model = A2C("MlpPolicy", IdentityEnv(2), policy_kwargs={"optimizer_kwargs": {"alpha": 0.5}})
    group = model.policy.optimizer.param_groups[0]
    assert (group["alpha"], group["eps"]) == (0.5, 1e-5)


def test_one_row_is_not_normalised():
    model = A2C("MlpPolicy", IdentityEnvBox(), n_steps=1, normalize_advantage=True, seed=0).learn(10)
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


class TwoRates(ActorCriticPolicy):
    """Actor and critic in parameter groups of their own."""

    def _build(self, lr_schedule):
        super()._build(lr_schedule)
        actor = [*self.mlp_extractor.policy_net.parameters(), *self.action_net.parameters()]
        critic = [*self.mlp_extractor.value_net.parameters(), *self.value_net.parameters()]
        self.optimizer = torch.optim.SGD([{"params": actor}, {"params": critic}], lr=lr_schedule(1))


class Trunk(ActorCriticPolicy):
    """Actor and critic on one layer of its own."""

    def _build(self, lr_schedule):
        self.trunk = torch.nn.Linear(self.features_dim, 8)
        self.action_net, self.value_net = torch.nn.Linear(8, 2), torch.nn.Linear(8, 1)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1))

    def get_distribution(self, obs):
        logits = self.action_net(self.trunk(self.extract_features(obs)))
        return self.action_dist.proba_distribution(action_logits=logits)

    def predict_values(self, obs):
        return self.value_net(self.trunk(self.extract_features(obs)))

    def forward(self, obs, deterministic=False):
        distribution = self.get_distribution(obs)
        actions = distribution.get_actions(deterministic)
        return actions, self.predict_values(obs), distribution.log_prob(actions)

    def evaluate_actions(self, obs, actions):
        distribution = self.get_distribution(obs)
        return self.predict_values(obs), distribution.log_prob(actions), distribution.entropy()


def test_a_policy_builds_its_networks_on_features():
    model = A2C(Trunk, IdentityEnv(2), seed=0)
    before = model.policy.trunk.weight.clone()
    model.learn(20)
    assert not torch.equal(model.policy.trunk.weight, before)


def test_a_policy_keeps_the_parameter_groups_it_made():
    model = A2C(TwoRates, IdentityEnv(2), seed=0)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(50)
    assert len(model.policy.optimizer.param_groups) == 2
    assert all(not torch.equal(before[name], value) for name, value in model.policy.state_dict().items())
