"""Policies written for stable-baselines3 act by the methods that they override."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlzoo import (
    A2C,
    ARS,
    DDPG,
    PPO,
    SAC,
    TD3,
    TQC,
    TRPO,
    Actor,
    BaseFeaturesExtractor,
    BaseModel,
    ContinuousCritic,
    MaskableActorCriticPolicy,
    MaskablePPO,
    RecurrentPPO,
    ReplayBuffer,
    RolloutBuffer,
    SquashedGaussianActor,
    UserError,
)
from rlzoo.distributions import Categorical
from rlzoo.networks.torch_layers import create_mlp, get_actor_critic_arch
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.policies.continuous_policies import SACPolicy, TD3Policy, TQCPolicy
from rlzoo.policies.critics import QuantileCritic
from rlzoo.policies.recurrent_policies import RecurrentActorCriticPolicy


class InvalidActions(gym.Env):
    """Two actions, both valid, and episodes of four steps."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == 4, False, {}

    def action_masks(self):
        return np.array([True, True])


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


def first_actions(policy, obs, *arguments, **context):
    """A `forward` that takes the first action."""
    actions, *others = super(type(policy), policy).forward(obs, *arguments, **context)
    return torch.zeros_like(actions), *others


@pytest.mark.parametrize(
    ("learner", "base", "policy_kwargs"),
    [
        (PPO, ActorCriticPolicy, {}),
        (MaskablePPO, MaskableActorCriticPolicy, {}),
        (RecurrentPPO, RecurrentActorCriticPolicy, {"lstm_hidden_size": 4}),
    ],
)
def test_forward_does_not_change_predictions(learner, base, policy_kwargs):
    Own = type("Own", (base,), {"forward": first_actions})
    model = learner(Own, InvalidActions(), n_steps=16, batch_size=16, policy_kwargs=policy_kwargs).learn(16)
    if learner is not RecurrentPPO:
        assert not model.rollout_buffer.actions.any()
    with torch.no_grad():
        model.policy.action_net.bias.copy_(torch.tensor([0.0, 50.0]))
    for deterministic in (True, False):
        actions, _ = model.predict(np.zeros((4, 2), np.float32), deterministic=deterministic)
        assert actions.tolist() == [1] * 4


def test_own_predict_is_kept_where_forward_is_overridden():
    class Ones(ActorCriticPolicy):
        def _predict(self, observation, deterministic=False):
            return torch.ones(len(observation), dtype=torch.int64)

    model = PPO(type("Own", (Ones,), {"forward": first_actions}), "CartPole-v1")
    assert model.predict(np.zeros((5, 4), np.float32))[0].tolist() == [1] * 5


def test_get_distribution_predicts_where_forward_is_overridden():
    class Own(ActorCriticPolicy):
        forward = first_actions

        def get_distribution(self, obs):
            return Categorical(2).proba_distribution(torch.tensor([[0.0, 99.0]]).expand(len(obs), 2))

    model = PPO(Own, "CartPole-v1", n_steps=16, batch_size=16).learn(16)
    assert not model.rollout_buffer.actions.any()
    assert model.predict(np.zeros((5, 4), np.float32))[0].tolist() == [1] * 5


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


def test_maskable_policy_predicts_by_its_get_distribution():
    class Own(MaskableActorCriticPolicy):
        def get_distribution(self, obs, action_masks=None):
            found = super().get_distribution(obs, action_masks)
            return found.apply_masking(torch.tensor([[True, False]]).expand(len(obs), 2))

    model = MaskablePPO(Own, InvalidActions(), n_steps=16, batch_size=16).learn(16)
    masks = np.array([[True, True]] * 4)
    assert model.predict(np.zeros((4, 2), np.float32), action_masks=masks)[0].tolist() == [0] * 4


def test_own_act_of_a_maskable_policy_decides():
    class Own(MaskableActorCriticPolicy):
        def get_distribution(self, obs, action_masks=None):
            raise AssertionError

        def act(self, obs, deterministic=False, action_masks=None):
            return torch.ones(len(obs), dtype=torch.int64)

    model = MaskablePPO(Own, InvalidActions())
    assert model.predict(np.zeros((3, 2), np.float32))[0].tolist() == [1] * 3


@pytest.mark.parametrize(("learner", "base"), [(SAC, SACPolicy), (TD3, TD3Policy)])
def test_own_build_makes_the_networks(learner, base):
    class Own(base):
        def _build(self, lr_schedule):
            super()._build(lr_schedule)
            self.further = nn.Linear(2, int(1000 * lr_schedule(1.0)))

    model = learner(Own, "Pendulum-v1", learning_rate=0.003, learning_starts=8, buffer_size=100).learn(16)
    assert model.policy.further.out_features == 3 and model.n_updates > 0
    assert not any(parameter.requires_grad for parameter in model.critic_target.parameters())


