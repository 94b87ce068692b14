"""Data-parallel training: several processes ("ranks") train one agent, each in its environments."""

from rlzoo.distributed.process_group import RankLost
from rlzoo.distributed.ranks import Ranks, join

__all__ = ["RankLost", "Ranks", "join"]
