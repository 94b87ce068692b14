"""An agent comes back from its file as it was, and training goes on to the bit."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.algorithms.ars import ARS
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import field_names
from rlzoo.algorithms.imitation.gail import GAIL
from rlzoo.algorithms.off_policy.ddpg import DDPG
from rlzoo.algorithms.off_policy.dqn import DQN
from rlzoo.algorithms.off_policy.sac import SAC
from rlzoo.algorithms.on_policy.a2c import A2C
from rlzoo.algorithms.on_policy.acktr import ACKTR
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.algorithms.on_policy.ppo_lstm import RecurrentPPO
from rlzoo.algorithms.on_policy.trpo import TRPO
from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.callbacks.callbacks import StopTrainingOnMaxEpisodes
from rlzoo.config import catalog
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec, OrnsteinUhlenbeckActionNoise
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.core.runtime import set_random_seed
from rlzoo.core.schedules import LinearSchedule
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.networks.torch_layers import BaseFeaturesExtractor
from rlzoo.training.checkpoint import read_checkpoint, write_checkpoint
from rlzoo.training.expert_trajectories import generate_expert_traj
from rlzoo.training.off_policy_loop import off_policy

ADAM = ("optimizers", "policy.optimizer", "state", "$dict", 0, 1)
LOADED = [catalog.load(name) for name in catalog.names()]
ALGORITHMS: list[Any] = [loaded for loaded in LOADED if hasattr(loaded, "Config")]  # `her` makes another
REPLAYING = {"buffer_size": 50, "learning_starts": 8, "batch_size": 4, "train_freq": 4}
LEARNING = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "learner": "ppo", "n_delta": 2}


def small(algorithm: Any) -> dict[str, Any]:
    values = REPLAYING if algorithm.loop is off_policy else LEARNING
    return {name: value for name, value in values.items() if name in field_names(algorithm.Config)}


OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-1, 1, (3,)),
    "discrete": spaces.Discrete(4),
    "dict": spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(3)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(np.array([-1, 0], np.float32), np.array([2, 5], np.float32)),
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
    "multi_binary": spaces.MultiBinary(2),
}


class RandomWalk(gym.Env[Any, Any]):
    """Observations and rewards drawn from the environment's own generator; episodes of nine steps."""

    def __init__(self, observation: str = "vector", action: str = "discrete") -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observation], ACTIONS[action]

    def observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def action_masks(self) -> Any:
        return np.ones(sum(choice_counts(self.action_space)), bool)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ended = self.np_random.random() < 0.1
        return self.observe(), float(self.np_random.normal() + np.sum(action)), ended, self.steps == 9, {}


def make_env(n_envs: int = 2, observation: str = "vector", action: str = "discrete") -> VecEnv:
    return DummyVecEnv([lambda: RandomWalk(observation, action)] * n_envs)


