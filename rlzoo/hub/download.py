"""`rlzoo pull`: an agent of the hub, checked and put where runs are.

The maker of a repository is not trusted: a pulled run is one of somebody else, which may name only what any
file may (see `rlzoo.io.trust`). Nothing is in the log folder before all of it has been checked.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlzoo.benchmark.scores import digest
from rlzoo.config import catalog
from rlzoo.config.hub import PullConfig, agent_name
from rlzoo.config.run import RunConfig, run_name
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.core.runtime import utc_now
from rlzoo.hub.client import check_repo_id, connect, hub_errors, quiet
from rlzoo.hub.hub_files import (
    AGENT,
    Snapshot,
    check_file_name,
    download,
    snapshot,
)
from rlzoo.hub.unpack import unpack
from rlzoo.runs.run_folder import claim, locked, model_path

ORIGIN = "hub.json"
"""Where a pulled run comes from: repository, commit and file."""


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
        download(api, found, [agent], fetched)
        fresh = Path(place) / "run"
        run = unpack(api, found, agent, fetched, fresh, config)
        _write_origin(fresh, run, config, found, agent)
        folder = _put_in_place(fresh, config, run)
    if config.verbose > 0:
        print(f"{config.repo_id} at {found.commit[:12]} is in {folder}")
        print(f"play it: rlzoo enjoy --algo {run.algo} --env {run.env_id}{_folder_flag(config.folder)}")
    return Pulled(folder, run.algo, run.env_id, found.commit)


def _choose_agent(found: Snapshot, config: PullConfig) -> str:
    """Return the agent that is called as such repositories call it, else the only one.

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


def _folder_flag(folder: str) -> str:
    return "" if folder == PullConfig(repo_id="").folder else f" -f {folder}"


def download_from_hub(
    algo: str,
    env_name: str,
    exp_id: int,
    folder: str,
    organization: str,
    repo_name: str | None = None,
    force: bool = False,
) -> None:
    """Download an agent as `rlzoo pull` does: it becomes a run in a log folder.

    >>> download_from_hub("ppo", "CartPole-v1", 0, "logs", "sb3")  # doctest: +SKIP

    :param exp_id: number of the run that it becomes; 0: the next one
    :param folder: where runs are kept
    :param repo_name: name of the repository (default: ALGO-ENV)
    :param force: replace the run of this number
    :raises UserError: there is no such repository or agent, or it is refused
    :raises RunFailed: the hub cannot be reached, or sends something else than it has listed
    """
    repo_id = f"{organization}/{repo_name or agent_name(algo, str(env_name))}"
    pull(
        PullConfig(
            repo_id=repo_id, algo=algo, env_id=str(env_name), folder=str(folder), exp_id=exp_id, force=force
        )
    )


def get_hf_trained_models(
    organization: str = "sb3", check_filename: bool = False
) -> dict[str, tuple[str, str]]:
    """Return the agents of an organization on the hub as {"ppo-CartPole-v1": ("ppo", "CartPole-v1")}.

    :param check_filename: only repositories that hold a file called after the agent
    :raises RunFailed: the hub cannot be reached
    """
    api = connect()
    found = {}
    with quiet(), hub_errors(api, organization):
        for model in api.list_models(author=organization):
            name = model.id.partition("/")[2]
            algo = max((algo for algo in catalog.names() if name.startswith(f"{algo}-")), key=len, default="")
            if algo and (not check_filename or f"{name}.zip" in api.list_repo_files(model.id)):
                found[name] = (algo, name.removeprefix(f"{algo}-"))
    return found
