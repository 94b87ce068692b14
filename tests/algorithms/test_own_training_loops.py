"""A `learn` written out for stable-baselines3 and rollout buffers with own methods train as they say."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlzoo import (
    A2C,
    ACER,
    DQN,
    PPO,
    SAC,
    TRPO,
    BaseCallback,
    MaskablePPO,
    RecurrentPPO,
    RolloutBuffer,
    VecNormalize,
    make_vec_env,
)
from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvDiscrete

SMALL = {"net_arch": [16]}


def learn_on_policy(
    self, total_timesteps, callback=None, log_interval=1, tb_log_name="run", reset_num_timesteps=True
):
    """Train by the methods of an on-policy algorithm of stable-baselines3."""
    total_timesteps, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name)
    callback.on_training_start(locals(), globals())
    iteration = 0
    while self.num_timesteps < total_timesteps:
        if not self.collect_rollouts(self.env, callback, self.rollout_buffer, n_rollout_steps=self.n_steps):
            break
        iteration += 1
        self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
        self.dump_logs(iteration)
        self.train()
    callback.on_training_end()
    return self


def learn_off_policy(
    self, total_timesteps, callback=None, log_interval=4, tb_log_name="run", reset_num_timesteps=True
):
    """Train by the methods of an off-policy algorithm of stable-baselines3."""
    total_timesteps, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name)
    callback.on_training_start(locals(), globals())
    while self.num_timesteps < total_timesteps:
        rollout = self.collect_rollouts(
            self.env, train_freq=self.train_freq, action_noise=self.action_noise, callback=callback,
            learning_starts=self.learning_starts, replay_buffer=self.replay_buffer, log_interval=log_interval,
        )  # fmt: skip
        if not rollout.continue_training:
            break
        if self.num_timesteps > self.learning_starts:
            steps = self.gradient_steps if self.gradient_steps >= 0 else rollout.episode_timesteps
            self.train(batch_size=self.batch_size, gradient_steps=steps)
    callback.on_training_end()
    return self


def parameters_of(model: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach()


ON_POLICY = [
    (PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 32}),
    (PPO, "Pendulum-v1", {"n_steps": 32, "batch_size": 16, "use_sde": True, "sde_sample_freq": 4}),
    (A2C, "CartPole-v1", {"n_steps": 8}),
    (TRPO, "Pendulum-v1", {"n_steps": 32, "batch_size": 16}),
]


@pytest.mark.parametrize(("base", "env_id", "kwargs"), ON_POLICY)
def test_written_out_on_policy_learn_learns_the_same(base: Any, env_id: str, kwargs: Any) -> None:
    own = type("Own", (base,), {"learn": learn_on_policy})
    found = []
    for cls in (own, base):
        env = VecNormalize(make_vec_env(env_id, 2, seed=0))
        model = cls("MlpPolicy", env, seed=0, policy_kwargs=SMALL, **kwargs)
        model.learn(256)
        model.learn(128, reset_num_timesteps=False)
        found.append((parameters_of(model), model.num_timesteps, model.n_updates))
    assert found[0][1:] == found[1][1:] == (384, found[1][2])
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("base", "env_id", "kwargs"),
    [
        (SAC, "Pendulum-v1", {}),
        (SAC, "Pendulum-v1", {"train_freq": 4, "gradient_steps": -1}),
        (DQN, "CartPole-v1", {"target_update_interval": 20}),
    ],
)
def test_written_out_off_policy_learn_learns_the_same(base: Any, env_id: str, kwargs: Any) -> None:
    own = type("Own", (base,), {"learn": learn_off_policy})
    found = []
    for cls in (own, base):
        env = VecNormalize(make_vec_env(env_id, 1, seed=0))
        model = cls(
            "MlpPolicy", env, seed=0, policy_kwargs=SMALL, learning_starts=50, batch_size=16, **kwargs
        )
        model.learn(150)
        found.append((parameters_of(model), model.num_timesteps, model.n_updates))
    assert found[0][1:] == found[1][1:]
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=1e-6)


def test_fast_and_written_out_off_policy_loops_take_turns() -> None:
    class Own(SAC):
        pass

    model = Own("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, learning_starts=10, batch_size=8, seed=0)
    model.learn(30)
    learn_off_policy(model, 20, reset_num_timesteps=False)
    model.learn(30, reset_num_timesteps=False)
    buffer = model.replay_buffer
    following, first = buffer.next_observations[:79, 0], buffer.observations[1:80, 0]
    np.testing.assert_array_equal(following, first)  # no step is missing between two loops


def test_overridden_setup_learn_and_init_callback_are_called() -> None:
    class Count(BaseCallback):
        def _on_step(self) -> bool:
            return self.n_calls < 40

    class Own(PPO):
        def _setup_learn(self, total_timesteps, callback=None, *args, **kwargs):
            total, hooks = super()._setup_learn(total_timesteps * 2, callback, *args, **kwargs)
            self.planned = total
            return total, hooks

        def _init_callback(self, callback, progress_bar=False):
            return super()._init_callback(callback or Count(), progress_bar)

    model = Own("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16).learn(64)
    assert (model.planned, model.num_timesteps) == (128, 40)


class Plain(RolloutBuffer):
    def add(self, *args: Any, **kwargs: Any) -> None:
        super().add(*args, **kwargs)


@pytest.mark.parametrize(("base", "env_id", "kwargs"), ON_POLICY)
def test_buffer_filled_by_add_learns_the_same(base: Any, env_id: str, kwargs: Any) -> None:
    found = []
    for buffer_class in (Plain, WrittenOut, None):
        env = VecNormalize(make_vec_env(env_id, 2, seed=0, env_kwargs={"max_episode_steps": 20}))
        model = base(
            "MlpPolicy", env, seed=0, policy_kwargs=SMALL, rollout_buffer_class=buffer_class, **kwargs
        )
        found.append(parameters_of(model.learn(256)))
    torch.testing.assert_close(found[0], found[2], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[1], found[2], rtol=0, atol=1e-4)


class WrittenOut(RolloutBuffer):
    """Writes to the arrays of the buffer, as those of stable-baselines3 do."""

    def reset(self) -> None:
        super().reset()
        self.advantages = np.zeros((self.buffer_size, self.n_envs), dtype=np.float32)

    def add(self, obs, action, reward, episode_start, value, log_prob) -> None:
        self.observations[self.pos] = np.array(obs)
        self.actions[self.pos] = np.array(action).reshape((self.n_envs, self.action_dim))
        self.rewards[self.pos] = np.array(reward)
        self.episode_starts[self.pos] = np.array(episode_start)
        self.values[self.pos] = value.clone().cpu().numpy().flatten()
        self.log_probs[self.pos] = log_prob.clone().cpu().numpy()
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        following, gae = last_values.clone().cpu().numpy().flatten(), 0
        ends = np.concatenate([self.episode_starts[1:], dones[None]])
        for t in reversed(range(self.buffer_size)):
            delta = self.rewards[t] + self.gamma * following * (1 - ends[t]) - self.values[t]
            gae = delta + self.gamma * self.gae_lambda * (1 - ends[t]) * gae
            self.advantages[t], following = gae, self.values[t]
        self.returns = self.advantages + self.values


class MonteCarlo(RolloutBuffer):
    """Returns without a value function, as a script may write them."""

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        following = last_values.numpy().flatten() * (1 - dones)
        for t in reversed(range(self.buffer_size)):
            if t + 1 < self.buffer_size:
                following = following * (1 - self.episode_starts[t + 1])
            following = self.returns[t] = self.rewards[t] + self.gamma * following
        self.advantages = self.returns - self.values


def test_own_advantages_are_learned_from_and_the_class_is_saved(tmp_path: Any) -> None:
    kwargs: Any = {"n_steps": 32, "batch_size": 32, "seed": 0, "policy_kwargs": SMALL}
    model = PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=MonteCarlo, gae_lambda=0.3, **kwargs)
    model.learn(64)
    like = PPO("MlpPolicy", "CartPole-v1", gae_lambda=1.0, **kwargs).learn(64)
    torch.testing.assert_close(parameters_of(model), parameters_of(like), rtol=0, atol=1e-5)
    model.save(tmp_path / "own")
    custom = {"custom_objects": {"rollout_buffer_class": MonteCarlo}}
    loaded = PPO.load(tmp_path / "own", env="CartPole-v1", **custom)
    assert type(loaded.learn(32).rollout_buffer) is MonteCarlo


def test_agent_with_an_unknown_buffer_class_plays_and_warns(tmp_path: Any) -> None:
    class Local(RolloutBuffer):
        def __init__(self, *args: Any, label: object, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    kwargs: Any = {"n_steps": 16, "batch_size": 16, "rollout_buffer_class": Local}
    model = PPO("MlpPolicy", "CartPole-v1", rollout_buffer_kwargs={"label": object()}, **kwargs).learn(16)
    with pytest.warns(UserWarning, match=r"rollout_buffer_kwargs is not saved: give it to load\(\)"):
        model.save(tmp_path / "local")
    with pytest.warns(UserWarning, match=r"loaded without its own rollout buffer: .*Local"):
        loaded = PPO.load(tmp_path / "local", env="CartPole-v1")
    assert loaded.rollout_buffer_class is RolloutBuffer and loaded.predict(np.zeros(4))[0] in (0, 1)
    again = PPO.load(
        tmp_path / "local", env="CartPole-v1", rollout_buffer_class=Local, rollout_buffer_kwargs={"label": 1}
    )
    assert type(again.learn(16).rollout_buffer) is Local


def test_rollout_buffer_follows_a_change_of_its_size() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16)
    assert model.rollout_buffer is model.rollout_buffer
    model.n_steps = 32
    model.replace_env(make_vec_env("CartPole-v1", 2))
    assert (model.rollout_buffer.n_steps, model.rollout_buffer.n_envs) == (32, 2)
    model.rollout_buffer = MonteCarlo(32, model.observation_space, model.action_space, n_envs=2)
    model.n_steps = 16
    rollout = learn_on_policy(model, 32).rollout_buffer
    assert rollout is model.learn(32).rollout_buffer
    assert type(rollout) is MonteCarlo and rollout.rewards.shape == (16, 2)
    model.rollout_buffer = None
    assert type(model.learn(32).rollout_buffer) is RolloutBuffer


def test_buffer_class_may_take_fewer_arguments() -> None:
    resets = []

    class Explicit(RolloutBuffer):
        def __init__(
            self, buffer_size, observation_space, action_space, device, gae_lambda=1, gamma=0.99, n_envs=1
        ):
            super().__init__(buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs)

        def reset(self) -> None:
            resets.append(self.n_envs)
            super().reset()

    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, rollout_buffer_class=Explicit).learn(32)
    assert resets.count(1) >= 2


def test_add_of_a_buffer_is_given_action_masks() -> None:
    masks = []

    class Noting(RolloutBuffer):
        def add(self, *args: Any, **kwargs: Any) -> None:
            masks.append(kwargs["action_masks"])
            super().add(*args, **kwargs)

    env = InvalidActionEnvDiscrete(dim=4, n_invalid_actions=2)
    MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, rollout_buffer_class=Noting).learn(8)
    assert np.array(masks).sum() == 8 * 2


def test_rollout_buffer_is_there_before_learn() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 2), n_steps=16, batch_size=32)
    assert (model.rollout_buffer.buffer_size, model.rollout_buffer.n_envs) == (16, 2)
    assert not model.rollout_buffer.full


def test_assigned_rollout_buffer_is_filled_and_kept() -> None:
    class Own(PPO):
        def _setup_model(self) -> None:
            super()._setup_model()
            spaces = (self.observation_space, self.action_space)
            self.rollout_buffer = MonteCarlo(self.n_steps, *spaces, device=self.device, gamma=self.gamma)

    model = Own("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16)
    mine = model.rollout_buffer
    assert model.learn(32).rollout_buffer is mine is model.learn(16).rollout_buffer
    with pytest.raises(UserError, match=r"8 steps of 1 environments .* not 16 steps of 1 environments"):
        model.rollout_buffer = RolloutBuffer(8, model.observation_space, model.action_space)


def test_written_out_learn_begins_a_new_rollout_after_a_stop() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return self.n_calls < 5

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16)
    learn_on_policy(model, 64, Stop())
    with pytest.raises(UserError, match="no full rollout"):
        model.train()
    learn_on_policy(model, 16)
    assert (model.num_timesteps, model.rollout_buffer.size()) == (16, 16)
    assert model.rollout_buffer.episode_starts[0] == 1 and model.counters.iteration == 1


def test_assigned_buffer_has_its_own_discount_factor() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16)
    spaces = (model.observation_space, model.action_space)
    model.rollout_buffer = RolloutBuffer(16, *spaces, gamma=0.0, gae_lambda=0.3)
    rollout = model.learn(16).rollout_buffer
    np.testing.assert_allclose(rollout.returns, rollout.rewards, atol=1e-6)


class FiveSteps(gym.Env[Any, Any]):
    """Episodes of five steps, by truncation; every reward is 1."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.ones(2, np.float32), 1.0, False, self.steps >= 5, {}


