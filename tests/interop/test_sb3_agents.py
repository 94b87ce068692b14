"""Agents of stable-baselines3 act here as they do there, and learn on.

The files in `sb3_files` were written by scripts/make_import_files.py with the version that their folder
names.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import sys
import warnings
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlzoo
from rlzoo.algorithms.agent.foreign import algorithm_of
from rlzoo.core.action_noise import OrnsteinUhlenbeckActionNoise
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.schedules import LinearSchedule, make_schedule
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.interop.sb3_values import read_schedule
from rlzoo.io.pickle_tree import read_pickle

FILES = Path(__file__).parent / "sb3_files"
AGENTS = sorted(path for path in FILES.rglob("*.zip"))
NEW = FILES / "2.9.2"
CLASSES = {
    "a2c": "A2C", "ars": "ARS", "crossq": "CrossQ", "ddpg": "DDPG", "dqn": "DQN", "qrdqn": "QRDQN",
    "sac": "SAC", "td3": "TD3", "tqc": "TQC", "trpo": "TRPO", "ppo_lstm": "RecurrentPPO",
    "ppo_mask": "MaskablePPO",
    "ppo": "PPO",
}  # fmt: skip


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("import_table", Path("scripts/import_table.py").resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["import_table"] = module
    spec.loader.exec_module(module)
    return module


TABLE = _script()


def load(path: Path, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if path.stem == "ppo_function" else "error")
        return getattr(rlzoo, algorithm_of(path)).load(path, device="cpu", **kwargs)


def environment(model: Any) -> VecEnv:
    env: VecEnv = TABLE.environment(model)
    return env


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_agent_acts_and_judges_as_in_stable_baselines3(path: Path) -> None:
    prefix = next(name for name in CLASSES if path.stem.startswith(f"{name}_"))
    assert algorithm_of(path) == CLASSES[prefix]
    with np.load(path.with_suffix(".npz")) as arrays:
        of_actions, of_values = TABLE.largest_differences(load(path), dict(arrays))
    assert of_actions < 1e-5
    assert of_values < 1e-4


@pytest.mark.parametrize(
    "name", ["a2c_mlp", "ars_linear", "crossq_mlp", "ddpg_mlp", "dqn_mlp", "ppo_box", "ppo_cnn_unshared",
    "ppo_lstm_box", "ppo_mask_mlp", "qrdqn_mlp", "sac_her", "sac_sde", "td3_mlp", "tqc_mlp", "trpo_mlp"],
)  # fmt: skip
def test_agent_learns_on(name: str) -> None:
    model = load(NEW / f"{name}.zip")
    done = model.num_timesteps
    model = load(NEW / f"{name}.zip", env=environment(model))
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps >= done + 64
    after = model.policy.state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    again = type(model).load(file, device="cpu")
    assert all(torch.equal(value, after[key]) for key, value in again.policy.state_dict().items())


def test_optimizer_goes_on_from_its_moments() -> None:
    path = NEW / "ppo_box.zip"
    optimizer = load(path).policy.optimizer
    (state,) = optimizer.state.values()
    theirs = torch.load(member(path, "policy.optimizer.pth"), weights_only=True)
    moments = [theirs["state"][index]["exp_avg"].flatten() for index in range(len(theirs["state"]))]
    assert torch.equal(state["exp_avg"].flatten(), torch.cat(moments))
    assert float(state["step"]) == float(theirs["state"][0]["step"]) > 0


def test_moments_of_critics_are_those_of_each_critic() -> None:
    path = NEW / "tqc_mlp.zip"
    model = load(path)
    theirs = torch.load(member(path, "critic.optimizer.pth"), weights_only=True)["state"]
    (state,) = model.policy.critic.optimizer.state.values()
    model.critic_flat.vector.detach().copy_(state["exp_avg"])  # read the moments by the names of the values
    named = [value for name, value in model.policy.critic.state_dict().items()]
    assert len(named) == len(theirs) == 12
    assert all(torch.equal(value, theirs[index]["exp_avg"]) for index, value in enumerate(named))


def test_optimizer_of_another_layout_starts_fresh_and_says_so(tmp_path: Path) -> None:
    state = torch.load(member(NEW / "ppo_box.zip", "policy.optimizer.pth"), weights_only=True)
    state["param_groups"][0]["params"].append(len(state["param_groups"][0]["params"]))
    path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.optimizer.pth": state})
    with pytest.warns(UserWarning, match=r"policy\.optimizer starts fresh: it has 10 parameters"):
        model = rlzoo.PPO.load(path)
    assert not model.policy.optimizer.state


def test_momentum_of_sgd_goes_on(tmp_path: Path) -> None:
    state = torch.load(member(NEW / "ppo_box.zip", "policy.optimizer.pth"), weights_only=True)
    entries = {index: {"momentum_buffer": entry["exp_avg"]} for index, entry in state["state"].items()}
    path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.optimizer.pth": {**state, "state": entries}})
    sgd = {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {"momentum": 0.9}}
    model = load(path, policy_kwargs={"net_arch": [6], **sgd})
    (momentum,) = model.policy.optimizer.state.values()
    wanted = torch.cat([entry["momentum_buffer"].flatten() for entry in entries.values()])
    assert momentum.keys() == {"momentum_buffer"}
    assert torch.equal(momentum["momentum_buffer"].flatten(), wanted)


@pytest.mark.parametrize("name", ["ppo_box", "dqn_mlp", "td3_mlp"])
def test_parameters_of_a_file_are_set(name: str) -> None:
    theirs = load(NEW / f"{name}.zip")
    model = type(theirs)(theirs.policy_class, environment(theirs), policy_kwargs=theirs.policy_kwargs, seed=3)
    model.set_parameters(NEW / f"{name}.zip")
    for mine, wanted in zip(model.policy.parameters(), theirs.policy.parameters(), strict=True):
        assert torch.equal(mine, wanted)


def test_target_networks_and_coefficient_are_theirs() -> None:
    path = NEW / "sac_mlp.zip"
    model = load(path)
    theirs = torch.load(member(path, "policy.pth"), weights_only=True)
    ours = model.policy.state_dict()
    assert torch.equal(ours["critic_target.qf1.2.weight"], theirs["critic_target.qf1.2.weight"])
    assert not torch.equal(ours["critic_target.qf1.2.weight"], ours["critic.qf1.2.weight"])
    variables = torch.load(member(path, "pytorch_variables.pth"), weights_only=True)
    assert model.entropy_coefficient.log_ent_coef.item() == variables["log_ent_coef"].item() != 0
    assert len(model.replay_buffer) == 0


def test_dqn_does_not_copy_its_target_network_on_loading() -> None:
    model = load(NEW / "dqn_mlp.zip", target_update_interval=10)
    assert model.target_updates.crossings(model.num_timesteps + 1, 10) == 0


def test_hyperparameters_are_read() -> None:
    model = load(NEW / "ppo_box.zip")
    assert (model.n_steps, model.batch_size, model.n_epochs, model.clip_range_vf) == (
        16, 16, 2, make_schedule(0.3),
    )  # fmt: skip
    assert make_schedule(model.clip_range)(0.5) == 0.2
    assert model.policy_kwargs == {"net_arch": [6]}
    assert isinstance(load(NEW / "ddpg_mlp.zip").action_noise, OrnsteinUhlenbeckActionNoise)
    her = load(NEW / "sac_her.zip")
    assert her.config.replay_buffer_class is rlzoo.HerReplayBuffer
    assert her.config.replay_buffer_kwargs["n_sampled_goal"] == 2
    assert (
        load(FILES / "1.2.0" / "dqn_her.zip").config.replay_buffer_kwargs["goal_selection_strategy"]
        == "final"
    )


@pytest.mark.parametrize("version", ["2.0.0", "2.9.2"])
def test_schedule_of_rl_baselines3_zoo_is_read(version: str) -> None:
    model = load(FILES / version / "ppo_linear_schedule.zip")
    assert make_schedule(model.learning_rate) == LinearSchedule(1e-3, 0.0)


def test_function_is_named_and_needed_for_training_only() -> None:
    path = NEW / "ppo_function.zip"
    with pytest.warns(UserWarning, match=r"learning_rate is a function \(halving\), which is not read"):
        model = rlzoo.PPO.load(path, env="CartPole-v1")
    model.predict(np.zeros(4, np.float32))
    with pytest.raises(UserError, match="learning_rate"):
        model.learn(32)
    rlzoo.PPO.load(path, env="CartPole-v1", learning_rate=1e-3).learn(32)
    rlzoo.PPO.load(path, env="CartPole-v1", custom_objects={"learning_rate": lambda left: 1e-3 * left}).learn(
        32
    )


def test_function_is_taken_from_the_config_beside(tmp_path: Path) -> None:
    path = tmp_path / "CartPole-v1.zip"
    path.write_bytes((NEW / "ppo_function.zip").read_bytes())
    (tmp_path / "CartPole-v1").mkdir()
    (tmp_path / "CartPole-v1" / "config.yml").write_text("learning_rate: lin_0.002\npolicy: MlpPolicy\n")
    assert rlzoo.PPO.load(path).learning_rate == "lin_0.002"


def test_bounds_of_observations_are_those_of_the_environment() -> None:
    path = FILES / "1.2.0" / "ppo_mlp.zip"  # gym 0.21 has other bounds of CartPole
    assert load(path).observation_space != gym.make("CartPole-v1").observation_space
    rlzoo.PPO.load(path, env="CartPole-v1").learn(16)


def test_environment_of_other_actions_is_refused() -> None:
    with pytest.raises(UserError, match="observation_space"):
        rlzoo.PPO.load(NEW / "ppo_box.zip", env="CartPole-v1")


@pytest.mark.parametrize("version", ["1.2.0", "2.9.2"])
def test_statistics_of_vec_normalize_are_read(version: str) -> None:
    path = FILES / version / "ppo_normalized_vecnormalize.pkl"
    venv = rlzoo.VecNormalize.load(path, rlzoo.make_vec_env("Pendulum-v1"))
    assert venv.clip_obs == 5.0
    with np.load(FILES / version / "ppo_normalized_statistics.npz") as arrays:
        assert np.abs(venv.normalize_obs(arrays["raw"]) - arrays["normalized"]).max() < 1e-6


def test_statistics_beside_a_file_come_along(tmp_path: Path) -> None:
    path = tmp_path / "Pendulum-v1.zip"
    path.write_bytes((NEW / "ppo_normalized.zip").read_bytes())
    (tmp_path / "vec_normalize.pkl").write_bytes((NEW / "ppo_normalized_vecnormalize.pkl").read_bytes())
    state = rlzoo.PPO.load(path).normalize_state
    assert state["0.VecNormalize.obs_rms.mean"].shape == (3,)
    assert not load(NEW / "ppo_normalized.zip").normalize_state


class Stream(io.BytesIO):
    """A file that can be read once."""

    def seekable(self) -> bool:
        return False


def test_file_object_is_read() -> None:
    with (NEW / "ppo_mlp.zip").open("rb") as file:
        rlzoo.PPO.load(file)
    rlzoo.PPO.load(io.BytesIO((NEW / "ppo_mlp.zip").read_bytes()))
    rlzoo.PPO.load(Stream((NEW / "ppo_mlp.zip").read_bytes()))
    assert isinstance(rlzoo.HER.load(NEW / "sac_her.zip"), rlzoo.SAC)


def test_system_info_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rlzoo.PPO.load(NEW / "ppo_mlp.zip", print_system_info=True)
    assert "- stable-baselines3: 2.9.2" in capsys.readouterr().out


FUNCTION_OF_PYTHON_3_7 = (
    b"ccloudpickle.cloudpickle\n_fill_function\n(ccloudpickle.cloudpickle\n_make_skel_func\n("
    b"ctypes\nCodeType\n(K\x01K\x00(Vval\nt)tRK\x01}tR}(Vclosure_values\n](F0.0025\neVqualname\n"
    b"Vconstant_fn.<locals>.func\nutR."
)


def test_closures_are_read_as_each_cloudpickle_writes_them() -> None:
    tree = read_pickle(FUNCTION_OF_PYTHON_3_7)
    assert read_schedule(tree) == make_schedule(0.0025)
    for version, name in (("1.2.0", "ppo_mlp"), ("2.0.0", "ppo_linear_schedule"), ("2.9.2", "ppo_mlp")):
        model = load(FILES / version / f"{name}.zip")
        assert make_schedule(model.clip_range) == make_schedule(0.2)


# -- what cannot be read, and what is wrong ------------------------------------------------------


def member(path: Path, name: str) -> io.BytesIO:
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(name))


def changed(path: Path, folder: Path, members: dict[str, Any]) -> Path:
    """A copy of a model file with other members; `data` is a dictionary of changes, None leaves out."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name, value in members.items():
        if name == "data" and isinstance(value, dict):
            data = {**json.loads(contents["data"]), **value}
            value = json.dumps({key: item for key, item in data.items() if item is not None}).encode()
        elif name.endswith(".pth") and not isinstance(value, bytes | None):
            buffer = io.BytesIO()
            torch.save(value, buffer)
            value = buffer.getvalue()
        contents[name] = value
    target = folder / path.name
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)
    return target


