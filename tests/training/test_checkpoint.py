"""A model file comes back equal; anything else is one clear error, nothing executed and nothing written."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import random
import stat
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.io.container import MissingFile
from rlzoo.training.checkpoint import (
    Checkpoint,
    ForeignCheckpoint,
    Limits,
    find_checkpoint,
    load_module,
    load_optimizer,
    metadata,
    read_checkpoint,
    write_checkpoint,
)

MEMBERS = [
    "metadata.json", "config.json", "state.json",
    "weights.safetensors", "optimizers.safetensors", "normalize.safetensors",
]  # fmt: skip
EXECUTED: list[str] = []


def make_checkpoint() -> Checkpoint:
    generator = torch.Generator().manual_seed(0)
    return Checkpoint(
        metadata("PPO", "CartPole-v1"),
        {"hyperparameters": {"n_steps": 32, "learning_rate": 3e-4}, "text": "ü"},
        {"policy/a.weight": torch.randn(8, 4, generator=generator), "policy/a.bias": torch.zeros(8)},
        {"0/exp_avg": torch.randn(8, 4, generator=generator), "0/step": torch.tensor(3.0)},
        {"obs/mean": np.array([0.1, -2.5]), "obs/count": np.array(17.0)},
        {"num_timesteps": 4096, "big": 2**127 + 1, "nothing": None},
    )


def to_bytes(checkpoint: Checkpoint) -> bytes:
    buffer = io.BytesIO()
    write_checkpoint(buffer, checkpoint)
    return buffer.getvalue()


def tensors_equal(left: Any, right: Any) -> bool:
    pairs = {name: (torch.as_tensor(value), torch.as_tensor(right.get(name))) for name, value in left.items()}
    return left.keys() == right.keys() and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.cpu(), b) for a, b in pairs.values()
    )


def equal(left: Checkpoint, right: Checkpoint) -> bool:
    return (left.metadata, left.config, left.state) == (right.metadata, right.config, right.state) and all(
        tensors_equal(getattr(left, part), getattr(right, part))
        for part in ("weights", "optimizers", "normalize")
    )


CHECKPOINT = make_checkpoint()
INTACT = to_bytes(CHECKPOINT)


def member_bytes() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(INTACT)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezip(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_member(name: str, content: bytes) -> bytes:
    return rezip({**member_bytes(), name: content})


def refusal(content: bytes, limits: Limits | None = None) -> CheckpointError:
    """The error for bytes that are no intact model file; it must be one short line."""
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(io.BytesIO(content), *([limits] if limits else []))
    text = str(caught.value)
    assert text and "\n" not in text and len(text) < 400
    return caught.value


class Payload:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return EXECUTED.append, ("executed",)


@pytest.fixture(autouse=True)
def nothing_executed_or_written(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The working directory is one of the test's own: other tests may write to that of the suite."""
    here = tmp_path_factory.mktemp("elsewhere") / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield
    assert EXECUTED == []
    assert [*here.iterdir()] == [] and [*here.parent.iterdir()] == [here]


# What is written comes back


def test_a_checkpoint_comes_back_equal(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "agents" / "model", CHECKPOINT)
    assert [path.name for path in (tmp_path / "agents").iterdir()] == ["model.zip"]
    for path in (tmp_path / "agents" / "model", str(tmp_path / "agents" / "model.zip")):
        assert equal(CHECKPOINT, read_checkpoint(path))


def test_the_file_holds_plain_json_and_safetensors_only() -> None:
    contents = member_bytes()
    assert sorted(contents) == sorted(MEMBERS)
    assert json.loads(contents["metadata.json"])["format_version"] == 1
    assert {
        "algorithm",
        "env_id",
        "versions",
        "platform",
        "git_commit",
        "processor",
        "date",
    } <= CHECKPOINT.metadata.keys()