def worth_ten(cls: type[PPO] = PPO) -> PPO:
    """Return an agent for which every state has the value 10."""
    model = cls("MlpPolicy", FiveSteps(), n_steps=8, batch_size=8, gamma=0.9)
    torch.nn.init.zeros_(model.policy.value_net.weight)
    torch.nn.init.constant_(model.policy.value_net.bias, 10.0)
    return model


WITH_VALUE = [1, 1, 1, 1, 10, 1, 1, 1]  # 1 + 0.9 * 10 where the episode is truncated


@pytest.mark.parametrize("where", ["train", "callback", "collect", "afterwards"])
def test_stored_rewards_have_the_value_of_truncated_ends(where: str) -> None:
    seen: list[Any] = []

    class Reads(PPO):
        def collect_rollouts(
            self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int
        ) -> bool:
            go_on = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
            seen.append(rollout_buffer.rewards.copy())
            return go_on

    class Trains(PPO):
        def train(self) -> None:
            seen.append(self.rollout_buffer.rewards.copy())
            super().train()

    def end(callback: BaseCallback) -> None:
        seen.append(callback.model.rollout_buffer.rewards.copy())

    callback = type("Ends", (BaseCallback,), {"_on_rollout_end": end, "_on_step": lambda self: True})()
    plain = worth_ten().learn(8)
    model = worth_ten({"train": Trains, "collect": Reads}.get(where, PPO))
    model.policy.load_state_dict(worth_ten().policy.state_dict())
    model.learn(8, callback=callback if where == "callback" else None)
    rollout = model.rollout_buffer
    rewards = rollout.rewards if where == "afterwards" else seen[0]
    np.testing.assert_allclose(rewards[:, 0], WITH_VALUE, rtol=1e-6)
    assert rollout.rewards is rollout.rewards and rollout.rewards[4, 0] == pytest.approx(10)
    np.testing.assert_allclose(rollout.returns, plain.rollout_buffer.returns, rtol=1e-6)


