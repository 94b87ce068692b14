"""Data-parallel training: several processes ("ranks") train one agent, each in its environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlzoo.distributed.process_group import RankLost
    from rlzoo.distributed.ranks import Ranks, join

__all__ = ["RankLost", "Ranks", "join"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: starting ranks needs no PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rlzoo.distributed import process_group, ranks

    return getattr(process_group if name == "RankLost" else ranks, name)
