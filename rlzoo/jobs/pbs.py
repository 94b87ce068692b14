"""Array jobs of PBS Professional and OpenPBS.

Jobs cannot queue themselves again there, so a task that nears its limit submits its continuation as a new
job. PBS leaves ten seconds between SIGTERM and SIGKILL unless the administrator says otherwise; the script
measures the time itself. Source: man page of qsub, and the PBS user's guide (job arrays).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from rlzoo.jobs.job_options import MAX_RESTARTS, JobOptions, clock
from rlzoo.jobs.task_script import OUTPUT, RUN_TASK, array_range, comment

SCRIPT = "job.pbs"

TIMER = """\
(
  sleep "$limit" &
  trap 'kill $! 2>/dev/null; exit' TERM
  wait $! && kill -USR1 $$
) &
timer=$!
"""

SUBMIT_AGAIN = """\
kill "$timer" 2>/dev/null
if [ "$stopped" = limit ] && [ "${RESTARTS:-0}" -lt "$max_restarts" ]; then
  echo "task $task: time limit; a new job continues it"
  qsub -v "TASK=$task,RESTARTS=$((${RESTARTS:-0} + 1))" "$jobs/job.pbs" && exit 0
fi
exit "$code"
"""


def pbs_script(folder: Path, n_tasks: int, options: JobOptions) -> str:
    """Return the job script, which `qsub` takes.

    :param folder: absolute path of the folder of the scripts
    """
    select = f"select=1:ncpus={options.cpus}"
    select += f":ngpus={options.gpus}" if options.gpus else ""
    select += f":mem={options.memory.lower()}b" if options.memory else ""
    lines = [
        "#!/bin/bash",
        f"# {n_tasks} tasks of {comment(options.name)}. A task that nears the time limit is saved, and",
        "# a new job continues it.",
        f"#   submit: {submit_command(folder, n_tasks, options)}",
        f"#   watch:  qstat -t -u $USER; tail {shlex.quote(str(folder / OUTPUT / 'task_0.out'))}",
        "#   cancel: qdel JOB; resume: submit again, what is finished is skipped",
        f"# Written by: {comment(options.command)}",
        f"#PBS -N {options.name}",
        f"#PBS -l {select}",
        f"#PBS -l walltime={clock(options.time)}",
        "#PBS -r y",
        "#PBS -j oe",
        "#PBS -o /dev/null",
        *([f"#PBS -q {options.partition}"] if options.partition else []),
        *([f"#PBS -A {options.account}"] if options.account else []),
        *(f"#PBS {directive}" for directive in options.directives),
        "",
        f"jobs={shlex.quote(str(folder))}",
        f"limit={options.time - options.grace} # seconds until the task is asked to save",
        f"max_restarts={MAX_RESTARTS}",
        'task=${PBS_ARRAY_INDEX:-${TASK:?"submit this script with qsub -J or -v TASK=0"}}',
        f'exec >>"$jobs/{OUTPUT}/task_$task.out" 2>&1',
        "",
    ]
    return "\n".join(lines) + TIMER + RUN_TASK + SUBMIT_AGAIN


def submit_command(folder: Path, n_tasks: int, options: JobOptions) -> str:
    """Return the command that submits all tasks; an array of PBS has at least two."""
    which = f"-J {array_range(n_tasks, options)}" if n_tasks > 1 else "-v TASK=0"
    return f"qsub {which} {shlex.quote(str(folder / SCRIPT))}"
