"""Rows of a rollout as sequences, against sequences put together by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.buffers.sequences import Sequences, rollout_sequences, sequence_minibatches

CPU = torch.device("cpu")
N_STEPS, N_ENVS = 7, 3
N = N_STEPS * N_ENVS
# By environment: where episodes start. The first goes on from before the rollout.
STARTS = {0: [4], 1: [0, 1, 6], 2: []}


def rollout_and_state():
    """Row t of environment e remembers 100 e + t before it, in two numbers."""
    rollout = RolloutBuffer(N_STEPS, spaces.Box(-1, 1, (1,)), spaces.Discrete(2), n_envs=N_ENVS)
    for env, steps in STARTS.items():
        rollout.starts_column[steps, env] = True
    t, env = np.meshgrid(np.arange(N_STEPS + 1), np.arange(N_ENVS), indexing="ij")
    rnn_state = torch.tensor(100.0 * env + t)[:, :, None, None].expand(-1, -1, 1, 2) + 1.0
    return rollout, {"m": rnn_state}


def columns():
    """The row numbers, to be recognised by."""
    rows = torch.arange(N)
    return RolloutBatch({"a": rows * 10}, actions=rows, context={"sequences": "of all rows"})


def expected_sequences(rows):
    """Lists of rows [t * N_ENVS + env] that follow each other, in the order given."""
    found = []
    for previous, row in zip([None, *rows], rows, strict=False):
        t, env = divmod(row, N_ENVS)
        if previous == row - N_ENVS and t not in STARTS[env]:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def assert_sequences(sequences, rows_of_batch, expected):
    """What the sequences are, and what is remembered before each."""
    padded = sequences.pad(rows_of_batch)
    assert padded.shape == (max(map(len, expected)), len(expected))
    for column, rows in enumerate(expected):
        assert padded[: len(rows), column].tolist() == rows
        t, env = divmod(rows[0], N_ENVS)
        stored = 0.0 if t in STARTS[env] else 100.0 * env + t + 1.0
        assert sequences.rnn_state["m"][column].tolist() == [[stored, stored]]
    assert torch.equal(sequences.unpad(padded), rows_of_batch)


def test_padding_and_back_is_nothing():
    starts = np.array([True, False, False, True, True, False])
    order = np.array([4, 0, 2, 5, 1, 3])
    sequences = Sequences(starts, order, {}, CPU)
    rows = torch.randn(6, 2, 3)
    padded = sequences.pad(rows)
    assert padded.shape == (3, 3, 2, 3)
    for column, members in enumerate(([4, 0, 2], [5], [1, 3])):
        assert torch.equal(padded[: len(members), column], rows[members])
    assert torch.equal(sequences.unpad(padded), rows)


def test_gradients_come_back_to_their_rows_and_padding_has_none():
    sequences = Sequences(np.array([True, False, True]), np.array([2, 0, 1]), {}, CPU)
    rows = torch.randn(3, 2, requires_grad=True)
    weight = torch.randn(3, 2)
    (gradient,) = torch.autograd.grad((sequences.unpad(sequences.pad(rows).square()) * weight).sum(), rows)
    torch.testing.assert_close(gradient, 2 * rows.detach() * weight)


def test_the_sequences_of_a_rollout():
    rollout, rnn_state = rollout_and_state()
    by_env = [t * N_ENVS + env for env in range(N_ENVS) for t in range(N_STEPS)]
    assert_sequences(rollout_sequences(rollout, rnn_state), torch.arange(N), expected_sequences(by_env))


def test_a_rollout_that_no_episode_interrupts_is_not_padded():
    rollout, rnn_state = rollout_and_state()
    rollout.starts_column[:] = False
    sequences = rollout_sequences(rollout, rnn_state)
    assert torch.equal(sequences.pad(torch.arange(N)), torch.arange(N).reshape(N_STEPS, N_ENVS))


@pytest.mark.parametrize("batch_size", [1, 4, 7, 10, N - 1])
def test_cut_sequences_start_from_stored_rnn_state(batch_size):
    torch.manual_seed(batch_size)
    rollout, rnn_state = rollout_and_state()
    seen, cuts = [], set()
    for _ in range(5):
        of_pass = []
        for minibatch in sequence_minibatches(columns(), batch_size, rollout, rnn_state):
            rows = minibatch.actions
            assert torch.equal(minibatch.obs["a"], rows * 10)
            assert_sequences(minibatch.context["sequences"], rows, expected_sequences(rows.tolist()))
            of_pass.append(rows.tolist())
        assert {len(rows) for rows in of_pass[:-1]} <= {batch_size} and len(of_pass[-1]) <= batch_size
        seen.append(sorted(row for rows in of_pass for row in rows))
        cuts.add(of_pass[0][0])
    assert seen == [list(range(N))] * 5
    assert len(cuts) > 1, "the cuts are always at the same places"


def test_one_minibatch_of_all_rows_is_the_rollout_as_it_is():
    rollout, rnn_state = rollout_and_state()
    given = columns()
    (minibatch,) = sequence_minibatches(given, N, rollout, rnn_state)
    assert minibatch is given


def test_one_environment_does_not_run_on_into_itself():
    """Behind its last row comes its first."""
    rollout = RolloutBuffer(4, spaces.Box(-1, 1, (1,)), spaces.Discrete(2))
    rnn_state = {"m": torch.arange(5.0)[:, None, None, None]}
    torch.manual_seed(0)
    batch = RolloutBatch(torch.arange(4), actions=torch.arange(4))
    for _ in range(10):
        for minibatch in sequence_minibatches(batch, 3, rollout, rnn_state):
            rows, sequences = minibatch.actions, minibatch.context["sequences"]
            n_jumps = int((rows.diff() != 1).sum())
            assert sequences.n_sequences == n_jumps + 1


def test_rows_are_padded_once_until_they_change():
    sequences = Sequences(np.array([True, False, True]), np.array([2, 0, 1]), {}, CPU)
    rows = torch.tensor([0.0, 1.0, 2.0])
    padded = sequences.pad(rows)
    assert sequences.pad(rows) is padded
    rows += 10
    assert sequences.unpad(sequences.pad(rows)).tolist() == [10.0, 11.0, 12.0]
    assert sequences.unpad(sequences.pad(rows + 10)).tolist() == [20.0, 21.0, 22.0]
    padded = sequences.pad(rows)
    padded += 1  # as a hook of the LSTM may do
    assert sequences.unpad(sequences.pad(rows)).tolist() == [10.0, 11.0, 12.0]


def test_padding_of_rows_with_gradients_is_not_kept():
    sequences = Sequences(np.array([True, False, True]), np.array([2, 0, 1]), {}, CPU)
    rows = torch.zeros(3)
    sequences.pad(rows)
    rows.requires_grad_()
    for _ in range(2):
        sequences.unpad(sequences.pad(rows)).sum().backward()  # a graph that was kept is gone by now
    assert rows.grad.tolist() == [2.0, 2.0, 2.0]


def test_padding_in_inference_mode_is_not_kept_for_a_loss():
    sequences = Sequences(np.array([True, False, True]), np.array([2, 0, 1]), {}, CPU)
    rows, weight = torch.ones(3), torch.ones((), requires_grad=True)
    with torch.inference_mode():
        sequences.pad(rows)
    sequences.unpad(sequences.pad(rows) * weight).sum().backward()
    assert weight.grad == 3


def test_changed_rows_of_inference_mode_are_padded_again():
    sequences = Sequences(np.array([True, False, True]), np.array([2, 0, 1]), {}, CPU)
    with torch.inference_mode():
        rows = torch.zeros(3)
    sequences.pad(rows)
    with torch.inference_mode():
        rows += 1
    assert sequences.unpad(sequences.pad(rows)).tolist() == [1.0, 1.0, 1.0]
