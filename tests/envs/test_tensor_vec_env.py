"""Environments on tensors: the dynamics of Gymnasium, resets, statistics and both step APIs."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.tensor.tensor_cartpole import TensorCartPole
from rlzoo.envs.tensor.tensor_episodes import READ_INTERVAL
from rlzoo.envs.tensor.tensor_pendulum import TensorPendulum
from rlzoo.envs.tensor.tensor_vec_env import TensorVecEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecStep


class ForeignArray:
    """An array of another library, with nothing but DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: object) -> object:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def cartpole_states(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform((-2.4, -3, -0.2, -3), (2.4, 3, 0.2, 3), (n, 4))


def pendulum_states(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform((-7, -8), (7, 8), (n, 2))


CASES = [(TensorCartPole, "CartPole-v1", cartpole_states), (TensorPendulum, "Pendulum-v1", pendulum_states)]


@pytest.mark.parametrize(("kind", "env_id", "states_of"), CASES)
def test_one_step_equals_gymnasium(kind: type, env_id: str, states_of) -> None:
    rng, env = np.random.default_rng(0), gym.make(env_id)
    states = states_of(rng, 300)
    env.reset(seed=0)
    actions = np.array([env.action_space.sample() for _ in states])
    venv = kind(len(states), device="cpu")
    after, rewards, terminal = venv.transition(torch.tensor(states).float(), torch.tensor(actions))
    obs = venv.observe(after)
    for i, state in enumerate(states):
        env.unwrapped.state = state
        env.unwrapped.steps_beyond_terminated = None
        expected, reward, terminated, _, _ = env.unwrapped.step(actions[i])
        assert obs[i].numpy() == pytest.approx(expected, abs=1e-5)
        assert rewards[i].item() == pytest.approx(reward, abs=1e-5)
        near = abs(abs(expected[0]) - 2.4) < 1e-5 or abs(abs(expected[2]) - 0.2094395) < 1e-5
        assert near or bool(terminal[i]) == terminated


@pytest.mark.parametrize(("kind", "env_id", "states_of"), CASES)
def test_trajectories_stay_with_gymnasium(kind: type, env_id: str, states_of) -> None:
    venv, env = kind(1, device="cpu"), gym.make(env_id)
    env.reset(seed=1)
    venv.reset_tensors()
    venv.states = torch.tensor(np.array([env.unwrapped.state])).float()
    env.action_space.seed(0)
    for _ in range(15):
        action = env.action_space.sample()
        expected = env.step(action)[0]
        step = venv.step_tensors(torch.as_tensor(np.array([action])))
        assert step.next_obs[0].numpy() == pytest.approx(expected, abs=1e-4)


def test_ids_make_tensor_environments() -> None:
    for env_id, kind in (("TensorCartPole-v1", TensorCartPole), ("TensorPendulum-v1", TensorPendulum)):
        venv = make_vec_env(env_id, n_envs=3, seed=0)
        assert type(venv) is kind and venv.on_device and venv.num_envs == 3
        assert venv.max_episode_steps == gym.spec(env_id).max_episode_steps
        assert venv.get_attr("spec")[0].id == env_id
        assert type(make_vec_env(env_id, backend="dummy")) is DummyVecEnv


def test_arrays_and_tensors_take_the_same_steps() -> None:
    by_array, by_tensor = (make_vec_env("TensorCartPole-v1", n_envs=5, seed=3) for _ in range(2))
    obs = by_array.reset()
    assert isinstance(obs, np.ndarray) and np.array_equal(obs, by_tensor.reset_tensors().numpy())
    for t in range(60):
        actions = np.full(5, t % 5 > 0)
        arrays, tensors = (
            by_array.step_arrays(actions.astype(int)),
            by_tensor.step_arrays(torch.tensor(actions).long()),
        )
        assert isinstance(arrays, VecStep) and isinstance(tensors.rewards, torch.Tensor)
        assert np.array_equal(arrays.obs, tensors.obs.numpy())
        assert np.array_equal(arrays.terminated, tensors.terminated.numpy())
        if len(arrays.ended):
            assert np.array_equal(arrays.final_obs, tensors.next_obs.numpy()[arrays.ended])
            assert not np.array_equal(arrays.final_obs, arrays.obs[arrays.ended])
            assert all(arrays.infos[i]["episode"]["l"] > 1 for i in arrays.ended)


def test_time_limit_truncates_and_starts_again() -> None:
    venv = TensorPendulum(2, max_episode_steps=3, device="cpu")
    venv.reset()
    steps = [venv.step(np.zeros((2, 1), np.float32)) for _ in range(6)]
    assert [dones.all() for _, _, dones, _ in steps] == [False, False, True] * 2
    info = steps[2][3][1]
    total = sum(rewards[1] for _, rewards, _, _ in steps[:3])
    assert info["TimeLimit.truncated"] and info["episode"]["l"] == 3
    assert info["episode"]["r"] == pytest.approx(total, abs=1e-4)


def test_episodes_are_read_once_in_many_steps() -> None:
    venv = TensorPendulum(3, max_episode_steps=10, device="cpu")
    venv.reset_tensors()
    read = [venv.step_tensors(torch.zeros(3, 1)).infos for _ in range(READ_INTERVAL)]
    assert not any(read[:-1])
    assert len(read[-1]) == 3 * (READ_INTERVAL // 10)
    assert all(info["episode"]["l"] == 10 for info in read[-1])


def test_actions_of_other_libraries_come_by_dlpack() -> None:
    one, other = (TensorCartPole(4, device="cpu") for _ in range(2))
    for venv in (one, other):
        venv.seed(0)
        venv.reset_tensors()
    actions = torch.tensor([0, 1, 1, 0])
    assert torch.equal(one.step_arrays(ForeignArray(actions)).obs, other.step_arrays(actions).obs)


class CountingEnv(TensorVecEnv):
    """Environments whose state is the number of steps, computed by another library."""

    def __init__(self, num_envs: int) -> None:
        box = gym.spaces.Box(0, np.inf, (1,))
        super().__init__(num_envs, box, gym.spaces.Discrete(2), max_episode_steps=5, device="cpu")

    def initial_states(self, n: int) -> ForeignArray:
        return ForeignArray(torch.zeros(n, 1))

    def transition(self, states, actions):
        return ForeignArray(states + 1), ForeignArray(actions.double()), torch.zeros(len(states))

    def observe(self, states: torch.Tensor) -> ForeignArray:
        return ForeignArray(states)


def test_environments_of_users_may_return_dlpack_arrays() -> None:
    venv = CountingEnv(2)
    venv.reset()
    seen = [venv.step_tensors(torch.ones(2).long()) for _ in range(6)]
    assert [step.obs[0].item() for step in seen] == [1, 2, 3, 4, 0, 1]
    assert seen[4].truncated.all() and seen[4].next_obs[0] == 5 and seen[0].rewards.dtype == torch.float32


def test_seed_decides_the_episodes() -> None:
    first = [make_vec_env("TensorPendulum-v1", 4, seed=seed).reset() for seed in (0, 0, 1)]
    assert np.array_equal(first[0], first[1]) and not np.array_equal(first[0], first[2])


def test_restored_episodes_continue_equally() -> None:
    venv, other = (make_vec_env("TensorCartPole-v1", 6, seed=seed) for seed in (0, 1))
    venv.reset(), other.reset()
    actions = np.ones(6, int)
    for _ in range(7):
        venv.step(actions)
    assert other.load_episode_state(venv.episode_state())
    for _ in range(20):
        one, two = venv.step(actions), other.step(actions)
        assert np.array_equal(one[0], two[0]) and np.array_equal(one[2], two[2])
        assert [i.get("episode", {}).get("l") for i in one[3]] == [
            i.get("episode", {}).get("l") for i in two[3]
        ]
    assert not make_vec_env("TensorPendulum-v1", 6).load_episode_state(venv.episode_state())


def test_monitor_files_hold_the_episodes(tmp_path: Path) -> None:
    venv = make_vec_env("TensorCartPole-v1", n_envs=2, seed=0, monitor_dir=tmp_path)
    venv.reset_tensors()
    for _ in range(30):
        venv.step_arrays(torch.ones(2).long())
    venv.close()
    rows = (tmp_path / "1.monitor.csv").read_text().splitlines()
    assert rows[1] == "r,l,t" and len(rows) > 3


def test_images_show_the_states() -> None:
    venv = make_vec_env("TensorCartPole-v1", n_envs=2, seed=0)
    venv.reset()
    images = venv.get_images()
    assert images[0].shape == (400, 600, 3) and not np.array_equal(*images)


def test_nan_is_reported_at_the_next_reading() -> None:
    venv = TensorPendulum(2, device="cpu")
    venv.reset_tensors()
    venv.states = torch.full((2, 2), torch.nan)
    with pytest.raises(EnvironmentFailed, match=f"in steps 1 to {READ_INTERVAL}"):
        for _ in range(READ_INTERVAL):
            venv.step_tensors(torch.zeros(2, 1))


def test_mistakes_are_user_errors() -> None:
    venv = TensorCartPole(2, device="cpu")
    with pytest.raises(UserError, match="reset"):
        venv.step_tensors(torch.zeros(2).long())
    venv.reset_tensors()
    with pytest.raises(UserError, match="shape"):
        venv.step_tensors(torch.zeros(3).long())
    venv.set_options({"low": 0})
    with pytest.raises(UserError, match="options"):
        venv.reset()
