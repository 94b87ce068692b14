"""LunarLander: flames only where somebody looks, and the same dynamics."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo import make_vec_env
from rlzoo.envs.single_env.flames import FlamesWhenRendered

pytest.importorskip("Box2D")


@pytest.mark.parametrize("env_id", ["LunarLander-v3", "LunarLanderContinuous-v3"])
def test_dynamics_are_those_without_pictures(env_id: str) -> None:
    drawn, plain = (make_vec_env(env_id, 2, seed=3, images=images) for images in (True, False))
    assert (drawn.render_mode, plain.render_mode) == ("rgb_array", None)
    drawn.action_space.seed(0)
    np.testing.assert_array_equal(drawn.reset(), plain.reset())
    for step in range(300):
        actions = np.stack([drawn.action_space.sample() for _ in range(2)])
        for one, other in zip(drawn.step(actions)[:3], plain.step(actions)[:3], strict=True):
            np.testing.assert_array_equal(one, other)
        if step == 150:
            drawn.get_images()
    drawn.close()
    plain.close()


def test_flames_appear_once_a_picture_was_taken() -> None:
    venv = make_vec_env("LunarLander-v3", 1, seed=0)
    venv.reset()
    lander = venv.envs[0].unwrapped
    assert venv.env_is_wrapped(FlamesWhenRendered) == [True]
    for _ in range(5):
        venv.step(np.array([2]))
    assert not lander.particles
    assert venv.get_images()[0].shape == (400, 600, 3)
    for _ in range(5):
        venv.step(np.array([2]))
    assert len(lander.particles) == 5 and lander.render_mode == "rgb_array"
    venv.close()
