"""`rlzoo.compat`: scripts for stable-baselines3, sb3-contrib and RL Baselines3 Zoo run on rlzoo unchanged."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cloudpickle
import pytest

import rlzoo
from rlzoo import compat_names

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


def python(
    *arguments: str, cwd: Path, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


ZOO_SCRIPT = """
import sys
import rl_zoo3
import rl_zoo3.enjoy
import rl_zoo3.exp_manager
import rl_zoo3.train
from rl_zoo3.train import train
from stable_baselines3 import PPO


class Mine(PPO):
    pass


rl_zoo3.ALGOS["ppo"] = Mine
rl_zoo3.train.ALGOS = rl_zoo3.ALGOS
rl_zoo3.exp_manager.ALGOS = {"mine": Mine}

if __name__ == "__main__":
    train()
    print("trained", rl_zoo3.ALGOS["mine"].__name__, len(sys.argv))
    sys.argv[1:] = ["-f", "logs", "--no-render", "-n", "20", "--custom-objects"]
    rl_zoo3.enjoy.enjoy()
    print("played")
"""


def test_script_of_the_zoo_registers_and_trains(tmp_path):
    (tmp_path / "script.py").write_text(ZOO_SCRIPT)
    words = "--n-timesteps 32 -params n_envs:1 n_steps:16 batch_size:16 -f logs --verbose 0 --eval-freq -1"
    ended = python("-m", "rlzoo.compat", "script.py", *words.split(), cwd=tmp_path)
    assert "trained Mine 13" in ended.stdout, ended.stderr
    assert ended.stdout.endswith("played\n"), ended.stderr
    assert "--custom-objects is not needed" in ended.stderr
    assert (tmp_path / "logs" / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").is_file()


@pytest.mark.parametrize(("module", "names"), compat_names.STAR.items())
def test_star_imports_give_what_the_package_has(aliases, module, names):
    found: dict[str, object] = {}
    exec(f"from {module} import *", found)
    assert found.keys() - {"__builtins__"} == set(names.split())


def test_star_imports_of_submodules_give_no_commands(aliases):
    found: dict[str, object] = {}
    exec("from stable_baselines3.common.on_policy_algorithm import *", found)
    assert {"set_random_seed", "PPO"} <= found.keys() and not {"train", "enjoy", "plots"} & found.keys()


def test_star_imports_leave_names_of_others_alone(aliases):
    from stable_baselines3.sac.policies import Actor

    of_scripts = {"Image": object(), "Figure": object(), "Actor": Actor}
    found = dict(of_scripts)
    for module in ("common.vec_env", "common.callbacks", "common.utils", "common.policies", "sac.policies"):
        exec(f"from stable_baselines3.{module} import *", found)
    assert all(found[name] is value for name, value in of_scripts.items())
    assert (found["np"].__name__, found["th"].__name__) == ("numpy", "torch")


@pytest.mark.parametrize("module", ["stable_baselines3.sac", "sb3_contrib.tqc", "sb3_contrib.crossq"])
def test_bounds_of_log_std_are_in_the_policies(aliases, module):
    policies = importlib.import_module(f"{module}.policies")
    assert (policies.LOG_STD_MIN, policies.LOG_STD_MAX) == (-20, 2)
    assert importlib.import_module("sb3_contrib.common.maskable.distributions").MaskableDistribution


def test_names_of_huggingface_sb3(aliases):
    import huggingface_sb3
    from huggingface_sb3.naming_schemes import EnvironmentName, ModelName, ModelRepoId

    environment = EnvironmentName("robots/Arm-v0")
    model = ModelName("ppo", environment)
    assert (environment, environment.gym_id) == ("robots-Arm-v0", "robots/Arm-v0")
    assert (model, model.filename) == ("ppo-robots-Arm-v0", "ppo-robots-Arm-v0.zip")
    assert ModelRepoId("lab", model) == "lab/ppo-robots-Arm-v0"
    assert huggingface_sb3.EnvironmentName is EnvironmentName
    assert huggingface_sb3.load_from_hub is rlzoo.load_from_hub
    assert huggingface_sb3.push_to_hub is rlzoo.push_to_hub
    assert importlib.import_module("huggingface_sb3.load_from_hub").load_from_hub is rlzoo.load_from_hub
    assert huggingface_sb3.load_from_hub is rlzoo.load_from_hub  # still
    assert huggingface_sb3.package_to_hub.__module__ == "rlzoo.hub.huggingface_sb3"


def test_function_of_a_zoo_command_exits_on_mistakes(tmp_path):
    (tmp_path / "script.py").write_text("from rl_zoo3.train import train\ntrain()\nprint('not reached')")
    ended = python("-m", "rlzoo.compat", "script.py", "--n-timestep", "3", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "rlzoo: error: unknown flag '--n-timestep'; did you mean '--n-timesteps'?\n"
    assert not ended.stdout


# What the help of each command of RL Baselines3 Zoo 2.9 lists, with a value.
ZOO_FLAGS = {
    "enjoy": """
        --env E -f logs --folder logs --algo ppo -n 9 --n-timesteps 9 --num-threads 1 --n-envs 2
        --exp-id 1 --verbose 1 --no-render --deterministic --device cpu --load-best --norm-reward --seed
        1 --reward-log r --gym-packages json --env-kwargs a:1 --custom-objects -P --progress
    """,
    "record_video": """
        --env E -f logs --folder logs -o out --output-folder out --algo ppo -n 9 --n-timesteps 9
        --n-envs 1 --stochastic --seed 0 --no-render --exp-id 1 --load-checkpoint 9 --env-kwargs a:1
        --custom-objects
    """,
    "record_training": """
        --env E -f logs --folder logs -o out --output-folder out --algo ppo -n 9 --n-timesteps 9
        --n-envs 1 --deterministic -g --gif --seed 0 --exp-id 1
    """,
    "push_to_hub": """
        --env E -f logs --folder logs --algo ppo -n 9 --n-timesteps 9 --num-threads 1 --n-envs 1
        --exp-id 1 --verbose 1 --no-render --deterministic --device cpu --load-last-checkpoint --seed 1
        --env-kwargs a:1 -orga me --organization me -name r --repo-name r -m text --commit-message text
    """,
    "load_from_hub": """
        --env E -f logs --folder logs -orga me --organization me -name r --repo-name r --algo ppo
        --exp-id 1 --verbose 1 --force
    """,
    "benchmark": """
        --log-dir logs --benchmark-dir out -n 100 --n-timesteps 100 --n-envs 2 --verbose 1 --seed 0
        --test-mode --with-mujoco --no-hub --num-threads 2
    """,
    "plot_train": """
        -a ppo --algo ppo -e E --env E -f logs --exp-folder logs --figsize 6 4 --fontsize 9 -max 9
        --max-timesteps 9 -x time --x-axis time -y length --y-axis length -w 9 --episode-window 9
    """,
    "all_plots": """
        -a ppo --algos ppo -e E --env E -f logs --exp-folders logs -l a --labels a -k results --key
        results -max 9 --max-timesteps 9 -min 3 --min-timesteps 3 -o out --output out -median --median
        --no-million --no-display -print --print-n-trials
    """,
    "plot_from_file": """
        -i in --input in -skip E --skip-envs E --keep-envs E --skip-keys k --keep-keys k --no-million
        --skip-timesteps -o out --output out --format pdf -loc best --legend-loc best --figsize 6 4
        --fontsize 9 -l a --labels a -b --boxplot -r --rliable -vs --versus -iqm --iqm -ci 0.9 --ci-size
        0.9 -latex --latex --merge other
    """,
}


@pytest.mark.parametrize("name", ZOO_FLAGS)
def test_flags_of_zoo_commands_are_accepted(aliases, name, capsys):
    from rlzoo.cli.main import build, load_command

    command = " ".join(compat_names.COMMANDS[name])
    build(command, load_command(command)).parse_args(ZOO_FLAGS[name].split())
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith("rlzoo: --") and " is not needed: " in line for line in said), said


def test_benchmark_of_the_zoo_scores_one_agent(aliases, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["benchmark", "-n", "100", "--benchmark-dir", str(tmp_path), "--test-mode"]
    )
    aliases.run_command("rl_zoo3.benchmark")
    assert (tmp_path / "scores.json").is_file()
    assert "--n-timesteps is not needed: whole episodes are evaluated" in capsys.readouterr().err


def test_documented_names_of_the_zoo_are_there(aliases):
    for module, names in {
        "rl_zoo3": "ALGOS create_test_env get_latest_run_id get_saved_hyperparams get_trained_models"
        " get_wrapper_class linear_schedule",
        "rl_zoo3.utils": "ALGOS SimpleLinearSchedule StoreDict flatten_dict_observations get_callback_list"
        " get_class_by_name get_hf_trained_models get_latest_run_id get_model_path linear_schedule",
        "rl_zoo3.exp_manager": "ALGOS ExperimentManager HYPERPARAMS_CONVERTER HYPERPARAMS_SAMPLER",
        "rl_zoo3.callbacks": "ParallelTrainCallback RawStatisticsCallback SaveVecNormalizeCallback"
        " TrialEvalCallback",
        "rl_zoo3.hyperparams_opt": "HYPERPARAMS_SAMPLER convert_onpolicy_params sample_ppo_params",
        "rl_zoo3.load_from_hub": "download_from_hub",
        "rl_zoo3.plots": "all_plots plot_from_file plot_train",
        "rl_zoo3.train": "ALGOS ExperimentManager StoreDict train",
        "rl_zoo3.enjoy": "create_test_env enjoy get_model_path get_saved_hyperparams",
    }.items():
        for name in names.split():
            getattr(importlib.import_module(module), name)
    assert callable(importlib.import_module("rl_zoo3.plots").all_plots)
    with pytest.raises(ValueError, match=r"rlzoo has no package_to_hub: call rlzoo.push_to_hub"):
        importlib.import_module("rl_zoo3.push_to_hub").package_to_hub(model=None)


@pytest.mark.parametrize("module", ["rl_zoo3.wrappers", "stable_baselines3.common.vec_env", "sb3_contrib"])
def test_names_that_an_alias_module_lists_are_there(aliases, module):
    alias = importlib.import_module(module)
    assert "VecEnv" in dir(alias)
    assert not [name for name in dir(alias) if not hasattr(alias, name)]


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_script_runs_unmodified_in_worker_processes(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = python("-m", "rlzoo.compat", "script.py", method, cwd=tmp_path)
    assert ended.stdout.split()[:3] == ["rlzoo.algorithms.on_policy.ppo", "16", str(script)], ended.stderr
    assert not list(tmp_path.glob("__pycache__"))


def test_import_in_a_script_reaches_worker_processes(tmp_path):
    (tmp_path / "script.py").write_text("import rlzoo.compat\n" + SCRIPT)
    ended = python("script.py", "spawn", cwd=tmp_path)
    assert ended.stdout.split()[:2] == ["rlzoo.algorithms.on_policy.ppo", "16"], ended.stderr


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
    ended = python("-c", "import rlzoo.algorithms.on_policy.ppo, stable_baselines3.fake", cwd=tmp_path)
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
        (["."], "there is no __main__.py in ."),
        (["-m", "missing.module"], "there is no module missing.module to run"),
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
    from rlzoo.policies.continuous_policies import SACPolicy
    from rlzoo.policies.recurrent_policies import RecurrentActorCriticPolicy

    assert importlib.import_module("stable_baselines3.sac.policies").MlpPolicy is SACPolicy
    assert importlib.import_module("stable_baselines3.sac").MlpPolicy is SACPolicy
    assert importlib.import_module("sb3_contrib.ppo_recurrent").MlpPolicy is RecurrentActorCriticPolicy


def test_maskable_rollout_buffers_are_those_that_keep_masks(aliases):
    buffers = importlib.import_module("sb3_contrib.common.maskable.buffers")
    names = [buffers.MaskableRolloutBuffer.__name__, buffers.MaskableDictRolloutBuffer.__name__]
    assert names == ["RolloutBuffer", "DictRolloutBuffer"]


def test_system_info_names_the_version_that_is_offered(aliases, capsys):
    sb3 = importlib.import_module("stable_baselines3")
    info, text = importlib.import_module("stable_baselines3.common.utils").get_system_info()
    assert info["Stable-Baselines3"] == sb3.__version__
    assert text in capsys.readouterr().out and "rlzoo: " in text


def test_unknown_names_are_answered_with_the_nearest(aliases):
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("stable_baselines3.common.callback")
    assert importlib.util.find_spec("stable_baselines3.common.callback") is None
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
    assert ended.stdout.strip() == "rlzoo.callbacks.callbacks", ended.stderr


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


def test_alias_modules_are_pickled_by_name(aliases):
    module = importlib.import_module("stable_baselines3.common")
    assert cloudpickle.loads(cloudpickle.dumps(lambda: module.PPO))() is module.PPO


def test_script_has_a_namespace_of_its_own(tmp_path):
    text = "print(__doc__, 'PACKAGES' in globals(), __package__ == '')\nfrom .neighbour import name"
    (tmp_path / "script.py").write_text(text)
    ended = python("-m", "rlzoo.compat", "script.py", cwd=tmp_path)
    assert ended.stdout == "None False True\n"
    assert "attempted relative import with no known parent package" in ended.stderr


BROKEN = {
    "error": "def fail():\n    raise KeyError('no such thing')\n\n\nfail()\n",
    "syntax": "def fail(:\n    pass\n",
    "chain": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error\n",
    "import": "import no_such_module\n",
    "hook": "import sys\nsys.excepthook = lambda *found: print(*found[:2], found[2].tb_lineno)\n1 / 0\n",
    "exit": "raise SystemExit('this is why')\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_tracebacks_are_those_of_plain_python(tmp_path, name):
    (tmp_path / "script.py").write_text(BROKEN[name])
    plain = python("script.py", cwd=tmp_path)
    ended = python("-m", "rlzoo.compat", "script.py", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, plain.stdout, plain.stderr)


WHERE = """
import sys
from stable_baselines3 import PPO
print(sys.argv, repr(sys.path[0]), __name__, PPO.__module__)
if sys.argv[0] != "-":
    print(__file__)
