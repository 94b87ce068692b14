"""A worker process of a `LocalPool`: runs tasks, one after the other, until its parent goes.

    python -m rlzoo.cluster.local_worker FD

FD is a socket to the parent, over which JSON travels, one message a line.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence

from rlzoo.cluster.tasks import Json, TaskContext, call
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.processes.stop_signals import exit_at_once
from rlzoo.processes.workers import end_with_parent


def main(argv: Sequence[str] | None = None) -> int:
    restore_path_setting()
    end_with_parent()
    (descriptor,) = sys.argv[1:] if argv is None else argv
    with socket.socket(fileno=int(descriptor)) as connection, connection.makefile("rw") as stream:
        for line in stream:
            task = json.loads(line)

            def send(message: Json, wait: bool) -> Json:
                """Send a message to the parent, and return its answer if there is one."""
                stream.write(json.dumps({"message": message, "wait": wait}) + "\n")
                stream.flush()
                reply: Json = json.loads(stream.readline()) if wait else {}
                return reply

            outcome = call(task["target"], TaskContext(task["payload"], task["output"], {}, send))
            stream.write(json.dumps({"outcome": outcome}) + "\n")
            stream.flush()
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except (BrokenPipeError, ConnectionResetError):  # the parent has gone
        exit_at_once(1)
    sys.exit(code)
