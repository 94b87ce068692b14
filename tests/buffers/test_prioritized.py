"""Prioritised replay: frequencies, weights in closed form, and the same transitions as plain replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from naive_replay import COLOUR, DICT, FRAME, VECTOR, NaiveReplay, RandomEnvs, assert_same

from rlzoo import PrioritizedReplayBuffer, UserError
from rlzoo.buffers.replay.replay_file import load_replay_buffer, save_replay_buffer

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def make(space=VECTOR, n_envs=1, buffer_size=50, **kwargs):
    return PrioritizedReplayBuffer(buffer_size, space, BOX, n_envs=n_envs, gamma=0.9, **kwargs)


def fill(replay, n_steps, seed=0, envs=None):
    envs = envs or RandomEnvs(VECTOR, replay.n_envs, seed)
    if not replay.started:
        replay.start(envs.reset())
    for _ in range(n_steps):
        replay.add_step(envs.actions(), envs.step())
    return envs


def chances(replay, n=200_000):
    """How often each index is drawn."""
    return np.bincount(replay._draw(n), minlength=replay.n_slots * replay.n_envs) / n


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_and_weights_in_closed_form(alpha):
    torch.manual_seed(0)
    replay = make(n_envs=2, buffer_size=20, alpha=alpha, beta0=0.4, eps=0.01)
    fill(replay, 10)
    errors = np.random.default_rng(0).exponential(size=20)
    replay.update_priorities(np.arange(20), torch.from_numpy(errors).float())
    p = (errors + 0.01) ** alpha
    p /= p.sum()
    # stratified: each index is drawn n * P(i) times, give or take two
    np.testing.assert_allclose(chances(replay)[:20], p, atol=2.1 / 200_000, rtol=1e-5)
    for progress, beta in ((0.0, 0.4), (0.5, 0.7), (1.0, 1.0)):
        replay.progress = progress
        assert replay.beta == pytest.approx(beta)
        batch = replay.draw(16)
        weights = (20 * p[batch.indices]) ** -beta
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-5)
        assert batch.weights.dtype == torch.float32
        assert batch.priorities is None


def test_a_batch_is_spread_over_the_sum_of_priorities():
    replay = make(buffer_size=32)
    fill(replay, 32)
    for _ in range(5):
        assert sorted(replay.draw(32).indices) == list(range(32))  # equal priorities: one of each


def test_new_transitions_get_max_priority():
    replay = make(buffer_size=10, alpha=1.0, eps=0.5)
    fill(replay, 4)
    assert replay.tree.total == 0  # written when it is needed
    replay.draw(1)
    np.testing.assert_array_equal(replay.tree.leaves, [1.0] * 4 + [0.0] * 7)
    replay.update_priorities(np.array([1, 2]), np.array([2.0, -0.25]))
    np.testing.assert_array_equal(replay.tree.leaves, [1.0, 2.5, 0.75, 1.0] + [0.0] * 7)
    envs = fill(replay, 3)
    replay.draw(1)
    np.testing.assert_array_equal(replay.tree.leaves, [1.0, 2.5, 0.75, 1.0] + [2.5] * 3 + [0.0] * 4)
    for n_steps in (5, 1, 1, 2, 25, 11, 3):
        fill(replay, n_steps, envs=envs)
        drawn = set(replay.draw(500).indices)
        valid = {(replay.head - 1 - k) % replay.n_slots for k in range(len(replay))}
        assert drawn == valid
        leaves = replay.tree.leaves
        assert (leaves[sorted(valid)] > 0).all()
        assert np.count_nonzero(leaves) == len(valid)
    assert replay.max_priority == 2.5
    replay.reset()
    assert replay.tree.total == 0.0 and not replay.can_sample()


def test_priorities_set_before_sampling_apply():
    replay = make(buffer_size=10, alpha=1.0, eps=1.0)
    fill(replay, 2)
    replay.update_priorities(np.array([0]), np.array([5.0]))  # slot 1 was added before this error was known
    np.testing.assert_array_equal(replay.tree.leaves[:3], [6.0, 1.0, 0.0])


@pytest.mark.parametrize("n_envs", [1, 3])
def test_priorities_told_late_revive_nothing(n_envs):
    replay = make(n_envs=n_envs, buffer_size=5 * n_envs)
    envs = fill(replay, 5)
    indices = replay.draw(50).indices
    for _ in range(7):  # what was drawn is overwritten bit by bit before anyone says how wrong it was
        fill(replay, 1, envs=envs)
        replay.update_priorities(indices, np.ones(50))
        assert set(replay.draw(500).indices // n_envs) == set(range(6)) - {replay.head}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(
    ("space", "n_stack"),
    [(VECTOR, 1), (DICT, 1), (FRAME, 4), (COLOUR, 2)],
    ids=["vector", "dict", "x4", "x2"],
)
def test_transitions_are_those_of_plain_replay(space, n_stack, n_steps):
    envs = RandomEnvs(space, 3, seed=1, n_stack=n_stack)
    replay = make(envs.space, 3, 60, n_steps=n_steps, frame_stack=n_stack)
    naive = NaiveReplay(replay.buffer_size, n_steps)
    obs = envs.reset()
    replay.start(obs)
    naive.start(obs)
    for _ in range(7):
        for _ in range(11):
            actions, result = envs.actions(), envs.step()
            replay.add_step(actions, result)
            naive.add(actions, result)
        assert_same(replay, naive)
        batch = replay.draw(30)
        replay.update_priorities(batch.indices, torch.rand(30))
    assert set(replay._draw(5000)) == {
        (replay.oldest + k) % replay.n_slots * 3 + env for k in range(replay.size()) for env in range(3)
    }


def test_each_batch_sees_the_priorities_that_the_one_before_left():
    torch.manual_seed(0)
    replay = make(buffer_size=64, alpha=1.0, eps=1e-9)
    fill(replay, 64)
    seen = []
    for batch in replay.batches(3, 8):
        seen.append(set(batch.indices))
        replay.update_priorities(batch.indices, torch.zeros(8))
    assert not seen[0] & seen[1] and not (seen[0] | seen[1]) & seen[2]


def test_beta_by_a_number_of_transitions():
    replay = make(n_envs=2, beta0=0.5, beta_iters=40)
    assert replay.beta == 0.5
    fill(replay, 10)
    replay.progress = 0.99
    assert replay.beta == 0.75
    fill(replay, 50)
    assert replay.beta == 1.0


def test_what_a_file_must_hold_is_in_the_columns_and_the_state():
    replay, copy = make(n_envs=2, buffer_size=20), make(n_envs=2, buffer_size=20)
    envs = fill(replay, 15)
    batch = replay.draw(12)
    replay.update_priorities(batch.indices, torch.rand(12) * 3)
    fill(replay, 2, envs=envs)
    columns, state = replay.own_columns(), replay.own_state()
    for name, column in copy.own_columns().items():
        column[...] = columns[name]
    copy.load_own_state(state)
    copy._size, copy.head = replay._size, replay.head
    torch.manual_seed(3)
    drawn = replay._draw(100)
    torch.manual_seed(3)
    np.testing.assert_array_equal(copy._draw(100), drawn)
    assert (copy.max_priority, copy.beta) == (replay.max_priority, replay.beta)


def test_needed_memory_counts_the_tree():
    replay = make(buffer_size=20_000, n_envs=4)
    needed = PrioritizedReplayBuffer.required_bytes(20_000, VECTOR, BOX, n_envs=4)
    assert needed == pytest.approx(replay.nbytes, rel=0.02)


@pytest.mark.parametrize(
    "kwargs", [{"alpha": 1.5}, {"alpha": -0.1}, {"beta0": 2.0}, {"eps": 0.0}, {"beta_iters": 0}]
)
def test_refusals(kwargs):
    with pytest.raises(UserError, match=next(iter(kwargs))):
        make(**kwargs)


def test_a_saved_buffer_goes_on_to_the_bit(tmp_path):
    replay, copy = make(n_envs=2, buffer_size=20), make(n_envs=2, buffer_size=20)
    envs = fill(replay, 25)
    batch = replay.draw(12)
    replay.update_priorities(batch.indices, torch.rand(12) * 3)
    fill(replay, 2, envs=envs)
    save_replay_buffer(tmp_path / "replay", replay)
    load_replay_buffer(tmp_path / "replay", copy, truncate_last_traj=False)
    for _ in range(3):
        step = envs.actions(), envs.step()
        batches = []
        for each in (replay, copy):
            torch.manual_seed(4)
            each.add_step(*step)
            batches.append(each.draw(16))
            each.update_priorities(batches[-1].indices, torch.linspace(0, 9, 16))
        for name in ("observations", "next_observations", "rewards", "discounts", "weights"):
            assert getattr(batches[0], name).equal(getattr(batches[1], name))
