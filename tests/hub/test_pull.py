"""`rlzoo pull` and `rlzoo.load_from_hub`, from a hub on this machine."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import types
import zipfile
from pathlib import Path

import pytest
from huggingface_hub import constants

import rlzoo
from rlzoo.cli.main import main
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.hub import hub_files
from rlzoo.runs.run_folder import read_run

REPO = "lab/ppo-CartPole-v1"
AGENT = "ppo-CartPole-v1.zip"
RUN = Path("logs/ppo/CartPole-v1_1")
SB3_FILES = Path(__file__).parents[1] / "interop" / "sb3_files" / "2.9.2"
HOSTILE_PICKLE = b"cos\nsystem\n(S'touch executed'\ntR."


def pull(*flags: str) -> int:
    return main(["pull", "-orga", "lab", "--algo", "ppo", "--env", "CartPole-v1", *flags])


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that standard error holds."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


def assert_nothing_is_left(tmp_path: Path) -> None:
    """Neither runs nor temporary folders, and nothing was executed."""
    assert not (tmp_path / "logs").exists() and not (tmp_path / "executed").exists()


@pytest.fixture(autouse=True)
def temporary_files(tmp_path, monkeypatch):
    """Where temporary folders go; at the end none of them is left."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield
    assert not list(place.iterdir())


def test_a_pushed_agent_comes_back_and_plays(hub, trained, capsys):
    flags = ("--algo", "ppo", "--env", "CartPole-v1")
    assert main(["push", *flags, "-f", str(trained), "-n", "5", "--n-eval-episodes", "2"]) == 0
    assert main(["pull", "-orga", "me", *flags]) == 0
    assert {path.relative_to(RUN).as_posix() for path in RUN.rglob("*") if path.is_file()} == {
        "CartPole-v1.zip",
        "CartPole-v1/args.yml",
        "CartPole-v1/config.yml",
        "README.md",
        "command.txt",
        "hub.json",
        "score.json",
        "videos/replay.mp4",
    }
    origin = json.loads((RUN / "hub.json").read_text())
    assert origin["repo_id"] == "me/ppo-CartPole-v1" and read_run(RUN).seed == 1
    assert origin["commit"] == hub.repos["me/ppo-CartPole-v1"].refs["main"]
    capsys.readouterr()
    assert main(["enjoy", *flags, "--no-render", "-n", "5"]) == 0
    assert str(RUN) in capsys.readouterr().out
    assert main(["record-video", *flags, "-n", "3"]) == 0
    assert main(["train", "--resume", str(RUN), "-n", "96"]) == 0


def test_a_second_pull_is_the_next_run(hub, files, capsys):
    hub.add(REPO, files)
    assert pull() == pull() == 0
    assert [path.name for path in sorted(RUN.parent.iterdir())] == ["CartPole-v1_1", "CartPole-v1_2"]
    assert capsys.readouterr().err == ""


def test_a_run_is_replaced_only_by_force(hub, files, capsys):
    hub.add(REPO, files)
    assert pull("--exp-id", "1") == 0
    (RUN / "mine.txt").touch()
    assert pull("--exp-id", "1") == 2
    assert "--force replaces it" in error_of(capsys) and (RUN / "mine.txt").exists()
    assert main(["pull", "-i", REPO, "--exp-id", "1"]) == 2  # which is known only after the download
    assert pull("--exp-id", "1", "--force") == 0
    assert not (RUN / "mine.txt").exists() and [path.name for path in RUN.parent.iterdir()] == [RUN.name]


def test_a_revision_pins_a_commit(hub, files):
    repo = hub.add(REPO, files)
    first = repo.refs["main"]
    repo.refs["v1"] = first
    repo.commit({**files, AGENT: b"another"})
    for number, revision in enumerate((first, "v1"), 1):
        assert pull("--revision", revision) == 0
        origin = json.loads((RUN.with_name(f"CartPole-v1_{number}") / "hub.json").read_text())
        assert (origin["commit"], origin["revision"]) == (first, revision)