1 / 0
"""


@pytest.mark.parametrize("kind", ["script", "folder", "stdin"])
def test_scripts_are_run_as_python_runs_them(tmp_path, kind):
    """In plain Python a module named stable_baselines3 is imported, not the alias."""
    (tmp_path / "folder").mkdir()
    name = {"script": "script.py", "folder": "folder", "stdin": "-"}[kind]
    for file in ("script.py", "folder/__main__.py"):
        (tmp_path / file).write_text(WHERE)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "stable_baselines3.py").write_text(
        "class PPO: __module__ = 'rlzoo.algorithms.on_policy.ppo'"
    )
    path = os.pathsep.join([str(tmp_path / "real"), *filter(None, sys.path)])
    plain = python(name, "--flag", cwd=tmp_path, stdin=WHERE, PYTHONPATH=path)
    ended = python("-m", "rlzoo.compat", name, "--flag", cwd=tmp_path, stdin=WHERE)
    assert plain.stdout and ended.stdout == plain.stdout
    assert [line for line in plain.stderr.splitlines() if "<frozen runpy>" not in line] == (
        ended.stderr.splitlines()
    )


def test_script_from_the_standard_input_has_workers(tmp_path):
    text = """
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

venv = make_vec_env("CartPole-v1", 1, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "spawn"})
print(venv.reset().shape)
venv.close()
"""
    ended = python("-m", "rlzoo.compat", "-", cwd=tmp_path, stdin=text)
    assert ended.stdout == "(1, 4)\n", ended.stderr


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_module_of_a_package_runs_with_its_workers(tmp_path, method):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "neighbour.py").write_text("from stable_baselines3 import PPO")
    (tmp_path / "package" / "module.py").write_text("""
