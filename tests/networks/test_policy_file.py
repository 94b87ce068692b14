"""Policies and their parts are saved, loaded and read as vectors, and act by themselves."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.core.errors import CheckpointError, UserError, WrongParameters
from rlzoo.networks.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.policies.actors import Actor
from rlzoo.policies.base_policy import BaseModel
from rlzoo.policies.policy_registry import get_policy_class

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2, 2, (2,), np.float32)
CASES = [
    ("actor_critic", "MlpPolicy", BOX),
    ("actor_critic", "MlpLstmPolicy", spaces.Discrete(3)),
    ("maskable", "MlpPolicy", spaces.Discrete(3)),
    ("population", "LinearPolicy", BOX),
    ("q_network", "LnMlpPolicy", spaces.Discrete(3)),
    ("quantile", "MlpPolicy", spaces.Discrete(3)),
    ("deterministic", "MlpPolicy", BOX),
    ("squashed", "MlpPolicy", BOX),
    ("tqc", "MlpPolicy", BOX),
    ("crossq", "MlpPolicy", BOX),
]
PARTS = ("actor", "actor_target", "critic", "critic_target", "q_net", "q_net_target", "quantile_net")


class Halved(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Space) -> None:
        super().__init__(observation_space, 3)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations / 2


def make(family: str, name: str, actions: spaces.Space, **kwargs) -> nn.Module:
    return get_policy_class(family, name)(VECTOR, actions, lambda progress: 1e-3 * progress, **kwargs)


def saved(module) -> io.BytesIO:
    file = io.BytesIO()
    module.save(file)
    file.seek(0)
    return file


@pytest.mark.parametrize("family, name, actions", CASES)
def test_policies_and_their_parts_are_what_was_saved(family, name, actions):
    policy = make(family, name, actions)
    obs = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    parts = [getattr(policy, part) for part in PARTS if hasattr(policy, part)]
    for network in [policy, *(part for part in parts if part is not None)]:
        loaded = type(network).load(saved(network), device="cpu")
        values = zip(network.state_dict().items(), loaded.state_dict().items(), strict=True)
        assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in values)
        if hasattr(network, "predict"):
            expected, _ = policy.predict(obs, deterministic=True)
            actions_of_part, _ = loaded.predict(obs, deterministic=True)
            if network is policy or "target" not in str(network.recipe.part):
                np.testing.assert_array_equal(actions_of_part, expected)
                assert actions_of_part.dtype == expected.dtype


def test_path_of_a_policy_is_taken_as_it_is(tmp_path):
    make("squashed", "MlpPolicy", BOX).actor.save(tmp_path / "actor.pkl")
    assert [path.name for path in tmp_path.iterdir()] == ["actor.pkl"]
    assert type(make("squashed", "MlpPolicy", BOX).actor).load(str(tmp_path / "actor.pkl")).squash_output


def test_classes_of_the_caller_are_handed_over():
    policy = make("actor_critic", "MlpPolicy", BOX, features_extractor_class=Halved)
    file = saved(policy)
    with pytest.raises(CheckpointError, match="hand it over: custom_objects"):
        ActorCriticPolicy.load(file)
    file.seek(0)
    loaded = ActorCriticPolicy.load(file, custom_objects={"features_extractor_class": Halved})
    assert isinstance(loaded.features_extractor, Halved)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"\xff" * 64, b"\x02" + bytes(7) + b"{}"])
def test_other_files_are_refused_with_what_reads_them(content):
    with pytest.raises(CheckpointError, match=r"a model \(\.zip\) is read by the algorithm"):
        ActorCriticPolicy.load(io.BytesIO(content))


def test_file_of_another_network_is_refused():
    file = saved(make("deterministic", "MlpPolicy", BOX).critic)
    with pytest.raises(CheckpointError, match="holds a Critics, not a Actor"):
        Actor.load(file)


def test_part_without_a_policy_is_not_saved():
    actor = Actor(VECTOR, spaces.Box(-1, 1, (2,)), [4], FlattenExtractor(VECTOR), 3)
    with pytest.raises(UserError, match="no policy made"):
        actor.save(io.BytesIO())


def test_parameters_as_a_vector_are_set_in_place():
    policy = make("squashed", "MlpPolicy", BOX)
    before = [parameter.data_ptr() for parameter in policy.parameters()]
    vector = policy.parameters_to_vector()
    policy.load_from_vector(2 * vector)
    np.testing.assert_array_equal(policy.parameters_to_vector(), 2 * vector)
    assert [parameter.data_ptr() for parameter in policy.parameters()] == before
    with pytest.raises(WrongParameters, match="has 3 numbers"):
        policy.load_from_vector(np.zeros(3))


def test_noise_of_a_gsde_actor_has_its_deviations():
    actor = make("squashed", "MlpPolicy", BOX, use_sde=True, log_std_init=-1.0).actor
    torch.testing.assert_close(actor.get_std(), torch.full((256, 2), float(np.exp(-1))))
    mean, log_std, keywords = actor.get_action_dist_params(torch.zeros(4, 3))
    assert mean.shape == (4, 2) and log_std is actor.log_std and keywords["latent_sde"].shape == (4, 256)
    with pytest.raises(AssertionError, match="use_sde=True"):
        make("squashed", "MlpPolicy", BOX).actor.get_std()


def test_base_model_extracts_features_of_arrays():
    model = BaseModel(VECTOR, BOX, features_extractor=FlattenExtractor(VECTOR))
    obs, vectorized = model.obs_to_tensor(np.zeros(3, np.float32))
    assert model.extract_features(obs).shape == (1, 3) and not vectorized
