"""`rlzoo export` and `export_model`: the files, their metadata, and what is refused."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlzoo
from rlzoo.cli.main import main
from rlzoo.core.errors import NotInstalled, UserError
from rlzoo.export import export_files as files
from rlzoo.export.description import FORMAT

SMALL = {"net_arch": [16]}


def export(*flags: str) -> int:
    return main(["export", "--algo", "ppo", "--env", "CartPole-v1", *flags])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def model() -> Any:
    """A recurrent agent of normalised observations."""
    venv = rlzoo.VecNormalize(rlzoo.make_vec_env("CartPole-v1", 1, seed=0))
    return rlzoo.RecurrentPPO("MlpLstmPolicy", venv, policy_kwargs={**SMALL, "lstm_hidden_size": 8})


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.torch.jit.load:DeprecationWarning")
def test_torchscript_runs_without_rlzoo_and_tells_what_it_is(model, tmp_path):
    path = rlzoo.export_model(model, tmp_path / "policy.pt", to="torchscript")
    extra = {files.METADATA_FILE: ""}
    policy = torch.jit.load(path, _extra_files=extra)
    told = json.loads(extra[files.METADATA_FILE])
    assert told["format"] == FORMAT and told["algorithm"] == "RecurrentPPO" and told["recurrent"]
    assert told["environment"] == "CartPole-v1" and told["normalized"] == ["observation"]
    obs = model.env.venv.reset().repeat(3, 0)
    expected, _ = model.predict(model.env.normalize_obs(obs), deterministic=True)
    zeros = torch.zeros(1, 3, 8)
    actions, h, _ = policy(torch.from_numpy(obs), zeros, zeros, torch.ones(3, dtype=torch.bool))
    assert (actions.numpy() == expected).all() and h.shape == (1, 3, 8)


def test_onnx_runs_any_batch_and_tells_what_it_is(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = rlzoo.export_model(model, tmp_path / "policy.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    assert told["format"] == FORMAT and told["rlzoo_version"] == rlzoo.__version__
    assert json.loads(told["action_space"]) == {"type": "Discrete", "n": 2, "start": 0}
    inputs = {entry.name: (entry.shape, entry.type) for entry in session.get_inputs()}
    assert inputs["observation"] == (["batch", 4], "tensor(float)")
    for n in (1, 5):
        obs = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
        state = np.full((1, n, 8), 0.1, np.float32)
        starts = np.arange(n) % 2 == 0
        given = {"observation": obs, "state_h": state, "state_c": state, "episode_start": starts}
        actions, h, c = session.run(None, given)
        scaled = model.env.normalize_obs(obs)
        expected, after = model.predict(scaled, (state, state), episode_start=starts, deterministic=True)
        assert (actions == expected).all()
        np.testing.assert_allclose([h, c], after, atol=1e-5)


def test_onnx_agrees_with_predict_to_1e_5(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    agent = rlzoo.CrossQ("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, buffer_size=10)
    path = rlzoo.export_model(agent, tmp_path / "policy.onnx")
    obs = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    (actions,) = runtime.InferenceSession(path).run(None, {"observation": obs})
    np.testing.assert_allclose(actions, agent.predict(obs, deterministic=True)[0], atol=1e-5)


def test_onnx_of_images_and_dicts_has_named_inputs(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    env = rlzoo.SimpleMultiObsEnv()
    agent = rlzoo.PPO("MultiInputPolicy", env, policy_kwargs=SMALL)
    session = runtime.InferenceSession(rlzoo.export_model(agent, tmp_path / "policy.onnx"))
    assert [(entry.name, entry.shape) for entry in session.get_inputs()] == [
        (key, ["batch", *env.observation_space[key].shape]) for key in ("img", "vec")
    ]
    obs = {key: value[None] for key, value in env.observation_space.sample().items()}
    (actions,) = session.run(None, obs)
    assert (actions == agent.predict(obs, deterministic=True)[0]).all()


# -- the command ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.torch.jit.load:DeprecationWarning")
def test_a_shipped_agent_is_exported_into_the_working_directory(here, capsys):
    assert export("--to", "torchscript") == 0
    assert "ppo-CartPole-v1.pt" in capsys.readouterr().out
    policy = torch.jit.load(here / "ppo-CartPole-v1.pt")
    falling = torch.tensor([[0.0, 0.0, 0.1, 1.0], [0.0, 0.0, -0.1, -1.0]])
    assert policy(falling).tolist() == [1, 0]  # to the right: push right; to the left: push left


def test_a_file_tells_its_own_algorithm_and_environment(here, capsys):
    rlzoo.A2C("MlpPolicy", "Acrobot-v1", policy_kwargs=SMALL).save("agent.zip")
    assert main(["export", "-i", "agent.zip", "--to", "json"]) == 0
    written = json.loads((here / "a2c-Acrobot-v1.json").read_text())
    assert written["metadata"]["algorithm"] == "A2C"


def test_the_suffix_of_the_output_says_the_format(here):
    assert export("--to", "json", "-o", "new/") == 0
    assert (here / "new" / "ppo-CartPole-v1.json").is_file()
    assert export("-o", "folder/agent.json") == 0
    assert (
        json.loads((here / "folder" / "agent.json").read_text())["metadata"]["environment"] == "CartPole-v1"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--to", "onxx"), "did you mean 'onnx'?"),
        (("--to", "json", "-o", "agent.pt"), "for --to json end it with .json"),
        (("-o", "agent.tflite"), "unknown suffix of an exported file '.tflite'"),
        (("--exp-id", "9", "--to", "json"), "there is no run 9"),
        (("--load-best", "--to", "json"), "there is no"),
        (("--algo", "ppo", "--env", "LunarLander-v3", "--to", "html"), "there is no page for LunarLander-v3"),
        (("--algo", "ppo", "--env", "Catch-v0", "--to", "json"), "this one sees images"),
        (("--algo", "ppo_lstm", "--to", "json"), "this one is recurrent; use --to onnx"),
        (("--env-kwargs", "sutton_barto_reward:True", "--to", "html"), "without env_kwargs"),
        (("--to", "json", "--env-kwargs", "colour:1"), "colour"),
        (("--to", "json", "-o", "/dev/null"), "-o wants a file, and /dev/null is a device"),
        (("--to", "json", "-o", "/dev/null/agent.json"), "cannot write in /dev/null"),
        (("--env", "Catch-v0", "-o", "new/folder/page.html"), "there is no page for Catch-v0"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_leaves_nothing(flags, message, here, capsys):
    assert export(*flags) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert list(here.iterdir()) == []


def test_an_old_file_stays_where_a_new_one_fails(model, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text("old")
    with pytest.raises(UserError, match="this one is recurrent"):
        rlzoo.export_model(model, path, to="json")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("policy.json", "old")]


def test_missing_onnx_packages_are_named_before_anything_is_done(here, monkeypatch, capsys):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    monkeypatch.setattr(builtins, "open", lambda *args: pytest.fail("opened a file"))
    assert export() == 2
    assert re.search(r"ONNX files need onnx and onnxscript: pip install .*\[onnx\]'", capsys.readouterr().err)
    assert list(here.iterdir()) == []
    with pytest.raises(NotInstalled):
        files.require_onnx()


def test_an_old_pytorch_is_told_apart(monkeypatch):
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.9.1"))
    with pytest.raises(NotInstalled, match=r"need PyTorch 2\.11 or newer, and this is 2\.9\.1"):
        files.require_onnx()


def test_an_unknown_format_in_python_is_named(model, tmp_path):
    with pytest.raises(UserError, match="unknown format 'tflite'"):
        rlzoo.export_model(model, tmp_path / "x", to="tflite")
