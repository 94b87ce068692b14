"""Choosing among the agents of a row, and whether any has learned; what they play is said by a stand-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.benchmark import selection
from rlzoo.benchmark.scoring import N_ENVS, Scored
from rlzoo.benchmark.selection import NoAction, UniformActions, choose_best
from rlzoo.config.benchmark import HELD_OUT, MAX_SEED, SELECTION, Row
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.evaluation.evaluate import Episodes
from rlzoo.runs import run_folder


@pytest.fixture
def best_of(score, monkeypatch):
    """A function: the choice of a row among agents with these means, of the seeds 5, 6, ...; its keywords are
    those of the row, with `rates` of success and the returns of `baselines`."""

    def best(*means: float, rates=(), baselines=None, **of_row):
        row = Row(algo="ppo", env="CartPole-v1", **of_row)
        folders = {seed: Path(str(seed)) for seed, _ in enumerate(means, 5)}

        def score_all(played, rows, n_jobs, evaluation_seed):
            assert evaluation_seed == SELECTION and list(rows) == [row]
            for folder, mean, rate in zip(played, means, [*rates, *[None] * len(means)], strict=False):
                yield Scored(folder, score(seed=int(folder.name), mean=mean, success_rate=rate))

        found = {
            name: Episodes(returns, [], [r > 0 for r in returns])
            for name, returns in (baselines or {}).items()
        }
        monkeypatch.setattr(selection, "score_all", score_all)
        monkeypatch.setattr(selection._Baselines, "_of", lambda self, folder: found)
        (choice,) = choose_best({row: folders})
        return choice

    return best


def test_the_episodes_of_a_choice_are_apart_from_all_others() -> None:
    assert MAX_SEED < HELD_OUT < HELD_OUT + N_ENVS < SELECTION


def test_the_largest_mean_is_chosen_and_of_equals_the_first(best_of) -> None:
    choice = best_of(3.0, 9.0, 9.0, required=4)
    assert (choice.selection.seed, choice.shortfall) == (6, "")


def test_rates_are_compared_where_success_is_measured(best_of) -> None:
    choice = best_of(9.0, 3.0, rates=(0.5, 1.0), measure="success", required=0.9)
    assert (choice.selection.seed, choice.shortfall) == (6, "")
    with pytest.raises(UserError, match="asks for success, which was not recorded"):
        best_of(9.0, measure="success")


def test_the_best_agent_has_to_reach_what_is_required(best_of) -> None:
    assert best_of(4.0, required=4).shortfall == ""
    assert best_of(3.9, 2.0, required=4).shortfall == (
        "its best agent, that of seed 5, has a return of 3.90, and a return of 4.00 is required"
    )


@pytest.mark.parametrize(("mean", "learned"), [(2.0, False), (2.01, True), (1.5, False)])
def test_without_a_requirement_it_has_to_beat_random_actions(best_of, mean: float, learned: bool) -> None:
    """By one standard deviation of their episodes."""
    choice = best_of(mean, baselines={"random actions": [0.0, 2.0]})
    assert (choice.shortfall == "") is learned
    assert learned or choice.shortfall.endswith("which is no better than random actions (1.00 ± 1.00)")


def test_an_agent_that_does_nothing_has_not_learned(best_of) -> None:
    baselines = {"random actions": [-33.0, -33.2], "doing nothing": [0.0, 0.0]}
    assert "no better than doing nothing (0.00 ± 0.00)" in best_of(-2.3, 0.0, baselines=baselines).shortfall
    assert best_of(-2.3, 90.0, baselines=baselines).shortfall == ""


def test_success_is_compared_with_that_of_random_actions(best_of) -> None:
    baselines = {"random actions": [-1.0, -1.0, -1.0, 1.0]}  # a rate of 0.25 ± 0.43
    assert best_of(1.0, rates=(0.9,), measure="success", baselines=baselines).shortfall == ""
    shortfall = best_of(1.0, rates=(0.6,), measure="success", baselines=baselines).shortfall
    assert "has a success rate of 60%, which is no better than random actions (0.25 ± 0.43)" in shortfall


def test_unplayable_candidate_does_not_stop_selection(score, monkeypatch) -> None:
    played = [Scored(Path("a"), None, problem="no"), Scored(Path("b"), score()), Scored(Path("c"), score())]
    monkeypatch.setattr(selection, "score_all", lambda *_, **__: played)
    rows = [Row(algo=algo, env="CartPole-v1", required=0) for algo in ("ppo", "a2c")]
    first, second = choose_best({rows[0]: {0: Path("a"), 1: Path("b")}, rows[1]: {0: Path("c")}})
    assert first.selection is None and first.shortfall == "a cannot be played: no"
    assert second.selection is not None and not second.shortfall


def test_baselines_play_in_environments_of_packages(tmp_path: Path, monkeypatch) -> None:
    """Another process has imported them to play the agents."""
    monkeypatch.chdir(tmp_path)
    Path("poles.py").write_text(
        "import gymnasium as gym\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Pole-v0', entry_point=CartPoleEnv, max_episode_steps=20)\n"
    )
    monkeypatch.setenv("RLZOO_TRUST", "poles")
    monkeypatch.setattr(selection, "BASELINE_EPISODES", 4)
    run = RunConfig(algo="ppo", env_id="Pole-v0", gym_packages=("poles",))
    (tmp_path / "Pole-v0").mkdir()
    run_folder.write_configuration(tmp_path, run, {"policy": "MlpPolicy", "n_timesteps": 1})
    played = selection._Baselines()._of(tmp_path)
    assert list(played) == ["random actions"] and len(played["random actions"].returns) == 4


def test_random_actions_are_valid_and_the_same_every_time() -> None:
    box = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([1.0, 3.0], np.float32))
    starts = np.ones(4, bool)
    first, again = (UniformActions(box, 3).predict(None, episode_start=starts)[0] for _ in range(2))
    assert first.shape == (4, 2) and (first == again).all() and all(map(box.contains, first))
    masks = np.zeros((50, 5), bool)
    masks[:, [1, 4]] = True
    discrete = UniformActions(spaces.Discrete(5), 3)
    actions, _ = discrete.predict(None, episode_start=np.ones(50, bool), action_masks=masks)
    assert set(actions.tolist()) == {1, 4}


def test_doing_nothing_is_the_valid_action_nearest_to_0() -> None:
    box = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([1.0, 3.0], np.float32))
    actions, _ = NoAction(box).predict(None, episode_start=np.ones(2, bool))
    assert actions.tolist() == [[0.0, 2.0], [0.0, 2.0]] and actions.dtype == np.float32
