"""What libraries on top of stable-baselines3 rely on: imitation, SuperSuit, wandb, SBX, sb3-soft."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import A2C, DQN, PPO, BaseCallback, DummyVecEnv, MaskablePPO, ReplayBuffer, VecMonitor
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.action_noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvDiscrete
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.policies.value_based import DQNPolicy


class WithoutSuper(VecEnvWrapper):
    """A wrapper that sets all attributes itself, as SuperSuit's."""

    def __init__(self, venv):
        self.venv, self.num_envs, self.render_mode = venv, venv.num_envs, None
        self.observation_space, self.action_space = venv.observation_space, venv.action_space
        self.reset_infos = []

    def reset(self):
        obs = self.venv.reset()
        self.reset_infos = [{"own": True}]
        return obs

    def step_wait(self):
        return self.venv.step_wait()


def test_wrapper_may_assign_reset_infos():
    env = WithoutSuper(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    outer = VecMonitor(env)
    assert env.reset_infos == []
    PPO("MlpPolicy", outer, n_steps=32, batch_size=32).learn(64)
    assert env.reset_infos == outer.reset_infos == [{"own": True}]
    assert env.venv.reset_infos == [{}]


@pytest.mark.parametrize(("kind", "env"), [(PPO, "CartPole-v1"), (A2C, "CartPole-v1"), (MaskablePPO, None)])
def test_forward_hooks_of_a_policy_see_each_step(kind, env):
    options = {} if kind is A2C else {"batch_size": 16}
    env = env or InvalidActionEnvDiscrete(dim=4, n_invalid_actions=1)
    plain = kind("MlpPolicy", env, n_steps=16, seed=0, **options).learn(64)
    model = kind("MlpPolicy", env, n_steps=16, seed=0, **options)
    calls = []
    hook = model.policy.register_forward_hook(lambda *_: calls.append(model.num_timesteps))
    model.learn(64)
    assert len(calls) == 64
    for name, value in plain.policy.state_dict().items():
        torch.testing.assert_close(model.policy.state_dict()[name], value, rtol=1e-4, atol=1e-6)
    hook.remove()
    model.learn(16, reset_num_timesteps=False)
    assert len(calls) == 64


def test_hook_registered_in_a_rollout_is_called():
    calls = []

    class Register(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 20:
                self.model.policy.register_forward_hook(lambda *_: calls.append(self.num_timesteps))
            return True

    A2C("MlpPolicy", "CartPole-v1", n_steps=8, seed=0).learn(64, callback=Register())
    assert calls == list(range(20, 64))


class SetsUpItself(OffPolicyAlgorithm):
    """Networks are made at the end of the constructor, as in SBX."""

    def __init__(self, policy, env, mine=3, calls_setup=True, _init_setup_model=True, **kwargs):
        super().__init__(policy, env, 1e-3, sde_support=False, **kwargs)
        self.initial_mine = mine
        if calls_setup and _init_setup_model:
            self._setup_model()

    def _setup_model(self):
        self.seen_class = self.replay_buffer_class
        if self.replay_buffer_class is None:
            self.replay_buffer_class = OwnReplay
        super()._setup_model()
        self.half = self.initial_mine / 2

    def train(self, gradient_steps, batch_size=0):
        pass


class OwnReplay(ReplayBuffer):
    pass


class DerivedFromIt(SetsUpItself):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.more = self.half


@pytest.mark.parametrize("kind", [SetsUpItself, DerivedFromIt])
def test_class_may_make_networks_at_the_end(kind):
    model = kind(DQNPolicy, "CartPole-v1", mine=5, buffer_size=100)
    assert (model.half, model.seen_class) == (2.5, None)
    assert type(model.replay_buffer) is model.replay_buffer_class is OwnReplay
    model.learn(20)


def test_networks_are_made_if_a_class_does_not():
    model = SetsUpItself(DQNPolicy, "CartPole-v1", calls_setup=False, buffer_size=100)
    assert model.half == 1.5
    assert not hasattr(
        SetsUpItself(DQNPolicy, "CartPole-v1", _init_setup_model=False, buffer_size=100), "policy"
    )


def test_buffer_classes_are_none_before_setup():
    dqn = DQN("MlpPolicy", "CartPole-v1", _init_setup_model=False)
    ppo = PPO("MlpPolicy", "CartPole-v1", _init_setup_model=False)
    assert (dqn.replay_buffer_class, ppo.rollout_buffer_class) == (None, None)
    dqn._setup_model()
    ppo._setup_model()
    assert (dqn.replay_buffer_class, ppo.rollout_buffer_class) == (ReplayBuffer, RolloutBuffer)


class LeavesOut(PPO):
    def _excluded_save_params(self):
        excluded = super()._excluded_save_params()
        excluded.remove("policy")
        return [*excluded, "ent_coef"]


def test_names_that_are_not_saved_are_those_of_sb3(tmp_path):
    assert "policy" in PPO("MlpPolicy", "CartPole-v1")._excluded_save_params()
    model = LeavesOut("MlpPolicy", "CartPole-v1", ent_coef=0.5, gamma=0.9)
    model.save(tmp_path / "model")
    loaded = LeavesOut.load(tmp_path / "model")
    assert (loaded.ent_coef, loaded.gamma) == (0.0, 0.9)


def test_replay_buffer_of_size_zero_has_one_row():
    assert ReplayBuffer(0, spaces.Box(-1, 1, (3,)), spaces.Discrete(2)).buffer_size == 1


def test_noise_is_shown_as_in_sb3():
    assert repr(NormalActionNoise(np.zeros(1), np.ones(1))) == "NormalActionNoise(mu=[0.], sigma=[1.])"
    shown = repr(OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1)))
    assert shown == "OrnsteinUhlenbeckActionNoise(mu=[0.], sigma=[1.])"


def test_read_only_observations_are_predicted_silently():
    model = PPO("MlpPolicy", "CartPole-v1")
    obs = np.zeros((2, 4), np.float32)
    obs.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.policy.predict(obs)[0]) == 2


class OwnPredict(DQNPolicy):
    """A policy whose own `predict` chooses actions, as those of SBX."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.asked = [*vars(self).get("asked", []), observation.dtype]
        return np.zeros(len(observation), np.int64), state


def test_predict_of_a_policy_chooses_the_actions():
    model = DQN(
        OwnPredict, "CartPole-v1", learning_starts=10, exploration_fraction=1e-6, exploration_final_eps=0
    )
    model.learn(30)
    assert len(model.policy.asked) >= 19
    assert set(model.replay_buffer.actions[11:30].flatten()) == {0}
