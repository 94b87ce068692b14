"""`rlzoo optimize`: search for hyperparameters."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlzoo.cli.parser import Whole
from rlzoo.cli.search_flags import add_search_flags, add_study_flags, tune_config
from rlzoo.cli.training_flags import add_agent_to_train, add_how_to_run, add_what_to_keep
from rlzoo.config.tune import TuneConfig
from rlzoo.core.errors import UserError

HELP = "search for good hyperparameters"
EPILOG = """\
examples:
  rlzoo optimize --algo ppo --env MountainCar-v0 -n 50000 --n-trials 200 --n-jobs 2
  rlzoo optimize --algo sac --env Pendulum-v1 -n 20000 --sampler gp --pruner none --n-seeds 3
  rlzoo optimize --algo a2c --env CartPole-v1 -n 50000 --space my_space.yml --fixed gamma
  rlzoo optimize --algo ppo --env CartPole-v1 -n 50000 --storage sqlite:///studies.db --study-name first
  rlzoo optimize --serve 0.0.0.0:13000   # on other machines: --storage grpc://HOST:13000
  rlzoo optimize --report ppo_MountainCar-v0  # best.yml, trials.csv and report.html once more
  rlzoo optimize --algo ppo --env MountainCar-v0 --retrain-best 3 --n-jobs 2
  rlzoo train --algo ppo --env MountainCar-v0 --conf-file logs/optimize/ppo_MountainCar-v0/best.yml

The same command goes on with a study that was ended or killed; nothing that was finished is lost.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_to_train(parser)
    add_search_flags(parser)
    add_study_flags(parser)
    then = parser.add_argument_group("instead of searching").add_mutually_exclusive_group()
    then.add_argument("--report", default=None, metavar="STUDY", help="write the report of this study again")
    then.add_argument(
        "--retrain-best",
        type=Whole(1),
        default=None,
        metavar="N",
        help="train the best N trials with fresh seeds and rank them; --n-seeds of each (default: 3)",
    )
    then.add_argument(
        "--serve", default=None, metavar="HOST:PORT", help="serve the storage to workers on other machines"
    )
    add_how_to_run(parser)
    add_what_to_keep(parser)


def run(args: argparse.Namespace) -> int:
    if args.serve is not None:
        return _serve(args)
    env_ids = args.env or ["CartPole-v1"]
    if len(env_ids) > 1 and args.study_name:
        raise UserError("one --study-name cannot be that of several environments")
    for config in [tune_config(args, env_id) for env_id in env_ids]:
        if args.report is not None:
            report(replace(config, study_name=args.report))
        elif args.trial_id is not None:
            train_trial(config, args.trial_id)
        elif args.retrain_best is not None:
            retrain(config, args.retrain_best)
        else:
            search(config)
    return 0


def search(config: TuneConfig) -> None:
    """Search, and say what came of it."""
    from rlzoo.experiment.environments import available_cores
    from rlzoo.tuning.study import optimize

    if config.n_jobs > available_cores():
        print(
            f"rlzoo: {config.n_jobs} jobs share {available_cores()} cores, which slows all of them",
            file=sys.stderr,
        )
    opened = optimize(config)
    conclude(opened.study, opened.n_trials, opened.folder, config)


def report(config: TuneConfig) -> None:
    """Write the report of a study that is there."""
    from rlzoo.tuning.study import write_report_again

    opened = write_report_again(config)
    conclude(
        opened.study, opened.n_trials, opened.folder, replace(config, run=replace(config.run, verbose=1))
    )


def conclude(study: Any, n_trials: int, folder: Path, config: TuneConfig) -> None:
    """The best trials, and where everything is."""
    from rlzoo.tuning.results import best_trial, top_table

    if config.run.verbose == 0:
        return
    print(top_table(study))
    print(f"Everything is in {folder}: best.yml, trials.csv{', report.html' if config.figures else ''}")
    if best_trial(study) is not None:
        command = ["rlzoo", "train", "--algo", config.run.algo, "--env", config.run.env_id]
        print("Train with the best:", shlex.join([*command, "--conf-file", str(folder / "best.yml")]))


def train_trial(config: TuneConfig, number: int) -> None:
    """Train an agent with the hyperparameters of a trial."""
    from rlzoo.tuning.study import train_trial

    train_trial(config, number, shlex.join(["rlzoo", *sys.argv[1:]]))


def retrain(config: TuneConfig, n_best: int) -> None:
    """Train the best trials again and rank them."""
    from rlzoo.tuning.ranking import ranking_table
    from rlzoo.tuning.retrain import retrain_best

    print(ranking_table(retrain_best(config, n_best)))


def _serve(args: argparse.Namespace) -> int:
    from rlzoo.config.tune import FOLDER
    from rlzoo.tuning.storage import open_storage, serve

    serve(open_storage(args.storage, Path(args.log_folder) / FOLDER), args.serve)
    return 0
