"""Register environments by id, and import only the packages that an id needs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import gymnasium as gym

from rlzoo.core.errors import NotInstalled, UserError, install_command, nearest, unknown
from rlzoo.envs.examples.velocity_mask import NO_VELOCITY, register_without_velocity
from rlzoo.envs.single_env.env_failures import describe
from rlzoo.io.trust import is_in_working_directory, is_trusted, trust


@dataclass(frozen=True)
class Family:
    """Environments that a package registers when it is imported.

    :param module: the package
    :param extra: argument of pip install
    :param ids: regular expression that matches the start of the ids
    """

    module: str
    extra: str
    ids: str


FAMILIES = (
    Family("ale_py", "ale-py", r"ALE/|.*(NoFrameskip|Deterministic|-ram)"),
    Family("pybullet_envs_gymnasium", "rlzoo[pybullet]", r".*Bullet(Duck)?Env"),
    Family(
        "gymnasium_robotics",
        "rlzoo[robotics]",
        r"Fetch|Hand(Reach|Manip)|Adroit|AntMaze|PointMaze|FrankaKitchen",
    ),
    Family("panda_gym", "rlzoo[robotics]", r"Panda"),
    Family(
        "highway_env",
        "rlzoo[robotics]",
        r"(highway|merge|roundabout|parking|intersection|racetrack|u-turn|exit|two-way|lane-keeping)\b",
    ),
    Family("minigrid", "rlzoo[robotics]", r"MiniGrid-|BabyAI-"),
)

# Current ids of environments whose package may not be installed, by name without version.
CURRENT_IDS = {
    "FetchReach": "FetchReach-v4",
    "FetchPush": "FetchPush-v4",
    "FetchSlide": "FetchSlide-v4",
    "FetchPickAndPlace": "FetchPickAndPlace-v4",
    "FetchReachDense": "FetchReachDense-v4",
    "FetchPushDense": "FetchPushDense-v4",
    "FetchSlideDense": "FetchSlideDense-v4",
    "FetchPickAndPlaceDense": "FetchPickAndPlaceDense-v4",
    "PandaReach": "PandaReach-v3",
    "PandaPush": "PandaPush-v3",
    "PandaSlide": "PandaSlide-v3",
    "PandaPickAndPlace": "PandaPickAndPlace-v3",
    "PandaStack": "PandaStack-v3",
    "PandaFlip": "PandaFlip-v3",
}
OWN: dict[str, tuple[str, dict[str, object]]] = {  # id -> entry point and keyword arguments
    "BitFlipping-v0": ("rlzoo.envs.examples.toy:BitFlippingEnv", {}),
    "Catch-v0": ("rlzoo.envs.examples.toy:Catch", {}),
    "InvalidActionDiscrete-v0": (
        "rlzoo.envs.examples.toy_invalid_actions:InvalidActionEnvDiscrete",
        {"dim": 80, "n_invalid_actions": 60},
    ),
    "InvalidActionMultiDiscrete-v0": (
        "rlzoo.envs.examples.toy_invalid_actions:InvalidActionEnvMultiDiscrete",
        {"dims": [20, 20], "n_invalid_actions": 30},
    ),
    "InvalidActionMultiBinary-v0": (
        "rlzoo.envs.examples.toy_invalid_actions:InvalidActionEnvMultiBinary",
        {"dims": 20, "n_invalid_actions": 15},
    ),
}
# id -> entry point of one environment, time limit, class of the vectorised one on tensors
TENSOR_ENVS = {
    "TensorCartPole-v1": (
        "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
        500,
        "rlzoo.envs.tensor.tensor_cartpole:TensorCartPole",
    ),
    "TensorPendulum-v1": (
        "gymnasium.envs.classic_control.pendulum:PendulumEnv",
        200,
        "rlzoo.envs.tensor.tensor_pendulum:TensorPendulum",
    ),
}
# Entry points of ids that only raise an error, or that need mujoco-py, the bindings of MuJoCo until 2022.
MOVED = ("mujoco_py", "shimmy", ":MujocoPy", "gymnasium_robotics.envs.mujoco.")
ATARI_ID = re.compile(
    r"(?P<space>ALE/)?(?P<game>\w+?)(?P<ram>-ram)?(?P<skip>Deterministic|NoFrameskip)?-v(?P<version>\d)"
)
DETERMINISTIC_SKIP = 4
SIMILAR = 0.66  # of names: an id that is less like the unknown one is not proposed
A_TYPO = 0.8  # of names: an id that is less like the unknown one may be one of the user's own
OWN_MODULE = "if a module of yours registers it, import that module (--gym-packages MODULE)"


class RetiredEnvironment(UserError, gym.error.DeprecatedEnv):
    """An old version of an environment that Gymnasium no longer makes; also a Gymnasium error."""


class UnknownEnvironment(UserError, gym.error.NameNotFound):
    """An id that is not registered; also a Gymnasium error."""


def ensure_registered(env_id: str, gym_packages: Sequence[str] = ()) -> None:
    """Register an environment, so that `gymnasium.make(env_id)` works.

    Imports `gym_packages`, then the package that the id belongs to. Atari ids that ale-py no longer registers
    (`-ram`, `Deterministic`) are registered with their former settings.

    :param env_id: "Name-v0", or "package:Name-v0" with the package that registers it
    :param gym_packages: packages to import first
    :raises UserError: a package is missing, or the environment is unknown or retired; names the nearest id
    """
    _register_own()
    if NO_VELOCITY in env_id:
        register_without_velocity()
    module, env_id = package_of(env_id), env_id.rpartition(":")[2]
    for package in (*gym_packages, *([module] if module else ())):
        _import(package, f"the package {package!r}")
    if env_id not in gym.registry:
        for family in FAMILIES:
            if re.match(family.ids, env_id):
                current = CURRENT_IDS.get(_split(env_id)[0], env_id)
                newer = "" if current == env_id else f" (the current version is {current!r})"
                _import(family.module, f"environment {env_id!r}{newer}")
    if env_id not in gym.registry and not _register_atari(env_id):
        raise _unknown_env(env_id)
    if _is_retired(env_id):
        newest = newest_id(env_id)
        hint = f"the current version is {newest!r}" if newest else "it has no successor"
        raise RetiredEnvironment(f"environment {env_id!r} is retired; {hint}")


def environment_packages() -> set[str]:
    """Return the packages that rlzoo imports for environments, and those that have registered any."""
    entry_points = [spec.entry_point for spec in gym.registry.values()]
    registered = {point.split(":")[0].split(".")[0] for point in entry_points if isinstance(point, str)}
    return {family.module for family in FAMILIES} | registered - {"gymnasium"}


def is_of_environments(name: str) -> bool:
    """Return whether a module or class is of an environment package, and not of a local file of that name."""
    root = name.split(".")[0]
    return root in environment_packages() and not is_in_working_directory(root)


def package_of(env_id: str) -> str:
    """Return the package that an id names: "package" for "package:Name-v0", else ""."""
    return env_id.rpartition(":")[0]


def require_packages(where: str, modules: Iterable[str]) -> None:
    """Raise if a file names a package that is neither an environment package nor trusted by the user.

    :param where: name of the file
    :param modules: the packages; none is imported
    :raises UserError: names the package
    """
    for module in filter(None, modules):
        if not is_of_environments(module) and not is_trusted(module):
            raise UserError(
                f"{where} names the package {module!r}, whose code runs only if you trust it: add"
                f" --trust {module}"
            )


def import_packages(modules: Iterable[str], env_id: str = "") -> None:
    """Import the modules of `--gym-packages`: they register environments and may define classes.

    An environment id may name a module, too: "package:Name-v0".

    The user named them, so they are trusted. The working directory is searched last, so that a module beside
    the user is found and shadows nothing.

    :raises UserError: there is no such module
    """
    if modules := _with_package_of(modules, env_id):
        trust(modules)
        _import_packages(modules)


def import_packages_of(where: str, modules: Iterable[str], env_id: str) -> None:
    """Import the modules that a file names with an environment, as `import_packages`, if they are trusted.

    That a file names a package of environments makes nothing of it trusted that was not before.

    :param where: the file, for the error
    :raises UserError: it names one that is not trusted, or there is no such module
    """
    modules = _with_package_of(modules, env_id)
    require_packages(where, modules)
    _import_packages(modules)


def _import_packages(modules: Iterable[str]) -> None:
    for module in modules:
        search_working_directory()
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(f"--gym-packages {module}: {error}") from None
        except Exception as error:
            raise UserError(f"--gym-packages {module}: {describe(error)}") from error


def _with_package_of(modules: Iterable[str], env_id: str) -> list[str]:
    return [*modules, *filter(None, [package_of(env_id)])]


def search_working_directory() -> None:
    """Let modules beside the user be found; they shadow nothing, since they come last."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def not_installed(wanted_by: str, module: str) -> NotInstalled:
    """Return the error for a missing package; it says how to install environment packages.

    :param wanted_by: what needs the package
    :param module: the package
    """
    extras = (family.extra for family in FAMILIES if family.module == module)
    extra = next(extras, None)
    if extra is None:
        return NotInstalled(f"{wanted_by} is not installed")
    name = re.fullmatch(r"rlzoo\[(\w+)\]", extra)
    command = install_command(name[1]) if name else f"pip install '{extra}'"
    return NotInstalled(f"{wanted_by} needs the package {module!r}: {command}")


