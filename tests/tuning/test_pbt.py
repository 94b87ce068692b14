"""Population based training: exploit and explore, and a small population from beginning to end."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from optuna.distributions import FloatDistribution

from rlzoo.algorithms.on_policy.ppo import PPO, SEARCH_SPACE
from rlzoo.callbacks.hyperparameter_schedule import HyperparameterSchedule
from rlzoo.cli.main import main
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import UserError
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.runs.run_folder import locked
from rlzoo.tuning.pbt import search
from rlzoo.tuning.pbt.population import (
    Explorer,
    Generation,
    Range,
    first_generation,
    lineage,
    next_generation,
    replay,
    sample,
)
from rlzoo.tuning.pbt.population_figures import population_figures
from rlzoo.tuning.pbt.population_study import (
    Population,
    load_population,
    open_population,
    rollout_steps,
)
from rlzoo.tuning.pbt.search import optimize_population
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.study.study import validate

SPACE = Space({key: SEARCH_SPACE[key] for key in ("learning_rate", "n_steps", "gamma", "n_epochs")})


def ranked(values: list[float | None]) -> list[Generation]:
    members = first_generation(SPACE, len(values), seed=1)
    return [replace(member, value=value) for member, value in zip(members, values, strict=True)]


def test_worst_copy_the_best_and_perturb() -> None:
    members = ranked([5.0, 1.0, 3.0, 9.0])
    following = next_generation(SPACE, members, seed=1)
    assert [member.parent for member in following] == [0, 3, 2, 3]
    assert [member.interval for member in following] == [1] * 4
    assert following[1].params != members[3].params
    assert following[1].params["log2(n_steps)"] == members[3].params["log2(n_steps)"]  # cannot change
    assert [following[i].params == members[i].params for i in (0, 2, 3)] == [True] * 3


def test_members_without_a_value_are_replaced() -> None:
    following = next_generation(SPACE, ranked([None, None, None, 2.0]), seed=1)
    assert [member.parent for member in following] == [3, 3, 3, 3]


def test_populations_follow_from_the_seed() -> None:
    assert first_generation(SPACE, 3, 5) == first_generation(SPACE, 3, 5)
    assert first_generation(SPACE, 3, 5) != first_generation(SPACE, 3, 6)
    members = ranked([1.0, 2.0, 3.0, 4.0])
    assert next_generation(SPACE, members, 5) == next_generation(SPACE, members, 5)


def test_suggestions_stay_in_their_ranges() -> None:
    for seed in range(200):
        explorer = Explorer(np.random.default_rng(seed), {"x": 0.9, "n": 3, "c": "a"})
        assert 0.5 <= explorer.suggest_float("x", 0.5, 1.0, log=True) <= 1.0
        assert explorer.suggest_int("n", 1, 3) in (1, 2, 3)
        assert explorer.suggest_categorical("c", ("a", "b")) in ("a", "b")
    explorer = Explorer(np.random.default_rng(0), {"x": 0.9})
    explorer.frozen = True
    assert explorer.suggest_float("x", 0.5, 1.0) == 0.9
    assert FloatDistribution(0.5, 1.0)._contains(explorer.params["x"])


def test_linear_ranges_are_perturbed_by_their_width() -> None:
    assert Range(0.8, 1.0).perturbed(0.9, 1.2) == pytest.approx(0.94)
    assert Range(1e-4, 1e-2, log=True).perturbed(1e-3, 0.8) == pytest.approx(8e-4)
    values = [Explorer(np.random.default_rng(k), {"x": 0.9}).suggest_float("x", 0.8, 1.0) for k in range(50)]
    assert min(values) > 0.8 and max(values) < 1.0


def test_replay_returns_what_was_sampled() -> None:
    explorer = Explorer(np.random.default_rng(3), {})
    assert sample(SPACE, explorer) == replay(SPACE, explorer.params)


def test_lineage_goes_back_to_the_first_interval() -> None:
    history = [
        [Generation(number, interval, parent, {}) for number, parent in enumerate(parents)]
        for interval, parents in enumerate([(0, 1, 2), (0, 1, 1), (2, 1, 2)])
    ]
    assert [member.member for member in lineage(history, 0)] == [1, 2, 0]


def config(folder: Path, **changes: object) -> TuneConfig:
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        n_timesteps=128,
        seed=3,
        hyperparams={"n_steps": 16, "n_envs": 1, "batch_size": 16, "n_epochs": 1},
        eval_episodes=1,
        verbose=0,
        log_folder=str(folder),
    )
    return TuneConfig(run=replace(run, **changes))  # type: ignore[arg-type]


def test_population_is_trained_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = optimize_population(config(tmp_path / "whole"), 2, 64)
    train, calls = search._train_interval, []

    def stop_at_the_second(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        train(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "_train_interval", stop_at_the_second)
    assert not optimize_population(config(tmp_path / "cut"), 2, 64).is_done
    monkeypatch.setattr(search, "_train_interval", train)
    cut = optimize_population(config(tmp_path / "cut"), 2, 64)
    assert whole.is_done and cut.is_done
    whole.interval = 100  # of a version that gave the steps left over an interval of their own
    assert whole.n_intervals == 1 and whole.is_done
    whole.interval = 64
    members = [[(m.parent, m.params, m.value) for row in each.history for m in row] for each in (whole, cut)]
    assert members[0] == members[1]
    rows = list(csv.DictReader((whole.folder / "lineage.csv").open()))
    assert [row["interval"] for row in rows] == ["0", "0", "1", "1"]
    (worst,) = [row for row in rows[2:] if row["parent"] != row["member"]]
    assert float(worst["steps"]) >= 128
    with pytest.raises(UserError, match="begun with population size 2, not 3"):
        optimize_population(config(tmp_path / "cut"), 3, 64)
    with pytest.raises(UserError, match="begun with scheduler 'pbt', not 'pb2'"):
        optimize_population(config(tmp_path / "cut"), 2, 64, "pb2")
    assert (whole.output(0, 1) / "agent.zip").is_file()
    flags = ["--conf-file", str(whole.folder / "schedule.yml"), "-f", str(tmp_path), "--eval-freq", "0"]
    assert main(["train", "--algo", "ppo", "--env", "CartPole-v1", *flags]) == 0
    assert "Done after 128 steps" in capsys.readouterr().out
    assert read_yaml(whole.folder / "schedule.yml")["CartPole-v1"]["n_steps"] == 16


class Trainer:
    """Trains no agent: the return of a member follows from its hyperparameters and that of its parent.

    :param stops_at: interval before which it is interrupted
    """

    def __init__(self, stops_at: int = -1) -> None:
        self.stops_at = stops_at

    def __call__(self, population: Population, pool: object, threads: int, verbose: int) -> None:
        for member in population.history[-1]:
            if member.interval == self.stops_at:
                raise KeyboardInterrupt
            before = population.history[-2][member.parent].value if member.interval else 0.0
            rate = float(str(member.params["learning_rate"]))
            member.value = (before or 0.0) + 1.0 - abs(np.log10(rate) + 3.0)
            member.n_steps = population.steps_after(member.interval)
        population.save()


def test_bandits_are_repeatable_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    populations = []
    for name, stops in {"whole": [-1], "again": [-1], "cut": [2, 3, -1]}.items():
        for stop in stops:
            monkeypatch.setattr(search, "_train_interval", Trainer(stop))
            tuning = replace(config(tmp_path / name), figures=name == "whole")
            last = optimize_population(tuning, 4, 32, "pb2")
        populations.append(last)
    whole, again, cut = populations
    assert whole.is_done and whole.history == again.history == cut.history
    assert not (cut.folder / "report.html").exists()
    page = (whole.folder / "report.html").read_text()
    assert "population based bandits" in page and "Lineage of the winner" in page
    (whole.folder / "report.html").unlink()
    assert main(["optimize", "--report", whole.folder.name, "-f", str(tmp_path / "whole")]) == 0
    assert "lineage.csv, schedule.yml, report.html" in capsys.readouterr().out
    assert (whole.folder / "report.html").read_text() == page
    state = whole.folder / "pbt.json"
    state.write_text(state.read_text().replace('"parent": 1', '"parent": 9'))
    assert main(["optimize", "--report", whole.folder.name, "-f", str(tmp_path / "whole")]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_figures_show_the_lineage_of_the_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_train_interval", Trainer())
    tuning = replace(config(tmp_path), figures=False)
    population = optimize_population(tuning, 4, 32)
    returns, hyperparameters = population_figures(population)
    series = {each.label: each for each in returns.panels[0].series}
    line = population.winner
    assert [member.interval for member in line] == [0, 1, 2, 3]
    assert list(series["winner's lineage"].y) == [member.value for member in line]
    assert list(series["winner's lineage"].x) == [32, 64, 96, 128]
    copies = [m for row in population.history for m in row if m.parent != m.member]
    assert len(series["copied"].y) == 3 * len(copies) > 0  # parent, child, gap
    titles = [panel.y.title for panel in hyperparameters.panels]
    assert {"learning_rate", "gamma", "gae_lambda", "clip_range"} <= set(titles)
    rates = hyperparameters.panels[titles.index("learning_rate")].series[-1]
    assert list(rates.y) == [member.params["learning_rate"] for member in [*line, line[-1]]]


def test_schedule_changes_hyperparameters_in_time() -> None:
    seen: list[tuple[int, float, float]] = []

    class Recorder(HyperparameterSchedule):
        def _on_rollout_end(self) -> None:
            learning_rate = self.model.schedules["learning_rate"](1.0)
            seen.append((self.model.num_timesteps, learning_rate, self.model.config.gamma))

    changes = [[32, {"learning_rate": 0.5}], [64, {"gamma": 0.5}]]
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1), n_steps=32, batch_size=32, n_epochs=1)
    model.learn(96, callback=Recorder(changes))
    assert seen == [(32, 3e-4, 0.99), (64, 0.5, 0.99), (96, 0.5, 0.5)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([[1, {"n_steps": 3}]], "n_steps cannot change during training"),
        ([[2, {}], [1, {}]], "the steps must increase"),
        ([[1, 0.5]], "pairs of steps and hyperparameters"),
        ([[1]], "pairs"),
        ([["many", {}]], "steps must be an integer of at least 0, not 'many'"),
        ([[-5, {}]], "steps must be an integer of at least 0, not -5"),
        (5, "expected a list of pairs"),
    ],
)
def test_wrong_schedules_are_refused(changes: list[list[object]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        HyperparameterSchedule(changes)


def test_steps_of_a_schedule_may_be_written_as_a_float() -> None:
    assert HyperparameterSchedule([[1e2, {"gamma": 0.9}]]).changes == [(100, {"gamma": 0.9})]


def test_rollouts_of_all_members_fit_into_an_interval(tmp_path: Path) -> None:
    given = config(tmp_path, n_timesteps=512)
    given = replace(given, run=replace(given.run, hyperparams={"n_envs": 1, "batch_size": 8, "n_epochs": 1}))
    settings, space = validate(given)
    for seed in range(5):
        opened = replace(given, study_name=f"seed_{seed}")
        members = open_population(opened, replace(settings, seed=seed), space, "pbt", 6, 64).history[0]
        assert (
            [member.member for member in members] == [member.parent for member in members] == list(range(6))
        )
        population = load_population(opened.folder)
        steps = [rollout_steps(population.resolved(member)) for member in members]
        assert max(steps) <= 64 and len(set(steps)) > 1


def test_entropy_coefficient_of_copies_changes(tmp_path: Path) -> None:
    values = {"learning_starts": 20, "train_freq": 20, "gradient_steps": 1, "batch_size": 8, "n_envs": 1}
    given = config(tmp_path, algo="sac", env_id="Pendulum-v1", n_timesteps=200, hyperparams=values)
    population = optimize_population(given, 4, 100)
    copies = [member for member in population.history[1] if member.parent != member.member]
    assert copies and not any(member.error for member in population.history[1])


def test_search_refuses_the_folder_of_a_population(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["optimize", "--algo", "ppo", "--env", "CartPole-v1", "-f", str(tmp_path), "--study-name", "one"]
    (tmp_path / "optimize" / "one").mkdir(parents=True)
    (tmp_path / "optimize" / "one" / "pbt.json").write_text("{}")
    assert main([*flags, "-n", "64", "--n-trials", "1"]) == 2
    assert "holds a population" in capsys.readouterr().err


def test_one_command_at_a_time_trains_a_population(tmp_path: Path) -> None:
    given = config(tmp_path)
    settings, space = validate(given)
    population = open_population(given, settings, space, "pbt", 4, 32)
    with locked(population.folder), pytest.raises(UserError, match="is being trained by process"):
        optimize_population(given, 4, 32)


def test_mistake_in_a_later_environment_is_found_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", "CartPole-v1", "Foo-v0", "-n", "200", "--population-size", "2", "-f", str(tmp_path)]
    assert main(["optimize", "--algo", "ppo", "--scheduler", "pbt", *flags]) == 2
    assert "Foo-v0" in capsys.readouterr().err
    assert not (tmp_path / "optimize").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--algo", "dqn"], "--scheduler pbt trains ppo"),
        (["--scheduler", "ptb"], "did you mean 'pbt'?"),
        (["--population-size", "1"], "at least 2"),
        (["--perturbation-interval", "0"], "at least 1"),
        (["-n", "200", "--perturbation-interval", "150"], "leaves no second interval in 200 steps"),
        (["-n", "400", "-params", "n_steps:64", "n_envs:1", "--perturbation-interval", "50"], "do not fit"),
        (["--scheduler", "pb2", "--algo", "dqn"], "--scheduler pb2 trains ppo"),
        (["--scheduler", "pb2", "--space", "SPACE"], "pb2 needs a range of numbers"),
    ],
)
def test_wrong_flags_of_pbt_are_one_line(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "space.yml").write_text("gamma: [0.9, 0.99]\nn_steps: {low: 8, high: 64}\n")
    flags = [str(tmp_path / "space.yml") if flag == "SPACE" else flag for flag in flags]
    folder = ["-f", str(tmp_path / "logs")]
    assert main(["optimize", "--scheduler", "pbt", "--env", "CartPole-v1", *folder, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert not list((tmp_path / "logs").rglob("*.*"))  # no file is left behind