def make(algorithm: type[Algorithm] = PPO, env: Any = None, policy: Any = None, **kwargs: Any) -> Algorithm:
    env = make_env() if env is None else env
    arguments = {"seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}, **small(algorithm), **kwargs}
    if "expert_dataset" in field_names(algorithm.Config):
        shown = generate_expert_traj(lambda _: env.action_space.sample(), None, env, n_episodes=3)
        arguments["expert_dataset"] = ExpertDataset(traj_data=shown, verbose=0)
    return algorithm(policy or policy_for(algorithm), env, **arguments)


def policy_for(algorithm: type[Algorithm], observation: str = "vector") -> str:
    kind = "MultiInput" if observation == "dict" else "Mlp"
    return f"{kind}{'Lstm' if algorithm.policy_family == 'recurrent' else ''}Policy"


def observations(model: Algorithm, count: int = 50) -> list[Any]:
    model.observation_space.seed(5)
    return [model.observation_space.sample() for _ in range(count)]


def parameters(model: Algorithm) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def optimizer_tensors(model: Algorithm) -> list[torch.Tensor]:
    states = [part["state"] for name, part in model.get_parameters().items() if "optimizer" in name]
    assert states or isinstance(model, ARS)
    return [
        torch.as_tensor(value).clone()
        for state in states
        for entry in state.values()
        for value in entry.values()
    ]


def env_for(algorithm: type[Algorithm], n_envs: int = 2) -> VecEnv:
    return make_env(n_envs, action=actions_of(algorithm)[0])


def actions_of(algorithm: type[Algorithm]) -> list[str]:
    return [name for name, space in ACTIONS.items() if isinstance(space, algorithm.action_spaces)]


def assert_same_parameters(left: Algorithm, right: Algorithm) -> None:
    mine, other = parameters(left), parameters(right)
    assert mine.keys() == other.keys()
    for name in mine:
        assert torch.equal(mine[name], other[name]), name


def saved(model: Algorithm, **kwargs: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    model.save(buffer, **kwargs)
    return buffer


def changed(
    buffer: io.BytesIO, change: Callable[[dict[str, Any]], Any], member: str = "config.json"
) -> io.BytesIO:
    """The file with one JSON member changed, its checksums intact."""
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members[member])
    change(tree)
    members[member] = json.dumps(tree).encode()
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return result


# The agent comes back


@pytest.mark.parametrize(
    ("algorithm", "observation", "action"),
    [
        (algorithm, observation, action)
        for algorithm in ALGORITHMS
        for observation in OBSERVATIONS
        for action in actions_of(algorithm)
        if not (algorithm is ARS and observation == "dict")
    ],
)
def test_predictions_come_back_exactly(
    algorithm: type[Algorithm], observation: str, action: str, tmp_path: Path
) -> None:
    policy = policy_for(algorithm, observation)
    model = make(algorithm, make_env(2, observation, action), policy).learn(40)
    model.save(tmp_path / "agent")
    again = algorithm.load(tmp_path / "agent", device="cpu")
    assert_same_parameters(model, again)
    assert (again.observation_space, again.action_space) == (model.observation_space, model.action_space)
    for obs in observations(model):
        np.testing.assert_array_equal(
            model.predict(obs, deterministic=True)[0], again.predict(obs, deterministic=True)[0]
        )
    obs = observations(model, 1)[0]
    set_random_seed(3)
    expected = [model.predict(obs)[0] for _ in range(20)]
    set_random_seed(3)
    np.testing.assert_array_equal(expected, [again.predict(obs)[0] for _ in range(20)])


def test_counters_hyperparameters_and_arguments_come_back() -> None:
    kwargs = {
        "net_arch": {"pi": [8], "vf": [4, 4]},
        "activation_fn": nn.ELU,
        "optimizer_class": torch.optim.SGD,
    }
    model = make(
        env=VecMonitor(make_env()),
        gamma=0.9,
        learning_rate="lin_1e-3",
        clip_range=LinearSchedule(0.2, 0.1),
        policy_kwargs=kwargs,
        seed=7,
    ).learn(100)
    again = PPO.load(saved(model), device="cpu")
    assert again.config == model.config and again.policy_kwargs == kwargs and again.seed == 7
    assert again.num_timesteps == model.num_timesteps > 0 and again.n_updates == model.n_updates > 0
    assert list(again.ep_info_buffer) == list(model.ep_info_buffer) and again.ep_info_buffer
    assert isinstance(again.policy.optimizer, torch.optim.SGD)
    assert (again.env, again.n_envs) == (None, 2)


@pytest.mark.parametrize("algorithm", [algorithm for algorithm in ALGORITHMS if algorithm is not ARS])
def test_the_optimizers_come_back(algorithm: type[Algorithm]) -> None:
    model = make(algorithm, env_for(algorithm)).learn(40)
    again = algorithm.load(saved(model), device="cpu")
    mine, other = optimizer_tensors(model), optimizer_tensors(again)
    assert mine and len(mine) == len(other) and all(map(torch.equal, mine, other))


def test_saving_and_loading_leave_the_generators_alone() -> None:
    model = make().learn(32)
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    expected = (torch.rand(1), np.random.rand(), random.random())
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    buffer = saved(model)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    random.seed(1), np.random.seed(1)
    PPO.load(buffer, device="cpu")
    assert (np.random.rand(), random.random()) == expected[1:]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_file_saved_again_holds_the_same(algorithm: type[Algorithm]) -> None:
    first = algorithm.load(saved(make(algorithm, env_for(algorithm)).learn(32)), device="cpu")
    again = algorithm.load(saved(first), device="cpu")
    assert_same_parameters(first, again)
    assert again.config == first.config and again.num_timesteps == first.num_timesteps
    assert all(map(torch.equal, optimizer_tensors(first), optimizer_tensors(again)))


def test_paths_and_file_objects(tmp_path: Path) -> None:
    model = make()
    for path in (tmp_path / "new" / "agent", str(tmp_path / "text"), tmp_path / "with.suffix"):
        model.save(path)
        assert_same_parameters(model, PPO.load(path, device="cpu"))
    assert (tmp_path / "new" / "agent.zip").is_file() and (tmp_path / "with.suffix").is_file()
    with (tmp_path / "file").open("wb") as file:
        model.save(file)
    with (tmp_path / "file").open("rb") as file:
        assert_same_parameters(model, PPO.load(file, device="cpu"))


def test_saved_statistics_do_not_change_a_given_env() -> None:
    env = VecNormalize(make_env())
    model = make(env=env).learn(64)
    other = VecNormalize(make_env())
    before = other.obs_rms.mean.copy()
    again = PPO.load(saved(model), env=other, device="cpu")
    np.testing.assert_array_equal(other.obs_rms.mean, before)
    load_env_state(other, again.normalize_state)
    np.testing.assert_array_equal(other.obs_rms.mean, env.obs_rms.mean)
    np.testing.assert_array_equal(other.ret_rms.var, env.ret_rms.var)
    assert other.obs_rms.count == env.obs_rms.count


# What the caller changes or hands over


def test_overrides_replace_what_the_file_says() -> None:
    again = PPO.load(saved(make()), env=make_env(), device="cpu", n_steps=32, learning_rate=0.5, verbose=0)
    assert again.n_steps == 32 and again.learning_rate == 0.5
    again.learn(64)
    assert again.policy.optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(TypeError, match="n_steps"):
        PPO.load(saved(make()), device="cpu", n_step=32)


def test_custom_objects_replace_hyperparameters() -> None:
    again = PPO.load(
        saved(make(learning_rate=lambda _: 0.1)), device="cpu", custom_objects={"learning_rate": 0.25}
    )
    assert again.learning_rate == 0.25


class MyExtractor(BaseFeaturesExtractor):
    """A user's extractor; its class is known only to the caller."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 6) -> None:
        super().__init__(observation_space, features_dim)
        self.net = nn.Linear(observation_space.shape[0], features_dim)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations)


def test_a_class_of_the_user_must_be_handed_over() -> None:
    model = make(policy_kwargs={"features_extractor_class": MyExtractor, "net_arch": [8]})
    name = f"{__name__}.MyExtractor"
    with pytest.raises(CheckpointError, match=rf"{name}.*custom_objects"):
        PPO.load(saved(model), device="cpu")
    handed_over: list[dict[str, Any]] = [
        {"custom_objects": {name: MyExtractor}},
        {"custom_objects": {"features_extractor_class": MyExtractor}},
        {"custom_objects": {"policy_kwargs": model.policy_kwargs}},
        {"trusted_modules": (__name__,)},
        {"policy_kwargs": model.policy_kwargs},
    ]
    for how in handed_over:
        assert_same_parameters(model, PPO.load(saved(model), device="cpu", **how))


def test_a_policy_class_of_the_user() -> None:
    from rlzoo.policies.actor_critic_policies import ActorCriticPolicy

    mine = type("MyPolicy", (ActorCriticPolicy,), {"__module__": __name__})
    model = make(policy=mine)
    with pytest.raises(CheckpointError, match=rf"{__name__}\.MyPolicy"):
        PPO.load(saved(model), device="cpu")
    again = PPO.load(saved(model), device="cpu", custom_objects={f"{__name__}.MyPolicy": mine})
    assert type(again.policy) is mine
    assert_same_parameters(model, again)
    assert type(PPO.load(saved(model), device="cpu", custom_objects={"policy_class": mine}).policy) is mine


def test_a_lambda_schedule_is_needed_again_only_to_train() -> None:
    model = make(learning_rate=lambda progress: 0.5 * progress, clip_range=lambda _: 0.15).learn(32)
    again = PPO.load(saved(model), env=make_env(), device="cpu")
    obs = observations(model, 1)[0]
    assert again.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]
    with pytest.raises(UserError, match=r"lambda.*custom_objects=\{'learning_rate'"):
        again.learn(32)
    again = PPO.load(
        saved(again), env=make_env(), device="cpu", custom_objects={"learning_rate": 0.1, "clip_range": 0.2}
    )
    again.learn(32)


def test_exclude_and_include() -> None:
    model = make(gamma=0.5, n_steps=8, verbose=0)
    for kwargs, gamma in (
        ({"exclude": ["gamma"]}, 0.99),
        ({"exclude": ["gamma"], "include": ["gamma"]}, 0.5),
    ):
        again = PPO.load(saved(model, **kwargs), device="cpu")
        assert (again.gamma, again.n_steps) == (gamma, 8)


# Parameters


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_set_parameters_takes_what_get_parameters_gives(algorithm: type[Algorithm]) -> None:
    def fresh(seed: int) -> Algorithm:
        return make(algorithm, env_for(algorithm), seed=seed)

    source, model = fresh(1).learn(32), fresh(2)
    model.set_parameters(source.get_parameters())
    assert_same_parameters(source, model)
    flat, model = {name: value.numpy() for name, value in parameters(source).items()}, fresh(2)
    if isinstance(source, GAIL):
        named = source.discriminator.state_dict().items()
        flat |= {f"discriminator.{name}": value.numpy() for name, value in named}
    model.load_parameters(flat)
    assert_same_parameters(source, model)
    model = fresh(2)
    model.set_parameters(saved(source))
    assert_same_parameters(source, model)


def test_set_parameters_names_what_does_not_fit() -> None:
    model = make()
    before = parameters(model)
    good = model.get_parameters()
    name = next(iter(good["policy"]))
    other = make(policy_kwargs={"net_arch": [4]})
    with pytest.raises(UserError, match=r"\(8, 3\).*\(4, 3\)|\(4, 3\).*\(8, 3\)"):
        model.set_parameters(other.get_parameters())
    with pytest.raises(UserError, match="wieght"):
        model.set_parameters({**good, "policy": {**good["policy"], "wieght": torch.zeros(1)}})
    with pytest.raises(UserError, match="polcy"):
        model.set_parameters({"polcy": good["policy"]}, exact_match=False)
    with pytest.raises(UserError, match="missing"):
        model.set_parameters({"policy": {name: good["policy"][name]}})
    for key, value in before.items():
        assert torch.equal(value, model.policy.state_dict()[key]), (
            "nothing is set when something does not fit"
        )
    model.set_parameters({"policy": {name: torch.ones_like(good["policy"][name])}}, exact_match=False)
    assert (model.policy.state_dict()[name] == 1).all()


@pytest.mark.parametrize("value", [None, [[1, 2, 3]], {"policy.optimizer": 1}, {"$scalar": 1}])
def test_set_parameters_refuses_damaged_optimizers(value: Any) -> None:
    def damage(state: dict[str, Any]) -> None:
        state["optimizers"] = value

    with pytest.raises(CheckpointError, match="damaged"):
        make().set_parameters(changed(saved(make()), damage, "state.json"))


# Going on


def continued(model: Algorithm, env: VecEnv, steps: int) -> Algorithm:
    """Training of the same process, its environments reset with the seeds that a checkpoint records."""
    env.seed(model.restart_seed())
    model._last_obs = None
    return model.learn(steps, reset_num_timesteps=False)


@pytest.mark.parametrize("normalized", [False, True], ids=["plain", "normalized"])
@pytest.mark.parametrize("algorithm", [PPO, A2C, ACKTR, RecurrentPPO, TRPO, ARS])
def test_training_goes_on_to_the_bit(algorithm: type[Algorithm], normalized: bool, tmp_path: Path) -> None:
    def env(seed: int) -> VecEnv:
        plain = make_env(2, action="box")
        plain.seed(seed)
        return VecNormalize(plain) if normalized else plain

    first = env(1)
    model = make(algorithm, first, learning_rate="lin_1e-2", policy_kwargs={"net_arch": [8]})
    model.learn(64)
    model.save(tmp_path / "agent")
    continued(model, first, 96)

    torch.manual_seed(99), np.random.seed(99), random.seed(99)  # as in another process
    second = env(2)
    again = algorithm.load(tmp_path / "agent", env=second, device="cpu")
    load_env_state(second, again.normalize_state)
    again.learn(96, reset_num_timesteps=False)
    assert model.num_timesteps == again.num_timesteps
    assert_same_parameters(model, again)
    assert all(map(torch.equal, optimizer_tensors(model), optimizer_tensors(again)))
    if normalized:
        np.testing.assert_array_equal(first.obs_rms.mean, second.obs_rms.mean)
        np.testing.assert_array_equal(first.ret_rms.var, second.ret_rms.var)
    assert [dict(episode, t=0) for episode in model.ep_info_buffer] == [
        dict(episode, t=0) for episode in again.ep_info_buffer
    ]


def test_a_resumed_run_differs_from_a_repeated_one() -> None:
    """The generators go on; they do not start over from the seed."""
    model = make().learn(32)
    resumed = PPO.load(saved(model), env=make_env(), device="cpu").learn(32, reset_num_timesteps=False)
    repeated = make().learn(32)
    assert not all(map(torch.equal, parameters(resumed).values(), parameters(repeated).values()))


def test_loading_needs_an_environment_only_to_train() -> None:
    model = PPO.load(saved(make()), device="cpu")
    with pytest.raises(UserError, match="no environment"):
        model.learn(32)
    model.set_env(make_env(4))
    assert model.learn(64).num_timesteps == 64
    with pytest.raises(UserError, match="observation_space"):
        PPO.load(saved(make()), env=make_env(1, "discrete"), device="cpu")


# Faults


def test_a_full_disk_leaves_the_previous_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    model.save(tmp_path / "agent")
    before = parameters(model)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model.learn(32)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFailed, match=r"agent\.zip: the disk is full"):
        model.save(tmp_path / "agent")
    monkeypatch.undo()
    again = parameters(PPO.load(tmp_path / "agent", device="cpu"))
    assert all(torch.equal(value, again[name]) for name, value in before.items())
    assert os.listdir(tmp_path) == ["agent.zip"]


def test_an_agent_of_another_algorithm_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"PPO agent.*PPO\.load"):
        A2C.load(saved(make()))


def test_a_file_whose_network_does_not_fit_its_weights() -> None:
    def shrink(config: dict[str, Any]) -> None:
        config["arguments"]["policy_kwargs"]["net_arch"] = [4]

    with pytest.raises(CheckpointError, match=r"policy/mlp_extractor\.\S+ has shape \(4,.*\(8,"):
        PPO.load(changed(saved(make()), shrink), device="cpu")


@pytest.mark.parametrize(
    "name", ["os.system", "rlzoo.envs.single_env.monitor.ResultsWriter", "subprocess.Popen"]
)
def test_a_file_that_names_a_foreign_class(name: str) -> None:
    def inject(config: dict[str, Any]) -> None:
        config["arguments"]["policy_kwargs"]["activation_fn"] = {"$class": name}

    with pytest.raises(CheckpointError, match=name):
        PPO.load(changed(saved(make()), inject), device="cpu")


def _box(shape: list[int]) -> dict[str, Any]:
    return {"type": "Box", "dtype": "float32", "shape": shape, "low": -1, "high": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"net_arch": [20_000, 20_000]},
        {"net_arch": [4000, 4000]},
        {"net_arch": [1] * 10_000},
        {"net_arch": [10**30]},
        {"observation_space": {"type": "Discrete", "n": 10**8, "start": 0}},
        {"action_space": _box([2**22])},
        {"n_envs": 10**9},
    ],
    ids=["wide", "less wide", "deep", "overflow", "choices", "actions", "n_envs"],
)
@pytest.mark.parametrize("actor_only", [False, True])
def test_small_file_that_asks_for_much_is_refused(change: dict[str, Any], actor_only: bool) -> None:
    def ask(config: dict[str, Any]) -> None:
        part = config["arguments"]["policy_kwargs"] if "net_arch" in change else config
        part.update(change)

    file = io.BytesIO()
    make().save(file, actor_only=actor_only)
    began = time.process_time()
    with pytest.raises(CheckpointError, match=r"the networks (need|have) .*|n_envs is '1000000000'"):
        PPO.load(changed(file, ask), device="cpu")
    assert time.process_time() - began < 5


class WithThingsAside(BaseFeaturesExtractor):
    """Makes a network that is not among its own, and so not in a file."""

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, 3)
        self.aside = [nn.Linear(5000, 5000)]

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations[:, :3]


def test_networks_of_the_user_may_be_of_any_size() -> None:
    given = {"features_extractor_class": WithThingsAside}
    file = saved(PPO("MlpPolicy", env_for(PPO), policy_kwargs=given))
    PPO.load(file, device="cpu", custom_objects=given)


@pytest.mark.parametrize(
    ("member", "path", "value", "message"),
    [
        ("config.json", ("n_envs",), "x", "n_envs is 'x'"),
        ("config.json", ("arguments", "verbose"), None, "verbose is 'None'"),
        ("config.json", ("arguments", "tensorboard_log"), 5, "tensorboard_log is '5'"),
        ("state.json", ("state",), {"$scalar": ["float64", 1.0]}, "state.json .* is damaged"),
        ("state.json", ("state",), {"$tensor": "state/rng/torch"}, "state.json .* is damaged"),
        ("state.json", ("state", "clock", "num_timesteps"), -5, "num_timesteps is '-5'"),
        ("state.json", ("state", "env_seed"), -1, "env_seed is '-1'"),
        ("state.json", ("state", "callbacks"), [1], "state of the callbacks .* is damaged"),
        ("state.json", ("state", "callbacks", "values", "n_calls"), "x", "n_calls is 'x'"),
        ("state.json", ("state", "callbacks", "children", 0), {}, "state of the callbacks .* is damaged"),
        ("state.json", ("state", "rng", "python"), {"$tuple": [3, [-1], None]}, "random state .* is damaged"),
        ("state.json", (*ADAM, "exp_avg"), 1, "exp_avg of parameter 0 .* is '1'"),
        ("state.json", (*ADAM, "exp_avg"), {"$tensor": "optimizers/policy.optimizer/state/0/step"}, "shape"),
        ("state.json", ADAM, {}, ""),
        ("state.json", ADAM, {"step": 1}, "exp_avg of parameter 0 .* is missing"),
    ],
)
def test_value_of_another_kind_is_one_error(
    member: str, path: tuple[Any, ...], value: Any, message: str
) -> None:
    """The last but one is a state before the first step, and good."""

    def change(root: Any) -> None:
        for key in path[:-1]:
            root = root[key]
        root[path[-1]] = value

    callbacks = [StopTrainingOnMaxEpisodes(10**6)]
    model = make(PPO, env_for(PPO)).learn(16, callbacks)
    with pytest.raises(CheckpointError, match=message) if message else nullcontext():
        loaded = PPO.load(changed(saved(model), change, member), env_for(PPO), device="cpu")
        loaded.learn(16, callbacks, reset_num_timesteps=False)


@pytest.mark.parametrize("member", ["weights", "optimizers", "normalize"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_agent_that_is_no_number_is_refused(member: str, number: float) -> None:
    env = VecNormalize(env_for(PPO))
    checkpoint = read_checkpoint(saved(make(PPO, env).learn(16)))
    name = {"weights": "policy/action_net.weight", "normalize": "0.VecNormalize.obs_rms.mean"}.get(
        member, "optimizers/policy.optimizer/state/0/exp_avg"
    )
    getattr(checkpoint, member)[name].view(-1)[0] = number
    file = io.BytesIO()
    write_checkpoint(file, checkpoint)
    with pytest.raises(UserError, match=r"NaN or infinite|is \[.*(nan|inf)"):
        model = PPO.load(io.BytesIO(file.getvalue()), device="cpu")
        load_env_state(VecNormalize(env_for(PPO)), model.normalize_state)


def paths_of(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path] * bool(path) + [inner for key, child in children for inner in paths_of(child, (*path, key))]


DRIFTING = OrnsteinUhlenbeckActionNoise(np.zeros(2), np.full(2, 0.3))
WITH_STATE: list[tuple[type[Algorithm], dict[str, Any]]] = [
    (PPO, {}),
    (SAC, {"use_sde": True, "action_noise": DRIFTING}),
    (DQN, {"param_noise": True}),
    (DDPG, {"param_noise": AdaptiveParamNoiseSpec(), "normalize_observations": True}),
]


@pytest.mark.parametrize(("algorithm", "kwargs"), WITH_STATE)
@pytest.mark.parametrize("member", ["config.json", "state.json", "metadata.json"])
def test_corrupted_file_is_a_user_error_or_loads(
    algorithm: type[Algorithm], kwargs: dict[str, Any], member: str
) -> None:
    """Any value becomes one of another type, or goes: no other error escapes and nothing is executed."""
    file = io.BytesIO()

    def save_between_rounds(locals_: Any, _: Any) -> None:
        if locals_["self"].num_timesteps == 30:
            locals_["self"].save(file)

    make(algorithm, env_for(algorithm), **kwargs).learn(32, save_between_rounds)
    buffer = io.BytesIO(file.getvalue())
    with zipfile.ZipFile(buffer) as archive:
        tree = json.loads(archive.read(member))
    paths = paths_of(tree)
    rng = random.Random(0)
    modules = set(sys.modules)
    for path in rng.sample(paths, min(len(paths), 60)):
        value = rng.choice(
            [None, -1, 0.5, "x", [], {}, [1, 2], {"a": 1}, {"$tensor": "x"}, {"$class": "os.system"}]
        )

        def change(root: Any, path: tuple[Any, ...] = path, value: Any = value) -> None:
            for key in path[:-1]:
                root = root[key]
            if rng.random() < 0.2:
                del root[path[-1]]
            else:
                root[path[-1]] = value

        try:
            algorithm.load(changed(buffer, change, member), device="cpu")
        except UserError as error:
            assert "\n" not in str(error)
        except Exception as error:
            raise AssertionError(f"{'.'.join(map(str, path))} = {value!r} raises {error!r}") from error
    assert not {name for name in set(sys.modules) - modules if not name.startswith(("rlzoo", "torch"))}
