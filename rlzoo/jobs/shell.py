"""All tasks on this machine, a few at a time, in a plain shell script."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlzoo.jobs.job_options import JobOptions
from rlzoo.jobs.task_script import OUTPUT, comment

SCRIPT = "run.sh"

RUN_ALL = """\
stopped=no
stop() { # the tasks save and end; no further one starts
  stopped=yes
  for pid in $(jobs -pr); do kill -TERM "$pid"; done
}
trap stop INT TERM HUP

run_task() {
  worker=
  trap 'stopped=yes again=yes; [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null' INT TERM HUP
  bash "$jobs/tasks.sh" "$1" >>"$jobs/output/task_$1.out" 2>&1 &
  worker=$!
  [ "$stopped" = no ] || kill -TERM "$worker"
  again=yes
  while [ "$again" = yes ]; do # a signal ends `wait`, but not the worker
    again=no
    wait "$worker"
    code=$?
  done
  if [ "$code" -eq 0 ]; then echo "task $1: done"; else
    echo "task $1: exit code $code, see $jobs/output/task_$1.out"
    echo "$1" >>"$failures"
  fi
}

failures=$(mktemp)
for ((task = 0; task < n_tasks; task++)); do
  while [ "$(jobs -pr | wc -l)" -ge "$parallel" ]; do sleep 0.2; done
  [ "$stopped" = no ] || break
  run_task "$task" &
done
while [ -n "$(jobs -pr)" ]; do wait; done
n_failed=$(wc -l <"$failures")
rm "$failures"
[ "$stopped" = no ] || exit 130
[ "$n_failed" -eq 0 ] || exit 1
"""


def shell_script(folder: Path, n_tasks: int, options: JobOptions) -> str:
    """Return the script that runs all tasks.

    :param folder: absolute path of the folder of the scripts
    """
    lines = [
        "#!/bin/bash",
        f"# {n_tasks} tasks of {comment(options.name)} on this machine, a few at a time.",
        f"#   run:    bash {shlex.quote(str(folder / SCRIPT))} [TASKS AT A TIME]",
        f"#   watch:  tail {shlex.quote(str(folder / OUTPUT))}/task_*.out",
        "#   stop:   Ctrl-C or SIGTERM, which saves; resume: run again, what is finished is skipped",
        f"# Written by: {comment(options.command)}",
        f"jobs={shlex.quote(str(folder))}",
        f"n_tasks={n_tasks}",
        f"parallel=${{1:-{options.parallel or 1}}}",
        "",
    ]
    return "\n".join(lines) + RUN_ALL
