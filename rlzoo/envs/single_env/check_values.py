"""Check the values that `reset` and `step` of an environment return."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from rlzoo.envs.single_env.check_spaces import SUPPORTED

MOST_INDICES = 20  # listed of an observation outside its bounds


def reset_problems(space: spaces.Space, returned: object) -> Iterator[str]:
    """Yield an error for each rule that the return value of `reset()` breaks."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        yield f"reset() must return a tuple of two, (observation, info), not {_described(returned)}"
        return
    observation, info = returned
    yield from observation_problems(space, observation, "reset()")
    if not isinstance(info, dict):
        yield f"reset() must return a dict as info, not {_described(info)}"


def step_problems(space: spaces.Space, returned: object) -> Iterator[str]:
    """Yield an error for each rule that the return value of `step()` breaks."""
    if isinstance(returned, tuple) and len(returned) == 5:
        yield from observation_problems(space, returned[0], "step()")
    yield from outcome_problems(returned)


def outcome_problems(returned: object) -> Iterator[str]:
    """Yield an error for each rule that the return value of `step()` breaks, except for the observation."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        yield (
            "step() must return a tuple of five, (observation, reward, terminated, truncated, info), not"
            f" {_described(returned)}"
        )
        return
    _, reward, terminated, truncated, info = returned
    if not isinstance(reward, int | float | np.integer | np.floating):
        yield f"step() must return a float as reward, one finite number, not {_described(reward)}"
    elif not np.isfinite(reward):
        yield f"step() returned the reward {reward}: it must be one finite number"
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            yield f"step() must return a boolean as {name}, not {_described(value)}"
    if not isinstance(info, dict):
        yield f"step() must return a dict as info, not {_described(info)}"


def observation_problems(space: spaces.Space, observation: object, call: str) -> Iterator[str]:
    """Yield an error for each rule that an observation breaks, by entry of a Dict."""
    if not isinstance(space, spaces.Dict):
        yield from _value_problems(space, observation, call)
    elif not isinstance(observation, dict):
        yield f"{call} must return a dict as observation, not {_described(observation)}"
    else:
        if observation.keys() != space.spaces.keys():
            yield (
                f"{call} returned an observation with the keys {list(observation)}; the space has"
                f" {list(space.spaces)}"
            )
        for key, part in space.items():
            if key in observation:
                for problem in observation_problems(part, observation[key], call):
                    yield f"Error while checking key={key}: {problem}"


def is_fatal(space: spaces.Space, observation: object) -> bool:
    """Return whether an observation would make training fail: wrong shape, no numbers, NaN or infinity."""
    if isinstance(space, spaces.Dict):
        return not isinstance(observation, dict) or any(
            key not in observation or is_fatal(part, observation[key]) for key, part in space.items()
        )
    if not isinstance(space, SUPPORTED):
        return False
    array = np.asarray(observation)
    return (
        array.shape != (space.shape or ()) or array.dtype.kind not in "biuf" or not np.isfinite(array).all()
    )


def _value_problems(space: spaces.Space, value: object, call: str) -> Iterator[str]:
    if isinstance(space, spaces.Discrete):
        if not isinstance(value, int | np.integer):
            yield f"{call} must return an int as observation, not {_described(value)}"
            return
    elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        if not isinstance(value, np.ndarray) and not (space.shape == () and isinstance(value, np.generic)):
            yield f"{call} must return a numpy array as observation, not {_described(value)}"
            return
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            yield f"{call} returned an observation with NaN or infinity: {value}"
            return
    elif not isinstance(space, spaces.Tuple):
        return  # `observation_advice` warns of it
    if not space.contains(value):
        yield f"{call} returned an observation outside of the space {space}: {_explained(space, value)}"


def _explained(space: spaces.Space, value: object) -> str:
    """Return the reason why a space does not contain a value."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.shape != space.shape:
        return f"Expected: {space.shape}, actual shape: {value.shape}"
    if space.dtype is not None and not np.can_cast(value.dtype, space.dtype):
        return f"Expected: {space.dtype}, actual dtype: {value.dtype}"
    if not isinstance(space, spaces.Box):
        return repr(value)
    outside = np.argwhere((value < space.low) | (value > space.high))
    named = [
        f"Expected: {space.low[index]} <= obs[{','.join(map(str, index))}] <= {space.high[index]},"
        f" actual value: {value[index]}"
        for index in map(tuple, outside[:MOST_INDICES].tolist())
    ]
    more = f"; and {len(outside) - MOST_INDICES} more" if len(outside) > MOST_INDICES else ""
    return f"{len(outside)} invalid indices: {'; '.join(named)}{more}"


def _described(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {len(value)}"
    return f"{value!r:.60} ({type(value).__name__})"
