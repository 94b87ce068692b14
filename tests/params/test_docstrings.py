"""`help(rlzoo.PPO)` and `repr(model)`."""

from __future__ import annotations

import inspect
import re

import pytest

import rlzoo
from rlzoo.config import catalog

ALGOS = [algo for algo in catalog.names() if hasattr(catalog.load(algo), "Config")]


def docstring_of(algo: str) -> str:
    return inspect.cleandoc(catalog.load(algo).__doc__ or "")


@pytest.mark.parametrize("algo", ALGOS)
def test_help_lists_every_argument(algo: str) -> None:
    args = docstring_of(algo).split("\nArgs:\n")[1]
    named = re.findall(r"(?m)^    (\w+) \(", args)
    expected = [name for name in inspect.signature(catalog.load(algo)).parameters if name[0] != "_"]
    assert sorted(named) == sorted(expected)


@pytest.mark.parametrize("algo", ALGOS)
def test_help_fits_80_columns(algo: str) -> None:
    args = docstring_of(algo).split("\nArgs:\n")[1]
    assert max(map(len, args.splitlines())) <= 76  # `help` indents by four


@pytest.mark.parametrize("algo", ALGOS)
def test_example_in_docstring_makes_a_model(algo: str) -> None:
    lines = re.findall(r"(?m)^    >>> (.*)$", docstring_of(algo))
    code = re.sub(r"\.learn\([\d_]+\)", "", "\n".join(lines))
    assert ".learn(" in "\n".join(lines)
    if "expert.npz" in code:
        compile(code, algo, "exec")
        return
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["model"], catalog.load(algo))


def test_subclass_with_a_docstring_gets_the_arguments() -> None:
    class Mine(rlzoo.PPO):
        """PPO of mine."""

    class Silent(rlzoo.PPO): ...

    assert Mine.__doc__ is not None
    assert Mine.__doc__.startswith("PPO of mine.\n\nArgs:\n    policy (str | type): ")
    assert Silent.__doc__ is None


def test_model_shows_what_it_is() -> None:
    model = rlzoo.PPO(
        "MlpPolicy", rlzoo.make_vec_env("CartPole-v1", 2), n_steps=8, batch_size=16, device="cpu"
    )
    assert repr(model) == "PPO(MlpPolicy, CartPole-v1, n_envs=2, num_timesteps=0, device=cpu)"
    model.learn(16)
    assert repr(model) == "PPO(MlpPolicy, CartPole-v1, n_envs=2, num_timesteps=16, device=cpu)"


def test_model_without_environment_shows_what_it_is(tmp_path) -> None:
    rlzoo.DQN(rlzoo.LnMlpPolicy, "CartPole-v1", device="cpu").save(tmp_path / "agent.zip")
    assert repr(rlzoo.DQN.load(tmp_path / "agent.zip", device="cpu")).startswith("DQN(")
    assert "no env" in repr(rlzoo.DQN.load(tmp_path / "agent.zip"))
    assert repr(rlzoo.PPO.__new__(rlzoo.PPO)) == "<PPO, not set up>"


def test_vector_environments_show_what_they_are() -> None:
    env = rlzoo.make_vec_env("Pendulum-v1", 3)
    assert repr(env) == "DummyVecEnv(Pendulum-v1, num_envs=3)"
    shown = (
        "VecNormalize(DummyVecEnv(Pendulum-v1, num_envs=3), norm_obs=True, norm_reward=True, training=True)"
    )
    assert repr(rlzoo.VecNormalize(env)) == shown
    assert repr(rlzoo.VecFrameStack(env, 4)) == f"VecFrameStack({env!r}, n_stack=4)"
    assert repr(rlzoo.VecMonitor(env)) == f"VecMonitor({env!r})"
    assert repr(rlzoo.DummyVecEnv([rlzoo.IdentityEnv])) == "DummyVecEnv(IdentityEnv, num_envs=1)"
    assert repr(rlzoo.VecNormalize.__new__(rlzoo.VecNormalize)).startswith("VecNormalize(None")


def test_subprocesses_show_what_they_are() -> None:
    env = rlzoo.make_vec_env("Acrobot-v1", 2, vec_env_cls=rlzoo.SubprocVecEnv)
    assert repr(env) == "SubprocVecEnv(Acrobot-v1, num_envs=2)"
    env.close()
    assert repr(env) == "SubprocVecEnv(Acrobot-v1, num_envs=2)"
