"""A served storage asks for its token, wherever other machines can reach it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from rlzoo.cli.main import main
from rlzoo.core.errors import UserError
from rlzoo.tuning.storage.served_storage import TOKEN, TOKEN_FILE, check_address, read_token
from rlzoo.tuning.storage.storage import open_storage

pytest.importorskip("grpc")
if not hasattr(optuna.storages, "GrpcStorageProxy"):
    pytest.skip("Optuna before 4.2", allow_module_level=True)

SECRET = "a secret of many characters"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.delenv(TOKEN_FILE, raising=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server with a token, in this process."""
    from rlzoo.tuning.storage.grpc_token import make_server

    port = free_port()
    server = make_server(open_storage(None, tmp_path), "127.0.0.1", port, SECRET)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def test_right_token_opens_the_storage(address: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    study = optuna.create_study(storage=open_storage(f"grpc://{address}", tmp_path), study_name="a")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert len(optuna.load_study(study_name="a", storage=open_storage(None, tmp_path)).trials) == 2


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "needs its token: set RLZOO_STORAGE_TOKEN"),
        (SECRET + "!", "has another token than RLZOO_STORAGE"),
    ],
)
def test_wrong_token_is_refused(address: str, tmp_path: Path, monkeypatch, token: str, message: str) -> None:
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(UserError, match=message) as refused:
        open_storage(f"grpc://{address}", tmp_path)
    assert SECRET not in str(refused.value)


def test_no_call_passes_without_the_token(address: str, tmp_path: Path) -> None:
    import grpc

    host, _, port = address.partition(":")
    optuna.create_study(storage=open_storage(None, tmp_path), study_name="a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        client = optuna.storages.GrpcStorageProxy(host=host, port=int(port))
    for call in (
        client.get_all_studies,
        lambda: client.get_study_id_from_name("a"),
        lambda: client.delete_study(0),
        lambda: client.create_new_study([optuna.study.StudyDirection.MINIMIZE], "b"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert [study.study_name for study in open_storage(None, tmp_path).get_all_studies()] == ["a"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "example.org", "192.0.2.1"])
def test_open_address_needs_a_token(host: str, capsys, tmp_path: Path) -> None:
    assert main(["optimize", "--serve", f"{host}:{free_port()}", "-f", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "could change the studies: put a secret into RLZOO_STORAGE_TOKEN" in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_loopback_and_token_are_enough(monkeypatch) -> None:
    check_address(f"127.0.0.1:{free_port()}")
    check_address(f"localhost:{free_port()}")
    monkeypatch.setenv(TOKEN, SECRET)
    check_address(f"0.0.0.0:{free_port()}")


def test_token_is_read_from_a_private_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv(TOKEN_FILE, str(path))
    with pytest.raises(UserError, match=r"cannot read the token in .*No such file"):
        read_token()
    path.write_text(f"{SECRET}\n")
    path.chmod(0o644)
    with pytest.raises(UserError, match=r"other users may read the token in .*chmod 600"):
        read_token()
    path.chmod(0o600)
    assert read_token() == SECRET
    path.write_text("short")
    with pytest.raises(UserError, match="at least 16 printable ASCII characters"):
        read_token()
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(UserError, match="holds no token"):
        read_token()


@pytest.mark.slow
def test_search_joins_a_served_storage(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), TOKEN_FILE: str(tmp_path / "token")}
    address = f"127.0.0.1:{free_port()}"
    rlzoo = [sys.executable, "-m", "rlzoo", "optimize"]
    server = subprocess.Popen(
        [*rlzoo, "--serve", address], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None and "RLZOO_STORAGE_TOKEN" in server.stdout.readline()
        search = [
            "-n",
            "64",
            "--n-trials",
            "2",
            "--n-evaluations",
            "1",
            "--no-optim-plots",
            "-f",
            "elsewhere",
        ]
        search += ["--algo", "ppo", "--env", "CartPole-v1", "--storage", f"grpc://{address}"]
        subprocess.run([*rlzoo, *search], cwd=tmp_path, env=environment, check=True, timeout=120)
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert server.returncode == 0
    studies = open_storage(None, tmp_path / "logs" / "optimize").get_all_studies()
    assert [study.study_name for study in studies] == ["ppo_CartPole-v1"]