import multiprocessing, sys
from .neighbour import PPO

def square(x):
    return x * x

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(square, [3]), PPO.__module__)
""")
    ended = python("-m", "rlzoo.compat", "-m", "package.module", method, cwd=tmp_path)
    assert ended.stdout == "[9] rlzoo.algorithms.on_policy.ppo\n", ended.stderr


def test_train_in_a_clone_of_the_zoo_reads_its_hyperparameters(aliases, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train.py"])
    assert aliases.hyperparameter_file(["--algo", "a2c"]) == []
    (tmp_path / "hyperparams").mkdir()
    (tmp_path / "hyperparams" / "a2c.yml").write_text("")
    assert aliases.hyperparameter_file(["--algo", "a2c"]) == []  # any folder of that name
    (tmp_path / "rl_zoo3").mkdir()
    assert aliases.hyperparameter_file(["--algo", "a2c"]) == ["-conf", "hyperparams/a2c.yml"]
    assert capsys.readouterr().out == "hyperparameters from hyperparams/a2c.yml\n"
    assert aliases.hyperparameter_file(["--algo=a2c"]) == ["-conf", "hyperparams/a2c.yml"]
    given = (
        "--algo a2c -conf my.yml",
        "--algo a2c --conf-file=my.yml",
        "",
        "--algo",
        "--algo a2c --resume x",
    )
    for words in given:
        assert aliases.hyperparameter_file(words.split()) == []
    monkeypatch.chdir("/")
    monkeypatch.setattr("sys.argv", [str(tmp_path / "train.py")])
    assert aliases.hyperparameter_file(["--algo", "a2c"]) == ["-conf", f"{tmp_path}/hyperparams/a2c.yml"]
