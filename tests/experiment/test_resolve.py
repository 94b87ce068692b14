from __future__ import annotations

from importlib.util import find_spec

import gymnasium as gym
import pytest
import torch
from torch import nn

import rlzoo
from rlzoo.config.values_as_text import interpret
from rlzoo.core.errors import NotInstalled, RunFailed, UserError
from rlzoo.envs.single_env.registration import import_packages
from rlzoo.experiment.factories import build_training_env
from rlzoo.experiment.named_classes import load_class
from rlzoo.experiment.resolve import resolve_config
from rlzoo.io.trust import trust

PPO = {"policy": "MlpPolicy", "n_timesteps": 1e5}


def test_keys_are_sorted_by_who_reads_them():
    resolved = resolve_config("ppo", {**PPO, "n_envs": 8, "n_steps": 32.0, "frame_stack": 4, "gamma": 0.98})
    assert resolved.hyperparams == {"n_steps": 32, "gamma": 0.98}
    assert (resolved.n_envs, resolved.frame_stack, resolved.n_timesteps) == (8, 4, 100_000)
    assert resolved.policy == "MlpPolicy"
    assert resolved.normalize is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_step": 5}, "n_steps"),
        ({"n_env": 5}, "n_envs"),
        ({"learning_rat": 1}, "learning_rate"),
        ({"n_steps": "many"}, "n_steps must be a whole number"),
        ({"n_envs": 0}, "n_envs must be"),
        ({"n_envs": "x"}, "n_envs must be"),
        ({"n_timesteps": True}, "n_timesteps must be"),
        ({"n_timesteps": float("inf")}, "n_timesteps must be"),
        ({"learning_rate": "line_3"}, "lin"),
        ({"normalize": 3}, "normalize must be"),
        ({"normalize": {"clip_ob": 3}}, "clip_obs"),
        ({"normalize": {"norm_obs": 3}}, "normalize: norm_obs must be true or false"),
        ({"normalize": {"gamma": "a"}}, "normalize: gamma must be a number"),
        ({"policy_kwargs": {"log_std_init": "a"}}, "policy_kwargs: log_std_init must be a number"),
        ({"callback": "os.path"}, "'os.path' is a module, not a class"),
        ({"normalize": "dict(norm_rewards=False)"}, "norm_reward"),
        ({"policy": 3}, "policy must be"),
        ({"policy_kwargs": [1]}, "policy_kwargs must be"),
        ({"env_wrapper": 3}, "env_wrapper must be"),
        ({"env_wrapper": "no_such_module.Wrapper"}, "no_such_module"),
        ({"env_wrapper": "."}, "'.' is not the dotted name of a class"),
        ({"callback": ["rlzoo..Monitor"]}, "'rlzoo..Monitor' is not the dotted name of a class"),
        ({"env_wrapper": "rlzoo.AtariWraper"}, "AtariWrapper"),
        ({"env_wrapper": "rlzoo.envs.atari.atari_wrappers.AtariWraper"}, "AtariWrapper"),
        ({"env_wrapper": {"rlzoo.AtariWrapper": {"frame_skipp": 2}}}, "frame_skip"),
        ({"callback": {"rlzoo.EvalCallback": [1]}}, "callback must be"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(values, message):
    with pytest.raises(UserError) as caught:
        resolve_config("ppo", {**PPO, **values})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_is_required():
    with pytest.raises(UserError, match="policy"):
        resolve_config("ppo", {"n_timesteps": 1})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (False, None),
        (True, {"gamma": 0.9}),
        ({"norm_obs": True, "norm_reward": False}, {"norm_obs": True, "norm_reward": False, "gamma": 0.9}),
        ("dict(norm_obs=True, norm_reward=False)", {"norm_obs": True, "norm_reward": False, "gamma": 0.9}),
        ({"gamma": 0.5}, {"gamma": 0.5}),
    ],
)
def test_normalize_in_all_its_forms(value, expected):
    values = {**PPO, "normalize": value, "gamma": 0.9}
    assert resolve_config("ppo", values).normalize == expected
    assert values["normalize"] == value  # the caller's dictionary stays as it was


def test_names_become_classes():
    values = interpret({"policy_kwargs": "dict(activation_fn=nn.ReLU, net_arch=[8, 8])"})
    resolved = resolve_config("ppo", {**PPO, **values})
    assert resolved.policy_kwargs == {"activation_fn": nn.ReLU, "net_arch": [8, 8]}


def test_wrappers_may_be_a_path_a_mapping_or_a_list():
    wrappers = [
        "stable_baselines3.common.atari_wrappers.AtariWrapper",
        {"rlzoo.TimeFeatureWrapper": {"max_steps": 3}},
    ]
    resolved = resolve_config("ppo", {**PPO, "env_wrapper": wrappers})
    assert resolved.env_wrappers == (
        (rlzoo.AtariWrapper, {}),
        (rlzoo.TimeFeatureWrapper, {"max_steps": 3}),
    )


def test_a_config_from_elsewhere_names_only_our_classes():
    ours = {**PPO, "env_wrapper": "rl_zoo3.wrappers.TimeFeatureWrapper"}
    assert resolve_config("ppo", ours, trusted=False).env_wrappers == ((rlzoo.TimeFeatureWrapper, {}),)
    with pytest.raises(UserError, match=r"'os\.system' is code from outside rlzoo.*: add --trust os"):
        resolve_config("ppo", {**PPO, "env_wrapper": "os.system"}, trusted=False)
    for path in ("rlzoo.processes.stop_signals.end_at_once", "rlzoo.io.atomic.Path"):
        with pytest.raises(UserError, match=r"not a class derived from gymnasium\.Wrapper"):
            resolve_config("ppo", {**PPO, "env_wrapper": path}, trusted=False)


