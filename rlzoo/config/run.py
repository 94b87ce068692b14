"""What one run is, what its environment id says, and how the things in its folder are called.

    logs/<algo>/<env>_<n>/   <env>.zip   best_model.zip   rl_model_<steps>_steps.zip   <env>/config.yml

`/` in an environment id becomes `-`. Nothing is imported to find out the family of an environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlzoo.core.errors import UserError, nearest

BEST_MODEL = "best_model.zip"
CHECKPOINT_PREFIX = "rl_model"
LOG_FOLDER = "logs"  # where runs are kept
PRECISIONS = ("highest", "high", "medium")  # of matrix products
EXPORT_SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt", "json": ".json", "html": ".html"}  # by format


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One `rlzoo train`: every flag, after parsing and before anything is looked up."""

    algo: str  # name in the catalogue
    env_id: str  # Gymnasium environment id
    n_timesteps: int = -1  # environment steps; -1: from the hyperparameters
    seed: int = -1  # -1: drawn at random when the run starts
    trained_agent: str = ""  # start from this agent
    expert: str = ""  # learn from the demonstrations in this file
    conf_file: str | None = None  # None: the shipped hyperparameters
    functions: tuple[str, ...] = ()  # hyperparameters that are functions of a Python conf_file
    hyperparams: dict[str, Any] = field(default_factory=dict)  # overrides, nested
    env_kwargs: dict[str, object] = field(default_factory=dict)  # arguments of the environment
    eval_env_kwargs: dict[str, object] = field(default_factory=dict)  # for evaluation, on top of env_kwargs
    gym_packages: tuple[str, ...] = ()  # modules to import first
    vec_env: str = "auto"  # auto, dummy, subproc, native or envpool
    device: str = "auto"  # auto, cpu, cuda or cuda:N
    num_threads: int = -1  # -1: as many as are measured to be fastest
    matmul_precision: str | None = None  # highest, high or medium; None: from the hyperparameters
    cuda_graphs: str = "auto"  # off, auto or on
    compile: bool = False  # compile gradient steps
    verbose: int = 1  # 0: silent, 1: tables of metrics, 2: debug messages
    progress: bool = False  # show a progress bar
    log_folder: str = LOG_FOLDER  # folder of all runs
    uuid: bool = False  # append a random id to the name of the folder
    log_interval: int = -1  # -1: the algorithm's, -2: never
    eval_freq: int = 25_000  # environment steps; 0 or less: never
    eval_episodes: int = 5  # episodes per evaluation
    n_eval_envs: int = 1  # environments that evaluate in parallel
    save_freq: int = -1  # environment steps; 0 or less: never
    save_replay_buffer: bool = False  # save it with each checkpoint and at the end
    truncate_last_trajectory: bool = True  # end the episodes in progress when a replay buffer is loaded
    tensorboard_log: str = ""  # folder for TensorBoard event files; "": none
    track: bool = False  # with Weights and Biases
    wandb_project_name: str = "rlzoo"  # project in Weights and Biases
    wandb_entity: str | None = None  # user or team in Weights and Biases
    wandb_group: str | None = None  # group of runs in Weights and Biases
    wandb_tags: tuple[str, ...] = ()  # tags of the run in Weights and Biases


CHANGED_BY_RESUME = (
    "n_timesteps",
    "device",
    "num_threads",
    "matmul_precision",
    "cuda_graphs",
    "compile",
    "verbose",
    "progress",
    "log_interval",
    "save_freq",
    "save_replay_buffer",
    "gym_packages",
    "expert",
    "conf_file",
    "tensorboard_log",
    "track",
    "wandb_project_name",
    "wandb_entity",
    "wandb_group",
    "wandb_tags",
)
"""Fields of a RunConfig that `--resume` may change; the others would change the results of the run."""


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """One `rlzoo enjoy`."""

    algo: str  # name in the catalogue
    env_id: str  # Gymnasium environment id
    folder: str = LOG_FOLDER  # folder of all runs
    or_shipped: bool = True  # where it has no such run, take a shipped agent
    trained_agent: str = ""  # a model file; its algorithm and environment may be left out
    exp_id: int = 0  # number of the run; 0: the newest, -1: the folder itself
    load_best: bool = False  # play best_model.zip
    load_checkpoint: int | None = None  # steps
    load_last_checkpoint: bool = False  # play the newest checkpoint
    n_timesteps: int | None = None  # steps per environment
    n_episodes: int | None = None  # episodes over all environments
    n_envs: int = 1  # environments that play in parallel
    seed: int = 0  # seed of the environments and of sampled actions
    deterministic: bool = False  # take the most likely actions
    stochastic: bool = False  # sample actions; with neither, as is usual in the environment
    no_render: bool = False  # do not show the environment
    norm_reward: bool = False  # report normalised rewards
    reward_log: str = ""  # folder for monitor files
    env_kwargs: dict[str, object] = field(default_factory=dict)  # arguments of the environment
    gym_packages: tuple[str, ...] = ()  # modules to import first
    device: str = "auto"  # auto, cpu, cuda or cuda:N
    num_threads: int = -1  # -1: one
    verbose: int = 1  # 0: only the result, 1: each episode
    progress: bool = False  # show a progress bar

    @property
    def is_deterministic(self) -> bool:
        """Whether it takes the most likely actions: as asked for, else as is usual in its environment."""
        return self.deterministic or not (self.stochastic or plays_stochastically(self.env_id))