def known_env_ids() -> list[str]:
    """Return the ids of all environments of the installed packages, sorted."""
    _import_installed()
    return sorted(env_id for env_id in gym.registry if not _is_retired(env_id))


def newest_id(env_id: str) -> str | None:
    """Return the newest version of the environment `env_id`, or None if there is none.

    >>> newest_id("HalfCheetah-v3")
    'HalfCheetah-v5'
    """
    _import_installed()
    name, version = _split(env_id)
    if version is not None and name in CURRENT_IDS:
        return CURRENT_IDS[name]
    if re.search("-ram|Deterministic", name):
        newest = f"{name}-v{5 if name.startswith('ALE/') else 4}"
        return newest if _register_atari(newest) else None
    candidates = [known for known in gym.registry if _split(known)[0] == name and not _is_retired(known)]
    return max(candidates, key=lambda known: _split(known)[1] or 0, default=None)


def _split(env_id: str) -> tuple[str, int | None]:
    """Return name and version of an id."""
    match = re.fullmatch(r"(.+)-v(\d+)", env_id)
    return (match[1], int(match[2])) if match else (env_id, None)


def _is_retired(env_id: str) -> bool:
    entry_point = gym.registry[env_id].entry_point if env_id in gym.registry else None
    target = entry_point if isinstance(entry_point, str) else getattr(entry_point, "__name__", "")
    return any(name in target for name in MOVED)


