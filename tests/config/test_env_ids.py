"""Families and versions of environment ids."""

from __future__ import annotations

import pytest

from rlzoo.config.run import env_family, is_atari, other_version, plays_stochastically


@pytest.mark.parametrize(
    "env_id",
    ["PongNoFrameskip-v4", "ALE/Pong-v5", "Pong-v4", "BreakoutDeterministic-v0", "ale_py:ALE/TicTacToe3D-v5"],
)
def test_atari_games(env_id):
    assert is_atari(env_id) and env_family(env_id) == "atari"


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "Blackjack-v1",
        "Pong-ramNoFrameskip-v4",
        "Pong-ram-v4",
        "CarRacing-v3",
        "my:Env-v0",
        "Pong",
    ],
)
def test_no_atari_games(env_id):
    assert not is_atari(env_id) and env_family(env_id) is None


@pytest.mark.parametrize(
    ("env_id", "stochastic"),
    [
        ("ALE/Pong-v5", True),
        ("MiniGrid-DoorKey-5x5-v0", True),
        ("minigrid:BabyAI-GoToRedBall-v0", True),
        ("MiniGridlock-v0", False),
        ("CartPole-v1", False),
    ],
)
def test_where_agents_draw_their_actions(env_id, stochastic):
    assert plays_stochastically(env_id) is stochastic


def test_every_registered_game_is_known():
    gymnasium = pytest.importorskip("gymnasium")
    ale_py = pytest.importorskip("ale_py")
    gymnasium.register_envs(ale_py)
    games = {env_id for env_id, spec in gymnasium.registry.items() if "ale_py" in str(spec.entry_point)}
    games = {env_id for env_id in games if "-ram" not in env_id}  # which other tests register
    assert games and {env_id for env_id in gymnasium.registry if is_atari(env_id)} == games


def test_other_version():
    known = ["Ant-v5", "Ant-v10", "AntBulletEnv-v0", "XAnt-v11", "default"]
    assert other_version("Ant-v4", known) == "Ant-v10"
    assert other_version("Hopper-v4", known) is None
    assert other_version("default", known) is None
