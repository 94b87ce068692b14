"""`rlzoo pull` and `rlzoo.load_from_hub`: agents of the hub, checked and put where runs are.

The maker of a repository is not trusted: a pulled run is one of somebody else, which may name only what any
file may (see `rlzoo.core.trust`). Nothing is in the log folder before all of it has been checked.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi

from rlzoo.config import catalog
from rlzoo.config.hub import PullConfig, agent_name
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig, run_name, safe_name
from rlzoo.core.errors import CheckpointError, RunFailed, UserError, printable
from rlzoo.core.system_info import utc_now
from rlzoo.envs.registration import require_packages
from rlzoo.experiment.blueprint import check_hyperparams
from rlzoo.experiment.run_folder import claim, config_path, locked, model_path, read_run
from rlzoo.hub.client import check_repo_id, connect, hub_errors, quiet
from rlzoo.hub.files import (
    AGENT,
    ARGS,
    CARD,
    COMMAND,
    CONFIG,
    OF_RLZOO,
    OF_STABLE_BASELINES3,
    SCORE,
    VIDEO,
    Snapshot,
    bar_up_to,
    check_file_name,
    described,
    download,
    has_hash,
    most_bytes,
    snapshot,
)
from rlzoo.report.scores import digest
from rlzoo.report.scoring import score_of
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint

ORIGIN = "hub.json"
"""Where a pulled run comes from: repository, commit and file."""
HIDDEN_BY_HUB = (".gitattributes", ".gitignore")
"""Files that the hub makes itself; that they are left out is not said."""


@dataclass(frozen=True)
class Pulled:
    """A run that came from the hub."""

    folder: Path
    algo: str
    env_id: str
    commit: str


def pull(config: PullConfig) -> Pulled:
    """Download an agent as `rlzoo pull` does, and print where it is.

    :raises UserError: there is no such repository, revision or agent, or it is refused
    :raises RunFailed: the hub cannot be reached, or sends something else than it has listed
    """
    api = connect()
    check_repo_id(config.repo_id)
    file = check_file_name(config.file) if config.file else ""
    _check_target(config)
    with quiet(config.verbose), tempfile.TemporaryDirectory(prefix="rlzoo-pull-") as place:
        found = snapshot(api, config.repo_id, config.revision, str(Path(file).parent) if "/" in file else "")
        agent = file or _choose_agent(found, config)
        fetched = Path(place) / "fetched"
        paths = download(api, found, [agent], fetched)
        fresh = Path(place) / "run"
        if _is_of_stable_baselines3(paths[agent], f"{config.repo_id}: {agent}"):
            run = _import_stable_baselines3(api, found, agent, fetched, fresh, config)
        else:
            run = _build_run(api, found, agent, fetched, fresh, config)
        _write_origin(fresh, run, config, found, agent)
        folder = _put_in_place(fresh, config, run)
    if config.verbose > 0:
        print(f"{config.repo_id} at {found.commit[:12]} is in {folder}")
        print(f"play it: rlzoo enjoy --algo {run.algo} --env {run.env_id}{_folder_flag(config.folder)}")
    return Pulled(folder, run.algo, run.env_id, found.commit)


def load_from_hub(
    repo_id: str,
    filename: str,
    revision: str = "main",
    *,
    token: str | None = None,
    verbose: int = 0,
) -> str:
    """Download one file of a repository on the Hugging Face Hub into the cache of huggingface_hub.

    Its size and its hash are compared with those that the hub lists. The file is not opened.

    >>> model = PPO.load(load_from_hub("me/ppo-CartPole-v1", "ppo-CartPole-v1.zip"))  # doctest: +SKIP

    :param repo_id: "organization/name"
    :param filename: such as "ppo-CartPole-v1.zip"
    :param revision: a branch, a tag or a commit
    :param token: for private repositories (default: the one of huggingface_hub)
    :param verbose: 2: show what huggingface_hub says
    :return: the path of the file
    :raises UserError: there is no such repository, revision or file, or it is none that rlzoo reads
    :raises RunFailed: the hub cannot be reached, or sends something else than it has listed
    """
    api = connect()
    check_repo_id(repo_id)
    name = Path(check_file_name(filename)).name
    if not name.endswith(AGENT) and name not in (*OF_RLZOO, *OF_STABLE_BASELINES3):
        raise UserError(f"{filename} is no file that rlzoo reads: agents (.zip), {', '.join(OF_RLZOO)}")
    with quiet(verbose), hub_errors(api, repo_id, revision):
        path = Path(
            api.hf_hub_download(
                repo_id, filename, revision=revision, token=token, tqdm_class=bar_up_to(most_bytes(name))
            )
        )
        _verify_cached(api, path, filename, repo_id, token)
    return str(path)


def _verify_cached(api: HfApi, path: Path, name: str, repo_id: str, token: str | None) -> None:
    """Compare a file in the cache of huggingface_hub with the hash that the hub lists, which is what it is
    called there: `snapshots/<commit>/<name>` is a link to `blobs/<hash>`. A file that differs is removed.

    :raises RunFailed: it differs
    """
    if path.is_symlink():
        blob = path.parent / path.readlink()
        listed = blob.name
    else:  # where there are no links
        blob = path
        commit = path.parents[name.count("/")].name
        (info,) = api.get_paths_info(repo_id, name, revision=commit, token=token)
        file = described(info)
        listed = file.sha256 or file.blob_id
    if not has_hash(path, listed):
        path.unlink()
        blob.unlink(missing_ok=True)
        raise RunFailed(f"{repo_id}: {name} arrived with another hash than is listed; nothing of it is kept")


def _choose_agent(found: Snapshot, config: PullConfig) -> str:
    """The agent that is called as such repositories call it, else the only one.

    :raises UserError: there is none, or several
    """
    _, _, repo_name = config.repo_id.partition("/")
    names = [f"{repo_name}{AGENT}"]
    if config.algo and config.env_id:
        names.insert(0, f"{agent_name(config.algo, config.env_id)}{AGENT}")
    for name in names:
        if name in found.files:
            return name
    agents = found.agents()
    if len(agents) != 1:
        there = f"several agents ({', '.join(agents[:12])})" if agents else "no agent (.zip)"
        raise UserError(f"{config.repo_id} has {there}; name one with -i {config.repo_id}/FILE")
    return agents[0]


def _is_of_stable_baselines3(path: Path, name: str) -> bool:
    """Whether a model file is one of stable-baselines3, and none of rlzoo.

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


