"""`rlzoo show`: the hyperparameters that a training would use, and where each comes from."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import Choice
from rlzoo.config import catalog
from rlzoo.core.errors import printable

EPILOG = """\
examples:
  rlzoo show --algo ppo --env CartPole-v1
  rlzoo show --algo ppo --env HalfCheetah-v5 -params n_envs:4
  rlzoo show --algo a2c --env MyEnv-v0 --conf-file my_hyperparams.yml
  rlzoo show --algo sac --env Pendulum-v1 --explain

The output is YAML; save it to a file for `rlzoo train --conf-file`.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        default="ppo",
        metavar="ALGO",
        help="default: ppo",
    )
    parser.add_argument("--env", default="CartPole-v1", metavar="ENV", help="default: CartPole-v1")
    parser.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="overrides, as for `rlzoo train`",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print every hyperparameter with its value, default and description",
    )
    parser.add_argument("-conf", "--conf-file", metavar="FILE", help="this file instead of the shipped one")


def run(args: argparse.Namespace) -> int:
    from rlzoo.config.hyperparams import lookup, with_overrides
    from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
    from rlzoo.config.values_as_text import parse_overrides

    given = with_overrides(lookup(args.algo, args.env, args.conf_file), parse_overrides(args.hyperparams))
    raw = translate_sb2_entry(given)
    if args.hyperparams or args.conf_file:  # the shipped entries are checked, and need no PyTorch here
        from rlzoo.experiment.validate_hyperparams import check_entry

        check_entry(args.algo, given.values)
    print(f"# {args.algo} on {args.env}")
    if args.explain:
        from rlzoo.cli.explain import explained
        from rlzoo.config.her_entries import expand_her

        algorithm = catalog.load(expand_her(raw).algo)
        print(printable("\n".join(explained(algorithm, raw.values, raw.sources))))
        return 0
    for key, value in raw.values.items():
        print(printable(annotated(key, value, raw.sources[key])))
    return 0


def annotated(key: str, value: object, source: str) -> str:
    """Return one key as YAML, with its source as a comment on the first line."""
    from rlzoo.config.values_as_text import dump_yaml, plain

    first, *rest = dump_yaml({key: plain(value)}).splitlines()
    return "\n".join([f"{first}  # {source}", *rest])
