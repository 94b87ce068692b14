"""PPO learns from the batches of a rollout buffer's own `get`, written as for stable-baselines3."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    A2C,
    PPO,
    DictRolloutBuffer,
    MaskablePPO,
    RecurrentPPO,
    RolloutBuffer,
    UserError,
    make_vec_env,
)
from rlzoo.buffers.rollout_arrays import ARRAYS
from rlzoo.buffers.samples import RolloutBufferSamples

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


class FromInherited(RolloutBuffer):
    """The same after the inherited `get` has flattened the arrays, in double precision and as columns."""

    def get(self, batch_size=None):
        next(super().get())
        for name in ("values", "log_probs", "advantages", "returns"):
            setattr(self, name, getattr(self, name).astype(np.float64))
        yield from in_order(self, batch_size)

    def _get_samples(self, batch_inds, env=None):
        arrays = (self.observations, self.actions, self.values, self.log_probs, self.advantages, self.returns)
        return RolloutBufferSamples(*(self.to_torch(array[batch_inds]) for array in arrays))


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


class OrderedMasks(RolloutBuffer):
    """The same of masked actions; at first it also asks whether batches are ready."""

    def add(self, *args, **kwargs):
        assert not self.generator_ready
        super().add(*args, **kwargs)

    def get(self, batch_size=None):
        if not self.generator_ready:
            for name in ("observations", "action_masks", *FLATTENED):
                self.__dict__[name] = self.swap_and_flatten(self.__dict__[name])
            self.generator_ready = True
        return in_order(self, batch_size)


class InOrder:
    """The same batches without a buffer of one's own."""

    def minibatches(self, batch, batch_size, rollout):
        rows = (
            torch.arange(rollout.n_steps * rollout.n_envs).view(rollout.n_steps, rollout.n_envs).T.flatten()
        )
        return (batch.take(rows[start : start + batch_size]) for start in range(0, len(rows), batch_size))


class OrderedPPO(InOrder, PPO):
    pass


class OrderedMaskablePPO(InOrder, MaskablePPO):
    pass


class Parts(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high
        parts = {"a": spaces.Box(low[:2], high[:2]), "b": spaces.Box(low[2:], high[2:])}
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation):
        return {"a": observation[:2], "b": observation[2:]}


class Masked(gym.Wrapper):
    """Actions away from the centre are not allowed."""

    def action_masks(self):
        position = self.unwrapped.state[0]
        return np.array([position > -0.02, position < 0.02])


def weights(algorithm, env_id="CartPole-v1", policy="MlpPolicy", wrapper=None, callback=None, **kwargs):
    env = make_vec_env(env_id, 2, wrapper_class=wrapper, seed=0)
    sizes = {"n_steps": 32, "batch_size": 16, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}}
    model = algorithm(policy, env, seed=0, learning_rate=3e-3, **{**sizes, **kwargs}).learn(192, callback)
    return torch.cat([weight.detach().flatten() for weight in model.policy.parameters()])


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize(("cls", "clip"), [(Ordered, 0.1), (OrderedInDict, None), (FromInherited, None)])
def test_ppo_learns_from_what_get_yields(cls, clip, env_id):
    own = weights(PPO, env_id, rollout_buffer_class=cls, clip_range_vf=clip)
    expected = weights(OrderedPPO, env_id, clip_range_vf=clip)
    assert torch.allclose(own, expected, atol=1e-5)
    assert not torch.allclose(own, weights(PPO, env_id, clip_range_vf=clip), atol=1e-3)


def test_a2c_learns_from_what_get_yields():
    asked = []

    class Halves(RolloutBuffer):
        """Two batches with other advantages."""

        def get(self, batch_size=None):
            asked.append(batch_size)
            self.advantages = self.advantages * 2
            yield from super().get(self.buffer_size * self.n_envs)
            yield from super().get(self.buffer_size * self.n_envs)

    class Twice(A2C):
        def update(self, rollout, counters):
            rollout.advantages[:] *= 2
            return super().update(rollout, counters)

        def gradient_step(self, batch, evaluated):
            super().gradient_step(batch, evaluated)
            return super().gradient_step(batch, None)

    def trained(algorithm, **kwargs):
        env = make_vec_env("CartPole-v1", 2, seed=0)
        model = algorithm("MlpPolicy", env, n_steps=8, seed=0, ent_coef=0.01, **kwargs).learn(160)
        return torch.cat([weight.detach().flatten() for weight in model.policy.parameters()])

    own = trained(A2C, rollout_buffer_class=Halves)
    assert asked == [None] * 10
    assert torch.allclose(own, trained(Twice), atol=1e-5)
    assert not torch.allclose(own, trained(A2C), atol=1e-3)


