"""`rlzoo enjoy`: play a trained agent and measure it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import torch

from rlzoo.callbacks.progress_bar import ProgressBar
from rlzoo.config.hyperparams import merge
from rlzoo.config.run import PlayConfig
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.evaluation.evaluate import Episodes, play_episodes
from rlzoo.experiment.factories import build_evaluation_env, check_env_arguments, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import with_agent_file
from rlzoo.runs.pretrained_registry import shipped_root

DEFAULT_STEPS = 1000


def play(config: PlayConfig) -> Episodes:
    """Play an agent as `rlzoo enjoy` does, and print how it did.

    :raises UserError: there is no such agent
    """
    config = with_agent_file(config)
    import_packages(config.gym_packages, config.env_id)
    agent = run_folder.find_agent(config)
    resolved = resolve_config(
        config.algo, merge(agent.hyperparams, {"env_kwargs": config.env_kwargs}), trusted=False
    )
    ensure_registered(config.env_id)
    check_env_arguments(resolved, config.env_id)
    is_shipped = shipped_root() in Path(agent.path).parents
    print(f"playing {'the shipped agent ' * is_shipped}{agent.path}")
    with ExitStack() as resources:
        with _removed_on_failure(Path(config.reward_log) if config.reward_log else None):
            venv = _build_env(config, resolved)
            resources.callback(venv.close)
            torch.set_num_threads(max(config.num_threads, 1))
            model = load_model(resolved, agent.path, venv, config.device)
        set_random_seed(config.seed)
        venv.seed(config.seed)
        n_steps = config.n_timesteps or (None if config.n_episodes else DEFAULT_STEPS)
        scores = Episodes()
        with suppress(KeyboardInterrupt), progress(config, config.n_episodes or n_steps) as on_step:
            play_episodes(
                model,
                venv,
                config.n_episodes,
                config.is_deterministic,
                n_steps=n_steps,
                wrapped_rewards=config.norm_reward,
                episodes=scores,
                on_step=on_step,
                on_episode=_print_episode if config.verbose > 0 and not config.progress else None,
            )
    print(scores.summary())
    scores.successes = [success for success in scores.successes if success is not None]
    return scores


def has_display() -> bool:
    """Return whether a window can be opened."""
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
    """Build the environments, with a window where one is wanted and possible."""
    log = Path(config.reward_log) if config.reward_log else None
    if log is not None and log.exists() and not log.is_dir():
        raise UserError(f"--reward-log wants a folder, and {log} is a file")
    if log is not None:
        try:
            log.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--reward-log: cannot make {log}: {error.strerror}") from None

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


def _print_episode(scores: Episodes) -> None:
    success = "" if scores.successes[-1] is None else f", success {scores.successes[-1]}"
    print(
        f"episode {len(scores.returns)}: return {scores.returns[-1]:.2f},"
        f" length {scores.lengths[-1]}{success}"
    )


@contextmanager
def progress(config: PlayConfig, total: int | None, unit: str = "") -> Iterator[Callable[[int], None] | None]:
    """Yield a function to call with the number done so far; None without a progress bar.

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
