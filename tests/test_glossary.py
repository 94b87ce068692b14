"""docs/developing/glossary.md names what exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_glossary_names_exist_where_it_says():
    page = (ROOT / "docs" / "developing" / "glossary.md").read_text()
    rows = re.findall(r"(?m)^\| (.+?) \| .+ \| \{source\}`(rlzoo/[^`]+)` \|$", page)
    assert len(rows) > 30
    for term, place in rows:
        path = ROOT / place
        assert path.exists(), place
        for name in re.findall(r"`(\w+)`", term):
            assert re.search(rf"(?m)^(class|def) {name}\b", path.read_text()), f"{name} is not in {place}"