def test_file_of_another_algorithm_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"holds a PPO agent; load it with PPO\.load"):
        rlzoo.SAC.load(NEW / "ppo_box.zip")
    with pytest.raises(CheckpointError, match="holds a DQN agent"):
        rlzoo.QRDQN.load(NEW / "dqn_mlp.zip")
    assert isinstance(rlzoo.TD3.load(NEW / "ddpg_mlp.zip"), rlzoo.TD3)  # DDPG is a TD3 there
    mine = type("Mine", (rlzoo.PPO,), {"__module__": "my_code"})
    assert isinstance(mine.load(NEW / "ppo_mlp.zip"), mine)


def test_file_without_a_schedule_is_still_ppo(tmp_path: Path) -> None:
    path = changed(NEW / "ppo_mlp.zip", tmp_path, {"data": {"clip_range": None}})  # saved with `exclude`
    assert isinstance(rlzoo.PPO.load(path), rlzoo.PPO)


def test_unreadable_space_comes_from_elsewhere(tmp_path: Path) -> None:
    lost = {":type:": "x", ":serialized:": "gAR9lC4="}  # an empty dictionary
    path = changed(NEW / "ppo_box.zip", tmp_path, {"data": {"action_space": lost, "observation_space": lost}})
    with pytest.raises(CheckpointError, match=r"give env=.* or custom_objects="):
        rlzoo.PPO.load(path)
    assert rlzoo.PPO.load(path, env="Pendulum-v1").action_space == gym.make("Pendulum-v1").action_space
    box = gym.spaces.Box(-2, 2, (1,))
    model = rlzoo.PPO.load(path, custom_objects={"action_space": box})
    assert model.observation_space == gym.spaces.Box(-np.inf, np.inf, (3,))  # from the first layer
    path = changed(NEW / "dqn_mlp.zip", tmp_path, {"data": None})
    assert rlzoo.DQN.load(path, policy_kwargs={"net_arch": [6]}).action_space == gym.spaces.Discrete(2)


