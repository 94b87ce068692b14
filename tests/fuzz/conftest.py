"""The fuzzers are a package, which their child processes import too; they read memory from Linux's /proc."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
collect_ignore_glob = [] if sys.platform.startswith("linux") else ["test_*.py"]
