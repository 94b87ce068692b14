"""Flags of Ray, and what is said without Ray or with a wrong cluster."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rlzoo.cli.main import main
from rlzoo.cluster import ray_cluster
from rlzoo.config.tune import RayConfig
from rlzoo.core.errors import UserError

OPTIMIZE = ["optimize", "--algo", "ppo", "--env", "CartPole-v1", "-n", "100", "--n-trials", "1"]


def fail(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main([*OPTIMIZE, *flags]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    return error[-1]


def test_missing_ray_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
    error = fail(capsys, "--backend", "ray", "-f", str(tmp_path))
    assert "--backend ray needs Ray: pip install" in error and "[ray]" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--backend", "rai"], "did you mean 'ray'?"),
        (["--ray-address", "auto"], "--ray-address is for Ray: add --backend ray"),
        (["--cpus-per-trial", "2"], "--cpus-per-trial is for Ray: add --backend ray"),
        (["--backend", "ray", "--cpus-per-trial", "0"], "expected a number above 0, not '0'"),
        (["--backend", "ray", "--gpus-per-trial", "nan"], "expected a number of at least 0, not 'nan'"),
        (["--backend", "ray", "--gpus-per-trial", "1.5"], "an integer above 1, not 1.5"),
    ],
)
def test_wrong_flags_are_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in fail(capsys, *flags)


@pytest.mark.parametrize("address", ["here", "ray://host:1", "host:", "host:99999", ":6379"])
def test_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="auto or HOST:PORT"):
        ray_cluster.check_address(address)


def test_address_where_nobody_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UserError, match="there is no Ray cluster at 127"):
        ray_cluster.check_address(f"127.0.0.1:{port}")


def test_slots_of_a_node_follow_its_resources() -> None:
    node = {"Resources": {"CPU": 8.0, "GPU": 1.0}}
    assert ray_cluster.slots_of(node, RayConfig(cpus_per_trial=2)) == 4
    assert ray_cluster.slots_of(node, RayConfig(cpus_per_trial=0.5)) == 16
    assert ray_cluster.slots_of(node, RayConfig(gpus_per_trial=0.25)) == 4
    assert ray_cluster.slots_of({"Resources": {}}, RayConfig()) == 0


def test_another_version_of_a_node_is_named() -> None:
    own = ray_cluster.__version__
    ray_cluster.check_versions([("10.0.0.1", own)])
    with pytest.raises(UserError, match=r"1 node \(10.0.0.1\) has rlzoo 0.0.9, this machine has"):
        ray_cluster.check_versions([("10.0.0.1", own), ("10.0.0.1", "0.0.9"), ("10.0.0.1", own)])
    with pytest.raises(UserError, match=r"2 nodes \(a\) has no rlzoo"):
        ray_cluster.check_versions([("a", ""), ("b", "")])
