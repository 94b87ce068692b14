"""Functions that draw hyperparameters for a trial: those of rlzoo's search spaces, and a user's own.

    def sample_my_ppo(trial, n_actions, n_envs, additional_args):
        return {"learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True)}

    rlzoo.HYPERPARAMS_SAMPLER["ppo"] = sample_my_ppo
    rlzoo.optimize(algo="ppo", env="CartPole-v1", n_timesteps=20_000, n_trials=20)

A search with a function of the user's runs its trials in the process that has the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
import optuna

from rlzoo.config import catalog
from rlzoo.config.her_entries import HER
from rlzoo.config.values_as_text import merge
from rlzoo.core.errors import UserError
from rlzoo.experiment.resolve import resolve_names
from rlzoo.tuning.space.default_spaces import overrides, search_space

Sampler: TypeAlias = Callable[[Any, int, int, dict[str, Any]], dict[str, Any]]
"""(trial, n_actions, n_envs, additional_args) -> hyperparameters."""

Converter: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""sampled values -> hyperparameters."""

NET_ARCHS = {
    "tiny": [64], "small": [64, 64], "medium": [256, 256], "big": [400, 300], "large": [256] * 3,
    "verybig": [512] * 3,
}  # fmt: skip


def convert_params(sampled: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters for values as samplers of RL Baselines3 Zoo draw them.

    >>> convert_params({"one_minus_gamma": 0.25, "n_steps_pow": 5, "net_arch": "small"})
    {'gamma': 0.75, 'n_steps': 32, 'policy_kwargs': {'net_arch': [64, 64]}}

    :param sampled: `one_minus_...` is subtracted from 1, `..._pow` is an exponent of 2, `net_arch` may be a
        size and, as `activation_fn` and `n_quantiles`, belongs into `policy_kwargs`; `train_freq` divided by
        `subsample_steps` gives `gradient_steps`; everything else stays
    """
    values: dict[str, Any] = {}
    for key, value in sampled.items():
        if key.startswith("one_minus_"):
            values[key.removeprefix("one_minus_")] = 1 - value
        elif key.endswith("_pow"):
            values[key.removesuffix("_pow")] = 2**value
        elif key in ("net_arch", "activation_fn"):
            value = NET_ARCHS.get(value, value) if isinstance(value, str) else value
            values = merge(values, {"policy_kwargs": {key: value}})
        elif key == "n_quantiles":
            values = merge(values, {"policy_kwargs": {key: value}})
        elif key not in ("subsample_steps", "top_frac_size"):
            values = merge(values, {key: value})
    if "train_freq" in values and ("subsample_steps" in sampled or "gradient_steps" not in values):
        values["gradient_steps"] = max(values["train_freq"] // sampled.get("subsample_steps", 1), 1)
    if "top_frac_size" in sampled:
        values["n_top"] = max(1, int(sampled["top_frac_size"] * values["n_delta"]))
    return values


def own_sampler(algo: str) -> Sampler | None:
    """Return the user's function that draws for an algorithm; None where it is rlzoo's search space."""
    sampler = HYPERPARAMS_SAMPLER.get(algo)
    return None if sampler is _SHIPPED.get(algo) else sampler


def draw(sampler: Sampler, algo: str, trial: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that a user's function draws, converted.

    :param given: n_actions, n_envs and what else the function may ask for
    :raises UserError: it returns no dictionary
    """
    additional = {key: value for key, value in given.items() if key not in ("n_actions", "n_envs")}
    sampled = sampler(trial, given["n_actions"], given["n_envs"], additional)
    if not isinstance(sampled, Mapping):
        raise UserError(f"HYPERPARAMS_SAMPLER[{algo!r}] must return a dictionary, not {sampled!r}")
    return dict(HYPERPARAMS_CONVERTER.get(algo, convert_params)(dict(sampled)))


def asked_for(values: Mapping[str, Any], action_space: gym.Space[Any]) -> dict[str, Any]:
    """Return what a user's function is given for a configuration."""
    is_box = isinstance(action_space, gym.spaces.Box)
    return {
        "n_actions": int(np.prod(action_space.shape or ())) if is_box else 0,
        "n_envs": int(values.get("n_envs", 1)),
        "noise_type": values.get("noise_type"),
        "using_her_replay_buffer": "Her" in str(values.get("replay_buffer_class")),
        "her_kwargs": dict(values.get("replay_buffer_kwargs") or {}),
    }


def _shipped(algo: str) -> Sampler:
    def sample(trial: Any, n_actions: int, n_envs: int, additional_args: dict[str, Any]) -> dict[str, Any]:
        values = {"policy": "MlpPolicy", "n_envs": n_envs}
        space = search_space(algo, values, _actions(algo, n_actions))
        return _ready_to_use(algo, values, space.sample(trial))

    sample.__name__ = sample.__qualname__ = f"sample_{algo}_params"
    sample.__doc__ = f"""Draw hyperparameters of {algo} from rlzoo's search space.

    :param trial: of Optuna
    :param n_actions: dimensions of the actions; 0: they are discrete
    :param additional_args: no effect: the search space knows what suits the algorithm
    :return: hyperparameters, nested as in a hyperparameter file
    """
    return sample


def _shipped_converter(algo: str) -> Converter:
    def convert(sampled: dict[str, Any]) -> dict[str, Any]:
        if all(name.isidentifier() for name in sampled):  # ours have names like `log2(n_steps)`
            return convert_params(sampled)
        values = {"policy": "MlpPolicy"}
        space, rest = search_space(algo, values, _box(1)), dict(sampled)
        known, drawn = dict(space.given), {}
        for key, row in space.rows.items():
            trial = optuna.trial.FixedTrial(dict(sampled))
            try:
                known[key] = drawn[key] = row.suggest(trial, key, known)
            except ValueError:  # not among the parameters: the study's space has no such row
                continue
            rest = {name: value for name, value in rest.items() if name not in trial.params}
        return merge(_ready_to_use(algo, values, drawn), convert_params(rest))

    convert.__name__ = convert.__qualname__ = f"convert_{algo}_params"
    convert.__doc__ = f"""Return hyperparameters of {algo} for what a sampler has drawn.

    :param sampled: what a function in `HYPERPARAMS_SAMPLER` returned (see `convert_params`), or
        `study.best_params` where rlzoo's search space was searched
    :return: hyperparameters, nested as in a hyperparameter file
    """
    return convert


def _actions(algo: str, n_actions: int) -> gym.spaces.Space[Any]:
    """Return actions of so many dimensions; discrete ones for 0, where the algorithm has them."""
    if n_actions == 0 and "Discrete" in catalog.action_spaces(algo):
        return gym.spaces.Discrete(2)
    return _box(n_actions)


def _box(n_actions: int) -> gym.spaces.Box:
    return gym.spaces.Box(-1.0, 1.0, (max(1, n_actions),), np.float32)


def _ready_to_use(algo: str, values: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    ready: dict[str, Any] = resolve_names(overrides(algo, values, drawn), trusted=True)
    return ready


_TRANSLATED = (HER, "ppo1", "ppo2")  # to other algorithms, which have the search space

_SHIPPED: dict[str, Sampler] = {algo: _shipped(algo) for algo in catalog.names() if algo not in _TRANSLATED}

HYPERPARAMS_SAMPLER: dict[str, Sampler] = dict(_SHIPPED)
"""What draws the hyperparameters of a trial, by algorithm. Assign a function of your own."""

HYPERPARAMS_CONVERTER: dict[str, Converter] = {algo: _shipped_converter(algo) for algo in _SHIPPED}
"""By algorithm: makes hyperparameters of what such a function returns, or of `study.best_params`."""

sample_a2c_params = _SHIPPED["a2c"]
sample_ars_params = _SHIPPED["ars"]
sample_ddpg_params = _SHIPPED["ddpg"]
sample_dqn_params = _SHIPPED["dqn"]
sample_ppo_lstm_params = _SHIPPED["ppo_lstm"]
sample_ppo_params = _SHIPPED["ppo"]
sample_qrdqn_params = _SHIPPED["qrdqn"]
sample_sac_params = _SHIPPED["sac"]
sample_td3_params = _SHIPPED["td3"]
sample_tqc_params = _SHIPPED["tqc"]
sample_trpo_params = _SHIPPED["trpo"]