def test_a_name_with_a_suffix_is_kept(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model_0.5", CHECKPOINT)
    write_checkpoint(str(tmp_path / "my.agent"), CHECKPOINT)
    assert sorted(os.listdir(tmp_path)) == ["model_0.5", "my.agent"]
    assert equal(CHECKPOINT, read_checkpoint(tmp_path / "my.agent"))


def test_file_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        write_checkpoint(file, CHECKPOINT)
    with path.open("rb") as file:
        assert equal(CHECKPOINT, read_checkpoint(file))
    buffer = io.BytesIO()
    write_checkpoint(buffer, CHECKPOINT)
    assert equal(CHECKPOINT, read_checkpoint(buffer)), "also when the position is still at the end"
    read_end, write_end = os.pipe()
    with open(write_end, "wb") as file:
        file.write(INTACT[:30_000])
    with open(read_end, "rb") as file:  # cannot seek
        assert equal(CHECKPOINT, read_checkpoint(file))


@pytest.mark.parametrize("wrong", [3, None, object()], ids=["number", "none", "object"])
def test_what_is_no_file_is_named(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        write_checkpoint(wrong, CHECKPOINT)
    with pytest.raises(UserError):
        read_checkpoint(wrong)


def test_files_opened_for_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="binary"), (tmp_path / "a").open("w") as file:
        write_checkpoint(file, CHECKPOINT)  # type: ignore[arg-type]
    (tmp_path / "b").write_text("hello")
    with pytest.raises(CheckpointError, match="binary"), (tmp_path / "b").open() as file:
        read_checkpoint(file)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no name"):
        write_checkpoint("", CHECKPOINT)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (2, 3, 4)], ids=str)
def test_tensors_of_every_kind(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = (torch.arange(int(np.prod(shape))) % 2).reshape(shape).to(getattr(torch, dtype))
    checkpoint = Checkpoint(CHECKPOINT.metadata, {}, {"a": tensor})
    assert tensors_equal({"a": tensor}, read_checkpoint(io.BytesIO(to_bytes(checkpoint))).weights)


def test_views_shared_memory_gradients_and_inference_tensors() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    with torch.inference_mode():
        inference = torch.ones(3)
    weights = {
        "transposed": base.t(), "row": base[1], "column": base[:, 1], "same": base, "again": base,
        "flat": base.view(-1), "strided": base[:, ::2], "expanded": torch.ones(1).expand(4),
        "inference": inference, "parameter": nn.Parameter(torch.ones(2)),
        "computed": nn.Parameter(torch.ones(2)) * 2, "empty": torch.empty(0), "empty too": torch.empty(0),
        "permuted": torch.rand(1, 2, 3).permute(2, 0, 1),
    }  # fmt: skip
    weights["images"] = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    normalize = {"array": np.arange(6.0).reshape(2, 3).T, "view": np.arange(6)[::-2], "zero": np.array(1.5)}
    again = read_checkpoint(io.BytesIO(to_bytes(Checkpoint(CHECKPOINT.metadata, {}, weights, {}, normalize))))
    assert tensors_equal({name: value.detach() for name, value in weights.items()}, again.weights)
    assert tensors_equal({name: value.copy() for name, value in normalize.items()}, again.normalize)
    again.weights["same"][0, 0] = 99
    assert again.weights["again"][0, 0] == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_come_back_on_the_cpu() -> None:
    weights = {"a": torch.arange(6.0, device="cuda").reshape(2, 3).t()}
    again = read_checkpoint(io.BytesIO(to_bytes(Checkpoint(CHECKPOINT.metadata, {}, weights)))).weights
    assert again["a"].device.type == "cpu" and tensors_equal({"a": weights["a"].cpu()}, again)


def test_a_view_of_a_large_buffer_is_written_without_the_buffer() -> None:
    large = torch.zeros(1_000_000)
    assert len(to_bytes(Checkpoint(CHECKPOINT.metadata, {}, {"a": large[:10]}))) < 10_000


def test_saving_a_small_agent_is_fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    net = nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 2))
    moments = {
        f"{name}{kind}": torch.rand_like(value) for name, value in net.named_parameters() for kind in "mv"
    }
    times = []
    for _ in range(15):
        start = time.process_time()  # other processes do not count
        write_checkpoint(
            tmp_path / "model",
            Checkpoint(metadata("PPO", None), {}, net.state_dict(), moments, {}, {"rng": [7] * 625}),
        )
        times.append(time.process_time() - start)
    assert min(times) < 0.015


