"""How a study proposes hyperparameters, and how it gives up trials that are behind."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, RandomSampler

from rlzoo.config.tune import PRUNERS, SAMPLERS
from rlzoo.core.errors import UserError, unknown
from rlzoo.tuning.study.cma_sampler import CmaEsSampler

_PACKAGES = {"gp": ("scipy",), "cmaes": ("cmaes",), "qmc": ("scipy",), "wilcoxon": ("scipy",)}

_FEW_PARAMETERS = 3
"""Up to here a Gaussian process is quick, and needs fewer trials than TPE to see the landscape."""

FEWEST_PAIRS = 4
"""Fewer trainings of two trials cannot differ with p < 0.1 (Wilcoxon's signed ranks)."""


def choose_sampler(name: str, space_size: int | None, n_params: int, n_trials: int) -> str:
    """Return the sampler that a study uses: `name` itself, or a choice where that is `auto`.

    A space that the trials can go through as a whole is gone through; a few parameters are a Gaussian
    process's; everything else is TPE's.

    :param space_size: combinations of the space; None where a parameter is continuous
    :param n_params: rows of the space
    :raises UserError: there is no sampler of that name
    """
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    if name != "auto":
        return name
    if space_size is not None and space_size <= n_trials:
        return "grid"
    return "gp" if n_params <= _FEW_PARAMETERS else "tpe"


def make_sampler(name: str, seed: int, n_startup_trials: int, n_jobs: int, number: int = 0) -> BaseSampler:
    """Return the sampler of ONE trial.

    Its random numbers follow from the seed of the study and the number of the trial, so a trial draws the
    same whichever process runs it and whenever, given what was known then. The state of a sampler is
    stored in the study.

    :param name: as `choose_sampler` returns it; the combinations of `brute` and `grid` are already
        stored in the trials, as fixed parameters
    :param seed: of the study
    :param n_startup_trials: trials drawn at random before the sampler learns; a generation of nsga2
    :param n_jobs: with more than one, TPE keeps away from what is being tried at the same time
    :param number: of the trial
    :raises UserError: there is no such sampler, or a package that it needs is not installed
    """
    if name not in SAMPLERS or name == "auto":
        raise unknown("sampler", name, [known for known in SAMPLERS if known != "auto"])
    _need(name)
    seed_of_trial = trial_seed(seed, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "tpe":
            return optuna.samplers.TPESampler(
                n_startup_trials=n_startup_trials,
                multivariate=True,
                group=True,
                constant_liar=n_jobs > 1,
                seed=seed_of_trial,
            )
        if name == "gp":
            quiet: dict[str, Any] = {"warn_independent_sampling": False}
            if "warn_independent_sampling" not in signature(optuna.samplers.GPSampler).parameters:
                quiet = {}  # older versions of Optuna have nothing to say
            return optuna.samplers.GPSampler(n_startup_trials=n_startup_trials, seed=seed_of_trial, **quiet)
        if name == "cmaes":
            return CmaEsSampler(n_startup_trials, seed_of_trial)
        if name == "qmc":  # one sequence for the whole study; the study counts how far it has come
            return optuna.samplers.QMCSampler(
                scramble=True,
                seed=trial_seed(seed, 0),
                independent_sampler=RandomSampler(seed=seed_of_trial),
                warn_asynchronous_seeding=False,
                warn_independent_sampling=False,
            )
        if name == "nsga2":
            return optuna.samplers.NSGAIISampler(population_size=max(2, n_startup_trials), seed=seed_of_trial)
        return RandomSampler(seed=seed_of_trial)  # random, brute and grid


def trial_seed(seed: int, number: int) -> int:
    """Return a number below 2**32 that belongs to a trial of a study."""
    return int(np.random.SeedSequence((seed % 2**64, number)).generate_state(1)[0])


def make_pruner(name: str, n_startup_trials: int, n_evaluations: int) -> BasePruner:
    """Return the pruner of a study.

    :param n_startup_trials: trials that run to their end before any is pruned
    :param n_evaluations: values that a whole trial reports; the first third never prunes. `wilcoxon` compares
        whole trainings with those of the best trial, seed by seed, and is sure enough after `FEWEST_PAIRS`
    :raises UserError: there is no such pruner, or a package that it needs is not installed
    """
    if name not in PRUNERS:
        raise unknown("pruner", name, PRUNERS)
    _need(name)
    warmup = n_evaluations // 3 + 1  # the first step that may prune; steps count from 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "median":
            return optuna.pruners.MedianPruner(n_startup_trials, n_warmup_steps=warmup)
        if name == "percentile":  # the best quarter continues
            return optuna.pruners.PercentilePruner(25.0, n_startup_trials, n_warmup_steps=warmup)
        if name == "halving":
            return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=4)
        if name == "hyperband":
            return optuna.pruners.HyperbandPruner(
                min_resource=1, max_resource=max(1, n_evaluations), reduction_factor=3
            )
        if name == "wilcoxon":
            return optuna.pruners.WilcoxonPruner(p_threshold=0.1)
        return optuna.pruners.NopPruner()


def check_pair(sampler: str, pruner: str) -> None:
    """:raises UserError: the sampler cannot go with the pruner"""
    if sampler == "nsga2" and pruner != "none":
        raise UserError("nsga2 weighs two objectives, return and time, and cannot prune; give --pruner none")


def _need(name: str) -> None:
    missing = [package for package in _PACKAGES.get(name, ()) if find_spec(package) is None]
    if missing:
        raise UserError(f"{name} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
