from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import gymnasium
import pytest

from rlzoo.core.errors import NotInstalled
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.single_env.check_env import check_env
from rlzoo.envs.single_env.old_gym import patch_env
from rlzoo.envs.vec_env.dummy import DummyVecEnv

OldEnv = type("Env", (), {"__module__": "gym.core", "unwrapped": property(lambda self: self)})


class Walk(OldEnv):  # type: ignore[misc, valid-type]
    def reset(self) -> Any:
        return 0


class Seeded(Walk):
    def reset(self, seed: int | None = None) -> Any:
        return 0, {}


def test_env_of_gym_names_what_adapts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shimmy", None)
    for use in (lambda: patch_env(Walk()), lambda: as_vec_env(Walk()), lambda: DummyVecEnv([Walk])):
        with pytest.raises(NotInstalled, match=r"Walk is an environment of gym, .*'shimmy>=2\.0'"):
            use()
    env = gymnasium.make("CartPole-v1")
    assert patch_env(env) is env
    assert patch_env(3) == 3


def test_env_of_gym_is_adapted_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Adapter(IdentityEnv):
        def __init__(self, env: Any) -> None:
            super().__init__(3)
            self.old = env

    shimmy = ModuleType("shimmy")
    old, new = (type(name, (Adapter,), {}) for name in ("Old", "New"))
    vars(shimmy).update(GymV21CompatibilityV0=old, GymV26CompatibilityV0=new)
    monkeypatch.setitem(sys.modules, "shimmy", shimmy)
    venv = as_vec_env(Walk())
    assert type(venv.envs[0].unwrapped) is old  # type: ignore[attr-defined]
    assert type(patch_env(Seeded())) is new


def test_env_of_gym_is_named_by_check_env() -> None:
    with pytest.raises(AssertionError, match=r"Walk is not a gymnasium.Env; it is one of the old package"):
        check_env(Walk())  # type: ignore[arg-type]
