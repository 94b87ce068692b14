"""`rlzoo.train`, `rlzoo.enjoy` and `rlzoo.optimize`: the commands as functions of Python.

Their keywords are the flags of the commands, read from the same parsers: `n_timesteps` is `--n-timesteps`. A
mistake raises a `UserError`; nothing ends the process.
"""

from __future__ import annotations

import os
from argparse import SUPPRESS, Action, Namespace
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from rlzoo.cli.flags.parser import Parser
from rlzoo.cli.main import build, load_command
from rlzoo.core.errors import UnknownArgument, UserError, unknown
from rlzoo.io.trust import trust

if TYPE_CHECKING:
    import optuna

    from rlzoo.algorithms.base import Algorithm
    from rlzoo.evaluation.evaluate import Episodes

MAPPING = "KEY:VALUE"  # metavar of flags whose values are a dictionary in Python


def parse(command: str, options: Mapping[str, Any]) -> Namespace:
    """Return what the parser of a command makes of keywords.

    :param options: values by the name of the flag with underscores; what is a list of `key:value` on the
        command line may be a dictionary, whose values may be objects
    :raises UnknownArgument: the command has no such flag; names the nearest
    :raises UserError: a value that the flag does not take
    """
    parser = build(command, load_command(command))
    known = keywords(parser)
    words: list[str] = []
    mappings: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        if name not in known:
            raise unknown(f"argument of rlzoo.{command}", name, known, UnknownArgument)
        action = known[name]
        if isinstance(value, Mapping) and action.metavar == MAPPING:
            mappings[action.dest] = dict(value)
        elif value is not None and value != action.default:
            words += _words(name, action, value)
    args = parser.parse_args(words)
    vars(args).update(mappings)
    if trusted := (*vars(args).pop("trust", ()), *getattr(args, "gym_packages", ())):
        trust(trusted)
    return args


def keywords(parser: Parser) -> dict[str, Action]:
    """Return the flags of a parser by what they are called in Python, each under all its long names."""
    return {
        name.removeprefix("--").replace("-", "_"): action
        for action in parser.actions
        for name in (action.dest, *action.option_strings)
        if action.dest != "help" and (name == action.dest or name.startswith("--"))
    }


def signature(command: str, returns: str) -> Signature:
    """Return the signature of a command: its flags as keywords, with their defaults."""
    actions = {action.dest: action for action in keywords(build(command, load_command(command))).values()}
    parameters = [
        Parameter(dest, Parameter.KEYWORD_ONLY, default=action.default)
        for dest, action in actions.items()
        if action.default is not SUPPRESS
    ]
    return Signature(parameters, return_annotation=returns)


