"""Which entry an environment gets, from which kind of file, and what the shipped files hold."""

from __future__ import annotations

import sys

import pytest

from rlzoo.config import catalog
from rlzoo.config.hyperparams import load_file, lookup, shipped_envs, shipped_folder, with_overrides
from rlzoo.config.values_as_text import Name
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import make_schedule
from rlzoo.io.trust import is_trusted


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(
        "default: {policy: MlpPolicy, n_steps: 1}\natari: {policy: CnnPolicy, n_steps: 2}\n"
        "Ant-v5: {policy: MlpPolicy, n_steps: 3}\nMyEnv-v0: {policy: MlpPolicy, n_steps: 4}\n"
    )
    return path


@pytest.mark.parametrize(
    ("env_id", "entry", "n_steps"),
    [
        ("Ant-v5", "Ant-v5", 3),
        ("Ant-v4", "Ant-v5", 3),
        ("ALE/Pong-v5", "atari", 2),
        ("PongNoFrameskip-v4", "atari", 2),
        ("my_package:MyEnv-v0", "MyEnv-v0", 4),
        ("Else-v0", "default", 1),
        ("Pong-ram-v4", "default", 1),
    ],
)
def test_id_then_version_then_family_then_default(file, env_id, entry, n_steps):
    resolved = lookup("ppo", env_id, file)
    assert (resolved.entry, resolved.values["n_steps"]) == (entry, n_steps)
    assert resolved.sources["n_steps"] == f"{file}: {entry}"


def test_an_atari_game_without_a_family_entry_gets_the_default(tmp_path):
    (tmp_path / "f.yml").write_text("default: {policy: CnnPolicy}")
    assert lookup("ppo", "ALE/Pong-v5", tmp_path / "f.yml").entry == "default"


def test_the_first_of_several_files_wins_at_each_step(file, tmp_path):
    (tmp_path / "b.yml").write_text("default: {n_steps: 10, policy: P}\nNew-v0: {n_steps: 11, policy: P}")
    files = [file, tmp_path / "b.yml"]
    assert lookup("ppo", "New-v0", files).values["n_steps"] == 11
    assert lookup("ppo", "Else-v0", files).values["n_steps"] == 1


def test_no_entry_and_no_default_names_the_nearest(tmp_path):
    (tmp_path / "f.yml").write_text("CartPole-v1: {policy: MlpPolicy}")
    with pytest.raises(
        UserError, match=r"no entry for 'CartPola-v1' and no default; the nearest is 'CartPole-v1'"
    ):
        lookup("ppo", "CartPola-v1", tmp_path / "f.yml")


def test_a_file_without_ids_is_for_every_environment(tmp_path):
    (tmp_path / "config.yml").write_text(
        "policy: MlpPolicy\nn_timesteps: !!float 1e6\npolicy_kwargs: {net_arch: [8]}"
    )
    resolved = lookup("ppo", "Any-v0", tmp_path / "config.yml")
    assert resolved.values == {"policy": "MlpPolicy", "n_timesteps": 1e6, "policy_kwargs": {"net_arch": [8]}}


def test_a_python_file_may_hold_objects(tmp_path):
    (tmp_path / "conf.py").write_text(
        "import collections\nhyperparams = {'Env-v0': dict(policy='MlpPolicy', learning_rate=lambda p: p,"
        " policy_kwargs=dict(cls=collections.OrderedDict))}"
    )
    values = lookup("ppo", "Env-v0", tmp_path / "conf.py").values
    assert values["learning_rate"](0.5) == 0.5
    assert values["policy_kwargs"]["cls"].__name__ == "OrderedDict"


