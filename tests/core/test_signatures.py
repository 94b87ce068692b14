from __future__ import annotations

from typing import Any

from rlzoo.core.signatures import constructor_parameters


class Base:
    def __init__(self, first: int, second: float = 2.0) -> None: ...


class Closed(Base):
    def __init__(self, own: str) -> None:
        super().__init__(1)


class Open(Base):
    def __init__(self, *args: Any, own: str, second: int = 3, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Silent(Open):
    pass


def test_signature_follows_forwarded_keywords() -> None:
    assert list(constructor_parameters(Closed)) == ["own"]
    for cls in (Open, Silent):
        assert set(constructor_parameters(cls)) == {"own", "first", "second"}
    assert constructor_parameters(Open)["second"].annotation == "int"  # of the class itself
    assert constructor_parameters(object) == {}
