"""The tests of this folder share studies that no worker ran: `studies`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
