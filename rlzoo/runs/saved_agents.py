"""Saved agents of a log folder: which there are, and where their files lie.

The functions have the names and results of RL Baselines3 Zoo's `rl_zoo3.utils`; the commands use
`rlzoo.runs.run_folder`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.hyperparams import shipped_path
from rlzoo.config.run import LOG_FOLDER, PlayConfig, all_runs, latest_run_id, safe_name
from rlzoo.config.values_as_text import interpret, read_yaml
from rlzoo.core.errors import UserError
from rlzoo.runs.run_folder import find_agent, model_path, read_run


def get_latest_run_id(log_path: str, env_name: str) -> int:
    """Return the highest number of the runs of an environment; 0 when there is none.

    >>> get_latest_run_id("logs/ppo", "CartPole-v1")  # doctest: +SKIP
    3

    :param log_path: folder of the runs of an algorithm
    """
    path = Path(log_path)
    return latest_run_id(path.parent, path.name, str(env_name))


def get_trained_models(log_folder: str) -> dict[str, tuple[str, str]]:
    """Return the final agents of a log folder as {"ppo-CartPole-v1": ("ppo", "CartPole-v1")}.

    :raises UserError: there is no such folder
    """
    root = Path(log_folder)
    if not root.is_dir():
        raise UserError(f"there is no folder {log_folder!r}")
    found = {}
    for algo in sorted(path.name for path in root.iterdir() if catalog.is_name(path.name)):
        for name, _, folder in all_runs(root, algo):
            if model_path(folder, name).is_file():
                found[f"{algo}-{name}"] = (algo, _env_id(folder, name))
    return found


def get_model_path(
    exp_id: int,
    folder: str,
    algo: str,
    env_name: str,
    load_best: bool = False,
    load_checkpoint: str | int | None = None,
    load_last_checkpoint: bool = False,
) -> tuple[str, str, str]:
    """Return what an agent is called in names of files, its file, and the folder of its run.

    >>> get_model_path(0, "logs", "ppo", "CartPole-v1", load_best=True)  # doctest: +SKIP
    ('best-model-ppo-CartPole-v1', 'logs/ppo/CartPole-v1_3/best_model.zip', 'logs/ppo/CartPole-v1_3')

    :param exp_id: number of the run; 0: the newest, -1: the folder of the algorithm itself
    :param folder: log folder; "logs", where `rlzoo train` saves, is completed by the shipped agents
    :raises UserError: there is no such agent; says which there are
    """
    config = PlayConfig(
        algo=algo,
        env_id=str(env_name),
        folder=str(shipped_path(folder)),
        or_shipped=str(Path(folder)) == LOG_FOLDER,
        exp_id=int(exp_id),
        load_best=load_best,
        load_checkpoint=None if load_checkpoint is None else int(load_checkpoint),
        load_last_checkpoint=load_last_checkpoint,
    )
    path = find_agent(config).path
    kind = "best-model" if load_best else "final-model"
    if load_checkpoint is not None or load_last_checkpoint:
        kind = f"checkpoint-{path.stem.split('_')[-2]}"
    return f"{kind}-{algo}-{safe_name(str(env_name))}", str(path), str(path.parent)


def get_saved_hyperparams(
    stats_path: str, norm_reward: bool = False, test_mode: bool = False
) -> tuple[dict[str, object], str | None]:
    """Return the hyperparameters of a run and the folder of its normalisation statistics.

    >>> values, path = get_saved_hyperparams("logs/ppo/CartPole-v1_1/CartPole-v1")  # doctest: +SKIP

    :param stats_path: folder of its config.yml
    :param norm_reward: rewards are normalised, too, where `test_mode`
    :param test_mode: for playing, not for training
    :return: the hyperparameters with `normalize` and, where that is true, `normalize_kwargs`; {} and None
        where there is no such folder
    """
    folder = Path(stats_path)
    if not folder.is_dir():
        return {}, None
    config = folder / "config.yml"
    values: dict[str, Any] = dict(read_yaml(config) or {}) if config.is_file() else {}
    if values.setdefault("normalize", False):
        given = interpret({"normalize": values["normalize"]})["normalize"]
        kwargs = {**(given if isinstance(given, dict) else {}), **values.get("normalize_kwargs", {})}
        if test_mode:
            kwargs["norm_reward"] = norm_reward
        elif not isinstance(given, dict):
            kwargs = {"norm_obs": True, "norm_reward": norm_reward, **kwargs}
        values["normalize_kwargs"] = kwargs
    return values, stats_path


def _env_id(folder: Path, name: str) -> str:
    """Return the environment of a run, whose folder may be called otherwise."""
    try:
        return read_run(folder).env_id
    except UserError:  # of RL Baselines3 Zoo
        return name
