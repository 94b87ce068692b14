"""The script that runs one task, and what the scripts of all schedulers share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rlzoo.jobs.job_options import JobOptions

TASKS = "tasks.sh"
OUTPUT = "output"

RUN_TASK = """\
# Run the task, and pass signals on to it: SIGTERM makes rlzoo save and end.
stopped=no
worker=
end_worker() {
  stopped=$1 again=yes
  [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null
}
trap 'end_worker limit' USR1 # the time limit is near
trap 'end_worker ended' TERM INT # cancelled, or preempted
bash "$jobs/tasks.sh" "$task" &
worker=$!
[ "$stopped" = no ] || kill -TERM "$worker"
again=yes
while [ "$again" = yes ]; do # a signal ends `wait`, but not the worker
  again=no
  wait "$worker"
  code=$?
done
trap - USR1 TERM INT
"""


def task_script(commands: Sequence[Sequence[str]], options: JobOptions) -> str:
    """Return the script that runs task K as `bash tasks.sh K`.

    :param commands: arguments of `rlzoo`, one list for each task
    """
    lines = [
        "#!/bin/bash",
        f"# One task of {comment(options.name)}, in this shell: bash {TASKS} TASK",
        f"# Written by: {comment(options.command)}",
        f"cd {shlex.quote(str(options.working_folder))} || exit 1",
        *options.setup,
        f'rlzoo() {{ exec {shlex.join(rlzoo_command())} "$@"; }}',
        "",
        'case "${1:-}" in',
        *(f"  {task}) rlzoo {shlex.join(command)} ;;" for task, command in enumerate(commands)),
        f'  *) echo "usage: bash {TASKS} TASK, with TASK from 0 to {len(commands) - 1}" >&2 && exit 2 ;;',
        "esac",
        "",
    ]
    return "\n".join(lines)


def rlzoo_command() -> list[str]:
    """Return the command that starts this installation of rlzoo, with absolute paths."""
    script = Path(sys.executable).with_name("rlzoo")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "rlzoo"]


def comment(text: str) -> str:
    """Return a text on one line, for a comment of a script."""
    return " ".join(text.split())


def array_range(n_tasks: int, options: JobOptions) -> str:
    """Return the task numbers of an array, as Slurm and PBS write them.

    >>> from pathlib import Path
    >>> array_range(6, JobOptions(name="", working_folder=Path(), command="", parallel=2))
    '0-5%2'
    """
    return f"0-{n_tasks - 1}" + (f"%{options.parallel}" if options.parallel else "")
