"""Write the scripts of a job into a new folder.

jobs/tasks.sh                         runs one task
jobs/job.slurm, job.pbs or run.sh     what is submitted, or run
jobs/output/task_<k>.out              output of each task, appended to
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlzoo.core.errors import UserError
from rlzoo.jobs import pbs, shell, slurm
from rlzoo.jobs.job_options import JobOptions
from rlzoo.jobs.task_script import OUTPUT, TASKS, task_script


def write_jobs(
    folder: Path, scheduler: str, commands: Sequence[Sequence[str]], options: JobOptions
) -> tuple[Path, str]:
    """Write the scripts; return the one to submit, and the command that submits it.

    :param folder: made here
    :param scheduler: slurm, pbs or shell
    :param commands: arguments of `rlzoo`, one list for each task
    :raises UserError: the folder exists or cannot be made
    """
    folder = folder.absolute()
    if not str(folder).isprintable():
        raise UserError(f"cannot write job scripts to {str(folder)!r}: its name has control characters")
    try:
        (folder / OUTPUT).parent.mkdir(parents=True)
        (folder / OUTPUT).mkdir()
    except FileExistsError:
        raise UserError(f"{folder} exists; remove it, or give another folder with -o") from None
    except OSError as error:
        raise UserError(f"cannot write job scripts to {folder}: {error.strerror}") from None
    n_tasks = len(commands)
    if scheduler == "slurm":
        path, text = folder / slurm.SCRIPT, slurm.slurm_script(folder, n_tasks, options)
        submit = f"sbatch {shlex.quote(str(path))}"
    elif scheduler == "pbs":
        path, text = folder / pbs.SCRIPT, pbs.pbs_script(folder, n_tasks, options)
        submit = pbs.submit_command(folder, n_tasks, options)
    else:
        path, text = folder / shell.SCRIPT, shell.shell_script(folder, n_tasks, options)
        submit = f"bash {shlex.quote(str(path))}"
    (folder / TASKS).write_text(task_script(commands, options))
    path.write_text(text)
    return path, submit