def _copy_shown(by_name: dict[str, Path], fresh: Path) -> None:
    """The card and the video, which no command reads."""
    if CARD in by_name:
        shutil.copyfile(by_name[CARD], fresh / CARD)
    if VIDEO in by_name:
        (fresh / "videos").mkdir()
        shutil.copyfile(by_name[VIDEO], fresh / "videos" / VIDEO)


def import_run(agent: Path, target: Path, algo: str, env_id: str) -> None:
    """Write the folder of a run out of a model file of stable-baselines3 and the files beside it.

    The seam to `rlzoo.interop`: whatever reads such files is called here, and nowhere else in this package.

    :param agent: the model file; beside it config.yml, args.yml, env_kwargs.yml and vec_normalize.pkl, where
        the repository has them
    :param target: the folder, which is not there yet: <env>.zip, <env>/config.yml and <env>/args.yml
    :param algo: as far as it is known from flags and names; else empty
    :param env_id: likewise
    :raises UserError: the files cannot be read
    """
    raise UserError("it is a file of stable-baselines3, which is not read yet")


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
    if algo not in catalog.names():
        algo = env_id = ""
    try:
        import_run(fetched / agent, fresh, config.algo or algo, config.env_id or env_id)
    except UserError as error:
        raise UserError(f"{found.repo_id}: {agent}: {str(error).replace(f'{fetched}/', '')}") from None
    run = _checked_run(fresh, found.repo_id, config)
    _copy_shown({name: paths[_beside(agent, name)] for name in names}, fresh)
    _check_contents(fresh, run, found.repo_id)
    return run