@pytest.mark.parametrize("name", [f"{REPO}/{AGENT}", REPO, "lab/other", "lab/deep/agents/a.zip"])
def test_a_repository_and_a_file_can_be_named(name, hub, files):
    hub.add(REPO, files)
    hub.add("lab/other", files)
    deep = {f"agents/{key}": value for key, value in files.items() if key != AGENT}
    hub.add("lab/deep", {**deep, "agents/a.zip": files[AGENT], "config.yml": b"of something else"})
    assert main(["pull", "-i", name]) == 0
    assert (RUN / "CartPole-v1.zip").read_bytes() == files[AGENT]


def test_the_token_does_not_leave_the_hub(hub, files):
    hub.add(REPO, files)
    assert pull() == 0
    tokens = {line.split()[1].split("/")[1]: token for line, token in hub.log}
    assert tokens["lab"] == "hf_writer" and tokens["storage"] is None


def test_unknown_files_are_named_and_not_fetched(hub, files, capsys):
    others = dict.fromkeys(("evil.pkl", "policy.pt", "vec_normalize.pkl", "run.py"), HOSTILE_PICKLE)
    hub.add(REPO, {**files, **others, "sub/x.bin": b"", "../../up.yml": b"x", "\x1b[31m.yml": b""})
    assert pull() == 0
    said = error_of(capsys)
    assert all(name in said for name in (*others, "../../up.yml", "\\x1b[31m.yml")) and ".git" not in said
    assert not any(name in line for line, _ in hub.log for name in (*others, "up.yml"))
    assert {path.name for path in RUN.iterdir() if path.is_file()} == {
        "CartPole-v1.zip", "README.md", "command.txt", "hub.json", "score.json",
    }  # fmt: skip


@pytest.mark.parametrize("content", [HOSTILE_PICKLE, b"\x80\x04" + HOSTILE_PICKLE, b"PK\x03\x04", b""])
def test_a_hostile_or_damaged_agent_is_refused(content, hub, files, capsys, tmp_path):
    hub.add(REPO, {**files, AGENT: content})
    assert pull() == 2
    assert f"{REPO}: {AGENT} is no" in error_of(capsys).replace("a pickle", "no") or content
    assert_nothing_is_left(tmp_path)


