"""One trial: what is trained, evaluated, reported and written down, with real trainings of a second."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import yaml
from optuna.trial import TrialState, create_trial

from rlzoo.callbacks.trial_eval_callback import TrialEvalCallback
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import dump_yaml, plain
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.experiment import factories, session
from rlzoo.experiment.factories import evaluation_seed
from rlzoo.experiment.resolve import resolve_run
from rlzoo.params.search_parameters import Float, Int
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study import objective
from rlzoo.tuning.study.objective import aggregate_evaluations, run_trial, training_seed
from rlzoo.tuning.study.stopping import Stop, Stopped

SMALL_NET: dict[str, Any] = {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [8]}}
OFF_POLICY: dict[str, Any] = {**SMALL_NET, "learning_starts": 20, "batch_size": 8, "buffer_size": 500}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {**SMALL_NET, "n_envs": 2, "n_steps": 20, "batch_size": 20, "n_epochs": 2}),
    "a2c": ("Pendulum-v1", {**SMALL_NET, "n_envs": 2, "normalize": True}),
    "dqn": ("CartPole-v1", OFF_POLICY),
    "sac": ("Pendulum-v1", {**OFF_POLICY, "train_freq": [1, "episode"], "gradient_steps": 5}),
    "her": (
        "BitFlipping-v0",
        {**OFF_POLICY, "policy": "MultiInputPolicy", "model_class": "dqn", "learning_starts": 40},
    ),
    "bc": ("CartPole-v1", {**SMALL_NET, "batch_size": 30}),
    "acer": ("CartPole-v1", {**SMALL_NET, "n_envs": 2}),
    "ars": ("CartPole-v1", {"policy": "LinearPolicy", "n_delta": 2, "n_envs": 2, "normalize": True}),
    "ppo_lstm": (
        "CartPole-v1",
        {
            "policy": "MlpLstmPolicy",
            "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8},
            "n_envs": 2,
            "n_steps": 20,
            "batch_size": 20,
            "n_epochs": 1,
        },
    ),
}


def settings_for(algo: str = "ppo", n_timesteps: int = 200, **changes: Any) -> StudySettings:
    """A short training of each algorithm, evaluated four times."""
    env_id, values = CONFIGS[algo]
    values = {**values, "n_timesteps": n_timesteps, **changes.pop("values", {})}
    rows = changes.pop("rows", {"learning_rate": Float(1e-4, 1e-2, log=True)})
    given = {
        "algo": algo,
        "env_id": env_id,
        "config": json.dumps(values),
        "space": Space(rows).to_json(),
        "seed": 3,
        "sampler": "random",
        "pruner": "none",
        "n_startup_trials": 2,
        "n_evaluations": 4,
        "eval_episodes": 1,
        "n_eval_envs": 1,
        "n_seeds": 1,
        "objective": "last",
        "device": "cpu",
    }
    return StudySettings(**{**given, **changes})


def new_trial(settings: StudySettings, pruner: Any = None, **attrs: Any) -> optuna.Trial:
    study = optuna.create_study(
        directions=settings.directions, sampler=optuna.samplers.RandomSampler(seed=1), pruner=pruner
    )
    study.add_trial(create_trial(state=TrialState.WAITING, user_attrs=attrs))
    return study.ask()


def attrs_of(trial: optuna.Trial) -> dict[str, Any]:
    return trial.study.get_trials()[trial.number].user_attrs


def reports_of(trial: optuna.Trial) -> dict[int, float]:
    return trial.study.get_trials()[trial.number].intermediate_values


class AlwaysPrune(optuna.pruners.BasePruner):
    """Prunes from a step on."""

    def __init__(self, step: int) -> None:
        self.step = step

    def prune(self, study: Any, trial: Any) -> bool:
        return trial.last_step is not None and trial.last_step >= self.step


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that should not be there would be found in an empty working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def evaluated_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of steps at each evaluation."""
    steps: list[int] = []
    evaluate = TrialEvalCallback._evaluate

    def noted(self: TrialEvalCallback) -> bool:
        assert self.num_timesteps == self.model.num_timesteps
        steps.append(self.num_timesteps)
        return evaluate(self)

    monkeypatch.setattr(TrialEvalCallback, "_evaluate", noted)
    return steps


# -- what is trained and evaluated ----------------------------------------------------------------


