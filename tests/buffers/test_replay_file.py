"""Replay buffers in files: everything comes back to the bit, and no damaged file comes back at all."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import zlib

import numpy as np
import pytest
import safetensors.numpy
import torch
from gymnasium import spaces
from naive_replay import DICT, FRAME, VECTOR, NaiveReplay, RandomEnvs, assert_same

from rlzoo.buffers.replay.prioritized import PrioritizedReplayBuffer
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.replay.replay_file import load_replay_buffer, save_replay_buffer
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.io import container

ACTIONS = spaces.Box(-1, 1, (2,))
KINDS = [(VECTOR, 1), (DICT, 1), (FRAME, 4)]


class Buffers:
    """A buffer that was filled, its slow double, and the environments they were filled from."""

    def __init__(self, space=VECTOR, n_stack=1, rows=20, steps=50, n_envs=2, **kwargs):
        self.envs = RandomEnvs(space, n_envs, 0, ends=0.15, n_stack=n_stack)
        self.kwargs = dict(n_envs=n_envs, frame_stack=n_stack, gamma=0.9, n_steps=2, **kwargs)
        self.replay, self.naive = self.empty(rows), NaiveReplay(rows, n_steps=2)
        obs = self.envs.reset()
        self.replay.start(obs)
        self.naive.start(obs)
        self.go_on(self.replay, steps // 2)
        if steps:
            obs = self.envs.reset(filled=True)
            self.replay.start(obs)
            self.naive.start(obs)
        self.go_on(self.replay, steps - steps // 2)

    def empty(self, rows):
        return ReplayBuffer(rows * self.envs.n_envs, self.envs.space, ACTIONS, **self.kwargs)

    def go_on(self, replay, steps):
        for _ in range(steps):
            actions, result = self.envs.actions(), self.envs.step()
            replay.add_step(actions, result)
            self.naive.add(actions, result)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "buffer.safetensors"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(container, "CHUNK_BYTES", 100)  # several of them even here


@pytest.mark.parametrize("steps", [0, 1, 10, 20, 21, 47])
@pytest.mark.parametrize("space, n_stack", KINDS)
def test_loaded_buffer_continues_like_the_original(space, n_stack, steps, path):
    ours = Buffers(space, n_stack, steps=steps)
    save_replay_buffer(path, ours.replay)
    loaded = ours.empty(20)
    load_replay_buffer(path, loaded, truncate_last_traj=False)
    assert (loaded.head, loaded.size(), loaded.nbytes > 0) == (ours.replay.head, ours.replay.size(), True)
    if steps:
        assert_same(loaded, ours.naive)
        state = torch.get_rng_state()
        expected = ours.replay.draw(64)
        torch.set_rng_state(state)
        assert np.array_equal(loaded.draw(64).indices, expected.indices)
    ours.go_on(loaded, 30)
    assert_same(loaded, ours.naive)


@pytest.mark.parametrize("space, n_stack", KINDS)
@pytest.mark.parametrize("rows", [1, 5, 19, 21, 40])
@pytest.mark.parametrize("steps", [12, 50])
def test_a_buffer_of_another_size_takes_the_newest_that_fit(space, n_stack, rows, steps, path):
    ours = Buffers(space, n_stack, steps=steps)
    save_replay_buffer(path, ours.replay)
    loaded = ours.empty(rows)
    load_replay_buffer(path, loaded, truncate_last_traj=False)
    ours.naive.n_kept = rows
    ours.naive.steps = ours.naive.steps[-20:]
    assert_same(loaded, ours.naive)
    ours.go_on(loaded, 2 * rows)
    assert_same(loaded, ours.naive)


@pytest.mark.parametrize("space, n_stack", KINDS)
def test_unfinished_episodes_are_truncated(space, n_stack, path):
    ours = Buffers(space, n_stack)
    save_replay_buffer(path, ours.replay)
    loaded = ours.empty(20)
    load_replay_buffer(path, loaded)
    obs = ours.envs.reset()
    ours.naive.start(obs)
    assert_same(loaded, ours.naive)
    with pytest.raises(UserError, match="call start"):
        loaded.add_step(ours.envs.actions(), ours.envs.step())
    obs = ours.envs.reset()
    ours.naive.start(obs)
    loaded.start(obs)
    ours.go_on(loaded, 5)
    assert_same(loaded, ours.naive)


def test_what_was_in_the_buffer_before_is_forgotten(path):
    ours, other = Buffers(steps=9), Buffers(steps=33)
    save_replay_buffer(path, ours.replay)
    load_replay_buffer(path, other.replay, truncate_last_traj=False)
    assert_same(other.replay, ours.naive)
    ours.go_on(other.replay, 40)
    assert_same(other.replay, ours.naive)
    assert len(other.replay.obs.finals) <= 42


def test_paths_and_file_objects(tmp_path):
    ours = Buffers()
    save_replay_buffer(tmp_path / "here", ours.replay)
    assert [file.name for file in tmp_path.iterdir()] == ["here.safetensors"]
    memory = io.BytesIO()
    save_replay_buffer(memory, ours.replay)
    assert memory.getvalue() == (tmp_path / "here.safetensors").read_bytes()
    memory.seek(0)
    with (tmp_path / "here.safetensors").open("rb") as file:
        for source in (tmp_path / "here", str(tmp_path / "here.safetensors"), memory, file):
            loaded = ours.empty(20)
            load_replay_buffer(source, loaded, truncate_last_traj=False)
            assert_same(loaded, ours.naive)


@pytest.mark.parametrize(
    ("saved", "loaded"), [("m.pkl", "m"), ("m.pkl", "m.pkl"), ("m", "m.pkl"), ("a.b", "a.b")]
)
def test_file_named_pkl_is_found_by_either_name(tmp_path, saved, loaded):
    ours = Buffers()
    save_replay_buffer(tmp_path / saved, ours.replay)
    assert [file.name for file in tmp_path.iterdir()] == [saved if "." in saved else f"{saved}.safetensors"]
    other = ours.empty(20)
    load_replay_buffer(tmp_path / loaded, other, truncate_last_traj=False)
    assert_same(other, ours.naive)


def test_any_reader_of_the_format_reads_it(path):
    ours = Buffers(DICT)
    save_replay_buffer(path, ours.replay)
    columns = safetensors.numpy.load_file(path)
    assert columns["observations.a"].shape == (21, 2, 3)
    last = ours.naive.kept()[-1]
    assert np.array_equal(columns["rewards"][-1], last["rewards"])
    assert np.array_equal(columns["observations.c"][0], ours.naive.kept()[0]["obs"]["c"])


class Graded(ReplayBuffer):
    """A derived buffer with a column and a state of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.grades = np.zeros((self.n_slots, self.n_envs))
        self.best = 0.0

    def _on_added(self, slot, result):
        self.grades[slot] = result.rewards.astype(np.float64) / 3
        self.best = max(self.best, float(self.grades[slot].max()))

    def own_columns(self):
        return {"grades": self.grades}

    def own_state(self):
        return {"best": self.best}

    def load_own_state(self, state):
        self.best = state["best"]