# Faults while writing


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(INTACT)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFailed, match=r"model\.zip: the disk is full; it needs [\d,]+ bytes"):
        write_checkpoint(path, Checkpoint(metadata("PPO", "other"), {}, {}))
    assert equal(CHECKPOINT, read_checkpoint(path)) and os.listdir(tmp_path) == ["model.zip"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_file_object_on_a_full_disk() -> None:
    with pytest.raises(RunFailed, match="No space"), open("/dev/full", "wb", buffering=0) as file:
        write_checkpoint(file, CHECKPOINT)


def test_ctrl_c_while_writing_leaves_the_previous_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(INTACT)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for call in ("fsync", "replace"):
        monkeypatch.setattr(os, call, interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(path, Checkpoint(metadata("PPO", "other"), {}, {}))
        monkeypatch.undo()
    assert equal(CHECKPOINT, read_checkpoint(path)) and os.listdir(tmp_path) == ["model.zip"]


# Files that are not there, damaged, foreign or malicious


def test_a_missing_file_names_the_nearest_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "ppo_cartpole", CHECKPOINT)
    with pytest.raises(MissingFile, match=r"did you mean '.*/ppo_cartpole\.zip'\?"):
        read_checkpoint(tmp_path / "ppo_cartpoel")
    with pytest.raises(FileNotFoundError, match="no model file"):
        read_checkpoint("gone/nothing.zip")
    with pytest.raises(MissingFile, match="is a folder"):
        find_checkpoint(tmp_path)
    for odd in ("", ".", "/"):
        with pytest.raises(MissingFile):
            find_checkpoint(odd)


def test_truncation_at_every_tenth() -> None:
    for tenth in range(10):
        assert "intact" in str(refusal(INTACT[: len(INTACT) * tenth // 10]))
    refusal(INTACT[:-1])


def test_every_region_flipped(tmp_path: Path) -> None:
    """One flipped bit is found, or (in fields that hold no content, such as a date) changes nothing."""
    found = 0
    step = 7
    for position in range(0, len(INTACT), step):
        damaged = bytearray(INTACT)
        damaged[position] ^= 1 << (position % 8)
        try:
            again = read_checkpoint(io.BytesIO(bytes(damaged)))
        except CheckpointError:
            found += 1
        else:
            assert equal(CHECKPOINT, again), position
    assert found > 0.8 * len(INTACT) / step


def test_every_byte_of_the_weights_is_covered_by_the_checksum() -> None:
    start = INTACT.index(member_bytes()["weights.safetensors"])
    for position in range(start, start + len(member_bytes()["weights.safetensors"])):
        damaged = bytearray(INTACT)
        damaged[position] ^= 0xFF
        refusal(bytes(damaged))


def test_random_mutations_raise_nothing_but_checkpoint_errors() -> None:
    rng = random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(INTACT)
        for _ in range(rng.choice([1, 2, 8, 64])):
            kind, at = rng.random(), rng.randrange(len(damaged))
            if kind < 0.5:
                damaged[at] = rng.randrange(256)
            elif kind < 0.65:
                del damaged[at : at + rng.randrange(1, 200)]
            elif kind < 0.8:
                damaged[at:at] = rng.randbytes(rng.randrange(1, 50))
            elif kind < 0.9:
                damaged[at : at + 4] = struct.pack(
                    "<I", rng.choice([0, 1, 2**31, 2**32 - 1, rng.randrange(2**32)])
                )
            else:  # the directory at the end, where the lies about sizes are
                end = len(damaged) - rng.randrange(1, min(500, len(damaged)))
                damaged[end] = rng.randrange(256)
            if not damaged:
                break
        try:
            read_checkpoint(io.BytesIO(bytes(damaged)))
        except CheckpointError:
            refused += 1
    assert refused > 250


def test_random_contents_inside_an_intact_zip() -> None:
    """The same below the checksums: a file made with care rather than damaged by chance."""
    rng = random.Random(1)
    contents = member_bytes()
    for _ in range(300):
        name = rng.choice(MEMBERS)
        damaged = bytearray(contents[name])
        for _ in range(rng.choice([1, 3, 20])):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(3)] = rng.choice(
                [b"{", b"[", b"}", b'"', b"9", b"\xff", b"-", b"e", b",", b""]
            )
            if not damaged:
                break
        try:
            read_checkpoint(io.BytesIO(rezip({**contents, name: bytes(damaged)})))
        except CheckpointError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"PK", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), bytes(1000)], ids=repr
)
def test_what_is_no_zip_or_an_empty_one(content: bytes) -> None:
    refusal(content)


