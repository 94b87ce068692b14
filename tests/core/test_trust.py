"""Trusted modules: names that are none are refused in one line."""

from __future__ import annotations

import pytest

from rlzoo.core.errors import UserError
from rlzoo.io.trust import trust


@pytest.mark.parametrize("name", ["a\0b", "a b", "a/b", "a..b", ".a", ""])
def test_trust_refuses_what_is_no_module_name(name, monkeypatch):
    monkeypatch.delenv("RLZOO_TRUST", raising=False)
    with pytest.raises(UserError, match="is not the name of a module or class"):
        trust([name])
