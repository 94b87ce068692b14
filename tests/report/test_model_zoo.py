"""Publishing agents of runs in the model zoo."""

from __future__ import annotations

import dataclasses
import json
import shutil
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import rlzoo
from rlzoo.benchmark import scoring
from rlzoo.benchmark.finished import mark_begun, mark_finished, row_name
from rlzoo.benchmark.model_zoo import NotPublished, Published, index, publish
from rlzoo.benchmark.scores import digest, read_score_file, write_score
from rlzoo.benchmark.scoring import score_run
from rlzoo.config.benchmark import HELD_OUT, SELECTION, Row
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train
from rlzoo.plots.runs import load_runs
from rlzoo.runs.pretrained_registry import read_registry
from rlzoo.runs.run_folder import read_run
from rlzoo.training.checkpoint import read_checkpoint

SMALL = {
    "ppo": {"n_envs": 1, "n_steps": 20, "batch_size": 20, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}},
    "sac": {"learning_starts": 10, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": 100},
}


def make_run(place: Path, algo: str, env_id: str, seed: int) -> Path:
    """A run as a benchmark leaves it."""
    words = f"--algo {algo} --env {env_id} --eval-freq -1 --log-folder {place} --num-threads 1 --verbose 0"
    run = RunConfig(
        algo=algo,
        env_id=env_id,
        seed=seed,
        n_timesteps=40,
        hyperparams=SMALL[algo],
        eval_freq=-1,
        verbose=0,
        num_threads=1,
        log_folder=str(place),
        device="cpu",
    )
    folder = train(run, f"rlzoo train {words}").folder
    mark_finished(folder, 12.5)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A whole benchmark in small; its PPO agent has been scored."""
    logs = tmp_path_factory.mktemp("work") / "logs"
    scored = make_run(logs / "seed0", "ppo", "CartPole-v1", 0)
    make_run(logs / "seed0", "sac", "Pendulum-v1", 0)
    make_run(logs / "seed1", "ppo", "CartPole-v1", 1)
    write_score(scored / "score.json", score_run(scored, 3))
    return logs


@pytest.fixture
def logs(trained, tmp_path, monkeypatch):
    """A copy, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "logs"))


PPO, SAC = Path("ppo/CartPole-v1_1"), Path("sac/Pendulum-v1_1")


def shipped(logs: Path, root: Path, **kwargs) -> dict[str, object]:
    return {
        agent.folder.relative_to(root).as_posix(): agent for agent in publish([logs], 0, root, 2, **kwargs)
    }


def test_the_runs_of_one_seed_are_taken_over(logs, tmp_path):
    root = tmp_path / "collection"
    agents = shipped(logs, root)
    assert list(agents) == [str(PPO), str(SAC)] and read_run(root / PPO).seed == 0
    files = sorted(
        path.relative_to(root / PPO).as_posix() for path in (root / PPO).rglob("*") if path.is_file()
    )
    assert files == [
        "CartPole-v1.zip",
        "CartPole-v1/args.yml",
        "CartPole-v1/config.yml",
        "command.txt",
        "score.json",
    ]
    source = logs / "seed0" / PPO
    for name in ("CartPole-v1.zip", "CartPole-v1/config.yml", "score.json"):  # nothing of a choice in it
        assert (root / PPO / name).read_bytes() == (source / name).read_bytes()
    (played,) = read_score_file(root / SAC / "score.json")  # it had no score
    assert (played.episodes, played.training_seconds) == (2, 12.5)
    assert not list(root.rglob(".*"))


def test_the_evaluations_of_a_training_come_along(logs, tmp_path):
    arrays = {"timesteps": np.array([20, 40]), "results": np.array([[9.0], [10.0]])}
    np.savez(logs / "seed0" / PPO / "evaluations.npz", **arrays)
    shipped(logs, tmp_path / "collection")
    assert load_runs(tmp_path / "collection" / PPO)["return"].tolist() == [9.0, 10.0]
    (logs / "seed1" / PPO / "evaluations.npz").write_bytes(b"damaged")
    with pytest.raises(UserError, match="evaluations"):
        list(publish([logs], 1, tmp_path / "collection", 2))
    assert len(load_runs(tmp_path / "collection" / PPO)) == 2


def test_nothing_names_a_folder_of_this_machine(logs, tmp_path):
    root = tmp_path / "collection"
    shipped(logs, root)
    for path in root.rglob("*"):
        if path.suffix in (".yml", ".txt", ".json"):
            assert str(tmp_path) not in path.read_text() and str(logs) not in path.read_text(), path
    assert (root / PPO / "command.txt").read_text() == (
        "rlzoo train --algo ppo --env CartPole-v1 --eval-freq -1 --seed 0\n"
    )
    run = read_run(root / PPO)
    assert (run.log_folder, run.num_threads, run.verbose) == ("logs", -1, 1)
    assert run == dataclasses.replace(
        read_run(logs / "seed0" / PPO), log_folder="logs", num_threads=-1, verbose=1
    )


