"""Selection of the best training seed of a benchmark task, and the check that it has learned.

The agents of all training seeds play selection episodes, in environments seeded from `SELECTION` on, which
neither their training nor their published scores use. The best agent has the highest mean return, or success
rate if the task measures success. Its published score comes from other episodes: the score of the selection
episodes is biased upwards, as the maximum of several noisy values.

In the selection episodes, the agent must also meet the requirement of its task. Without a requirement, it
must beat two baselines by at least one standard deviation of their episodes: uniformly random actions and,
for continuous actions, the action 0 (which is better than random on MountainCarContinuous-v0).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.benchmark.scores import Score
from rlzoo.benchmark.scoring import N_ENVS, score_all
from rlzoo.config.benchmark import SELECTION, Row
from rlzoo.config.hyperparams import lookup
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import set_random_seed
from rlzoo.distributions.masked import make_masked_proba_distribution
from rlzoo.envs.single_env.registration import ensure_registered, import_packages_of
from rlzoo.evaluation.evaluate import Episodes, Predictor, play_episodes
from rlzoo.experiment.factories import build_evaluation_env
from rlzoo.experiment.resolve import resolve_config
from rlzoo.runs.run_folder import config_path, read_run

BASELINE_EPISODES = 100


@dataclass(frozen=True)
class Choice:
    """The best agent of a task.

    :param selection: its score in the selection episodes; None: an agent of the task cannot be played
    :param shortfall: why it is not published; empty: it has learned
    """

    row: Row
    folder: Path
    selection: Score | None
    shortfall: str = ""


def choose_best(candidates: Mapping[Row, Mapping[int, Path]], n_jobs: int = 1) -> Iterator[Choice]:
    """Play selection episodes, and yield the best agent of each task; the smallest seed wins a tie.

    The selection scores are stored next to the agents, in `selection.json`.

    :param candidates: task -> training seed -> folder of the run
    :raises UserError: a task measures success, and its environment does not report it
    """
    folders = [folder for by_seed in candidates.values() for folder in by_seed.values()]
    played: dict[Path, Score] = {}
    problems: dict[Path, str] = {}
    for ended in score_all(folders, candidates, n_jobs=n_jobs, evaluation_seed=SELECTION):
        if ended.score is None:
            problems[ended.folder] = ended.problem
        else:
            played[ended.folder] = ended.score
    baselines = _Baselines()
    for row, by_seed in candidates.items():
        failed = [folder for folder in by_seed.values() if folder in problems]
        if failed:
            yield Choice(row, failed[0], None, f"{failed[0]} cannot be played: {problems[failed[0]]}")
            continue
        values = {seed: value_of(row, played[folder]) for seed, folder in by_seed.items()}
        best = by_seed[min(values, key=lambda seed: (-values[seed], seed))]
        yield Choice(row, best, played[best], baselines.shortfall(row, played[best], best))


def value_of(row: Row, score: Score) -> float:
    """Return the value by which agents are compared: the success rate or the mean return.

    :raises UserError: the task measures success, and the environment does not report it
    """
    if row.measure == "return":
        return score.mean
    if score.success_rate is None:
        raise UserError(f"{row.label} on {row.env}: the list asks for success, which was not recorded")
    return score.success_rate


class UniformActions:
    """Baseline policy: uniformly random valid actions."""

    def __init__(self, action_space: spaces.Space[object], seed: int) -> None:
        self.action_space = action_space
        self.action_space.seed(seed)

    def predict(
        self,
        observation: object,
        state: object = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, None]:
        """Sample actions [n_envs, ...]; see `rlzoo.evaluation.evaluate.Predictor`."""
        assert episode_start is not None
        if action_masks is None:
            return np.array([self.action_space.sample() for _ in episode_start]), None
        logits = torch.zeros(action_masks.shape)  # [n_envs, n_choices]
        choices = make_masked_proba_distribution(self.action_space).proba_distribution(logits)
        return choices.apply_masking(action_masks).sample().numpy(), None


class NoAction:
    """Baseline policy: the action 0, or the nearest action of the Box."""

    def __init__(self, action_space: spaces.Box) -> None:
        self.action = np.clip(np.zeros_like(action_space.low), action_space.low, action_space.high)

    def predict(
        self,
        observation: object,
        state: object = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, None]:
        """Sample actions [n_envs, ...]; see `rlzoo.evaluation.evaluate.Predictor`."""
        assert episode_start is not None
        return np.stack([self.action] * len(episode_start)), None


@dataclass
class _Baselines:
    """Returns of the baseline policies; each environment is evaluated once."""

    played: dict[str, dict[str, Episodes]] = field(default_factory=dict)

    def shortfall(self, row: Row, selection: Score, folder: Path) -> str:
        """Return why the best agent of a task has not learned; empty if it has.

        :param folder: the run folder of that agent
        """
        best = value_of(row, selection)
        which = f"its best agent, that of seed {selection.seed}, has {_said(row, best)}"
        if row.required is not None:
            return "" if best >= row.required else f"{which}, and {_said(row, row.required)} is required"
        for name, episodes in self._of(folder).items():
            values = episodes.returns if row.measure == "return" else [*map(float, episodes.succeeded)]
            mean, std = statistics.fmean(values), statistics.pstdev(values)
            if not best > mean + std:
                return f"{which}, which is no better than {name} ({mean:.2f} ± {std:.2f})"
        return ""

    def _of(self, folder: Path) -> dict[str, Episodes]:
        """Return the episodes of the baselines in the environment of a run."""
        run = read_run(folder)
        import_packages_of(str(folder), run.gym_packages, run.env_id)
        ensure_registered(run.env_id)
        values = lookup(run.algo, run.env_id, str(config_path(folder, run.env_id))).values
        of_env = ("env_kwargs", "eval_env_kwargs", "env_wrapper", "vec_env_wrapper")
        key = repr((run.env_id, [values.get(name) for name in of_env]))
        if key not in self.played:
            resolved = resolve_config(run.algo, values, trusted=False)
            set_random_seed(SELECTION)
            env = build_evaluation_env(resolved, run.env_id, N_ENVS, SELECTION, "auto")
            try:
                policies: dict[str, Predictor] = {
                    "random actions": UniformActions(env.action_space, SELECTION)
                }
                if isinstance(env.action_space, spaces.Box):
                    policies["doing nothing"] = NoAction(env.action_space)
                self.played[key] = {
                    name: play_episodes(policy, env, BASELINE_EPISODES) for name, policy in policies.items()
                }
            finally:
                env.close()
        return self.played[key]


def _said(row: Row, value: float) -> str:
    return f"a return of {value:.2f}" if row.measure == "return" else f"a success rate of {value:.0%}"