def test_a_module_beside_the_user_is_imported_once_it_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "my_own_wrappers.py").write_text("import gymnasium\nclass Mine(gymnasium.Wrapper): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    values = {**PPO, "env_wrapper": "my_own_wrappers.Mine"}
    with pytest.raises(UserError, match=r"in the working directory.*: add --trust my_own_wrappers"):
        resolve_config("ppo", values)
    trust(["my_own_wrappers"])
    mine = resolve_config("ppo", values, trusted=False).env_wrappers[0][0]
    assert issubclass(mine, gym.Wrapper)


def test_gym_packages_are_imported_and_a_missing_one_is_named():
    import_packages(["json"])
    with pytest.raises(UserError, match="no_such_package_at_all"):
        import_packages(["no_such_package_at_all"])


def test_a_class_by_its_public_name():
    assert load_class("TimeFeatureWrapper", "env_wrapper") is rlzoo.TimeFeatureWrapper
    assert load_class("torch.optim.Adam", "optimizer_class", trusted=False) is torch.optim.Adam


@pytest.mark.skipif(find_spec("minigrid") is not None, reason="minigrid is installed")
def test_missing_wrapper_package_names_install_command():
    with pytest.raises(NotInstalled, match=r"Wrapper' needs .*'minigrid': pip install .*\[robotics\]'"):
        resolve_config("ppo", {**PPO, "env_wrapper": "minigrid.wrappers.FlatObsWrapper"})


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("failing", "\n1 / 0", "ZeroDivisionError: division by zero (failing.py, line 2)"),
        ("misspelled", "x = = 1", "SyntaxError: invalid syntax (misspelled.py, line 1)"),
    ],
)
def test_a_package_that_fails_is_named(tmp_path, monkeypatch, name, code, message):
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError) as caught:
        import_packages([name])
    assert str(caught.value) == f"--gym-packages {name}: {message}"


def test_the_line_of_a_failing_environment_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "rail_cart.py").write_text(
        "import gymnasium as gym\n"
        "class RailCart(gym.Env):\n"
        "    def __init__(self):\n"
        "        self.rail = [1][2]\n"
        "gym.register('RailCart-v0', entry_point=RailCart)\n"
    )
    import_packages(["rail_cart"])
    with pytest.raises(RunFailed, match=r"cannot make RailCart-v0: IndexError: .* \(rail_cart\.py, line 4\)"):
        build_training_env(resolve_config("ppo", {"policy": "MlpPolicy"}), "RailCart-v0", 0, "auto", None)
    gym.registry.pop("RailCart-v0")


def test_env_package_is_found_in_working_directory(tmp_path, monkeypatch):
    (tmp_path / "package_beside_the_user.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    import_packages([], "package_beside_the_user:Own-v0")
    assert "package_beside_the_user" in __import__("sys").modules


@pytest.mark.parametrize(
    ("key", "entry", "message"),
    [
        ("env_wrapper", "gymnasium.wrappers.TimeLimit", "needs max_episode_steps: write {gymnasium.wrap"),
        ("vec_env_wrapper", ["rlzoo.VecFrameStack"], "rlzoo.VecFrameStack needs n_stack"),
        (
            "env_wrapper",
            {"gymnasium.wrappers.TimeLimit": {"max_steps": 9}},
            "did you mean 'max_episode_steps'",
        ),
        ("env_wrapper", {"rlzoo.FrameSkip": {"env": 3}}, "env is the environment"),
        ("callback", "rlzoo.EvalCallback", "needs eval_env"),
    ],
)
def test_missing_wrapper_argument_is_named(key, entry, message):
    with pytest.raises(UserError) as caught:
        resolve_config("ppo", {"policy": "MlpPolicy", key: entry})
    assert message in str(caught.value)


def test_refused_wrapper_argument_is_a_mistake():
    entry = {"gymnasium.wrappers.TimeLimit": {"max_episode_steps": -1}}
    resolved = resolve_config("ppo", {"policy": "MlpPolicy", "env_wrapper": entry})
    with pytest.raises(UserError, match=r"env_wrapper TimeLimit: ValueError: .* positive"):
        build_training_env(resolved, "CartPole-v1", 0, "auto", None)


def test_unknown_class_names_public_classes_only():
    with pytest.raises(UserError) as caught:
        load_class("rlzoo.callbacks.Nope", "callback")
    assert "__" not in str(caught.value) and "CheckpointCallback" in str(caught.value)
    with pytest.raises(UserError, match=r"did you mean 'rlzoo\.EvalCallback'\?"):
        load_class("rlzoo.callbacks.EvalCallback", "callback")
    with pytest.raises(UserError) as caught:
        load_class("rlzoo.callbacks.callbacks.Nope", "callback")
    assert "'np'" not in str(caught.value) and "ConvertCallback" in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "-inf", float("nan"), float("inf")])
def test_learning_rate_must_be_finite(value):
    with pytest.raises(UserError, match=r"^learning_rate must be a finite number .*, not '?-?(nan|inf)'?$"):
        resolve_config("ppo", {"policy": "MlpPolicy", "learning_rate": value})


def test_wrong_schedule_is_named_with_its_key():
    with pytest.raises(UserError, match=r"^clip_range: 'abc' is not a schedule"):
        resolve_config("ppo", {"policy": "MlpPolicy", "clip_range": "abc"})
