"""What `--backend ray` is told."""

from __future__ import annotations

from dataclasses import dataclass


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
