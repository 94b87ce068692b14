"""The rollout buffer: rows land where they belong, nothing leaks from one rollout into the next."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer, minibatches
from rlzoo.core.errors import CheckpointError, EnvironmentFailed
from rlzoo.core.types import PolicyOutput
from rlzoo.envs.vec_env.vec_env import VecStep

BOX = spaces.Box(-1, 1, (2,), np.float64)


def result(obs, reward=0.0, terminated=(0, 0), truncated=(0, 0), final_obs=None):
    terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
    ended = np.flatnonzero(terminated | truncated)
    rewards = np.full(2, reward, np.float32)
    return VecStep(obs, rewards, terminated, truncated, ended, final_obs, ({}, {}))


def filled(n_steps=3, **last):
    buffer = RolloutBuffer(n_steps, BOX, spaces.Discrete(3), n_envs=2)
    buffer.start(np.zeros((2, 2)))
    for t in range(n_steps):
        step = PolicyOutput(torch.tensor([t, t + 1]), None, {"values": torch.full((2,), float(t))})
        outcome = result(np.full((2, 2), t + 1.0), t, **(last if t == n_steps - 1 else {}))
        buffer.add_step(t, step, outcome, np.array([t == 0, False]))
    return buffer


def test_rows_and_extra_columns():
    buffer = filled()
    flat = buffer.flat_obs(torch.device("cpu"))
    assert flat.dtype == torch.float32 and flat[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert buffer.last_obs()[:, 0].tolist() == [3, 3]
    assert buffer.flat_actions(torch.device("cpu")).tolist() == [0, 1, 1, 2, 2, 3]
    assert buffer.rewards[:, 0].tolist() == [0, 1, 2]
    assert buffer.extra_columns["values"][:, 1].tolist() == [0, 1, 2]
    assert buffer.episode_starts[0].tolist() == [True, False]


def test_acting_reads_the_row_that_was_written():
    buffer = filled()
    assert buffer.obs_rows[2].tolist() == [[2, 2], [2, 2]]
    assert buffer.obs_rows[2].data_ptr() == torch.from_numpy(buffer.obs_column[2]).data_ptr()


def test_final_obs_kept_for_truncation_until_reset():
    final = np.array([[7.0, 7.0], [8.0, 8.0]])
    buffer = filled(terminated=(1, 0), truncated=(0, 1), final_obs=final)
    obs, (steps, envs) = buffer.finals()
    assert obs.tolist() == [[8, 8]] and steps.tolist() == [2] and envs.tolist() == [1]
    final[:] = 0  # the buffer keeps a copy
    assert buffer.finals()[0].tolist() == [[8, 8]]
    buffer.start(np.zeros((2, 2)))
    assert buffer.finals() is None


def test_dict_observations():
    space = spaces.Dict({"a": BOX, "b": spaces.Discrete(4)})
    buffer = RolloutBuffer(1, space, spaces.Box(-1, 1, (2, 3)), n_envs=2)
    obs = {"a": np.zeros((2, 2)), "b": np.array([1, 2])}
    buffer.start(obs)
    after = {"a": np.ones((2, 2)), "b": np.array([3, 0])}
    outcome = result(after, truncated=(0, 1), final_obs={"a": np.full((1, 2), 5.0), "b": np.array([2])})
    buffer.add_step(0, PolicyOutput(torch.ones(2, 2, 3), None), outcome, np.zeros(2, bool))
    assert buffer.flat_obs(torch.device("cpu"))["b"].tolist() == [1, 2]
    assert buffer.last_obs()["a"].tolist() == [[1, 1], [1, 1]]
    assert buffer.finals()[0]["b"].tolist() == [2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_observation_names_env_and_step(bad):
    buffer = filled()
    buffer.check_finite(100)
    buffer.obs_column[2, 1, 0] = bad
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1 returned (nan|inf) in its observation at step 102"
    ) as error:
        buffer.check_finite(100)
    assert (error.value.env_index, error.value.step) == (1, 102)


def test_a_non_finite_reward_is_named():
    buffer = filled()
    buffer.rewards[0, 0] = -np.inf
    with pytest.raises(EnvironmentFailed, match="environment 0 returned -inf in its reward at step 101"):
        buffer.check_finite(100)


@pytest.mark.parametrize("with_dict", [False, True])
def test_a_non_finite_final_observation_is_named(with_dict):
    buffer = filled()
    row = np.array([0.0, np.nan])
    buffer._finals = [(1, 1, {"angle": row} if with_dict else row)]
    name = "angle" if with_dict else "observation"
    with pytest.raises(EnvironmentFailed, match=f"environment 1 returned nan in its {name} at step 102"):
        buffer.check_finite(100)


def test_opposite_infinities_do_not_cancel():
    buffer = filled()
    buffer.rewards[0] = [np.inf, -np.inf]
    with pytest.raises(EnvironmentFailed):
        buffer.check_finite(0)


def test_minibatches_partition_the_rows():
    columns = RolloutBatch({"x": torch.arange(10) * 2}, actions=torch.arange(10))
    seen = []
    for batch in minibatches(columns, 4, 10, torch.device("cpu")):
        assert (batch.obs["x"] == 2 * batch.actions).all()
        seen.append(batch.actions.tolist())
        assert not len(batch.returns)
    assert [len(part) for part in seen] == [4, 4, 2]
    assert sorted(row for part in seen for row in part) == list(range(10))


def test_minibatches_are_shuffled_by_the_torch_seed():
    columns = RolloutBatch(torch.arange(64))

    def orders(seed):
        torch.manual_seed(seed)
        return [batch.obs.tolist() for batch in minibatches(columns, 32, 64, torch.device("cpu"))]

    assert orders(0) == orders(0) != orders(1)


def test_actions_come_to_the_host():
    """A tensor of an accelerator cannot be written into an array directly."""

    class OnDevice:
        def __init__(self, values):
            self.values = values

        def cpu(self):
            return torch.tensor(self.values)

        def __array__(self, *args, **kwargs):
            raise TypeError("can't convert a device tensor to numpy")

    buffer = RolloutBuffer(1, BOX, spaces.Discrete(3), n_envs=2)
    buffer.start(np.zeros((2, 2)))
    buffer.add_step(0, PolicyOutput(OnDevice([2, 1]), None), result(np.zeros((2, 2))), np.zeros(2, bool))
    assert buffer.action_column.tolist() == [[2, 1]]


def test_restarted_rollout_truncates_the_episodes_in_progress() -> None:
    rollout = RolloutBuffer(3, spaces.Box(-1, 1, (1,)), spaces.Discrete(2), n_envs=2)
    rollout.start(np.zeros((2, 1), np.float32))
    ended = VecStep(
        np.array([[0.1], [0.2]], np.float32), np.ones(2), np.array([True, False]), np.zeros(2, bool),
        np.array([0]), np.array([[0.9]], np.float32), [{}, {}],
    )  # fmt: skip
    rollout.add_step(0, PolicyOutput(torch.zeros(2, dtype=torch.int64), np.zeros(2)), ended, np.ones(2, bool))
    again = RolloutBuffer(3, spaces.Box(-1, 1, (1,)), spaces.Discrete(2), n_envs=2)
    again.load_state_dict(rollout.state_dict(), torch.device("cpu"))
    assert again.filled == 1
    again.restart(np.full((2, 1), 0.5, np.float32))
    assert again.truncated[0].tolist() == [False, True]
    (final,), (steps, envs) = again.finals()  # type: ignore[misc]
    assert (final.tolist(), steps.tolist(), envs.tolist()) == ([np.float32(0.2)], [0], [1])
    assert again.observations[1].tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize("damage", ["shape", "column", "final"])
def test_damaged_rollout_is_one_clear_error(damage: str) -> None:
    rollout = RolloutBuffer(3, spaces.Box(-1, 1, (1,)), spaces.Discrete(2))
    rollout.filled = 2
    state = rollout.state_dict()
    if damage == "shape":
        state["columns"]["actions"] = state["columns"]["actions"][:1]
    elif damage == "column":
        del state["columns"]["rewards"]
    else:
        state["finals"] = [[7, 0, np.zeros(1)]]
    with pytest.raises(CheckpointError, match="rollout in the model file is damaged"):
        rollout.load_state_dict(state, torch.device("cpu"))
