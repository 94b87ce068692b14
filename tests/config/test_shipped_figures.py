"""Every shipped hyperparameter is the one of its source.

`source_figures.json` has the figures as RL Baselines3 Zoo gives them: under its ids and class names, with
schedules taken apart.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlzoo.config.class_names import class_path
from rlzoo.config.hyperparams import load_file, shipped_folder
from rlzoo.config.values_as_text import Name

SOURCE: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "source_figures.json").read_text()
)
WITH_VELOCITIES = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0")
TENSORS = {"TensorCartPole-v1", "TensorPendulum-v1"}
ADDED_ENTRIES = {  # which the source lacks
    "her": {"default"},
    "ppo_lstm": set(WITH_VELOCITIES),
    "ppo": TENSORS,
    "sac": {"TensorPendulum-v1"},
}
NAMES = {
    "gelu": Name("torch.nn.GELU"),
    "relu": Name("torch.nn.ReLU"),
    "tanh": Name("torch.nn.Tanh"),
    "her": Name("rlzoo.HerReplayBuffer"),
    "rmsprop_tf": Name("rlzoo.RMSpropTFLike"),
}
CLASS_KEYS = ("activation_fn", "optimizer_class", "replay_buffer_class")
MUJOCO = "Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|Reacher|Swimmer|Walker2d|Inverted(Double)?Pendulum"


def shipped(algo: str) -> dict[str, dict[str, Any]]:
    return load_file(shipped_folder("hyperparams") / f"{algo}.yml").entries


def todays_id(env_id: str) -> str:
    """Where the entry of an id has moved."""
    name = env_id.rpartition("-v")[0]
    moves = {
        MUJOCO: "5",
        "Fetch.*": "4",
        "Panda.*": "3",
        "CarRacing": "3",
        "LunarLander(Continuous)?(NoVel)?": "3",
    }
    return next((f"{name}-v{to}" for names, to in moves.items() if re.fullmatch(names, name)), env_id)


def as_shipped(key: str, value: Any) -> Any:
    """A value of the source, as our file says it."""
    if isinstance(value, dict) and "schedule" in value:
        assert value["schedule"] == "linear" and value["end"] == 0
        return f"lin_{value['start']!r}"
    if key == "env_wrapper":
        wrappers = [value] if isinstance(value, str) else value
        return [
            {class_path(path): kwargs for path, kwargs in (w if isinstance(w, dict) else {w: {}}).items()}
            for w in wrappers
        ]
    if isinstance(value, dict):
        return {inner: as_shipped(inner, item) for inner, item in value.items()}
    return NAMES[value] if key in CLASS_KEYS else value


def expected(algo: str, env_id: str) -> dict[str, Any]:
    """What our entry must hold."""
    values = {key: as_shipped(key, value) for key, value in SOURCE[algo][env_id].items()}
    if env_id == "atari":
        values["env_kwargs"] = {"frameskip": 1}  # the wrapper skips frames, today's ids would as well
    if (algo, env_id) == ("ppo_lstm", "default"):
        values["policy"] = "MlpLstmPolicy"  # the source names one without memory
    if algo == "her":
        values["policy"] = "MultiInputPolicy"  # goal environments are no longer flattened to vectors
        for key in ("online_sampling", "max_episode_length"):  # these no longer mean anything
            values.pop(key, None)
    if (algo, env_id) == ("ars", "Pendulum-v1"):  # the source's do not learn, ours or its own library's
        values |= {"learning_rate": "lin_0.3", "delta_std": 0.3, "n_delta": 8, "n_top": 4}
        values["policy_kwargs"] = {"net_arch": [32], "activation_fn": NAMES["tanh"]}
    if (algo, env_id) == ("ppo", "MiniGrid-DoorKey-5x5-v0"):  # the source's ends at 0, in SB3 as well
        values["normalize"] = False
    return values


@pytest.mark.parametrize(("algo", "env_id"), [(algo, env_id) for algo in SOURCE for env_id in SOURCE[algo]])
def test_entry_has_the_figures_of_its_source(algo: str, env_id: str) -> None:
    entry = dict(shipped(algo)[todays_id(env_id)])
    if "env_wrapper" in entry:
        entry["env_wrapper"] = as_shipped("env_wrapper", entry["env_wrapper"])
    assert entry == expected(algo, env_id)
    for key, value in entry.items():
        assert type(value) is type(expected(algo, env_id)[key]), key  # 1 and 1.0, true and 1 are equal


@pytest.mark.parametrize("algo", SOURCE)
def test_no_entry_without_a_source(algo: str) -> None:
    ours = set(shipped(algo)) - ADDED_ENTRIES.get(algo, set())
    assert ours == {todays_id(env_id) for env_id in SOURCE[algo]}
    assert len(ours) == len(SOURCE[algo])


@pytest.mark.parametrize(
    "env_id", sorted(set(WITH_VELOCITIES) - {"MountainCar-v0"})
)  # which learns nothing so
def test_recurrent_ppo_learns_with_velocities_as_without(env_id: str) -> None:
    entries = shipped("ppo_lstm")
    assert entries[env_id] == entries[env_id.replace("-v", "NoVel-v")]