def test_a_pickle_is_named_and_not_loaded() -> None:
    for protocol in (2, 3, 4, 5):
        error = refusal(pickle.dumps((Payload(), {}), protocol=protocol))
        assert isinstance(error, ForeignCheckpoint) and error.kind == "pickle" and "pickle" in str(error)
    refusal(pickle.dumps(Payload(), protocol=0))


def test_a_stable_baselines3_file_is_named() -> None:
    members = {
        "data": b'{"policy_class": {":serialized:": "gASV"}}', "policy.pth": pickle.dumps(Payload()),
        "_stable_baselines3_version": b"2.3.0", "system_info.txt": b"", "pytorch_variables.pth": b"",
    }  # fmt: skip
    error = refusal(rezip(members))
    assert isinstance(error, ForeignCheckpoint) and error.kind == "stable-baselines3"
    assert "a stable-baselines3 file" in str(error)
    del members["_stable_baselines3_version"]
    assert "a stable-baselines3 file" in str(refusal(rezip(members)))


def test_a_stable_baselines_2_file_and_a_torch_file_are_named() -> None:
    error = refusal(rezip({"data": pickle.dumps(Payload()), "parameters": b"", "parameter_list": b"[]"}))
    assert isinstance(error, ForeignCheckpoint) and error.kind == "stable-baselines"
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, buffer)
    error = refusal(buffer.getvalue())
    assert isinstance(error, ForeignCheckpoint) and error.kind == "torch"


def test_failed_downloads_are_named() -> None:
    assert "LFS" in str(refusal(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"))
    assert "web page" in str(refusal(b"\n<!DOCTYPE html><html><body>404</body></html>"))


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "a/b",
        "..",
        "C:\\evil",
        "folder/",
        "weights.safetensors/x",
        "extra.json",
        "a\nb",
    ],
)
def test_members_that_do_not_belong_are_refused(name: str) -> None:
    refusal(with_member(name, b"x"))


def test_links_encryption_and_duplicates_are_refused() -> None:
    contents = member_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name)
            if name == "state.json":
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, content)
    assert "link" in str(refusal(buffer.getvalue()))

    locked = bytearray(rezip(contents))
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in str(refusal(bytes(locked)))

    buffer = io.BytesIO(rezip(contents))
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("config.json", b"{}")
    assert "twice" in str(refusal(buffer.getvalue()))

    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert "compressed" in str(refusal(rezip(contents, method)))
    assert equal(CHECKPOINT, read_checkpoint(io.BytesIO(rezip(contents, zipfile.ZIP_DEFLATED))))


@pytest.mark.parametrize("name", MEMBERS)
def test_a_missing_member_is_named(name: str) -> None:
    contents = member_bytes()
    del contents[name]
    assert name in str(refusal(rezip(contents)))


