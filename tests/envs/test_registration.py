"""From ids to registered environments, and what a wrong id is told."""

from __future__ import annotations

import importlib.util
import re

import gymnasium as gym
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import (
    OWN_MODULE,
    UnknownEnvironment,
    ensure_registered,
    known_env_ids,
    newest_id,
)


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "PongNoFrameskip-v4",
        "ALE/Breakout-v5",
        "Breakout-v4",
        "HopperBulletEnv-v0",
        "BitFlipping-v0",
        "Catch-v0",
    ],
)
def test_known_ids_are_registered(env_id: str) -> None:
    if "Bullet" in env_id:
        pytest.importorskip("pybullet_envs_gymnasium")
    ensure_registered(env_id)
    assert env_id in gym.registry


@pytest.mark.parametrize(
    ("env_id", "setting", "value"),
    [
        ("Breakout-ram-v4", "obs_type", "ram"),
        ("Breakout-ramNoFrameskip-v4", "frameskip", 1),
        ("ALE/Breakout-ram-v5", "repeat_action_probability", 0.25),
        ("BreakoutDeterministic-v4", "frameskip", 4),
        ("SpaceInvadersDeterministic-v4", "frameskip", 3),
    ],
)
def test_atari_ids_that_ale_py_left_out(env_id: str, setting: str, value: object) -> None:
    ensure_registered(env_id)
    assert gym.spec(env_id).kwargs[setting] == value


def test_ram_games_are_vectors() -> None:
    ensure_registered("Pong-ram-v4")
    env = gym.make("Pong-ram-v4")
    assert env.observation_space.shape == (128,)
    env.close()


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("CartPol-v1", "'CartPole-v1'"),
        ("HalfChetah-v5", "'HalfCheetah-v5'"),
        ("cartpole-v1", "'CartPole-v1'"),
        ("LunarLander-v2", "'LunarLander-v3'"),
        ("HalfCheetah-v3", "'HalfCheetah-v5'"),
        ("Pendulum-v0", "'Pendulum-v1'"),
        ("CartPole", "'CartPole-v1'"),
        ("Foo-ram-v0", "unknown environment"),
        ("nopackage:Name-v0", "'nopackage' is not installed"),
    ],
)
def test_wrong_ids_are_told_the_right_one(env_id: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        ensure_registered(env_id)
    assert "\n" not in str(caught.value)


def test_wrong_ids_are_errors_of_gymnasium_too() -> None:
    with pytest.raises(gym.error.DeprecatedEnv, match="'Pendulum-v1'"):
        ensure_registered("Pendulum-v0")
    with pytest.raises(gym.error.NameNotFound, match="unknown environment"):
        ensure_registered("NoSuchEnvironment-v0")


def test_missing_package_names_the_extra_and_todays_id(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("panda_gym") is not None:
        pytest.skip("panda_gym is installed")
    with pytest.raises(UserError, match=r"PandaReach-v3.*pip install .*\[robotics\]'"):
        ensure_registered("PandaReach-v1")


ROBOTICS = {
    "gymnasium_robotics": ["FetchReach", "FetchPush", "FetchSlide", "FetchPickAndPlace"],
    "panda_gym": ["PandaReach", "PandaPush", "PandaSlide", "PandaPickAndPlace", "PandaStack"],
    "highway_env": ["parking"],
}


@pytest.mark.parametrize(("package", "name"), [(p, name) for p, names in ROBOTICS.items() for name in names])
def test_goal_environments_of_the_robotics_extra(package: str, name: str) -> None:
    pytest.importorskip(package)
    current = newest_id(f"{name}-v1")
    assert current is not None
    ensure_registered(current)
    assert gym.spec(current)
    with pytest.raises(UserError, match=current):
        ensure_registered(f"{name}-v1")


def test_ids_of_the_old_mujoco_bindings_are_retired() -> None:
    gym.register("OldForTest-v1", entry_point="package.module:MujocoPyEnv")
    gym.register("OldForTest-v2", entry_point="package.module:MujocoEnv")
    try:
        with pytest.raises(UserError, match="retired; the current version is 'OldForTest-v2'"):
            ensure_registered("OldForTest-v1")
    finally:
        gym.registry.pop("OldForTest-v1")
        gym.registry.pop("OldForTest-v2")


def test_gym_packages_are_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    package = f"{tmp_path}/my_envs_for_test.py"
    with open(package, "w") as file:
        file.write("import gymnasium\ngymnasium.register('MineForTest-v0', entry_point='x:Y')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        ensure_registered("MineForTest-v0", gym_packages=["my_envs_for_test"])
    finally:
        gym.registry.pop("MineForTest-v0", None)
    with pytest.raises(UserError, match="'no_such_package'"):
        ensure_registered("CartPole-v1", gym_packages=["no_such_package"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LunarLander-v2", "LunarLander-v3"),
        ("HalfCheetah-v3", "HalfCheetah-v5"),
        ("HalfCheetah-v4", "HalfCheetah-v5"),
        ("FetchReach-v1", "FetchReach-v4"),
        ("CarRacing-v0", "CarRacing-v3"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("Pong-ram-v0", "Pong-ram-v4"),
        ("Nonsense-v3", None),
    ],
)
def test_today_id(old: str, new: str | None) -> None:
    assert newest_id(old) == new


def test_known_env_ids_can_all_be_made() -> None:
    known = known_env_ids()
    assert {"CartPole-v1", "PongNoFrameskip-v4", "HalfCheetah-v5", "Catch-v0"} <= set(known)
    assert "HalfCheetah-v3" not in known
    assert known == sorted(known)


@pytest.mark.parametrize("env_id", ["AsymBox-v0", "Qwertyuiop-v3", "MyOwnTask-v0"])
def test_unknown_id_like_no_other_names_list_and_flag(env_id):
    said = f"unknown environment '{env_id}'; see `rlzoo list envs --all`; {OWN_MODULE}"
    with pytest.raises(UnknownEnvironment, match=f"^{re.escape(said)}$"):
        ensure_registered(env_id)


def test_id_that_is_hardly_a_typo_names_the_flag_too():
    with pytest.raises(UnknownEnvironment, match=r"'CartPole-v1'\? If a module .*--gym-packages"):
        ensure_registered("CartOnRail-v0")
    with pytest.raises(UnknownEnvironment, match=r"did you mean 'CartPole-v1'\?$"):
        ensure_registered("CartPol-v1")


def test_near_ids_are_proposed():
    for env_id, near in {
        "CartPol-v1": "CartPole-v1",
        "pong-v5": "Pong",
        "HalfChetah-v5": "HalfCheetah-v5",
    }.items():
        with pytest.raises(UserError, match=f"did you mean '.*{near}|{near}"):
            ensure_registered(env_id)
