"""Repositories of the hub that become runs: what is fetched of them, and how it is checked.

The maker of a repository is not trusted: its run is one of somebody else, which may name only what any file
may (see `rlzoo.io.trust`).
"""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from huggingface_hub import HfApi

from rlzoo.benchmark.scores import digest
from rlzoo.benchmark.scoring import score_of
from rlzoo.config import catalog
from rlzoo.config.hub import PullConfig
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig, check_env_id
from rlzoo.config.values_as_text import dump_yaml, read_yaml
from rlzoo.core.errors import CheckpointError, UserError, printable
from rlzoo.envs.single_env.registration import require_packages
from rlzoo.experiment.import_run import ImportConfig, import_runs
from rlzoo.experiment.resolve import resolve_config
from rlzoo.hub.hub_files import (
    ARGS,
    CARD,
    COMMAND,
    CONFIG,
    OF_RLZOO,
    OF_STABLE_BASELINES3,
    SCORE,
    VIDEO,
    Snapshot,
    download,
)
from rlzoo.runs.run_folder import config_path, model_path, read_run
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint

HIDDEN_BY_HUB = (".gitattributes", ".gitignore")
"""Files that the hub makes itself; that they are left out is not said."""


def unpack(
    api: HfApi, found: Snapshot, agent: str, fetched: Path, fresh: Path, config: PullConfig
) -> RunConfig:
    """Make the folder of a run out of a repository, of which the agent has been fetched.

    :param agent: its name there
    :param fetched: where downloads go
    :param fresh: the folder, which is not there yet
    :raises UserError: a file is missing, damaged, too large or of another kind, or names code that is not
        trusted
    :raises RunFailed: the hub cannot be reached, or sends something else than it has listed
    """
    if _is_of_stable_baselines3(fetched / agent, f"{found.repo_id}: {agent}"):
        return _import_stable_baselines3(api, found, agent, fetched, fresh, config)
    return _build_run(api, found, agent, fetched, fresh, config)


def _is_of_stable_baselines3(path: Path, name: str) -> bool:
    """Return whether a model file is one of stable-baselines3, and none of rlzoo.

    :raises CheckpointError: it is neither, or damaged
    """
    try:
        read_checkpoint(path)
    except CheckpointError as error:
        if isinstance(error, ForeignCheckpoint) and error.kind == "stable-baselines3":
            return True
        raise CheckpointError(str(error).replace(str(path), name)) from None
    return False


def _build_run(
    api: HfApi, found: Snapshot, agent: str, fetched: Path, fresh: Path, config: PullConfig
) -> RunConfig:
    """Make the folder of a run out of a repository of `rlzoo push`.

    :raises UserError: a file is missing, damaged or too large, or names code that is not trusted
    """
    names = [name for name in OF_RLZOO if _beside(agent, name) in found.files]
    if missing := {CONFIG, ARGS} - {*names}:
        raise UserError(
            f"{found.repo_id} has no {min(missing)} beside {agent}, so it is no run; in Python:"
            f" load_from_hub({found.repo_id!r}, {agent!r})"
        )
    _say_left_out(found, {agent, *(_beside(agent, name) for name in names)}, config)
    paths = download(api, found, [_beside(agent, name) for name in names], fetched)
    by_name = {name: paths[_beside(agent, name)] for name in names}
    arguments = fresh.with_name("arguments")
    (arguments / "env").mkdir(parents=True)
    shutil.copyfile(by_name[ARGS], arguments / "env" / "args.yml")
    run = _checked_run(arguments, found.repo_id, config)
    described = config_path(fresh, run.env_id)
    described.parent.mkdir(parents=True)
    shutil.copyfile(fetched / agent, model_path(fresh, run.env_id))
    shutil.copyfile(by_name[CONFIG], described)
    shutil.copyfile(by_name[ARGS], described.with_name("args.yml"))
    for name in {COMMAND, SCORE} & by_name.keys():
        shutil.copyfile(by_name[name], fresh / name)
    _copy_shown(by_name, fresh)
    _check_contents(fresh, run, found.repo_id)
    return run


def _import_stable_baselines3(
    api: HfApi, found: Snapshot, agent: str, fetched: Path, fresh: Path, config: PullConfig
) -> RunConfig:
    """Make the folder of a run out of a repository of RL Baselines3 Zoo's push_to_hub.

    The files are fetched and checked; reading them is up to `rlzoo.interop`, which unpickles nothing.
    """
    names = [name for name in OF_STABLE_BASELINES3 if _beside(agent, name) in found.files]
    _say_left_out(found, {agent, *(_beside(agent, name) for name in names)}, config)
    paths = download(api, found, [_beside(agent, name) for name in names], fetched)
    algo, _, env_id = Path(agent).stem.partition("-")
    if ":" in env_id:  # "package:Name-v0" says what to import, which its author may not
        env_id = ""
    algo, env_id = config.algo or algo, config.env_id or env_id
    if algo not in catalog.names() or not env_id:
        raise UserError(
            f"{found.repo_id}: {agent} does not tell algorithm and environment: give --algo and --env"
        )
    try:
        import_run(fetched / agent, fresh, algo, env_id)
    except UserError as error:
        raise UserError(f"{found.repo_id}: {agent}: {str(error).replace(f'{fetched}/', '')}") from None
    run = _checked_run(fresh, found.repo_id, config)
    arguments = config_path(fresh, run.env_id).with_name("args.yml")
    arguments.write_text(dump_yaml({**read_yaml(arguments), "log_folder": config.folder}), encoding="utf-8")
    command = ["rlzoo", "pull", "-i", f"{found.repo_id}/{agent}", "--revision", found.commit]
    (fresh / COMMAND).write_text(f"{shlex.join(command)}\n", encoding="utf-8")
    _copy_shown({name: paths[_beside(agent, name)] for name in names}, fresh)
    _check_contents(fresh, run, found.repo_id)
    return run