def _checked_run(folder: Path, repo_id: str, config: PullConfig) -> RunConfig:
    """The arguments of the training, as far as they concern where the run belongs.

    :raises UserError: they are damaged, or of another algorithm or environment than was asked for
    """
    try:
        run = read_run(folder)
        algo = catalog.canonical(run.algo)
    except UserError as error:
        raise UserError(f"{repo_id}: {str(error).replace(f'{folder}/env/', '')}") from None
    if algo != run.algo:  # it becomes the name of a folder
        raise UserError(f"{repo_id}: {ARGS} names the algorithm {run.algo!r}; it is called {algo!r}")
    env_id = run.env_id  # so does this
    if not env_id.isprintable() or not 0 < len(env_id) <= 120 or safe_name(env_id).startswith("."):
        raise UserError(f"{repo_id}: {ARGS} names the environment {run.env_id[:80]!r}")
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
        check_hyperparams(run.algo, values, own=False)
        require_packages(ARGS, run.gym_packages)
        sha256 = digest(model_path(fresh, run.env_id))
        _check_formats(fresh)
        if (fresh / SCORE).is_file() and score_of(fresh, run, sha256) is None:
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


def _write_origin(fresh: Path, run: RunConfig, config: PullConfig, found: Snapshot, agent: str) -> None:
    content = {
        "repo_id": config.repo_id,
        "commit": found.commit,
        "revision": config.revision,
        "file": agent,
        "sha256": digest(model_path(fresh, run.env_id)),
        "date": utc_now(),
    }
    (fresh / ORIGIN).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _check_target(config: PullConfig) -> None:
    """Ask for the place before anything is downloaded, where it is known already."""
    if Path(config.folder).exists() and not Path(config.folder).is_dir():
        raise UserError(f"-f wants a folder, and {config.folder} is a file")
    if config.exp_id > 0 and config.algo and config.env_id and not config.force:
        _refuse_existing(Path(config.folder) / config.algo / run_name(config.env_id, config.exp_id))


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise UserError(f"{target} is there already; --force replaces it")


def _put_in_place(fresh: Path, config: PullConfig, run: RunConfig) -> Path:
    """Move a checked run into the log folder, whole or not at all.

    :raises UserError: the run of this number is there, or is being trained
    :raises RunFailed: the log folder cannot be written
    """
    target = Path(config.folder) / run.algo / run_name(run.env_id, config.exp_id)
    if config.exp_id > 0 and not config.force:
        _refuse_existing(target)
    claimed = config.exp_id == 0
    if claimed:
        target = claim(config.folder, run.algo, run.env_id)
    beside = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    old = beside.with_name(f"{beside.name}-old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, beside)
        if target.is_dir() and not claimed:
            with locked(target):
                target.rename(old)
        beside.rename(target)  # an empty folder, which `claim` has made, is replaced
    except OSError as error:
        raise RunFailed(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if old.is_dir() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        for folder in (target, *target.parents[:2]):  # where nothing came into them
            with suppress(OSError):
                folder.rmdir()
    return target


def _say_left_out(found: Snapshot, taken: set[str], config: PullConfig) -> None:
    """Name the files of a repository that are not taken: they are in no known format."""
    names = [name for name in found.files if name not in taken and Path(name).name not in HIDDEN_BY_HUB]
    if names and config.verbose > 0:
        listed = ", ".join(printable(name)[:80] for name in sorted(names)[:12])
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        print(f"rlzoo: not taken from {found.repo_id}: {listed}{more}", file=sys.stderr)


def _beside(agent: str, name: str) -> str:
    """A file in the folder of an agent."""
    return str(Path(agent).with_name(name))


def _folder_flag(folder: str) -> str:
    return "" if folder == PullConfig(repo_id="").folder else f" -f {folder}"
