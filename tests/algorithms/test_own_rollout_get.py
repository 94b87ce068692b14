"""PPO learns from the batches of a rollout buffer's own `get`, written as for stable-baselines3."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import PPO, DictRolloutBuffer, MaskablePPO, RecurrentPPO, RolloutBuffer, UserError, make_vec_env
from rlzoo.buffers.rollout_arrays import ARRAYS

SMALL = {"net_arch": [8]}
FLATTENED = ("actions", "values", "log_probs", "advantages", "returns")


def in_order(buffer, batch_size):
    rows = np.arange(buffer.buffer_size * buffer.n_envs)
    return (
        buffer._get_samples(rows[start : start + batch_size]) for start in range(0, len(rows), batch_size)
    )


class Ordered(RolloutBuffer):
    """Batches of each environment's steps in order, flattened by `setattr`."""

    def get(self, batch_size=None):
        if not self.generator_ready:
            for name in ("observations", *FLATTENED):
                setattr(self, name, self.swap_and_flatten(getattr(self, name)))
            self.generator_ready = True
        yield from in_order(self, batch_size)


class OrderedInDict(RolloutBuffer):
    """The same, flattened in the attributes of the instance, with samples of its own."""

    def get(self, batch_size=None):
        if not self.generator_ready:
            for name in ("observations", "rewards", *FLATTENED):
                self.__dict__[name] = self.swap_and_flatten(self.__dict__[name])
            self.generator_ready = True
        yield from in_order(self, batch_size)

    def _get_samples(self, batch_inds, env=None):
        assert self.rewards[batch_inds].shape == (len(batch_inds), 1)
        return super()._get_samples(batch_inds)


class OrderedDicts(DictRolloutBuffer):
    """The same for Dict observations."""

    def get(self, batch_size=None):
        if not self.generator_ready:
            for key, column in self.observations.items():
                self.observations[key] = self.swap_and_flatten(column)
            for name in FLATTENED:
                self.__dict__[name] = self.swap_and_flatten(self.__dict__[name])
            self.generator_ready = True
        yield from in_order(self, batch_size)


class OrderedPPO(PPO):
    """The same batches without a buffer of one's own."""

    def minibatches(self, batch, batch_size, rollout):
        rows = (
            torch.arange(rollout.n_steps * rollout.n_envs).view(rollout.n_steps, rollout.n_envs).T.flatten()
        )
        return (batch.take(rows[start : start + batch_size]) for start in range(0, len(rows), batch_size))


class Parts(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high
        self.observation_space = spaces.Dict(
            {"a": spaces.Box(low[:2], high[:2]), "b": spaces.Box(low[2:], high[2:])}
        )

    def observation(self, observation):
        return {"a": observation[:2], "b": observation[2:]}


def weights(algorithm, env_id="CartPole-v1", policy="MlpPolicy", wrapper=None, **kwargs):
    env = make_vec_env(env_id, 2, wrapper_class=wrapper, seed=0)
    model = algorithm(
        policy, env, n_steps=32, batch_size=16, n_epochs=2, seed=0, policy_kwargs=SMALL, **kwargs
    )
    model.learn(192)
    return torch.cat([weight.detach().flatten() for weight in model.policy.parameters()])


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("cls", [Ordered, OrderedInDict])
def test_ppo_learns_from_what_get_yields(cls, env_id):
    own = weights(PPO, env_id, rollout_buffer_class=cls)
    expected = weights(OrderedPPO, env_id)
    assert torch.allclose(own, expected, atol=1e-6)
    assert not torch.allclose(own, weights(PPO, env_id), atol=1e-4)


def test_get_of_dict_observations_is_learned_from():
    own = weights(PPO, policy="MultiInputPolicy", wrapper=Parts, rollout_buffer_class=OrderedDicts)
    assert torch.allclose(own, weights(OrderedPPO, policy="MultiInputPolicy", wrapper=Parts), atol=1e-6)


def test_samples_of_ones_own_are_learned_from():
    class Rewarded(RolloutBuffer):
        def _get_samples(self, batch_inds, env=None):
            samples = super()._get_samples(batch_inds)
            return samples._replace(returns=torch.full_like(samples.returns, 50.0))

    model = PPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, seed=0, rollout_buffer_class=Rewarded, learning_rate=0.02
    )
    model.learn(640)
    values = model.policy.predict_values(torch.zeros(1, 4))
    assert 40 < values.item() < 60


class Masked(gym.Wrapper):
    def action_masks(self):
        return np.array([True, False])


def test_masks_reach_the_batches_of_get():
    seen = []

    class Seen(RolloutBuffer):
        def get(self, batch_size=None):
            for samples in super().get(batch_size):
                seen.append(samples.action_masks)
                yield samples

    kwargs = {"n_steps": 16, "batch_size": 8, "n_epochs": 1, "rollout_buffer_class": Seen}
    model = MaskablePPO("MlpPolicy", Masked(gym.make("CartPole-v1")), **kwargs).learn(16)
    assert torch.equal(torch.cat(seen), torch.tensor([[1.0, 0.0]]).expand(16, 2))
    assert model.n_updates == 2 and model.logger.name_to_value["train/approx_kl"] == 0  # one choice is left


def test_flattened_arrays_last_until_reset():
    buffer = Ordered(4, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), n_envs=2)
    for step in range(4):
        buffer.add(np.full((2, 3), step), [0, 1], [1.0, 2.0], [step == 0] * 2, torch.zeros(2), torch.zeros(2))
    list(buffer.get(4))
    assert buffer.observations.shape == (8, 3) and buffer.rewards.shape == (4, 2)
    assert buffer.observations[:, 0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    buffer.reset()
    assert buffer.generator_ready is False and buffer.observations.shape == (4, 2, 3)
    buffer.generator_ready = False
    assert not set(ARRAYS) & set(vars(buffer))


def test_observations_and_actions_may_be_assigned():
    buffer = RolloutBuffer(2, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), n_envs=2)
    buffer.observations = np.full((2, 2, 3), 0.5)
    buffer.actions = np.ones((2, 2, 1))
    assert (buffer.obs_column[:2] == 0.5).all() and (buffer.action_column == 1).all()
    with pytest.raises(UserError, match="episode_starts"):
        buffer.episode_starts = np.ones((2, 2))


def test_get_is_refused_where_it_is_never_called():
    with pytest.raises(UserError, match=r"Ordered overrides get\(\)"):
        RecurrentPPO("MlpLstmPolicy", "CartPole-v1", rollout_buffer_class=Ordered)
