"""`rlzoo record-expert`: episodes of a trained agent, for behaviour cloning and GAIL."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from rlzoo.config.hyperparams import merge
from rlzoo.config.run import PlayConfig
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.experiment.factories import build_evaluation_env, check_env_arguments, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.io.atomic import check_writable
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import with_agent_file
from rlzoo.training.expert_trajectories import generate_expert_traj


def record_expert(config: PlayConfig, output: str | Path, image_folder: str = "recorded_images") -> Path:
    """Record `config.n_episodes` episodes of an agent, as `rlzoo record-expert` does.

    :param output: the file, `.npz` is appended when it has another suffix or none
    :param image_folder: where images go, relative to the file
    :return: the file that was written
    :raises UserError: there is no such agent, its actions or observations cannot be recorded, or the file
        cannot be written
    """
    config = with_agent_file(config)
    import_packages(config.gym_packages, config.env_id)
    agent = run_folder.find_agent(config)
    resolved = resolve_config(
        config.algo, merge(agent.hyperparams, {"env_kwargs": config.env_kwargs}), trusted=False
    )
    ensure_registered(config.env_id)
    check_env_arguments(resolved, config.env_id)
    path = Path(f"{str(output).removesuffix('.npz')}.npz")
    check_writable(path)
    print(f"recording {agent.path}")
    with ExitStack() as resources:
        venv = build_evaluation_env(resolved, config.env_id, config.n_envs, config.seed, "auto")
        resources.callback(venv.close)
        torch.set_num_threads(max(config.num_threads, 1))
        model = load_model(resolved, agent.path, venv, config.device)
        set_random_seed(config.seed)
        venv.seed(config.seed)
        data = generate_expert_traj(
            model,
            path,
            n_episodes=config.n_episodes or 0,
            image_folder=image_folder,
            deterministic=config.is_deterministic,
        )
    returns = data["episode_returns"]
    print(
        f"{len(returns):,} episodes, {len(data['actions']):,} steps, return {np.mean(returns):.2f}"
        f" +/- {np.std(returns):.2f}, in {path}"
    )
    return path
