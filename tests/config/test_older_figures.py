"""Every entry of hyperparams/sb2 is the one of the older zoo, with what Stable Baselines had by default.

`older_figures.json` has the figures as RL Baselines Zoo gives them: under its ids, option and class names,
with schedules taken apart. `DEFAULTS` are those of the constructors of Stable Baselines 2.9.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlzoo.config.class_names import class_path
from rlzoo.config.hyperparams import load_file, lookup, shipped_envs, shipped_files, shipped_folder
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name

SOURCE: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "older_figures.json").read_text()
)
FOLDER = shipped_folder("hyperparams") / "sb2"
ATARI = {"env_wrapper": "rlzoo.AtariWrapper", "env_kwargs": {"frameskip": 1}, "frame_stack": 4}
MUJOCO = "Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|Reacher|Swimmer|Walker2d|Inverted(Double)?Pendulum"

# fmt: off
DEFAULTS: dict[str, dict[str, Any]] = {
    "a2c": {"vf_coef": 0.25, "ent_coef": 0.01},
    "acer": {},
    "acktr": {},
    "ddpg": {
        "nb_train_steps": 50, "nb_rollout_steps": 100, "tau": 0.001, "batch_size": 128, "actor_lr": 1e-4,
        "critic_lr": 1e-3, "buffer_size": 50000, "learning_starts": 0,
    },
    "dqn": {
        "learning_rate": 5e-4, "buffer_size": 50000, "exploration_final_eps": 0.02, "train_freq": 1,
        "double_q": True, "learning_starts": 1000, "target_network_update_freq": 500,
    },
    "sac": {"buffer_size": 50000, "batch_size": 64},
    "td3": {
        "learning_rate": 3e-4, "buffer_size": 50000, "train_freq": 100, "gradient_steps": 100,
        "batch_size": 128,
    },
    "trpo": {
        "timesteps_per_batch": 1024, "cg_iters": 10, "lam": 0.98, "cg_damping": 0.01, "vf_stepsize": 3e-4,
        "vf_iters": 3,
    },
}
"""Where today's default is another one."""
NETWORKS: dict[str, dict[str, Any]] = {
    "a2c": {"optimizer_class": Name("rlzoo.RMSpropTFLike"), "optimizer_kwargs": {"eps": 1e-5}},
    "ddpg": {"net_arch": [64, 64]},
    "dqn": {"dueling": True},
    "sac": {"net_arch": [64, 64]},
    "td3": {"net_arch": [64, 64]},
}
# fmt: on


@pytest.mark.parametrize("algo", ["acer", "acktr"])
def test_what_only_the_older_zoo_has_is_also_found_among_todays(algo: str) -> None:
    todays = load_file(shipped_folder("hyperparams") / f"{algo}.yml").entries
    assert todays.pop("default") == {"n_timesteps": 1000000, "policy": "MlpPolicy"}
    assert todays == shipped(algo)


def shipped(algo: str) -> dict[str, dict[str, Any]]:
    return load_file(FOLDER / f"{algo}.yml").entries


def todays_id(env_id: str) -> str:
    """Where the entry of an id has moved."""
    name = env_id.rpartition("-v")[0]
    moves = {MUJOCO: "5", "Fetch.*": "4", "LunarLander(Continuous)?": "3", "Pendulum": "1"}
    return next((f"{name}-v{to}" for names, to in moves.items() if re.fullmatch(names, name)), env_id)


def todays_value(value: Any) -> Any:
    """A value of the source, as YAML says it."""
    if isinstance(value, dict) and "schedule" in value:
        assert value["schedule"] == "linear" and value["end"] == 0
        return f"lin_{value['start']!r}"
    return value