def test_paths_below_the_working_directory_become_relative(logs, tmp_path):
    source, root = logs / "seed0" / PPO, tmp_path / "collection"
    expert = tmp_path / "experts" / "e.npz"
    command = f"rlzoo train --seed=0 --conf-file={tmp_path}/c.yml --expert {expert} -f {tmp_path}"
    (source / "command.txt").write_text(f"{command} --hyperparams gamma:0.9\n")
    args = source / "CartPole-v1" / "args.yml"
    args.write_text(args.read_text().replace("expert: ''", f"expert: {expert}"))
    shipped(logs, root)
    assert (root / PPO / "command.txt").read_text() == (
        "rlzoo train --seed=0 --conf-file=c.yml --expert experts/e.npz --hyperparams gamma:0.9\n"
    )
    assert read_run(root / PPO).expert == "experts/e.npz"


@pytest.mark.parametrize(
    "command",
    [
        "rlzoo train --expert /elsewhere/e.npz",
        "rlzoo train --conf-file=/elsewhere/c.yml",
        "rlzoo train --env-kwargs 'map:\"/elsewhere/m\"'",
        "rlzoo train --conf-file ~/c.yml",
        "rlzoo train -i/elsewhere/a.zip",
        "python mine.py",
        "",
    ],
)
def test_foreign_paths_and_commands_fail_before_writing(logs, tmp_path, command):
    (logs / "seed0" / SAC / "command.txt").write_text(command)
    with pytest.raises(UserError, match=r"not below the working directory|begins with `rlzoo train`"):
        shipped(logs, tmp_path / "collection")
    assert not (tmp_path / "collection").exists()


def test_a_large_agent_goes_without_what_only_training_needs(logs, tmp_path):
    root, source = tmp_path / "collection", logs / "seed0" / SAC / "Pendulum-v1.zip"
    limit = source.stat().st_size - 1
    agents = shipped(logs, root, max_bytes=limit)
    assert (agents[str(PPO)].actor_only, agents[str(SAC)].actor_only) == (False, True)
    file = root / SAC / "Pendulum-v1.zip"
    assert file.stat().st_size < limit / 3
    mine, theirs = read_checkpoint(file), read_checkpoint(source)
    assert mine.actor_only and mine.metadata["date"] == theirs.metadata["date"]
    assert mine.metadata["source_sha256"] == digest(source)
    (score,) = read_score_file(root / SAC / "score.json")
    assert score.sha256 == digest(file) and score.training_seconds == 12.5
    assert score.mean == score_run(logs / "seed0" / SAC, 2).mean  # it plays as the whole agent does
    with pytest.raises(UserError, match=r"Pendulum-v1_1 takes [\d,]+ bytes; 5,000 are allowed"):
        shipped(logs, tmp_path / "other", max_bytes=5000)


def test_shipped_agent_is_kept_or_replaced_whole(logs, tmp_path):
    root = tmp_path / "collection"
    limit = (logs / "seed0" / SAC / "Pendulum-v1.zip").stat().st_size - 1
    shipped(logs, root, max_bytes=limit)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert all(agent.unchanged for agent in shipped(logs, root, max_bytes=limit).values())
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before

    (root / PPO / "stray.txt").touch()
    agents = {agent.folder: agent for agent in publish([logs], 1, root, 2)}
    assert list(agents) == [root / PPO] and not agents[root / PPO].unchanged
    assert read_run(root / PPO).seed == 1 and not (root / PPO / "stray.txt").exists()
    assert not list(root.rglob(".*"))


def test_runs_that_cannot_be_told_apart(logs, tmp_path):
    assert (
        len(list(publish([logs, logs / "seed0"], 0, tmp_path / "collection", 2))) == 2
    )  # the same runs twice
    shutil.copytree(logs / "seed0" / PPO, logs / "seed0" / "ppo" / "CartPole-v1_2")
    with pytest.raises(UserError, match=r"CartPole-v1_1 and .*CartPole-v1_2 are both ppo on CartPole-v1"):
        shipped(logs, tmp_path / "collection")
    with pytest.raises(UserError, match="no trained agent with seed 7"):
        list(publish([logs], 7, tmp_path / "collection"))
    with pytest.raises(UserError, match="no trained agent of the list's seeds"):
        list(publish([logs], None, tmp_path / "collection", rows=[row_of(seeds=(7,))]))


