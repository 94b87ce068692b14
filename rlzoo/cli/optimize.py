"""`rlzoo optimize`: search for hyperparameters."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.flags.parser import Choice, IntInRange, Parser, non_default_args, warn_ignored_flags
from rlzoo.cli.flags.search_flags import (
    RAY_KEYS,
    add_ray_flags,
    add_search_flags,
    add_study_flags,
    search_keys,
    tune_config,
)
from rlzoo.cli.flags.training_flags import add_output_args, add_runtime_args, add_training_args
from rlzoo.config.tune import POPULATION, SCHEDULERS, TuneConfig
from rlzoo.core.errors import RunFailed, UserError, printable

if TYPE_CHECKING:
    from rlzoo.tuning.pbt.population_study import Population
    from rlzoo.tuning.study.study import StudyHandle

WITH_A_STUDY = {"log_folder", "storage"}
WITH_RETRAIN_BEST = {"algo", "env", "study_name", "n_seeds", "n_jobs", "timeout", "num_threads", "verbose"}
WITH_RETRAIN_BEST |= RAY_KEYS
EPILOG = """\
examples:
  rlzoo optimize --algo ppo --env MountainCar-v0 -n 50000 --n-trials 200
  rlzoo optimize --algo sac --env Pendulum-v1 -n 20000 --sampler gp --n-seeds 3
  rlzoo optimize --algo a2c --env CartPole-v1 --space my_space.yml --fixed gamma
  rlzoo optimize --algo ppo --env CartPole-v1 -n 50000 --n-jobs 2 \\
      --storage sqlite:///studies.db --study-name first
  rlzoo optimize --algo sac --env HalfCheetah-v5 -n 200000 \\
      --backend ray --ray-address auto --cpus-per-trial 4
  rlzoo optimize --algo ppo --env Pendulum-v1 -n 50000 --scheduler pbt
  rlzoo optimize --algo ppo --env Pendulum-v1 -n 50000 --scheduler pb2 \\
      --population-size 8 --perturbation-interval 5000
  rlzoo optimize --serve 0.0.0.0:13000  # elsewhere: --storage grpc://HOST:13000
  rlzoo optimize --report ppo_MountainCar-v0
  rlzoo optimize --algo ppo --env MountainCar-v0 --retrain-best 3 --n-jobs 2
  rlzoo train --algo ppo --env MountainCar-v0 \\
      --conf-file logs/optimize/ppo_MountainCar-v0/best.yml

Run the same command again to continue a study that was stopped or killed.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_training_args(parser)
    add_search_flags(parser)
    add_study_flags(parser)
    then = parser.add_argument_group("other actions").add_mutually_exclusive_group()
    then.add_argument(
        "--report",
        default=None,
        metavar="STUDY",
        help="write best.yml, trials.csv and the report of this study (or population) again",
    )
    then.add_argument(
        "--retrain-best",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="train the best N trials with new seeds (--n-seeds of each, default: 3) and rank them",
    )
    then.add_argument(
        "--serve",
        default=None,
        metavar="HOST:PORT",
        help="serve the storage to workers on other machines; they and this one need the same secret in"
        " RLZOO_STORAGE_TOKEN or a file named by RLZOO_STORAGE_TOKEN_FILE",
    )
    add_runtime_args(parser)
    add_output_args(parser)
    add_population_args(parser)
    add_ray_flags(parser, "trials")


def add_population_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags of population based training."""
    group = parser.add_argument_group("population based training")
    group.add_argument(
        "--scheduler",
        type=Choice("scheduler", ("none", *SCHEDULERS)),
        default="none",
        metavar="NAME",
        help="none: each trial keeps its hyperparameters; pbt: train a population, and perturb the"
        " hyperparameters of copies; pb2: the same, but a Gaussian process chooses them (default: none)",
    )
    group.add_argument(
        "--population-size",
        type=IntInRange(2),
        default=8,
        metavar="N",
        help="agents that train, each for all steps (default: 8)",
    )
    group.add_argument(
        "--perturbation-interval",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="steps after which the worst quarter copies the best (default: a tenth of the training)",
    )


def run(args: argparse.Namespace) -> int:
    """Search, or do one of the other actions, and warn about flags that have no effect."""
    if args.serve is not None:
        _only(args, {"serve", *WITH_A_STUDY}, "with --serve")
        return _serve(args)
    if args.report is not None:
        _only(args, {"report", "no_optim_plots", *WITH_A_STUDY}, "with --report")
        report_again(replace(tune_config(args, "CartPole-v1"), study_name=args.report))
    elif args.trial_id is not None:
        warn_ignored_flags(_parser(), args, {"retrain_best", *RAY_KEYS, *search_keys()}, "with --trial-id")
        for config in configs(args):
            train_trial(config, args.trial_id)
    elif args.retrain_best is not None:
        _only(args, {"retrain_best", *WITH_RETRAIN_BEST, *WITH_A_STUDY}, "with --retrain-best")
        for config in configs(args):
            retrain(config, args.retrain_best)
    else:
        search_all(args)
    return 0


def configs(args: argparse.Namespace) -> list[TuneConfig]:
    """Return the configuration of each environment's search."""
    env_ids = args.env or ["CartPole-v1"]
    if len(env_ids) > 1 and args.study_name:
        raise UserError("--study-name names one study; give one --env with it")
    return [tune_config(args, env_id) for env_id in env_ids]