@pytest.fixture
def theirs(hub):
    """A repository of stable-baselines3, as RL Baselines3 Zoo pushes them."""
    agent = io.BytesIO()
    with zipfile.ZipFile(agent, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", HOSTILE_PICKLE)
        archive.writestr("_stable_baselines3_version", "2.0.0")
    names = ("config.yml", "args.yml", "env_kwargs.yml", "vec_normalize.pkl", "train_eval_metrics.zip")
    return hub.add(REPO, {AGENT: agent.getvalue(), "README.md": b"", **dict.fromkeys(names, HOSTILE_PICKLE)})


def test_hostile_pickles_of_stable_baselines3_are_not_run(theirs, capsys, tmp_path):
    assert pull("--verbose", "0") == 2
    assert f"{REPO}: {AGENT}: " in error_of(capsys)
    assert_nothing_is_left(tmp_path)


def test_an_agent_of_stable_baselines3_is_pulled_and_plays(hub, capsys):
    files = {
        "ppo-Pendulum-v1.zip": (SB3_FILES / "ppo_normalized.zip").read_bytes(),
        "vec_normalize.pkl": (SB3_FILES / "ppo_normalized_vecnormalize.pkl").read_bytes(),
        "config.yml": (
            b"!!python/object/apply:collections.OrderedDict\n"
            b"- - - normalize\n    - true\n  - - n_timesteps\n    - 1000\n  - - policy\n    - MlpPolicy\n"
        ),
    }
    hub.add("sb3/ppo-Pendulum-v1", files)
    flags = ("--algo", "ppo", "--env", "Pendulum-v1")
    assert main(["pull", "--organization", "sb3", *flags]) == 0
    assert not list(Path("logs").rglob("*.pkl"))
    assert main(["enjoy", *flags, "--no-render", "-n", "3"]) == 0


def test_files_of_stable_baselines3_are_handed_to_the_importer(theirs, shipped, monkeypatch, capsys):
    def import_run(agent, target, algo, env_id):
        beside = {path.name for path in agent.parent.iterdir() if path.is_file()}
        assert beside == {AGENT, *hub_files.OF_STABLE_BASELINES3} - {"results.json", "replay.mp4"}
        assert (algo, env_id) == ("ppo", "CartPole-v1")
        shutil.copytree(shipped, target)

    monkeypatch.setattr("rlzoo.hub.unpack.import_run", import_run)
    assert main(["pull", "-i", f"{REPO}/{AGENT}"]) == 0
    assert "not taken" in capsys.readouterr().err  # train_eval_metrics.zip
    assert json.loads((RUN / "hub.json").read_text())["repo_id"] == REPO and (RUN / "README.md").exists()
    commit = theirs.refs["main"]
    assert (RUN / "command.txt").read_text() == f"rlzoo pull -i {REPO}/{AGENT} --revision {commit}\n"
    assert not list(RUN.rglob("*.pkl")) and main(["enjoy", "--no-render", "-n", "3"]) == 0


@pytest.mark.parametrize("name", ["agent.zip", "ppo.zip", "ppo-evil:Env-v0.zip"])
def test_an_agent_that_does_not_tell_what_it_is_wants_flags(name, theirs, hub, capsys, tmp_path):
    hub.add("lab/x", {name: theirs.files[AGENT]})
    assert main(["pull", "-i", "lab/x", "--verbose", "0"]) == 2
    assert "give --algo and --env" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("name", ["ppo-...zip", "ppo-\x1b[31mCartPole-v1.zip"])
def test_a_name_that_is_no_environment_is_refused(name, hub, capsys, tmp_path):
    hub.add("lab/x", {name: (SB3_FILES / "ppo_mlp.zip").read_bytes()})
    assert main(["pull", "-i", "lab/x", "--verbose", "0"]) == 2
    assert "lab/x" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


def test_a_package_of_an_environment_is_named_by_the_user(hub, files, capsys, tmp_path):
    hub.add("lab/x", {**files, "args.yml": files["args.yml"].replace(b"d: CartPole", b"d: this:CartPole")})
    assert main(["pull", "-i", "lab/x/ppo-CartPole-v1.zip", "--verbose", "0"]) == 2
    assert "names the package 'this', whose code runs only if you trust it" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


def test_keywords_of_the_environment_come_along(hub):
    agent = (SB3_FILES / "ppo_mlp.zip").read_bytes()
    kwargs = b"render_mode: rgb_array\nsutton_barto_reward: true\n"
    hub.add(REPO, {AGENT: agent, "env_kwargs.yml": kwargs})
    assert pull() == 0
    assert read_yaml(RUN / "CartPole-v1" / "config.yml")["env_kwargs"] == {"sutton_barto_reward": True}


CHANGES = {
    "args.yml": [
        (b"algo: ppo", b"algo: nosuch", "nosuch"),
        (b"algo: ppo", b"algo: a2c", "is an agent of a2c for CartPole-v1"),
        (b"env_id: CartPole-v1", b"env_id: ..", "names the environment '..'"),
        (b"env_id: CartPole-v1", b"env_id: ''", "names the environment ''"),
        (b"env_id: CartPole-v1", b"env_id: CartPole-v0", "not of --env CartPole-v1"),
        (b"gym_packages: []", b"gym_packages: [evil]", "--trust evil"),
        (b"seed: 0", b"sede: 0", "did you mean 'seed'?"),
        (b"seed: 0", b"seed: !!python/object/apply:os.system [touch executed]", "args.yml"),
    ],
    "config.yml": [
        (b"n_envs: 8", b"n_envs: 8\nenv_wrapper: os.system", "--trust os"),
        (b"n_envs: 8", b"n_envs: 8\ncallback: evil.Callback", "--trust evil"),
        (b"n_envs: 8", b"n_envs: 8\nmonitor_kwargs: {filename: /tmp/x}", "says where to write"),
        (b"n_envs: 8", b"n_env: 8", "n_env"),
        (b"n_envs: 8", b"a: &a [x, x]\nb: [*a, *a", "config.yml"),
    ],
    "command.txt": [(b"rlzoo", b"\x1b[31mrlzoo", "not one line"), (b"rlzoo", b"\xff", "no text in UTF-8")],
    "README.md": [(b"---", b"\xff", "no text in UTF-8")],
    "score.json": [(b'"seed": 0', b'"seed": 3', "of another agent"), (b"{", b"[", "no JSON file")],
}


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [(name, *change) for name, changes in CHANGES.items() for change in changes],
)
def test_a_description_is_checked_before_it_is_kept(name, old, new, message, hub, files, capsys, tmp_path):
    assert old in files[name]
    hub.add(REPO, {**files, name: files[name].replace(old, new, 1)})
    assert pull() == 2
    line = error_of(capsys)
    assert message in line and REPO in line and str(tmp_path) not in line
    assert_nothing_is_left(tmp_path)