def test_a_module_may_be_named_by_its_dotted_path(tmp_path, monkeypatch):
    (tmp_path / "pack_of_confs").mkdir()
    (tmp_path / "pack_of_confs" / "mine.py").write_text("hyperparams = {'default': {'policy': 'MlpPolicy'}}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert lookup("ppo", "Env-v0", "pack_of_confs.mine").values == {"policy": "MlpPolicy"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yml", "Env-v0:\n  a: [1\nx: 1", "a.yml, line 3"),
        ("b.yml", "", "not a mapping of environment ids"),
        ("c.yml", "- 1", "not a mapping of environment ids"),
        ("d.yml", "Env-v0: 3", "Env-v0: not a mapping of names to values"),
        ("e.yml", "Env-v0: {1: 2}", "Env-v0: not a mapping of names to values"),
        ("f.yml", "Env-v0: {policy_kwargs: 'dict(activation_fn=nn.Rellu)'}", "did you mean 'nn.ReLU'"),
        ("g.py", "x = 1", "no dictionary called `hyperparams`"),
        ("h.py", "hyperparams = {", "h.py, line 1"),
        ("i.py", "1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as caught:
        load_file(tmp_path / name)
    assert message in str(caught.value) and name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.yml", "missing.py", "missing.module", "missing"])
def test_a_missing_file_is_named(name):
    with pytest.raises(UserError, match=name):
        load_file(name)


def test_override_merges_dictionaries_and_names_sources(file):
    resolved = lookup("ppo", "HalfCheetah-v5")
    changed = with_overrides(resolved, {"n_envs": 2, "new": 1, "policy_kwargs": {"net_arch": [64]}})
    assert changed.values["policy_kwargs"]["activation_fn"] == Name("torch.nn.ReLU")
    assert changed.values["policy_kwargs"]["net_arch"] == [64]
    assert changed.sources["policy_kwargs"] == "hyperparams/ppo.yml: HalfCheetah-v5; -params"
    assert (changed.sources["n_envs"], changed.sources["new"]) == ("-params", "-params")
    assert resolved.values["policy_kwargs"]["net_arch"] == {"pi": [256, 256], "vf": [256, 256]}
    assert lookup("ppo", "HalfCheetah-v5") == resolved


# -- the shipped files


SHIPPED = sorted(path.stem for path in shipped_folder("hyperparams").glob("*.yml"))
OF_OTHERS = ("Neck",)  # environments of other people, whose versions we do not know


def entries_of(algo):
    return load_file(shipped_folder("hyperparams") / f"{algo}.yml").entries


OWN_POLICIES = {"ars": ("LinearPolicy", "MlpPolicy"), "ppo_lstm": ("MlpLstmPolicy", "CnnLstmPolicy")}


@pytest.mark.parametrize("algo", SHIPPED)
def test_shipped_files_are_complete_and_current(algo):
    entries = entries_of(algo)
    assert "default" in entries
    for entry, values in entries.items():
        robotics = entry.startswith("Fetch") and entry.endswith("-v4")
        assert robotics or entry.startswith(OF_OTHERS) or not entry.endswith(("-v2", "-v4")), entry
        assert values["policy"] in OWN_POLICIES.get(algo, ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"))
        assert isinstance(values["n_timesteps"], int)
        for key in ("learning_rate", "clip_range"):
            make_schedule(values.get(key, 0.1))


@pytest.mark.parametrize("algo", SHIPPED)
def test_every_shipped_entry_says_how_far_it_is_to_be_trusted(algo):
    lines = (shipped_folder("hyperparams") / f"{algo}.yml").read_text().splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            assert lines[number - 1].startswith(("# tuned: ", "# paper: ", "# untested: ")), line


def test_some_figures():
    cartpole = lookup("ppo", "CartPole-v1").values
    assert cartpole["n_envs"] == 8 and cartpole["learning_rate"] == "lin_0.001" and cartpole["n_epochs"] == 20
    atari = lookup("a2c", "ALE/Pong-v5").values
    assert atari["policy_kwargs"] == {
        "optimizer_class": Name("rlzoo.RMSpropTFLike"),
        "optimizer_kwargs": {"eps": 1e-5},
    }
    assert lookup("ppo", "HumanoidStandup-v5").entry == "HumanoidStandup-v5"


def test_other_yaml_readers_see_the_same_numbers():
    """The files are written so that YAML 1.1, where `1e-3` is a text, reads them alike."""
    import yaml

    for algo in SHIPPED:
        content = yaml.safe_load((shipped_folder("hyperparams") / f"{algo}.yml").read_text())
        for entry, values in entries_of(algo).items():
            for key, value in values.items():
                if isinstance(value, int | float):
                    assert content[entry][key] == value
                    assert type(content[entry][key]) is type(value)


def test_shipped_envs_are_ids():
    assert "CartPole-v1" in shipped_envs("ppo") and not {"atari", "default"} & set(shipped_envs("ppo"))


def test_algorithm_without_a_file_has_its_defaults(monkeypatch):
    monkeypatch.setitem(catalog._TARGETS, "mine", "a:B")
    found = lookup("mine", "CartPole-v1")
    assert found.values == {"policy": "MlpPolicy"}
    assert found.sources == {"policy": "defaults of mine: default"}


def test_a_python_file_that_exits_is_an_error(tmp_path):
    path = tmp_path / "conf.py"
    path.write_text("raise SystemExit(0)")
    with pytest.raises(UserError, match="SystemExit"):
        load_file(path)


def test_classes_of_a_python_file_keep_its_name_and_are_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("RLZOO_TRUST", "")
    monkeypatch.chdir(tmp_path)
    for name in ("mine_of_conf", "not-a-module"):
        (tmp_path / f"{name}.py").write_text(
            "class Wrapper: pass\nhyperparams = {'default': {'env_wrapper': [{Wrapper: {}}]}}"
        )
        load_file(f"{name}.py")
    assert is_trusted("mine_of_conf.Wrapper") and not is_trusted("other.Wrapper")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "apart.py").write_text("hyperparams = {'default': {'policy': 'MlpPolicy'}}")
    load_file("elsewhere/apart.py")
    assert not is_trusted("apart.Wrapper")
