"""Several seeds of one training in one process."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv
from safetensors.numpy import load

from rlzoo.accel import threads
from rlzoo.accel.matmul_precision import onednn_is_float32
from rlzoo.benchmark.parallel.seed_runs import groups_of, text_of
from rlzoo.benchmark.parallel.stacked_seeds import stack_problem, train_stack
from rlzoo.cli.main import main
from rlzoo.cluster.tasks import TaskContext
from rlzoo.config.run import RunConfig
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train
from rlzoo.runs.run_folder import model_path
from rlzoo.stacked.off_policy import OffPolicyStack

PPO = {"n_steps": 8, "batch_size": 8, "n_epochs": 16, "n_envs": 2, "policy_kwargs": {"net_arch": [16]}}

NARROW = {"learning_starts": 64, "batch_size": 16, "buffer_size": 2000, "policy_kwargs": {"net_arch": [16]}}


def run_of(folder: Path, algo: str = "ppo", env_id: str = "CartPole-v1", **changes: object) -> RunConfig:
    values = {"n_timesteps": 128, "seed": 0, "hyperparams": PPO, "eval_freq": 64, "verbose": 0}
    return RunConfig(
        **{"algo": algo, "env_id": env_id, "log_folder": str(folder), "num_threads": 1, **values, **changes}  # type: ignore[arg-type]
    )


def stacked(runs: Sequence[RunConfig]) -> dict[str, Any]:
    """Train runs in this process, as a worker does."""
    payload = {"runs": [text_of(run) for run in runs], "command": "rlzoo train"}
    return train_stack(TaskContext(payload, runs[0].log_folder, {}, lambda message, wait: {}))


def tensors_of(folder: Path, env_id: str) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(model_path(folder, env_id)) as archive:
        for name in archive.namelist():
            if name.endswith(".safetensors"):
                found |= {name + key: value for key, value in load(archive.read(name)).items()}
    return found


def assert_equal_runs(one: Path, other: Path, env_id: str) -> None:
    """The final agents, their optimisers and random generators, and all episodes."""
    a, b = tensors_of(one, env_id), tensors_of(other, env_id)
    assert a.keys() == b.keys()
    for name, values in a.items():
        np.testing.assert_allclose(values, b[name], rtol=1e-7, atol=1e-5, err_msg=name)
    episodes = [
        [line.split(",")[:2] for line in (folder / "0.monitor.csv").read_text().splitlines()[2:]]
        for folder in (one, other)
    ]
    np.testing.assert_allclose(*(np.array(rows, float) for rows in episodes), rtol=1e-6)
    results = [np.load(folder / "evaluations.npz")["results"] for folder in (one, other)]
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize(
    ("algo", "env_id", "n_timesteps", "hyperparams"),
    [
        ("ppo", "CartPole-v1", 512, PPO),  # 1,024 gradient steps
        ("ppo", "CartPole-v1", 128, {**PPO, "target_kl": 0.002, "clip_range_vf": 0.2}),
        ("ppo", "Pendulum-v1", 128, {**PPO, "normalize": True, "use_sde": False}),
        ("a2c", "CartPole-v1", 400, {"n_envs": 2, "n_steps": 4, "ent_coef": 0.01}),
        (
            "dqn",
            "CartPole-v1",
            564,
            {**NARROW, "train_freq": 4, "gradient_steps": 8, "exploration_fraction": 0.5},
        ),
        ("dqn", "Acrobot-v1", 200, {**NARROW, "train_freq": 1, "double_q": True, "n_steps": 3, "tau": 0.1}),
        ("sac", "Pendulum-v1", 1064, NARROW),  # 1,000 gradient steps
        ("sac", "Pendulum-v1", 200, {**NARROW, "ent_coef": 0.1, "policy_delay": 2, "normalize": True}),
        ("td3", "Pendulum-v1", 1064, {**NARROW, "noise_type": "normal", "noise_std": 0.1}),
        ("tqc", "Pendulum-v1", 264, {**NARROW, "target_update_interval": 3, "n_envs": 2}),
    ],
)
def test_seeds_are_trained_as_alone(
    algo: str, env_id: str, n_timesteps: int, hyperparams: dict[str, object], tmp_path: Path
) -> None:
    folder = str(tmp_path / "all")
    run = run_of(tmp_path, algo, env_id, n_timesteps=n_timesteps, hyperparams=hyperparams)
    run = replace(run, log_folder=folder, eval_freq=n_timesteps // 2, eval_episodes=1)
    outcome = stacked([replace(run, seed=seed) for seed in (3, 4)])
    assert [set(end) for end in outcome["runs"]] == [{"result"}] * 2
    assert outcome["together"] > 2 * outcome["alone"]
    single = train(replace(run, seed=4, log_folder=str(tmp_path / "one")))
    assert_equal_runs(single.folder, Path(folder) / outcome["runs"][1]["result"]["folder"], env_id)


def test_products_of_wide_networks_are_by_the_same_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which other trainings must not change while they take turns."""
    monkeypatch.setattr(threads, "onednn_is_faster", lambda: True)
    learning: set[str] = set()
    stepping: set[str] = set()
    monkeypatch.setattr(OffPolicyStack, "steps", noting(OffPolicyStack.steps, learning))
    monkeypatch.setattr(PendulumEnv, "step", noting(PendulumEnv.step, stepping))
    wide = {**NARROW, "batch_size": 128, "policy_kwargs": {"net_arch": [256, 256]}}
    run = run_of(tmp_path, "sac", "Pendulum-v1", n_timesteps=80, hyperparams=wide, device="cpu")
    run = replace(run, log_folder=str(tmp_path / "all"), eval_freq=40, eval_episodes=1)
    outcome = stacked([replace(run, seed=seed) for seed in (3, 4)])
    single = train(replace(run, seed=4, log_folder=str(tmp_path / "one")))
    assert learning == {"medium"} and stepping == {"highest"}
    assert torch.get_float32_matmul_precision() == "highest"
    if onednn_is_float32():
        other = tmp_path / "all" / outcome["runs"][1]["result"]["folder"]
        assert_equal_runs(single.folder, other, "Pendulum-v1")