def test_get_of_dict_observations_is_learned_from():
    own = weights(PPO, policy="MultiInputPolicy", wrapper=Parts, rollout_buffer_class=OrderedDicts)
    assert torch.allclose(own, weights(OrderedPPO, policy="MultiInputPolicy", wrapper=Parts), atol=1e-5)


def test_get_of_masked_actions_is_learned_from():
    own = weights(MaskablePPO, wrapper=Masked, rollout_buffer_class=OrderedMasks)
    assert torch.allclose(own, weights(OrderedMaskablePPO, wrapper=Masked), atol=1e-5)


def test_samples_of_ones_own_are_learned_from():
    class Rewarded(RolloutBuffer):
        def _get_samples(self, batch_inds, env=None):
            samples = super()._get_samples(batch_inds)
            return samples._replace(returns=torch.full_like(samples.returns, -50.0))

    kwargs = {"n_steps": 64, "seed": 0, "learning_rate": 0.02}
    model = PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=Rewarded, **kwargs).learn(640)
    assert model.policy.predict_values(torch.zeros(1, 4)).item() < -40


def test_advantages_changed_in_get_are_changed_once_a_rollout():
    asked = []

    class Scaled(RolloutBuffer):
        def get(self, batch_size=None):
            asked.append(self.generator_ready)
            if not self.generator_ready:
                self.advantages *= -1
                self.returns = self.returns + 3
            yield from super().get(batch_size)

    def change(self, rollout, counters):
        rollout.advantages[:] *= -1
        rollout.returns[:] += 3
        return PPO.update(self, rollout, counters)

    kwargs = {"batch_size": 64, "normalize_advantage": False}  # one batch: its order does not count
    own = weights(PPO, rollout_buffer_class=Scaled, **kwargs)
    assert asked == 3 * [False, True]
    expected = weights(type("Changed", (PPO,), {"update": change}), **kwargs)
    assert torch.allclose(own, expected, atol=1e-5)
    assert not torch.allclose(own, weights(PPO, **kwargs), atol=1e-3)


def test_masks_reach_the_batches_of_get():
    seen = []

    class Seen(RolloutBuffer):
        def get(self, batch_size=None):
            assert self.mask_dims == 2
            self.action_masks[..., 0] = 1
            for samples in super().get(batch_size):
                seen.append(samples.action_masks)
                yield samples

    weights(MaskablePPO, wrapper=Masked, rollout_buffer_class=Seen)
    masks = torch.cat(seen)
    assert masks.shape == (3 * 2 * 64, 2) and (masks[:, 0] == 1).all() and 0 < masks[:, 1].mean() < 1


def test_flattened_arrays_last_until_reset():
    buffer = Ordered(4, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), n_envs=2)
    assert not buffer.generator_ready
    for step in range(4):
        values = torch.tensor([step, 10.0 + step])
        buffer.add(np.full((2, 3), step), [0, 1], [1.0, 2.0], [step == 0] * 2, values, torch.zeros(2))
    assert [batch.old_values.tolist() for batch in buffer.get(4)] == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert buffer.observations.shape == (8, 3) and buffer.rewards.shape == (4, 2)
    buffer.reset()
    assert buffer.generator_ready is False and buffer.observations.shape == (4, 2, 3)
    assert not set(ARRAYS) & set(vars(buffer))


def test_arrays_are_assigned_in_their_shape():
    buffer = RolloutBuffer(2, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), n_envs=2)
    buffer.observations = np.full((2, 2, 3), 0.5)
    buffer.actions = np.ones((2, 2, 1))
    assert (buffer.obs_column[:2] == 0.5).all() and (buffer.action_column == 1).all()
    with pytest.raises(UserError, match=r"advantages has the shape \(2, 2\), not \(4, 1\)"):
        buffer.advantages = np.zeros((4, 1))
    with pytest.raises(UserError, match="episode_starts of a rollout cannot be assigned"):
        buffer.episode_starts = np.ones((2, 2))


def test_get_leaves_sequences_of_recurrent_policies_alone():
    own = type("Own", (RecurrentPPO,), {"train": lambda self: RecurrentPPO.train(self)})
    with_get = weights(own, policy="MlpLstmPolicy", rollout_buffer_class=Ordered)
    assert torch.equal(with_get, weights(own, policy="MlpLstmPolicy"))


def test_get_that_cannot_be_learned_from_is_refused():
    with pytest.raises(UserError, match=r"Ordered overrides get\(\), which RecurrentPPO never calls"):
        RecurrentPPO("MlpLstmPolicy", "CartPole-v1", rollout_buffer_class=Ordered)
    none = type("Empty", (RolloutBuffer,), {"get": lambda self, batch_size=None: iter(())})
    with pytest.raises(UserError, match=r"Empty.get\(16\) has yielded no batch"):
        weights(PPO, rollout_buffer_class=none)