def test_zip_bombs_are_refused_before_they_are_unpacked() -> None:
    bomb = bytes(30_000_000)
    packed = rezip({**member_bytes(), "weights.safetensors": bomb}, zipfile.ZIP_DEFLATED)
    assert "more than 29,000,000 bytes" in str(refusal(packed, Limits(free_bytes=29_000_000)))
    lists = json.dumps({"a": [[]] * 600_000}).encode()
    assert "config.json holds more than 500,000 lists" in str(refusal(with_member("config.json", lists)))
    assert "more than 900 bytes" in str(refusal(INTACT, Limits(total_bytes=900)))
    assert "larger than 20 bytes" in str(refusal(INTACT, Limits(json_bytes=20)))
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: "):  # unpacked, it is still no model
        read_checkpoint(io.BytesIO(packed), Limits(free_bytes=0, ratio=10_000))


def test_declared_sizes_that_are_lies() -> None:
    """The real data is longer or shorter than the directory says."""
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for size in (0, 10, 100_000, 2**31, 2**32 - 2):
            lying = bytearray(rezip(member_bytes(), compression))
            entry = lying.index(b"PK\x01\x02", lying.index(b"PK\x01\x02") + 4)
            struct.pack_into("<I", lying, entry + 24, size)
            refusal(bytes(lying))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "null", '"x"', "{", '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}',
     '{"a": 1, "a": 2}', '{"a": ' + "9" * 5000 + "}", "\xff", '{"a": ' + "[" * 100 + "]" * 100 + "}",
     "[" * 200_000, '{"a":' * 200_000, '{"a": 01}', "{'a': 1}"],
    ids=lambda text: text[:20],
)  # fmt: skip
@pytest.mark.parametrize("name", ["config.json", "state.json", "metadata.json"])
def test_json_that_is_none(name: str, text: str) -> None:
    assert name in str(refusal(with_member(name, text.encode("latin-1"))))


@pytest.mark.parametrize(
    "changes",
    [{"format_version": None}, {"format_version": "1"}, {"format_version": 0}, {"format_version": True},
     {"algorithm": None}, {"algorithm": ["PPO"]}],
    ids=str,
)  # fmt: skip
def test_metadata_that_says_too_little(changes: dict[str, Any]) -> None:
    text = json.dumps({**CHECKPOINT.metadata, **changes})
    assert "metadata.json" in str(refusal(with_member("metadata.json", text.encode())))


def test_a_newer_format_asks_for_an_upgrade() -> None:
    newer = {**CHECKPOINT.metadata, "format_version": 7, "versions": {"rlzoo": "9.1"}}
    contents = {**member_bytes(), "metadata.json": json.dumps(newer).encode(), "replay.safetensors": b""}
    assert "format 7, written by rlzoo 9.1" in str(refusal(rezip(contents)))
    contents["metadata.json"] = json.dumps({**newer, "versions": 3}).encode()
    assert "upgrade" in str(refusal(rezip(contents)))


def safetensors_bytes(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"", b"x", bytes(8), struct.pack("<Q", 2**63), struct.pack("<Q", 10) + b"{}",
        safetensors_bytes(b"[]"),
        safetensors_bytes(b"{" * 1000), safetensors_bytes(b"\xff\xff"),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4)),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(8)),
        safetensors_bytes({"a": 3}), pickle.dumps(Payload()),
    ],
    ids=lambda content: repr(content[8:60]),
)  # fmt: skip
@pytest.mark.parametrize("name", ["weights", "optimizers", "normalize"])
def test_safetensors_that_are_none(name: str, content: bytes) -> None:
    assert f"{name}.safetensors: " in str(refusal(with_member(f"{name}.safetensors", content)))


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(INTACT)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=r"cannot read .*model\.zip: Permission denied"):
        read_checkpoint(path)


