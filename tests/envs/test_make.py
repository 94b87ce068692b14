from __future__ import annotations

import copy
import importlib
import sys
import textwrap
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from rlzoo.core.errors import UserError
from rlzoo.envs.atari.atari_wrappers import AtariWrapper
from rlzoo.envs.examples.toy import FakeImageEnv
from rlzoo.envs.make_vec_env import EnvMaker, as_vec_env, make_vec_env
from rlzoo.envs.single_env.monitor import Monitor, load_results
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.envpool import EnvPoolVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, is_vecenv_wrapped
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage


def first_episode(venv: VecEnv) -> dict[str, Any]:
    venv.reset()
    for _ in range(600):
        step = venv.step_arrays(np.array([venv.action_space.sample() for _ in range(venv.num_envs)]))
        if len(step.ended):
            return step.infos[int(step.ended[0])]["episode"]  # type: ignore[no-any-return]
    raise AssertionError("no episode ended")


class Halved(gym.RewardWrapper):  # type: ignore[type-arg]
    def __init__(self, env: Any, factor: float = 0.5) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> Any:
        return reward * self.factor


class OtherCartPole(CartPoleEnv):
    """Registered by a user under an id of Gymnasium's."""


@pytest.mark.parametrize(
    "change",
    [
        {"entry_point": OtherCartPole},
        {"kwargs": {"sutton_barto_reward": True}},
        {"max_episode_steps": 20},
        {"additional_wrappers": (WrapperSpec("Halved", f"{__name__}:Halved", {}),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_registration_is_not_native(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_vec_env("CartPole-v1").close()  # registers rlzoo's own
    env_ids = ("CartPole-v1", "CartPoleNoVel-v1", "BreakoutNoFrameskip-v4")
    for env_id in env_ids:  # before a change, since some are made from others
        ensure_registered(env_id)
    for env_id in env_ids:
        wrapper = AtariWrapper if "Breakout" in env_id else None
        if wrapper and "kwargs" in change:  # a game's kwargs are handed on
            continue
        spec = copy.copy(gym.spec(env_id))
        for name, value in change.items():
            setattr(spec, name, value)
        monkeypatch.setitem(gym.registry, env_id, spec)
        if not wrapper:
            assert type(make_vec_env(env_id).unwrapped) is DummyVecEnv
        with pytest.raises(UserError, match="as it is registered"):
            make_vec_env(env_id, backend="native", wrapper_class=wrapper)


def test_the_fastest_backend_with_the_same_environment_is_chosen() -> None:
    assert isinstance(make_vec_env("CartPole-v1", 2).unwrapped, NativeCartPole)
    assert isinstance(
        make_vec_env("CartPole-v1", monitor_kwargs={"override_existing": False}).unwrapped, NativeCartPole
    )
    for kwargs in (
        {"backend": "dummy"},
        {"wrapper_class": Halved},
        {"env_kwargs": {"sutton_barto_reward": True}},
        {"monitor_kwargs": {"allow_early_resets": True}},
        {"vec_env_cls": DummyVecEnv},
    ):
        assert type(make_vec_env("CartPole-v1", **kwargs).unwrapped) is DummyVecEnv  # type: ignore[arg-type]
    assert type(make_vec_env("Pendulum-v1").unwrapped) is DummyVecEnv
    assert make_vec_env("CartPole-v1", env_kwargs={"sutton_barto_reward": True}).get_attr(
        "_sutton_barto_reward"
    ) == [True]


@pytest.mark.parametrize("backend", ["auto", "dummy", "subproc"])
def test_every_backend_has_statistics_files_and_the_same_seeds(backend: str, tmp_path: Path) -> None:
    venv = make_vec_env("CartPole-v1", 2, seed=4, monitor_dir=tmp_path / "new", backend=backend)
    reference = DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2)
    reference.seed(4)
    np.testing.assert_array_equal(venv.reset(), reference.reset())
    episode = first_episode(venv)
    assert episode["r"] == episode["l"] > 5
    venv.close()
    venv.close()
    assert len(load_results(tmp_path / "new")) >= 1
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["0.monitor.csv", "1.monitor.csv"]


def test_episode_statistics_are_recorded_once(tmp_path: Path) -> None:
    venv = make_vec_env(
        "CartPole-v1",
        2,
        seed=0,
        start_index=5,
        monitor_dir=str(tmp_path),
        wrapper_class=Halved,
        wrapper_kwargs={"factor": 0.25},
    )
    assert venv.env_is_wrapped(Monitor) == [True, True]
    assert not is_vecenv_wrapped(venv, VecMonitor)
    venv.reset()
    assert venv.step(np.zeros(2, dtype=int))[1].tolist() == [0.25, 0.25]
    episode = first_episode(venv)
    assert episode["r"] == episode["l"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["5.monitor.csv", "6.monitor.csv"]
    venv.close()
    monitored = make_vec_env(lambda: Monitor(gym.make("CartPole-v1")), 2)
    assert not is_vecenv_wrapped(monitored, VecMonitor)


@pytest.mark.parametrize("backend", ["native", "dummy", "subproc"])
def test_start_index_seeds_action_spaces_only(backend: str) -> None:
    one = make_vec_env("CartPole-v1", 3, seed=10, backend=backend)
    other = make_vec_env("CartPole-v1", 1, seed=10, start_index=2, backend=backend)
    np.testing.assert_array_equal(one.reset()[:1], other.reset())
    expected = spaces.Discrete(2, seed=12)
    assert [other.action_space.sample() for _ in range(20)] == [expected.sample() for _ in range(20)]
    one.close()
    other.close()


def test_environments_without_seed_differ() -> None:
    assert (make_vec_env("CartPole-v1", 1).reset() != make_vec_env("CartPole-v1", 1).reset()).any()


def test_functions_and_classes_of_environments() -> None:
    def make(length: int = 20) -> gym.Env[Any, Any]:
        return gym.make("CartPole-v1", max_episode_steps=length)

    venv = make_vec_env(make, 2, env_kwargs={"length": 3})
    assert first_episode(venv)["l"] == 3
    image = make_vec_env(
        FakeImageEnv,
        env_kwargs={"screen_height": 40, "screen_width": 40},
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork"},
    )
    assert isinstance(image.unwrapped, SubprocVecEnv)
    image.close()


def test_locally_registered_env_reaches_workers() -> None:
    gym.register(
        "OnlyHere-v0",
        entry_point=lambda **kwargs: gym.make("CartPole-v1", **kwargs).unwrapped,
        max_episode_steps=4,
    )
    try:
        venv = make_vec_env("OnlyHere-v0", 2, backend="subproc")
        assert first_episode(venv)["l"] == 4
        venv.close()
    finally:
        del gym.registry["OnlyHere-v0"]


def test_a_changed_registration_reaches_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = copy.copy(gym.spec("MountainCar-v0"))
    spec.max_episode_steps = 7
    monkeypatch.setitem(gym.registry, "MountainCar-v0", spec)
    venv = make_vec_env("MountainCar-v0", 2, backend="subproc")
    assert first_episode(venv)["l"] == 7
    venv.close()


def test_workers_register_a_package_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        import gymnasium as gym
        from gymnasium.envs.classic_control import CartPoleEnv as Env
        gym.register("Packed-v0", "packed_env:Env")
    """
    (tmp_path / "packed_env.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("packed_env")
    maker = EnvMaker("Packed-v0", spec=gym.spec("Packed-v0"))
    try:
        del gym.registry["Packed-v0"], sys.modules["packed_env"]  # as in a new process
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "Overriding environment Packed-v0"
            maker().close()
    finally:
        gym.registry.pop("Packed-v0", None)


def test_a_wrapper_class_can_be_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapped(gym.Wrapper):  # type: ignore[type-arg]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(gym.make("CartPole-v1", **kwargs))

    monkeypatch.setitem(gym.registry, "Wrapped-v0", EnvSpec("Wrapped-v0", entry_point=Wrapped))
    assert make_vec_env("Wrapped-v0").reset().shape == (1, 4)


def test_env_without_a_render_mode_argument_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoMode(CartPoleEnv):
        def __init__(self, fails: bool = False) -> None:
            super().__init__()
            if fails:
                raise TypeError("something else")

    monkeypatch.setitem(gym.registry, "NoMode-v0", EnvSpec("NoMode-v0", entry_point=NoMode))
    assert make_vec_env("NoMode-v0").reset().shape == (1, 4)
    with pytest.raises(TypeError, match="something else"):
        make_vec_env("NoMode-v0", env_kwargs={"fails": True})


def test_environments_can_draw_unless_told_otherwise() -> None:
    assert make_vec_env("Pendulum-v1").render_mode == "rgb_array"
    assert make_vec_env("Pendulum-v1", env_kwargs={"render_mode": None}).render_mode is None
    assert make_vec_env("Pendulum-v1", images=False).render_mode is None
    asked = {"render_mode": "rgb_array"}
    assert make_vec_env("Pendulum-v1", images=False, env_kwargs=asked).render_mode == "rgb_array"
    venv = make_vec_env("Pendulum-v1")
    venv.reset()
    picture = venv.render()
    assert picture is not None
    assert picture.ndim == 3


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"env_id": "CartPol-v1"}, "did you mean 'CartPole-v1'"),
        ({"backend": "natve"}, "did you mean 'native'"),
        ({"env_id": "Pendulum-v1", "backend": "native"}, "no native backend for Pendulum-v1"),
        ({"backend": "native", "wrapper_class": Halved}, "no native backend"),
        ({"backend": "subproc", "vec_env_cls": DummyVecEnv}, "not both"),
        ({"backend": "envpool", "wrapper_class": Halved}, "no Python wrapper"),
        ({"wrapper_kwargs": {"factor": 1}}, "without a wrapper_class"),
        ({"n_envs": 0}, "at least 1"),
    ],
)
def test_mistakes_are_named(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_vec_env(**{"env_id": "CartPole-v1", **kwargs})


def test_a_missing_envpool_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"pip install .*\[envpool\]'"):
        make_vec_env("CartPole-v1", backend="envpool")


def fake_envpool(
    monkeypatch: pytest.MonkeyPatch, env_id: str, obs_space: gym.Space[Any], action_space: gym.Space[Any]
) -> list[Any]:
    """Put an envpool with one environment in place of the package; return its options and closings."""
    calls: list[Any] = []

    def make(env_id: str, **options: Any) -> Any:
        calls.append(options)
        spaces = {"observation_space": obs_space, "action_space": action_space}
        return SimpleNamespace(**spaces, close=lambda: calls.append("closed"))

    envpool = SimpleNamespace(list_all_envs=lambda: [env_id], make=make)
    monkeypatch.setitem(sys.modules, "envpool", envpool)
    return calls


def test_envpool_takes_the_registered_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = gym.make("CartPole-v1")
    calls = fake_envpool(monkeypatch, "CartPole-v1", registered.observation_space, registered.action_space)
    spec = copy.copy(gym.spec("CartPole-v1"))
    monkeypatch.setitem(gym.registry, "CartPole-v1", spec)
    spec.max_episode_steps = 20
    assert EnvPoolVecEnv("CartPole-v1", 2).env_workers == 2
    assert calls[0]["max_episode_steps"] == 20
    assert EnvPoolVecEnv("CartPole-v1", 4, {"num_threads": 3}).env_workers == 3
    spec.entry_point = OtherCartPole
    with pytest.raises(UserError, match="registered as another environment"):
        EnvPoolVecEnv("CartPole-v1", 2)


def test_envpool_takes_the_registered_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = gym.make("Pendulum-v1")
    fake_envpool(
        monkeypatch,
        "Pendulum-v1",
        gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
        gym.spaces.Box(-2, 2, (1,), np.float64),
    )
    venv = EnvPoolVecEnv("Pendulum-v1", 2)
    assert venv.observation_space == registered.observation_space
    assert venv.action_space == registered.action_space


def test_envpool_with_other_observations_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    obs_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    calls = fake_envpool(monkeypatch, "Pendulum-v1", obs_space, gym.make("Pendulum-v1").action_space)
    with pytest.raises(UserError, match="envpool has another observation_space"):
        EnvPoolVecEnv("Pendulum-v1", 2)
    assert calls[-1] == "closed"
    assert EnvPoolVecEnv("Pendulum-v1", 2, {"frame_skip": 2}).observation_space == obs_space


def test_envpool_steps_the_same_episodes() -> None:
    pytest.importorskip("envpool")
    venv = make_vec_env("CartPole-v1", 3, seed=1, backend="envpool")
    first = venv.reset().copy()
    episode = first_episode(venv)
    assert episode["r"] == episode["l"] > 5
    again = make_vec_env("CartPole-v1", 3, seed=1, backend="envpool")
    np.testing.assert_array_equal(again.reset(), first)


def test_envpool_steps_like_gymnasium() -> None:
    pytest.importorskip("envpool")
    venv = make_vec_env("HalfCheetah-v5", 2, seed=1, backend="envpool")
    env = gym.make("HalfCheetah-v5")
    env.reset(seed=0)
    obs = venv.reset()
    for _ in range(20):
        actions = np.stack([venv.action_space.sample() for _ in range(2)])
        state = np.concatenate([[0.0], obs[1]])  # observations leave out the first coordinate
        env.unwrapped.set_state(state[:9], state[9:])  # type: ignore[attr-defined]
        expected = env.step(actions[1])
        obs, rewards, _, _ = venv.step(actions)
        np.testing.assert_allclose(obs[1], expected[0], atol=1e-9)
        assert rewards[1] == pytest.approx(expected[1], abs=1e-6)


def test_algorithms_take_any_kind_of_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(as_vec_env("CartPole-v1").unwrapped, NativeCartPole)
    env = gym.make("CartPole-v1")
    venv = as_vec_env(env, verbose=1)
    assert isinstance(venv, DummyVecEnv)
    assert [(type(one), one.env) for one in venv.envs] == [(Monitor, env)]  # type: ignore[attr-defined]
    assert "DummyVecEnv with episode statistics" in capsys.readouterr().out
    assert not is_vecenv_wrapped(as_vec_env(Monitor(gym.make("CartPole-v1"))), VecMonitor)
    given = VecNormalize(NativeCartPole("CartPole-v1"))
    assert as_vec_env(given, verbose=1) is given
    assert capsys.readouterr().out == ""
    vector = as_vec_env(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2))
    assert isinstance(vector.unwrapped, GymVectorEnv)
    assert first_episode(vector)["l"] > 5
    with pytest.raises(UserError, match=r"not builtins\.int"):
        as_vec_env(3)


def test_images_get_their_channels_first() -> None:
    venv = as_vec_env(FakeImageEnv(screen_height=40, screen_width=50, n_channels=3))
    assert isinstance(venv, VecTransposeImage)
    assert venv.observation_space.shape == (3, 40, 50)
    assert as_vec_env(venv) is venv
