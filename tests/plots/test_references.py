"""Published scores."""

from __future__ import annotations

import csv

import pytest

from rlzoo.config.hyperparams import shipped_folder
from rlzoo.core.errors import UserError
from rlzoo.plots import references
from rlzoo.plots.references import Reference, reference


def test_of_the_same_environment():
    assert reference("a2c", "Acrobot-v1") == Reference(
        algo="a2c",
        env_id="Acrobot-v1",
        mean=-83.353,
        std=17.213,
        n_timesteps=500_000,
        episodes=1778,
        source="SB3 zoo",
    )


def test_of_the_older_zoo_whose_training_steps_are_unknown():
    found = reference("acer", "Acrobot-v1")
    assert (found.source, found.n_timesteps) == ("SB2 zoo", None) and found.episodes > 1000


@pytest.mark.parametrize(
    ("algo", "env_id", "published"),
    [
        ("ppo", "LunarLander-v3", "LunarLander-v2"),
        ("trpo", "Hopper-v5", "Hopper-v3"),
        ("acktr", "Pendulum-v1", "Pendulum-v0"),
        ("ppo", "my_package:LunarLander-v2", "LunarLander-v2"),
    ],
)
def test_of_another_version(algo, env_id, published):
    assert reference(algo, env_id).env_id == published


@pytest.mark.parametrize(("algo", "env_id"), [("ppo", "Nothing-v0"), ("crossq", "Pendulum-v1"), ("ppo", "x")])
def test_nothing_was_published(algo, env_id):
    assert reference(algo, env_id) is None


NEW = "algo,env_id,mean_reward,std_reward,n_timesteps,eval_timesteps,eval_episodes\n"
OLD = "algo,env_id,mean_reward,std_reward,n_timesteps,n_episodes\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(references, "shipped_folder", lambda name: tmp_path / name)
    references._read.cache_clear()
    (tmp_path / "benchmarks").mkdir()

    def write(new, old):
        (tmp_path / "benchmarks" / "reference_scores.csv").write_text(NEW + new)
        (tmp_path / "benchmarks" / "reference_scores_sb2.csv").write_text(OLD + old)

    yield write
    references._read.cache_clear()


def test_the_newer_source_comes_first_and_the_exact_id_before_it(files):
    files(
        "ppo,A-v1,1,0,50k,9,3\nppo,B-v1,2,0,2M,9,3\nppo,B-v2,3,0,120,9,3\n",
        "ppo2,A-v1,4,0,9,5\nppo2,B-v3,5,0,9,5\n",
    )
    assert (reference("ppo", "A-v1").mean, reference("ppo", "A-v1").n_timesteps) == (1, 50_000)
    assert reference("ppo", "B-v3").mean == 5  # the older source, but the very environment
    assert (reference("ppo", "B-v4").mean, reference("ppo", "B-v4").n_timesteps) == (3, 120)
    assert reference("ppo2", "A-v1") is None  # its name today is ppo


def test_missing_files_are_said_on_one_line(files):
    with pytest.raises(UserError, match=r"there is no .*reference_scores\.csv"):
        reference("ppo", "A-v1")


def test_every_published_line_is_found():
    for source, file in references.SOURCES.items():
        with (shipped_folder("benchmarks") / file).open(newline="") as lines:
            read = [(line["algo"], line["env_id"]) for line in csv.DictReader(lines)]
        assert len(read) > 100 and len(set(read)) == len(read)
        for algo, env_id in read:
            found = reference("ppo" if algo == "ppo2" else algo, env_id)
            assert found.env_id == env_id and (found.source == source or source == "SB2 zoo")
