"""Array jobs of Slurm.

Slurm sends SIGUSR1 to the batch script some time before the limit. The script makes the task save with
SIGTERM and queues it again; the next start continues it. A SIGTERM to the script comes from a preemption: the
task saves as well, and whether it runs again is up to Slurm.
Source: man pages of sbatch (--signal, --requeue) and scontrol (requeue).
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from rlzoo.jobs.job_options import MAX_RESTARTS, JobOptions, clock
from rlzoo.jobs.task_script import OUTPUT, RUN_TASK, array_range, comment

SCRIPT = "job.slurm"
MAX_ARRAY = 1000  # tasks that Slurm's default MaxArraySize of 1001 allows

QUEUE_AGAIN = """\
if [ "$stopped" = limit ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "$max_restarts" ]; then
  echo "task $task: time limit; it is queued again and continues"
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$task" && sleep 60 # Slurm ends this script
fi
exit "$code"
"""


def slurm_script(folder: Path, n_tasks: int, options: JobOptions) -> str:
    """Return the job script, which `sbatch` takes.

    :param folder: absolute path of the folder of the scripts
    """
    script = shlex.quote(str(folder / SCRIPT))
    wanted = {
        "job-name": options.name,
        "array": array_range(n_tasks, options),
        "time": clock(options.time),
        "signal": f"B:USR1@{options.grace}",
        "output": str(folder / OUTPUT).replace("%", "%%") + "/task_%a.out",
        "ntasks": "1",
        "cpus-per-task": str(options.cpus),
        "gpus-per-task": str(options.gpus or ""),
        "mem": options.memory,
        "partition": options.partition,
        "account": options.account,
    }
    lines = [
        "#!/bin/bash",
        f"# {n_tasks} tasks of {comment(options.name)}. A task that nears the time limit is saved, queued",
        "# again and continued.",
        f"#   submit: sbatch {script}",
        f"#   watch:  squeue --me --array; tail {shlex.quote(str(folder / OUTPUT / 'task_0.out'))}",
        "#   cancel: scancel JOB; resume: submit again, what is finished is skipped",
        f"# Written by: {comment(options.command)}",
        *(f"#SBATCH --{key}={_quoted(value)}" for key, value in wanted.items() if value),
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        *(f"#SBATCH {directive}" for directive in options.directives),
        "",
        f"jobs={shlex.quote(str(folder))}",
        f"max_restarts={MAX_RESTARTS}",
        'task=${SLURM_ARRAY_TASK_ID:?"submit this script with sbatch"}',
        "",
    ]
    return "\n".join(lines) + RUN_TASK + QUEUE_AGAIN


def _quoted(value: str) -> str:
    """Quote a value for a line of #SBATCH: double quotes and backslashes are those of a shell."""
    if re.fullmatch(r"[\w.,:@%+=/-]+", value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
