"""Native vectorised Atari: games stepped by threads of ale-py, with the preprocessing of `AtariWrapper`.

ale-py does no-ops, frame skip, pooling and resizing. Lives, FIRE, clipping and episode statistics are handled
here, because at a lost life ale-py restarts the game and does not press FIRE, while the wrappers continue the
same game. Each environment has a separate emulator with one thread, so that environments at the start of an
episode can be stepped without the others. Idle threads sleep.
"""

from __future__ import annotations

import copy
import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any, cast

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.core.observations import Info
from rlzoo.envs.atari.atari_wrappers import AtariWrapper, needs_fire
from rlzoo.envs.single_env.monitor import EXTENSION, Monitor, ResultsWriter
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, State, VecEnv, VecStep, is_wrapped

GAME_SETTINGS = {
    "game",
    "frameskip",
    "repeat_action_probability",
    "full_action_space",
    "max_num_frames_per_episode",
}
WRAPPER_KWARGS = {
    "noop_max",
    "frame_skip",
    "screen_size",
    "terminal_on_life_loss",
    "clip_reward",
    "action_repeat_probability",
}
# Games with flickering colours: the maximum of two grey frames differs from the grey of the maximum of two
# colour frames, which the wrappers compute. Pooling in colour makes a step a quarter slower.
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
FULL_STRENGTH = [1.0]  # of the paddle, for each action
NATIVE_ATTRIBUTES = ("spec", "action_space", "observation_space", "render_mode", "metadata")
SCREEN = (160, 210)  # width and height of a game's frame, in pixels

logger = logging.getLogger(__name__)


def make_engine(settings: Mapping[str, Any], noop_max: int, frame_skip: int, screen_size: int) -> Any:
    """Return an emulator for one game, which restarts in the step after its end and does not clip rewards."""
    import ale_py
    from ale_py import roms

    engine: Callable[..., object] = ale_py.ALEVectorInterface  # its type stubs lack the defaults
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


class LivesInfos(Sequence[Info]):
    """Infos with the current lives of each game; each dict is built when it is read."""

    def __init__(self, lives: list[int]) -> None:
        self._lives = lives

    def __len__(self) -> int:
        return len(self._lives)

    def __getitem__(self, index: int) -> Info:  # type: ignore[override]
        return {"lives": self._lives[index]}


