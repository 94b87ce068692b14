"""The folder of a run: claiming it, describing it, and finding agents in it."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from rlzoo.config import catalog
from rlzoo.config import run as names
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import PlayConfig, RunConfig
from rlzoo.config.values_as_text import dump_yaml, is_function, plain, read_yaml
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.core.runtime import git_commit, processor_name, versions
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.io.atomic import atomic_write
from rlzoo.runs import pretrained_registry
from rlzoo.runs.agent_file import arguments_beside, hyperparams_beside, is_of_zoo, with_zoo_env_kwargs
from rlzoo.runs.json_records import check_fields
from rlzoo.training.checkpoint import find_checkpoint, read_checkpoint

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

REPLAY_SUFFIX = ".safetensors"


def claim(log_folder: str | Path, algo: str, env_id: str, unique: bool = False) -> Path:
    """Make the folder of a new run, `<log_folder>/<algo>/<env>_<n>`, and nobody else's.

    `mkdir` decides: of two runs that start at the same instant one gets the number, the other the next.

    :param unique: append a random id to the name
    """
    parent = Path(log_folder) / algo
    try:
        os.path.abspath(parent).encode()  # the files of the run name it
    except UnicodeEncodeError:
        raise UserError(f"cannot keep runs in {str(parent)!r}: the path is not UTF-8") from None
    number = names.latest_run_id(log_folder, algo, env_id)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            number += 1
            folder = parent / (names.run_name(env_id, number) + (f"_{uuid.uuid4()}" if unique else ""))
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise UserError(f"cannot keep runs in {parent}: {error.strerror}") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training in the folder until the block, or this process, ends.

    The lock is the operating system's: after `kill -9` nothing has to be cleaned up. Where the file system
    has no locks, the block runs without, and a line says so.

    :raises UserError: another process trains there, or the folder is not writable
    """
    try:
        file = (folder / ".lock").open("a+")
    except OSError as error:
        raise UserError(f"cannot train in {folder}: {error.strerror}") from None
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise UserError(f"{folder} is being trained by process {file.read().strip()}") from None
            except OSError as error:  # a network drive without locks
                reason = f"{folder} cannot be locked ({error.strerror})"
                print(f"rlzoo: {reason}: let no other process train there", file=sys.stderr)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def discard(folder: Path) -> None:
    """Remove the folder of a run that never started, and those above it where nothing else is in them."""
    rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def model_path(folder: Path, env_id: str) -> Path:
    """Return the file of the final agent."""
    return folder / names.model_file(env_id)


def config_path(folder: Path, env_id: str) -> Path:
    """Return the file of the hyperparameters, which `--conf-file` reads."""
    return folder / names.safe_name(env_id) / "config.yml"


def normalize_path(folder: Path, env_id: str) -> Path:
    """Return the file of the final agent's running statistics; for other tools, since its zip has them."""
    return folder / names.safe_name(env_id) / "vecnormalize.npz"


def replay_path(folder: Path) -> Path:
    """Return the file of the final agent's replay buffer."""
    return folder / f"replay_buffer{REPLAY_SUFFIX}"


def replay_of(agent: Path, saved_together: bool) -> Path | None:
    """Return the replay buffer that was saved with an agent; with `saved_together=False` any next to it.

    As in other zoos, every file called `replay_buffer` counts, whatever its suffix.
    """
    if (steps := names.checkpoint_steps(agent.name)) is not None:
        own = agent.with_name(f"{names.CHECKPOINT_PREFIX}_replay_buffer_{steps}_steps{REPLAY_SUFFIX}")
        if own.is_file() or saved_together:
            return own if own.is_file() else None
    found = sorted(agent.parent.glob("replay_buffer.*"), key=lambda path: path.suffix != REPLAY_SUFFIX)
    return next((path for path in found if path.is_file()), None)


def describe(folder: Path, run: RunConfig, hyperparams: dict[str, object], command: str) -> None:
    """Write what the run is: its command, its arguments, its hyperparameters and the machine."""
    config_path(folder, run.env_id).parent.mkdir()
    write_configuration(folder, run, hyperparams)
    (folder / "command.txt").write_text(command + "\n")
    with atomic_write(folder / "system.json") as file:
        file.write((json.dumps(system_info(), indent=2) + "\n").encode())


def record_threads(folder: Path, threads: int | str) -> None:
    """Add the numbers of PyTorch's threads to system.json: the last bits of results can depend on them."""
    path = folder / "system.json"
    with suppress(OSError, RunFailed, ValueError):  # no reason to lose the summary of the run
        values = {**json.loads(path.read_text()), "threads": threads}
        with atomic_write(path) as file:
            file.write((json.dumps(values, indent=2) + "\n").encode())


