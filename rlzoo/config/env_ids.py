"""What an environment id says by itself: its family, name and version. Nothing is imported to find out."""

from __future__ import annotations

import re
from collections.abc import Iterable

ATARI = "atari"

# The games of the Arcade Learning Environment, as they are spelt in ids.
# fmt: off
GAMES = frozenset((
    "Adventure", "AirRaid", "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis",
    "Atlantis2", "Backgammon", "BankHeist", "BasicMath", "BattleZone", "BeamRider", "Berzerk",
    "Blackjack", "Bowling", "Boxing", "Breakout", "Carnival", "Casino", "Centipede", "ChopperCommand",
    "Combat", "CrazyClimber", "Crossbow", "Darkchambers", "Defender", "DemonAttack", "DonkeyKong",
    "DoubleDunk", "Earthworld", "ElevatorAction", "Enduro", "Entombed", "Et", "FishingDerby",
    "FlagCapture", "Freeway", "Frogger", "Frostbite", "Galaxian", "Gopher", "Gravitar", "Hangman",
    "HauntedHouse", "Hero", "HumanCannonball", "IceHockey", "Jamesbond", "JourneyEscape", "Joust",
    "Kaboom", "Kangaroo", "KeystoneKapers", "KingKong", "Klax", "Koolaid", "Krull", "KungFuMaster",
    "LaserGates", "LostLuggage", "MarioBros", "MazeCraze", "MiniatureGolf", "MontezumaRevenge", "MrDo",
    "MsPacman", "NameThisGame", "Othello", "Pacman", "Phoenix", "Pitfall", "Pitfall2", "Pong", "Pooyan",
    "PrivateEye", "Qbert", "Riverraid", "RoadRunner", "Robotank", "Seaquest", "SirLancelot", "Skiing",
    "Solaris", "SpaceInvaders", "SpaceWar", "StarGunner", "Superman", "Surround", "Tennis", "Tetris",
    "TicTacToe3D", "TimePilot", "Trondead", "Turmoil", "Tutankham", "UpNDown", "Venture",
    "VideoCheckers", "VideoChess", "VideoCube", "VideoPinball", "Warlords", "WizardOfWor", "WordZapper",
    "YarsRevenge", "Zaxxon",
))
# fmt: on

_ATARI_ID = re.compile(
    r"(?P<ale>ALE/)?(?P<game>[A-Za-z0-9]+?)(?:NoFrameskip|Deterministic)?-v(?P<version>\d+)$"
)


def bare_id(env_id: str) -> str:
    """Return the id without the module that Gymnasium imports: `my_package:MyEnv-v0` is `MyEnv-v0`."""
    return env_id.rpartition(":")[2]


def is_atari(env_id: str) -> bool:
    """Return whether an id is an Atari game played from pixels; `-ram` games are not."""
    match = _ATARI_ID.match(bare_id(env_id))
    return match is not None and (
        match["ale"] is not None or (match["game"] in GAMES and match["version"] in "04")
    )


def plays_stochastically(env_id: str) -> bool:
    """Return whether agents sample their actions by default: in Atari games and in grid worlds.

    The same screen comes again and again there, and the most likely action can lead round in circles.
    """
    return is_atari(env_id) or bare_id(env_id).startswith(("MiniGrid-", "BabyAI-"))


def env_family(env_id: str) -> str | None:
    """Return the entry of a hyperparameter file for a whole family of environments, or None."""
    return ATARI if is_atari(env_id) else None


def other_version(env_id: str, known: Iterable[str]) -> str | None:
    """Return the newest version of the same environment among `known`: `Ant-v5` for `Ant-v4`."""
    name, versioned, _ = bare_id(env_id).rpartition("-v")
    versions = [
        candidate for candidate in known if versioned and re.match(rf"{re.escape(name)}-v\d+$", candidate)
    ]
    return max(versions, key=lambda candidate: int(candidate.rpartition("-v")[2]), default=None)