def noting(function: Callable[..., Any], precisions: set[str]) -> Any:
    """Return a function that notes PyTorch's precision for products, by which it chooses the library."""

    def noted(*args: Any) -> Any:
        precisions.add(torch.get_float32_matmul_precision())
        return function(*args)

    return noted


def test_environment_that_fails_ends_one_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlzoo.core.errors import RunFailed
    from rlzoo.envs.vec_env.native import NativeCartPole

    step = NativeCartPole.step_arrays

    def fail(self: NativeCartPole, actions: np.ndarray) -> Any:
        if self.broken_at == 0:
            raise RunFailed("the simulator crashed")
        self.broken_at -= 1
        return step(self, actions)

    made: list[NativeCartPole] = []
    init = NativeCartPole.__init__

    def make(self: NativeCartPole, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        made.append(self)
        self.broken_at = 20 if len(made) == 2 else -1

    monkeypatch.setattr(NativeCartPole, "__init__", make)
    monkeypatch.setattr(NativeCartPole, "step_arrays", fail)
    run = run_of(tmp_path, n_timesteps=64, eval_freq=0)
    ends = stacked([replace(run, seed=seed) for seed in range(3)])["runs"]
    assert [set(end) for end in ends] == [{"result"}, {"error"}, {"result"}]
    assert ends[1]["error"].startswith("the simulator crashed; the agent is saved in ")
    assert [end["result"]["n_steps"] for end in (ends[0], ends[2])] == [64, 64]


def test_stopped_seeds_are_saved_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from rlzoo.stacked.on_policy import OnPolicyStack

    n_calls = 0
    steps = OnPolicyStack.ppo_steps

    def interrupt(self: OnPolicyStack, requests: Sequence[object]) -> Sequence[object]:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 50:
            os.kill(os.getpid(), signal.SIGTERM)
        return steps(self, requests)

    monkeypatch.setattr(OnPolicyStack, "ppo_steps", interrupt)
    run = run_of(tmp_path, n_timesteps=400, eval_freq=0)
    ends = stacked([replace(run, seed=seed) for seed in range(2)])["runs"]
    assert all(end["result"]["interrupted"] for end in ends)
    assert 0 < ends[0]["result"]["n_steps"] < 400
    resumed = resume(str(tmp_path / ends[1]["result"]["folder"]))
    assert resumed.num_timesteps >= 400 and not resumed.interrupted


def test_seed_that_ends_early_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    run = run_of(tmp_path, "dqn", n_timesteps=120, hyperparams={**NARROW, "train_freq": 4}, eval_freq=0)
    runs = [replace(run, seed=0), replace(run, seed=1, n_timesteps=80), replace(run, seed=2)]
    ends = stacked(runs)["runs"]
    assert [end["result"]["n_steps"] for end in ends] == [120, 80, 120]
    for seed, end in zip((0, 2), (ends[0], ends[2]), strict=True):
        single = train(replace(run, seed=seed, log_folder=str(tmp_path / "one")))
        a, b = (
            tensors_of(single.folder, run.env_id),
            tensors_of(tmp_path / end["result"]["folder"], run.env_id),
        )
        for name, values in a.items():
            np.testing.assert_allclose(values, b[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("algo", "hyperparams"), [("ppo", PPO), ("a2c", {"n_envs": 2, "n_steps": 8})])
def test_seeds_at_different_points_of_their_training(
    algo: str, hyperparams: dict[str, object], tmp_path: Path
) -> None:
    """One acts while the other takes a gradient step, as after they were interrupted and resumed."""
    run = run_of(tmp_path, algo, n_timesteps=128, hyperparams=hyperparams, eval_freq=0)
    runs = [run, replace(run, seed=1, hyperparams={**hyperparams, "n_steps": 16})]
    ends = stacked(runs)["runs"]
    for one, end in zip(runs, ends, strict=True):
        single = train(replace(one, log_folder=str(tmp_path / "one")))
        a, b = (
            tensors_of(single.folder, run.env_id),
            tensors_of(tmp_path / end["result"]["folder"], run.env_id),
        )
        for name, values in a.items():
            np.testing.assert_allclose(values, b[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("algo", "hyperparams"),
    [
        ("ppo", {**PPO, "target_kl": 0.002}),
        ("dqn", {**NARROW, "train_freq": (1, "episode"), "gradient_steps": 4}),
    ],
)
def test_seeds_that_get_out_of_step(algo: str, hyperparams: dict[str, object], tmp_path: Path) -> None:
    run = run_of(tmp_path / "all", algo, n_timesteps=300, hyperparams=hyperparams, eval_freq=0)
    runs = [replace(run, seed=seed) for seed in range(3)]
    for one, end in zip(runs, stacked(runs)["runs"], strict=True):
        single = train(replace(one, log_folder=str(tmp_path / "one")))
        a = tensors_of(single.folder, run.env_id)
        b = tensors_of(tmp_path / "all" / end["result"]["folder"], run.env_id)
        for name, values in a.items():
            np.testing.assert_allclose(values, b[name], rtol=0, atol=1e-5, err_msg=name)


def test_signal_ends_seeds_that_do_not_learn_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from rlzoo.algorithms.off_policy.dqn import DQN

    random_actions, n_calls = DQN.random_actions, 0

    def interrupt(self: DQN) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 100:
            os.kill(os.getpid(), signal.SIGTERM)
        return random_actions(self)

    monkeypatch.setattr(DQN, "random_actions", interrupt)
    warm_up = {**NARROW, "learning_starts": 10**6}
    run = run_of(tmp_path, "dqn", n_timesteps=200_000, hyperparams=warm_up, eval_freq=0)
    ends = stacked([run, replace(run, seed=1)])["runs"]
    assert all(end["result"]["interrupted"] for end in ends) and n_calls < 100_000


def test_finished_seeds_are_not_repeated(tmp_path: Path) -> None:
    run = run_of(tmp_path, n_timesteps=64, eval_freq=0)
    train(run)
    ends = stacked([run, replace(run, seed=1)])["runs"]
    assert [end["result"]["folder"] for end in ends] == ["ppo/CartPole-v1_1", "ppo/CartPole-v1_2"]


@pytest.mark.parametrize(
    ("algo", "env_id", "hyperparams", "problem"),
    [
        ("ars", "CartPole-v1", {}, "ARS is none of PPO, A2C, DQN, SAC, TD3, TQC"),
        ("dqn", "CartPole-v1", {"prioritized_replay": True}, "replay buffer"),
        ("dqn", "CartPole-v1", {"param_noise": True}, "noise on its parameters"),
        ("dqn", "CartPole-v1", {"policy_kwargs": {"dueling": True}}, "dueling"),
        ("sac", "Pendulum-v1", {"n_target_critics": 1}, "target critics"),
        ("sac", "Pendulum-v1", {"policy_kwargs": {"layer_norm": True}}, "linear, tanh and ReLU"),
        ("tqc", "Pendulum-v1", {"use_sde": True}, "gSDE"),
        ("ppo", "Pendulum-v1", {"use_sde": True}, "gSDE"),
        ("ppo", "CartPole-v1", {"policy_kwargs": {"activation_fn": "nn.ELU"}}, "linear, tanh and ReLU"),
    ],
)
def test_what_cannot_be_stacked(
    algo: str, env_id: str, hyperparams: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    if hyperparams.get("policy_kwargs", {}).get("activation_fn"):
        import torch

        hyperparams = {"policy_kwargs": {"activation_fn": torch.nn.ELU}}
    found = stack_problem(run_of(tmp_path, algo, env_id, hyperparams=hyperparams))
    assert found is not None and problem in found


def test_wide_networks_are_stacked_on_request_only(tmp_path: Path) -> None:
    wide = {"batch_size": 256, "policy_kwargs": {"net_arch": [256, 256]}}
    run = run_of(tmp_path, hyperparams=wide)
    assert stack_problem(run) is None
    assert "wide" in str(stack_problem(run, only_if_faster=True))
    assert stack_problem(run_of(tmp_path), only_if_faster=True) is None


def test_stacking_that_is_asked_for_and_impossible(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--algo", "ars", "--env", "CartPole-v1", "-n", "100", "--seeds", "0-1", "--stack-seeds", "on"]
    assert main(["train", *flags]) == 2
    assert "cannot be stacked: ARS is none of PPO, A2C" in capsys.readouterr().err


def test_groups_hold_one_environment() -> None:
    runs = [run_of(Path(), env_id=env, seed=seed) for env in ("a", "b") for seed in range(3)]
    groups = [(first, [(run.env_id, run.seed) for run in group]) for first, group in groups_of(runs, 2)]
    assert groups == [
        (0, [("a", 0), ("a", 1)]),
        (2, [("a", 2)]),
        (3, [("b", 0), ("b", 1)]),
        (5, [("b", 2)]),
    ]
