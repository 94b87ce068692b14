"""`rlzoo.compat`: scripts for stable-baselines3, sb3-contrib and RL Baselines3 Zoo run on rlzoo unchanged."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SCRIPT = """
import sys
import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv


class Wrapper(gym.Wrapper):
    pass


def make():
    return Wrapper(gym.make("CartPole-v1"))


if __name__ == "__main__":
    env = SubprocVecEnv([make, make], start_method=sys.argv[1])
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16).learn(16)
    print(type(model).__module__, model.num_timesteps, __file__, sys.argv)
"""


def python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_script_runs_unmodified_in_worker_processes(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = python("-m", "rlzoo.compat", "script.py", method, cwd=tmp_path)
    assert ended.stdout.split()[:3] == ["rlzoo.algorithms.ppo", "16", str(script)], ended.stderr
    assert not list(tmp_path.glob("__pycache__"))


def test_import_in_a_script_reaches_worker_processes(tmp_path):
    (tmp_path / "script.py").write_text("import rlzoo.compat\n" + SCRIPT)
    ended = python("script.py", "spawn", cwd=tmp_path)
    assert ended.stdout.split()[:2] == ["rlzoo.algorithms.ppo", "16"], ended.stderr


def test_module_that_no_script_runs_reaches_worker_processes(tmp_path):
    (tmp_path / "makers.py").write_text(SCRIPT.partition("if __name__")[0])
    script = """
        import rlzoo.compat, makers
        if __name__ == "__main__":
            makers.SubprocVecEnv([makers.make], start_method="spawn").close()
            print("closed")
    """
    result = python("-c", textwrap.dedent(script), cwd=tmp_path)  # nothing to run again in the worker
    assert (result.returncode, result.stdout) == (0, "closed\n"), result.stderr


def test_nothing_is_aliased_without_compat(tmp_path):
    ended = python("-c", "import rlzoo.algorithms.ppo, stable_baselines3.fake", cwd=tmp_path)
    assert "No module named 'stable_baselines3" in ended.stderr


def test_real_package_is_imported_when_asked_for(tmp_path):
    (tmp_path / "sb3_contrib.py").write_text("NAME = 'the real one'")
    (tmp_path / "script.py").write_text("import sb3_contrib, stable_baselines3; print(sb3_contrib.NAME)")
    ended = python("-m", "rlzoo.compat", "--real", "sb3_contrib", "script.py", cwd=tmp_path)
    assert ended.stdout.strip() == "the real one", ended.stderr


def test_compat_after_the_real_package_is_refused(tmp_path):
    (tmp_path / "sb3_contrib.py").write_text("")
    ended = python(
        "-c", "import sb3_contrib, rlzoo.compat", cwd=tmp_path, PYTHONPATH=os.pathsep.join(sys.path)
    )
    assert "put `import rlzoo.compat` before its first import" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "there is no script missing.py"),
        (["--real", "torch", "x.py"], "--real takes one of stable_baselines3, sb3_contrib, rl_zoo3"),
        ([], "usage: "),
    ],
)
def test_wrong_command_line_is_one_line_and_exit_2(tmp_path, arguments, message):
    ended = python("-m", "rlzoo.compat", *arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def aliases():
    """The alias modules in this process; afterwards there are none."""
    compat = importlib.import_module("rlzoo.compat")
    compat.enable()
    yield compat
    compat.disable()


def test_policies_are_those_of_the_algorithm(aliases):
    from rlzoo.networks.continuous import SACPolicy
    from rlzoo.networks.recurrent import RecurrentActorCriticPolicy

    assert importlib.import_module("stable_baselines3.sac.policies").MlpPolicy is SACPolicy
    assert importlib.import_module("stable_baselines3.sac").MlpPolicy is SACPolicy
    assert importlib.import_module("sb3_contrib.ppo_recurrent").MlpPolicy is RecurrentActorCriticPolicy


def test_unknown_names_are_answered_with_the_nearest(aliases):
    with pytest.raises(ModuleNotFoundError, match=r"did you mean 'stable_baselines3.common.callbacks'"):
        importlib.import_module("stable_baselines3.common.callback")
    with pytest.raises(AttributeError, match="did you mean 'EvalCallback'"):
        _ = importlib.import_module("stable_baselines3.common.callbacks").EvalCallbck


def test_disable_ends_the_aliases(aliases):
    importlib.import_module("rl_zoo3.utils")
    aliases.disable("rl_zoo3")
    assert "rl_zoo3.utils" not in sys.modules
    with pytest.raises(ValueError, match="'torch' is none of"):
        aliases.disable("torch")


def test_command_of_the_zoo_runs(tmp_path):
    ended = python("-m", "rlzoo.compat", "-m", "rl_zoo3.train", "--help", cwd=tmp_path)
    assert ended.stdout.startswith("usage: rlzoo train"), ended.stderr


def test_star_import_has_the_public_names(tmp_path):
    text = textwrap.dedent("""
        from stable_baselines3.common.callbacks import *
        print(CheckpointCallback.__module__)
    """)
    (tmp_path / "script.py").write_text(text)
    ended = python("-m", "rlzoo.compat", "script.py", cwd=tmp_path)
    assert ended.stdout.strip() == "rlzoo.training.callbacks", ended.stderr


def test_worker_imports_aliases_that_its_functions_need(tmp_path):
    (tmp_path / "makers.py").write_text(
        "import gymnasium as gym\n"
        "from stable_baselines3.common.monitor import Monitor\n"
        "def make():\n"
        "    return Monitor(gym.make('CartPole-v1'))\n"
    )
    code = (
        "import rlzoo.compat, makers\n"
        "from stable_baselines3.common.vec_env import SubprocVecEnv\n"
        "env = SubprocVecEnv([makers.make] * 2, start_method='spawn')\n"
        "print(env.env_is_wrapped(makers.Monitor))\n"
        "env.close()\n"
    )
    ended = python("-c", code, cwd=tmp_path)
    assert ended.stdout.split() == ["[True,", "True]"], ended.stderr


def test_names_of_vec_env_submodules_are_importable(tmp_path):
    code = (
        "import rlzoo.compat\n"
        "from stable_baselines3.common.vec_env import CloudpickleWrapper, StackedObservations\n"
        "from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn, tile_images\n"
        "from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices\n"
        "from stable_baselines3.common.vec_env.util import copy_obs_dict, dict_to_obs, obs_space_info\n"
        "from stable_baselines3.common.vec_env.patch_gym import _patch_env\n"
        "import pickle\n"
        "print(pickle.loads(pickle.dumps(CloudpickleWrapper(lambda: 3))).var(), _patch_env(None))\n"
    )
    ended = python("-c", code, cwd=tmp_path)
    assert ended.stdout.split() == ["3", "None"], ended.stderr