def with_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function the signature of the command of its name, for `help` and completion."""
    returns = function.__annotations__["return"]
    function.__signature__ = signature(function.__name__, returns)  # type: ignore[attr-defined]
    return function


@with_signature
def train(**options: Any) -> Algorithm:
    """Train an agent as the command `rlzoo train` does, and return it.

    The keywords are the flags of the command (`rlzoo train --help`). The run is kept in a folder as ever:
    `rlzoo.enjoy` and `rlzoo train --resume` find it. Ctrl-C, or the stop button of a notebook, saves the
    agent and returns it.

    >>> import rlzoo
    >>> model = rlzoo.train(
    ...     algo="ppo", env="CartPole-v1", n_timesteps=1000, hyperparams={"n_steps": 64}, seed=0
    ... )  # doctest: +SKIP

    :param options: keywords of the command; `hyperparams`, `env_kwargs`, `eval_env_kwargs` are dictionaries
    :return: the trained agent; its environments and logger are closed, `set_env(env)` gives it new ones
    :raises UserError: a keyword or a value is wrong; names the nearest right one
    :raises RunFailed: training failed; the message names the files that were kept
    """
    from rlzoo.cli import train as command
    from rlzoo.experiment.resumed_run import resume
    from rlzoo.experiment.training_run import train as train_run

    args = parse("train", options)
    if args.optimize_hyperparameters:
        raise UserError("optimize_hyperparameters=True is rlzoo.optimize(...)")
    if args.n_procs > 1:
        raise UserError("n_procs: rlzoo.train uses this process; use `rlzoo train --n-procs`, or torchrun")
    if args.resume:
        return _detached(resume(args.resume, **command.changes_by_resume(args)).model)
    runs = command.runs_of(args)
    if len(runs) > 1:
        raise UserError(f"rlzoo.train trains on one environment, not on {len(runs)}; call it for each")
    return _detached(train_run(runs[0], _call("train", options)).model)


def _detached(model: Algorithm) -> Algorithm:
    """Return the model without the environments and log files of its run, which are closed."""
    from rlzoo.metrics.logger import configure

    model.env = None
    model.set_logger(configure(None, []))
    return model


@with_signature
def enjoy(**options: Any) -> Episodes:
    """Play a trained agent as the command `rlzoo enjoy` does, and return its scores.

    The keywords are the flags of the command (`rlzoo enjoy --help`).

    >>> scores = rlzoo.enjoy(algo="ppo", env="CartPole-v1", n_episodes=5, no_render=True)  # doctest: +SKIP
    >>> scores.returns, scores.lengths  # doctest: +SKIP
    ([500.0, 500.0, 500.0, 500.0, 500.0], [500, 500, 500, 500, 500])

    :param options: keywords of the command; `env_kwargs` is a dictionary
    :return: `returns` and `lengths` of the whole episodes, in the order in which they ended, and `successes`
        where the environment reports them
    :raises UserError: a keyword or a value is wrong, or there is no such agent
    """
    from rlzoo.cli.flags.agent_flags import play_config
    from rlzoo.playback.play import play

    return play(play_config(vars(parse("enjoy", options))))


@with_signature
def optimize(**options: Any) -> optuna.Study:
    """Search for hyperparameters as the command `rlzoo optimize` does, and return the study.

    The keywords are the flags of the command (`rlzoo optimize --help`). The same call resumes a study
    that was interrupted. `report="NAME"` writes the report of a study again and returns it.

    >>> study = rlzoo.optimize(
    ...     algo="ppo", env="CartPole-v1", n_timesteps=20_000, n_trials=10
    ... )  # doctest: +SKIP
    >>> study.best_trial.value  # doctest: +SKIP
    497.2

    :param options: keywords of the command; `hyperparams` is a dictionary of what is not searched
    :return: the study of Optuna with all its trials
    :raises UserError: a keyword or a value is wrong, or the study was begun with others
    :raises RunFailed: the workers cannot run, or no trial is complete
    """
    from rlzoo.cli import optimize as command

    args = parse("optimize", options)
    for name, instead in {
        "serve": "run `rlzoo optimize --serve` in a terminal",
        "retrain_best": "run `rlzoo optimize --retrain-best` in a terminal",
        "trial_id": "call rlzoo.train(trial_id=...)",
    }.items():
        if getattr(args, name) is not None:
            raise UserError(f"rlzoo.optimize does not take {name}: {instead}")
    if args.scheduler != "none":
        raise UserError(
            "rlzoo.optimize does not take scheduler: run `rlzoo optimize --scheduler` in a terminal"
        )
    configs = command.configs(args)
    if len(configs) > 1:
        raise UserError(f"rlzoo.optimize searches for one environment, not for {len(configs)}")
    return (command.report if args.report is not None else command.search)(configs[0]).study


def _words(name: str, action: Action, value: object) -> list[str]:
    """Return the command-line arguments that represent a value.

    :raises UserError: the value cannot be given on the command line
    """
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise UserError(f"{name} must be True or False, not {value!r}")
        return [flag] if value else []
    if action.nargs is not None and isinstance(value, list | tuple | set):
        items = list(value)
    else:
        items = [value]
    texts = [*_texts(name, action, items)]
    return [f"{flag}={texts[0]}"] if len(texts) == 1 else [flag, *texts]  # one may begin with a dash


def _texts(name: str, action: Action, items: list[Any]) -> Iterator[str]:
    for item in items:
        is_text = isinstance(item, str | os.PathLike)
        if not is_text and (action.metavar == MAPPING or not isinstance(item, int | float)):
            wanted = "a dictionary" if action.metavar == MAPPING else "text or a number"
            raise UserError(f"{name} must be {wanted}, not {item!r}")
        text = os.fspath(item) if isinstance(item, os.PathLike) else str(item)
        if action.type is int and isinstance(item, float) and item.is_integer():
            text = str(int(item))
        yield text


def _call(name: str, options: Mapping[str, Any]) -> str:
    """Return the call of a function, for command.txt."""
    return f"rlzoo.{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
