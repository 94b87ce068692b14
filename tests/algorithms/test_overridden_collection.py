"""Subclasses that override how experience is collected, as for stable-baselines3, train as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    A2C,
    DQN,
    PPO,
    QRDQN,
    SAC,
    TD3,
    TRPO,
    BaseCallback,
    NormalActionNoise,
    RecurrentPPO,
    RolloutBuffer,
    RolloutReturn,
    VecNormalize,
    make_vec_env,
    obs_as_tensor,
)
from rlzoo.core.errors import UserError

SMALL = {"net_arch": [16]}


def collect_on_policy(self, env, callback, rollout_buffer, n_rollout_steps):
    """Collect a rollout step by step, through the public methods of policy and buffer."""
    rollout_buffer.reset()
    self.policy.set_training_mode(False)
    callback.on_rollout_start()
    for _ in range(n_rollout_steps):
        with torch.no_grad():
            actions, values, log_probs = self.policy(obs_as_tensor(self._last_obs, self.device))
        actions = actions.cpu().numpy()
        box = isinstance(self.action_space, spaces.Box)
        executed = np.clip(actions, self.action_space.low, self.action_space.high) if box else actions
        obs, rewards, dones, infos = env.step(executed)
        self.num_timesteps += env.num_envs
        callback.update_locals(locals())
        if not callback.on_step():
            return False
        self._update_info_buffer(infos, dones)
        for index in np.flatnonzero(dones):
            if infos[index]["TimeLimit.truncated"]:
                final = self.policy.obs_to_tensor(infos[index]["terminal_observation"])[0]
                with torch.no_grad():
                    rewards[index] += self.gamma * self.policy.predict_values(final)[0].item()
        rollout_buffer.add(self._last_obs, actions, rewards, self._last_episode_starts, values, log_probs)
        self._last_obs, self._last_episode_starts = obs, dones
    with torch.no_grad():
        last_values = self.policy.predict_values(obs_as_tensor(obs, self.device))
    rollout_buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
    callback.on_rollout_end()
    return True


def collect_off_policy(
    self, env, callback, train_freq, replay_buffer, action_noise=None, learning_starts=0, log_interval=None
):
    """Collect `train_freq` steps or episodes."""
    steps = episodes = 0
    callback.on_rollout_start()
    while (steps if train_freq.unit.value == "step" else episodes) < train_freq.frequency:
        actions, stored = self._sample_action(learning_starts, action_noise, env.num_envs)
        obs, rewards, dones, infos = env.step(actions)
        self.num_timesteps += env.num_envs
        steps += 1
        callback.update_locals(locals())
        if not callback.on_step():
            return RolloutReturn(steps * env.num_envs, episodes, continue_training=False)
        self._update_info_buffer(infos, dones)
        self._store_transition(replay_buffer, stored, obs, rewards, dones, infos)
        self._on_step()
        episodes += int(dones.sum())
        if dones.any() and action_noise is not None:
            action_noise.reset()
    callback.on_rollout_end()
    return RolloutReturn(steps * env.num_envs, episodes, continue_training=True)


def derived(base: Any, **methods: Any) -> Any:
    return type(f"Own{base.__name__}", (base,), methods)


def parameters(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


def trained(
    cls: Any, env_id: str, steps: int, normalize: bool = False, n_envs: int = 2, **kwargs: Any
) -> Any:
    venv = make_vec_env(env_id, n_envs, seed=1)
    venv = VecNormalize(venv) if normalize else venv
    options = {"policy_kwargs": SMALL, "seed": 0, "device": "cpu", **kwargs}
    return cls("MlpPolicy", venv, **options).learn(steps)


@pytest.mark.parametrize(
    ("base", "env_id", "kwargs"),
    [
        (PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 32}),
        (PPO, "Pendulum-v1", {"n_steps": 150, "batch_size": 60, "normalize": True}),
        (A2C, "CartPole-v1", {}),
        (TRPO, "Pendulum-v1", {"n_steps": 150}),
    ],
)
def test_collect_rollouts_written_out_learns_the_same(base: Any, env_id: str, kwargs: Any) -> None:
    plain = trained(base, env_id, 600, **kwargs)
    own = trained(derived(base, collect_rollouts=collect_on_policy), env_id, 600, **kwargs)
    torch.testing.assert_close(parameters(plain), parameters(own), rtol=1e-3, atol=1e-5)
    assert plain.n_updates == own.n_updates > 0 and len(plain.ep_info_buffer) == len(own.ep_info_buffer)


OFF_POLICY: dict[str, dict[str, Any]] = {
    "collect_rollouts": {"collect_rollouts": collect_off_policy},
    "_on_step": {"_on_step": lambda self: DQN._on_step(self) if isinstance(self, DQN) else None},
}


@pytest.mark.parametrize("overridden", OFF_POLICY)
@pytest.mark.parametrize(
    ("base", "kwargs"),
    [
        (SAC, {"normalize": True}),
        (TD3, {"train_freq": (1, "episode"), "gradient_steps": 20, "n_envs": 1, "action_noise": "normal"}),
        (DQN, {"target_update_interval": 20}),
        (QRDQN, {"target_update_interval": 20, "n_envs": 1}),
    ],
)
def test_overridden_replay_collection_learns_the_same(overridden: str, base: Any, kwargs: Any) -> None:
    env_id = "CartPole-v1" if issubclass(base, DQN) else "Pendulum-v1"
    options = {"learning_starts": 50, "batch_size": 16, **kwargs}
    models = []
    for cls in (base, derived(base, **OFF_POLICY[overridden])):
        if "action_noise" in options:
            options["action_noise"] = NormalActionNoise(np.zeros(1), np.full(1, 0.1))
        models.append(trained(cls, env_id, 400, **options))
    plain, own = models
    torch.testing.assert_close(parameters(plain), parameters(own), rtol=1e-3, atol=1e-5)
    assert plain.n_updates == own.n_updates > 0 and own.overrides_collection


def test_advantages_of_an_own_rollout_are_learned_from() -> None:
    def collect_and_change(self, env, callback, rollout_buffer, n_rollout_steps):
        go_on = collect_on_policy(self, env, callback, rollout_buffer, n_rollout_steps)
        rollout_buffer.advantages[:] *= np.linspace(-1, 1, rollout_buffer.n_steps)[:, None]
        return go_on

    plain = trained(derived(PPO, collect_rollouts=collect_on_policy), "CartPole-v1", 64, n_steps=32)
    changed = trained(derived(PPO, collect_rollouts=collect_and_change), "CartPole-v1", 64, n_steps=32)
    assert not torch.allclose(parameters(plain), parameters(changed), atol=1e-4)


def test_collect_rollouts_may_call_the_inherited_one() -> None:
    class More(PPO):
        def collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps):
            go_on = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
            rollout_buffer.rewards[:] = 1000.0
            return go_on

    model = trained(More, "Pendulum-v1", 128, n_steps=32, verbose=0)
    assert model.rollout_buffer.returns.mean() > 1000 and model.n_updates == 20


def test_own_sample_action_chooses_the_actions() -> None:
    class Push(SAC):
        def _sample_action(self, learning_starts, action_noise=None, n_envs=1):
            actions = np.full((n_envs, 1), 2.0, np.float32)
            return actions, self.policy.scale_action(actions)

    model = trained(Push, "Pendulum-v1", 100, learning_starts=200)
    assert (model.replay_buffer.actions[:50] == 1).all()


def test_own_on_step_of_dqn_takes_over_the_target_network() -> None:
    model = trained(derived(DQN, _on_step=lambda self: None), "CartPole-v1", 200, learning_starts=20)
    start = trained(DQN, "CartPole-v1", 1, learning_starts=20)
    for one, two in zip(model.q_net_target.parameters(), start.q_net_target.parameters(), strict=True):
        assert torch.equal(one, two)
    assert model.n_updates > 0


def test_own_counters_of_dqn_may_be_counted() -> None:
    class Counting(DQN):
        def _on_step(self):
            self._n_calls += 1
            assert self._n_calls == self.num_timesteps // self.n_envs
            self.exploration_rate = self.exploration_schedule(self._current_progress_remaining)

    assert trained(Counting, "CartPole-v1", 100, learning_starts=20).n_updates > 0


@pytest.mark.parametrize(("base", "env_id"), [(PPO, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_callback_ends_an_overridden_collection(base: Any, env_id: str) -> None:
    class Stop(BaseCallback):
        def _on_step(self):
            return self.n_calls < 10

    collect = collect_on_policy if base is PPO else collect_off_policy
    model = derived(base, collect_rollouts=collect)("MlpPolicy", env_id, policy_kwargs=SMALL, device="cpu")
    assert model.learn(500, Stop()).num_timesteps == 10


def test_rollout_buffer_of_an_own_collection_may_override_add() -> None:
    class Doubled(RolloutBuffer):
        def add(self, obs, action, reward, *others):
            super().add(obs, action, 2 * reward, *others)

    own = derived(PPO, collect_rollouts=collect_on_policy)
    model = trained(own, "CartPole-v1", 64, n_steps=32, rollout_buffer_class=Doubled)
    assert (model.rollout_buffer.rewards == 2).all()


def test_rollout_that_is_not_full_is_refused() -> None:
    own = derived(PPO, collect_rollouts=lambda self, env, callback, rollout_buffer, n_rollout_steps: True)
    with pytest.raises(UserError, match=r"OwnPPO.collect_rollouts\(\) has added 0 of the 32 steps"):
        trained(own, "CartPole-v1", 64, n_steps=32)


def test_recurrent_policies_are_refused() -> None:
    own = derived(RecurrentPPO, collect_rollouts=collect_on_policy)
    with pytest.raises(UserError, match="not possible with a recurrent policy"):
        own("MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu").learn(16)