def test_what_a_derived_buffer_has_is_saved_too(path):
    envs = RandomEnvs(VECTOR, 2, 0)
    replay, loaded, smaller = (Graded(size, VECTOR, ACTIONS, n_envs=2) for size in (20, 20, 12))
    replay.start(envs.reset())
    for _ in range(25):
        replay.add_step(envs.actions(), envs.step())
    save_replay_buffer(path, replay)
    for target in (loaded, smaller):
        load_replay_buffer(path, target)
        slots = (target.oldest + np.arange(target.size())) % target.n_slots
        assert np.array_equal(target.grades[slots], target.reward_column[slots].astype(np.float64) / 3)
        assert target.best == replay.best
    assert np.array_equal(loaded.reward_column[loaded.newest], smaller.reward_column[smaller.newest])


def test_neither_saving_nor_loading_holds_the_buffer_twice(path, monkeypatch):
    monkeypatch.undo()
    space = spaces.Box(-1, 1, (1000,))
    replay, loaded = (ReplayBuffer(25_000, space, ACTIONS) for _ in range(2))
    replay.start(np.zeros((1, 1000)))
    replay._size = replay.head = 25_000
    for action in (lambda: save_replay_buffer(path, replay), lambda: load_replay_buffer(path, loaded)):
        tracemalloc.start()
        action()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60e6, "the buffer has 100 MB"
    assert path.stat().st_size > 100e6


# -- files that are not what they should be ---------------------------------------------------------


def refused(source, replay, match):
    with pytest.raises(CheckpointError, match=match) as caught:
        load_replay_buffer(source, replay)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("space, n_stack", KINDS)
def test_no_damage_goes_unnoticed(space, n_stack, path):
    ours = Buffers(space, n_stack)
    save_replay_buffer(path, ours.replay)
    good, rng = path.read_bytes(), np.random.default_rng(0)
    header = int.from_bytes(good[:8], "little") + 8
    loaded = ours.empty(20)
    load_replay_buffer(path, loaded, truncate_last_traj=False)
    for case in range(200):
        bad = bytearray(good)
        kind = case % 5
        if kind == 0:  # a bit, anywhere
            bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        elif kind == 1:  # a byte of the header
            bad[rng.integers(header)] = rng.integers(256)
        elif kind == 2:
            del bad[rng.integers(len(bad)) :]
        elif kind == 3:
            at = rng.integers(len(bad))
            bad[at:at] = rng.integers(0, 256, rng.integers(1, 20)).astype(np.uint8).tobytes()
        else:
            at = rng.integers(len(bad))
            del bad[at : at + rng.integers(1, 50)]
        if bytes(bad) == good:
            continue
        with pytest.raises(CheckpointError) as caught:
            load_replay_buffer(io.BytesIO(bytes(bad)), loaded)
        assert "\n" not in str(caught.value)
    assert_same(loaded, ours.naive)  # as it was before


