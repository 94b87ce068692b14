"""A goal environment, as a package of a user registers it."""

from __future__ import annotations

import gymnasium as gym

from rlzoo import BitFlippingEnv

if "Goals-v0" not in gym.registry:
    gym.register("Goals-v0", lambda **kwargs: BitFlippingEnv(3, **kwargs))