def test_build_may_make_networks_of_its_own():
    class Small(nn.Module):
        def __init__(self, n_inputs):
            super().__init__()
            self.net = nn.Linear(n_inputs, 1)

        def forward(self, obs, *actions):
            out = self.net(torch.cat([obs, *actions], dim=1))
            return (out,) if actions else out.tanh()

    class Own(TD3Policy):
        def _build(self, lr_schedule):
            self.actor, self.actor_target = Small(3), Small(3)
            self.critic, self.critic_target = Small(4), Small(4)
            self.actor_target.load_state_dict(self.actor.state_dict())
            self.critic_target.load_state_dict(self.critic.state_dict())

    model = TD3(Own, "Pendulum-v1", learning_starts=8, batch_size=8, buffer_size=100)
    before = [p.clone() for p in (*model.actor.parameters(), *model.critic.parameters())]
    model.learn(24)
    after = [*model.actor.parameters(), *model.critic.parameters()]
    assert type(model.actor).__name__ == "Small"
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("share", [True, False])
def test_shared_features_of_critics_are_the_actors(share):
    kwargs = {"features_extractor_class": Two, "share_features_extractor": share, "net_arch": [8]}
    model = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, learning_starts=10).learn(20)
    same = model.critic.features_extractor is model.actor.features_extractor
    assert same is share and isinstance(model.actor.features_extractor, Two)


@pytest.mark.parametrize("name", ["_wrap_env", "_sample_action", "_on_step", "_update_learning_rate"])
def test_methods_that_are_never_called_are_refused(name):
    own = type("Own", (PPO,), {name: lambda self: None})
    with pytest.raises(UserError, match=rf"Own overrides {name}\(\), which rlzoo never calls; override "):
        own("MlpPolicy", "CartPole-v1")


def test_train_of_an_algorithm_without_gradient_steps_is_refused():
    own = type("Own", (ARS,), {"train": lambda self: None})
    with pytest.raises(UserError, match=r"overrides train\(\).*update\(batch, counters\)"):
        own("MlpPolicy", "CartPole-v1")


class OwnActor(SquashedGaussianActor):
    """Moves every mean by one."""

    def get_action_dist_params(self, obs):
        mean, log_std, keywords = super().get_action_dist_params(obs)
        return mean + 1, log_std, keywords


