"""LunarLander without the cost of its flames while nobody looks."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym


class FlamesWhenRendered(gym.Wrapper):  # type: ignore[type-arg]
    """LunarLander whose engines emit flames only from the first picture on.

    With a render mode, each flame is a body of the simulated world until the episode ends, which more than
    doubles the time of a step; it has no effect on observations and rewards.

    :param env: a LunarLander with render_mode="rgb_array"
    """

    is_rendered = False

    def step(self, action: object) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        if self.is_rendered:
            return self.env.step(action)
        lander = self.unwrapped
        mode, lander.render_mode = lander.render_mode, None
        try:
            return self.env.step(action)
        finally:
            lander.render_mode = mode

    def render(self) -> Any:
        self.is_rendered = True
        return self.env.render()


def draws_flames(env: gym.Env[object, object]) -> bool:
    """Return whether an environment is a LunarLander of Gymnasium with render_mode="rgb_array"."""
    lander = env.unwrapped
    return (
        type(lander).__module__ == "gymnasium.envs.box2d.lunar_lander" and lander.render_mode == "rgb_array"
    )