def rewritten(path, change):
    """The file with another, correctly summed header: what a malicious writer can do."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    tree = json.loads(content[8 : 8 + length])
    change(tree)
    tree["__metadata__"]["checksum"] = "00000000"
    text = json.dumps(tree, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    checksum = f'"checksum":"{zlib.crc32(text.encode()):08x}"'
    header = text.replace('"checksum":"00000000"', checksum, 1).encode()
    return io.BytesIO(len(header).to_bytes(8, "little") + header + content[8 + length :])


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["__metadata__"].update(size="19"),
        lambda tree: tree["__metadata__"].update(size="1000000000000"),
        lambda tree: tree["__metadata__"].update(position="-1"),
        lambda tree: tree["__metadata__"].update(n_slots="3"),
        lambda tree: tree["__metadata__"].update(checksums="[]"),
        lambda tree: tree["__metadata__"].update(state="{"),
        lambda tree: tree["__metadata__"].update(format_version="2"),
        lambda tree: tree["__metadata__"].update(observation_space="[" * 100_000),
        lambda tree: tree["__metadata__"].pop("started"),
        lambda tree: tree.pop("flags"),
        lambda tree: tree.update(extra=tree["flags"]),
        lambda tree: tree["rewards"].update(shape=[20, 2**62]),
        lambda tree: tree["rewards"].update(shape=[-1, 2]),
        lambda tree: tree["rewards"].update(shape="all"),
        lambda tree: tree["rewards"].update(dtype="I32"),
        lambda tree: tree["rewards"].update(data_offsets=[0, 2**70]),
        lambda tree: tree["actions"].update(data_offsets=tree["observations"]["data_offsets"]),
    ],
)
def test_a_header_that_lies_is_refused(change, path):
    ours = Buffers()
    save_replay_buffer(path, ours.replay)
    refused(rewritten(path, change), ours.empty(20), "file object")


def test_what_it_is_not_is_said(path, tmp_path):
    ours = Buffers()
    save_replay_buffer(path, ours.replay)
    foreign = {
        "pickle": (pickle.dumps({"observations": list(range(1000))}), "a pickle"),
        "zip": (b"PK\x03\x04" + bytes(100), "a zip"),
        "empty": (b"", "it is empty"),
        "text": (b"hello" * 100, "another format"),
        "lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
        "other": (safetensors.numpy.save({"x": np.zeros(3)}), "another kind of safetensors file"),
        "short": (path.read_bytes()[:-1], "truncated"),
    }
    for name, (content, match) in foreign.items():
        (tmp_path / f"{name}.safetensors").write_bytes(content)
        refused(tmp_path / name, ours.empty(20), match)
        refused(io.BytesIO(content), ours.empty(20), match)
    refused(tmp_path / "mising", ours.empty(20), "there is no replay buffer")
    refused(path.parent / "bufer", ours.empty(20), r"did you mean .*buffer\.safetensors")
    refused(tmp_path, ours.empty(20), "a folder")


def test_another_buffer_is_named_with_this_one(path):
    ours = Buffers(FRAME, 4)
    save_replay_buffer(path, ours.replay)
    space, image = ours.envs.space, spaces.Box(0, 255, (4, 3, 5), np.uint8)
    shared = {"n_envs": 2, "frame_stack": 4}
    refused(path, PrioritizedReplayBuffer(9, space, ACTIONS, **shared), "but .* a Prioritized")
    refused(path, ReplayBuffer(9, image, ACTIONS, **shared), r"\(4, 3, 4\).*\(4, 3, 5\)")
    refused(path, ReplayBuffer(9, space, spaces.Discrete(3), **shared), r"action space Box.*Discrete\(3\)")
    refused(path, ReplayBuffer(9, space, ACTIONS, n_envs=3, frame_stack=4), "n_envs = 2, but .* n_envs = 3")
    refused(path, ReplayBuffer(9, space, ACTIONS, n_envs=2), "frame_stack = 4, but .* frame_stack = 1")


def test_mistakes_of_the_caller(tmp_path):
    replay = Buffers().replay
    for action in (save_replay_buffer, load_replay_buffer):
        with pytest.raises(UserError, match="a replay buffer is"):
            action(3, replay)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed, match="cannot write"):
        save_replay_buffer(tmp_path / "file" / "below", replay)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("actions", 7, "actions holds values that are not in Discrete"),
        ("actions", -1, "actions holds values that are not in Discrete"),
        ("rewards", np.nan, "rewards holds NaN or infinity"),
        ("obs", np.inf, "observations holds NaN or infinity"),
    ],
)
def test_values_that_cannot_be_learned_from_are_refused(column, value, message, path):
    replay, target = (ReplayBuffer(20, VECTOR, spaces.Discrete(3, start=5), n_envs=2) for _ in range(2))
    envs = RandomEnvs(VECTOR, 2, 0)
    replay.start(envs.reset())
    for _ in range(5):
        replay.add_step(np.array([0, 2]), envs.step())
    save_replay_buffer(path, replay)
    load_replay_buffer(path, target)
    columns = {"actions": replay.action_column, "obs": replay.obs.columns}
    if column in columns:
        rows = columns[column].read(slice(0, 1)).copy()
        rows.reshape(-1)[0] = value
        columns[column].write(slice(0, 1), rows)
    else:
        replay.reward_column[0, 0] = value
    save_replay_buffer(path, replay)
    refused(path, target, message)
