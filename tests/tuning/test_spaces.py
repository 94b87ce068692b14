"""Search spaces: they hold what is known to work, and everything that they draw can be built."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import optuna
import pytest
from gymnasium import spaces

from rlzoo.config import catalog
from rlzoo.config.hyperparams import lookup, merge, shipped_files, with_overrides
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.experiment.factories import build_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.tuning.space.default_spaces import complete, learner_of, overrides, search_space, space_of
from rlzoo.tuning.space.search_space import Space, flat

optuna.logging.set_verbosity(optuna.logging.WARNING)

TABLES = {name: space_of(name) for name in catalog.names() if name not in ("her", "ppo1", "ppo2")}
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
DISCRETE = spaces.Discrete(3)
DISCRETE_ONLY = ("acer", "dqn", "ppo_mask", "qrdqn")
BOX_ONLY = ("crossq", "ddpg", "her", "sac", "td3", "tqc")
NOT_TUNED = {
    *("policy", "n_timesteps", "n_envs", "normalize", "frame_stack", "env_wrapper", "env_kwargs"),
    *("expert_dataset", "learner", "replay_buffer_class", "optimize_memory_usage", "async_eigen_decomp"),
    *("zero_policy", "random_exploration", "normalize_observations", "normalize_returns", "param_noise"),
    *("use_sde_at_warmup", "noise_std_final", "sub_sampling_factor", "policy_kwargs.use_expln"),
    *("policy_kwargs.optimizer_class", "policy_kwargs.optimizer_kwargs", "policy_kwargs.layer_norm"),
    "sum_kl",
    *("noise_type", "noise_std"),  # of SAC; DDPG and TD3 have rows
}
"""What only a configuration decides."""

ENTRIES = [
    (algo, file.label, entry, values)
    for algo in catalog.names()
    for file in shipped_files(algo)
    for entry, values in file.entries.items()
]


def actions_for(algo: str) -> spaces.Space[Any]:
    return DISCRETE if algo in DISCRETE_ONLY else BOX


def said(algo: str, values: dict[str, Any]) -> dict[str, Any]:
    """A configuration with defaults, by the keys of the space."""
    known = complete(algo, values)
    hindsight = {key.removeprefix("replay_buffer_kwargs."): value for key, value in known.items()}
    return {**hindsight, **known} if algo == "her" else known


# ---------------------------------------------------------------------- what is known to work lies inside


@pytest.mark.parametrize("algo", sorted(TABLES))
def test_every_algorithm_has_a_search_space(algo: str) -> None:
    algorithm: Any = catalog.load(algo)
    assert TABLES[algo] == algorithm.search_space != {}
    assert "search_space" in vars(algorithm)


@pytest.mark.parametrize("algo", catalog.names())
def test_tuned_values_lie_inside(algo: str) -> None:
    for name, label, entry, values in ENTRIES:
        if name == algo:
            known = said(algo, values)
            if algo == "gail":
                known |= defaults_of_the_learner(known)
            assert search_space(algo, values, actions_for(algo)).outside(known) == [], (label, entry)


def defaults_of_the_learner(known: dict[str, Any]) -> dict[str, Any]:
    """GAIL's null is the default of the algorithm that it owns."""
    config: Any = catalog.load(known["learner"])
    unsaid = [name for name, value in known.items() if value is None]
    return {name: getattr(config.Config, name) for name in unsaid if hasattr(config.Config, name)}


@pytest.mark.parametrize("algo", sorted(TABLES))
def test_defaults_lie_inside(algo: str) -> None:
    values = {"policy": "MlpPolicy"}
    known = complete(algo, values)
    if algo == "gail":
        known |= defaults_of_the_learner(known)
    assert search_space(algo, values, actions_for(algo)).outside(known) == []


def test_what_is_tuned_has_a_row() -> None:
    """Every shipped key is in a table, or is meant not to be."""
    for algo, label, entry, values in ENTRIES:
        learner, entry_of_learner = learner_of(algo, values)
        keys = {key for key in flat(entry_of_learner) if not key.startswith("replay_buffer_kwargs.")}
        assert keys - NOT_TUNED <= set(TABLES[learner]), (label, entry)


@pytest.mark.parametrize("algo", ["crossq", "ddpg", "dqn", "qrdqn", "sac", "td3", "tqc"])
def test_no_sample_replays_much_more_than_is_common(algo: str) -> None:
    """A trial that takes days keeps its worker from all others."""
    values = {"policy": "MlpPolicy", "n_timesteps": 100_000}
    space = search_space(algo, values, actions_for(algo))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(200):
        known = {**values, **flat(overrides(algo, values, space.sample(study.ask())))}
        if isinstance(known["train_freq"], int) and known["gradient_steps"] > 0:
            rows_per_step = known["batch_size"] * known["gradient_steps"] / known["train_freq"]
            assert rows_per_step <= (1024 if algo == "ddpg" else 512)


