"""Playing agents to score them: whose file, which episodes, and when the score holds."""

from __future__ import annotations

import dataclasses
import errno
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from rlzoo.benchmark import scoring
from rlzoo.benchmark.finished import mark_begun, mark_finished
from rlzoo.benchmark.scores import SCORE, Score, digest, read_score_file, write_score
from rlzoo.benchmark.scoring import find_agents, kept_score, score_all, score_run
from rlzoo.config.benchmark import HELD_OUT, SELECTION, Expert, Row
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.evaluation.evaluate import Episodes, play_episodes
from rlzoo.experiment.import_run import ImportConfig, import_runs
from rlzoo.experiment.training_run import train
from rlzoo.io.trust import trust
from rlzoo.runs.run_folder import read_run

PARENT = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from rlzoo.benchmark.scoring import _begin

def play():
    print("playing", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        pool.submit(play).result()
"""
SHORT = {"n_envs": 2, "n_steps": 32, "batch_size": 64}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run: 64 steps of PPO with seed 5."""
    folder = tmp_path_factory.mktemp("logs")
    run = RunConfig(
        algo="ppo", env_id="CartPole-v1", seed=5, n_timesteps=64, hyperparams=SHORT, log_folder=str(folder),
        verbose=0, eval_freq=-1, num_threads=1,
    )  # fmt: skip
    return train(run).folder


@pytest.fixture
def agent(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "ppo" / trained.name)


def test_a_score_says_who_played_what(agent: Path) -> None:
    mark_finished(agent, 2.5)
    score = score_run(agent, episodes=4)
    assert (score.algo, score.env_id, score.seed) == ("ppo", "CartPole-v1", 5)
    assert (score.n_timesteps, score.episodes, score.evaluation_seed) == (64, 4, HELD_OUT)
    assert score.deterministic and score.success_rate is None
    assert score.mean == score.mean_length  # a reward of 1 for each step
    assert score.training_seconds == 2.5
    assert score.sha256 == digest(agent / "CartPole-v1.zip")
    assert score.trained_with["versions"]["rlzoo"]


def test_agents_are_scored_on_one_thread(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, before = [], torch.get_num_threads()

    def play(*args: Any, **kwargs: Any) -> Any:
        seen.append(torch.get_num_threads())
        return play_episodes(*args, **kwargs)

    monkeypatch.setattr(scoring, "play_episodes", play)
    torch.set_num_threads(2)
    try:
        score_run(agent, episodes=1)
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def zoo_run(tmp_path: Path) -> Path:
    """A run folder as RL Baselines3 Zoo writes it, of an agent with running statistics."""
    folder = tmp_path / "zoo" / "ppo" / "Pendulum-v1_1"
    (folder / "Pendulum-v1").mkdir(parents=True)
    files = Path(__file__).parents[1] / "interop" / "sb3_files" / "2.9.2"
    shutil.copyfile(files / "ppo_normalized.zip", folder / "Pendulum-v1.zip")
    statistics = folder / "Pendulum-v1" / "vecnormalize.pkl"
    shutil.copyfile(files / "ppo_normalized_vecnormalize.pkl", statistics)
    (folder / "Pendulum-v1" / "config.yml").write_text(
        "!!python/object/apply:collections.OrderedDict\n- - - n_envs\n    - 1\n  - - n_timesteps\n    - 64\n"
        "  - - normalize\n    - true\n  - - policy\n    - MlpPolicy\n"
        "  - - policy_kwargs\n    - dict(net_arch=[6])\n"
    )
    (folder / "Pendulum-v1" / "args.yml").write_text(
        "!!python/object/apply:collections.OrderedDict\n- - - algo\n    - ppo\n  - - env\n    - Pendulum-v1\n"
        "  - - env_kwargs\n    - g: 1.0\n  - - gym_packages\n    - []\n  - - seed\n    - 7\n"
        "  - - study_name\n    - null\n"
    )
    return folder


def test_zoo_run_scores_as_the_imported_one(zoo_run: Path, tmp_path: Path) -> None:
    assert find_agents(tmp_path) == [zoo_run]
    score = score_run(zoo_run, episodes=2)
    assert (score.algo, score.env_id, score.seed, score.n_timesteps) == ("ppo", "Pendulum-v1", 7, 64)
    assert set(score.trained_with.values()) == {None} and score.training_seconds is None
    (imported,) = import_runs(ImportConfig(source=str(zoo_run), output=str(tmp_path / "logs")))
    assert score.mean == score_run(imported, episodes=2).mean
    (zoo_run / "Pendulum-v1" / "args.yml").write_text("{algo: ppo, env: Pendulum-v1, seed: 7}")
    assert score.mean != score_run(zoo_run, episodes=2).mean  # with the usual gravity


def test_zoo_score_is_kept(zoo_run: Path) -> None:
    write_score(zoo_run / SCORE, score_run(zoo_run, episodes=1))
    (result,) = score_all([zoo_run], episodes=1)
    assert result.cached and result.score is not None and result.score.seed == 7


def test_a_score_is_the_same_every_time(agent: Path) -> None:
    first, second = score_run(agent, episodes=12), score_run(agent, episodes=12)
    assert (first.mean, first.std, first.median) == (second.mean, second.std, second.median)


@pytest.mark.parametrize("stochastic", [False, True])
def test_where_and_how_an_agent_plays_for_its_score(agent: Path, monkeypatch, stochastic: bool) -> None:
    seeds, ways = [], []
    build = scoring.build_evaluation_env

    def record(resolved, env_id, n_envs, seed, *others):
        seeds.append(seed)
        return build(resolved, env_id, n_envs, seed, *others)

    def lopsided(model, env, episodes, deterministic):
        ways.append(deterministic)
        return Episodes([1.0, 2.0, 9.0], [3, 4, 5], [None] * 3)

    monkeypatch.setattr(scoring, "plays_stochastically", lambda env_id: stochastic)
    monkeypatch.setattr(scoring, "build_evaluation_env", record)
    monkeypatch.setattr(scoring, "play_episodes", lopsided)
    score = score_run(agent, episodes=3)
    assert (seeds, ways, score.deterministic) == ([1_000_000], [not stochastic], not stochastic)
    assert (score.mean, score.median, score.mean_length) == (4.0, 2.0, 4.0)
    assert score.std == pytest.approx((38 / 3) ** 0.5)


def test_scoring_finds_finished_agents_at_any_depth(agent: Path, tmp_path: Path) -> None:
    unfinished = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    assert find_agents(tmp_path) == [agent, unfinished]
    (unfinished / "CartPole-v1.zip").unlink()
    assert find_agents(tmp_path) == find_agents(agent) == [agent]
    (agent / "CartPole-v1.zip").unlink()
    with pytest.raises(UserError, match="no trained agent"):
        find_agents(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        find_agents(tmp_path / "nowhere")


def test_what_a_benchmark_was_killed_in_is_no_agent(agent: Path, tmp_path: Path) -> None:
    other = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    mark_begun(other)
    assert find_agents(tmp_path) == [agent]
    mark_finished(other, 1.0)
    assert find_agents(tmp_path) == [agent, other]


def test_a_damaged_folder_is_no_end_of_the_others(agent: Path, tmp_path: Path) -> None:
    other = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    (other / "CartPole-v1" / "args.yml").write_text("{")
    scored = {result.folder: result for result in score_all(find_agents(tmp_path), episodes=1)}
    assert scored[agent].score is not None
    assert scored[other].score is None and "args.yml" in scored[other].problem


def test_agents_play_in_as_many_processes_as_are_asked_for(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Pool(ProcessPoolExecutor):
        def __init__(self, n_jobs: int, context, initializer) -> None:
            asked.append(n_jobs)
            super().__init__(n_jobs, context, initializer=initializer)

    other = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    monkeypatch.setattr(scoring, "ProcessPoolExecutor", Pool)
    results = list(score_all([agent, other], episodes=1, n_jobs=2))
    assert asked == [2] and all(result.score is not None for result in results)


def test_scoring_process_uses_one_thread_and_short_warnings(monkeypatch, capsys) -> None:
    monkeypatch.setattr(signal, "signal", lambda *args: None)  # of this process
    threads: list[int] = []
    monkeypatch.setattr(scoring.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(scoring, "end_with_parent", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        scoring._begin()
        warnings.warn("an old\nname", UserWarning, stacklevel=1)
    assert threads == [1] and capsys.readouterr().err == "rlzoo: an old name\n"


def test_a_file_that_changes_while_it_is_played_gets_no_score(agent: Path, monkeypatch) -> None:
    def meanwhile(*arguments):
        with (agent / "CartPole-v1.zip").open("ab") as file:
            file.write(b"more")
        return play_episodes(*arguments)

    monkeypatch.setattr(scoring, "play_episodes", meanwhile)
    with pytest.raises(RunFailed, match=r"CartPole-v1\.zip has changed while it was played"):
        score_run(agent, episodes=1)


def test_with_a_list_only_its_agents_are_found_and_no_experts(agent: Path, tmp_path: Path) -> None:
    clone = Row(algo="bc", env="CartPole-v1", expert=Expert(algo="ppo", seed=5, episodes=1))
    own = Row(algo="ppo", env="CartPole-v1", seeds=(0,))
    assert find_agents(tmp_path, [own]) == [agent]  # with whatever seed
    for rows in ([], [clone], [own, clone]):
        with pytest.raises(UserError, match="no trained agent of the list"):
            find_agents(tmp_path, rows)
    assert find_agents(tmp_path, [Row(algo="ppo", env="CartPole-v1", seeds=(5,)), clone]) == [agent]


def test_scores_of_a_choice_are_kept_apart(agent: Path) -> None:
    write_score(agent / SCORE, score_run(agent, 2))
    (ended,) = score_all([agent], episodes=3, evaluation_seed=SELECTION)
    assert (ended.score.evaluation_seed, ended.cached) == (SELECTION, False)
    (kept,) = read_score_file(agent / "selection.json")
    assert kept == ended.score and read_score_file(agent / SCORE)[0].evaluation_seed == HELD_OUT
    (again,) = score_all([agent], episodes=3, evaluation_seed=SELECTION)
    assert again.cached and kept_score(agent, read_run(agent), 3) is None


def test_a_run_of_a_variant_is_of_the_row_with_its_name(agent: Path, tmp_path: Path) -> None:
    mark_begun(agent, "big")
    mark_finished(agent, 1.0)
    assert score_run(agent, 1).key == ("big", "CartPole-v1")
    assert find_agents(tmp_path, [Row(algo="ppo", env="CartPole-v1", name="big")]) == [agent]
    for other in (Row(algo="ppo", env="CartPole-v1"), Row(algo="a2c", env="CartPole-v1", name="big")):
        with pytest.raises(UserError, match="no trained agent of the list"):
            find_agents(tmp_path, [other])


def test_a_kept_score_holds_for_this_file_and_no_more_episodes(agent: Path) -> None:
    write_score(agent / SCORE, score_run(agent, episodes=2))
    run, kept = read_run(agent), (agent / SCORE).read_text()
    assert kept_score(agent, run, 2) is not None and kept_score(agent, run) is not None
    assert kept_score(agent, run, 3) is None and kept_score(agent, run, 1) is not None
    (agent / SCORE).write_text(kept.replace('"deterministic": true', '"deterministic": false'))
    assert kept_score(agent, run) is None
    assert kept_score(agent, dataclasses.replace(run, seed=6)) is None
    (agent / SCORE).write_text(kept.replace(str(HELD_OUT), "7"))
    assert kept_score(agent, run) is None
    (agent / SCORE).write_text("{")
    assert kept_score(agent, run) is None
    (agent / SCORE).write_text(kept)
    (agent / "CartPole-v1.zip").write_bytes(b"another agent")
    assert kept_score(agent, run, 2) is None


def test_where_nobody_says_how_many_episodes_a_kept_score_holds(agent: Path) -> None:
    write_score(agent / SCORE, score_run(agent, episodes=2))
    (result,) = score_all([agent])
    assert result.cached and result.score is not None and result.score.episodes == 2


def test_fewer_episodes_do_not_replace_a_score(agent: Path) -> None:
    write_score(agent / SCORE, score_run(agent, episodes=4))
    (result,) = score_all([agent], episodes=3)
    assert result.cached and read_score_file(agent / SCORE)[0].episodes == 4


def test_unreadable_model_does_not_stop_scoring(agent: Path, tmp_path: Path) -> None:
    other = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    (other / "CartPole-v1.zip").unlink()
    (other / "CartPole-v1.zip").mkdir()
    scored = {result.folder: result for result in score_all([agent, other], episodes=1)}
    assert scored[agent].score is not None
    assert f"cannot read {other / 'CartPole-v1.zip'}: Is a directory" in scored[other].problem


def test_how_long_the_training_took_is_not_forgotten(agent: Path) -> None:
    """A collection has no finished.json, but may be played again with more episodes."""
    write_score(agent / SCORE, dataclasses.replace(score_run(agent, episodes=2), training_seconds=12.5))
    assert score_run(agent, episodes=3).training_seconds == 12.5
    for text in ("{}", '{"seconds": NaN}', '{"seconds": -1}', '{"seconds": "long"}'):
        (agent / "finished.json").write_text(text)
        with pytest.raises(UserError, match=r"finished\.json does not say how long"):
            score_run(agent, episodes=2)
    for text in ("[", "3"):
        (agent / "finished.json").write_text(text)
        with pytest.raises(UserError, match=r"finished\.json is damaged"):
            score_run(agent, episodes=2)


def test_what_a_killed_process_left_half_written_is_no_agent(agent: Path, tmp_path: Path) -> None:
    shutil.copytree(agent, agent.with_name(".CartPole-v1_1-0a1b"))
    assert find_agents(tmp_path) == [agent]


def test_a_process_that_dies_loses_one_agent(agent: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "deadly_import.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    trust(["deadly_import"])
    deadly = shutil.copytree(agent, tmp_path / "deadly" / "ppo" / "CartPole-v1_1")
    args = deadly / "CartPole-v1" / "args.yml"
    args.write_text(args.read_text().replace("gym_packages: []", "gym_packages: [deadly_import]"))
    results = {result.folder: result for result in score_all([deadly, agent], episodes=1)}
    assert results[deadly].problem == "the process that played it died"
    assert results[agent].score is not None and not results[agent].problem


def test_no_failure_stops_scoring_of_other_agents(agent: Path, monkeypatch) -> None:
    failed: Future[Score] = Future()
    failed.set_exception(ZeroDivisionError("in an environment"))
    assert scoring._outcome(agent, failed).problem == "ZeroDivisionError: in an environment"

    def closed(path: Path, score: Score) -> None:
        raise RunFailed(f"cannot write {path}: Permission denied")

    monkeypatch.setattr(scoring, "write_score", closed)
    played: Future[Score] = Future()
    played.set_result(score_run(agent, 1))
    result = scoring._outcome(agent, played)
    assert result.score == played.result() and "Permission denied" in result.problem


def test_returns_that_are_no_numbers_are_no_score(agent: Path, monkeypatch) -> None:
    played = Episodes([1.0, float("nan")], [1, 1], [None, None])
    monkeypatch.setattr(scoring, "play_episodes", lambda *arguments: played)
    with pytest.raises(RunFailed, match="CartPole-v1 gives returns that are no finite numbers"):
        score_run(agent, 2)


def test_interrupted_scoring_ends_its_processes(agent: Path, tmp_path: Path) -> None:
    folders = [
        agent,
        *(shutil.copytree(agent, tmp_path / f"seed{n}" / "ppo" / "CartPole-v1_1") for n in "12"),
    ]
    for folder in folders:
        (folder / SCORE).unlink(missing_ok=True)
    scored = score_all(folders, episodes=1_000_000, n_jobs=1)
    main_thread = threading.main_thread().ident
    threading.Timer(3.0, signal.pthread_kill, [main_thread, signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(scored)
    assert time.monotonic() - began < 20
    for process in multiprocessing.active_children():
        process.join(20)
        assert process.exitcode is not None


def test_workers_that_cannot_start_are_said(agent: Path, monkeypatch) -> None:
    def refuse(*args: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    (agent / SCORE).unlink(missing_ok=True)
    monkeypatch.setattr(ProcessPoolExecutor, "submit", refuse)
    with pytest.raises(RunFailed, match="worker processes cannot be started: Broken pipe"):
        next(score_all([agent], episodes=1))


@pytest.mark.slow
def test_scoring_processes_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline()  # the child plays
    parent.kill()
    parent.communicate(timeout=20)  # to the end: nobody has it open any more


def test_agents_are_scored_once_and_one_that_fails_is_no_end(agent: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    (damaged / "CartPole-v1.zip").write_bytes(b"PK")
    row = Row(algo="ppo", env="CartPole-v1", episodes=3)
    results = {result.folder: result for result in score_all([damaged, agent], [row])}
    assert "no intact model file" in results[damaged].problem and results[damaged].score is None
    assert not (damaged / SCORE).exists()
    first = results[agent].score
    assert first is not None and first.episodes == 3 and not results[agent].cached
    assert read_score_file(agent / SCORE) == [first]
    (again,) = score_all([agent], [row])
    assert again.cached and again.score == first
    assert json.loads((agent / SCORE).read_text())["seed"] == 5
