"""Loaders of what runs and studies leave: run folders, logs, monitor files, journals and databases."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from optuna.trial import TrialState

from rlzoo.benchmark.finished import mark_finished
from rlzoo.benchmark.model_zoo import entry_of
from rlzoo.benchmark.scores import write_score
from rlzoo.benchmark.scoring import kept_score, score_run
from rlzoo.config.run import PlayConfig, RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.envs.single_env.monitor import ResultsWriter, load_results
from rlzoo.experiment.resumed_run import reopen_run
from rlzoo.experiment.training_run import check, train
from rlzoo.metrics.log_files import read_csv, read_json
from rlzoo.metrics.logger import CSVOutputFormat, JSONOutputFormat
from rlzoo.playback.play import play
from rlzoo.plots import results as plots
from rlzoo.plots.comparison import compare, comparison_table
from rlzoo.plots.curves import ts2xy
from rlzoo.plots.normalisation import normalise
from rlzoo.plots.report_parts import report_figures
from rlzoo.plots.style import rendered
from rlzoo.runs import run_folder
from rlzoo.tuning.report.figures import make_figures
from rlzoo.tuning.report.study_page import page
from rlzoo.tuning.report.study_report import top_table, trials_of, write_report
from rlzoo.tuning.study import study as studies
from tests.fuzz.agents import STEPS
from tests.fuzz.configurations import few_steps, run_command, tiny_run
from tests.fuzz.loader import Loader, ctrl_c_after, only
from tests.tuning.studies import make_trial

VALUES: dict[str, Any] = {
    "policy": "MlpPolicy", "n_envs": 1, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "normalize": True,
    "policy_kwargs": {"net_arch": [4]}, "learning_rate": "lin_1e-3",
    "env_wrapper": ["rlzoo.TimeFeatureWrapper"],
}  # fmt: skip
RUN = "ppo/CartPole-v1_1"
TRAIN = "rlzoo train --algo ppo --env CartPole-v1 -conf conf.yml"


def make_run(folder: Path) -> None:
    (folder / "conf.yml").write_text(json.dumps({"CartPole-v1": VALUES}))
    os.chdir(folder)
    train(tiny_run("ppo", "CartPole-v1", Path(), n_timesteps=STEPS, save_freq=8, conf_file="conf.yml"), TRAIN)
    mark_finished(folder / RUN, 3.5)
    write_score(folder / RUN / "score.json", score_run(folder / RUN, 1))


def use_run(folder: Path, rng: Random) -> None:
    os.chdir(folder)
    with ctrl_c_after(5):
        match rng.randrange(5):
            case 0 | 1:
                session = reopen_run(folder / RUN, {"n_timesteps": 2 * STEPS, "verbose": 0, "device": "cpu"})
                few_steps(session)
            case 2:
                config = PlayConfig(
                    algo="ppo", env_id="CartPole-v1", folder=str(folder), no_render=True, n_timesteps=8
                )
                play(replace(config, load_best=rng.random() < 0.2, load_last_checkpoint=rng.random() < 0.2))
            case 3:
                score_run(folder / RUN, 1)
            case 4:
                run = run_folder.read_run(folder / RUN)
                kept_score(folder / RUN, run)
                entry_of(folder, folder / RUN)
                run_command("list", "agents", "-f", folder)


# -- logs ---------------------------------------------------------------------------------------


def write_logs(folder: Path) -> None:
    table, lines = CSVOutputFormat(folder / "progress.csv"), JSONOutputFormat(folder / "progress.json")
    for step in range(4):
        values = {
            "time/total_timesteps": step * 8,
            "rollout/ep_rew_mean": 1.5,
            "train/loss": 0.1 if step else np.nan,
        }
        for output in (table, lines):
            output.write(values, dict.fromkeys(values, ()), step)
    table.close()
    lines.close()


def continue_logs(folder: Path, rng: Random) -> None:
    path = only(folder)
    if path.suffix == ".json":
        read_json(path)
        return
    if rng.random() < 0.5:
        read_csv(path)
    output = CSVOutputFormat(path, append=True)
    try:
        for values in ({"train/loss": 0.1}, {"new": 1.0}):
            output.write(dict(values), dict.fromkeys(values, ()), 1)
    finally:
        output.close()
    read_csv(path)


def write_monitors(folder: Path) -> None:
    for number in range(2):
        path = folder / f"{number}.monitor.csv"
        writer = ResultsWriter(path, {"t_start": 1e9 + number, "env_id": "CartPole-v1"}, ("is_success",))
        for episode in range(4):
            writer.write_row({"r": 1.5 * episode, "l": 8, "t": 0.1 * episode, "is_success": True})
        writer.close()


def continue_monitors(folder: Path, rng: Random) -> None:
    if rng.random() < 0.5:
        path = sorted(folder.glob("*.monitor.csv"))[0]
        writer = ResultsWriter(path, {"t_start": 1e9}, ("is_success",), override_existing=False)
        writer.write_row({"r": 1.0, "l": 1, "t": 1.0, "is_success": False})
        writer.close()
    table: pd.DataFrame = load_results(folder)
    for axis in ("timesteps", "episodes", "walltime_hrs"):
        ts2xy(table, axis)


def write_evaluations(folder: Path) -> None:
    """Three runs with their evaluations, and what is gathered of them."""
    for seed in range(3):
        run = folder / "ppo" / f"CartPole-v1_{seed + 1}"
        (run / "CartPole-v1").mkdir(parents=True)
        (run / "CartPole-v1" / "args.yml").write_text(f"algo: ppo\nenv_id: CartPole-v1\nseed: {seed}\n")
        (run / "row.json").write_text(json.dumps({"name": f"variant {seed % 2}"}))
        write_evaluations_of(run, seed)
    (folder / "results.json").write_text(plots.results_text(plots.gather(folder)))


def write_evaluations_of(run: Path, seed: int) -> None:
    returns = np.arange(8.0).reshape(4, 2) + seed
    arrays = {"timesteps": np.arange(1, 5) * 10, "results": returns, "ep_lengths": returns}
    np.savez(run / "evaluations.npz", **arrays)


def draw_evaluations(folder: Path, rng: Random) -> None:
    source = folder if rng.random() < 0.5 else folder / "results.json"
    results = plots.as_results(source)
    rendered(compare(results, iqm=rng.random() < 0.5), "svg")
    plots.read_results(folder / "results.json")
    comparison_table(results, "tex")
    profile = normalise(results, "range")
    report_figures(results, profile, ("efficiency", "boxes"))


# -- studies ------------------------------------------------------------------------------------

NAME = "ppo_MountainCarContinuous-v0"


def study_config(folder: Path, storage: str | None) -> TuneConfig:
    run = RunConfig(algo="ppo", env_id="MountainCarContinuous-v0", log_folder=str(folder), verbose=0, seed=1)
    return TuneConfig(run=run, storage=storage, study_name=NAME, figures=False, n_trials=2)


def make_study(folder: Path, storage: str | None) -> None:
    """A study with trials in all states."""
    study = studies.create_or_load_study(study_config(folder, storage)).study
    states = [TrialState.COMPLETE] * 4 + [TrialState.PRUNED] * 2 + [TrialState.FAIL]
    rng = np.random.default_rng(0)
    for number, state in enumerate(states):
        study.add_trial(make_trial(state, number, rng))
    study.set_user_attr("n_trials", 9)


def use_study(folder: Path, rng: Random, storage: str | None) -> None:
    config = study_config(folder, storage)
    with ctrl_c_after(8):
        opened = studies.load_study(config)
        match rng.randrange(4):
            case 0:
                top_table(opened.study)
                opened.no_result_reason()
            case 1:
                write_report(opened.study, opened.settings, opened.folder, figures=False)
                trials = trials_of(opened.study)
                figures = make_figures(trials, ("return",))
                page(opened.study.study_name, opened.settings, opened.n_trials, trials, figures, "")
            case 2:
                check(studies.run_of_trial(config, rng.randrange(2, 8)))
            case 3:
                studies.create_or_load_study(config)


def write_journal(folder: Path) -> None:
    make_study(folder, None)
    for path in folder.rglob("*.claims"):
        path.unlink()


def read_journal(folder: Path, rng: Random) -> None:
    use_study(folder, rng, None)


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/study.db"


def write_database(folder: Path) -> None:
    make_study(folder, url(folder))
    shutil.rmtree(folder / "optimize", ignore_errors=True)


def read_database(folder: Path, rng: Random) -> None:
    (folder / "optimize" / NAME).mkdir(parents=True, exist_ok=True)
    use_study(folder, rng, url(folder))


def mutate_journal(rng: Random, name: str, data: bytes) -> bytes:
    """Mutate the record of a line, or the lines."""
    from tests.fuzz.mutations import mutate_text, mutate_tree

    lines = data.decode().splitlines()
    if rng.random() < 0.4:
        return mutate_text(rng, data)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        record = json.loads(lines[at])
        if not isinstance(record, dict):  # by the mutation before
            continue
        texts = [key for key, value in record.items() if isinstance(value, str) and value[:1] in ("{", "[")]
        if texts and rng.random() < 0.5:
            key = rng.choice(texts)
            record[key] = json.dumps(mutate_tree(rng, json.loads(record[key])))
        else:
            record = mutate_tree(rng, record)
        lines[at] = json.dumps(record)
    return ("\n".join(lines) + "\n").encode(errors="surrogatepass")


LOADERS = (
    Loader(
        "run_folder",
        make_run,
        use_run,
        (
            "*/args.yml",
            "*/config.yml",
            "*/args.yml",
            "*/progress.csv",
            "*.json",
            "*.monitor.csv",
            "*/.lock",
            "*/command.txt",
        ),
        alone=False,
        share=4,
    ),
    Loader("progress", write_logs, continue_logs, share=2),
    Loader("monitor", write_monitors, continue_monitors, alone=False, share=2),
    Loader("evaluations", write_evaluations, draw_evaluations, alone=False, share=2),
    Loader("journal", write_journal, read_journal, ("*.log",), mutate_journal, alone=False, share=2),
    Loader("sqlite", write_database, read_database, ("*.db",), alone=False, share=2),
)
