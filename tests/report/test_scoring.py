"""Playing agents to score them: whose file, which episodes, and when the score holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlzoo.config.benchmark import HELD_OUT, Expert, Row
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.experiment.train import train
from rlzoo.report.finished import mark_finished
from rlzoo.report.scores import SCORE, read_score_file, write_score
from rlzoo.report.scoring import digest, find_agents, kept_score, score_all, score_run

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


def test_a_score_is_the_same_every_time(agent: Path) -> None:
    first, second = score_run(agent, episodes=12), score_run(agent, episodes=12)
    assert (first.mean, first.std, first.median) == (second.mean, second.std, second.median)


def test_agents_are_found_at_any_depth_and_unfinished_runs_are_not(agent: Path, tmp_path: Path) -> None:
    unfinished = shutil.copytree(agent, tmp_path / "seed1" / "ppo" / "CartPole-v1_1")
    assert find_agents(tmp_path) == [agent, unfinished]
    (unfinished / "CartPole-v1.zip").unlink()
    assert find_agents(tmp_path) == find_agents(agent) == [agent]
    (agent / "CartPole-v1.zip").unlink()
    with pytest.raises(UserError, match="no trained agent"):
        find_agents(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        find_agents(tmp_path / "nowhere")


def test_with_a_list_only_its_agents_are_found_and_no_experts(agent: Path, tmp_path: Path) -> None:
    clone = Row(algo="bc", env="CartPole-v1", expert=Expert(algo="ppo", seed=5, episodes=1))
    own = Row(algo="ppo", env="CartPole-v1", seeds=(0,))
    assert find_agents(tmp_path, [own]) == [agent]  # with whatever seed
    for rows in ([], [clone], [own, clone]):
        with pytest.raises(UserError, match="no trained agent of the list"):
            find_agents(tmp_path, rows)
    assert find_agents(tmp_path, [Row(algo="ppo", env="CartPole-v1", seeds=(5,)), clone]) == [agent]


def test_a_kept_score_holds_for_this_file_and_as_many_episodes(agent: Path) -> None:
    write_score(agent / SCORE, score_run(agent, episodes=2))
    assert kept_score(agent, "CartPole-v1", 2) is not None
    assert kept_score(agent, "CartPole-v1", 3) is None
    (agent / "CartPole-v1.zip").write_bytes(b"another agent")
    assert kept_score(agent, "CartPole-v1", 2) is None
    (agent / SCORE).write_text("{")
    assert kept_score(agent, "CartPole-v1", 2) is None


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