def write_configuration(folder: Path, run: RunConfig, hyperparams: dict[str, object]) -> None:
    """Write the arguments and the hyperparameters of a run, each file whole or not at all.

    A function stays in the Python file that it came from; see `functions_of`.
    """
    config = config_path(folder, run.env_id)
    functions = tuple(key for key, value in hyperparams.items() if is_function(value))
    writable = {key: value for key, value in hyperparams.items() if key not in functions}
    described = dataclasses.replace(run, functions=functions)
    contents = {config: writable, config.with_name("args.yml"): dataclasses.asdict(described)}
    for path, values in contents.items():
        with atomic_write(path) as file:
            file.write(dump_yaml(plain(values)).encode())


def functions_of(folder: Path, run: RunConfig, conf_file: str | None) -> dict[str, object]:
    """Return the hyperparameters that are functions of the run's Python file, which config.yml cannot hold.

    :param conf_file: the Python file as the user names it now; that the folder names it is not enough
    :raises UserError: it is not named, or lacks one of the functions
    """
    if not run.functions:
        return {}
    names = ", ".join(run.functions)
    if conf_file is None:
        raise UserError(
            f"{folder} needs code that it does not hold ({names}); name its file: -conf {run.conf_file}"
        )
    values = lookup(run.algo, run.env_id, conf_file).values
    for key in run.functions:
        if not is_function(values.get(key)):
            raise UserError(f"{conf_file} has no function {key}, which {folder} was begun with")
    return {key: values[key] for key in run.functions}


def refuse_links(folder: Path) -> None:
    """Check that nothing in the folder of a run or a study leads out of it: its maker may not say what is
    written elsewhere.

    :raises UserError: there is a symbolic link in it
    """
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink():
                raise UserError(
                    f"{path} is a symbolic link, and none is followed in the folder of a run or a study;"
                    " put a copy there"
                )


def read_run(folder: Path, or_zoo: bool = False) -> RunConfig:
    """Read the configuration that `describe` wrote.

    :param or_zoo: also read that of RL Baselines3 Zoo: algorithm, environment, seed and `gym_packages`
    :raises UserError: the folder is not that of a run
    """
    found = sorted(folder.glob("*/args.yml"))
    if not found:
        raise UserError(f"{folder} is not the folder of a run: it has no <env>/args.yml")
    values = read_yaml(found[0])
    if or_zoo and is_of_zoo(values):
        known = {"algo": values["algo"], "env_id": values["env"]}
        known |= {key: values[key] for key in ("seed", "gym_packages") if values.get(key) is not None}
        return RunConfig(**check_fields(found[0], RunConfig, known))
    if not isinstance(values, dict) or not {"algo", "env_id"} <= values.keys():
        raise UserError(f"{found[0]} does not describe a run of rlzoo")
    return RunConfig(**check_fields(found[0], RunConfig, values))


def checkpoints(folder: Path, env_id: str) -> list[Path]:
    """Return the agents of a run that can be loaded: most steps first, the final one first among equals.

    A damaged file is passed over with a warning.
    """
    final = model_path(folder, env_id)
    found = []
    for path in [final, *sorted(folder.glob(f"{names.CHECKPOINT_PREFIX}_*_steps.zip"))]:
        if not path.is_file():
            continue
        try:
            found.append((read_checkpoint(path).steps(), path == final, path))
        except CheckpointError as error:
            print(f"rlzoo: passing over {path}: {error}", file=sys.stderr)
    return [path for _, _, path in sorted(found, reverse=True)]


def newest_checkpoint(folder: Path, env_id: str) -> Path:
    """Return the newest agent that can be loaded.

    :raises UserError: there is none
    """
    if found := checkpoints(folder, env_id):
        return found[0]
    best = folder / names.BEST_MODEL
    instead = f"-i {best} begins with the best one so far" if best.is_file() else "begin it again"
    raise UserError(f"{folder} holds no agent to continue from: {instead}")


def remove_unfinished_files(folder: Path) -> None:
    """Remove what a killed process was writing: temporary files that were never renamed."""
    for path in folder.rglob(".rlzoo-*.tmp"):
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Agent:
    """A saved agent and the hyperparameters of its run."""

    path: Path
    hyperparams: dict[str, object]


def find_agent(config: PlayConfig) -> Agent:
    """Find the agent for `rlzoo enjoy`: of the newest run in the folder, else a shipped one.

    :raises UserError: there is none; the message says where it was looked for and which there are
    """
    if config.trained_agent:
        path = find_checkpoint(config.trained_agent)
        known = str(arguments_beside(path).get("algo"))
        if catalog.is_name(known):
            algos = {catalog.canonical(known), catalog.canonical(config.algo)}
            if len(algos - {"her"}) > 1:  # hindsight has an algorithm within
                raise UserError(f"{path} is an agent of {known}, not of {config.algo}")
        return Agent(path, hyperparams_beside(path, config.algo, config.env_id))
    folder = find_folder(config)
    return Agent(_choose(folder, config), read_hyperparams(folder, config.algo, config.env_id))