def test_the_registry_is_made_from_the_folders(logs, tmp_path):
    root = tmp_path / "collection"
    shipped(logs, root)
    entries = index(root)
    assert entries == read_registry(root)
    (score,) = read_score_file(root / PPO / "score.json")
    assert entries[0].path == str(PPO) and entries[0].bytes == (root / PPO / "CartPole-v1.zip").stat().st_size
    assert (entries[0].mean, entries[0].sha256, entries[0].episodes) == (score.mean, score.sha256, 3)
    assert entries[0].date == score.trained_with["date"] and not entries[0].actor_only


def test_an_agent_without_its_own_score_is_no_entry(logs, tmp_path):
    root = tmp_path / "collection"
    shipped(logs, root)
    path = root / PPO / "score.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "sha256": "0" * 64}))
    with pytest.raises(UserError, match="is of another agent"):
        index(root)
    path.unlink()
    with pytest.raises(UserError, match=r"CartPole-v1_1 lacks score\.json"):
        index(root)
    (root / PPO / "CartPole-v1.zip").unlink()
    with pytest.raises(UserError, match=r"lacks CartPole-v1\.zip"):
        index(root)


def test_a_collection_that_cannot_be_written_is_one_line(logs, tmp_path):
    (tmp_path / "collection").write_text("a file")
    with pytest.raises(RunFailed, match=r"cannot write .*CartPole-v1_1: Not a directory"):
        shipped(logs, tmp_path / "collection")


def test_hyperparameters_stay_as_they_were(logs, tmp_path):
    shipped(logs, tmp_path / "collection")
    mine, theirs = (read_yaml(root / SAC / "Pendulum-v1" / "config.yml") for root in
                    (tmp_path / "collection", logs / "seed0"))  # fmt: skip
    assert mine == theirs


def test_an_actor_alone_is_no_start_of_a_training(logs, tmp_path):
    root, limit = tmp_path / "collection", (logs / "seed0" / SAC / "Pendulum-v1.zip").stat().st_size - 1
    shipped(logs, root, max_bytes=limit)
    agent = root / SAC / "Pendulum-v1.zip"
    start = {"trained_agent": str(agent), "log_folder": "new", "hyperparams": {"learning_starts": 10}}
    run = dataclasses.replace(read_run(logs / "seed0" / SAC), **start)
    with pytest.raises(UserError, match=r"Pendulum-v1\.zip holds the actor only: it plays, but cannot"):
        train(run)
    assert not (tmp_path / "new").exists()
    with pytest.raises(UserError, match=r"Pendulum-v1\.zip holds the actor only"):
        resume(root / SAC)


def test_a_new_score_is_taken_over_and_a_damaged_one_mended(logs, tmp_path):
    root = tmp_path / "collection"
    shipped(logs, root)
    assert shipped(logs, root)[str(PPO)].unchanged
    source = logs / "seed0" / PPO
    write_score(source / "score.json", score_run(source, 5))
    assert not shipped(logs, root)[str(PPO)].unchanged
    (score,) = read_score_file(root / PPO / "score.json")
    assert score.episodes == 5
    (root / PPO / "score.json").write_text("{")
    assert not shipped(logs, root)[str(PPO)].unchanged
    assert read_score_file(root / PPO / "score.json") == [score]


def test_what_a_killed_process_left_is_removed(logs, tmp_path):
    root = tmp_path / "collection"
    left = root / PPO.with_name(".CartPole-v1_1-0f0f0f0f-old")
    left.mkdir(parents=True)
    shipped(logs, root)
    assert not left.exists()


def test_a_collection_without_agents_has_no_registry(tmp_path):
    with pytest.raises(UserError, match="there is no agent in"):
        index(tmp_path)
    assert not list(tmp_path.iterdir())


def test_stopped_or_unreadable_runs_are_not_shipped(logs, tmp_path):
    whole, stopped = logs / "seed0" / SAC, logs / "seed0" / PPO
    model = rlzoo.PPO.load(stopped / "CartPole-v1.zip")
    model.counters.total_timesteps = 50
    model.save(stopped / "CartPole-v1.zip")
    with pytest.raises(UserError, match=r"ppo/CartPole-v1_1 stopped at step 40 of 50; `rlzoo train --resume"):
        list(publish([logs], 0, tmp_path / "agents"))
    shutil.rmtree(stopped)
    (whole / "Pendulum-v1.zip").write_bytes(b"PK")
    with pytest.raises(UserError, match="no intact model file"):
        list(publish([logs], 0, tmp_path / "agents"))
    assert not (tmp_path / "agents").exists()


