"""Every loader that is fuzzed."""

from __future__ import annotations

from tests.fuzz import agents

LOADERS = (*agents.LOADERS,)
BY_NAME = {loader.name: loader for loader in LOADERS}
