"""Policies that remember: on every space, in every arrangement of LSTMs, and with the old keywords."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.buffers.sequences import Sequences
from rlzoo.core.errors import UserError
from rlzoo.networks.lstm import LSTM, LayerNormLSTM
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class
from rlzoo.policies.recurrent_policies import (
    CnnLnLstmPolicy,
    LstmPolicy,
    MlpLnLstmPolicy,
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)

IMAGE = spaces.Box(0, 255, (3, 36, 40), np.uint8)
VECTOR = spaces.Box(-1, 1, (4,))
OBSERVATIONS = {
    "vector": (RecurrentActorCriticPolicy, VECTOR),
    "ln_vector": (MlpLnLstmPolicy, VECTOR),
    "discrete": (RecurrentActorCriticPolicy, spaces.Discrete(5, start=2)),
    "image": (RecurrentActorCriticCnnPolicy, IMAGE),
    "ln_image": (CnnLnLstmPolicy, IMAGE),
    "dict": (RecurrentMultiInputActorCriticPolicy, spaces.Dict(image=IMAGE, vector=VECTOR)),
}
ACTIONS = {
    "box": spaces.Box(-2, 2, (3,)),
    "discrete": spaces.Discrete(4),
    "shifted": spaces.Discrete(3, start=-1),
    "multi_discrete": spaces.MultiDiscrete([2, 5]),
    "multi_binary": spaces.MultiBinary(3),
}
ARRANGEMENTS = {
    "own": {},
    "layers": {"n_lstm_layers": 2},
    "actor's": {"shared_lstm": True, "enable_critic_lstm": False},
    "none": {"enable_critic_lstm": False},
    "both's": {"net_arch": [7, "lstm", {"vf": [5, 10], "pi": [10]}]},
    "apart": {"share_features_extractor": False},
    "normalised": {"layer_norm": True},
}


def make(policy_class=RecurrentActorCriticPolicy, observations=VECTOR, actions=ACTIONS["discrete"], **kwargs):
    torch.manual_seed(0)
    kwargs = {"lstm_hidden_size": 6, **kwargs}
    return policy_class(observations, actions, lambda progress: 1e-3 * progress, **kwargs)


def batch(space, n=5):
    rows = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([row[key] for row in rows]) for key in space.spaces}
    return np.stack(rows)


def rows_of(obs, index):
    return {key: value[index] for key, value in obs.items()} if isinstance(obs, dict) else obs[index]


@pytest.mark.parametrize("observations", OBSERVATIONS)
@pytest.mark.parametrize("actions", ACTIONS)
def test_every_pair_of_spaces(observations, actions):
    policy_class, obs_space = OBSERVATIONS[observations]
    action_space = ACTIONS[actions]
    policy = make(policy_class, obs_space, action_space)
    observation = batch(obs_space)
    obs, _ = policy.obs_to_tensor(observation)
    rnn_state = policy.initial_state(5)
    taken, values, log_prob, after = policy.step(obs, rnn_state, torch.zeros(5, dtype=torch.bool))
    assert taken.shape == (5, *action_space.shape) and values.shape == log_prob.shape == (5,)
    assert {name: value.shape for name, value in after.items()} == {
        name: value.shape for name, value in rnn_state.items()
    }
    again = policy.evaluate_actions(obs, taken, rnn_state=rnn_state)
    assert torch.allclose(again[0].flatten(), values, atol=1e-5)
    assert torch.allclose(again[1], log_prob, atol=1e-4) and again[2].shape == (5,)
    assert torch.allclose(policy.predict_values(obs, rnn_state=rnn_state).flatten(), values, atol=1e-5)
    entropy = policy.get_distribution(obs, rnn_state=rnn_state).entropy()
    assert torch.allclose(entropy, again[2], atol=1e-5)
    executed, state = policy.predict(observation)
    assert all(action_space.contains(action) for action in executed)
    assert [part.shape for part in state] == [(1, 5, 6)] * 2
    single, state = policy.predict(obs_space.sample(), deterministic=True)
    assert action_space.contains(single if single.shape else single.astype(action_space.dtype)[()])
    assert [part.shape for part in state] == [(1, 1, 6)] * 2


# What a row is read with


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_sequences_give_what_steps_give(arrangement):
    """Two environments, seven steps; episodes start amid the rollout, and rnn_state comes from before it."""
    policy = make(actions=ACTIONS["box"], **ARRANGEMENTS[arrangement])
    n_steps, n_envs = 7, 2
    episode_starts = np.zeros((n_steps, n_envs), bool)
    episode_starts[3, 0] = episode_starts[0, 1] = episode_starts[6, 1] = True
    obs = torch.randn(n_steps, n_envs, 4)
    rnn_state = {name: torch.randn_like(value) for name, value in policy.initial_state(n_envs).items()}
    before, steps = [], []
    with torch.no_grad():
        for t in range(n_steps):
            before.append(rnn_state)
            *step, rnn_state = policy.step(obs[t], rnn_state, torch.tensor(episode_starts[t]))
            steps.append(step)
    actions, values, log_probs = (torch.stack(parts).flatten(0, 1) for parts in zip(*steps, strict=True))

    starts = episode_starts.copy()
    starts[0] = True
    rows = np.arange(n_steps * n_envs).reshape(n_steps, n_envs).T.ravel()
    firsts = [(t, e) for e in range(n_envs) for t in range(n_steps) if starts[t, e]]
    initial = {
        name: torch.stack([before[t][name][e] * (not episode_starts[t, e]) for t, e in firsts])
        for name in rnn_state
    }
    sequences = Sequences(starts.T.ravel(), rows, initial, torch.device("cpu"))
    flat = obs.flatten(0, 1)
    new_values, new_log_probs, entropy = policy.evaluate_actions(flat, actions, sequences=sequences)
    torch.testing.assert_close(new_values.flatten(), values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(new_log_probs, log_probs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(policy.predict_values(flat, sequences=sequences), new_values)
    distribution = policy.get_distribution(flat, sequences=sequences)
    torch.testing.assert_close(distribution.log_prob(actions), new_log_probs)
    torch.testing.assert_close(distribution.entropy(), entropy)
    # and the values of what follows go one step on from what was remembered, forgetting nothing
    following = policy.predict_values(obs[0], rnn_state=rnn_state).flatten()
    *_, expected, _, _ = policy.step(obs[0], rnn_state, torch.zeros(n_envs, dtype=torch.bool))
    torch.testing.assert_close(following, expected)


def test_without_memory_or_sequences_each_row_starts_an_episode():
    policy = make()
    obs, actions = torch.randn(5, 4), torch.arange(5) % 4
    fresh = policy.initial_state(5)
    shape = policy.lstm_hidden_state_shape  # of the state of one environment
    assert (
        policy.predict(obs[0].numpy())[1][0].shape
        == shape
        == (policy.n_lstm_layers, 1, policy.lstm_output_dim)
    )
    for mine, other in zip(
        policy.evaluate_actions(obs, actions),
        policy.evaluate_actions(obs, actions, rnn_state=fresh),
        strict=True,
    ):
        assert torch.equal(mine, other)
    assert torch.equal(policy.predict_values(obs), policy.predict_values(obs, rnn_state=fresh))
    acted = policy.act(obs, deterministic=True)
    np.testing.assert_array_equal(acted.numpy(), policy.predict(obs.numpy(), deterministic=True)[0])
    actions, values, log_probs = policy(obs, deterministic=True)
    assert torch.equal(values, policy.predict_values(obs)) and values.shape == (5, 1)
    assert torch.equal(log_probs, policy.evaluate_actions(obs, actions)[1])


def test_distributions_handed_out_stay_as_they_were():
    policy = make(actions=ACTIONS["box"])
    first = policy.get_distribution(torch.zeros(1, 4))
    mean = first.mode().clone()
    policy.get_distribution(torch.ones(1, 4))
    assert torch.equal(first.mode(), mean)


# predict and its state


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_predict_goes_on_from_its_state(arrangement):
    policy = make(actions=ACTIONS["box"], **ARRANGEMENTS[arrangement])
    obs = np.random.default_rng(0).normal(size=(4, 3, 4)).astype(np.float32)
    rnn_state, state = policy.initial_state(3), None
    starts = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]], bool)
    for t in range(4):
        expected, _, _, rnn_state = policy.step(
            torch.tensor(obs[t]), rnn_state, torch.tensor(starts[t]), deterministic=True
        )
        actions, state = policy.predict(obs[t], state, starts[t], deterministic=True)
        np.testing.assert_allclose(actions, expected.detach().clamp(-2, 2), atol=1e-6)
        np.testing.assert_allclose(state[0].swapaxes(0, 1), rnn_state["lstm_actor_h"].detach(), atol=1e-6)
        np.testing.assert_allclose(state[1].swapaxes(0, 1), rnn_state["lstm_actor_c"].detach(), atol=1e-6)


def test_a_list_of_dones_is_as_good():
    policy = make(actions=ACTIONS["box"])
    obs = np.ones((2, 4), np.float32)
    _, state = policy.predict(obs)
    forgotten, _ = policy.predict(obs, state, [True, False], deterministic=True)
    fresh, _ = policy.predict(obs, deterministic=True)
    remembered, _ = policy.predict(obs, state, deterministic=True)
    np.testing.assert_array_equal(forgotten[0], fresh[0])
    np.testing.assert_array_equal(forgotten[1], remembered[1])
    assert (remembered[0] != fresh[0]).any()


def test_a_state_of_other_environments_is_refused():
    policy = make()
    obs = np.zeros((2, 4), np.float32)
    _, state = policy.predict(obs)
    with pytest.raises(
        UserError, match=r"the state of 1 environment is a pair of arrays of shape \(1, 1, 6\)"
    ):
        policy.predict(obs[0], state)
    with pytest.raises(UserError, match="episode_start has 3 entries for 2 observations"):
        policy.predict(obs, state, [False] * 3)


def test_predict_works_in_evaluation_mode():
    policy = make(n_lstm_layers=2, lstm_kwargs={"dropout": 0.9})
    obs = np.ones((1, 4), np.float32)
    first, second = (policy.predict(obs, deterministic=True)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not policy.training


# Arrangements


def names(policy):
    return {name.partition(".")[0] for name, _ in policy.named_parameters()}


def gradients(policy, loss):
    """The modules that a loss trains."""
    policy.zero_grad()
    loss.backward()
    return {
        name.partition(".")[0]
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().sum() > 0
    }


@pytest.mark.parametrize(
    ("arrangement", "modules", "trained_by_critic"),
    [
        ("own", {"lstm_actor", "lstm_critic"}, {"lstm_critic"}),
        ("actor's", {"lstm_actor"}, set()),
        ("none", {"lstm_actor", "critic"}, {"critic"}),
        ("both's", {"before_lstm", "lstm_actor"}, {"before_lstm", "lstm_actor"}),
    ],
)
def test_who_has_which_lstm_and_who_trains_it(arrangement, modules, trained_by_critic):
    policy = make(**ARRANGEMENTS[arrangement])
    heads = {"mlp_extractor", "action_net", "value_net"}
    assert names(policy) == modules | heads
    values, log_prob, _ = policy.evaluate_actions(torch.randn(5, 4), torch.arange(5) % 4)
    assert gradients(policy, values.sum()) == trained_by_critic | {"mlp_extractor", "value_net"}
    values, log_prob, _ = policy.evaluate_actions(torch.randn(5, 4), torch.arange(5) % 4)
    actors = {"before_lstm"} & modules | {"lstm_actor"}
    assert gradients(policy, log_prob.sum()) == actors | {"mlp_extractor", "action_net"}


def test_names_and_shapes_are_those_of_the_older_library():
    shapes = {name: tuple(value.shape) for name, value in make(n_lstm_layers=2).state_dict().items()}
    lstm = {
        "weight_ih_l0": (24, 4), "weight_hh_l0": (24, 6), "bias_ih_l0": (24,), "bias_hh_l0": (24,),
        "weight_ih_l1": (24, 6), "weight_hh_l1": (24, 6), "bias_ih_l1": (24,), "bias_hh_l1": (24,),
    }  # fmt: skip
    for owner in ("lstm_actor", "lstm_critic"):
        assert {name: shapes.pop(f"{owner}.{name}") for name in lstm} == lstm
    assert shapes.pop("mlp_extractor.policy_net.0.weight") == (64, 6)
    assert shapes.pop("mlp_extractor.value_net.2.weight") == (64, 64)
    assert shapes.pop("action_net.weight") == (4, 64) and shapes.pop("value_net.weight") == (1, 64)
    assert make(enable_critic_lstm=False).state_dict()["critic.weight"].shape == (6, 4)


def test_net_arch_around_the_lstm():
    policy = make(net_arch=[8, "lstm", {"vf": [5, 10], "pi": [10]}])
    shapes = {name: tuple(value.shape) for name, value in policy.state_dict().items() if "weight" in name}
    assert shapes["before_lstm.0.weight"] == (8, 4) and shapes["lstm_actor.weight_ih_l0"] == (24, 8)
    assert shapes["mlp_extractor.policy_net.0.weight"] == (10, 6)
    assert shapes["mlp_extractor.value_net.0.weight"] == (5, 6)
    assert shapes["mlp_extractor.value_net.2.weight"] == (10, 5)
    behind = make(net_arch=["lstm", 9])
    assert behind.mlp_extractor.has_shared_net and behind.lstm_actor.input_size == 4
    bare = make(net_arch=[8, "lstm"])
    assert bare.action_net.in_features == bare.value_net.in_features == 6


def test_layers_before_a_shared_lstm_are_orthogonal():
    weight = make(net_arch=[3, "lstm"]).before_lstm[0].weight
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(3))


def test_layer_normalised_by_class_or_keyword():
    for policy in (make(MlpLnLstmPolicy), make(layer_norm=True)):
        assert isinstance(policy.lstm_actor, LayerNormLSTM) and isinstance(policy.lstm_critic, LayerNormLSTM)
    assert isinstance(make(MlpLnLstmPolicy, layer_norm=False).lstm_actor, LSTM)


def test_options_reach_the_lstms():
    policy = make(n_lstm_layers=2, lstm_kwargs={"dropout": 0.25, "bias": False})
    for lstm in (policy.lstm_actor, policy.lstm_critic):
        assert (lstm.dropout, lstm.bias, lstm.num_layers, lstm.hidden_size) == (0.25, False, 2, 6)
    assert make(lstm_hidden_size=9).lstm_actor.hidden_size == 9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shared_lstm": True}, "for a shared one set enable_critic_lstm=False"),
        ({"lstm_hidden_size": 0}, "lstm_hidden_size must be a positive integer, not 0"),
        ({"n_lstm_layers": 1.5}, "n_lstm_layers must be a positive integer, not 1.5"),
        ({"lstm_kwargs": {"dropuot": 0.1}}, "unknown entry of lstm_kwargs 'dropuot'; did you mean 'dropout'"),
        ({"lstm_kwargs": {"bidirectional": True}}, "unknown entry of lstm_kwargs 'bidirectional'"),
        ({"lstm_kwargs": 3}, "lstm_kwargs must be a mapping"),
        ({"net_arch": [8, "lstm", "lstm"]}, "net_arch has one 'lstm', for several layers set n_lstm_layers"),
        ({"net_arch": ["lstm", 0]}, "a layer width in net_arch must be a positive integer"),
        (
            {"net_arch": ["lstm"], "enable_critic_lstm": False},
            "'lstm' in net_arch is one LSTM that actor and",
        ),
        ({"net_arch": ["lstm"], "share_features_extractor": False}, "leave share_features_extractor=True"),
    ],
)
def test_mistakes_are_named(options, text):
    with pytest.raises(UserError, match=text) as error:
        make(**options)
    assert "\n" not in str(error.value)


# Old keywords


def test_old_keywords_are_translated_with_a_notice():
    with pytest.warns(UserWarning, match="'n_lstm' is now 'lstm_hidden_size': 32"):
        assert policy_keywords(MlpLnLstmPolicy, {"n_lstm": 32}) == {"lstm_hidden_size": 32}
    with pytest.warns(UserWarning, match=r"'layers' is now 'net_arch': \[16, 8, 'lstm'\]"):
        keywords = policy_keywords(RecurrentActorCriticPolicy, {"layers": [16, 8], "layer_norm": True})
    assert keywords == {"net_arch": [16, 8, "lstm"], "layer_norm": True}


def test_old_keywords_without_an_lstm_to_mean_are_unknown():
    policy_class = get_policy_class("actor_critic", "MlpPolicy")
    with pytest.raises(UserError, match="unknown policy keyword 'n_lstm'"):
        policy_keywords(policy_class, {"n_lstm": 32})


def test_a_policy_of_ones_own_with_old_keywords():
    class CustomLSTMPolicy(LstmPolicy):
        def __init__(self, *args, n_lstm=12, **kwargs):
            super().__init__(
                *args,
                n_lstm=n_lstm,
                net_arch=[8, "lstm", {"vf": [5, 10], "pi": [10]}],
                layer_norm=True,
                feature_extraction="mlp",
                **kwargs,
            )

    with pytest.warns(UserWarning, match="'n_lstm' is now|'feature_extraction' is now"):
        policy = CustomLSTMPolicy(VECTOR, ACTIONS["discrete"], lambda progress: 1e-3)
    assert isinstance(policy.lstm_actor, LayerNormLSTM) and policy.lstm_actor.hidden_size == 12


# Names


NAMES = {
    "MlpLstmPolicy": RecurrentActorCriticPolicy,
    "CnnLstmPolicy": RecurrentActorCriticCnnPolicy,
    "MultiInputLstmPolicy": RecurrentMultiInputActorCriticPolicy,
    "MlpLnLstmPolicy": MlpLnLstmPolicy,
    "CnnLnLstmPolicy": CnnLnLstmPolicy,
}


@pytest.mark.parametrize("family", ["actor_critic", "recurrent"])
@pytest.mark.parametrize("name", NAMES)
def test_policies_are_found_by_name_and_class(family, name):
    assert get_policy_class(family, name) is get_policy_class(family, NAMES[name]) is NAMES[name]


@pytest.mark.parametrize("policy", ["MlpPolicy", get_policy_class("actor_critic", "CnnPolicy")])
def test_feedforward_policy_is_refused_by_recurrent_ppo(policy):
    with pytest.raises(UserError, match=r"is not recurrent.*such as MlpLstmPolicy") as error:
        get_policy_class("recurrent", policy)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("family", ["feed_forward", "q_network", "squashed"])
@pytest.mark.parametrize("policy", ["MlpLstmPolicy", RecurrentActorCriticPolicy])
def test_recurrent_policy_is_refused_by_other_algorithms(family, policy):
    with pytest.raises(UserError, match=r"is recurrent.*ppo, a2c") as error:
        get_policy_class(family, policy)
    assert "\n" not in str(error.value)