def read_hyperparams(folder: Path, algo: str, env_id: str) -> dict[str, object]:
    """Read the hyperparameters of a run of rlzoo or RL Baselines3 Zoo.

    :raises UserError: they cannot be read
    """
    file = config_path(folder, env_id)
    return with_zoo_env_kwargs(lookup(algo, env_id, file).values, file.with_name("args.yml"))


def find_folder(config: PlayConfig) -> Path:
    """Return the folder that `find_agent` takes an agent from.

    :raises UserError: there is none; the message says where it was looked for and which there are
    """
    names.check_folder(config.folder)
    folder = _run_of(Path(config.folder), config)
    if folder is not None:
        refuse_links(folder)
    if (folder := folder or _shipped(config)) is not None:
        return folder
    where = f"{config.folder}/{config.algo}"
    if config.exp_id < 0:
        raise UserError(f"there is no {model_path(Path(where), config.env_id)}, which --exp-id -1 names")
    if config.exp_id > 0:
        runs = (
            ", ".join(str(n) for n, _ in names.find_runs(config.folder, config.algo, config.env_id)) or "none"
        )
        raise UserError(
            f"there is no run {config.exp_id} of {config.algo} on {config.env_id} in {where}; there: {runs}"
        )
    if (agent := model_path(Path(config.folder), config.env_id)).is_file():
        raise UserError(f"{config.folder} is the folder of one run: play its agent with -i {agent}")
    ensure_registered(config.env_id)  # a misspelt id is the likelier mistake
    near = pretrained_registry.nearest_shipped(config.algo, config.env_id)
    shipped = f" or among the shipped agents{f' ({near})' if near else ''}"
    if not config.or_shipped:
        found = pretrained_registry.find_shipped(config.algo, config.env_id)
        shipped = " (a shipped one is played without -f)" if found else ""
    raise UserError(
        f"no agent of {config.algo} for {config.env_id} in {where}{shipped}; "
        f"train one: rlzoo train --algo {config.algo} --env {config.env_id}"
    )


def system_info() -> dict[str, object]:
    """Return the machine, the versions and the commit that a run depends on."""
    return {
        "platform": platform.platform(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "versions": versions(),
        "git_commit": git_commit(),
    }


def _run_of(root: Path, config: PlayConfig) -> Path | None:
    """Return the folder of `--exp-id`; without a number the newest run that holds an agent."""
    if config.exp_id < 0:
        folder = root / config.algo
        return folder if model_path(folder, config.env_id).is_file() else None
    runs = names.find_runs(root, config.algo, config.env_id)
    # Of one number, RL Baselines3 Zoo makes the run without a random id last.
    runs.sort(key=lambda run: (run[0], run[1].name == names.run_name(config.env_id, run[0])))
    if config.exp_id > 0:
        return dict(runs).get(config.exp_id)
    return next((folder for _, folder in reversed(runs) if any(folder.glob("*.zip"))), None)


def _shipped(config: PlayConfig) -> Path | None:
    """Return the folder of the shipped agent; None without one, or where the user has named a folder."""
    if not config.or_shipped:
        return None
    found = pretrained_registry.find_shipped(config.algo, config.env_id, config.exp_id)
    return None if found is None else found[1]


def _choose(folder: Path, config: PlayConfig) -> Path:
    """Return the file that the `--load-...` flags choose."""
    saved = {
        steps: path
        for path in folder.glob("*.zip")
        if (steps := names.checkpoint_steps(path.name)) is not None
    }
    if config.load_best:
        path = folder / names.BEST_MODEL
        hint = "it is written by evaluations (--eval-freq)"
    elif config.load_checkpoint is not None:
        path = folder / names.checkpoint_name(config.load_checkpoint)
        hint = (
            f"checkpoints: {', '.join(map(str, sorted(saved)))}"
            if saved
            else "no checkpoint was saved (--save-freq)"
        )
    elif config.load_last_checkpoint:
        if not saved:
            raise UserError(f"there is no checkpoint in {folder}: none was saved (--save-freq)")
        return saved[max(saved)]
    else:
        path = model_path(folder, config.env_id)
        hint = "the run has not ended; try --load-last-checkpoint or --load-best"
    if not path.is_file():
        raise UserError(f"there is no {path}; {hint}")
    return path