# ---------------------------------------------------------------------- what is drawn can be built


class Still(gym.Env[Any, Any]):
    """Does nothing, in given spaces."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, True, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return np.zeros(len(achieved_goal), np.float32)


def venv_for(values: dict[str, Any], action_space: spaces.Space[Any]) -> DummyVecEnv:
    vector = spaces.Box(-1.0, 1.0, (4,), np.float32)
    observations: spaces.Space[Any] = vector
    if values["policy"].startswith("Cnn"):
        observations = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    if "Her" in str(values.get("replay_buffer_class")) or "model_class" in values:
        observations = spaces.Dict(observation=vector, achieved_goal=vector, desired_goal=vector)
    return DummyVecEnv([lambda: Still(observations, action_space)] * int(values.get("n_envs", 1)))


MLP = {"policy": "MlpPolicy"}
GOALS = {"policy": "MultiInputPolicy", "replay_buffer_class": Name("rlzoo.HerReplayBuffer")}
CASES: list[tuple[str, dict[str, Any] | str, spaces.Space[Any]]] = [
    *((algo, MLP, BOX) for algo in sorted(TABLES) if algo not in DISCRETE_ONLY),
    *((algo, MLP, DISCRETE) for algo in sorted(TABLES) if algo not in BOX_ONLY),
    ("ppo", "CartPole-v1", DISCRETE),
    ("ppo", "HalfCheetahBulletEnv-v0", BOX),
    ("ppo", "PongNoFrameskip-v4", DISCRETE),
    ("ppo2", "CartPole-v1", DISCRETE),
    ("ppo1", "PongNoFrameskip-v4", DISCRETE),
    ("a2c", "HalfCheetahBulletEnv-v0", BOX),
    ("ars", "MountainCarContinuous-v0", BOX),
    ("ars", "CartPole-v1", DISCRETE),
    ("dqn", "PongNoFrameskip-v4", DISCRETE),
    ("gail", "CartPole-v1", DISCRETE),
    ("her", "FetchReach-v4", BOX),
    ("sac", "HalfCheetahBulletEnv-v0", BOX),
    ("td3", "Pendulum-v1", BOX),
    ("tqc", GOALS, BOX),
    ("ppo", {"policy": "MlpPolicy", "n_envs": 6, "n_steps": 100}, DISCRETE),
    ("sac", {"policy": "MlpPolicy", "n_envs": 4, "train_freq": 8}, BOX),
]
PLAIN_SAMPLES, ENTRY_SAMPLES = 50, 8


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of an expert for either kind of actions."""
    folder = tmp_path_factory.mktemp("expert")
    found = {}
    for name, actions in (("Box", np.zeros((8, 2))), ("Discrete", np.zeros((8, 1), int))):
        found[name] = folder / f"{name}.npz"
        np.savez(
            found[name],
            obs=np.zeros((8, 4)),
            actions=actions,
            rewards=np.zeros(8),
            episode_returns=np.zeros(1),
            episode_starts=np.arange(8) == 0,
        )
    return found


@pytest.mark.parametrize(
    ("algo", "config", "action_space"),
    CASES,
    ids=[f"{a}-{c if isinstance(c, str) else '-'.join(c)}-{type(s).__name__}" for a, c, s in CASES],
)
def test_samples_build(
    algo: str,
    config: dict[str, Any] | str,
    action_space: spaces.Space[Any],
    demonstrations: dict[str, Path],
) -> None:
    values = {"n_timesteps": 20_000, **(lookup(algo, config).values if isinstance(config, str) else config)}
    values.pop("env_wrapper", None)
    if algo in ("bc", "gail"):
        values["expert_dataset"] = {"expert_path": str(demonstrations[type(action_space).__name__])}
    if algo == "ppo_lstm":
        values["policy"] = "MlpLstmPolicy"
    space = search_space(algo, values, action_space)
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    venv = venv_for(values, action_space)
    for number in range(PLAIN_SAMPLES if config == MLP else ENTRY_SAMPLES):
        sampled = space.sample(study.ask())
        changed = merge(merged(algo, values, sampled), small(algo, values))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="ppo. is now ppo")
            resolved = resolve_config(algo, changed)
            model = build_model(resolved, venv, seed=number, device="cpu", verbose=0)
        assert model.policy is not None


def merged(algo: str, values: dict[str, Any], sampled: dict[str, Any]) -> dict[str, Any]:
    """The configuration with a sample, as a run on the command line would merge it."""
    raw = RawConfig(algo, values)
    return with_overrides(raw, overrides(algo, values, sampled)).values


def small(algo: str, values: dict[str, Any]) -> dict[str, Any]:
    """Memory is not what is tested."""
    return {"buffer_size": 64} if "train_freq" in complete(algo, values) else {}
