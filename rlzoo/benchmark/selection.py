"""Which of the agents of a row becomes part of a collection, and whether any of them has learned.

Agents of several training seeds are compared by episodes in environments that neither their training nor
their published scores use: these are seeded from `SELECTION` on. The best one is chosen by its mean return,
or its success rate where the row measures success. So its published score, from other episodes, is not better
for having been chosen; that of the episodes it was chosen by is, as the largest of several noisy numbers.

Whether it has learned is asked of the same episodes: it has to reach what its row requires. Where nothing is
required, it has to be better than two policies that have learned nothing, by at least one standard deviation
of their episodes: uniformly random actions, and, where actions are continuous, the action 0 (doing nothing is
better than random on MountainCarContinuous-v0).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.benchmark.scores import Score
from rlzoo.benchmark.scoring import N_ENVS, score_all
from rlzoo.config.benchmark import SELECTION, Row
from rlzoo.config.hyperparams import lookup
from rlzoo.core.errors import UserError
from rlzoo.core.seeding import set_random_seed
from rlzoo.distributions.masked import make_masked_proba_distribution
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.evaluation.evaluate import Episodes, play_episodes
from rlzoo.experiment.environments import build_evaluation_env
from rlzoo.experiment.named_classes import import_packages_of
from rlzoo.experiment.resolve import resolve_config
from rlzoo.runs.run_folder import config_path, read_run

BASELINE_EPISODES = 100


@dataclass(frozen=True)
class Choice:
    """The best agent of a row.

    :param selection: its score in the episodes that it was chosen by; None: one of the row cannot be played
    :param shortfall: why it is not taken; empty: it has learned
    """

    row: Row
    folder: Path
    selection: Score | None
    shortfall: str = ""


def choose_best(candidates: Mapping[Row, Mapping[int, Path]], n_jobs: int = 1) -> Iterator[Choice]:
    """Play the agents of all rows, and choose the best of each; of equals that with the smallest seed.

    The scores of the selection are kept beside the agents, in `selection.json`.

    :param candidates: row -> training seed -> folder of the run
    :raises UserError: a row measures success, and its environment does not tell of it
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
    """What agents of a row are compared by: the success rate where it measures success, else the mean return.

    :raises UserError: success is asked for, and the environment does not tell of it
    """
    if row.measure == "return":
        return score.mean
    if score.success_rate is None:
        raise UserError(f"{row.label} on {row.env}: the list asks for success, which was not recorded")
    return score.success_rate


class UniformActions:
    """A policy that has learned nothing: every valid action is equally likely."""

    def __init__(self, action_space: spaces.Space[Any], seed: int) -> None:
        self.action_space = action_space
        self.action_space.seed(seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions [n_envs, ...]; see `rlzoo.evaluation.evaluate.Predictor`."""
        assert episode_start is not None
        if action_masks is None:
            return np.array([self.action_space.sample() for _ in episode_start]), None
        logits = torch.zeros(action_masks.shape)  # [n_envs, n_choices]
        choices: Any = make_masked_proba_distribution(self.action_space).proba_distribution(logits)
        return choices.apply_masking(action_masks).sample().numpy(), None


class NoAction:
    """A policy that does nothing: the action 0, or what is nearest to it in a Box."""

    def __init__(self, action_space: spaces.Box) -> None:
        self.action = np.clip(np.zeros_like(action_space.low), action_space.low, action_space.high)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Actions [n_envs, ...]; see `rlzoo.evaluation.evaluate.Predictor`."""
        assert episode_start is not None
        return np.stack([self.action] * len(episode_start)), None


@dataclass
class _Baselines:
    """How well policies play that have learned nothing; each environment is played in once."""

    played: dict[str, dict[str, Episodes]] = field(default_factory=dict)

    def shortfall(self, row: Row, selection: Score, folder: Path) -> str:
        """Why the best agent of a row has not learned; empty where it has.

        :param folder: of its run
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
        """The episodes of the baselines in the environments of a run."""
        run = read_run(folder)
        import_packages_of(str(folder), run.gym_packages, run.env_id)
        ensure_registered(run.env_id)
        values = lookup(run.algo, run.env_id, str(config_path(folder, run.env_id))).values
        of_env = ("env_kwargs", "eval_env_kwargs", "env_wrapper", "vec_env_wrapper")
        key = repr((run.env_id, [values.get(name) for name in of_env]))
        if key not in self.played:
            resolved = resolve_config(run.algo, values, own=False)
            set_random_seed(SELECTION)
            env = build_evaluation_env(resolved, run.env_id, N_ENVS, SELECTION, "auto")
            try:
                policies: dict[str, Any] = {"random actions": UniformActions(env.action_space, SELECTION)}
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
