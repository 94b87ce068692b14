"""Atari games stepped by ale-py's own threads, with the preprocessing of `AtariWrapper`.

ale-py's emulator does no-ops, frame skip, pooling and resizing. Lives, FIRE, clipping and the statistics of
whole games are kept here: ale-py restarts the game at a lost life and does not press FIRE again, the Python
wrappers go on with the same game. Every environment has an emulator with one thread of its own, so that those
which begin an episode can be stepped without the rest; idle threads sleep, and the operating system runs no
more of them at once than there are cores.
"""

from __future__ import annotations

import copy
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.atari.atari_wrappers import AtariWrapper, needs_fire
from rlzoo.envs.single_env.monitor import EXTENSION, Monitor, ResultsWriter
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv, is_wrapped
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, VecEnv, VecStep

GAME_SETTINGS = {
    "game",
    "frameskip",
    "repeat_action_probability",
    "full_action_space",
    "max_num_frames_per_episode",
}
WRAPPING = {
    "noop_max",
    "frame_skip",
    "screen_size",
    "terminal_on_life_loss",
    "clip_reward",
    "action_repeat_probability",
}
# Games that change colours from frame to frame: there the brighter of two grey frames is not the grey of the
# brighter colours, which the Python wrappers show. Pooled in colour, a step costs a quarter more.
IN_COLOUR = {
    "adventure",
    "air_raid",
    "alien",
    "battle_zone",
    "bowling",
    "crazy_climber",
    "freeway",
    "krull",
    "kung_fu_master",
    "private_eye",
    "riverraid",
    "robotank",
    "solaris",
    "tennis",
    "up_n_down",
    "zaxxon",
}
UNLIMITED = 2**31 - 1  # frames
FULL_STRENGTH = [1.0]  # of the paddle, for each action sent
NATIVE_ATTRIBUTES = ("spec", "action_space", "observation_space", "render_mode", "metadata")
SCREEN = (160, 210)  # width and height of a game's picture

logger = logging.getLogger(__name__)


def make_engine(settings: Mapping[str, Any], noop_max: int, frame_skip: int, screen_size: int) -> Any:
    """One game of ale-py that restarts in the step after the one that ended it, and changes no rewards."""
    import ale_py
    from ale_py import roms

    engine: Any = ale_py.ALEVectorInterface  # its type stubs lack the defaults
    return engine(
        rom_path=roms.get_rom_path(settings["game"]),
        num_envs=1,
        num_threads=1,
        frame_skip=max(frame_skip, 1),
        stack_num=1,
        img_height=screen_size,
        img_width=screen_size,
        grayscale=frame_skip <= 1 or settings["game"] not in IN_COLOUR,
        maxpool=frame_skip > 1,
        noop_max=noop_max + 1,  # ale-py draws from 0 to noop_max - 1
        use_fire_reset=False,
        reward_clipping=False,
        max_episode_steps=settings["max_num_frames_per_episode"],
        repeat_action_probability=settings["repeat_action_probability"],
        full_action_space=settings["full_action_space"],
        autoreset_mode="NextStep",
    )


class LivesInfos(Sequence[dict[str, Any]]):
    """Infos with the current lives of each game; a dictionary is made when somebody reads it."""

    def __init__(self, lives: list[int]) -> None:
        self._lives = lives

    def __len__(self) -> int:
        return len(self._lives)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        return {"lives": self._lives[index]}


