"""A file that describes the workers of a study, for `rlzoo jobs`: flags of `rlzoo optimize` as YAML keys."""

from __future__ import annotations

import re

from rlzoo.cli.flags.parser import Parser
from rlzoo.cli.flags.search_flags import tune_config
from rlzoo.config.values_as_text import override_text
from rlzoo.core.errors import UserError, unknown

NO_SEARCH = ("help", "report", "retrain_best", "serve", "trial_id", "trust")
WORKERS = 4


def study_commands(content: dict[str, object], place: str) -> list[list[str]]:
    """Return the commands of the workers of a study, all alike.

    :raises UserError: a key or a value is wrong
    """
    from rlzoo.cli import optimize
    from rlzoo.tuning.study.study import validate

    for key in content:
        if key not in ("optimize", "workers"):
            raise unknown(f"key in {place}", key, ("optimize", "workers"))
    values = content["optimize"]
    is_population = isinstance(values, dict) and values.get("scheduler") is not None
    workers = content.get("workers", 1 if is_population else WORKERS)
    if type(workers) is not int or workers < 1:
        raise UserError(f"{place}: workers must be an integer, at least 1, not {workers!r}")
    if is_population and workers > 1:
        raise UserError(
            f"{place}: one command trains a population: set `workers: 1`, and n_jobs in `optimize`"
        )
    parser = Parser("rlzoo optimize", "")
    optimize.build_parser(parser)
    arguments = search_arguments(parser, values, place)
    args = parser.parse_args(arguments)
    if len(args.env or ()) > 1:
        raise UserError(f"{place}: the workers of a study share one environment, not {args.env}")
    config = tune_config(args, (args.env or ["CartPole-v1"])[0])
    if re.search(r"://[^/@\s]*:[^/@\s]*@|[?&](password|passwd)=", config.storage or ""):
        raise UserError(
            f"{place}: every user of a cluster can read the password in `storage`; leave it out, and put it"
            " into ~/.pgpass or PGPASSWORD"
        )
    validate(config)
    return [["optimize", *arguments]] * workers


def search_arguments(parser: Parser, values: object, place: str) -> list[str]:
    """Return the command line of `rlzoo optimize` for a dictionary of its flags.

    >>> parser = Parser("", "")
    >>> _ = parser.add_argument("--n-trials"), parser.add_argument("--fixed", nargs="+")
    >>> search_arguments(parser, {"n_trials": 5, "fixed": ["gamma", "tau"]}, "study.yml")
    ['--n-trials', '5', '--fixed', 'gamma', 'tau']
    """
    if not isinstance(values, dict) or not values:
        raise UserError(
            f"{place}: `optimize` holds the flags of a search, such as {{algo: ppo, env: CartPole-v1}}"
        )
    flags = {
        spelling.lstrip("-").replace("-", "_"): (max(action.option_strings, key=len), action.nargs == 0)
        for action in parser.actions
        for spelling in action.option_strings
        if spelling.startswith("--") and action.dest not in NO_SEARCH
    }
    arguments: list[str] = []
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in flags:
            raise unknown(f"flag of optimize in {place}", str(key), flags)
        flag, is_switch = flags[name]
        if is_switch or isinstance(value, bool):
            if not is_switch or not isinstance(value, bool):
                raise UserError(
                    f"{place}: {key} must be {'true or false' if is_switch else 'a value'}, not {value!r}"
                )
            arguments += [flag] * value
        elif isinstance(value, dict):
            arguments += [flag, *(override_text(str(inner), given) for inner, given in value.items())]
        elif isinstance(value, list):
            arguments += [flag, *map(str, value)]
        else:
            arguments += [flag, str(value)]
    return arguments
