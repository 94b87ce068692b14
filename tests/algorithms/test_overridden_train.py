"""Subclasses that override `train`, as for stable-baselines3, learn what their `train` says."""

from __future__ import annotations

import csv
import functools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from rlzoo import (
    A2C,
    DQN,
    PPO,
    QRDQN,
    SAC,
    TD3,
    TQC,
    RolloutBuffer,
    UserError,
    configure,
    explained_variance,
    make_vec_env,
    polyak_update,
)

SMALL = {"net_arch": [16]}


class OwnPPO(PPO):
    """PPO of the paper, its clipped loss written out."""

    def train(self):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip = self.clip_range(self._current_progress_remaining)
        assert self.clip_range_vf is None
        for _ in range(self.n_epochs):
            for data in self.rollout_buffer.get(self.batch_size):
                actions = data.actions.long().flatten()
                values, log_prob, entropy = self.policy.evaluate_actions(data.observations, actions)
                advantages = (data.advantages - data.advantages.mean()) / (data.advantages.std() + 1e-8)
                ratio = (log_prob - data.old_log_prob).exp()
                clipped = ratio.clamp(1 - clip, 1 + clip)
                policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
                value_loss = F.mse_loss(data.returns, values.flatten())
                loss = policy_loss - self.ent_coef * entropy.mean() + self.vf_coef * value_loss
                self.policy.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
            self._n_updates += 1
        buffer = self.rollout_buffer
        self.explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/clip_range", clip)
        self.clip = clip


class OwnDQN(DQN):
    """DQN with the Huber loss."""

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                best = self.q_net_target(data.next_observations).max(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * self.gamma * best
            chosen = self.q_net(data.observations).gather(1, data.actions.long())
            self.policy.optimizer.zero_grad()
            F.smooth_l1_loss(chosen, target).backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps


class OwnSAC(SAC):
    """SAC with a learned entropy coefficient."""

    def train(self, gradient_steps, batch_size=64):
        self.policy.set_training_mode(True)
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer, self.ent_coef_optimizer])
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            actions, log_prob = self.actor.action_log_prob(data.observations)
            log_prob = log_prob.reshape(-1, 1)
            ent_coef = self.log_ent_coef.detach().exp()
            ent_coef_loss = -(self.log_ent_coef * (log_prob + self.target_entropy).detach()).mean()
            self.ent_coef_optimizer.zero_grad()
            ent_coef_loss.backward()
            self.ent_coef_optimizer.step()
            with torch.no_grad():
                following, next_log_prob = self.actor.action_log_prob(data.next_observations)
                next_values = torch.cat(self.critic_target(data.next_observations, following), dim=1)
                next_values = next_values.min(dim=1, keepdim=True).values
                next_values -= ent_coef * next_log_prob.reshape(-1, 1)
                target = data.rewards + (1 - data.dones) * self.gamma * next_values
            estimates = self.critic(data.observations, data.actions)
            critic_loss = 0.5 * sum(F.mse_loss(estimate, target) for estimate in estimates)
            self.critic.optimizer.zero_grad()
            critic_loss.backward()
            self.critic.optimizer.step()
            values = torch.cat(self.critic(data.observations, actions), dim=1).min(dim=1, keepdim=True).values
            self.actor.optimizer.zero_grad()
            (ent_coef * log_prob - values).mean().backward()
            self.actor.optimizer.step()
            polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
            polyak_update(self.batch_norm_stats, self.batch_norm_stats_target, 1.0)
        self._n_updates += gradient_steps


class OwnTD3(TD3):
    """TD3 of the paper."""

    def train(self, gradient_steps, batch_size=100):
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer])
        for _ in range(gradient_steps):
            self._n_updates += 1
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                noise = torch.randn_like(data.actions) * self.target_policy_noise
                noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)
                following = (self.actor_target(data.next_observations) + noise).clamp(-1, 1)
                next_values = torch.cat(self.critic_target(data.next_observations, following), dim=1)
                next_values = next_values.min(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * self.gamma * next_values
            first, second = self.critic(data.observations, data.actions)
            self.critic.optimizer.zero_grad()
            (F.mse_loss(first, target) + F.mse_loss(second, target)).backward()
            self.critic.optimizer.step()
            if self._n_updates % self.policy_delay == 0:
                self.actor.optimizer.zero_grad()
                obs = data.observations
                (-self.critic.q1_forward(obs, self.actor(obs)).mean()).backward()
                self.actor.optimizer.step()
                polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
                polyak_update(self.actor.parameters(), self.actor_target.parameters(), self.tau)
                polyak_update(self.actor_batch_norm_stats, self.actor_batch_norm_stats_target, 1.0)


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


def assert_same_training(own, plain, steps, **kwargs):
    """Train both from the same seed; their parameters differ by rounding only, and have moved."""
    models = [learner("MlpPolicy", seed=1, device="cpu", **kwargs) for learner in (own, plain)]
    before = parameters(models[0]).clone()
    for model in models:
        model.set_random_seed(1)
        model.learn(steps)
    mine, theirs = map(parameters, models)
    torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-3)
    assert (mine - before).abs().max() > 1e-3 and models[0].num_timesteps == models[1].num_timesteps
    return models[0]