@dataclass(frozen=True, kw_only=True)
class VideoConfig:
    """One `rlzoo record-video` or `rlzoo record-training`."""

    play: PlayConfig  # the agent, and how it is played
    output: str = ""  # a file, or a folder; empty: the folder `videos` of the run
    gif: bool = False  # write a GIF instead of an MP4
    fps: float | None = None  # None: the environment's own
    label: bool = True  # draw algorithm, environment and return into the picture


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """One `rlzoo export`."""

    play: PlayConfig  # the agent
    to: str = ""  # a format; empty: as the suffix of `output` says, else ONNX
    output: str = ""  # a file or a folder; empty: a file in the working directory


# ---------------------------------------------------------------------- environment ids

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


# ---------------------------------------------------------------------- files of a run


def safe_name(env_id: str) -> str:
    """Return an environment id as a file name.

    >>> safe_name("ALE/Pong-v5")
    'ALE-Pong-v5'
    """
    return env_id.replace("/", "-").replace("\\", "-").replace(":", "-")


def check_env_id(where: str, env_id: str) -> str:
    """Return an environment id that a file names, if it can become the name of a folder.

    :param where: the file
    :raises UserError: it cannot
    """
    if not env_id.isprintable() or not 0 < len(env_id) <= 120 or safe_name(env_id).startswith("."):
        raise UserError(f"{where} names the environment {env_id[:80]!r}")
    return env_id


class EnvironmentName(str):
    """Environment id as part of a file name.

    :param gym_id: environment id

    >>> EnvironmentName("robots/Arm-v0")
    'robots-Arm-v0'
    >>> EnvironmentName("robots/Arm-v0").gym_id
    'robots/Arm-v0'
    """

    gym_id: str

    def __new__(cls, gym_id: str) -> EnvironmentName:
        name = super().__new__(cls, safe_name(gym_id))
        name.gym_id = gym_id
        return name


def run_name(env_id: str, run_id: int) -> str:
    """Return the name of a run folder."""
    return f"{safe_name(env_id)}_{run_id}"


def model_file(env_id: str) -> str:
    """Return the file name of the final agent of a run."""
    return f"{safe_name(env_id)}.zip"


def checkpoint_name(steps: int) -> str:
    """Return the file name of a checkpoint."""
    return f"{CHECKPOINT_PREFIX}_{steps}_steps.zip"


def checkpoint_steps(file_name: str) -> int | None:
    """Return the steps in the name of a checkpoint; None for any other file."""
    match = re.fullmatch(rf"{CHECKPOINT_PREFIX}_(\d+)_steps\.zip", file_name)
    return int(match[1]) if match else None


def all_runs(log_folder: str | Path, algo: str) -> list[tuple[str, int, Path]]:
    """Return the runs of an algorithm as (environment's file name, number, folder), sorted."""
    parent = Path(log_folder) / algo
    found = []
    for path in parent.iterdir() if parent.is_dir() else ():
        match = re.fullmatch(r"(.+?)_(\d+)(?:_[0-9a-f-]{36})?", path.name)
        if match and path.is_dir():
            found.append((match[1], int(match[2]), path))
    return sorted(found)


def find_runs(log_folder: str | Path, algo: str, env_id: str) -> list[tuple[int, Path]]:
    """Return the runs of an algorithm on an environment as (number, folder), the lowest number first.

    A folder of another environment whose id begins the same way does not count, nor does a file.
    """
    return [(number, path) for name, number, path in all_runs(log_folder, algo) if name == safe_name(env_id)]


def latest_run_id(log_folder: str | Path, algo: str, env_id: str) -> int:
    """Return the highest number among the runs; 0 when there is none."""
    return max((number for number, _ in find_runs(log_folder, algo, env_id)), default=0)


def check_folder(folder: str | Path) -> None:
    """Check the folder of an `-f` that runs are read from; the default need not be there yet.

    :raises UserError: there is no such folder; names the nearest one beside it
    """
    path = Path(folder)
    if path.is_dir() or str(folder) == LOG_FOLDER:
        return
    beside = [other.name for other in path.parent.iterdir() if other.is_dir()] if path.parent.is_dir() else []
    match = nearest(path.name, beside)
    hint = f"; did you mean {str(path.with_name(match))!r}?" if match else ""
    raise UserError(f"there is no folder {str(folder)!r}{hint}")