# -- choosing among seeds


@pytest.fixture
def in_process(monkeypatch):
    """Agents play in this process; starting others takes seconds."""

    def played(waiting, n_jobs, evaluation_seed):
        for folder, episodes in waiting.items():
            future = Future()
            future.set_result(score_run(folder, episodes, evaluation_seed))
            yield folder, future

    monkeypatch.setattr(scoring, "_played", played)


def row_of(**changes) -> Row:
    values = {"algo": "ppo", "env": "CartPole-v1", "seeds": (0, 1), "episodes": 4, "required": 1}
    return Row(**{**values, **changes})


def chosen(logs: Path, root: Path, row: Row) -> Published | NotPublished:
    (result,) = publish([logs], None, root, rows=[row])
    return result


def test_the_best_seed_is_taken_over_with_how_it_was_chosen(logs, tmp_path):
    root = tmp_path / "collection"
    result = chosen(logs, root, row_of())
    selections = {}
    for seed in (0, 1):
        (selections[seed],) = read_score_file(logs / f"seed{seed}" / PPO / "selection.json")
    best = max((0, 1), key=lambda seed: selections[seed].mean)
    assert {score.evaluation_seed for score in selections.values()} == {SELECTION}
    assert result.score.seed == best and read_run(root / PPO).seed == best
    (score,) = read_score_file(root / PPO / "score.json")
    assert (score.evaluation_seed, score.n_candidates, score.selection_episodes) == (HELD_OUT, 2, 4)
    assert score.selection_score == selections[best].mean
    (entry,) = index(root)
    assert (entry.seed, entry.n_candidates, entry.selection_score, entry.selection_episodes) == (
        best, 2, score.selection_score, 4,
    )  # fmt: skip
    assert read_registry(root) == [entry] and entry.choice() == f"{best} of 2"
    assert chosen(logs, root, row_of()).unchanged
    assert not chosen(logs, root, row_of(seeds=(best,))).unchanged  # it was chosen otherwise
    list(publish([logs], best, root, rows=[row_of()]))
    (score,) = read_score_file(root / PPO / "score.json")
    assert score.n_candidates is score.selection_score is score.selection_episodes is None


def test_only_seeds_of_the_list_are_chosen_among(logs, tmp_path, in_process):
    result = chosen(logs, tmp_path / "collection", row_of(seeds=(1, 2)))
    assert (result.score.seed, result.score.n_candidates) == (1, 1)
    assert not (logs / "seed0" / PPO / "selection.json").exists()


def test_row_without_learning_seed_drops_its_agent(logs, tmp_path, in_process):
    root = tmp_path / "collection"
    list(publish([logs], 0, root, rows=[row_of()]))
    result = chosen(logs, root, row_of(required=501))
    assert isinstance(result, NotPublished) and result.removed == root / PPO and not (root / PPO).exists()
    assert "a return of 501.00 is required" in result.reason


def test_an_agent_of_other_runs_stays_when_none_has_learned(logs, tmp_path, in_process):
    root = tmp_path / "collection"
    list(publish([logs], 0, root, rows=[row_of()]))
    shutil.rmtree(logs / "seed0")
    result = chosen(logs, root, row_of(required=501))
    assert result.removed is None and (root / PPO).is_dir()


def test_without_a_list_best_seed_must_beat_random(logs, tmp_path, in_process):
    shutil.rmtree(logs / "seed0" / "ppo")
    shutil.rmtree(logs / "seed1")
    (result,) = publish([logs], None, tmp_path / "collection", 4)
    assert isinstance(result, NotPublished) and "is no better than random actions" in result.reason


def test_variants_are_agents_of_their_own_in_a_collection(logs, tmp_path, in_process):
    root = tmp_path / "collection"
    variant = logs / "seed0" / "big" / PPO
    shutil.copytree(logs / "seed0" / PPO, variant)
    mark_begun(variant, "big")
    mark_finished(variant, 1.0)
    for name in ("score.json", "selection.json"):
        (variant / name).unlink(missing_ok=True)
    rows = [row_of(), row_of(name="big")]
    results = list(publish([logs], None, root, rows=rows))
    places = [result.folder.relative_to(root).as_posix() for result in results]
    assert places == ["ppo/CartPole-v1_1", "ppo/CartPole-v1_2"]
    assert [result.score.name for result in results] == [None, "big"]
    assert [result.score.n_candidates for result in results] == [2, 1]
    assert row_name(root / places[0]) is None and row_name(root / places[1]) == "big"
    assert [entry.name for entry in index(root)] == [None, "big"]
    assert all(result.unchanged for result in publish([logs], None, root, rows=rows))
