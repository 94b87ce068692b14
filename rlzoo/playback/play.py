"""`rlzoo enjoy`: play a trained agent and measure it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch

from rlzoo.callbacks.progress_bar import ProgressBar
from rlzoo.config.hyperparams import merge
from rlzoo.config.run import PlayConfig
from rlzoo.core.errors import UserError
from rlzoo.core.seeding import set_random_seed
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.evaluation.evaluate import mask_keywords
from rlzoo.experiment.environments import build_evaluation_env, check_env_arguments
from rlzoo.experiment.factories import load_model
from rlzoo.experiment.named_classes import import_packages
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import with_agent_file

DEFAULT_STEPS = 1000


@dataclass
class Scores:
    """The whole episodes that were played."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)  # of the environments that report success
    n_steps: int = 0

    def summary(self) -> str:
        """Return, length and success rate, one line each."""
        n = len(self.returns)
        if not n:
            return f"no episode ended in {self.n_steps:,} steps"
        lines = [
            f"{n:,} episode{'s' if n > 1 else ''}",
            f"return       {np.mean(self.returns):.2f} +/- {np.std(self.returns):.2f}",
            f"length       {np.mean(self.lengths):.2f} +/- {np.std(self.lengths):.2f}",
        ]
        if self.successes:
            lines.append(f"success rate {np.mean(self.successes):.1%} +/- {np.std(self.successes):.1%}")
        return "\n".join(lines)


def play(config: PlayConfig) -> Scores:
    """Play an agent as `rlzoo enjoy` does, and print how it did.

    :raises UserError: there is no such agent
    """
    config = with_agent_file(config)
    import_packages(config.gym_packages, config.env_id)
    agent = run_folder.find_agent(config)
    resolved = resolve_config(
        config.algo, merge(agent.hyperparams, {"env_kwargs": config.env_kwargs}), own=False
    )
    ensure_registered(config.env_id)
    check_env_arguments(resolved, config.env_id)
    print(f"playing {agent.path}")
    with ExitStack() as resources:
        with _removed_on_failure(Path(config.reward_log) if config.reward_log else None):
            venv = _build_env(config, resolved)
            resources.callback(venv.close)
            torch.set_num_threads(max(config.num_threads, 1))
            model = load_model(resolved, agent.path, venv, config.device)
        set_random_seed(config.seed)
        venv.seed(config.seed)
        n_steps = config.n_timesteps or (None if config.n_episodes else DEFAULT_STEPS)
        scores = Scores()
        with suppress(KeyboardInterrupt), progress(config, config.n_episodes or n_steps) as on_step:
            play_episodes(
                model,
                venv,
                scores,
                n_steps=n_steps,
                n_episodes=config.n_episodes,
                deterministic=config.is_deterministic,
                wrapped_rewards=config.norm_reward,
                on_step=on_step,
                on_episode=_print_episode if config.verbose > 0 and not config.progress else None,
            )
    print(scores.summary())
    return scores


def play_episodes(
    model: Any,
    venv: VecEnv,
    scores: Scores,
    *,
    n_steps: int | None = None,
    n_episodes: int | None = None,
    deterministic: bool = True,
    wrapped_rewards: bool = False,
    on_step: Callable[[int], None] | None = None,
    on_episode: Callable[[Scores], None] | None = None,
) -> None:
    """Step all environments until `n_steps` steps of each or `n_episodes` whole episodes of all are done.

    Each environment plays its share of the episodes, so short episodes are not preferred.

    :param scores: each whole episode is added to it when it ends
    :param wrapped_rewards: add up the rewards that the agent sees, instead of taking the game's own return
    :param on_step: called after each step with the number of steps so far, or of whole episodes
    """
    n_envs = venv.num_envs
    quota = None if n_episodes is None else [(n_episodes + index) // n_envs for index in range(n_envs)]
    returns, played = np.zeros(n_envs), [0] * n_envs
    obs, state = venv.reset(), None
    starts = np.ones(n_envs, bool)
    masks = mask_keywords(model, venv, None)
    step = 0
    while (n_steps is None or step < n_steps) and (quota is None or any(map(int.__lt__, played, quota))):
        actions, state = model.predict(
            obs, state=state, episode_start=starts, deterministic=deterministic, **masks()
        )
        obs, rewards, starts, infos = venv.step(actions)
        returns += rewards
        step += 1
        scores.n_steps += n_envs
        for index, info in enumerate(infos):
            if "episode" not in info:  # a lost life is no end of a game
                continue
            played[index] += 1
            if quota is None or played[index] <= quota[index]:
                scores.returns.append(float(returns[index] if wrapped_rewards else info["episode"]["r"]))
                scores.lengths.append(int(info["episode"]["l"]))
                if "is_success" in info:
                    scores.successes.append(bool(info["is_success"]))
                if on_episode is not None:
                    on_episode(scores)
            returns[index] = 0
        if on_step is not None:
            on_step(step if quota is None else len(scores.returns))


def has_display() -> bool:
    """Whether a window can be opened here."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


@contextmanager
def _removed_on_failure(folder: Path | None) -> Iterator[None]:
    """Remove a folder, and those above it that were made with it, where the block raises."""
    made = [] if folder is None else [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    except BaseException:
        if made:
            rmtree(made[-1], ignore_errors=True)
        raise


def _build_env(config: PlayConfig, resolved: ResolvedConfig) -> VecEnv:
    """The environments to play in, with a window where one was asked for and can be had."""
    log = Path(config.reward_log) if config.reward_log else None
    if log is not None and log.exists() and not log.is_dir():
        raise UserError(f"--reward-log wants a folder, and {log} is a file")

    def build(resolved: ResolvedConfig, backend: str) -> VecEnv:
        return build_evaluation_env(
            resolved,
            config.env_id,
            config.n_envs,
            config.seed,
            backend,
            monitor_dir=log,
            norm_reward=config.norm_reward,
        )

    if config.no_render:
        return build(resolved, "auto")
    if config.n_envs > 1:
        print("no window: several environments cannot share one")
    elif not has_display():
        print("no window: this machine has no display; `rlzoo record-video` takes the same flags")
    else:
        kwargs = {**resolved.env_kwargs, "render_mode": "human"}
        return build(replace(resolved, env_kwargs=kwargs), "dummy")
    return build(resolved, "auto")


def _print_episode(scores: Scores) -> None:
    success = f", success {scores.successes[-1]}" if scores.successes else ""
    print(
        f"episode {len(scores.returns)}: return {scores.returns[-1]:.2f},"
        f" length {scores.lengths[-1]}{success}"
    )


@contextmanager
def progress(config: PlayConfig, total: int | None, unit: str = "") -> Iterator[Callable[[int], None] | None]:
    """What to call with the number done so far, where a progress bar was asked for.

    :param unit: of what is counted (default: episodes or steps, as `config` says)
    """
    if not config.progress or total is None:
        yield None
        return
    bar, done = ProgressBar(total, unit=unit or ("episodes" if config.n_episodes else "steps")), 0

    def update(completed: int) -> None:
        nonlocal done
        done = completed
        bar.update(completed)

    try:
        yield update
    finally:
        bar.close(done)