class NativeAtariVecEnv(DummyVecEnv):
    """Vectorised Atari game; observations are uint8 [num_envs, screen_size, screen_size, 1].

    `infos[i]["episode"]` has the unclipped return and the length (in frames) of a full game, over all lives.
    For a game that ends in the NOOP step after a lost life, they are only in the monitor file, as with the
    wrappers.

    :param num_envs: number of environments
    :param spec: registration of the environment
    :param settings: settings of the game, see `GAME_SETTINGS`
    :param monitor_dir: folder for `<start_index + i>.monitor.csv`; None writes no files
    :param start_index: number of the first file
    :param override_existing: replace existing files instead of appending to them
    :param makers: functions that make the same environments with wrappers, for access to single environments

    The other parameters are those of `AtariWrapper`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        num_envs: int,
        spec: EnvSpec,
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
        self.env_workers = num_envs
        self._makers = makers
        self._access_requested = False
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
        self._episodes: dict[int, Info] = {}  # statistics of games that ended in this step
        self._actions: list[int] = []
        self._steps_taken = -1
        self._reset_seeds: list[int | None] | None = None  # of a reset without a step since
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
        if self._actions:  # a step is pending
            self.wait_arrays()
        if self._access_requested:
            return cast(np.ndarray, self._as_real_envs().reset())
        self._reset_seeds = [seed for seed, _ in self._take_seeds_and_options()]
        for index, (obs, info) in enumerate(self._first_frames(self._reset_seeds)):
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
            if not 0 <= action < n_actions:  # ale-py would never return
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
        self._start_episodes(ended)
        self._episodes.clear()
        return step

    def _receive(self, index: int) -> bool:
        """Store the result of an emulator's step; return whether an episode of the agent ended."""
        obs, reward, over, limit, info = self._engines[index].recv()
        if self._game_over[index]:  # this step restarted the game
            obs, info = self._with_noops(index, obs, info)
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

    def _first_frames(self, seeds: Sequence[int | None]) -> list[tuple[np.ndarray, Info]]:
        """Reset all emulators in parallel: with a seed, ale-py loads the ROM again, which takes 70 ms."""

        def reset(index: int, seed: int | None) -> tuple[np.ndarray, Info]:
            first = self._engines[index].reset([0], [-1 if seed is None else seed % 2**31])
            return self._with_noops(index, *first)

        waiting, failures = deque(enumerate(seeds)), list[BaseException]()
        frames: dict[int, tuple[np.ndarray, Info]] = {}

        def next_game() -> tuple[int, int | None] | None:
            try:
                return waiting.popleft()
            except IndexError:
                return None

        def reset_next() -> None:
            try:
                for index, seed in iter(next_game, None):
                    frames[index] = reset(index, seed)
            except BaseException as error:
                failures.append(error)

        started: list[Thread] = []
        with suppress(RuntimeError):  # no more threads can be started: this one resets the rest
            for _ in range(min(available_cores(), self.num_envs) - 1):
                thread = Thread(target=reset_next)
                thread.start()
                started.append(thread)
        reset_next()
        for thread in started:
            thread.join()
        if failures:
            raise failures[0]
        return [frames[index] for index in range(self.num_envs)]

    def _with_noops(self, index: int, obs: np.ndarray, info: Info) -> tuple[np.ndarray, Info]:
        """Reset until a game starts with at least one NOOP, as with the wrappers; ale-py may draw 0."""
        while self.noop_max > 0 and not info["episode_frame_number"][0]:
            obs, info = self._engines[index].reset([0], [-1])
        return obs, info

    def _write_obs(self, index: int, obs: np.ndarray) -> None:
        """Store the frame of an emulator, [1, 1, size, size] or in colour [1, 1, size, size, 3]."""
        grey = cv2.cvtColor(obs[0, 0], cv2.COLOR_RGB2GRAY) if obs.ndim == 5 else obs[0, 0]
        self._screens[index, :, :, 0] = grey

    def _record(self, index: int, n_frames: int) -> None:
        """Record the statistics of a game that is over."""
        elapsed = round(time.time() - self._t_start, 6)
        self._episodes[index] = {"r": self._returns[index], "l": n_frames, "t": elapsed}
        self._returns[index] = 0.0
        if self._writers:
            self._writers[index].write_row(self._episodes[index])

    def _start_episodes(self, indices: Sequence[int]) -> None:
        """Restart games that are over, continue those that lost a life, and press FIRE in both."""
        self._advance_to_start(indices)
        self._press_start(indices)

    def _advance_to_start(self, indices: Sequence[int]) -> None:
        """Take a NOOP step; in a game that is over, ale-py restarts instead, so take another there."""
        self._advance(indices, 0)
        self._advance([index for index in indices if self._game_over[index]], 0)

    def _press_start(self, indices: Sequence[int]) -> None:
        for action in self.start_actions:
            self._advance_to_start(self._advance(indices, action))

    def _advance(self, indices: Sequence[int], action: int) -> list[int]:
        """Step some environments; return those whose episode ended."""
        for index in indices:
            self._engines[index].send([action], FULL_STRENGTH)
        return [index for index in indices if self._receive(index)]

    def _single_envs(self) -> list[gym.Env]:
        return self._real("the list of environments").envs

    @cached_property
    def _sample(self) -> gym.Env:
        """One wrapped environment, to look up attributes and wrappers."""
        return self._makers[0]()

    def _real(self, what: str) -> DummyVecEnv:
        """Return this object, turned into a DummyVecEnv of wrapped environments.

        Directly after a reset, the games restart with the same seeds.

        :param what: what was accessed, for the error
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
            real.set_seeds(seeds)
            real.reset()
            return real
        self._access_requested = bool(self._makers)
        cure = "call reset() and try again, or " if self._makers else ""
        raise AttributeError(
            f"{what} needs single environments, which native Atari games in progress are not:"
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

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        self._real(f"the attribute {attr_name!r}").set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        if method_name == "get_action_meanings":
            return [list(self.action_meanings) for _ in self._get_indices(indices)]
        real = self._real(f"the method {method_name!r}")
        return real.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        replaced = issubclass(wrapper_class, Monitor | AtariWrapper)
        if not replaced and self._makers:
            replaced = is_wrapped(self._sample, wrapper_class)
        return [replaced for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return the observations in the size of a game's frame; in colour from the next reset on."""
        if self._steps_taken < 0:  # the wrapped environments report that a reset is needed
            return self._real("an image").get_images()
        self.prepare_rendering()
        sizes = [cv2.resize(obs, SCREEN, interpolation=cv2.INTER_NEAREST) for obs in self._screens]
        return [np.repeat(image[:, :, None], 3, axis=2) for image in sizes]

    def prepare_rendering(self) -> None:
        self._access_requested = bool(self._makers)

    def episode_state(self) -> None:
        return None  # the state of ale-py's vector emulators is not accessible

    def load_episode_state(self, state: State) -> bool:
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
    """Return the native equivalent of `AtariWrapper` around each game, or None if there is none.

    Only the wrappers support RAM observations, games with their own frame skip (`ALE/Pong-v5` without
    `frameskip=1`), two kinds of sticky actions at once, rendering, game modes, other keyword arguments than
    those listed here, and registrations with a time limit or wrappers.

    :param env_kwargs: keyword arguments of `gymnasium.make`
    :param wrapper_kwargs: keyword arguments of `AtariWrapper`
    :param start_index: number of the first environment, for seeds and monitor files
    :param makers: see `NativeAtariVecEnv`
    :raises UserError: an unknown environment
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
    if not screen or extra or sticky_twice or settings["frameskip"] != 1 or set(wrapping) - WRAPPER_KWARGS:
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
