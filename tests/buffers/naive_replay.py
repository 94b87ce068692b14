"""A replay buffer that stores everything and looks everything up in loops, and environments to fill it."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import map_obs
from rlzoo.envs.vec_env.vec_env import VecStep
from rlzoo.envs.vec_wrappers.frame_stack import FrameStack

FRAME = spaces.Box(0, 255, (1, 3, 4), np.uint8)
COLOUR = spaces.Box(0, 255, (2, 4, 4), np.uint8)
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float64)
DICT = spaces.Dict({"a": VECTOR, "b": spaces.Discrete(1000), "c": FRAME})


class RandomEnvs:
    """Observations that never repeat; episodes end at random, several at once, in all three ways."""

    def __init__(self, space, n_envs, seed, ends=0.3, n_stack=1):
        self.rng, self.n_envs, self.ends = np.random.default_rng(seed), n_envs, ends
        self.single, self.n_stack = space, n_stack
        self.stack = FrameStack(space, n_envs, n_stack, "first") if n_stack > 1 else None
        self.space = self.stack.space if self.stack else space

    def draw(self, n):
        return sample(self.single, n, self.rng)

    def reset(self, filled=False):
        """The first observations; with `filled`, of stacks that are full already."""
        obs = self.draw(self.n_envs)
        if self.stack is None:
            return obs
        stacks = self.stack.reset(obs)
        if filled:
            self.stack.frames[...] = self.rng.integers(0, 256, self.stack.frames.shape)
            self.stack.frames[: self.n_envs // 2, :-1] = 0  # of some environments only
        return stacks.copy() if not filled else self.stack._stacked(self.stack.frames).copy()

    def actions(self):
        return self.rng.uniform(-1, 1, (self.n_envs, 2)).astype(np.float32)

    def step(self):
        ways = self.rng.choice(4, self.n_envs, p=[1 - self.ends, *[self.ends / 3] * 3])
        terminated, truncated = (ways & 1) > 0, (ways & 2) > 0
        ended = np.flatnonzero(ways)
        obs = self.draw(self.n_envs)
        finals = self.draw(len(ended)) if len(ended) else None
        if self.stack is not None:
            obs, finals = self.stack.push(obs, ended, finals)
            obs = obs.copy()
        rewards = self.rng.normal(size=self.n_envs).astype(np.float32)
        infos = [{} for _ in range(self.n_envs)]
        return VecStep(obs, rewards, terminated, truncated, ended, finals, infos)


def sample(space, n, rng):
    if isinstance(space, spaces.Dict):
        return {key: sample(part, n, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, space.n, n)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (n, *space.shape)).astype(np.uint8)
    return rng.normal(size=(n, *space.shape)).astype(np.float32).astype(space.dtype)


class NaiveReplay:
    """Every step as (observations, actions, rewards, next observations, terminated, ended)."""

    def __init__(self, n_kept, n_steps=1, gamma=0.9, timeouts=True):
        self.n_kept, self.n_steps, self.gamma, self.timeouts = n_kept, n_steps, gamma, timeouts
        self.steps = []

    def start(self, obs):
        self.obs = map_obs(np.array, obs)
        if self.steps:
            self.steps[-1]["ended"][:] = True

    def add(self, actions, result):
        next_obs = map_obs(np.array, result.obs)
        for row, env in enumerate(result.ended):
            if isinstance(next_obs, dict):
                for key in next_obs:
                    next_obs[key][env] = result.final_obs[key][row]
            else:
                next_obs[env] = result.final_obs[row]
        ended = result.terminated | result.truncated
        self.steps.append(
            {
                "obs": self.obs,
                "actions": np.array(actions),
                "rewards": result.rewards.copy(),
                "next_obs": next_obs,
                "terminated": result.terminated.copy() if self.timeouts else ended.copy(),
                "ended": ended,
            }
        )
        self.obs = map_obs(np.array, result.obs)

    def kept(self):
        return self.steps[-self.n_kept :]

    def transition(self, k, env):
        """Step `k` of the kept ones: observation, action, next observation, return, discount."""
        kept = self.kept()
        total, discount, at = 0.0, 1.0, k
        for at in range(k, min(k + self.n_steps, len(kept))):
            total += discount * float(kept[at]["rewards"][env])
            discount *= self.gamma
            if kept[at]["ended"][env]:
                break
        if kept[at]["terminated"][env]:
            discount = 0.0
        row = lambda obs: map_obs(lambda array: array[env], obs)  # noqa: E731
        return row(kept[k]["obs"]), kept[k]["actions"][env], row(kept[at]["next_obs"]), total, discount


def assert_same(replay, naive):
    """Every transition of `replay` is what `naive` has there."""
    kept = naive.kept()
    assert replay.size() == len(kept) and len(replay) == len(kept) * replay.n_envs
    slots = (replay.oldest + np.arange(len(kept))) % replay.n_slots
    indices = (slots[:, None] * replay.n_envs + np.arange(replay.n_envs)).reshape(-1)
    batch = replay._assemble(indices)
    expected = [naive.transition(k, env) for k in range(len(kept)) for env in range(replay.n_envs)]
    obs, actions, next_obs, rewards, discounts = zip(*expected, strict=True)
    equal = np.testing.assert_array_equal
    for found, rows in ((batch.observations, obs), (batch.next_observations, next_obs)):
        map_obs(equal, map_obs(torch.Tensor.cpu, found), map_obs(lambda *parts: np.stack(parts), *rows))
    equal(batch.actions.cpu(), np.stack(actions))
    np.testing.assert_allclose(batch.rewards.cpu(), rewards, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.discounts.cpu(), discounts, rtol=1e-6)
