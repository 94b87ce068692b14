"""The agents that come with rlzoo: each is what the registry says, and each plays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rlzoo.benchmark.model_zoo import MAX_BYTES, agent_folders, entry_of
from rlzoo.benchmark.scores import read_scores
from rlzoo.config.benchmark import read_list
from rlzoo.config.hyperparams import shipped_folder
from rlzoo.config.run import PlayConfig, model_file, plays_stochastically, run_name
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.evaluation.evaluate import mask_keywords
from rlzoo.experiment.factories import build_evaluation_env, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.plots.runs import EVALUATIONS
from rlzoo.runs import pretrained_registry as registry
from rlzoo.runs import run_folder
from rlzoo.runs.json_records import as_written

ROOT = registry.shipped_root()
AGENTS = registry.shipped_agents()
STEPS = 200  # of each agent, unless an episode ends before
SHORT = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0")
"""Environments where a good agent's episode ends within these steps, or a bad one's does."""


def name_of(agent: registry.AgentEntry) -> str:
    return f"{agent.algo}-{agent.env_id}"


def test_the_registry_is_that_of_the_folders() -> None:
    assert [entry_of(ROOT, folder) for folder in agent_folders(ROOT)] == AGENTS
    if not AGENTS:
        pytest.skip("no agent is shipped")
    text = json.dumps([as_written(agent) for agent in AGENTS], indent=1) + "\n"
    assert (ROOT / registry.REGISTRY).read_text() == text


def test_every_folder_is_in_the_registry() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and len(path.relative_to(ROOT).parts) > 1]
    folders = {"/".join(path.relative_to(ROOT).parts[:2]) for path in files}
    assert folders == {agent.path for agent in AGENTS}
    assert len({(agent.algo, agent.env_id) for agent in AGENTS}) == len(AGENTS)


def test_every_learned_row_has_an_agent() -> None:
    """Where nothing is required a row may have none: `rlzoo benchmark ship` says why."""
    benchmarks = shipped_folder("benchmarks")
    rows = {row.key: row for row in read_list(benchmarks / "learning.yml") if row.ship and row.below is None}
    scores = read_scores([benchmarks / "learning_scores.json"])
    agents = {(agent.algo, agent.env_id): agent for agent in AGENTS}
    required = {
        score.key for score in scores
        if (row := rows.get(score.key)) and row.required is not None and score.seed in row.seeds
        and (score.mean if row.measure == "return" else score.success_rate or 0) >= row.required
    }  # fmt: skip
    assert required <= agents.keys() <= rows.keys()


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_the_score_of_an_agent_is_in_the_results(agent: registry.AgentEntry) -> None:
    scores = read_scores([shipped_folder("benchmarks") / "learning_scores.json"])
    (score,) = [s for s in scores if (s.key, s.seed) == ((agent.algo, agent.env_id), agent.seed)]
    assert agent.mean == pytest.approx(score.mean, rel=1e-6)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_what_a_folder_holds(agent: registry.AgentEntry) -> None:
    folder, inner = ROOT / agent.path, Path(agent.path).name.rpartition("_")[0]
    assert agent.path == f"{agent.algo}/{run_name(agent.env_id, 1)}"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files - {EVALUATIONS} == {
        model_file(agent.env_id),
        "score.json",
        "command.txt",
        f"{inner}/args.yml",
        f"{inner}/config.yml",
    }
    assert 0 < agent.bytes <= MAX_BYTES
    assert np.isfinite([agent.mean, agent.std, agent.median]).all() and agent.episodes > 0
    for name in files - {model_file(agent.env_id), EVALUATIONS}:
        text = (folder / name).read_text()
        assert not re.search(r"""(^|[\s'"=:])(~|/(?!/)|[A-Z]:\\)""", text, re.MULTILINE), (
            f"{name} names a path"
        )
    assert (
        (folder / "command.txt")
        .read_text()
        .startswith(f"rlzoo train --algo {agent.algo} --env {agent.env_id} ")
    )
    assert run_folder.read_run(folder).seed == agent.seed


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_an_agent_plays(agent: registry.AgentEntry, tmp_path: Path) -> None:
    found = run_folder.find_agent(PlayConfig(algo=agent.algo, env_id=agent.env_id, folder=str(tmp_path)))
    assert found.path == ROOT / agent.path / model_file(agent.env_id)
    try:
        ensure_registered(agent.env_id)
    except UserError as error:
        if "needs the package" not in str(error):
            raise
        pytest.skip(str(error))
    resolved = resolve_config(agent.algo, found.hyperparams)
    env = build_evaluation_env(resolved, agent.env_id, 1, 1_000_000, "auto")
    try:
        model = load_model(resolved, found.path, env, "cpu")
        assert (model.actor_only, model.num_timesteps) == (agent.actor_only, agent.n_timesteps)
        rewards, episode = _play(model, env, not plays_stochastically(agent.env_id))
    finally:
        env.close()
    assert np.isfinite(rewards).all()
    if agent.env_id in SHORT and episode is not None:
        assert episode >= agent.mean - 5 * agent.std - 0.1 * abs(agent.mean)


def _play(model, env, deterministic: bool) -> tuple[list[float], float | None]:
    """Rewards of some steps, and the return of the episode if it ended in them."""
    obs, state, starts, masks = env.reset(), None, np.ones(1, bool), mask_keywords(model, env, None)
    rewards: list[float] = []
    while len(rewards) < STEPS:
        actions, state = model.predict(
            obs, state=state, episode_start=starts, deterministic=deterministic, **masks()
        )
        obs, reward, starts, infos = env.step(actions)
        rewards.append(float(reward[0]))
        if "episode" in infos[0]:
            return rewards, float(infos[0]["episode"]["r"])
    return rewards, None
