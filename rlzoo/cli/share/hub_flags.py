"""Flags that `rlzoo pull` and `rlzoo push` share."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import FlagGroup


def add_repository_flags(group: FlagGroup, organization: str) -> None:
    """Add `-orga` and `-name`.

    :param organization: help of `-orga`, default included
    """
    group.add_argument("-orga", "--organization", default="", metavar="ORG", help=organization)
    group.add_argument(
        "-name", "--repo-name", default="", metavar="REPO", help="repository (default: ALGO-ENV)"
    )


def add_verbose_flag(parser: argparse.ArgumentParser, least: str, normal: str) -> None:
    """Add `--verbose`.

    :param least: what 0 prints
    :param normal: what 1 prints
    """
    parser.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help=f"0: {least}, 1: {normal}, 2: messages of huggingface_hub (default: 1)",
    )
