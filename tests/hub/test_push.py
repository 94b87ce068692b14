"""`rlzoo push` and `rlzoo.push_to_hub`, to a hub on this machine."""

from __future__ import annotations

import io
import json
import logging
import shutil
import zipfile
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants
from huggingface_hub.utils import are_progress_bars_disabled

import rlzoo
from rlzoo.cli.main import main
from rlzoo.core.errors import UserError
from rlzoo.hub.huggingface_sb3 import package_to_hub
from rlzoo.training.checkpoint import read_checkpoint

REPO = "me/ppo-CartPole-v1"
WHOLE = {
    ".gitattributes",
    "README.md",
    "args.yml",
    "command.txt",
    "config.yml",
    "ppo-CartPole-v1.zip",
    "replay.mp4",
    "score.json",
}


def push(*flags: str) -> int:
    return main(["push", "--algo", "ppo", "--env", "CartPole-v1", *flags])


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that standard error holds."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_shipped_agent_is_pushed_in_one_commit(hub, capsys):
    assert push("-n", "5", "-m", "First") == 0
    repo = hub.repos[REPO]
    assert set(repo.files) == WHOLE and repo.messages == ["", "First"]
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"{hub.url}/{REPO}/commit/{repo.refs['main']}" and "500.00 +/- 0.00" in out[-2]


def test_nothing_is_shown_but_the_address_if_not_asked_for(hub, capsys):
    assert push("--no-video", "--verbose", "0") == 0
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out.startswith(hub.url) and len(captured.out.splitlines()) == 1
    assert logging.getLogger("huggingface_hub").level != logging.CRITICAL and not are_progress_bars_disabled()


def test_the_card_has_the_score_as_a_result(hub):
    assert push("--no-video") == 0
    card = ModelCard(hub.repos[REPO].files["README.md"].decode())
    (result,) = card.data.eval_results
    assert (result.task_type, result.dataset_type) == ("reinforcement-learning", "CartPole-v1")
    assert (result.metric_type, result.metric_value) == ("mean_reward", "500.00 +/- 0.00")
    assert card.data.library_name == "rlzoo" and "ppo" in card.data.tags
    assert "rlzoo pull -orga me --algo ppo --env CartPole-v1\n" in card.text
    assert "rlzoo train --algo ppo --env CartPole-v1 --seed 0" in card.text and "ent_coef: 0.0" in card.text


def test_nothing_of_this_machine_is_uploaded(hub, trained, capsys):
    assert push("-f", str(trained), "--no-video", "--n-eval-episodes", "1") == 0
    assert capsys.readouterr().err == (  # that a path was changed is said
        f"rlzoo: {trained.parent}/mine.yml is outside the working directory and becomes mine.yml\n"
    )
    everything = dict(hub.repos[REPO].files)
    with zipfile.ZipFile(io.BytesIO(everything.pop("ppo-CartPole-v1.zip"))) as archive:
        everything |= {name: archive.read(name) for name in archive.namelist()}
    for name, content in everything.items():
        for private in (str(trained), str(trained.parent), "secret", "db.example", "/tb"):
            assert private.encode() not in content, (name, private)
    assert everything["command.txt"] == (
        b"rlzoo train --algo ppo --env CartPole-v1 --conf-file mine.yml --seed 1\n"
    )


def test_the_score_is_of_the_file_that_is_uploaded(hub, trained):
    assert push("-f", str(trained), "--no-video", "--n-eval-episodes", "2", "--load-checkpoint", "32") == 0
    files = hub.repos[REPO].files
    score = json.loads(files["score.json"])
    (Path("agent.zip")).write_bytes(files["ppo-CartPole-v1.zip"])
    assert (score["episodes"], score["n_timesteps"]) == (2, 32)
    assert read_checkpoint("agent.zip").steps() == 32
    assert rlzoo.PPO.load("agent.zip").num_timesteps == 32


def test_a_later_push_leaves_no_video_of_an_earlier_agent(hub, shipped):
    hub.add(REPO, {"replay.mp4": b"old", "notes.md": b"kept"})
    assert push("--no-video") == 0
    assert set(hub.repos[REPO].files) == (WHOLE - {".gitattributes", "replay.mp4"}) | {"notes.md"}


def test_a_file_tells_its_own_algorithm_and_environment(hub, trained):
    (run,) = trained.glob("*/*_1")
    (file,) = run.glob("CartPole*.zip")
    assert main(["push", "-i", str(file), "--no-video"]) == 0
    assert REPO in hub.repos


def test_flags_name_the_repository(hub):
    assert push("--no-video", "-orga", "lab", "-name", "pole", "--private") == 0
    assert hub.repos["lab/pole"].private and "-orga lab -name pole" in (
        hub.repos["lab/pole"].files["README.md"].decode()
    )


def test_python_pushes_the_folder_of_a_run(hub, shipped):
    url = rlzoo.push_to_hub("lab/pole", shipped, "From Python", video_length=3)
    assert url.startswith(f"{hub.url}/lab/pole/commit/") and set(hub.repos["lab/pole"].files) == WHOLE


