from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rlzoo.core.observations import copy_obs_dict, dict_to_obs, obs_space_info

BOX, CHOICE = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)


def test_space_info_names_the_arrays_of_an_observation() -> None:
    assert obs_space_info(BOX) == ([None], {None: (2,)}, {None: np.dtype(np.float32)})
    keys, shapes, dtypes = obs_space_info(spaces.Dict({"a": BOX, "b": CHOICE}))
    assert (keys, shapes) == (["a", "b"], {"a": (2,), "b": ()})
    assert dtypes["b"] == np.int64
    assert obs_space_info(spaces.Tuple((CHOICE, BOX)))[1] == {0: (), 1: (2,)}


def test_arrays_become_an_observation_of_the_space() -> None:
    one, two = np.ones(2), np.zeros(2)
    assert dict_to_obs(BOX, {None: one}) is one
    assert dict_to_obs(spaces.Dict({"a": BOX}), {"a": one}) == {"a": one}
    first, second = dict_to_obs(spaces.Tuple((BOX, BOX)), {0: one, 1: two})
    assert (first is one, second is two) == (True, True)
    copied = copy_obs_dict({"a": one})
    copied["a"][0] = 7
    assert one[0] == 1
