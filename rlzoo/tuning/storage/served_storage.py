"""A storage that one machine serves to others through gRPC, as `rlzoo optimize --serve` does.

Whoever may call the port can read and write the studies. So a server that other machines can reach asks for a
token, which every client sends with every call. The token comes from an environment variable or a file, never
from a command line, which other users can read. The connection is not encrypted.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import stat
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from types import FrameType

import optuna
from optuna.storages import BaseStorage

from rlzoo.core.errors import UserError

CONNECT = 10.0  # seconds until a server counts as unreachable
TOKEN = "RLZOO_STORAGE_TOKEN"
TOKEN_FILE = "RLZOO_STORAGE_TOKEN_FILE"
SHORTEST = 16  # characters of a token; `secrets.token_urlsafe()` makes 43
HOW_TO = f"""put a secret into {TOKEN}, or into a file named by {TOKEN_FILE}, \
such as: python -c "import secrets; print(secrets.token_urlsafe())" """.strip()
TOO_OLD = "needs Optuna 4.2 or newer and gRPC: pip install -U optuna grpcio"


def open_served(address: str) -> BaseStorage:
    """Return the storage that another machine serves.

    :param address: HOST:PORT
    :raises UserError: it cannot be reached, or refuses the token of this machine
    """
    host, port = split_address(address)
    token = read_token()
    try:
        from rlzoo.tuning.storage.grpc_token import open_proxy
    except (AttributeError, ImportError):
        raise UserError(f"storage grpc:// {TOO_OLD}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return open_proxy(host, port, token, CONNECT)
    except ConnectionError:
        raise UserError(f"nobody serves a storage at grpc://{address}") from None
    except PermissionError:
        if token:
            raise UserError(f"the storage at grpc://{address} has another token than {TOKEN}") from None
        raise UserError(
            f"the storage at grpc://{address} needs its token: set {TOKEN} or {TOKEN_FILE}"
        ) from None


def serve(storage: BaseStorage, address: str) -> None:
    """Let other machines open this storage as grpc://HOST:PORT, until Ctrl-C or SIGTERM.

    Clients must send the token of `read_token`. Without one only this machine may connect.

    :param address: HOST:PORT to listen on
    :raises UserError: the address cannot be used or has no token, or gRPC is not installed
    """
    check_address(address)
    host, port = split_address(address)
    try:
        from rlzoo.tuning.storage.grpc_token import make_server
    except (AttributeError, ImportError):
        raise UserError(f"serving a storage {TOO_OLD}") from None
    in_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGTERM, _interrupt) if in_main else None
    try:
        with suppress(KeyboardInterrupt):
            server = make_server(optuna.storages.get_storage(storage), host, port, read_token())
            server.start()
            server.wait_for_termination()
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, previous)


def check_address(address: str) -> None:
    """Check that an address can be bound; gRPC itself would share the port of another server.

    :raises UserError: it is not HOST:PORT, the port is in use, or other machines could connect and it has no
        token
    """
    host, port = split_address(address)
    if not read_token() and not is_loopback(host):
        raise UserError(f"anyone who reaches {address} could change the studies: {HOW_TO}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}") from None


def read_token() -> str:
    """Return the token of this machine; empty if it has none.

    :raises UserError: its file cannot be read, or others may read it; or the token is short or no text
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token and (place := os.environ.get(TOKEN_FILE)):
        token = _token_in(Path(place))
    elif not token:
        return ""
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()):
        raise UserError(f"a token is at least {SHORTEST} printable ASCII characters: {HOW_TO}")
    return token


def _token_in(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UserError(f"other users may read the token in {path}: chmod 600 it")
            return file.read(4096).strip()
    except OSError as error:
        raise UserError(f"cannot read the token in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} holds no token: {HOW_TO}") from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("0.0.0.0"), is_loopback("node7")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_address(address: str) -> tuple[str, int]:
    """Return host and port.

    :raises UserError: the address is not HOST:PORT
    """
    host, _, port = address.rstrip("/").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"{address!r} is not an address; give HOST:PORT, such as 0.0.0.0:13000")
    return host, int(port)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
