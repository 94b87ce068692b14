"""The connection to the hub: huggingface_hub, kept quiet, and its errors in one line.

The address of the hub (HF_ENDPOINT), the token (HF_TOKEN, or what `hf auth login` has kept) and the switch to
stay offline (HF_HUB_OFFLINE) are those of huggingface_hub.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import HfApi, errors, get_token
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
    logging,
    validate_repo_id,
)

import rlzoo
from rlzoo.core.errors import RunFailed, UserError

NO_TOKEN = (
    "the hub wants a token that may write: make one at {hub}/settings/tokens, then run"
    " `hf auth login` or set HF_TOKEN"
)


def connect() -> HfApi:
    """Return the hub that HF_ENDPOINT names, huggingface.co by default."""
    return HfApi(library_name="rlzoo", library_version=rlzoo.__version__)


def require_token(api: HfApi, token: str | None = None) -> str:
    """Return the token that was given, else that of the usual places of huggingface_hub.

    :raises UserError: there is none
    """
    token = token or get_token()
    if not token:
        raise UserError(NO_TOKEN.format(hub=api.endpoint))
    return token


def check_repo_id(repo_id: str) -> str:
    """Return the id of a repository, `organization/name`.

    :raises UserError: it is written otherwise
    """
    try:
        validate_repo_id(repo_id)
    except errors.HFValidationError:
        pass
    else:
        if repo_id.count("/") == 1:
            return repo_id
    raise UserError(
        f"{repo_id!r} is no id of a repository: ORGANIZATION/NAME, of letters, digits, '-', '_' and '.'"
    )


@contextmanager
def quiet(verbose: int = 1) -> Iterator[None]:
    """Keep huggingface_hub from showing progress bars, warnings and advice, unless `verbose` is 2 or more."""
    if verbose > 1:
        yield
        return
    level, showed_bars = logging.get_verbosity(), not are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="huggingface_hub")
        logging.set_verbosity(logging.CRITICAL)
        disable_progress_bars()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if showed_bars:
                enable_progress_bars()


@contextmanager
def hub_errors(api: HfApi, repo_id: str, revision: str = "main") -> Iterator[None]:
    """Turn what huggingface_hub raises into one line.

    :raises UserError: there is no such repository, revision or file, or the token may not do this
    :raises RunFailed: the hub cannot be reached, or does not answer as a hub does
    """
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        translated = _translated(error, api, repo_id, revision)
        if translated is None:
            raise
        raise translated from error


def _translated(error: BaseException, api: HfApi, repo_id: str, revision: str) -> Exception | None:
    """Return the error for a person; None: this one is no error of the hub or of the connection to it."""
    hub = api.endpoint
    if isinstance(error, errors.GatedRepoError):
        return UserError(
            f"{repo_id} is gated: accept its conditions at {hub}/{repo_id}, and use a token of that account"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"{repo_id} has no revision {revision!r}: a branch, a tag or a whole commit hash")
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return UserError(f"{repo_id} has no such file at revision {revision!r}")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UserError("HF_HUB_OFFLINE is set, so nothing is asked of the hub; unset it")
    if isinstance(error, errors.HfHubHTTPError):
        return _of_status(error, hub, repo_id)
    if isinstance(error, errors.HTTPError):  # of the connection
        return RunFailed(f"the connection to {hub} failed: {str(error) or type(error).__name__}")
    if isinstance(error, UnicodeEncodeError):
        return UserError("the token holds characters that no token has; look at HF_TOKEN")
    if error.__cause__ is not None:  # huggingface_hub wraps some
        return _translated(error.__cause__, api, repo_id, revision)
    if isinstance(error, errors.LocalEntryNotFoundError):
        return UserError(f"{repo_id} is not on this machine, and HF_HUB_OFFLINE is set; unset it")
    if isinstance(error, OSError) and error.errno is None:  # fewer or more bytes than announced
        return RunFailed(f"the transfer from {hub} failed: {str(error).partition(chr(10))[0]}")
    if isinstance(error, KeyError | TypeError | ValueError):
        return RunFailed(f"{hub} does not answer as a hub does: {type(error).__name__}: {error}")
    return None


def _of_status(error: errors.HfHubHTTPError, hub: str, repo_id: str) -> Exception:
    """Return what an answer of the hub with an HTTP status of 400 or more means."""
    status = error.response.status_code
    said = error.server_message or ""
    if status == 401 and "invalid" in f"{said} {error}".casefold():
        return UserError(f"{hub} does not know this token (401); make one at {hub}/settings/tokens")
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 404):
        return UserError(
            f"{hub} has no repository {repo_id} ({status}), or it is private and the token has no access"
        )
    if status == 403:
        return UserError(f"the token may not do this with {repo_id} (403): it needs the right to write there")
    if status == 429:
        return RunFailed(f"{hub} wants fewer requests (429); try again later")
    if status >= 500:
        return RunFailed(f"{hub} has failed ({status}); try again later")
    return UserError(f"{hub} refuses this ({status}): {said or error}")
