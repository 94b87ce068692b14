"""Ray clusters: start a local one or connect to one, and check that it can run the tasks."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rlzoo import __version__
from rlzoo.config.tune import RayConfig
from rlzoo.core.errors import NotInstalled, RunFailed, UserError, install_command, one_line

CONNECT = 10.0  # seconds until an address counts as unreachable
PROBE = 60.0  # seconds that a node has to say which versions it has
OBJECT_STORE = 200_000_000  # bytes of a local Ray: agents are small
SETTINGS = {
    "RAY_worker_niceness": "0",  # Ray's own is 15: any other process on the machine would come first
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Variables for Ray, unless the user has set them: no reports over the network, no environments of uv."""
RAY_MESSAGES = "ray_listen_error_messages"
"""The thread of Ray that prints its messages."""
ADVICE = "start one with `ray start --head`, or leave out --ray-address for a Ray on this machine"


@contextmanager
def connected(config: RayConfig, n_cpus: int) -> Iterator[Any]:
    """Connect to a cluster, or start Ray on this machine; return the module `ray`. Disconnect at the end.

    :param n_cpus: CPUs of a Ray on this machine
    :raises NotInstalled: Ray is missing
    :raises UserError: there is no cluster at the address, its nodes are too small, or have another rlzoo
    """
    if find_spec("ray") is None:
        raise NotInstalled(f"--backend ray needs Ray: {install_command('ray')}")
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():  # a script's own; it stays
        check_nodes(ray, config)
        yield ray
        return
    with _sigterm_unchanged():
        _connect(ray, config, n_cpus)
    try:
        check_nodes(ray, config)
        with _without_messages_of_ray():
            yield ray
    finally:
        ray.shutdown()


class _WithoutMessagesOfRay:
    """Standard output without what Ray prints when a node or a process has died: pages of its internals.

    :param stream: the stream
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, unless Ray's thread does."""
        if threading.current_thread().name == RAY_MESSAGES:
            return len(text)
        return int(self._stream.write(text))


@contextmanager
def _without_messages_of_ray() -> Iterator[None]:
    """Keep what Ray prints about dead nodes out of the output; the supervisors say which work is lost."""
    stream = sys.stdout
    sys.stdout = _WithoutMessagesOfRay(stream)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout = stream


@contextmanager
def _sigterm_unchanged() -> Iterator[None]:
    """Undo that Ray takes SIGTERM, which the command handles."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)


def _connect(ray: Any, config: RayConfig, n_cpus: int) -> None:
    """Start a local Ray, or connect to the one at the address.

    :raises UserError: there is none
    """
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    if config.address is None:
        size = {"num_cpus": n_cpus, "object_store_memory": OBJECT_STORE}
        ray.init(address="local", include_dashboard=False, **size, **quiet)
        return
    check_address(config.address)
    try:
        ray.init(address=config.address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = one_line(str(error).strip().partition("\n")[0])[:200]
        raise UserError(f"cannot join the Ray cluster at {config.address}: {reason}; {ADVICE}") from None


def check_address(address: str) -> None:
    """Check an address, which Ray itself would try for a minute.

    :raises UserError: it is neither `auto` nor HOST:PORT, or nobody listens there
    """
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"--ray-address is auto or HOST:PORT, such as 10.0.0.1:6379, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except OSError as error:
        raise UserError(
            f"there is no Ray cluster at {address}: {error.strerror or error}; {ADVICE}"
        ) from None


def alive_nodes(ray: Any) -> list[dict[str, Any]]:
    """Return the nodes of the cluster that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def slots_of(node: dict[str, Any], config: RayConfig) -> int:
    """Return the number of tasks that a node can run at the same time."""
    total = node["Resources"]
    fitting = [int(total.get("CPU", 0.0) / config.cpus_per_trial + 1e-9)]
    if config.gpus_per_trial:
        fitting.append(int(total.get("GPU", 0.0) / config.gpus_per_trial + 1e-9))
    return min(fitting)


def check_nodes(ray: Any, config: RayConfig) -> None:
    """Check that a task fits on some node, and that all nodes have this version of rlzoo.

    :raises UserError: it does not, or they have not
    """
    nodes = alive_nodes(ray)
    if not any(slots_of(node, config) for node in nodes):
        wanted = {"CPU": config.cpus_per_trial, "GPU": config.gpus_per_trial}
        for name, number in wanted.items():
            most = max((node["Resources"].get(name, 0.0) for node in nodes), default=0.0)
            if number > most:
                flag = f"--{name.lower()}s-per-trial {number:g}"
                raise UserError(f"{flag}: the largest of {_nodes(len(nodes))} has {most:g} {name}s")
        raise UserError(
            f"no node has {config.cpus_per_trial:g} CPUs and {config.gpus_per_trial:g} GPUs at the same time"
        )
    check_versions(list(_versions(ray, nodes)))


def check_versions(found: Sequence[tuple[str, str]]) -> None:
    """Check the versions of rlzoo: (address, version) of each node.

    :raises UserError: one is not this one
    """
    other = [(address, version) for address, version in found if version != __version__]
    if not other:
        return
    ((version, count),) = Counter(version for _, version in other).most_common(1)
    where = f"{_nodes(count)} ({next(address for address, its in other if its == version)})"
    has = f"rlzoo {version}" if version else "no rlzoo"
    raise UserError(f"{where} has {has}, this machine has rlzoo {__version__}: install the same everywhere")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _versions(ray: Any, nodes: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Return (address, version of rlzoo) of each node; "" without rlzoo.

    The function is sent as code, since a node may have no rlzoo; all later ones are imported there.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def version() -> str:
        try:
            import rlzoo
        except ImportError:
            return ""
        return rlzoo.__version__

    probe = ray.remote(num_cpus=0, max_retries=1)(version)
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[probe.options(scheduling_strategy=there).remote()] = node["NodeManagerAddress"]
    done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=PROBE)
    for ref in done:
        try:
            yield asked[ref], str(ray.get(ref))
        except ray.exceptions.RayError:
            continue  # it has died since: its tasks go to the others
    if not done:
        raise RunFailed(f"no node of the Ray cluster has answered within {PROBE:.0f} s")