def test_ppo_written_out_equals_ppo():
    model = assert_same_training(
        OwnPPO, PPO, 256, env=make_vec_env("CartPole-v1", 2, seed=0), n_steps=32, batch_size=64, n_epochs=3
    )
    assert np.isfinite(model.explained) and model._n_updates == 4 * 3
    assert model.clip == 0.2


def test_dqn_written_out_equals_dqn():
    model = assert_same_training(
        OwnDQN,
        DQN,
        300,
        env="CartPole-v1",
        learning_starts=50,
        target_update_interval=40,
        policy_kwargs=SMALL,
    )
    assert model._n_updates == 63 and model.n_updates == 63


@pytest.mark.parametrize(("own", "plain"), [(OwnSAC, SAC), (OwnTD3, TD3)])
def test_actor_critic_written_out_equals_its_algorithm(own, plain):
    assert_same_training(
        own, plain, 160, env="Pendulum-v1", learning_starts=100, batch_size=32, policy_kwargs=SMALL
    )


def test_critics_of_tqc_give_quantiles_by_row():
    model = TQC("MlpPolicy", "Pendulum-v1", policy_kwargs={**SMALL, "n_quantiles": 5, "n_critics": 3})
    obs, actions = torch.randn(4, 3), torch.randn(4, 1)
    quantiles = model.critic(obs, actions)
    assert quantiles.shape == (4, 3, 5) and torch.equal(
        quantiles[:, 2], model.critic.all_values(obs, actions)[2]
    )


@pytest.mark.parametrize(
    ("learner", "kwargs"),
    [
        (A2C, {"n_steps": 5}),
        (PPO, {"n_steps": 32, "batch_size": 8}),
        (DQN, {"learning_starts": 10}),
        (QRDQN, {"learning_starts": 10}),
    ],
)
def test_train_that_calls_its_base_class_learns_as_before(learner, kwargs):
    calls = []

    class Counted(learner):
        def train(self, *args, **arguments):
            calls.append(arguments)
            super().train(*args, **arguments)

    models = [
        made("MlpPolicy", "CartPole-v1", seed=3, policy_kwargs=SMALL, **kwargs) for made in (Counted, learner)
    ]
    for model in models:
        model.set_random_seed(3)
        model.learn(64)
    assert calls and models[0].n_updates == models[1].n_updates > 0
    assert torch.equal(*map(parameters, models))


def test_own_get_of_a_rollout_buffer_feeds_an_overridden_train():
    class Ordered(RolloutBuffer):
        def get(self, batch_size=None):
            yield from super().get(batch_size)

    class Reading(PPO):
        def train(self):
            self.rows = sum(len(data.actions) for data in self.rollout_buffer.get(16))

    model = Reading("MlpPolicy", "CartPole-v1", n_steps=64, rollout_buffer_class=Ordered).learn(64)
    assert model.rows == 64


def test_agent_with_an_overridden_train_is_saved_and_continued(tmp_path):
    model = OwnPPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, clip_range=0.1).learn(64)
    model.save(tmp_path / "own")
    loaded = OwnPPO.load(tmp_path / "own", env="CartPole-v1")
    assert loaded.clip_range(1.0) == 0.1 and loaded.config.clip_range == 0.1
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == 96