def search_all(args: argparse.Namespace) -> None:
    """Search for one environment after the other, until one search is interrupted."""
    from rlzoo.tuning.study.study import validate

    wanted = configs(args)
    for config in wanted[1:]:  # a mistake in the last must not wait until the first are searched
        validate(config)
    if getattr(args, "scheduler", "none") != "none":
        for config in wanted:
            if not train_population(config, args).is_done:
                break
        return
    for config in wanted:
        if search(config).interrupted:
            break


def train_population(config: TuneConfig, args: argparse.Namespace) -> Population:
    """Train a population, print its best member, and return the population."""
    from rlzoo.tuning.pbt.search import optimize_population

    _warn_ignored_by_population(args)
    population = optimize_population(config, args.population_size, args.perturbation_interval, args.scheduler)
    conclude_population(population)
    return population


def conclude_population(population: Population) -> None:
    """Print the best member of a population and the files of the study."""
    folder, settings = population.folder, population.settings
    if not population.is_done:
        print(f"Interval {len(population.history)} of {population.n_intervals}; run the same command again.")
    names = ("lineage.csv", "schedule.yml", "report.html")
    written = [name for name in names if (folder / name).is_file()]
    if population.winner:
        best = population.best
        print(f"Best: member {best.member}, return {best.value:.2f}")
    print(f"Results are in {folder}: {', '.join(written)}")
    if population.is_done:
        command = ["rlzoo", "train", "--algo", settings.algo, "--env", settings.env_id]
        print("Train with its schedule:", shlex.join([*command, "--conf-file", str(folder / "schedule.yml")]))


def _warn_ignored_by_population(args: argparse.Namespace) -> None:
    """Warn about flags of a search that have no effect on population based training."""
    used = {"n_jobs", "space", "fixed", "no_optim_plots"}
    where = f"with --scheduler {args.scheduler}"
    warn_ignored_flags(_parser(), args, {*search_keys(), "storage"} - used, where)


def search(config: TuneConfig) -> StudyHandle:
    """Run a search and print its results.

    :raises RunFailed: all trials are done and none is complete
    """
    from rlzoo.core.cpu_cores import available_cores
    from rlzoo.tuning.study.study import optimize

    if config.ray is None and config.n_jobs > available_cores():
        print(
            f"rlzoo: {config.n_jobs} jobs share {available_cores()} cores, so all of them are slower",
            file=sys.stderr,
        )
    opened = optimize(config)
    if config.run.verbose > 0:
        conclude(opened, config.figures)
    if error := opened.no_result_reason():
        raise RunFailed(error)
    return opened


def report_again(config: TuneConfig) -> None:
    """Write the report of an existing study or population."""
    if (config.folder / POPULATION).is_file() and config.storage is None:
        from rlzoo.tuning.pbt.search import report_population

        conclude_population(report_population(config))
    else:
        report(config)


def report(config: TuneConfig) -> StudyHandle:
    """Write the report of an existing study."""
    from rlzoo.tuning.study.study import write_report_again

    opened = write_report_again(config)
    conclude(opened, config.figures)
    return opened


def conclude(opened: StudyHandle, figures: bool) -> None:
    """Print the best trials and the files of the study.

    :param figures: whether the report was written
    """
    from rlzoo.tuning.report.study_report import train_command
    from rlzoo.tuning.report.study_results import top_table
    from rlzoo.tuning.storage.trial_queue import counts

    columns = max(80, shutil.get_terminal_size().columns)
    print(printable(top_table(opened.study, width=columns)))
    if (done := counts(opened.study, opened.n_trials).finished) < opened.n_trials:
        print(f"{done} of {opened.n_trials} trials are done; run the same command again for the others.")
    names = ("best.yml", "trials.csv", *(("report.html",) if figures else ()))
    written = [name for name in names if (opened.folder / name).is_file()]
    print(f"Results are in {opened.folder}: {', '.join(written)}")
    if "best.yml" in written:
        print(
            "Train with the best hyperparameters:", printable(train_command(opened.settings, opened.folder))
        )


def train_trial(config: TuneConfig, number: int) -> None:
    """Train an agent with the hyperparameters of a trial."""
    from rlzoo.tuning.study.study import train_trial

    train_trial(config, number, shlex.join(["rlzoo", *sys.argv[1:]]))


def retrain(config: TuneConfig, n_best: int) -> None:
    """Train the best trials again and rank them."""
    from rlzoo.tuning.report.ranking import ranking_table
    from rlzoo.tuning.report.study_report import RETRAINED
    from rlzoo.tuning.study.retrain import retrain_best

    ranking = retrain_best(config, n_best)
    print(ranking_table(ranking))
    path = config.folder / RETRAINED
    if ranking[0].n and path.is_file():
        print(f"The hyperparameters of trial {ranking[0].trial} are in {path}, for rlzoo train --conf-file")


def _serve(args: argparse.Namespace) -> int:
    import optuna

    from rlzoo.config.tune import FOLDER
    from rlzoo.tuning.storage.served_storage import check_address, read_token, serve
    from rlzoo.tuning.storage.storage import open_storage

    check_address(args.serve)  # before a journal is made
    storage = open_storage(args.storage, Path(args.log_folder) / FOLDER)
    port = args.serve.rpartition(":")[2]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    secret = ", with the same RLZOO_STORAGE_TOKEN" if read_token() else ""
    print(f"Serving until Ctrl-C; on other machines{secret}: --storage grpc://THIS_HOST:{port}", flush=True)
    serve(storage, args.serve)
    return 0


def _parser() -> Parser:
    parser = Parser("rlzoo optimize", "")
    build_parser(parser)
    return parser


def _only(args: argparse.Namespace, used: set[str], where: str) -> None:
    parser = _parser()
    warn_ignored_flags(parser, args, non_default_args(parser, args).keys() - used, where)
