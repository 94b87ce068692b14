"""What one `rlzoo optimize` is, where its study is kept, and what Ray is told.

logs/optimize/<study>/   journal.log  config.yml  best.yml  trials.csv  report.html  *.png
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlzoo.config.run import RunConfig, safe_name

SAMPLERS = ("tpe", "random", "gp", "cmaes", "qmc", "nsga2", "brute", "grid", "auto")
PRUNERS = ("median", "none", "halving", "hyperband", "percentile", "wilcoxon")
OBJECTIVES = ("last", "best", "auc")
FOLDER = "optimize"
"""Beside the folders of the algorithms, so that no study is taken for a run."""
SCHEDULERS = ("pbt", "pb2")
POPULATION = "pbt.json"
"""The file of a population, in the folder of a study with either scheduler."""


@dataclass(frozen=True, kw_only=True)
class RayConfig:
    """The Ray cluster that runs trials and trainings, and what each of them may use."""

    address: str | None = None  # auto or HOST:PORT; None: a Ray on this machine, which is stopped at the end
    cpus_per_trial: float = 1.0  # CPUs of one trial or training
    gpus_per_trial: float = 0.0  # GPUs of one trial or training; 0.25: four of them share one
    max_parallel: int | None = None  # trials at the same time; None: as many as fit

    @property
    def threads(self) -> int:
        """PyTorch's threads of one trial, unless the command says how many."""
        return max(1, int(self.cpus_per_trial))


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """One `rlzoo optimize`: every flag, after parsing and before anything is looked up."""

    run: RunConfig  # what a trial trains, and how
    n_trials: int = 500  # of the whole study, however often the command is repeated
    n_jobs: int = 1  # worker processes
    sampler: str = "tpe"  # of hyperparameters; one of those in `rlzoo optimize --help`
    pruner: str | None = None  # None: median, or none where the sampler refuses one
    n_startup_trials: int = 10  # drawn at random before the sampler, and run in full before the pruner, learn
    n_evaluations: int | None = None  # of one training; None: see `default_evaluations`
    storage: str | None = None  # None: a journal in the folder of the study
    study_name: str | None = None  # None: <algo>_<env>
    space: str | None = None  # file of the user's own search space
    fixed: tuple[str, ...] = ()  # hyperparameters that keep their value
    objective: str = "last"  # value of a training: last, best or auc of its evaluations
    n_seeds: int | None = None  # trainings of one trial; None: 1, and 3 of those that are trained again
    timeout: float | None = None  # seconds
    log_path: str = ""  # evaluations and best agent of each trial go here
    figures: bool = True  # write figures into the report
    ray: RayConfig | None = None  # run the trials on a Ray cluster; None: in processes of this machine

    @property
    def study(self) -> str:
        """The name of the study."""
        return self.study_name or f"{self.run.algo}_{safe_name(self.run.env_id)}"

    @property
    def folder(self) -> Path:
        """The folder of the study."""
        return study_folder(self.run.log_folder, self.study)


def study_folder(log_folder: str | Path, study: str) -> Path:
    """Return the folder of a study."""
    return Path(log_folder) / FOLDER / safe_name(study)


def default_evaluations(n_timesteps: int) -> int:
    """Return the evaluations of a training: one in 100,000 steps, and enough for a pruner."""
    return max(4, n_timesteps // 100_000)