def test_custom_class_is_asked_for(tmp_path: Path) -> None:
    lost = {":type:": "x", ":serialized:": base64.b64encode(b"cmy_code\nMyPolicy\n.").decode()}
    path = changed(NEW / "ppo_box.zip", tmp_path, {"data": {"policy_class": lost}})
    with pytest.raises(CheckpointError, match=r"my_code\.MyPolicy.*custom_objects"):
        rlzoo.PPO.load(path)
    rlzoo.PPO.load(path, custom_objects={"policy_class": rlzoo.ActorCriticPolicy})


PICKLE = b"cposix\nsystem\n(S'touch rlzoo_canary'\ntR."


@pytest.mark.parametrize("name", ["lr_schedule", "policy_class", "observation_space", "ep_info_buffer"])
def test_pickle_that_runs_a_program_is_refused(name: str, tmp_path: Path) -> None:
    serialized = {":type:": "x", ":serialized:": base64.b64encode(PICKLE).decode()}
    path = changed(NEW / "ppo_box.zip", tmp_path, {"data": {name: serialized}})
    with pytest.raises(
        CheckpointError, match=rf"{name} would call posix\.system if it were unpickled: refused"
    ):
        rlzoo.PPO.load(path)


def test_hostile_tensors_are_refused(tmp_path: Path) -> None:
    for name in ("policy.pth", "policy.optimizer.pth", "pytorch_variables.pth"):
        path = changed(NEW / "ppo_box.zip", tmp_path, {name: torch_file(PICKLE)})
        with pytest.raises(CheckpointError, match=rf"{name} would call posix\.system .*: refused"):
            rlzoo.PPO.load(path)
    path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.pth": PICKLE})
    with pytest.raises(CheckpointError, match=r"policy\.pth is damaged, or names more than tensors"):
        rlzoo.PPO.load(path)
    assert not Path("rlzoo_canary").exists()


