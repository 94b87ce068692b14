"""Trajectories are drawn whole, each environment from its own; they survive a file."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.buffers.trajectories import Trajectories, TrajectoryBuffer
from rlzoo.buffers.trajectory_file import load_trajectories, save_trajectories
from rlzoo.core.errors import CheckpointError

N_STEPS, N_ENVS = 4, 3
IDENTITY = {"observation_space": spaces.Box(-1, 1, (1,)), "n_envs": N_ENVS, "n_steps": N_STEPS}
CPU = torch.device("cpu")


def trajectories(number, finals=None, with_dict=False, rnn_state=False):
    """Every number in it says rollout, step and environment: 100 * number + 10 * step + env."""
    steps, envs = np.indices((N_STEPS + 1, N_ENVS))
    told = (100 * number + 10 * steps + envs).astype(np.float32)
    truncated = np.zeros((N_STEPS, N_ENVS), bool)
    found = None
    if finals:
        index = tuple(np.array(part) for part in zip(*finals, strict=True))
        truncated[index] = True
        final_obs = told[:-1][index][:, None] + 0.5
        found = ({"a": final_obs} if with_dict else final_obs, index)
    starts = np.zeros((N_STEPS, N_ENVS), bool)
    starts[0, 0] = True
    starts[1:] = truncated[:-1]
    return Trajectories(
        obs={"a": told[..., None]} if with_dict else told[..., None],
        actions=told[:-1].astype(np.int64),
        rewards=told[:-1],
        terminated=np.zeros((N_STEPS, N_ENVS), bool),
        truncated=truncated,
        episode_starts=starts,
        log_mu=np.stack([told[:-1], -told[:-1]], axis=-1),
        rnn_state={"h": told[0][:, None, None]} if rnn_state else {},
        finals=found,
    )


def check_whole(drawn):
    """All columns of an environment are of one rollout, and of that environment."""
    numbers = drawn.rewards[0] // 100
    steps, envs = np.indices((N_STEPS + 1, N_ENVS))
    told = 100 * numbers + 10 * steps + envs
    obs = drawn.obs["a"] if isinstance(drawn.obs, dict) else drawn.obs
    np.testing.assert_array_equal(obs[..., 0], told)
    np.testing.assert_array_equal(drawn.actions, told[:-1])
    np.testing.assert_array_equal(drawn.rewards, told[:-1])
    np.testing.assert_array_equal(drawn.log_mu, np.stack([told[:-1], -told[:-1]], axis=-1))
    if drawn.rnn_state:
        np.testing.assert_array_equal(drawn.rnn_state["h"], told[0][:, None, None])
    return numbers.astype(int)


@pytest.mark.parametrize("with_dict", [False, True])
def test_environments_draw_from_their_own_trajectories(with_dict):
    torch.manual_seed(0)
    buffer = TrajectoryBuffer(3)
    for number in range(5):
        buffer.add(trajectories(number, with_dict=with_dict, rnn_state=True))
    assert buffer.steps_held == 3 * N_STEPS
    draws = np.array([check_whole(buffer.sample()) for _ in range(200)])
    for env in range(N_ENVS):
        values, counts = np.unique(draws[:, env], return_counts=True)
        assert list(values) == [2, 3, 4] and counts.min() > 40  # the last three, each as likely
    assert len(np.unique(draws[:, 0] * 9 + draws[:, 1] * 3 + draws[:, 2])) == 27  # independent


def stacked(rng, episodes=(), n_stack=3):
    """Images of two channels; in `episodes`, (step, env), the stack begins anew, empty or filled."""
    frames = rng.integers(0, 255, (N_STEPS + 1, N_ENVS, n_stack, 2, 3, 3), np.uint8)
    for step in range(1, N_STEPS + 1):
        for env in range(N_ENVS):
            if (step, env) not in episodes:
                frames[step, env, :-1] = frames[step - 1, env, 1:]
            elif env == 0:
                frames[step, env, :-1] = 0
    new = trajectories(0)
    new.obs = frames.reshape(N_STEPS + 1, N_ENVS, 2 * n_stack, 3, 3)
    return new


def test_stacked_frames_are_stored_once_and_restored(tmp_path):
    rng = np.random.default_rng(0)
    whole, sparing = TrajectoryBuffer(3), TrajectoryBuffer(3, n_stack=3)
    for episodes in ((), [(1, 0)], [(1, 1), (2, 1), (4, 0)], [(2, 0), (4, 0), (3, 2)]):
        new = stacked(rng, episodes)
        whole.add(new)
        sparing.add(new)
    same(whole, sparing)
    for seed in range(20):
        torch.manual_seed(seed)
        expected = whole.sample().obs
        torch.manual_seed(seed)
        np.testing.assert_array_equal(sparing.sample().obs, expected)
    assert sparing.columns["obs/"].nbytes < whole.columns["obs/"].nbytes * 0.7

    save_trajectories(tmp_path / "replay", sparing, IDENTITY)
    again = TrajectoryBuffer(2, n_stack=3)
    load_trajectories(tmp_path / "replay", again, IDENTITY)
    same(filled_from(whole, 2), again)


def filled_from(buffer, n_slots):
    """A buffer of another size with the newest of what a buffer holds."""
    other = TrajectoryBuffer(n_slots)
    other.set_arrays(buffer.arrays())
    return other


def test_what_is_kept_is_a_copy():
    buffer, new = TrajectoryBuffer(2), trajectories(1)
    buffer.add(new)
    new.rewards[:] = -1
    new.obs[:] = -1
    check_whole(buffer.sample())


def test_final_observations_stay_with_their_steps():
    buffer = TrajectoryBuffer(2)
    buffer.add(trajectories(1, finals=[(0, 1), (2, 1), (3, 2)]))
    buffer.add(trajectories(2, finals=[(1, 0)]))
    for _ in range(50):
        drawn = buffer.sample()
        numbers = check_whole(drawn)
        expected = {1: [], 2: []}
        expected[1] = [(step, env) for step, env in [(0, 1), (2, 1), (3, 2)] if numbers[env] == 1]
        expected[2] = [(1, 0)] if numbers[0] == 2 else []
        wanted = sorted(expected[1] + expected[2])
        if not wanted:
            assert drawn.finals is None
            continue
        obs, (steps, envs) = drawn.finals
        assert sorted(zip(steps.tolist(), envs.tolist(), strict=True)) == wanted
        np.testing.assert_array_equal(obs[:, 0], 100 * numbers[envs] + 10 * steps + envs + 0.5)


def test_another_number_of_environments_replaces_everything():
    buffer = TrajectoryBuffer(2)
    buffer.add(trajectories(1))
    wider = trajectories(2)
    narrow = Trajectories(
        obs=wider.obs[:, :2],
        rnn_state={},
        finals=None,
        **{name: getattr(wider, name)[:, :2] for name in (
            "actions", "rewards", "terminated", "truncated", "episode_starts", "log_mu"
        )},
    )  # fmt: skip
    buffer.add(narrow)
    assert buffer.n_envs == 2 and len(buffer) == 2 * N_STEPS


def test_trajectories_keep_order_and_final_observations():
    """An LSTM that adds up what it sees would have seen these numbers, in this order."""
    drawn = trajectories(0, finals=[(1, 0), (3, 2)], rnn_state=True)
    rows = drawn.all_obs(CPU)[:, 0]
    sequences = drawn.sequences(CPU)
    padded = sequences.pad(rows)
    found = []
    for column in range(sequences.n_sequences):
        numbers = padded[:, column].tolist()
        found.append(numbers)
    real = [[0, 10, 10.5], [20, 30, 40], [1, 11, 21, 31, 41], [2, 12, 22, 32, 32.5], [42]]
    assert [numbers[: len(expected)] for numbers, expected in zip(found, real, strict=True)] == real
    torch.testing.assert_close(sequences.unpad(padded), rows)
    # environment 0 began an episode, the others go on from what they remembered; later sequences are fresh
    assert sequences.rnn_state["h"].flatten().tolist() == [0.0, 0.0, 1.0, 2.0, 0.0]


def filled(n_slots, numbers, **kwargs):
    buffer = TrajectoryBuffer(n_slots)
    for number in numbers:
        buffer.add(trajectories(number, **kwargs))
    return buffer


def same(first, second):
    mine, other = first.arrays(), second.arrays()
    assert mine.keys() == other.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("with_dict", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_a_file_gives_everything_back(count, with_dict, tmp_path):
    buffer = filled(3, range(count), finals=[(1, 0), (2, 2)], with_dict=with_dict, rnn_state=True)
    save_trajectories(tmp_path / "replay", buffer, IDENTITY)
    again = TrajectoryBuffer(3)
    load_trajectories(tmp_path / "replay.safetensors", again, IDENTITY)
    same(buffer, again)
    if count:
        for each in (buffer, again):
            each.add(trajectories(9, with_dict=with_dict, rnn_state=True))
        same(buffer, again)
        torch.manual_seed(3)
        first = buffer.sample()
        torch.manual_seed(3)
        np.testing.assert_array_equal(first.rewards, again.sample().rewards)


@pytest.mark.parametrize(("n_slots", "kept"), [(2, [3, 4]), (6, [2, 3, 4])])
def test_a_smaller_buffer_keeps_the_newest_and_a_larger_one_all(n_slots, kept):
    file = io.BytesIO()
    save_trajectories(file, filled(3, range(5)), IDENTITY)
    file.seek(0)
    again = TrajectoryBuffer(n_slots)
    load_trajectories(file, again, IDENTITY)
    assert sorted(again.columns["rewards"][: again.n_filled, 0, 0] // 100) == kept
    again.add(trajectories(7))  # in place of the oldest, or behind
    numbers = sorted(again.columns["rewards"][: again.n_filled, 0, 0] // 100)
    assert numbers == [*kept, 7][-n_slots:]


def test_a_full_buffer_takes_a_file_of_a_larger_one_not_full():
    file = io.BytesIO()
    save_trajectories(file, filled(4, range(2)), IDENTITY)
    file.seek(0)
    again = TrajectoryBuffer(2)
    load_trajectories(file, again, IDENTITY)
    again.add(trajectories(7))
    assert sorted(again.columns["rewards"][:, 0, 0] // 100) == [1, 7]


def test_damaged_and_foreign_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "replay.safetensors"
    save_trajectories(path, filled(3, range(2)), IDENTITY)
    data = path.read_bytes()
    buffer = filled(3, [8])
    flipped = data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]
    cases = {
        "truncated": data[:-9],
        "flipped": flipped,
        "empty": b"",
        "pickle": b"\x80\x04K\x01.",
        "foreign": b"\x10" + bytes(7) + b'{"__metadata__":{}',
    }
    for name, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="not loaded as trajectories") as error:
            load_trajectories(path, buffer, IDENTITY)
        assert "\n" not in str(error.value), name
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="its n envs is 3, but the agent's is 5"):
        load_trajectories(path, buffer, {**IDENTITY, "n_envs": 5})
    with pytest.raises(CheckpointError, match="no replay buffer"):
        load_trajectories(tmp_path / "nowhere", buffer, IDENTITY)
    check_whole(buffer.sample())
    assert buffer.n_filled == 1


@pytest.mark.parametrize(
    ("column", "dtype"),
    [("actions", "f4"), ("actions", "u1"), ("rewards", "i8"), ("terminated", "f8"), ("episode_starts", "i1")],
)
def test_columns_of_other_types_are_refused(column, dtype, tmp_path):
    buffer, identity = filled(3, range(2)), {**IDENTITY, "action_space": spaces.Discrete(2)}
    buffer.columns["actions"][:] = 0
    buffer.columns[column] = buffer.columns[column].astype(dtype)
    save_trajectories(tmp_path / "bad", buffer, identity)
    with pytest.raises(CheckpointError, match=f"{column} holds values of type"):
        load_trajectories(tmp_path / "bad", TrajectoryBuffer(3), identity)


@pytest.mark.parametrize(("column", "value"), [("actions", 7), ("rewards", np.nan), ("log_mu", np.inf)])
def test_values_that_cannot_be_learned_from_are_refused(column, value, tmp_path):
    buffer, identity = filled(3, range(2)), {**IDENTITY, "action_space": spaces.Discrete(2)}
    buffer.columns["actions"][:] = 0
    save_trajectories(tmp_path / "good", buffer, identity)
    load_trajectories(tmp_path / "good", TrajectoryBuffer(3), identity)
    buffer.columns[column].reshape(-1)[0] = value
    save_trajectories(tmp_path / "bad", buffer, identity)
    with pytest.raises(CheckpointError, match=f"{column} holds"):
        load_trajectories(tmp_path / "bad", TrajectoryBuffer(3), identity)