def test_python_pushes_a_file_that_save_has_written(hub, tmp_path):
    rlzoo.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).save(tmp_path / "pole")
    rlzoo.push_to_hub("me/pole", tmp_path / "pole", private=True)
    files = hub.repos["me/pole"].files
    assert set(files) == {".gitattributes", "README.md", "pole.zip"}
    assert "rlzoo pull" not in files["README.md"].decode()
    assert rlzoo.PPO.load(rlzoo.load_from_hub("me/pole", "pole.zip")).n_steps == 8


def test_package_to_hub_pushes_the_agent_alone(hub):
    model = rlzoo.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    with pytest.warns(UserWarning, match="uploads the agent alone"):
        url = package_to_hub(
            model, "pole", "PPO", env_id="CartPole-v1", eval_env=None, repo_id="me/p", commit_message="first"
        )
    assert url.startswith(f"{hub.url}/me/p/commit/")
    assert set(hub.repos["me/p"].files) == {".gitattributes", "README.md", "pole.zip"}


@pytest.mark.parametrize(
    ("token", "flags", "message"),
    [
        (None, (), "wants a token that may write"),
        ("hf_unknown", (), "does not know this token (401)"),
        ("hf_wörter", (), "holds characters that no token has"),
        ("hf_reader", (), "the token may not do this with me/ppo-CartPole-v1 (403)"),
        (
            "hf_writer",
            ("-orga", "strangers"),
            "the token may not do this with strangers/ppo-CartPole-v1 (403)",
        ),
        ("hf_writer", ("-name", "a/b"), "'me/a/b' is no id of a repository"),
        ("hf_writer", ("-name", ".."), "'me/..' is no id of a repository"),
        ("hf_writer", ("--exp-id", "7"), "there is no run 7"),
    ],
)
def test_a_mistake_is_one_line_and_uploads_nothing(token, flags, message, hub, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    assert push("--no-video", *flags) == 2
    assert message in error_of(capsys) and not hub.repos and not (tmp_path / "logs").exists()


def test_a_token_that_was_kept_by_login_is_used(hub, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    Path(constants.HF_TOKEN_PATH).parent.mkdir(exist_ok=True)
    Path(constants.HF_TOKEN_PATH).write_text("hf_writer")
    assert push("--no-video") == 0 and REPO in hub.repos


def test_what_is_wrong_is_found_before_the_agent_plays(hub, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", "hf_unknown")
    assert push() == 2
    assert "recording" not in capsys.readouterr().out


def test_an_environment_without_images_wants_no_video(hub, capsys):
    assert main(["push", "--algo", "ppo_mask", "--env", "InvalidActionDiscrete-v0"]) == 2
    assert "--no-video" in capsys.readouterr().err.splitlines()[-1] and not hub.repos


def test_a_foreign_agent_is_not_pushed(hub, trained, tmp_path, capsys):
    logs = shutil.copytree(trained, tmp_path / "copy")
    (logs / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").write_bytes(b"\x80\x04cos\nsystem\n.")
    assert push("-f", str(logs), "--no-video") == 2
    assert "pickle" in error_of(capsys) and not hub.repos


@pytest.mark.parametrize("command", [b"rlzoo import a.zip\n", b"rlzoo train 'open", b"\xff", b""])
def test_a_run_that_was_not_trained_here_has_no_command(command, hub, trained, tmp_path):
    logs = shutil.copytree(trained, tmp_path / "copy")
    (logs / "ppo" / "CartPole-v1_1" / "command.txt").write_bytes(command)
    assert push("-f", str(logs), "--no-video", "--n-eval-episodes", "1") == 0
    assert set(hub.repos[REPO].files) == WHOLE - {"command.txt", "replay.mp4"}


def test_a_cut_upload_is_one_line_and_no_commit(hub, capsys):
    hub.faults.cut_upload = True
    assert push("--no-video") == 1
    assert "the connection to" in error_of(capsys) and set(hub.repos[REPO].files) == {".gitattributes"}


@pytest.mark.parametrize(
    ("status", "code", "message"), [(500, 1, "has failed (500)"), (429, 1, "(429)"), (413, 2, "(413)")]
)
def test_other_answers_of_the_hub_are_one_line(status, code, message, hub, capsys):
    hub.faults.statuses[f"POST /api/models/{REPO}/commit"] = status
    assert push("--no-video") == code
    assert message in error_of(capsys)


def test_offline_nothing_is_pushed(hub, monkeypatch, capsys):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert push("--no-video") == 2
    assert "HF_HUB_OFFLINE is set" in error_of(capsys) and not hub.log


def test_a_hub_that_is_not_there_is_one_line(hub, monkeypatch, capsys):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert push("--no-video") == 1
    assert "the connection to http://127.0.0.1:9 failed" in error_of(capsys)


def test_a_server_that_is_no_hub_is_one_line(hub, capsys):
    hub.faults.statuses["GET /api/whoami-v2"] = 200
    assert push("--no-video") == 1
    assert "does not answer as a hub does" in error_of(capsys)


def test_python_refuses_what_is_no_agent(hub, tmp_path):
    with pytest.raises(UserError, match="no model file"):
        rlzoo.push_to_hub("me/x", tmp_path / "nothing.zip")
    with pytest.raises(UserError, match="not the folder of a run"):
        rlzoo.push_to_hub("me/x", tmp_path)
    assert not hub.repos
