"""Get the same agent twice from the same seed, and another one from another seed."""

import numpy as np
from stable_baselines3 import A2C, DQN
from stable_baselines3.common.utils import set_random_seed


def weights(cls, seed, **kwargs):
    model = cls("MlpPolicy", "CartPole-v1", seed=seed, **kwargs).learn(200)
    return model.policy.parameters_to_vector()


for cls, kwargs in [(A2C, {}), (DQN, {"learning_starts": 50})]:
    first, second, other = weights(cls, 7, **kwargs), weights(cls, 7, **kwargs), weights(cls, 8, **kwargs)
    assert isinstance(first, np.ndarray) and first.ndim == 1
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)

set_random_seed(3)
draws = np.random.rand(3)
set_random_seed(3)
np.testing.assert_array_equal(draws, np.random.rand(3))