def quietly(algo: str, values: dict[str, Any]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return translate_sb2_entry(RawConfig(algo, values)).values


def expected(algo: str, env_id: str) -> dict[str, Any]:
    """What our entry must mean."""
    values = {key: todays_value(value) for key, value in SOURCE[algo][env_id].items()}
    learner = values.get("model_class", algo)
    defaults = DEFAULTS.get(learner, {})
    if "memory_limit" in values:
        defaults = {key: value for key, value in defaults.items() if key != "buffer_size"}
    kwargs = values.pop("policy_kwargs", {})
    kwargs = {{"layers": "net_arch"}.get(key, key): value for key, value in kwargs.items()}
    values = quietly(algo, {**defaults, **values, "policy_kwargs": kwargs})
    network = {} if env_id == "atari" and learner != "a2c" and learner != "dqn" else NETWORKS.get(learner, {})
    values["policy_kwargs"] = {**network, **values["policy_kwargs"]}
    if not values["policy_kwargs"]:
        del values["policy_kwargs"]
    if env_id == "atari":
        values |= ATARI
    if algo == "her":
        values["policy"] = "MultiInputPolicy"  # goal environments are no longer flattened to vectors
    if "env_wrapper" in values:
        values["env_wrapper"] = class_path(values["env_wrapper"])
    return values


@pytest.mark.parametrize(("algo", "env_id"), [(algo, env_id) for algo in SOURCE for env_id in SOURCE[algo]])
def test_entry_has_the_figures_of_its_source(algo: str, env_id: str) -> None:
    entry = shipped(algo)[todays_id(env_id)]
    meant = quietly(algo, entry)
    assert meant == expected(algo, env_id)
    if algo != "ppo2":
        assert meant == entry  # under today's names


@pytest.mark.parametrize("algo", SOURCE)
def test_no_entry_without_a_source(algo: str) -> None:
    ours = set(shipped(algo)) - {"default"}
    assert ours == {todays_id(env_id) for env_id in SOURCE[algo]}
    assert len(ours) == len(SOURCE[algo])


@pytest.mark.parametrize("algo", [*SOURCE, "ppo1"])
def test_the_files_are_written_like_the_others(algo: str) -> None:
    path = FOLDER / f"{algo}.yml"
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            assert lines[number - 1].startswith(("# tuned: ", "# paper: ", "# untested: ")), line
    content = yaml.safe_load(path.read_text())  # YAML 1.1, where `1e-3` is a text
    for entry, values in shipped(algo).items():
        for key, value in values.items():
            if isinstance(value, int | float):
                assert content[entry][key] == value and type(content[entry][key]) is type(value), (entry, key)


# ---------------------------------------------------------------------- where they are looked up


@pytest.mark.parametrize(
    ("algo", "env_id", "file", "entry"),
    [
        ("ppo2", "CartPole-v1", "sb2/ppo2", "CartPole-v1"),
        ("ppo", "CartPole-v1", "ppo", "CartPole-v1"),
        ("ppo", "CartPoleBulletEnv-v1", "sb2/ppo2", "CartPoleBulletEnv-v1"),
        ("ppo", "Unheard-v0", "ppo", "default"),
        ("ppo", "ALE/Pong-v5", "ppo", "atari"),
        ("ppo2", "ALE/Pong-v5", "sb2/ppo2", "atari"),
        ("ppo2", "Unheard-v0", "sb2/ppo2", "default"),
        ("ppo1", "CartPole-v1", "sb2/ppo1", "default"),
        ("sac", "HalfCheetah-v5", "sac", "HalfCheetah-v5"),
        ("her", "FetchReachDense-v4", "sb2/her", "FetchReachDense-v4"),
        ("her", "FetchReachDense-v3", "sb2/her", "FetchReachDense-v4"),
    ],
)
def test_the_newer_file_then_the_older_then_families(algo: str, env_id: str, file: str, entry: str) -> None:
    resolved = lookup(algo, env_id)
    assert resolved.entry == entry
    assert set(resolved.sources.values()) == {f"hyperparams/{file}.yml: {entry}"}


def test_what_only_the_older_file_has_is_listed() -> None:
    assert "CartPoleBulletEnv-v1" in shipped_envs("ppo") and "default" not in shipped_envs("ppo2")
    assert len(shipped_envs("ppo")) == len(set(shipped_envs("ppo")))
    assert [file.label for file in shipped_files("ppo")] == [
        "hyperparams/ppo.yml",
        "hyperparams/sb2/ppo2.yml",
    ]


def test_old_atari_file_uses_rl_baselines_zoo_settings(tmp_path: Path) -> None:
    path = tmp_path / "ppo2.yml"
    path.write_text("atari: {policy: CnnPolicy, nminibatches: 4}\n")
    resolved = lookup("ppo2", "PongNoFrameskip-v4", path)
    assert {key: resolved.values[key] for key in ATARI} == ATARI
    assert "env_wrapper" not in lookup("ppo", "PongNoFrameskip-v4", path).values
    path.write_text("default: {policy: MlpPolicy}\n")
    assert "env_wrapper" not in lookup("ppo2", "CartPole-v1", path).values