def import_run(agent: Path, target: Path, algo: str, env_id: str) -> None:
    """Write the folder of a run out of a model file of stable-baselines3 and the files beside it.

    :param agent: the model file; beside it config.yml, args.yml, env_kwargs.yml and vec_normalize.pkl, where
        the repository has them
    :param target: the folder, which is not there yet: <env>.zip, <env>/config.yml and <env>/args.yml
    :param algo: from the flags, else from the name of the file
    :param env_id: likewise; it names no package unless the user gave it
    :raises UserError: the files cannot be read
    """
    output = target.with_name("imported")
    with redirect_stdout(StringIO()):  # it names temporary folders
        (made,) = import_runs(ImportConfig(source=str(agent), output=str(output), algo=algo, env_id=env_id))
    made.rename(target)


def _copy_shown(by_name: dict[str, Path], fresh: Path) -> None:
    """Return the card and the video, which no command reads."""
    if CARD in by_name:
        shutil.copyfile(by_name[CARD], fresh / CARD)
    if VIDEO in by_name:
        (fresh / "videos").mkdir()
        shutil.copyfile(by_name[VIDEO], fresh / "videos" / VIDEO)


def _checked_run(folder: Path, repo_id: str, config: PullConfig) -> RunConfig:
    """Return the arguments of the training, as far as they concern where the run belongs.

    :raises UserError: they are damaged, or of another algorithm or environment than was asked for
    """
    try:
        run = read_run(folder)
        algo = catalog.canonical(run.algo)
    except UserError as error:
        raise UserError(f"{repo_id}: {str(error).replace(f'{folder}/env/', '')}") from None
    if algo != run.algo:  # it becomes the name of a folder
        raise UserError(f"{repo_id}: {ARGS} names the algorithm {run.algo!r}; it is called {algo!r}")
    check_env_id(f"{repo_id}: {ARGS}", run.env_id)  # so does this
    if not config.env_id:
        require_packages(f"{repo_id}: {ARGS}", [run.env_id.rpartition(":")[0]])
    for kind, wanted, there in (("--algo", config.algo, run.algo), ("--env", config.env_id, run.env_id)):
        if wanted and wanted != there:
            raise UserError(f"{repo_id} is an agent of {run.algo} for {run.env_id}, not of {kind} {wanted}")
    return run


def _check_contents(fresh: Path, run: RunConfig, repo_id: str) -> None:
    """Check that the hyperparameters can be used without trusting their author, and whose score it is.

    :raises UserError: they cannot
    """
    try:
        values = lookup(run.algo, run.env_id, str(config_path(fresh, run.env_id))).values
        resolve_config(run.algo, values, trusted=False)
        require_packages(ARGS, run.gym_packages)
        sha256 = digest(model_path(fresh, run.env_id))
        _check_formats(fresh)
        if (fresh / SCORE).is_file() and score_of(fresh / SCORE, run, sha256) is None:
            raise UserError(f"{SCORE} is of another agent")
    except UserError as error:
        raise UserError(f"{repo_id}: {str(error).replace(f'{fresh}/', '')}") from None


def _check_formats(fresh: Path) -> None:
    """Check that the files that nothing of rlzoo reads are what their names say.

    :raises UserError: one is not
    """
    command, card, video = fresh / COMMAND, fresh / CARD, fresh / "videos" / VIDEO
    try:
        if command.is_file() and not command.read_text(encoding="utf-8").removesuffix("\n").isprintable():
            raise UserError(f"{COMMAND} is not one line of text")
        if card.is_file():
            card.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{COMMAND} or {CARD} is no text in UTF-8") from None
    if video.is_file():
        with video.open("rb") as opened:
            if opened.read(12)[4:8] != b"ftyp":
                raise UserError(f"{VIDEO} is no mp4 file")


def _say_left_out(found: Snapshot, taken: set[str], config: PullConfig) -> None:
    """Name the files of a repository that are not taken: they are in no known format."""
    names = [name for name in found.files if name not in taken and Path(name).name not in HIDDEN_BY_HUB]
    if names and config.verbose > 0:
        listed = ", ".join(printable(name)[:80] for name in sorted(names)[:12])
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        print(f"rlzoo: not taken from {found.repo_id}: {listed}{more}", file=sys.stderr)


def _beside(agent: str, name: str) -> str:
    """Return a file in the folder of an agent."""
    return str(Path(agent).with_name(name))