@pytest.mark.parametrize("algo", [algo for algo in CONFIGS if algo != "bc"])
def test_every_kind_of_loop_is_evaluated_evenly_and_at_its_end(
    algo: str, tmp_path: Path, evaluated_at: list[int]
) -> None:
    settings = settings_for(algo)
    trial = new_trial(settings)
    (value,) = run_trial(trial, settings, tmp_path / "study")
    attrs = attrs_of(trial)
    (evaluations,) = attrs["evaluations"]
    assert len(evaluated_at) == len(evaluations) == 4
    for steps, due in zip(evaluated_at[:3], (50, 100, 150), strict=True):
        assert due <= steps < due + 4
    assert evaluated_at[-1] == attrs["n_steps"] >= 200
    assert value == pytest.approx(np.mean(evaluations[-2:]))
    assert reports_of(trial) == dict(zip((1, 2, 3, 4), evaluations, strict=True))
    assert list(Path().iterdir()) == []
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["config.yml"]


def test_an_imitator_counts_rows_of_demonstrations(tmp_path: Path, evaluated_at: list[int]) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "expert.npz",
        obs=rng.normal(size=(60, 4)).astype(np.float32),
        actions=rng.integers(2, size=(60, 1)),
        rewards=np.ones(60),
        episode_returns=np.full(6, 10.0),
        episode_starts=np.arange(60) % 10 == 0,
    )
    expert = str(tmp_path / "expert.npz")
    settings = settings_for("bc", n_timesteps=600, expert=expert)
    run_trial(new_trial(settings), settings, tmp_path)
    assert evaluated_at == [150, 300, 450, 600]


def test_candidates_are_played_in_processes_where_cores_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = session.start_candidate_workers

    def counted(resolved: Any, run: Any, folder: Any, n_workers: int, policy: Any) -> Any:
        started.append(n_workers)
        return start(resolved, run, folder, n_workers, policy)

    monkeypatch.setattr(session, "start_candidate_workers", counted)
    settings = settings_for("ars")
    alone = new_trial(settings)
    run_trial(alone, settings, tmp_path, threads=1)
    assert started == []
    helped = new_trial(settings)
    run_trial(helped, settings, tmp_path, threads=2)
    assert started == [2]
    assert attrs_of(alone)["evaluations"] == attrs_of(helped)["evaluations"]


def test_what_is_drawn_lies_on_top_of_the_configuration(tmp_path: Path) -> None:
    rows = {"learning_rate": Float(1e-4, 1e-2, log=True), "n_epochs": Int(3, 5)}
    settings = settings_for(rows=rows)
    trial = new_trial(settings)
    run_trial(trial, settings, tmp_path)
    written = yaml.safe_load(attrs_of(trial)["hyperparams"])
    assert written["learning_rate"] == trial.params["learning_rate"]
    assert written["n_epochs"] == trial.params["n_epochs"]
    base = json.loads(settings.config)
    assert {key: value for key, value in written.items() if key not in rows} == {
        key: value for key, value in base.items() if key not in rows
    }


def test_trial_evaluation_shares_env_kwargs_and_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, bool]] = []
    play = TrialEvalCallback._play

    def noted(self: TrialEvalCallback) -> Any:
        assert isinstance(self.eval_env, VecNormalize) and isinstance(self.training_env, VecNormalize)
        assert not self.eval_env.training and not self.eval_env.norm_reward
        gravity = self.eval_env.get_attr("g")[0]
        same = bool((self.eval_env.obs_rms.mean == self.training_env.obs_rms.mean).all())
        seen.append((gravity, same and bool(self.eval_env.obs_rms.mean.any())))
        return play(self)

    monkeypatch.setattr(TrialEvalCallback, "_play", noted)
    settings = settings_for("a2c", values={"env_kwargs": {"g": 3.5}})
    run_trial(new_trial(settings), settings, tmp_path)
    assert seen == [(3.5, True)] * 4


@pytest.mark.parametrize(
    ("algo", "values"), [("her", {}), ("sac", {"noise_type": None}), ("a2c", {"normalize": {"gamma": 0.9}})]
)
def test_what_a_trial_trained_with_can_be_read_again(
    algo: str, values: dict[str, Any], tmp_path: Path
) -> None:
    settings = settings_for(algo, values=values)
    trial = new_trial(settings)
    run_trial(trial, settings, tmp_path)
    written = attrs_of(trial)["hyperparams"]
    (tmp_path / "trial.yml").write_text(written)
    run = RunConfig(algo=algo, env_id=settings.env_id, conf_file=str(tmp_path / "trial.yml"))
    assert dump_yaml(plain(resolve_run(run).values)) == written