def test_a_video_that_is_none_is_refused(hub, files, capsys, tmp_path):
    hub.add(REPO, {**files, "replay.mp4": b"<html>"})
    assert pull() == 2
    assert f"{REPO}: replay.mp4 is no mp4 file" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


def test_trusted_code_may_be_named(hub, files):
    hub.add(REPO, {**files, "args.yml": files["args.yml"].replace(b"ckages: []", b"ckages: [theirs]")})
    assert pull("--trust", "theirs") == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--revision", "nosuch"), "has no revision 'nosuch'"),
        (("-orga", "nobody"), "has no repository nobody/ppo-CartPole-v1 (404)"),
        (("-name", "empty"), "has no agent (.zip)"),
        (("-name", "two"), "several agents (a.zip, b.zip)"),
        (("-name", "alone"), "load_from_hub('lab/alone', 'ppo-CartPole-v1.zip')"),
        (("-name", "gated"), "lab/gated is gated"),
        (("-name", "a b"), "is no id of a repository"),
        (("-f", "file"), "-f wants a folder"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(flags, message, hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    hub.add("lab/empty", {"README.md": b""})
    hub.add("lab/two", {"a.zip": b"a", "b.zip": b"b"})
    hub.add("lab/alone", {AGENT: files[AGENT]})
    hub.add("lab/gated", files, gated=True)
    (tmp_path / "file").touch()
    assert pull(*flags) == 2
    assert message in error_of(capsys)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lab/ppo-CartPole-v1/ppo-CartPole.zip", "did you mean 'ppo-CartPole-v1.zip'?"),
        ("lab/ppo-CartPole-v1/../x.zip", "is no name of a file"),
        ("lab/ppo-CartPole-v1/.hidden", "is no name of a file"),
        ("lab/ppo-CartPole-v1/a\\b.zip", "is no name of a file"),
        ("lab", "is no id of a repository"),
    ],
)
def test_a_wrong_name_is_one_line(name, message, hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    assert main(["pull", "-i", name]) == 2
    assert message in error_of(capsys)
    assert_nothing_is_left(tmp_path)


def test_flags_must_name_one_repository(hub, capsys):
    assert main(["pull", "--algo", "ppo"]) == 2
    assert "Give --algo and --env, or -name REPO, or -i ORG/REPO" in error_of(capsys)
    assert main(["pull", "-i", REPO, "-orga", "lab"]) == 2
    assert "cannot be given with it" in error_of(capsys)


def test_a_private_repository_wants_a_token(hub, files, capsys, monkeypatch):
    hub.add(REPO, files, private=True)
    monkeypatch.delenv("HF_TOKEN")
    assert pull() == 2
    assert "(401), or it is private" in error_of(capsys)
    monkeypatch.setenv("HF_TOKEN", "hf_unknown")
    assert pull() == 2
    assert "does not know this token (401)" in error_of(capsys)
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert pull() == 0


@pytest.mark.parametrize("name", [AGENT, "config.yml"])
def test_a_cut_download_is_one_line_and_leaves_nothing(name, hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    hub.faults.cut_download = name
    assert pull() == 1
    assert "the connection to" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("name", [AGENT, "config.yml"])
def test_a_download_goes_on_where_it_was_cut(name, hub, files, capsys):
    hub.add(REPO, files)
    hub.faults.cut_download, hub.faults.cuts = name, 1
    assert pull() == 0
    assert hub.faults.cuts == 0 and capsys.readouterr().err == ""
    assert (RUN / "CartPole-v1.zip").read_bytes() == files[AGENT]


@pytest.mark.parametrize("name", [AGENT, "config.yml"])
@pytest.mark.parametrize("change", ["hash", "size"])
def test_a_file_that_is_not_the_listed_one_is_refused(name, change, hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    size, wrong = len(files[name]) + 7 * (change == "size"), change == "hash"
    listed = {"size": size, "oid": "0" * 40 if wrong else hub_blob(files[name])}
    if name == AGENT:
        sha256 = "0" * 64 if wrong else hashlib.sha256(files[name]).hexdigest()
        listed["lfs"] = {"oid": sha256, "size": size, "pointerSize": 1}
    hub.faults.listed[name] = listed
    assert pull() == 1
    line = error_of(capsys)
    assert "another hash than is listed" in line if wrong else "size" in line or "bytes" in line
    assert_nothing_is_left(tmp_path)


def hub_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def test_more_bytes_than_listed_end_the_download(hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    hub.faults.more = AGENT
    assert pull() == 1
    assert "more arrives than the" in error_of(capsys)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("name", [AGENT, "config.yml", "replay.mp4"])
def test_a_file_that_is_too_large_is_not_fetched(name, hub, files, capsys, tmp_path, monkeypatch):
    hub.add(REPO, {**files, "replay.mp4": b"0"})
    huge = {"size": 2**40, "oid": "0" * 40}
    hub.faults.listed[name] = {**huge, "lfs": {"oid": "0" * 64, "size": 2**40, "pointerSize": 1}}
    assert pull() == 2
    assert "has 1,099,511,627,776 bytes; at most" in error_of(capsys)
    assert not any(f"resolve/main/{name}" in line for line, _ in hub.log)
    assert_nothing_is_left(tmp_path)


def test_a_repository_of_too_many_files_is_refused(hub, files, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(hub_files, "MAX_FILES", 3)
    hub.add(REPO, files)
    assert pull() == 2
    assert "more than 3 files" in error_of(capsys)


def test_a_listing_without_hashes_is_refused(hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    hub.faults.listed["config.yml"] = {"oid": "main"}
    assert pull() == 1
    assert "without a size and a hash" in error_of(capsys)


def test_a_log_folder_that_cannot_be_written_is_one_line(hub, files, capsys, tmp_path):
    hub.add(REPO, files)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "ppo").touch()
    assert pull() == 2
    assert "cannot keep runs in logs/ppo" in error_of(capsys)


def test_offline_nothing_is_pulled(hub, files, capsys, monkeypatch, tmp_path):
    hub.add(REPO, files)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert pull() == 2
    assert "HF_HUB_OFFLINE is set" in error_of(capsys) and not hub.log
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("flags", [(), ("--exp-id", "1", "--force")])
def test_a_full_disk_leaves_what_was_there(flags, hub, files, capsys, tmp_path, monkeypatch):
    hub.add(REPO, files)
    if flags:
        assert pull(*flags) == 0

    def fail(self, target):
        if "old" not in Path(target).name and "old" not in self.name:
            raise OSError(28, "No space left on device")
        return original(self, target)

    original = Path.rename
    monkeypatch.setattr(Path, "rename", fail)
    assert pull(*flags) == 1
    assert "No space left on device" in error_of(capsys)
    assert [path.name for path in RUN.parent.glob("*")] == ["CartPole-v1_1"] * bool(flags)
    assert (RUN / "CartPole-v1.zip").is_file() or not (tmp_path / "logs").exists()


def test_an_interrupted_pull_leaves_nothing(hub, files, tmp_path, monkeypatch):
    hub.add(REPO, files)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlzoo.hub.download.shutil.copytree", interrupt)
    assert pull() == 130
    assert_nothing_is_left(tmp_path)


# -- load_from_hub


def test_python_loads_a_file_from_the_hub(hub, files, monkeypatch, tmp_path, capsys):
    hub.add(REPO, files)
    path = rlzoo.load_from_hub(REPO, AGENT)
    assert isinstance(path, str) and tmp_path in Path(path).parents
    assert rlzoo.PPO.load(path).num_timesteps == 100_096
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert rlzoo.load_from_hub(REPO, AGENT) == path
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        rlzoo.load_from_hub(REPO, "config.yml")


def test_a_cached_file_with_another_hash_is_removed(hub, files, tmp_path):
    hub.add(REPO, files)
    path = Path(rlzoo.load_from_hub(REPO, "config.yml"))
    path.write_bytes(b"changed")
    with pytest.raises(RunFailed, match="another hash than is listed"):
        rlzoo.load_from_hub(REPO, "config.yml")
    assert Path(rlzoo.load_from_hub(REPO, "config.yml")).read_bytes() == files["config.yml"]


def test_hashes_are_compared_where_there_are_no_links(hub, files, monkeypatch):
    hub.add(REPO, files)
    monkeypatch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda *_: False)
    path = Path(rlzoo.load_from_hub(REPO, AGENT))
    assert not path.is_symlink()
    path.write_bytes(b"changed")
    with pytest.raises(RunFailed, match="another hash than is listed"):
        rlzoo.load_from_hub(REPO, AGENT)
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("policy.pt", "is no file that rlzoo reads"),
        ("../x.zip", "is no name of a file"),
        ("other.zip", "has no such file"),
    ],
)
def test_python_refuses_other_files(name, message, hub, files):
    hub.add(REPO, files)
    with pytest.raises(UserError, match=message):
        rlzoo.load_from_hub(REPO, name)


def test_agents_of_an_organization_are_listed(monkeypatch):
    class Api:
        endpoint = "https://hub.invalid"

        def list_models(self, author):
            names = ["ppo-CartPole-v1", "ppo_lstm-CartPoleNoVel-v1", "bert-base"]
            return [types.SimpleNamespace(id=f"{author}/{name}") for name in names]

        def list_repo_files(self, repo_id):
            return [f"{repo_id.partition('/')[2]}.zip"] if "NoVel" in repo_id else ["README.md"]

    monkeypatch.setattr("rlzoo.hub.download.connect", Api)
    lstm = {"ppo_lstm-CartPoleNoVel-v1": ("ppo_lstm", "CartPoleNoVel-v1")}
    assert rlzoo.get_hf_trained_models("me") == {"ppo-CartPole-v1": ("ppo", "CartPole-v1"), **lstm}
    assert rlzoo.get_hf_trained_models("me", check_filename=True) == lstm


def test_download_from_hub_pulls(monkeypatch):
    pulled = []
    monkeypatch.setattr("rlzoo.hub.download.pull", pulled.append)
    rlzoo.download_from_hub("ppo", "CartPole-v1", 3, "logs", "me", force=True)
    assert (pulled[0].repo_id, pulled[0].exp_id, pulled[0].force) == ("me/ppo-CartPole-v1", 3, True)