def _import(module: str, wanted_by: str) -> None:
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:  # a dependency is missing
            raise UserError(f"{wanted_by} cannot be imported: {error}") from error
        raise not_installed(wanted_by, module) from error
    except Exception as error:
        raise UserError(f"{wanted_by} cannot be imported: {describe(error)}") from error
    gym.register_envs(imported)


def _register_own() -> None:
    if all(env_id in gym.registry for env_id in OWN):
        return
    for env_id, (entry_point, kwargs) in OWN.items():
        gym.register(env_id, entry_point=entry_point, kwargs=kwargs)
    for env_id, (entry_point, limit, _) in TENSOR_ENVS.items():
        gym.register(env_id, entry_point=entry_point, max_episode_steps=limit)


def _import_installed() -> None:
    _register_own()
    register_without_velocity()
    for family in FAMILIES:
        if importlib.util.find_spec(family.module) is not None:
            _import(family.module, family.module)


def _register_atari(env_id: str) -> bool:
    """Register an Atari id, if ale-py has the game; return whether it did."""
    if importlib.util.find_spec("ale_py") is None:
        return False
    _import("ale_py", "ale_py")
    if env_id in gym.registry:
        return True
    match = ATARI_ID.fullmatch(env_id)
    if match is None or not (match["ram"] or match["skip"] == "Deterministic"):
        return False
    skip = "NoFrameskip" if match["skip"] == "NoFrameskip" else ""
    spec = gym.registry.get(f"{match['space'] or ''}{match['game']}{skip}-v{match['version']}")
    if spec is None:
        return False
    kwargs = dict(spec.kwargs)
    if match["ram"]:
        kwargs["obs_type"] = "ram"
    if match["skip"] == "Deterministic":
        kwargs["frameskip"] = 3 if match["game"] == "SpaceInvaders" else DETERMINISTIC_SKIP
    gym.register(env_id, entry_point=spec.entry_point, kwargs=kwargs)
    return True


def _unknown_env(env_id: str) -> UserError:
    current = newest_id(env_id)
    if current is not None:
        is_older = (_split(env_id)[1] or 0) < (_split(current)[1] or 0)
        error = RetiredEnvironment if is_older else UnknownEnvironment
        return error(f"unknown environment {env_id!r}; the current version is {current!r}")
    known = known_env_ids()
    names = {_split(candidate)[0] for candidate in known}
    name = nearest(_split(env_id)[0], names, SIMILAR)
    if name is None:
        seen = "see `rlzoo list envs --all`"
        return UnknownEnvironment(f"unknown environment {env_id!r}; {seen}; {OWN_MODULE}")
    # the newest version of the nearest name: "HalfChetah-v5" must not lead to HalfCheetah-v2
    nearest_one = unknown("environment", env_id, [str(newest_id(f"{name}-v0"))], UnknownEnvironment)
    if nearest(_split(env_id)[0], [name], A_TYPO) is None:
        return UnknownEnvironment(f"{nearest_one} {OWN_MODULE[0].upper()}{OWN_MODULE[1:]}")
    return nearest_one