class NativeAtariVecEnv(DummyVecEnv):
    """`num_envs` copies of one game; observations [num_envs, screen_size, screen_size, 1] uint8.

    `infos[i]["episode"]` holds return and length of a whole game: unclipped, over all lives, the length in
    frames. Of a game that ends within the no-op after a lost life it is only in the monitor file, as with the
    Python wrappers.

    :param spec: the Gymnasium registration, for `get_attr("spec")`
    :param settings: the game's own settings, `GAME_SETTINGS`
    :param monitor_dir: where to write `<start_index + i>.monitor.csv`; None writes nothing
    :param override_existing: start these files anew; otherwise continue them
    :param makers: functions that make the same environments one by one, which go on with these files

    The other parameters are those of `AtariWrapper`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        num_envs: int,
        spec: Any,
        settings: Mapping[str, Any],
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int = 84,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
        action_repeat_probability: float = 0.0,
        monitor_dir: str | os.PathLike[str] | None = None,
        start_index: int = 0,
        override_existing: bool = True,
        makers: Sequence[Callable[[], gym.Env]] = (),
    ) -> None:
        sticky = action_repeat_probability or settings["repeat_action_probability"]
        self._engines = [
            make_engine({**settings, "repeat_action_probability": sticky}, noop_max, frame_skip, screen_size)
            for _ in range(num_envs)
        ]
        self.action_meanings = [action.name for action in self._engines[0].get_action_set()]
        screen = (screen_size, screen_size, 1)
        space, actions = spaces.Box(0, 255, screen, np.uint8), spaces.Discrete(len(self.action_meanings))
        VecEnv.__init__(self, num_envs, space, actions, "rgb_array")
        self._makers = makers
        self._asked_for_envs = False
        self.spec = spec
        self.start_actions = (1, 2) if needs_fire(self.action_meanings) else ()
        self.noop_max = noop_max
        self.terminal_on_life_loss = terminal_on_life_loss
        self.clip_reward = clip_reward
        self._screens = np.zeros((num_envs, *screen), dtype=np.uint8)
        self._rewards = np.zeros(num_envs, dtype=np.float32)
        self._terminated = np.zeros(num_envs, dtype=bool)
        self._truncated = np.zeros(num_envs, dtype=bool)
        self._lives = [0] * num_envs
        self._game_over = [False] * num_envs
        self._returns = [0.0] * num_envs
        self._episodes: dict[int, dict[str, Any]] = {}  # games that were over in this step
        self._actions: list[int] = []
        self._steps_taken = -1
        self._reset_seeds: list[int | None] | None = None  # of a reset that no step has followed
        self._lives_infos = LivesInfos(self._lives)
        self._t_start = time.time()
        self._writers: list[ResultsWriter] = []
        if monitor_dir is not None:
            header = {"t_start": self._t_start, "env_id": spec.id}
            numbers = range(start_index, start_index + num_envs)
            files = [Path(monitor_dir) / f"{number}.{EXTENSION}" for number in numbers]
            self._writers = [
                ResultsWriter(file, header, override_existing=override_existing) for file in files
            ]

    def reset(self) -> np.ndarray:
        if self._actions:  # a step is under way
            self.wait_arrays()
        if self._asked_for_envs:
            return cast(np.ndarray, self._as_real_envs().reset())
        resets = list(self._take_seeds_and_options())
        self._reset_seeds = [seed for seed, _ in resets]
        for index, seed in enumerate(self._reset_seeds):
            first = self._engines[index].reset([0], [-1 if seed is None else seed % 2**31])
            obs, info = self._waited(index, *first)
            self._write_obs(index, obs)
            self._lives[index] = int(info["lives"][0])
            self._returns[index] = 0.0
        self._game_over = [False] * self.num_envs
        self._press_start(range(self.num_envs))
        self._episodes.clear()
        self._steps_taken = max(self._steps_taken, 0)
        return self._screens.copy()

    def step_async(self, actions: np.ndarray) -> None:
        if self._steps_taken < 0:
            raise UserError("call reset() before the first step()")
        self._reset_seeds = None
        self._actions = np.asarray(actions).tolist()
        if len(self._actions) != self.num_envs:
            raise UserError(f"{len(self._actions)} actions for {self.num_envs} environments")
        n_actions = len(self.action_meanings)
        for index, action in enumerate(self._actions):
            if not 0 <= action < n_actions:  # ale-py would wait for ever
                raise EnvironmentFailed(
                    f"environment {index} got the action {action} at step {self._steps_taken};"
                    f" it has the actions 0 to {n_actions - 1}",
                    env_index=index,
                    step=self._steps_taken,
                )
        for engine, action in zip(self._engines, self._actions, strict=True):
            engine.send([action], FULL_STRENGTH)

    def wait_arrays(self) -> VecStep:
        if not self._actions:
            raise UserError("call step_async() before step_wait()")
        self._actions = []
        self._steps_taken += 1
        ended = [index for index in range(self.num_envs) if self._receive(index)]
        rewards = np.sign(self._rewards) if self.clip_reward else self._rewards
        if not ended:
            return VecStep(
                self._screens, rewards, self._terminated, self._truncated, NO_ENDS, None, self._lives_infos
            )
        step = VecStep(
            self._screens,
            rewards.copy(),
            self._terminated.copy(),
            self._truncated.copy(),
            np.array(ended),
            self._screens[ended],
            [*self._lives_infos],
        )
        for index, episode in self._episodes.items():
            step.infos[index]["episode"] = episode
        self._begin_episodes(ended)
        self._episodes.clear()
        return step

    def _receive(self, index: int) -> bool:
        """Take over what an emulator's step gave; returns whether an episode of the agent ended."""
        obs, reward, over, limit, info = self._engines[index].recv()
        if self._game_over[index]:  # this step restarted the game
            obs, info = self._waited(index, obs, info)
        self._write_obs(index, obs)
        gain = float(reward[0])
        lives = int(info["lives"][0])
        lost = self.terminal_on_life_loss and 0 < lives < self._lives[index]
        self._rewards[index] = gain
        self._returns[index] += gain
        self._lives[index] = lives
        self._terminated[index] = bool(over[0]) or lost
        self._truncated[index] = bool(limit[0])
        self._game_over[index] = bool(over[0] or limit[0])
        if self._game_over[index]:
            self._record(index, int(info["episode_frame_number"][0]))
        return lost or self._game_over[index]

    def _waited(self, index: int, obs: np.ndarray, info: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """The start of a game, drawn again until it has a no-op: ale-py draws from 0 on, wrappers from 1."""
        while self.noop_max > 0 and not info["episode_frame_number"][0]:
            obs, info = self._engines[index].reset([0], [-1])
        return obs, info

    def _write_obs(self, index: int, obs: np.ndarray) -> None:
        """Keep an emulator's picture, [1, 1, size, size] or in colour [1, 1, size, size, 3]."""
        grey = cv2.cvtColor(obs[0, 0], cv2.COLOR_RGB2GRAY) if obs.ndim == 5 else obs[0, 0]
        self._screens[index, :, :, 0] = grey

    def _record(self, index: int, n_frames: int) -> None:
        """Keep the statistics of a game that is over."""
        elapsed = round(time.time() - self._t_start, 6)
        self._episodes[index] = {"r": self._returns[index], "l": n_frames, "t": elapsed}
        self._returns[index] = 0.0
        if self._writers:
            self._writers[index].write_row(self._episodes[index])

    def _begin_episodes(self, indices: Sequence[int]) -> None:
        """Restart games that are over, go on with those that lost a life, and press FIRE in both."""
        self._go_on(indices)
        self._press_start(indices)

    def _go_on(self, indices: Sequence[int]) -> None:
        """One "no operation", instead of which ale-py restarts a game that is over."""
        self._advance(indices, 0)
        self._advance([index for index in indices if self._game_over[index]], 0)

    def _press_start(self, indices: Sequence[int]) -> None:
        for action in self.start_actions:
            self._go_on(self._advance(indices, action))

    def _advance(self, indices: Sequence[int], action: int) -> list[int]:
        """Step some emulators; returns those whose episode ended by it."""
        for index in indices:
            self._engines[index].send([action], FULL_STRENGTH)
        return [index for index in indices if self._receive(index)]

    def _single_envs(self) -> list[gym.Env]:
        return self._real("the list of environments").envs

    @cached_property
    def _sample(self) -> gym.Env:
        """One real environment, which knows what attributes and wrappers they have."""
        return self._makers[0]()

    def _real(self, what: str) -> DummyVecEnv:
        """Return this vector, which from now on steps real environments.

        Right after a reset the games restart from the same seeds.

        :param what: what is asked of single environments
        :raises AttributeError: games are in progress
        """
        if self._steps_taken < 0 and self._makers:
            return self._as_real_envs()
        if self._reset_seeds is not None and self._makers:
            seeds, real = self._reset_seeds, self._as_real_envs()
            warnings.warn(
                "the Atari games restart, because single environments were accessed after reset();"
                " ask before it, or make them with vec_env_cls=DummyVecEnv",
                stacklevel=3,
            )
            real._seeds = seeds
            real.reset()
            return real
        self._asked_for_envs = bool(self._makers)
        cure = "call reset() and ask again, or " if self._makers else ""
        raise AttributeError(
            f"{what} is asked of single environments, which native Atari games in progress are not:"
            f" {cure}make them with vec_env_cls=DummyVecEnv (or backend='dummy')"
        )

    def _as_real_envs(self) -> DummyVecEnv:
        logger.debug("single environments were accessed: these Atari games are no longer stepped natively")
        kept = {name: self.__dict__[name] for name in ("_seeds", "_options")}
        self.close()
        makers = self._makers
        self.__dict__.clear()
        self.__class__ = DummyVecEnv  # type: ignore[assignment]
        DummyVecEnv.__init__(self, makers)
        self.__dict__.update(kept)
        return self

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        if attr_name not in NATIVE_ATTRIBUTES:
            return self._real(f"the attribute {attr_name!r}").get_attr(attr_name, indices)
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        if attr_name in NATIVE_ATTRIBUTES:
            return True
        can_be_real = (self._steps_taken < 0 or self._reset_seeds is not None) and bool(self._makers)
        return can_be_real and self._sample.has_wrapper_attr(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        self._real(f"the attribute {attr_name!r}").set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == "get_action_meanings":
            return [list(self.action_meanings) for _ in self._get_indices(indices)]
        real = self._real(f"the method {method_name!r}")
        return real.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        does_its_work = issubclass(wrapper_class, Monitor | AtariWrapper)
        if not does_its_work and self._makers:
            does_its_work = is_wrapped(self._sample, wrapper_class)
        return [does_its_work for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """What the agent sees, in the size of the screen; in colour from the next reset on."""
        if self._steps_taken < 0:  # as real environments, they say that they need a reset
            return self._real("an image").get_images()
        self.prepare_rendering()
        sizes = [cv2.resize(obs, SCREEN, interpolation=cv2.INTER_NEAREST) for obs in self._screens]
        return [np.repeat(image[:, :, None], 3, axis=2) for image in sizes]

    def prepare_rendering(self) -> None:
        self._asked_for_envs = bool(self._makers)

    def episode_state(self) -> None:
        return None  # the emulators do not tell

    def load_episode_state(self, state: dict[str, Any]) -> bool:
        return False

    def close(self) -> None:
        if "_sample" in self.__dict__:
            self._sample.close()
        self._engines.clear()  # joins their threads
        for writer in self._writers:
            writer.close()


def make_native_atari(
    env_id: str,
    n_envs: int,
    seed: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    wrapper_kwargs: Mapping[str, Any] | None = None,
    monitor_dir: str | os.PathLike[str] | None = None,
    start_index: int = 0,
    override_existing: bool = True,
    makers: Sequence[Callable[[], gym.Env]] = (),
) -> NativeAtariVecEnv | None:
    """The vector environment that equals `AtariWrapper` around each game, or None where only the wrappers
    will do.

    That is: memory contents instead of screens, a game that skips frames by itself (`ALE/Pong-v5` without
    `frameskip=1`), two kinds of sticky actions at once, rendering, a game mode, an argument that is not known
    here, or a registration with a time limit or wrappers of its own.

    :param env_kwargs: arguments of `gymnasium.make`
    :param wrapper_kwargs: arguments of `AtariWrapper`
    :param start_index: number of the first environment: counts for names of monitor files
    :param makers: see `NativeAtariVecEnv`
    :raises UserError: when the environment is unknown
    """
    ensure_registered(env_id)
    spec = gym.spec(env_id)
    if spec.entry_point != "ale_py.env:AtariEnv" or spec.max_episode_steps or spec.additional_wrappers:
        return None
    settings = {"repeat_action_probability": 0.25, "full_action_space": False, "frameskip": 4, **spec.kwargs}
    settings.update(env_kwargs or {})
    settings["max_num_frames_per_episode"] = settings.get("max_num_frames_per_episode") or UNLIMITED
    wrapping = dict(wrapper_kwargs or {})
    screen = settings.pop("obs_type", None) in (None, "rgb", "grayscale")
    extra = [
        name
        for name, value in settings.items()
        if name not in GAME_SETTINGS and value is not None and value is not False
    ]
    sticky_twice = (
        wrapping.get("action_repeat_probability", 0.0) > 0 and settings["repeat_action_probability"] > 0
    )
    if not screen or extra or sticky_twice or settings["frameskip"] != 1 or set(wrapping) - WRAPPING:
        return None
    venv = NativeAtariVecEnv(
        n_envs,
        copy.deepcopy(spec),
        settings,
        **wrapping,
        monitor_dir=monitor_dir,
        start_index=start_index,
        override_existing=override_existing,
        makers=makers,
    )
    if seed is not None:
        venv.seed(seed)
    return venv
