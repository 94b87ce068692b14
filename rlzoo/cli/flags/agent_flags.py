"""Flags that select a trained agent, and the environments that it plays in."""

from __future__ import annotations

import argparse
from typing import Any

from rlzoo.cli.flags.parser import Choice, FlagGroup, IntInRange, NotNeeded
from rlzoo.config import catalog
from rlzoo.config.hyperparams import shipped_path
from rlzoo.config.run import LOG_FOLDER, PlayConfig
from rlzoo.config.values_as_text import overrides_of
from rlzoo.core.errors import UserError

LOCATION_FLAGS = ("exp_id", "load_best", "load_checkpoint", "load_last_checkpoint")
"""Destinations of flags that find an agent in a run folder."""


def add_agent_flags(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add `--algo`, `--env`, `--folder`, `--exp-id` and which model to load.

    :param verb: what the command does with the agent, for the help
    """
    which = add_run_flags(parser, "agent", ", or that of -i")
    which.add_argument(
        "-i",
        "--trained-agent",
        default="",
        metavar="FILE",
        help="model file of rlzoo or stable-baselines3, instead of one in a run folder",
    )
    kind = which.add_mutually_exclusive_group()
    kind.add_argument("--load-best", action="store_true", help=f"{verb} the best model of all evaluations")
    kind.add_argument(
        "--load-checkpoint",
        type=IntInRange(0),
        default=None,
        metavar="STEPS",
        help=f"{verb} the checkpoint at this step",
    )
    kind.add_argument("--load-last-checkpoint", action="store_true", help=f"{verb} the last checkpoint")
    which.add_argument(
        "--custom-objects", action=NotNeeded, reason="models are loaded without it", help="no effect"
    )


def add_run_flags(parser: argparse.ArgumentParser, title: str, otherwise: str = "") -> FlagGroup:
    """Add `--algo`, `--env`, `--folder` and `--exp-id`, which find a run; set defaults for the others.

    :param otherwise: what else `--algo` and `--env` come from, for the help
    """
    parser.set_defaults(trained_agent="", load_best=False, load_checkpoint=None, load_last_checkpoint=False)
    which = parser.add_argument_group(title)
    which.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        default=None,
        metavar="ALGO",
        help=f"algorithm (default: ppo{otherwise})",
    )
    which.add_argument(
        "--env", default=None, metavar="ENV", help=f"environment id (default: CartPole-v1{otherwise})"
    )
    which.add_argument(
        "-f",
        "--folder",
        metavar="DIR",
        help="folder of the runs (default: logs, then the pretrained agents)",
    )
    which.add_argument(
        "--exp-id",
        type=IntInRange(0, special=(-1,)),
        default=0,
        metavar="N",
        help="number of the run; 0: the newest, -1: the folder itself (default: 0)",
    )
    return which


def add_playing_flags(how: FlagGroup) -> None:
    """Add the environments, the choice of actions and the device."""
    how.add_argument(
        "--n-envs", type=IntInRange(1), default=1, metavar="N", help="parallel environments (default: 1)"
    )
    how.add_argument(
        "--seed",
        type=IntInRange(0, 2**32 - 1),
        default=0,
        metavar="N",
        help="seed of the environments (default: 0)",
    )
    mode = how.add_mutually_exclusive_group()
    mode.add_argument(
        "--deterministic",
        action="store_true",
        help="take the most likely action (default, except for Atari and MiniGrid)",
    )
    mode.add_argument("--stochastic", action="store_true", help="sample actions from the policy")
    add_environment_flags(how)
    how.add_argument("--device", default="auto", metavar="NAME", help="PyTorch device (default: auto)")
    how.add_argument(
        "--num-threads",
        type=IntInRange(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="PyTorch threads (default: 1)",
    )


def add_environment_flags(how: FlagGroup) -> None:
    """Add `--env-kwargs` and `--gym-packages`."""
    how.add_argument(
        "--env-kwargs",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="keyword arguments of the environment",
    )
    how.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules that register environments; imported first",
    )


def play_config(values: dict[str, Any]) -> PlayConfig:
    """Build the configuration from these flags and those that a command adds.

    :param values: flag -> value, as the parser leaves them
    """
    values = {**values, "env_id": values["env"], "env_kwargs": overrides_of(values["env_kwargs"])}
    if values["trained_agent"]:
        given = [flag for flag in LOCATION_FLAGS if values[flag] not in (None, False, 0)]
        if given:
            raise UserError(f"-i names the agent: leave out --{given[0].replace('_', '-')}")
        values |= {"algo": values["algo"] or "", "env_id": values["env_id"] or ""}
    else:
        values |= {"algo": values["algo"] or "ppo", "env_id": values["env_id"] or "CartPole-v1"}
    values["or_shipped"] = values["folder"] is None
    values["folder"] = str(shipped_path(LOG_FOLDER if values["or_shipped"] else values["folder"]))
    del values["env"]
    return PlayConfig(**{**values, "gym_packages": tuple(values["gym_packages"])})
