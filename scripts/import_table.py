"""Load the agents of scripts/make_import_files.py with rlzoo, and print how far their actions are from ours.

    python scripts/import_table.py FOLDER ... > table.md

Each folder holds the files of one version. A cell holds the largest differences over 200 observations: of
actions (which are numbers also where they are choices), and of values, Q-values and probabilities of choices
(of those above 1 in proportion to them; 0 where they were not recorded). Each agent is also trained on, for
300 steps.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import rlzoo
from rlzoo.algorithms.agent.foreign import algorithm_of
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv

STEPS = 300


def largest_differences(model: Any, arrays: dict[str, np.ndarray]) -> tuple[float, float]:
    """Between the actions, and the values, in an .npz file and those of the model for its observations."""
    wanted = arrays["actions"]
    parts = {key[4:]: value for key, value in arrays.items() if key.startswith("obs.")}
    obs: Any = parts or arrays["obs"]
    if "masks" in arrays:
        actions = model.predict(obs, deterministic=True, action_masks=arrays["masks"])[0]
    elif not model.policy.recurrent:
        actions = model.predict(obs, deterministic=True)[0]
    else:
        rows, state = [], None
        for i in range(len(wanted)):
            row = {key: part[i : i + 1] for key, part in parts.items()} if parts else obs[i : i + 1]
            start = np.array([i % 50 == 0])
            action, state = model.predict(row, state=state, episode_start=start, deterministic=True)
            rows.append(action[0])
        actions = np.array(rows)
    largest = float(np.abs(actions.astype(float) - wanted.reshape(actions.shape)).max())
    if "judged" not in arrays:
        return largest, 0.0
    ours, theirs = judge(model, obs, wanted), arrays["judged"]
    return largest, float((np.abs(ours - theirs) / np.maximum(1, np.abs(theirs))).max())


def judge(model: Any, obs: Any, actions: np.ndarray) -> np.ndarray:
    """What the networks make of observations [n, ...]: Q-values, or values and probabilities of choices."""
    policy = model.policy
    policy.set_training_mode(False)
    tensor = policy.obs_to_tensor(obs)[0]
    with torch.no_grad():
        if hasattr(policy, "q_net") or hasattr(policy, "quantile_net"):
            shown = [policy.q_values(tensor)]
        elif hasattr(policy, "critic"):
            scaled = torch.as_tensor(policy.scale_action(actions)).float().reshape(len(actions), -1)
            shown = [policy.critic.all_values(tensor, scaled).transpose(0, 1)]
        else:
            probs = getattr(policy.get_distribution(tensor).distribution, "probs", None)
            shown = [policy.predict_values(tensor), *([] if probs is None else [probs])]
    rows: np.ndarray = torch.cat([part.reshape(len(actions), -1) for part in shown], dim=1).numpy()
    return rows


def environment(model: Any) -> VecEnv:
    """Random observations and rewards in the spaces of a model."""

    class Noise(gym.Env):  # type: ignore[type-arg]
        observation_space, action_space = model.observation_space, model.action_space

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.steps = 0
            return self.draw(), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            of_goals = "desired_goal" in getattr(self.observation_space, "spaces", {})
            reward = 0.0 if of_goals else float(self.np_random.normal())
            return self.draw(), reward, self.steps >= 10, False, {}

        def draw(self) -> Any:
            sample = self.observation_space.sample()
            if (
                getattr(sample, "dtype", None) == np.float32
            ):  # some bounds are those of the numbers themselves
                sample = np.clip(self.np_random.normal(size=sample.shape), -3, 3).astype(np.float32)
            return sample

        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return np.zeros(len(achieved), np.float32)

        def action_masks(self) -> Any:
            return np.ones(int(self.action_space.n), bool)  # type: ignore[attr-defined]

    return DummyVecEnv([Noise])


def row(path: Path) -> tuple[str, tuple[float, float], str]:
    """(algorithm and policy, largest differences, what training or loading said) of one file."""
    cls = getattr(rlzoo, algorithm_of(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = cls.load(path, device="cpu")
    notices = "; ".join(str(one.message).partition("file: ")[2] for one in caught)
    with np.load(path.with_suffix(".npz")) as archive:
        differences = largest_differences(model, dict(archive))
    again = {"learning_rate": 1e-3} if "learning_rate" in notices else {}
    steps = model.num_timesteps
    model = cls.load(path, env=environment(model), device="cpu", **again)
    model.learn(STEPS, reset_num_timesteps=False)
    assert model.num_timesteps >= steps + STEPS
    policy = model.policy_name if isinstance(model.policy_name, str) else model.policy_name.__name__
    return f"{cls.__name__} | {policy} | {path.stem}", differences, notices


def main(folders: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    table: dict[str, dict[str, str]] = defaultdict(dict)
    versions, failed = [], 0
    worst, notes = np.zeros(2), defaultdict(list)
    for folder in map(Path, folders):
        version = (folder / "version.txt").read_text().strip()
        versions.append(version)
        for path in sorted(folder.glob("*.zip")):
            try:
                name, differences, notices = row(path)
            except Exception as error:
                print(f"{version} {path.stem}: {type(error).__name__}: {error}", file=sys.stderr)
                failed += 1
                continue
            worst = np.maximum(worst, differences)
            table[name][version] = " / ".join(f"{each:.0e}" if each else "0" for each in differences)
            if notices:
                notes[f"{path.stem}: {notices}"].append(version)
    print(f"| algorithm | policy | agent | {' | '.join(versions)} |")
    print(f"|---|---|---|{'---|' * len(versions)}")
    for name, cells in table.items():
        print(f"| {name} | {' | '.join(cells.get(version, '-') for version in versions)} |")
    total = sum(len(cells) for cells in table.values())
    print(
        f"\n{total} files; largest difference of actions {worst[0]:.1e}, of values {worst[1]:.1e};"
        f" each trained on for {STEPS} steps; {failed} failed."
    )
    for note, where in notes.items():
        print(f"\nNotice ({', '.join(where)}): {note}")
    return int(failed > 0 or (worst > (1e-5, 1e-4)).any())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