def test_a_trial_can_carry_its_whole_configuration(tmp_path: Path) -> None:
    settings = settings_for(retrain=True)
    config = json.dumps({**json.loads(settings.config), "n_epochs": 3, "learning_rate": 0.002})
    trial = new_trial(settings, config=config)
    run_trial(trial, settings, tmp_path)
    assert trial.params == {}
    assert yaml.safe_load(attrs_of(trial)["hyperparams"]) == json.loads(config)


@pytest.mark.parametrize("stochastic", [True, False])
def test_trial_evaluation_is_deterministic_except_atari(
    stochastic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(objective, "plays_stochastically", lambda env_id: stochastic)
    monkeypatch.setattr(TrialEvalCallback, "_init_callback", lambda self: seen.append(self.deterministic))
    settings = settings_for(n_evaluations=1)
    run_trial(new_trial(settings), settings, tmp_path)
    assert seen == [not stochastic]


def test_best_agent_and_evaluations_are_kept_where_asked(tmp_path: Path) -> None:
    settings = settings_for(log_path=str(tmp_path / "log"), n_seeds=1)
    run_trial(new_trial(settings), settings, tmp_path)
    folder = tmp_path / "log" / "trial_0"
    assert sorted(path.name for path in folder.iterdir()) == ["best_model.zip", "evaluations.npz"]
    assert np.load(folder / "evaluations.npz")["timesteps"].tolist() == [50, 100, 150, 200]
    settings = settings_for(log_path=str(tmp_path / "log"), n_seeds=2)
    run_trial(new_trial(settings), settings, tmp_path)
    assert (folder / "seed_1" / "best_model.zip").is_file()


# -- seeds ----------------------------------------------------------------------------------------


def test_a_trial_that_is_taken_again_does_the_same(tmp_path: Path) -> None:
    settings = settings_for(n_seeds=2)
    trial = new_trial(settings)
    first, before = run_trial(trial, settings, tmp_path), attrs_of(trial)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = run_trial(trial, settings, tmp_path)
    assert again == first
    for name in ("seeds", "evaluations", "hyperparams", "n_steps"):
        assert attrs_of(trial)[name] == before[name]
    assert len(reports_of(trial)) == 8


def test_training_and_evaluation_seeds_are_distinct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[str, list[int]] = {"training": [], "evaluation": []}
    make = factories.make_vec_env

    def noted(env_id: str, **kwargs: Any) -> Any:
        kind = "training" if kwargs["n_envs"] == 2 else "evaluation"
        seeds[kind] += range(kwargs["seed"], kwargs["seed"] + kwargs["n_envs"])
        return make(env_id, **kwargs)

    monkeypatch.setattr(factories, "make_vec_env", noted)
    settings = settings_for(n_seeds=3)
    trial = new_trial(settings)
    run_trial(trial, settings, tmp_path)
    expected = [training_seed(settings, 0, k) for k in range(3)]
    assert attrs_of(trial)["seeds"] == expected == seeds["training"][::2]
    assert seeds["evaluation"] == [evaluation_seed(seed) for seed in expected]
    assert len({*seeds["training"], *seeds["evaluation"]}) == 9


def test_seeds_depend_on_study_trial_training_and_purpose() -> None:
    ones = settings_for(seed=1), settings_for(seed=2), settings_for(seed=1, retrain=True)
    seeds = [training_seed(one, number, k) for one in ones for number in range(10) for k in range(3)]
    assert len(set(seeds)) == 90
    assert all(0 <= seed < 2**31 for seed in seeds)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "evaluations", "expected"),
    [
        ("last", [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 5.0),
        ("last", [9.0, 9.0, 1.0, 3.0], 2.0),
        ("last", [9.0, 1.0, 3.0], 2.0),
        ("last", [7.0], 7.0),
        ("best", [1.0, 5.0, 2.0], 5.0),
        ("auc", [1.0, 5.0, 3.0], 3.0),
    ],
)
def test_what_evaluations_are_worth(kind: str, evaluations: list[float], expected: float) -> None:
    assert aggregate_evaluations(evaluations, kind) == expected


@pytest.mark.parametrize("kind", ["last", "best", "auc"])
def test_a_trial_is_the_mean_of_its_trainings(kind: str, tmp_path: Path) -> None:
    settings = settings_for(n_seeds=2, objective=kind)
    trial = new_trial(settings)
    (value,) = run_trial(trial, settings, tmp_path)
    first, second = attrs_of(trial)["evaluations"]
    assert value == pytest.approx(
        (aggregate_evaluations(first, kind) + aggregate_evaluations(second, kind)) / 2
    )
    reported = reports_of(trial)
    assert [reported[step] for step in range(1, 5)] == first
    assert [reported[step] for step in range(5, 9)] == pytest.approx(
        [(aggregate_evaluations(first, kind) + one) / 2 for one in second]
    )