class OwnCritic(ContinuousCritic):
    """Has another network for each critic."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        width = self.q_networks[0][0].in_features
        self.q_networks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(3)
        )


class PlainCritic(BaseModel):
    """Derived from no critic."""

    def __init__(self, observation_space, action_space, features_extractor, features_dim, **others):
        super().__init__(observation_space, action_space, features_extractor=features_extractor)
        width = features_dim + action_space.shape[0]
        self.first_net, self.second_net = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, obs, actions):
        inputs = torch.cat([self.extract_features(obs, self.features_extractor), actions], dim=1)
        return self.first_net(inputs), self.second_net(inputs)


@pytest.mark.parametrize("shared", [False, True])
def test_policies_tell_what_their_networks_are_made_of(shared):
    policy_kwargs = {"share_features_extractor": shared, "net_arch": [8]}
    policy = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=policy_kwargs).policy
    assert policy.critic.share_features_extractor is shared
    assert policy.net_args.items() < policy.actor_kwargs.items() and policy.net_args["net_arch"] == [8]


def policy_with(base, critic):
    class Own(base):
        def make_critic(self, features_extractor=None):
            kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
            return critic(**kwargs).to(self.device)

    return Own


@pytest.mark.parametrize("critic", [OwnCritic, PlainCritic, ContinuousCritic])
@pytest.mark.parametrize(("learner", "base"), [(SAC, SACPolicy), (TD3, TD3Policy), (DDPG, TD3Policy)])
def test_own_critics_are_trained(learner, base, critic, tmp_path):
    kwargs = {
        "learning_starts": 10,
        "batch_size": 16,
        "gradient_steps": 2,
        "policy_kwargs": {"net_arch": [8]},
    }
    model = learner(policy_with(base, critic), "Pendulum-v1", seed=0, **kwargs)
    assert type(model.critic) is critic is type(model.critic_target)
    before = [parameter.detach().clone() for parameter in model.critic.parameters()]
    model.learn(40)
    changed = [not torch.equal(a, b) for a, b in zip(before, model.critic.parameters(), strict=True)]
    used = [
        name for name, _ in model.critic.named_parameters() if critic is not OwnCritic or "q_networks" in name
    ]
    assert sum(changed) == len(used)
    obs, actions = torch.randn(5, 3), torch.randn(5, 1)
    values = model.critic(obs, actions)
    assert isinstance(values, tuple) and torch.equal(
        torch.stack(values), model.critic.all_values(obs, actions)
    )
    torch.testing.assert_close(model.critic.first_values(obs, actions), values[0])


@pytest.mark.parametrize(
    "setting", [{"enable_popart": True, "normalize_returns": True}, {"critic_l2_reg": 0.1}]
)
def test_ddpg_refuses_settings_that_own_critics_cannot_follow(setting):
    message = "needs the critics that rlzoo makes; the last layer of PlainCritic is not known"
    with pytest.raises(UserError, match=f"{next(iter(setting))} {message}"):
        DDPG(policy_with(TD3Policy, PlainCritic), "Pendulum-v1", **setting)


def test_critic_that_returns_no_tuple_is_told():
    class Single(PlainCritic):
        def forward(self, obs, actions):
            return super().forward(obs, actions)[0]

    model = SAC(policy_with(SACPolicy, Single), "Pendulum-v1", learning_starts=10)
    with pytest.raises(UserError, match=r"Single must return a tuple .* not a tensor of shape \(256, 1\)"):
        model.learn(20)


def test_own_critics_do_without_the_dropout_of_others():
    own = policy_with(SACPolicy, OwnCritic)
    model = SAC(own, "Pendulum-v1", learning_starts=10, policy_kwargs={"dropout": 0.1, "net_arch": [8]})
    assert model.learn(20).n_updates == 10


def test_own_critics_share_the_extractor_of_the_actor():
    kwargs = {"share_features_extractor": True, "features_extractor_class": Two, "net_arch": [8]}
    own = policy_with(SACPolicy, PlainCritic)
    model = SAC(own, "Pendulum-v1", learning_starts=10, policy_kwargs=kwargs).learn(20)
    assert model.critic.features_extractor is model.actor.features_extractor
    assert not {*map(id, model.critic.trainable_parameters())} & {*map(id, model.actor.parameters())}


def test_separate_critics_learn_as_the_joined_ones():
    models = []
    for policy in (policy_with(SACPolicy, ContinuousCritic), "MlpPolicy"):
        model = SAC(
            policy, "Pendulum-v1", seed=0, learning_starts=20, batch_size=32, policy_kwargs={"net_arch": [16]}
        )
        models.append(model)
    names = [(f"qf{i}.{k}.{kind}") for i in range(2) for k in (0, 2) for kind in ("weight", "bias")]
    state = {name: value.clone() for name, value in models[1].critic.state_dict().items()}
    for name in ("critic", "critic_target"):
        getattr(models[0], name).load_state_dict({key: state[key] for key in names}, strict=True)
    models[0].actor.load_state_dict(models[1].actor.state_dict())
    for model in models:
        model.set_random_seed(3)
        model.learn(60)
    ours, joined = (model.critic.state_dict() for model in models)
    for name in names:
        torch.testing.assert_close(ours[name], joined[name], atol=1e-5, rtol=1e-4)


def test_quantile_critics_of_ones_own_are_trained():
    own = policy_with(TQCPolicy, QuantileCritic)
    model = TQC(
        own,
        "Pendulum-v1",
        learning_starts=10,
        policy_kwargs={"n_critics": 3, "n_quantiles": 7, "net_arch": [8]},
    )
    model.learn(20)
    assert model.critic(torch.randn(4, 3), torch.randn(4, 1)).shape == (4, 3, 7)
    assert model.critic.quantiles_total == 21


def test_own_actor_gives_the_parameters_of_the_distribution():
    class Own(SACPolicy):
        def make_actor(self, features_extractor=None):
            return OwnActor(**self._update_features_extractor(self.actor_kwargs, features_extractor))

    model = SAC(Own, "Pendulum-v1", learning_starts=10, policy_kwargs={"net_arch": [8]}).learn(20)
    obs = torch.randn(6, 3)
    mean = SquashedGaussianActor.get_action_dist_params(model.actor, obs)[0] + 1
    torch.testing.assert_close(model.actor(obs, deterministic=True), torch.tanh(mean))
    assert model.policy.actor_kwargs["use_sde"] is False


def test_own_actor_of_td3_is_called():
    class Halved(Actor):
        def forward(self, obs):
            return 0.5 * super().forward(obs)

    class Own(TD3Policy):
        def make_actor(self, features_extractor=None):
            return Halved(**self._update_features_extractor(self.actor_kwargs, features_extractor))

    model = TD3(Own, "Pendulum-v1", learning_starts=10).learn(20)
    assert type(model.actor) is type(model.actor_target) is Halved
    assert np.abs(model.predict(np.full((50, 3), 100, np.float32))[0]).max() <= 1.0 + 1e-6  # half of 2


def test_subclass_that_adds_to_learn_and_predict_is_called():
    calls = []

    class Logged(PPO):
        def __init__(self, policy, env, note, **kwargs):
            super().__init__(policy, env, **kwargs)
            self.note = note

        def _setup_model(self):
            super()._setup_model()
            calls.append("setup")

        def _create_aliases(self):
            self.same = self.policy

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
    own = type("Own", (RolloutBuffer,), {"get": lambda self: None})
    with pytest.raises(UserError, match=r"overrides get\(\).*override update\(rollout, counters\)"):
        TRPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=own)


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
