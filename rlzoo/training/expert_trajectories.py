"""Recording demonstrations: whole episodes of an agent, or of anything that chooses actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.buffers.demonstrations import PART, write_image
from rlzoo.core.errors import UserError
from rlzoo.core.observations import copy_obs, obs_row
from rlzoo.core.preprocessing import is_channels_first, is_image_space, space_name
from rlzoo.envs.make_vec_env import as_vec_env, make_vec_env
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import (
    unknown_wrapper,
    vec_normalize_wrappers,
    warn_unknown_wrapper,
)
from rlzoo.evaluation.evaluate import is_monitored, mask_keywords
from rlzoo.io.atomic import atomic_write

Obs = Any
StoreImage = Callable[[np.ndarray], str]


def generate_expert_traj(
    model: Any,
    save_path: str | os.PathLike[str] | None = None,
    env: Any = None,
    n_timesteps: int = 0,
    n_episodes: int = 100,
    image_folder: str = "recorded_images",
    deterministic: bool = True,
) -> dict[str, np.ndarray]:
    """Train an expert if needed, and record episodes of it.

    Observations and rewards are those of the environment, before a VecNormalize. Each of n environments plays
    its share of the episodes. An episode ends where the game does: a lost life is no end.

    Example:
        >>> from rlzoo import PPO
        >>> recorded = generate_expert_traj(PPO("MlpPolicy", "CartPole-v1"), n_episodes=2)
        >>> recorded["actions"].shape == (len(recorded["obs"]), 1)
        True

    :param model: an agent, or a function from one observation to an action
    :param save_path: file to write, `.npz` is appended; None: nothing is written
    :param env: where to play, an id, a Gymnasium environment or a `VecEnv`; None: the agent's own
    :param n_timesteps: first train the agent so long
    :param n_episodes: number of episodes, of all environments together
    :param image_folder: where the images go if observations are images, relative to the file
    :param deterministic: let an agent take the most likely action
    :return: the demonstrations, as `ExpertDataset(traj_data=...)` takes them
    :raises UserError: no environment, no episodes, actions that are neither Box nor Discrete, or images
        without a file
    """
    if n_episodes < 1:
        raise UserError(f"n_episodes must be at least 1, not {n_episodes!r}")
    is_agent = hasattr(model, "predict")
    if not is_agent and not callable(model):
        raise UserError(f"the expert must be an agent or a function, not {model!r}")
    if n_timesteps > 0:
        if not hasattr(model, "learn"):
            raise UserError("n_timesteps is to train an agent; a function is an expert as it is")
        model.learn(n_timesteps)
    venv = _environments(model, env)
    if not isinstance(venv.action_space, spaces.Box | spaces.Discrete):
        kind = space_name(venv.action_space)
        raise UserError(f"demonstrations are for Box and Discrete actions, not for {kind}")
    path = None if save_path is None else Path(f"{str(save_path).removesuffix('.npz')}.npz")
    try:
        with _frozen_statistics(venv) as (of_obs, of_rewards):
            space = venv.observation_space if of_obs is None else of_obs.venv.observation_space
            store = _image_store(path, image_folder) if is_image_space(space) else None
            act = _act_by_agent(model, venv, deterministic) if is_agent else _act_by_function(model, venv)
            episodes = _play(act, venv, of_obs, of_rewards, n_episodes, store)
    finally:
        if isinstance(env, str):
            venv.close()
        elif is_agent and getattr(model, "env", None) is venv:
            model.replace_env(venv)  # its next training begins new episodes
    data = _columns(episodes, space, venv.action_space)
    if path is not None:
        with atomic_write(path) as file:
            np.savez(file, **data)  # type: ignore[arg-type]
    return data


@dataclass
class _Episode:
    """What happened since a reset."""

    obs: list[Obs] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    episode_return: float = 0.0


def _environments(model: Any, env: Any) -> VecEnv:
    """Return the environments to play in; a function sees images as the environment gives them."""
    if env is None:
        own = getattr(model, "env", None)
        if own is None:
            raise UserError("the expert has no environment: give one with env=")
        return own  # type: ignore[no-any-return]
    if hasattr(model, "predict"):
        return as_vec_env(env)
    if isinstance(env, str):
        return make_vec_env(env)
    return DummyVecEnv([lambda: env]) if isinstance(env, gym.Env) else as_vec_env(env)


@contextmanager
def _frozen_statistics(venv: VecEnv) -> Iterator[tuple[Any, Any]]:
    """Freeze the statistics of every VecNormalize inside the context.

    :return: the innermost that scales observations, and the innermost that scales rewards; None without one
    """
    normalizers = vec_normalize_wrappers(venv)
    of_obs = [normalize for normalize in normalizers if normalize.norm_obs]
    of_rewards = [normalize for normalize in normalizers if normalize.norm_reward]
    if of_obs and of_obs[-1].observation_space != venv.observation_space:
        raise UserError("a wrapper around VecNormalize changes observations; put VecNormalize outermost")
    if (of_obs or of_rewards) and (opaque := unknown_wrapper(venv)) is not None:
        warn_unknown_wrapper(opaque, "what is recorded is from before it")
    learning = [normalize for normalize in normalizers if normalize.training]
    for normalize in learning:
        normalize.training = False
    try:
        yield (of_obs[-1] if of_obs else None), (of_rewards[-1] if of_rewards else None)
    finally:
        for normalize in learning:
            normalize.training = True


def _act_by_agent(model: Any, venv: VecEnv, deterministic: bool) -> Callable[[Obs, np.ndarray], np.ndarray]:
    """Return a function of observations and episode starts that acts as `model.predict` does.

    It keeps the recurrent state, and asks the environments for action masks if the agent uses them.
    """
    state: Any = None
    masks = mask_keywords(model, venv, None)

    def act(obs: Obs, starts: np.ndarray) -> np.ndarray:
        nonlocal state
        actions, state = model.predict(
            obs, state=state, episode_start=starts, deterministic=deterministic, **masks()
        )
        return actions  # type: ignore[no-any-return]

    return act


def _act_by_function(expert: Callable[[Obs], Any], venv: VecEnv) -> Callable[[Obs, np.ndarray], np.ndarray]:
    """Return a function of observations and episode starts that calls `expert` once per environment."""
    space = venv.action_space

    def act(obs: Obs, starts: np.ndarray) -> np.ndarray:
        actions = [np.asarray(expert(obs_row(obs, index))) for index in range(len(starts))]
        return np.stack(actions).astype(space.dtype).reshape(-1, *(space.shape or ()))

    return act


def _play(
    act: Callable[[Obs, np.ndarray], np.ndarray],
    venv: VecEnv,
    of_obs: Any,
    of_rewards: Any,
    n_episodes: int,
    store: StoreImage | None,
) -> list[_Episode]:
    """Play whole episodes; return them in the order they ended.

    :param of_obs: the VecNormalize whose raw observations are recorded, and `of_rewards` rewards; or None
    """
    n_envs, monitored = venv.num_envs, is_monitored(venv)
    quota = [(n_episodes + index) // n_envs for index in range(n_envs)]
    played = [0] * n_envs
    running = [_Episode() for _ in range(n_envs)]
    finished: list[_Episode] = []
    obs, starts = venv.reset(), np.ones(n_envs, bool)
    while len(finished) < n_episodes:
        raw = copy_obs(obs) if of_obs is None else of_obs.get_original_obs()
        actions = act(obs, starts)
        obs, rewards, starts, infos = venv.step(actions)
        if of_rewards is not None:
            rewards = of_rewards.get_original_reward()
        for index, episode in enumerate(running):
            if played[index] == quota[index]:
                continue
            seen = obs_row(raw, index)
            episode.obs.append(seen if store is None else store(cast(np.ndarray, seen)))
            episode.actions.append(actions[index])
            episode.rewards.append(float(rewards[index]))
            if not ("episode" in infos[index] if monitored else starts[index]):
                continue
            known = infos[index]["episode"]["r"] if monitored else sum(episode.rewards)
            episode.episode_return = float(known)
            finished.append(episode)
            running[index], played[index] = _Episode(), played[index] + 1
    return finished


def _image_store(path: Path | None, image_folder: str) -> StoreImage:
    """Return a function that writes an image into the folder and returns its path from the file."""
    if path is None:
        raise UserError("images are recorded into a folder beside the file: give save_path")
    folder = path.parent / image_folder
    folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def store(image: np.ndarray) -> str:
        nonlocal count
        name = f"{path.stem}_{count}.png"
        count += 1
        first = is_channels_first(spaces.Box(0, 255, image.shape, np.uint8))
        write_image(folder / name, np.moveaxis(image, 0, -1) if first else image)
        return (Path(image_folder) / name).as_posix()

    return store


def _columns(
    episodes: list[_Episode], observation_space: spaces.Space[object], action_space: spaces.Space[object]
) -> dict[str, np.ndarray]:
    """Return the episodes one behind the other, a number as a vector of one."""
    lengths = [len(episode.rewards) for episode in episodes]
    rows = [obs for episode in episodes for obs in episode.obs]
    actions = np.stack([action for episode in episodes for action in episode.actions])
    starts = np.zeros(sum(lengths), bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    columns = {
        "actions": actions.reshape(len(actions), *(action_space.shape or (1,))),
        "rewards": np.array([reward for episode in episodes for reward in episode.rewards]),
        "episode_returns": np.array([episode.episode_return for episode in episodes]),
        "episode_starts": starts,
    }
    if isinstance(observation_space, spaces.Dict):
        return {**columns, **{f"{PART}{key}": np.stack([row[key] for row in rows]) for key in rows[0]}}
    obs = np.stack(rows)
    scalar = not isinstance(rows[0], str) and obs.ndim == 1
    return {"obs": obs.reshape(-1, 1) if scalar else obs, **columns}
