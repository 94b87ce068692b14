"""LunarLander without the cost of its flames while nobody looks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class FlamesWhenRendered(gym.Wrapper[Any, Any, Any, Any]):
    """LunarLander whose engines emit flames only from the first picture on.

    With a render mode, each flame is a body of the simulated world until the episode ends, which more than
    doubles the time of a step; it has no effect on observations and rewards.

    :param env: a LunarLander with render_mode="rgb_array"
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._lander: Any = env.unwrapped
        self._mode = self._lander.render_mode
        self._is_rendered = False

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._is_rendered:
            return self.env.step(action)
        self._lander.render_mode = None
        try:
            return self.env.step(action)
        finally:
            self._lander.render_mode = self._mode

    def render(self) -> Any:
        self._is_rendered = True
        return self.env.render()


def draws_flames(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment is a LunarLander of Gymnasium with render_mode="rgb_array"."""
    lander = env.unwrapped
    return (
        type(lander).__module__ == "gymnasium.envs.box2d.lunar_lander" and lander.render_mode == "rgb_array"
    )
