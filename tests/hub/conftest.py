"""A hub on this machine, with a token for it, and nothing of the user's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download

import rlzoo
from rlzoo.config.run import RunConfig
from rlzoo.experiment.training_run import train


def _load_server() -> ModuleType:
    """The module beside this file; tests are no package."""
    spec = importlib.util.spec_from_file_location("hub_server", Path(__file__).with_name("server.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules["hub_server"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


server = sys.modules.get("hub_server") or _load_server()
SMALL = {"policy": "MlpPolicy", "n_envs": 1, "n_steps": 32, "batch_size": 32, "n_epochs": 1}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The hub; huggingface_hub speaks to it, with a token that may write, and keeps its files in tmp_path."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "hf_home"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", server.WRITER)
    places = {
        "HF_HOME": home,
        "HF_HUB_CACHE": home / "hub",
        "HUGGINGFACE_HUB_CACHE": home / "hub",
        "HF_ASSETS_CACHE": home / "assets",
        "HF_XET_CACHE": home / "xet",
        "HF_TOKEN_PATH": home / "token",
        "HF_STORED_TOKENS_PATH": home / "stored_tokens",
        "AGENT_HARNESSES_PATH": home / "agent_harnesses.json",
    }
    for name, path in places.items():
        monkeypatch.setattr(constants, name, str(path), raising=False)  # some are new
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)  # between attempts
    with server.running() as running:
        files = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{running.url}{files}")
        yield running
    huggingface_hub.close_session()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a short run that names much of this machine."""
    logs = tmp_path_factory.mktemp("trained") / "logs"
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        hyperparams={**SMALL, "n_timesteps": 64},
        env_kwargs={"sutton_barto_reward": False},
        log_folder=str(logs),
        tensorboard_log=str(logs.parent / "tb"),
        save_freq=32,
        eval_freq=-1,
        verbose=0,
        seed=1,
        device="cpu",
    )
    command = (
        f"rlzoo train --algo ppo --env CartPole-v1 --conf-file {logs.parent}/mine.yml -f {logs} --seed 1"
        " --trial-id 3 --storage mysql://me:secret@db.example/studies"
    )
    train(run, command)
    return logs


@pytest.fixture
def shipped() -> Path:
    """The folder of a shipped agent."""
    return Path(rlzoo.__file__).parents[1] / "trained_agents" / "ppo" / "CartPole-v1_1"


@pytest.fixture
def files(shipped: Path) -> dict[str, bytes]:
    """What a push of it uploads, without the video."""
    return {
        ".gitattributes": b"*.zip filter=lfs\n",
        "ppo-CartPole-v1.zip": (shipped / "CartPole-v1.zip").read_bytes(),
        "config.yml": (shipped / "CartPole-v1" / "config.yml").read_bytes(),
        "args.yml": (shipped / "CartPole-v1" / "args.yml").read_bytes(),
        "command.txt": (shipped / "command.txt").read_bytes(),
        "score.json": (shipped / "score.json").read_bytes(),
        "README.md": b"---\nlibrary_name: rlzoo\n---\n",
    }