def torch_file(pickle: bytes) -> bytes:
    """What torch.save writes, with another pickle."""
    buffer = io.BytesIO()
    torch.save({}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, pickle if name.endswith("data.pkl") else content)
    return made.getvalue()


def test_hostile_statistics_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vec_normalize.pkl"
    path.write_bytes(b"\x80\x02" + PICKLE)
    with pytest.raises(UserError, match=r"it would call posix\.system if it were unpickled: refused"):
        rlzoo.VecNormalize.load(path, rlzoo.make_vec_env("Pendulum-v1"))
    path.write_bytes((NEW / "ppo_normalized_vecnormalize.pkl").read_bytes()[:-40])
    with pytest.raises(UserError, match="is not a readable file of stable-baselines3's VecNormalize"):
        rlzoo.VecNormalize.load(path, rlzoo.make_vec_env("Pendulum-v1"))


def test_repeated_numbers_and_bombs_are_refused(tmp_path: Path) -> None:
    weights = torch.load(member(NEW / "ppo_box.zip", "policy.pth"), weights_only=True)
    weights["log_std"] = torch.zeros(1).expand(10**12)
    path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.pth": weights})
    with pytest.raises(CheckpointError, match="holds a tensor that is not read"):
        rlzoo.PPO.load(path)
    path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.pth": bytes(2**29)})
    with pytest.raises(CheckpointError, match="it unpacks from"):
        rlzoo.PPO.load(path)