def test_changed_rewards_count_with_the_value_of_truncated_ends() -> None:
    class Halves(PPO):
        def collect_rollouts(
            self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int
        ) -> bool:
            go_on = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
            rollout_buffer.rewards *= 0.5
            rollout_buffer.compute_returns_and_advantage(torch.full((1,), 10.0), np.array([False]))
            return go_on

    rollout = worth_ten(Halves).learn(8).rollout_buffer
    np.testing.assert_allclose(rollout.advantages[4], 0.5 * (1 + 0.9 * 10) - 10, rtol=1e-6)


def test_values_of_truncated_ends_are_added_once() -> None:
    saved: list[dict[str, Any]] = []

    class Saves(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            rollout = self.model.rollout_buffer
            assert rollout.rewards[4, 0] == pytest.approx(10)
            saved.append(rollout.state_dict())

    model = worth_ten().learn(8, callback=Saves())
    resumed = RolloutBuffer(8, model.observation_space, model.action_space)
    resumed.load_state_dict(saved[0], model.device)
    assert resumed.rewards[4, 0] == pytest.approx(10)
    assert resumed.without_value[:, 0].tolist() == [step == 4 for step in range(8)]


def test_collect_rollouts_fills_the_buffer_that_it_is_given() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16)
    _, callback = model._setup_learn(16)
    for cls in (RolloutBuffer, Plain):
        other = cls(16, model.observation_space, model.action_space)
        assert model.collect_rollouts(model.env, callback, other, 16)
        assert other.full and np.abs(other.advantages).min() > 0
    with pytest.raises(UserError, match="a rollout has 16 steps, not 8"):
        model.collect_rollouts(model.env, callback, model.rollout_buffer, 8)


def test_own_buffers_are_refused_where_advantages_are_not_used() -> None:
    with pytest.raises(UserError, match="ACER does not learn from the advantages of a Plain"):
        ACER("MlpPolicy", "CartPole-v1", rollout_buffer_class=Plain)


def test_own_buffers_are_refused_for_recurrent_policies() -> None:
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, batch_size=8, rollout_buffer_class=Plain)
    with pytest.raises(UserError, match="not possible with a recurrent policy"):
        model.learn(8)


def test_hand_filled_rollout_is_learned_from() -> None:
    model = A2C("MlpPolicy", "CartPole-v1", n_steps=4, policy_kwargs=SMALL)
    before = parameters_of(model).clone()
    with pytest.raises(UserError, match="no full rollout"):
        model.train()
    zeros = torch.zeros(1)
    for _ in range(4):
        model.rollout_buffer.add(np.ones((1, 4)), np.ones(1), np.ones(1), np.zeros(1), zeros, zeros)
    model.rollout_buffer.compute_returns_and_advantage(zeros, np.ones(1))
    model.train()
    assert not torch.equal(before, parameters_of(model))
