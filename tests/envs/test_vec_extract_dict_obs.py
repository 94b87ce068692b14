from __future__ import annotations

import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import SimpleMultiObsEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_wrappers.vec_extract_dict_obs import VecExtractDictObs


def test_one_entry_is_kept() -> None:
    inner = DummyVecEnv([lambda: SimpleMultiObsEnv()] * 2)
    venv = VecExtractDictObs(inner, "vec")
    assert venv.observation_space == inner.observation_space["vec"]  # type: ignore[index]
    np.testing.assert_array_equal(venv.reset(), inner._obs.batch["vec"])
    ended = 0
    for seed in range(300):
        venv.action_space.seed(seed)
        step = venv.step_arrays(np.array([venv.action_space.sample() for _ in range(2)]))
        assert step.obs.shape == (2, *venv.observation_space.shape)  # type: ignore[misc]
        if len(step.ended):
            ended += 1
            assert step.final_obs.shape == (len(step.ended), *venv.observation_space.shape)  # type: ignore[misc]
    assert ended


def test_a_wrong_key_or_space_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'vec'"):
        VecExtractDictObs(DummyVecEnv([lambda: SimpleMultiObsEnv()]), "vek")
    with pytest.raises(UserError, match="needs Dict"):
        VecExtractDictObs(NativeCartPole("CartPole-v1"), "vec")
