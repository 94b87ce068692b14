"""`rlzoo.load_from_hub`: one file of a repository, in the cache of huggingface_hub."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi

from rlzoo.core.errors import RunFailed, UserError
from rlzoo.hub.client import check_repo_id, connect, hub_errors, quiet
from rlzoo.hub.hub_files import (
    AGENT,
    OF_RLZOO,
    OF_STABLE_BASELINES3,
    bar_up_to,
    check_file_name,
    described,
    has_hash,
    most_bytes,
)


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