def test_two_objectives_return_mean_and_seconds(tmp_path: Path) -> None:
    settings = settings_for(sampler="nsga2")
    trial = new_trial(settings)
    value, seconds = run_trial(trial, settings, tmp_path)
    assert value == pytest.approx(np.mean(attrs_of(trial)["evaluations"][0][-2:]))
    assert 0 < seconds == attrs_of(trial)["seconds"] < 60
    assert reports_of(trial) == {}


# -- pruning --------------------------------------------------------------------------------------


def test_a_pruned_trial_ends_at_once_and_says_how_far_it_came(tmp_path: Path) -> None:
    settings = settings_for(n_seeds=2, pruner="median")
    trial = new_trial(settings, AlwaysPrune(6))
    with pytest.raises(optuna.TrialPruned):
        run_trial(trial, settings, tmp_path)
    attrs = attrs_of(trial)
    assert [len(part) for part in attrs["evaluations"]] == [4, 2]
    assert attrs["n_steps"] == 200 + 100
    assert list(reports_of(trial)) == [1, 2, 3, 4, 5, 6]


def test_a_trial_that_is_through_is_not_pruned(tmp_path: Path) -> None:
    settings = settings_for(n_seeds=2, pruner="median")
    run_trial(new_trial(settings, AlwaysPrune(8)), settings, tmp_path)


def test_the_end_of_a_training_can_prune_the_next(tmp_path: Path) -> None:
    settings = settings_for(n_seeds=2, pruner="median")
    trial = new_trial(settings, AlwaysPrune(4))
    with pytest.raises(optuna.TrialPruned):
        run_trial(trial, settings, tmp_path)
    assert attrs_of(trial)["n_steps"] == 200


def test_wilcoxon_prunes_seed_by_seed(tmp_path: Path) -> None:
    settings = settings_for(n_seeds=3, pruner="wilcoxon")
    trial = new_trial(settings, AlwaysPrune(1))
    with pytest.raises(optuna.TrialPruned):
        run_trial(trial, settings, tmp_path)
    evaluations = attrs_of(trial)["evaluations"]
    assert [len(part) for part in evaluations] == [4, 4]
    assert reports_of(trial) == {k: aggregate_evaluations(part, "last") for k, part in enumerate(evaluations)}


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_return_that_is_no_number_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = TrialEvalCallback._play

    def spoiled(self: TrialEvalCallback) -> Any:
        episodes = play(self)
        episodes.returns[0] = math.nan
        return episodes

    monkeypatch.setattr(TrialEvalCallback, "_play", spoiled)
    settings = settings_for()
    with pytest.raises(RunFailed, match="an evaluation gave a mean return of nan"):
        run_trial(new_trial(settings), settings, tmp_path)


def test_hyperparameters_that_do_not_fit_are_named(tmp_path: Path) -> None:
    settings = settings_for("dqn", values={"learning_starts": -1})
    with pytest.raises(UserError, match="learning_starts must be at least 0"):
        run_trial(new_trial(settings), settings, tmp_path)


def test_a_trial_shorter_than_learning_starts_warns(tmp_path: Path) -> None:
    settings = settings_for("dqn", values={"learning_starts": 300})
    with pytest.warns(UserWarning, match="nothing is learned: learning_starts"):
        run_trial(new_trial(settings), settings, tmp_path)


def test_a_stop_waits_for_the_storage_and_then_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()
    settings = settings_for()
    trial = new_trial(settings)
    report = trial.report

    def slow(value: float, step: int) -> None:
        if step == 2:
            stop._on_signal(15, None)
        report(value, step)

    monkeypatch.setattr(trial, "report", slow)
    with pytest.raises(Stopped):
        run_trial(trial, settings, tmp_path, stop=stop)
    assert list(reports_of(trial)) == [1, 2]
    assert attrs_of(trial)["n_steps"] == 100


def test_a_stop_that_came_before_lets_no_training_begin(tmp_path: Path) -> None:
    stop = Stop()
    stop._on_signal(15, None)
    trial = new_trial(settings_for())
    with pytest.raises(Stopped):
        run_trial(trial, settings_for(), tmp_path, stop=stop)
    assert attrs_of(trial)["evaluations"] == []
