"""Every loader that is fuzzed."""

from __future__ import annotations

from tests.fuzz import agents, configurations, foreign, runs

LOADERS = (*agents.LOADERS, *configurations.LOADERS, *runs.LOADERS, *foreign.LOADERS)
BY_NAME = {loader.name: loader for loader in LOADERS}