def test_a_disk_that_fails_while_reading() -> None:
    class Failing(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(CheckpointError, match="Input/output error"):
        read_checkpoint(Failing(INTACT))


# Into modules and optimisers


def test_a_module_takes_its_tensors() -> None:
    saved, net = nn.Linear(3, 2), nn.Linear(3, 2)
    tensors = {f"policy/{name}": value for name, value in saved.state_dict().items()}
    load_module(net, {**tensors, "other/weight": torch.zeros(9)}, "policy/")
    assert tensors_equal(dict(saved.state_dict()), dict(net.state_dict()))
    load_module(net, {name: value.double() for name, value in tensors.items()}, "policy/")
    assert net.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy/weight": torch.zeros(2, 4)}, r"policy/weight has shape \(2, 3\) in the .*, but \(2, 4\)"),
        ({"policy/bias": torch.zeros(())}, r"policy/bias has shape \(2,\) in the network, but \(\)"),
        ({"policy/weight": torch.zeros(2, 3).long()}, r"policy/weight is torch.float32 .* torch.int64"),
        ({"policy/scale": torch.zeros(2)}, r"the network lacks the parameter policy/scale"),
        ({"policy/bias": None}, r"parameter policy/bias is not in the model file"),
    ],
)  # fmt: skip
def test_mismatched_parameter_is_named_and_nothing_loaded(change: Any, message: str) -> None:
    net = nn.Linear(3, 2)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    tensors = {f"policy/{name}": value + 1 for name, value in before.items()}
    tensors = {name: value for name, value in {**tensors, **change}.items() if value is not None}
    with pytest.raises(CheckpointError, match=message):
        load_module(net, tensors, "policy/")
    assert tensors_equal(before, dict(net.state_dict()))


def stepped(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer.state_dict()


def test_an_optimizer_takes_its_state_and_keeps_its_kernels() -> None:
    saved, net = nn.Linear(3, 2), nn.Linear(3, 2)
    state = stepped(torch.optim.Adam(saved.parameters(), lr=0.5, foreach=False))
    state["param_groups"][0]["capturable"] = True
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    load_optimizer(optimizer, state, "policy.optimizer")
    group = optimizer.param_groups[0]
    assert (group["lr"], group["foreach"], group["capturable"]) == (0.5, None, False)
    assert torch.equal(optimizer.state[net.weight]["exp_avg"], state["state"][0]["exp_avg"])
    stepped(optimizer)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda state: state["state"][0].update(exp_avg=torch.zeros(5)),
            r"exp_avg of parameter 0 of policy.optimizer",
        ),
        (lambda state: state["param_groups"][0].update(params=[0]), "policy.optimizer does not fit"),
        (lambda state: state["param_groups"].append({}), "policy.optimizer does not fit"),
        (lambda state: state["param_groups"][0].pop("params"), "policy.optimizer does not fit"),
        (lambda state: state.pop("state"), "policy.optimizer does not fit"),
        (lambda state: state.update(state=[1]), "policy.optimizer does not fit"),
        (lambda state: state["state"].update({0: 3}), "policy.optimizer does not fit"),
        (
            lambda state: state["state"][0].update(step=torch.tensor(3, dtype=torch.uint64)),
            "step of parameter 0 of policy.optimizer is of the type torch.uint64",
        ),
        (
            lambda state: state["state"][1].pop("exp_avg"),
            "exp_avg of parameter 1 of policy.optimizer is missing",
        ),
        (
            lambda state: state["state"][1].update(step="x"),
            "step of parameter 1 of policy.optimizer is 'x'",
        ),
        (lambda state: state["param_groups"][0].update(betas=(0.9,)), "the option betas of policy.optimizer"),
        (
            lambda state: state["param_groups"][0].update(amsgrad="x"),
            "the option amsgrad of policy.optimizer",
        ),
        (lambda state: state["param_groups"][0].pop("eps"), "the option eps of policy.optimizer"),
    ],
)
def test_an_optimizer_state_that_does_not_fit_is_named(break_it: Callable[[Any], Any], message: str) -> None:
    net = nn.Linear(3, 2)
    state = stepped(torch.optim.Adam(net.parameters()))
    break_it(state)
    with pytest.raises(CheckpointError, match=message):
        load_optimizer(torch.optim.Adam(net.parameters()), state, "policy.optimizer")
