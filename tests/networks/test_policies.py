"""Policies on every space, with every keyword, and with users' own parts."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.core.errors import UserError
from rlzoo.distributions import DiagGaussian, StateDependentNoise
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    MlpExtractor,
    NatureCNN,
    NetArch,
    create_mlp,
)
from rlzoo.policies.actor_critic_policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    FeedForwardPolicy,
    MultiInputActorCriticPolicy,
)
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class, policy_name, register_policy

IMAGE = spaces.Box(0, 255, (3, 36, 40), np.uint8)
VECTOR = spaces.Box(-1, 1, (4,))
OBSERVATIONS = {
    "vector": (ActorCriticPolicy, VECTOR),
    "matrix": (ActorCriticPolicy, spaces.Box(-1, 1, (2, 3))),
    "doubles": (ActorCriticPolicy, spaces.Box(-1, 1, (4,), np.float64)),
    "discrete": (ActorCriticPolicy, spaces.Discrete(5, start=2)),
    "multi_discrete": (ActorCriticPolicy, spaces.MultiDiscrete([3, 4])),
    "multi_binary": (ActorCriticPolicy, spaces.MultiBinary(6)),
    "image": (ActorCriticCnnPolicy, IMAGE),
    "dict": (
        MultiInputActorCriticPolicy,
        spaces.Dict(image=IMAGE, vector=VECTOR, kind=spaces.Discrete(3), bits=spaces.MultiBinary([2, 2])),
    ),
}
ACTIONS = {
    "box": spaces.Box(-2, 2, (3,)),
    "box2d": spaces.Box(-2, 2, (2, 2)),
    "discrete": spaces.Discrete(4),
    "shifted": spaces.Discrete(3, start=-1),
    "multi_discrete": spaces.MultiDiscrete([2, 5]),
    "multi_binary": spaces.MultiBinary(3),
}


def make(policy_class=ActorCriticPolicy, observations=VECTOR, actions=ACTIONS["discrete"], **kwargs):
    torch.manual_seed(0)
    return policy_class(observations, actions, lambda progress: 1e-3 * progress, **kwargs)


def batch(space, n=5):
    rows = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([row[key] for row in rows]) for key in space.spaces}
    return np.stack(rows)


@pytest.mark.parametrize("observations", OBSERVATIONS)
@pytest.mark.parametrize("actions", ACTIONS)
def test_every_pair_of_spaces(observations, actions):
    policy_class, obs_space = OBSERVATIONS[observations]
    action_space = ACTIONS[actions]
    policy = make(policy_class, obs_space, action_space)
    observation = batch(obs_space)
    obs, vectorized = policy.obs_to_tensor(observation)
    assert vectorized
    taken, values, log_prob = policy(obs)
    assert taken.shape == (5, *action_space.shape) and values.shape == (5, 1) and log_prob.shape == (5,)
    again = policy.evaluate_actions(obs, taken)
    assert torch.allclose(again[0], values, atol=1e-5) and torch.allclose(again[1], log_prob, atol=1e-4)
    assert again[2].shape == (5,)
    assert torch.allclose(policy.predict_values(obs), values, atol=1e-5)
    assert torch.allclose(policy.get_distribution(obs).entropy(), again[2], atol=1e-5)
    with torch.inference_mode():
        assert policy.act(obs).shape == taken.shape
    for action in policy.predict(observation)[0]:
        assert action_space.contains(action)
    single, state = policy.predict(obs_space.sample(), deterministic=True)
    assert action_space.contains(single if single.shape else single.astype(action_space.dtype)[()])
    assert state is None


@pytest.mark.parametrize("observations", ["vector", "image"])
def test_act_is_deterministic_when_asked_and_shared_passes_agree(observations):
    policy_class, obs_space = OBSERVATIONS[observations]
    policy = make(policy_class, obs_space)
    obs, _ = policy.obs_to_tensor(batch(obs_space))
    with torch.inference_mode():
        assert torch.equal(policy.act(obs, deterministic=True), policy.get_distribution(obs).mode())
        _, values, _ = policy.act_with_values(obs)
        assert torch.allclose(values, policy.predict_values(obs).flatten(), atol=1e-5)


def test_act_samples_from_the_policy():
    policy = make(ortho_init=False)
    with torch.inference_mode():
        policy.action_net.bias.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
        obs = torch.zeros(1, 4).expand(20_000, 4)
        frequencies = torch.bincount(policy.act(obs), minlength=4) / len(obs)
        expected = policy.get_distribution(obs[:1]).probs[0]
    assert torch.allclose(frequencies, expected, atol=0.015)


def test_distributions_handed_out_stay_as_they_were():
    policy = make(actions=ACTIONS["box"])
    first = policy.get_distribution(torch.zeros(1, 4))
    mean = first.mode().clone()
    policy.get_distribution(torch.ones(1, 4))
    assert torch.equal(first.mode(), mean)


class TestInitialisation:
    def test_orthogonal_gains(self):
        policy = make(ActorCriticCnnPolicy, IMAGE, net_arch=[32])
        gains = {
            policy.features_extractor.cnn[0]: math.sqrt(2),
            policy.features_extractor.linear[0]: math.sqrt(2),
            policy.mlp_extractor.policy_net[0]: math.sqrt(2),
            policy.action_net: 0.01,
            policy.value_net: 1.0,
        }
        for module, gain in gains.items():
            singular = torch.linalg.svdvals(module.weight.detach().flatten(1))
            assert torch.allclose(singular, torch.full_like(singular, gain), atol=1e-4)
            assert not module.bias.any()

    def test_parameter_names(self):
        names = set(make(actions=ACTIONS["box"]).state_dict())
        hidden = {f"mlp_extractor.{net}.{i}" for net in ("policy_net", "value_net") for i in (0, 2)}
        layers = hidden | {"action_net", "value_net"}
        assert names == {"log_std"} | {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}

    def test_two_extractors_when_not_shared(self):
        policy = make(ActorCriticCnnPolicy, IMAGE, share_features_extractor=False)
        prefixes = {name.split(".")[0] for name in policy.state_dict()}
        assert prefixes == {"pi_features_extractor", "vf_features_extractor", "action_net", "value_net"}
        assert policy.pi_features_extractor is not policy.vf_features_extractor

    def test_a_shared_extractor_is_stored_once(self):
        policy = make(ActorCriticCnnPolicy, IMAGE)
        assert {name.split(".")[0] for name in policy.state_dict()} == {
            "features_extractor",
            "action_net",
            "value_net",
        }
        assert policy.pi_features_extractor is policy.vf_features_extractor is policy.features_extractor
        twin = copy.deepcopy(policy)
        assert twin.pi_features_extractor is twin.features_extractor is not policy.features_extractor


class TestKeywords:
    """Each keyword of `policy_kwargs` has its effect."""

    def test_net_arch(self):
        policy = make(net_arch={"pi": [8], "vf": [16, 4]})
        assert policy.action_net.in_features == 8 and policy.value_net.in_features == 4
        assert make(net_arch=[24]).value_net.in_features == 24
        assert make().action_net.in_features == 64
        assert make(ActorCriticCnnPolicy, IMAGE).action_net.in_features == 512

    def test_shared_layers_before_a_dict(self):
        policy = make(net_arch=[12, {"vf": [6]}])
        assert policy.mlp_extractor.shared_net[0].out_features == 12
        assert policy.action_net.in_features == 12 and policy.value_net.in_features == 6
        obs, actions = torch.randn(5, 4), torch.zeros(5)
        values, log_prob, _ = policy.evaluate_actions(obs, actions)
        features = torch.tanh(policy.mlp_extractor.shared_net[0](obs))
        latent_vf = torch.tanh(policy.mlp_extractor.value_net[0](features))
        assert torch.allclose(values, policy.value_net(latent_vf))
        assert torch.allclose(log_prob, policy.action_net(features).log_softmax(1)[:, 0])

    def test_activation_fn(self):
        assert isinstance(make(activation_fn=nn.ELU).mlp_extractor.policy_net[1], nn.ELU)

    def test_ortho_init(self):
        singular = torch.linalg.svdvals(make(ortho_init=False).action_net.weight)
        assert not torch.allclose(singular, torch.full_like(singular, 0.01))

    def test_log_std_init(self):
        assert torch.equal(make(actions=ACTIONS["box"], log_std_init=-1.5).log_std, torch.full((3,), -1.5))

    def test_use_sde_and_full_std(self):
        policy = make(actions=ACTIONS["box"], use_sde=True, log_std_init=-2)
        assert isinstance(policy.action_dist, StateDependentNoise) and policy.log_std.shape == (64, 3)
        assert make(actions=ACTIONS["box"], use_sde=True, full_std=False).log_std.shape == (64, 1)
        obs = torch.randn(2, 4)
        with torch.inference_mode():
            policy.reset_noise(2)
            assert torch.equal(policy.act(obs), policy.act(obs))
            before = policy.act(obs)
            policy.reset_noise(2)
            assert not torch.equal(policy.act(obs), before)
        copy.deepcopy(policy)
        with pytest.raises(UserError, match="use_sde=True"):
            make().reset_noise()

    def test_use_expln(self):
        assert make(actions=ACTIONS["box"], use_sde=True, use_expln=True).action_dist.use_expln

    def test_squash_output(self):
        asymmetric = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 10.0], np.float32))
        policy = make(actions=asymmetric, use_sde=True, squash_output=True, log_std_init=2.0)
        policy.reset_noise(50)
        with torch.inference_mode():
            assert (policy.act(torch.randn(50, 4)).abs() <= 1).all()
        executed = policy.env_actions(np.array([[-1.0, 1.0], [0.0, 0.0]], np.float32))
        assert np.allclose(executed, [[-1.0, 10.0], [1.0, 5.0]])
        assert np.allclose(policy.scale_action(executed), [[-1.0, 1.0], [0.0, 0.0]])
        with pytest.raises(UserError, match="use_sde=True"):
            make(actions=asymmetric, squash_output=True)

    def test_features_extractor_class_and_kwargs(self):
        policy = make(
            ActorCriticCnnPolicy,
            IMAGE,
            features_extractor_kwargs={"features_dim": 32},
            share_features_extractor=True,
        )
        assert isinstance(policy.features_extractor, NatureCNN) and policy.features_dim == 32
        flat = make(ActorCriticCnnPolicy, IMAGE, features_extractor_class=FlattenExtractor)
        assert flat.features_dim == 3 * 36 * 40

    def test_normalize_images(self):
        image = torch.full((1, 3, 36, 40), 255, dtype=torch.uint8)
        scaled = make(observations=IMAGE).extract_features(image)
        assert torch.equal(scaled, torch.ones_like(scaled))
        raw = make(observations=IMAGE, normalize_images=False).extract_features(image)
        assert torch.equal(raw, torch.full_like(raw, 255.0))

    def test_optimizer_class_and_kwargs(self):
        policy = make(optimizer_class=torch.optim.SGD, optimizer_kwargs={"momentum": 0.5})
        assert isinstance(policy.optimizer, torch.optim.SGD)
        assert policy.optimizer.param_groups[0]["momentum"] == 0.5
        assert make().optimizer.param_groups[0]["lr"] == 1e-3
        assert make().optimizer.param_groups[0]["eps"] == 1e-5

    def test_unknown_policy_keyword_names_the_nearest(self):
        known = set(
            policy_keywords(ActorCriticCnnPolicy, {"log_std_init": 0.0, "net_arch": [8], "use_expln": True})
        )
        assert known == {"log_std_init", "net_arch", "use_expln"}
        with pytest.raises(UserError, match="did you mean 'net_arch'"):
            policy_keywords(ActorCriticCnnPolicy, {"net_archs": [8]})


class TestOldKeywords:
    def test_they_are_translated_with_a_notice(self):
        old = {"layers": [32], "act_fun": torch.relu, "feature_extraction": "cnn", "layer_norm": False}
        with pytest.warns(UserWarning) as notices:
            new = policy_keywords(ActorCriticPolicy, old)
        assert [str(notice.message) for notice in notices] == [
            "policy keyword 'layers' is now 'net_arch': [32]; "
            "policy keyword 'act_fun' is now 'activation_fn': ReLU; "
            "policy keyword 'feature_extraction' is now 'features_extractor_class': NatureCNN"
        ]
        assert new == {"net_arch": [32], "activation_fn": nn.ReLU, "features_extractor_class": NatureCNN}

    def test_cnn_extractor_must_be_a_class(self):
        with pytest.warns(UserWarning, match="features_extractor_class"):
            assert policy_keywords(ActorCriticPolicy, {"cnn_extractor": NatureCNN}) == {
                "features_extractor_class": NatureCNN
            }
        with pytest.raises(UserError, match="class derived from BaseFeaturesExtractor"):
            policy_keywords(ActorCriticPolicy, {"cnn_extractor": lambda images: images})

    def test_contradictions_and_missing_features_are_errors(self):
        with pytest.raises(UserError, match="say the same"):
            policy_keywords(ActorCriticPolicy, {"layers": [8], "net_arch": [8]})
        with pytest.raises(UserError, match="layer_norm"):
            policy_keywords(ActorCriticPolicy, {"layer_norm": True})
        with pytest.raises(UserError, match="mlp"):
            policy_keywords(ActorCriticPolicy, {"feature_extraction": "mpl"})

    def test_activations_by_name(self):
        assert policy_keywords(ActorCriticPolicy, {"activation_fn": "leaky_relu"}) == {
            "activation_fn": nn.LeakyReLU
        }
        with pytest.raises(UserError, match="did you mean 'relu'"):
            policy_keywords(ActorCriticPolicy, {"activation_fn": "rellu"})

    def test_a_policy_derived_the_old_way(self):
        class Custom(FeedForwardPolicy):
            def __init__(self, *args, **kwargs):
                super().__init__(
                    *args, **kwargs, net_arch=[{"pi": [12], "vf": [10]}], feature_extraction="mlp"
                )

        with pytest.warns(UserWarning, match="features_extractor_class"):
            policy = make(Custom)
        assert policy.action_net.in_features == 12 and policy.value_net.in_features == 10


class TestCustomParts:
    def test_extractor(self):
        class Doubled(BaseFeaturesExtractor):
            def __init__(self, observation_space, features_dim=6):
                super().__init__(observation_space, features_dim)
                self.layer = nn.Linear(observation_space.shape[0], features_dim)

            def forward(self, observations):
                return 2 * self.layer(observations)

        policy = make(features_extractor_class=Doubled, features_extractor_kwargs={"features_dim": 7})
        assert policy.mlp_extractor.policy_net[0].in_features == 7
        policy.evaluate_actions(torch.randn(5, 4), torch.zeros(5))[0].sum().backward()
        assert policy.features_extractor.layer.weight.grad.any()

    def test_mlp_extractor_hook(self):
        class OnlyOne(nn.Module):
            latent_dim_pi, latent_dim_vf = 9, 3

            def __init__(self, n_features):
                super().__init__()
                self.policy, self.value = nn.Linear(n_features, 9), nn.Linear(n_features, 3)

            def forward(self, features):
                return self.forward_actor(features), self.forward_critic(features)

            def forward_actor(self, features):
                return self.policy(features)

            def forward_critic(self, features):
                return self.value(features)

        class Custom(ActorCriticPolicy):
            def _build_mlp_extractor(self):
                self.mlp_extractor = OnlyOne(self.features_dim)

        policy = make(Custom)
        obs = torch.randn(5, 4)
        actions, values, log_prob = policy(obs)
        assert torch.allclose(values, policy.value_net(policy.mlp_extractor.value(obs)))
        assert torch.allclose(policy.evaluate_actions(obs, actions)[1], log_prob)
        assert policy.act(obs).shape == (5,)

    def test_exchanged_layers_are_used(self):
        policy, obs = make(), torch.randn(5, 4)
        with torch.no_grad():
            policy.predict_values(obs)
            policy.value_net = nn.Sequential(nn.Linear(64, 1), nn.Softplus())
            assert (policy.predict_values(obs) > 0).all()


class TestObservations:
    def test_images_with_channels_last_are_transposed(self):
        policy = make(ActorCriticCnnPolicy, IMAGE)
        images = batch(IMAGE)
        first, _ = policy.predict(images, deterministic=True)
        last, _ = policy.predict(images.transpose(0, 2, 3, 1), deterministic=True)
        assert np.array_equal(first, last)

    def test_one_observation_and_many(self):
        policy = make()
        assert policy.predict(np.zeros(4, np.float32))[0].shape == ()
        assert policy.predict(np.zeros((3, 4), np.float32))[0].shape == (3,)
        assert not policy.is_vectorized_observation(np.zeros(4))

    def test_misfits_are_named(self):
        policy = make()
        with pytest.raises(UserError, match=r"\(5,\).*does not fit"):
            policy.predict(np.zeros(5, np.float32))
        with pytest.raises(UserError, match=r"env\.reset\(\)"):
            policy.predict((np.zeros(4, np.float32), {}))
        dictionary = make(*OBSERVATIONS["dict"])
        with pytest.raises(UserError, match="keys image, vector, kind, bits"):
            dictionary.predict({"image": np.zeros((3, 36, 40), np.uint8)})

    def test_actions_are_clipped_and_shifted_for_the_environment(self):
        assert make(actions=ACTIONS["box"]).env_actions(np.full((1, 3), 9.0, np.float32)).tolist() == [
            [2.0] * 3
        ]
        assert make(actions=ACTIONS["shifted"]).env_actions(np.array([0, 2])).tolist() == [-1, 1]
        integers = make(actions=spaces.Box(-2, 2, (2,), np.int64))
        assert integers.env_actions(np.array([[-1.7, 1.6], [0.4, 9.0]])).tolist() == [[-2, 2], [0, 2]]
        assert make(actions=ACTIONS["multi_binary"]).env_actions(np.ones((2, 3), np.float32)).dtype == np.int8

    def test_predict_leaves_the_policy_in_evaluation_mode(self):
        policy = make()
        policy.set_training_mode(True)
        policy.predict(np.zeros(4, np.float32))
        assert not policy.training


class TestExtractors:
    def test_nature_cnn_is_the_published_network(self):
        cnn = NatureCNN(spaces.Box(0, 255, (4, 84, 84), np.uint8))
        shapes = [tuple(p.shape) for p in cnn.parameters() if p.dim() > 1]
        assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]

    def test_nature_cnn_gives_the_same_as_its_layers(self):
        cnn = NatureCNN(IMAGE, features_dim=8)
        images = torch.rand(3, *IMAGE.shape)
        assert torch.allclose(cnn(images), cnn.linear(cnn.cnn(images)), atol=1e-5)

    def test_nature_cnn_refuses_what_it_cannot_see(self):
        with pytest.raises(UserError, match="MlpPolicy"):
            make(ActorCriticCnnPolicy, VECTOR)
        with pytest.raises(UserError, match="36x36"):
            NatureCNN(spaces.Box(0, 255, (1, 20, 20), np.uint8))
        floats = spaces.Box(0.0, 1.0, (1, 36, 36))
        assert NatureCNN(floats, normalized_image=True)(torch.rand(2, 1, 36, 36)).shape == (2, 512)

    def test_combined_extractor_widths(self):
        extractor = CombinedExtractor(OBSERVATIONS["dict"][1])
        assert extractor.features_dim == 256 + 4 + 3 + 4
        assert CombinedExtractor(OBSERVATIONS["dict"][1], cnn_output_dim=16).features_dim == 16 + 4 + 3 + 4
        with pytest.raises(UserError, match="Dict"):
            make(MultiInputActorCriticPolicy, VECTOR)

    def test_one_hot_coding(self):
        policy = make(observations=spaces.MultiDiscrete([2, 3]))
        features = policy.extract_features(torch.tensor([[1, 2], [0, 0]]))
        assert features.tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
        shifted = make(observations=spaces.Discrete(3, start=5))
        assert shifted.extract_features(torch.tensor([6])).tolist() == [[0, 1, 0]]


def test_net_arch_as_a_list_of_one_dictionary_warns() -> None:
    with pytest.warns(UserWarning, match=r"pass the dictionary itself: net_arch=dict"):
        assert NetArch.parse([{"pi": [8], "vf": [4]}]) == NetArch((), (8,), (4,))


class TestNetArch:
    @pytest.mark.parametrize(
        ("given", "parsed"),
        [
            ([64, 32], NetArch((), (64, 32), (64, 32))),
            ({"pi": [8]}, NetArch((), (8,), ())),
            ([{"pi": [8], "vf": [4]}], NetArch((), (8,), (4,))),
            ([128, {"vf": [256]}], NetArch((128,), (), (256,))),
            ([], NetArch()),
        ],
    )
    def test_forms(self, given, parsed):
        assert NetArch.parse(given) == parsed

    @pytest.mark.parametrize(
        "wrong", [64, "64", [0], [True], [64.0], {"pi": 64}, [{"qf": [2]}], [{"vf": [1]}, 8]]
    )
    def test_mistakes(self, wrong):
        with pytest.raises(UserError):
            NetArch.parse(wrong)

    def test_create_mlp(self):
        kinds = [type(m).__name__ for m in create_mlp(3, 2, [5], nn.Tanh, squash_output=True)]
        assert kinds == ["Linear", "Tanh", "Linear", "Tanh"]
        assert len(create_mlp(3, -1, [5])) == 2
        assert create_mlp(3, 2, [], with_bias=False)[0].bias is None

    def test_mlp_extractor(self):
        extractor = MlpExtractor(3, [4, {"pi": [5]}], nn.ReLU, device="cpu")
        x = torch.randn(2, 3)
        pi, vf = extractor(x)
        assert torch.equal(pi, extractor.forward_actor(x)) and torch.equal(vf, extractor.forward_critic(x))
        assert pi.shape == (2, 5) and vf.shape == (2, 4)


class TestRegistry:
    def test_names(self):
        assert get_policy_class("actor_critic", "CnnPolicy") is ActorCriticCnnPolicy
        assert get_policy_class("actor_critic", FeedForwardPolicy) is FeedForwardPolicy
        assert policy_name("actor_critic", MultiInputActorCriticPolicy) == "MultiInputPolicy"
        with pytest.raises(UserError, match="did you mean 'MlpPolicy'"):
            get_policy_class("actor_critic", "MlpPolcy")

    def test_registering(self):
        class Registered(ActorCriticPolicy):
            pass

        register_policy("Registered", Registered)
        register_policy("Registered", Registered)
        assert get_policy_class("actor_critic", "Registered") is Registered
        assert policy_name("actor_critic", Registered) == "Registered"
        with pytest.raises(UserError, match="taken by Registered"):
            register_policy("Registered", ActorCriticPolicy)
        with pytest.raises(UserError, match="needs a class"):
            register_policy("Other", lambda: None)


def test_gaussian_policies_have_one_log_std_per_action():
    policy = make(actions=ACTIONS["box2d"])
    assert isinstance(policy.action_dist, DiagGaussian) and policy.log_std.shape == (4,)


def test_further_names_of_a_shared_extractor_are_left_out():
    policy, other = (make(ActorCriticCnnPolicy, IMAGE) for _ in range(2))
    state = policy.state_dict()
    shared = {
        key.removeprefix("features_extractor."): value
        for key, value in state.items()
        if key[:8] == "features"
    }
    for name in ("pi", "vf"):
        state |= {f"{name}_features_extractor.{key}": value for key, value in shared.items()}
    other.load_state_dict(state)
    assert len(shared) > 4 and all(
        torch.equal(a, b) for a, b in zip(policy.parameters(), other.parameters(), strict=True)
    )
    policy.vf_features_extractor = copy.deepcopy(policy.features_extractor)  # a script adds one
    policy.load_state_dict(policy.state_dict())
    with pytest.raises(RuntimeError, match="pi_features_extractr"):
        other.load_state_dict({**state, "pi_features_extractr.x": torch.zeros(1)})


def test_a_state_dict_may_name_an_extractor_twice():
    policy = ActorCriticPolicy(IMAGE, ACTIONS["discrete"], lambda _: 1e-3, share_features_extractor=False)
    state = policy.state_dict()
    pi = {key: value for key, value in state.items() if key.startswith("pi_")}
    alias = {key.removeprefix("pi_"): value for key, value in pi.items()}
    policy.load_state_dict({**state, **alias})
    assert policy.load_state_dict(alias, strict=False).unexpected_keys == list(alias)  # not dropped unseen


def test_images_of_float64_are_taken():
    policy = ActorCriticPolicy(IMAGE, ACTIONS["discrete"], lambda _: 1e-3)
    image = np.full(IMAGE.shape, 7)
    expected = policy.predict(image.astype(np.uint8), deterministic=True)[0]
    assert policy.predict(image.astype(np.float64), deterministic=True)[0] == expected
