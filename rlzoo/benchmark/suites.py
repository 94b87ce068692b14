"""The suite of an environment: scores are aggregated over the environments of one suite."""

from __future__ import annotations

import re

import gymnasium as gym

from rlzoo.config.run import bare_id
from rlzoo.envs.single_env.registration import FAMILIES, OWN

OTHERS = "Other environments"
_OF_GYMNASIUM = {
    "gymnasium.envs.classic_control": "Classic control",
    "gymnasium.envs.box2d": "Box2D",
    "gymnasium.envs.mujoco": "MuJoCo",
    "gymnasium.envs.toy_text": "Toy text",
}
_OF_PACKAGES = {
    "ale_py": "Atari",
    "pybullet_envs_gymnasium": "PyBullet",
    "gymnasium_robotics": "Robotics",
    "panda_gym": "Robotics",
    "highway_env": "Driving",
    "minigrid": "MiniGrid",
}
_NO_VELOCITY = re.compile(r"NoVel(?=-v\d+$)")


def suite_of(env_id: str) -> str:
    """Return the suite of an environment; its package need not be installed.

    >>> suite_of("Hopper-v5"), suite_of("HopperBulletEnv-v0"), suite_of("PendulumNoVel-v1")
    ('MuJoCo', 'PyBullet', 'Without velocities')
    """
    name = bare_id(env_id)
    if _NO_VELOCITY.search(name):
        return "Without velocities"
    if name in OWN:
        return "Examples of rlzoo"
    for family in FAMILIES:
        if re.match(family.ids, name):
            return _OF_PACKAGES[family.module]
    entry_point = str(gym.registry[name].entry_point) if name in gym.registry else ""
    return next((suite for start, suite in _OF_GYMNASIUM.items() if entry_point.startswith(start)), OTHERS)
