"""Algorithms derived from OnPolicyAlgorithm and OffPolicyAlgorithm, written for stable-baselines3."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import cloudpickle
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import (
    SAC,
    BasePolicy,
    CheckpointError,
    NormalActionNoise,
    OffPolicyAlgorithm,
    OnPolicyAlgorithm,
    UnknownArgument,
    UserError,
    make_vec_env,
    polyak_update,
)
from rlzoo.policies.continuous_policies import SACPolicy


class PolicyGradient(OnPolicyAlgorithm):
    """Policy gradient with a value function as baseline, in several steps on each rollout."""

    def __init__(
        self,
        policy,
        env,
        learning_rate=1e-3,
        n_steps=16,
        gamma=0.98,
        n_passes=1,
        loss_name="mse",
        policy_kwargs=None,
        verbose=0,
        seed=None,
        device="auto",
        _init_setup_model=True,
    ):
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            gamma=gamma,
            gae_lambda=0.95,
            ent_coef=0.0,
            vf_coef=0.5,
            max_grad_norm=0.5,
            use_sde=False,
            sde_sample_freq=-1,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=False,
            supported_action_spaces=(spaces.Discrete,),
        )
        self.n_passes = n_passes
        self.value_loss = getattr(nn.functional, f"{loss_name}_loss")
        if _init_setup_model:
            self._setup_model()

    def train(self):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(self.n_passes):
            for data in self.rollout_buffer.get(batch_size=None):
                values, log_probs, _ = self.policy.evaluate_actions(data.observations, data.actions.flatten())
                advantages = (data.advantages - data.advantages.mean()) / data.advantages.std()
                loss = -(advantages * log_probs).mean()
                loss = loss + self.vf_coef * self.value_loss(values.flatten(), data.returns)
                self.policy.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
            self._n_updates += 1
        self.logger.record("train/loss", loss.item())


class SoftQ(OffPolicyAlgorithm):
    """SAC with a learned entropy coefficient and one gradient step per step."""

    policy_aliases: ClassVar = {"MlpPolicy": SACPolicy}

    def __init__(self, policy, env, learning_rate=1e-3, tau=0.01, target_scale=1.0, seed=None, **kwargs):
        _init_setup_model = kwargs.pop("_init_setup_model", True)
        super().__init__(policy, env, learning_rate, tau=tau, seed=seed, _init_setup_model=False, **kwargs)
        self.target_scale = target_scale
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self):
        super()._setup_model()
        self.log_alpha = torch.zeros(1, device=self.device, requires_grad=True)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=self.lr_schedule(1))

    def _get_torch_save_params(self):
        return ["policy", "actor.optimizer", "critic.optimizer", "alpha_optimizer"], ["log_alpha"]

    def train(self, gradient_steps, batch_size=64):
        policy, alpha = self.policy, self.log_alpha.exp().detach()
        optimizers = [self.actor.optimizer, self.critic.optimizer, self.alpha_optimizer]
        self._update_learning_rate(optimizers)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            actions, log_probs = self.actor.action_log_prob(data.observations)
            entropy_gap = log_probs.detach() - self.target_scale * np.prod(self.action_space.shape)
            self._step(self.alpha_optimizer, -(self.log_alpha * entropy_gap).mean())
            with torch.no_grad():
                following, following_log_probs = self.actor.action_log_prob(data.next_observations)
                values = torch.cat(self.critic_target(data.next_observations, following), dim=1)
                target = values.amin(dim=1, keepdim=True) - alpha * following_log_probs.reshape(-1, 1)
                target = data.rewards + (1 - data.dones) * self.gamma * target
            losses = [
                (value - target).square().mean() for value in self.critic(data.observations, data.actions)
            ]
            self._step(self.critic.optimizer, sum(losses))
            values = torch.cat(self.critic(data.observations, actions), dim=1).amin(dim=1)
            self._step(self.actor.optimizer, (alpha * log_probs.flatten() - values).mean())
            polyak_update(self.critic.parameters(), policy.critic_target.parameters(), self.tau)
        self._n_updates += gradient_steps

    @staticmethod
    def _step(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def actions_of(model, n=50):
    space = copy.deepcopy(model.observation_space)
    space.seed(0)
    return model.predict(np.stack([space.sample() for _ in range(n)]), deterministic=True)[0]


def test_an_on_policy_algorithm_learns():
    model = PolicyGradient("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=0), n_passes=2, seed=0)
    first, last = (
        np.mean([episode["l"] for episode in model.learn(n).ep_info_buffer]) for n in (1_000, 30_000)
    )
    assert first < 40 and last > 120
    assert model._n_updates == 2 * 30_080 // (16 * 8)


def test_an_off_policy_algorithm_learns_all_its_parts():
    model = SoftQ("MlpPolicy", "Pendulum-v1", seed=0, learning_starts=20, batch_size=32)
    before = copy.deepcopy(model.policy.state_dict())
    model.learn(60)
    moved = {
        name.split(".")[0]
        for name, value in model.policy.state_dict().items()
        if (value != before[name]).any()
    }
    assert moved == {"actor", "critic", "critic_target"} and model.log_alpha.item() != 0
    assert model._n_updates == 40 and len(model.replay_buffer) == 60


CASES = {
    "on-policy": (
        PolicyGradient,
        "CartPole-v1",
        {"n_passes": 3, "loss_name": "l1", "gamma": 0.9, "n_steps": 32},
    ),
    "off-policy": (SoftQ, "Pendulum-v1", {"target_scale": 0.5, "batch_size": 16, "tau": 0.1}),
}


@pytest.mark.parametrize(("cls", "env", "kwargs"), CASES.values(), ids=CASES)
def test_saved_agents_act_and_learn_on_as_before(cls, env, kwargs, tmp_path):
    model = cls("MlpPolicy", env, seed=0, **kwargs).learn(200)
    model.save(tmp_path / "model")
    loaded = cls.load(tmp_path / "model", env=env)
    np.testing.assert_array_equal(actions_of(loaded), actions_of(model))
    assert loaded.config == model.config and {name: getattr(loaded.config, name) for name in kwargs} == kwargs
    if cls is SoftQ:
        assert torch.equal(loaded.log_alpha, model.log_alpha)
        steps = [agent.alpha_optimizer.state_dict()["state"][0]["step"] for agent in (model, loaded)]
        assert steps[0] == steps[1] > 0
    assert loaded.learn(100, reset_num_timesteps=False).num_timesteps > 200
    with pytest.raises(CheckpointError, match=f"holds a {cls.__name__} agent"):
        SAC.load(tmp_path / "model")


def test_a_class_derived_from_ones_own_adds_hyperparameters(tmp_path):
    class Clipped(PolicyGradient):
        def __init__(self, policy, env, clip=5.0, **kwargs):
            super().__init__(policy, env, **kwargs)
            self.clip = clip

    Clipped("MlpPolicy", "CartPole-v1", clip=2.0, n_passes=2, seed=0).learn(64).save(tmp_path / "model")
    loaded = Clipped.load(tmp_path / "model")
    assert (loaded.clip, loaded.n_passes, loaded.n_steps) == (2.0, 2, 16)
    assert not hasattr(PolicyGradient.Config, "clip")


SIZES, NOISE = [3], np.ones(2)


class Curious(PolicyGradient):
    """Has what constructors and attributes of research code have."""

    def __init__(
        self, policy, env, *, gamma=0.9, bonus=None, sizes=SIZES, noise=NOISE, lr_schedule="x", **kwargs
    ):
        self.sizes = sizes
        super().__init__(policy, env, gamma=gamma**2, n_steps=16, **kwargs)
        self.bonus, self.doubled = bonus, noise * 2

    def _setup_model(self):
        super()._setup_model()
        self.predictor = nn.Linear(4, 2)
        self.running = torch.zeros(3)
        self.predictor_optimizer = torch.optim.Adam(self.predictor.parameters())

    def _get_torch_save_params(self):
        modules, tensors = super()._get_torch_save_params()
        return [*modules, "predictor", "predictor_optimizer"], [*tensors, "running"]

    def train(self):
        super().train()
        self.predictor(torch.ones(4)).sum().backward()
        self.predictor_optimizer.step()
        self.running += 1
        self.gained = self.bonus(2) if self.bonus else None


def test_files_hold_what_research_code_has(tmp_path):
    model = Curious("MlpPolicy", "CartPole-v1", gamma=0.9, sizes=[1, 2], n_passes=2, seed=0).learn(32)
    model.gae_lambda = 0.5
    model.save(tmp_path / "model")
    loaded = Curious.load(tmp_path / "model", env="CartPole-v1")
    assert (loaded.gamma, loaded.gae_lambda, loaded.n_steps, loaded.sizes) == (0.81, 0.5, 16, [1, 2])
    assert loaded.lr_schedule(1.0) == loaded.learning_rate and loaded.doubled.tolist() == [2.0, 2.0]
    assert torch.equal(loaded.predictor.weight, model.predictor.weight)
    assert loaded.running.tolist() == [2.0] * 3 and loaded.config.lr_schedule == "x"
    assert loaded.predictor_optimizer.state_dict()["state"][0]["step"] == 2
    assert Curious.load(tmp_path / "model", gae_lambda=0.3).gae_lambda == 0.3
    with pytest.raises(UnknownArgument, match="did you mean 'gamma'"):
        Curious.load(tmp_path / "model", gama=0.3)
    copied = pickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(actions_of(copied), actions_of(model))


def test_functions_among_the_arguments_are_asked_for(tmp_path):
    model = Curious("MlpPolicy", "CartPole-v1", bonus=lambda reward: 5 * reward).learn(16)
    assert model.gained == 10
    model.save(tmp_path / "model")
    loaded = Curious.load(tmp_path / "model", env="CartPole-v1")
    with pytest.raises(UserError, match="bonus"):
        loaded.learn(16)
    given = {"bonus": lambda reward: 7 * reward}
    assert Curious.load(tmp_path / "model", env="CartPole-v1", custom_objects=given).learn(16).gained == 14


class WithBonus:
    """A mixin with an argument."""

    def __init__(self, *args, bonus=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.bonus = bonus


class Mixed(WithBonus, PolicyGradient):
    """An algorithm with a mixin."""


def test_arguments_of_mixins_are_saved(tmp_path):
    Mixed("MlpPolicy", "CartPole-v1", bonus=5, n_passes=3).save(tmp_path / "model")
    loaded = Mixed.load(tmp_path / "model")
    assert (loaded.bonus, loaded.n_passes) == (5, 3)


def test_what_no_file_can_hold_is_left_out_with_a_warning(tmp_path):
    model = Curious("MlpPolicy", "CartPole-v1", sizes={1, 2})
    with pytest.warns(UserWarning, match="sizes, a set, is not saved"):
        model.save(tmp_path / "model")
    assert Curious.load(tmp_path / "model").sizes == [3]


def test_names_of_the_attributes_of_agents_are_refused():
    def constructor(self, policy, env, config=None):
        """Take a config."""

    with pytest.raises(UserError, match="Own: rename the parameter 'config'"):
        type("Own", (OnPolicyAlgorithm,), {"__init__": constructor, "__module__": __name__})


class Bandit(BasePolicy):
    """A policy with parameters and an optimiser of its own."""

    def __init__(self, observation_space, action_space, lr_schedule, **kwargs):
        super().__init__(observation_space, action_space, **kwargs)
        self.preferences = nn.Linear(1, int(action_space.n), bias=False)
        self.optimizer = torch.optim.SGD(self.preferences.parameters(), lr=lr_schedule(1))

    def _predict(self, observation, deterministic=False):
        preferences = self.preferences(torch.ones(len(observation), 1))
        return torch.distributions.Categorical(logits=preferences).sample()


class Prefer(OffPolicyAlgorithm):
    """Makes the action 1 more likely, whatever happens."""

    def __init__(self, policy, env, **kwargs):
        super().__init__(policy, env, sde_support=False, support_multi_env=True, **kwargs)

    def train(self, gradient_steps, batch_size):
        assert set(self.replay_buffer.sample(batch_size).actions.flatten().tolist()) <= {0, 1}
        self.policy.optimizer.zero_grad()
        self.policy.preferences.weight[0].sum().backward()
        self.policy.optimizer.step()


def test_a_policy_keeps_its_own_optimizer():
    model = Prefer(Bandit, "CartPole-v1", learning_rate=1.0, learning_starts=10, buffer_size=500, seed=0)
    model.learn(60)
    assert type(model.policy.optimizer) is torch.optim.SGD and model.policy.preferences.weight[0] < -40
    assert (model.predict(np.zeros((20, 4)))[0] == 1).all()


def test_action_noise_and_several_environments_work():
    noise = NormalActionNoise(np.zeros(1), 0.1 * np.ones(1))
    model = SoftQ(
        "MlpPolicy",
        make_vec_env("Pendulum-v1", 2),
        action_noise=noise,
        train_freq=(2, "step"),
        gradient_steps=3,
    )
    assert model.learn(140)._n_updates == 3 * 10 and model.action_noise.n_envs == 2


class Untrained(OnPolicyAlgorithm):
    """An algorithm that lacks the step that learns."""


MISTAKES = {
    "no-train": (lambda: Untrained("MlpPolicy", "CartPole-v1"), UserError, r"Untrained has no train\(\)"),
    "action-space": (lambda: PolicyGradient("MlpPolicy", "Pendulum-v1"), UserError, "does not support Box"),
    "policy": (lambda: SoftQ("CnnPolicy", "Pendulum-v1"), UserError, "no policy is named 'CnnPolicy'"),
    "argument": (lambda: SoftQ("MlpPolicy", "Pendulum-v1", bufer_size=3), UnknownArgument, "'buffer_size'"),
    "own-argument": (lambda: PolicyGradient("MlpPolicy", "CartPole-v1", passes=3), TypeError, "'passes'"),
    "value": (lambda: SoftQ("MlpPolicy", "Pendulum-v1", tau=2.0), UserError, "tau must be"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_clear_error(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
