"""Files of a repository: which are known, how large they may be, and whether they arrived whole.

The names and sizes in a listing, and what is behind them, are by whoever made the repository. A file is asked
for only if its name is one of these, and is believed only if its size and its hash are those of the listing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, RepoFile, RepoFolder
from huggingface_hub.utils import tqdm

from rlzoo.core.errors import RunFailed, UserError, nearest
from rlzoo.hub.client import hub_errors

CONFIG, ARGS, COMMAND = "config.yml", "args.yml", "command.txt"
SCORE, CARD, VIDEO = "score.json", "README.md", "replay.mp4"
ENV_KWARGS, STATISTICS, RESULTS = "env_kwargs.yml", "vec_normalize.pkl", "results.json"

OF_RLZOO = (CONFIG, ARGS, COMMAND, SCORE, CARD, VIDEO)
"""Files of `rlzoo push` beside the agent."""
OF_STABLE_BASELINES3 = (CONFIG, ARGS, ENV_KWARGS, STATISTICS, RESULTS, CARD, VIDEO)
"""Files of RL Baselines3 Zoo's push_to_hub beside the agent. The pickle is read by `rlzoo.interop`, which
executes nothing."""

AGENT = ".zip"
MAX_BYTES = {AGENT: 2 * 2**30, ".mp4": 2**30, ".pkl": 256 * 2**20}
MAX_TEXT_BYTES = 2 * 2**20
MAX_FILES = 1000
"""Most entries of the top folder of a repository."""


@dataclass(frozen=True)
class RemoteFile:
    """A file in a repository, as a listing describes it."""

    name: str
    size: int  # bytes
    sha256: str | None  # of files in large-file storage
    blob_id: str  # git's SHA-1, of the others


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit."""

    repo_id: str
    commit: str
    files: dict[str, RemoteFile]

    def agents(self) -> list[str]:
        """Return the names that may be agents. Metrics of training are archives of NumPy arrays."""
        return sorted(
            name
            for name in self.files
            if name.endswith(AGENT) and name != "train_eval_metrics.zip" and name.isprintable()
        )


def snapshot(api: HfApi, repo_id: str, revision: str, folder: str = "") -> Snapshot:
    """Return the commit that a revision means, and the files of its top folder or of another one.

    :raises UserError: there is no such repository, revision or folder, or too many files
    :raises RunFailed: the hub cannot be reached
    """
    with hub_errors(api, repo_id, revision):
        commit = api.repo_info(repo_id, revision=revision, timeout=30).sha
        if not commit or not _is_hex(commit, 40):
            raise ValueError("it names no commit")
        tree = api.list_repo_tree(repo_id, folder or None, revision=commit)
        entries = list(itertools.islice(tree, MAX_FILES + 1))
    if len(entries) > MAX_FILES:
        raise UserError(f"{repo_id} has more than {MAX_FILES} files, so it is none of agents")
    files = [described(entry) for entry in entries if isinstance(entry, RepoFile)]
    return Snapshot(repo_id, commit, {file.name: file for file in files})


def check_file_name(name: str) -> str:
    """Return the path of a file in a repository that a person named.

    :raises UserError: it leads out of the repository, is hidden or no name
    """
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(not part or part.startswith(".") for part in parts):
        raise UserError(f"{name!r} is no name of a file in a repository")
    return name


def require_file(found: Snapshot, name: str) -> RemoteFile:
    """Return a file of a snapshot.

    :raises UserError: it is not there; names the nearest, or which agents there are; or it is too large
    """
    file = found.files.get(name)
    if file is None:
        agents = ", ".join(map(repr, found.agents()[:12])) or "none"
        match = nearest(name, found.files)
        hint = f"did you mean {match!r}?" if match else f"agents in it: {agents}"
        raise UserError(f"{found.repo_id} has no {name!r}; {hint}")
    limit = most_bytes(name)
    if file.size > limit:
        raise UserError(
            f"{found.repo_id}: {name} has {file.size:,} bytes; at most {limit:,} are taken of such a file"
        )
    return file


def most_bytes(name: str) -> int:
    """Return the largest size that is taken of a file of this name."""
    return MAX_BYTES.get(Path(name).suffix, MAX_TEXT_BYTES)


def download(api: HfApi, found: Snapshot, names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Fetch files of a snapshot, each with the size and the hash that the listing says.

    :param folder: a temporary one, in which huggingface_hub also leaves its cache files
    :return: name -> where it is
    :raises UserError: one is not there or too large
    :raises RunFailed: the hub cannot be reached, or sends something else than it has listed
    """
    wanted = [require_file(found, name) for name in names]  # all of them before the first is fetched
    paths = {}
    for file in wanted:
        with hub_errors(api, found.repo_id, found.commit):
            path = Path(
                api.hf_hub_download(
                    found.repo_id,
                    file.name,
                    revision=found.commit,
                    local_dir=folder,
                    tqdm_class=bar_up_to(file.size),
                )
            )
        verify(path, file, found.repo_id)
        paths[file.name] = path
    return paths


def verify(path: Path, file: RemoteFile, repo_id: str) -> None:
    """Check that a file that arrived is the one that was listed; another one is removed.

    :raises RunFailed: its size or its hash is another
    """
    size = path.lstat().st_size
    if size == file.size and not path.is_symlink() and has_hash(path, file.sha256 or file.blob_id):
        return
    path.unlink()
    what = f"{size:,} bytes instead of {file.size:,}" if size != file.size else "another hash than is listed"
    raise RunFailed(f"{repo_id}: {file.name} arrived with {what}; nothing of it is kept")


def has_hash(path: Path, listed: str) -> bool:
    """Return whether a file has a hash that the hub lists.

    :param listed: SHA-256 (64 digits) of files in large-file storage; of others the id that git gives to the
        content (40 digits)
    """
    digest: Any = hashlib.sha256()
    if len(listed) == 40:
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as opened:
        while chunk := opened.read(2**20):
            digest.update(chunk)
    return bool(digest.hexdigest() == listed)


def described(entry: RepoFile | RepoFolder) -> RemoteFile:
    """Return an entry of a listing, checked.

    :raises RunFailed: it has no size or hash that can be compared
    """
    if isinstance(entry, RepoFolder):
        raise RunFailed(f"the hub lists {entry.path[:80]!r} as a folder")
    sha256 = None if entry.lfs is None else entry.lfs.sha256
    size = entry.size if entry.lfs is None else entry.lfs.size
    well_formed = type(size) is int and size >= 0 and isinstance(entry.path, str)
    if not well_formed or not (_is_hex(entry.blob_id, 40) if sha256 is None else _is_hex(sha256, 64)):
        raise RunFailed(f"the hub lists {str(entry.path)[:80]!r} without a size and a hash")
    return RemoteFile(entry.path, size, sha256, entry.blob_id)


def _is_hex(text: object, length: int) -> bool:
    return isinstance(text, str) and len(text) == length and set(text) <= set("0123456789abcdef")


def bar_up_to(size: int) -> type[Any]:
    """Return the progress bar of a download, which ends it where more arrives than was listed.

    Downloads from Xet storage are bounded by huggingface_hub, and have other bars.
    """

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.left = size if "http_get" in str(kwargs.get("name")) else None
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            if self.left is not None:
                self.left -= int(n or 0)
                if self.left < 0:
                    raise RunFailed(f"more arrives than the {size:,} bytes that were to come")
            return super().update(n)

    return Bar