@pytest.mark.parametrize("way", ["none", "assigned"])
def test_gradients_that_a_script_puts_in_place_are_used(way):
    class Own(DQN):
        def train(self, gradient_steps, batch_size=100):
            data = self.replay_buffer.sample(batch_size)
            parameters = list(self.q_net.parameters())
            loss = self.q_net(data.observations).square().mean()
            if way == "none":
                for parameter in parameters:
                    parameter.grad = None
                loss.backward()
            else:
                for parameter, gradient in zip(
                    parameters, torch.autograd.grad(loss, parameters), strict=True
                ):
                    parameter.grad = gradient
            self.policy.optimizer.step()

    model = Own("MlpPolicy", "CartPole-v1", learning_starts=20, policy_kwargs=SMALL)
    before = parameters(model).clone()
    model.learn(40)
    assert not torch.equal(parameters(model), before)


def test_names_of_counters_are_there():
    model = OwnDQN("MlpPolicy", "CartPole-v1", learning_starts=20).learn(60)
    assert (model._n_calls, model._num_timesteps_at_start) == (60, 0) and model._episode_num > 0


@pytest.mark.parametrize(
    ("base", "env", "calls"), [(PPO, "CartPole-v1", [1, 2]), (SAC, "Pendulum-v1", [None])]
)
def test_dump_logs_may_log_more(base, env, calls, tmp_path):
    class Logging(base):
        seen = ()

        def dump_logs(self, iteration=None):
            self.seen = [*self.seen, iteration]
            self.logger.record("own/steps", self.num_timesteps)
            super().dump_logs()

    options = {"n_steps": 64, "batch_size": 64} if base is PPO else {"learning_starts": 100}
    model = Logging("MlpPolicy", env, **options)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(128 if base is PPO else 800)
    (row, *_), names = (
        list(csv.DictReader((tmp_path / "progress.csv").open())),
        {"own/steps", "rollout/ep_rew_mean"},
    )
    assert model.seen == calls and names <= row.keys()
    assert float(row["own/steps"]) == float(row["time/total_timesteps"]) and row["train/n_updates"]


@pytest.mark.parametrize("name", ["_wrap_env", "_update_current_progress_remaining"])
def test_methods_that_are_never_called_are_refused(name):
    own = type("Own", (PPO,), {name: lambda self, *args: None, "__module__": __name__})
    with pytest.raises(UserError, match=f"Own overrides {name}"):
        own("MlpPolicy", "CartPole-v1")


def test_train_may_be_assigned_to_a_class_or_a_model(monkeypatch):
    def trained(prepare):
        model = PPO(
            "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=2, policy_kwargs=SMALL, seed=0
        )
        prepare(model)
        return model.learn(192)

    own = OwnPPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=2, policy_kwargs=SMALL, seed=0
    )
    own = own.learn(192).policy.parameters_to_vector()
    assigned = trained(lambda model: setattr(model, "train", lambda: OwnPPO.train(model)))
    np.testing.assert_array_equal(assigned.policy.parameters_to_vector(), own)
    assert callable(assigned.clip_range)
    monkeypatch.setattr(PPO, "train", functools.wraps(PPO.train)(lambda self: OwnPPO.train(self)))
    np.testing.assert_array_equal(trained(lambda model: None).policy.parameters_to_vector(), own)


def test_a_hook_for_schedules_finds_those_of_the_hyperparameters():
    class Halved(PPO):
        def _setup_lr_schedule(self):
            full = self.schedules["learning_rate"]
            self.schedules["learning_rate"] = lambda progress: full(progress) / 2

    assert Halved("MlpPolicy", "CartPole-v1", learning_rate=0.1).lr_schedule(1.0) == 0.05


class Curious(PPO):
    """PPO with a network of its own that files hold, too."""

    def _setup_model(self):
        super()._setup_model()
        self.predictor, self.mean = torch.nn.Linear(4, 2), torch.zeros(2)
        self.predictor_optimizer = torch.optim.Adam(self.predictor.parameters())

    def _get_torch_save_params(self):
        parts, tensors = super()._get_torch_save_params()
        return [*parts, "policy.optimizer", "predictor", "predictor_optimizer"], [*tensors, "mean"]

    def train(self):
        super().train()
        self.predictor(torch.ones(4)).sum().backward()
        self.predictor_optimizer.step()
        self.mean += 1


def test_files_hold_what_a_subclass_names(tmp_path):
    model = Curious("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, policy_kwargs=SMALL).learn(32)
    model.save(tmp_path / "model")
    loaded = Curious.load(tmp_path / "model")
    assert torch.equal(loaded.predictor.weight, model.predictor.weight)
    assert loaded.mean.tolist() == [2, 2] and len(loaded.predictor_optimizer.state) == 2
    assert sorted(model.state()) == ["mean", "policy", "policy.optimizer", "predictor", "predictor_optimizer"]