def again(start: bytes, make: Any, times: int) -> dict[str, str]:
    """A serialised value that reads as 2**times objects: each holds the one before twice."""
    content = b"\x80\x04" + start + b"\x940"
    for index in range(times):
        content += make(b"h" + bytes([index])) + b"\x940"
    content += b"h" + bytes([times]) + b"."
    return {":type:": "x", ":serialized:": base64.b64encode(content).decode()}


def named(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


SPACE = named("gymnasium.spaces", "Discrete") + b")R}X\x01\x00\x00\x00nK\x02sb"
REPEATED = {
    "train_freq": again(
        b"K\x01",
        lambda one: named("stable_baselines3.common.type_aliases", "TrainFreq") + one * 2 + b"\x86R",
        40,
    ),
    "action_noise": again(
        b"K\x01",
        lambda one: named("stable_baselines3.common.noise", "NormalActionNoise")
        + b")R}(X\x03\x00\x00\x00_mu" + one + b"X\x06\x00\x00\x00_sigma" + one + b"ub",
        40,
    ),
    "observation_space": again(
        SPACE,
        lambda one: named("gymnasium.spaces", "Dict") + b")R}X\x06\x00\x00\x00spaces}(X\x01\x00\x00\x00a"
        + one + b"X\x01\x00\x00\x00b" + one + b"usb",
        40,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_objects_in_objects_do_not_multiply(name: str, tmp_path: Path) -> None:
    path = changed(NEW / "sac_mlp.zip", tmp_path, {"data": {name: REPEATED[name]}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rlzoo.SAC.load(path).observation_space.shape == (3,)


def test_tensors_hold_tensors_only(tmp_path: Path) -> None:
    """`weights_only` allows bytearray(2**40), and lists of lists of one list."""
    lists = b"\x80\x02]q\x000" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) + b"0" for i in range(60)
    )
    for content in (b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + bytes(5) + b"\x01\x85R.", lists + b"h\x3c."):
        path = changed(NEW / "ppo_box.zip", tmp_path, {"policy.optimizer.pth": torch_file(content)})
        with pytest.warns(UserWarning, match=r"policy\.optimizer starts fresh"):
            rlzoo.PPO.load(path)


def test_bombs_in_tensor_files_are_refused(tmp_path: Path) -> None:
    """Each would be small enough: a file can hold thousands of them."""
    saved, bomb = io.BytesIO(), io.BytesIO()
    torch.save({"state": {}, "param_groups": [], "x": torch.zeros(2**20)}, saved)
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))
    path = changed(NEW / "ppo_box.zip", tmp_path, {"other.pth": bomb.getvalue()})
    with pytest.warns(UserWarning, match="other starts fresh: other.pth: it unpacks to more than it holds"):
        rlzoo.PPO.load(path)


def test_attributes_of_another_kind_are_no_traceback(tmp_path: Path) -> None:
    damaged = {":type:": "x", ":serialized:": base64.b64encode(b"x").decode()}
    path = changed(NEW / "td3_mlp.zip", tmp_path, {"data": {"policy_delay": damaged}})
    with pytest.warns(UserWarning, match="policy_delay is"):
        rlzoo.TD3.load(path)
    schedule = named("stable_baselines3.common.utils", "ConstantSchedule") + b")R}X\x03\x00\x00\x00val"
    content = b"\x80\x02" + schedule + b"\x8a\xff" + b"\x01" * 255 + b"sb."
    huge = {":type:": "x", ":serialized:": base64.b64encode(content).decode()}
    path = changed(NEW / "ppo_box.zip", tmp_path, {"data": {"clip_range": huge}})
    with pytest.warns(UserWarning, match="clip_range is an object of"):
        rlzoo.PPO.load(path)


def test_networks_are_no_larger_than_the_weights(tmp_path: Path) -> None:
    path = changed(NEW / "ppo_box.zip", tmp_path, {"data": {"policy_kwargs": {"net_arch": [20_000, 20_000]}}})
    with pytest.raises(CheckpointError, match="cannot be built: the networks need"):
        rlzoo.PPO.load(path)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"policy.pth": None}, r"policy\.pth is missing"),
        ({"data": b"[]"}, "no JSON object"),
        ({"data": b"{"}, "damaged"),
        ({"data": b"[" * 100_000}, "nested too deeply"),
        ({"policy.pth": {"log_std": torch.zeros(1)}}, "is not in the model file"),
        ({"policy.pth": {"log_std": [1]}}, "something else than tensors"),
        ({"data": {"n_steps": "many"}}, "n_steps must be a whole number"),
    ],
)
def test_damaged_file_is_one_error(members: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        rlzoo.PPO.load(changed(NEW / "ppo_box.zip", tmp_path, members))
