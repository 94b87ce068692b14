from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.examples.toy import SimpleMultiObsEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_env.vec_env import NO_ENDS, VecEnv, VecStep
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, sync_envs_normalization


class Script(VecEnv):
    """Gives the observations and rewards it is told; ends episodes where told."""

    def __init__(
        self, obs: Any, rewards: Any, ended: Any = (), space: spaces.Space[Any] | None = None
    ) -> None:
        self.obs, self.rewards, self.ended = np.asarray(obs), np.asarray(rewards, dtype=np.float32), ended
        box = spaces.Box(-np.inf, np.inf, self.obs.shape[2:], np.float64)
        super().__init__(self.obs.shape[1], space or box, spaces.Discrete(2))

    def reset(self) -> Any:
        self.now = 0
        return self.obs[0]

    def step_async(self, actions: Any) -> None:
        self.now += 1

    def wait_arrays(self) -> VecStep:
        done = np.zeros(self.num_envs, dtype=bool)
        ended = np.array(self.ended[self.now - 1], dtype=int) if self.ended else NO_ENDS
        done[ended] = True
        finals = self.obs[self.now][ended] + 1 if len(ended) else None
        rewards = self.rewards[self.now - 1]
        return VecStep(self.obs[self.now], rewards, done, ~done & done, ended, finals, [{}] * self.num_envs)


def random_script(n_steps: int = 40, n_envs: int = 3, ended: Any = ()) -> Script:
    rng = np.random.default_rng(0)
    return Script(rng.normal(5, 3, (n_steps + 1, n_envs, 2)), rng.normal(2, 1, (n_steps, n_envs)), ended)


NO_ACTIONS = np.zeros(3, dtype=int)


def test_statistics_are_of_the_raw_observations_resets_included() -> None:
    script = random_script()
    venv = VecNormalize(script)
    venv.reset()
    for _ in range(40):
        step = venv.step_arrays(NO_ACTIONS)
    seen = script.obs.reshape(-1, 2)
    np.testing.assert_allclose(venv.obs_rms.mean, seen.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(venv.obs_rms.var, seen.var(axis=0), rtol=1e-3)
    expected = (script.obs[40] - venv.obs_rms.mean) / np.sqrt(venv.obs_rms.var + 1e-8)
    np.testing.assert_allclose(step.obs, expected, rtol=1e-5)
    assert step.obs.dtype == step.rewards.dtype == np.float32
    np.testing.assert_array_equal(venv.get_original_obs(), script.obs[40])
    np.testing.assert_array_equal(venv.get_original_reward(), script.rewards[39])
    np.testing.assert_array_equal(venv.old_rews, venv.raw_reward)
    np.testing.assert_array_equal(venv.ret, venv.returns)


def test_rewards_are_scaled_by_discounted_return_std() -> None:
    script = Script(np.zeros((4, 1, 2)), [[1.0], [2.0], [4.0]], ended=[[], [0], []])
    venv = VecNormalize(script, gamma=0.5, norm_obs=False, clip_reward=100.0)
    venv.reset()
    returns = [1.0, 0.5 * 1 + 2, 4.0]  # the episode ends after the second
    rewards = [venv.step_arrays(NO_ACTIONS).rewards[0] for _ in range(3)]
    np.testing.assert_allclose(venv.ret_rms.var, np.var(returns), rtol=1e-3)
    assert rewards[2] == pytest.approx(4.0 / np.sqrt(np.var(returns)), rel=1e-3)
    assert venv.returns.tolist() == [4.0]
    venv.reset()
    assert venv.returns.tolist() == [0.0]


def test_last_observations_are_normalised_too() -> None:
    script = random_script(n_steps=2, ended=[[0, 2], []])
    venv = VecNormalize(script)
    venv.reset()
    step = venv.step_arrays(NO_ACTIONS)
    np.testing.assert_allclose(step.final_obs, venv.normalize_obs(script.obs[1][[0, 2]] + 1))
    venv = VecNormalize(script)
    venv.reset()
    infos = venv.step(NO_ACTIONS)[3]
    np.testing.assert_array_equal(infos[2]["terminal_observation"], step.final_obs[1])


def test_values_are_clipped() -> None:
    script = random_script()
    venv = VecNormalize(script, clip_obs=0.25, clip_reward=0.125)
    venv.reset()
    steps = [venv.step_arrays(NO_ACTIONS) for _ in range(20)]
    assert {float(np.abs(step.obs).max()) for step in steps} == {0.25}
    assert max(float(np.abs(step.rewards).max()) for step in steps) == 0.125


def test_without_training_nothing_is_learned() -> None:
    venv = VecNormalize(random_script(), training=False)
    before = venv.state_dict()
    venv.reset()
    for _ in range(5):
        venv.step_arrays(NO_ACTIONS)
    venv.normalize_obs(np.ones(2))
    np.testing.assert_equal(venv.state_dict(), before)


@pytest.mark.parametrize(("norm_obs", "norm_reward"), [(False, True), (True, False), (False, False)])
def test_what_is_not_normalised_passes_unchanged(norm_obs: bool, norm_reward: bool) -> None:
    script = random_script()
    venv = VecNormalize(script, norm_obs=norm_obs, norm_reward=norm_reward)
    venv.reset()
    step = venv.step_arrays(NO_ACTIONS)
    assert np.array_equal(step.obs, script.obs[1]) is not norm_obs
    assert np.array_equal(step.rewards, script.rewards[0]) is not norm_reward


def test_normalising_can_be_undone() -> None:
    venv = VecNormalize(random_script())
    venv.reset()
    for _ in range(10):
        venv.step_arrays(NO_ACTIONS)
    raw = np.array([4.0, 6.0])
    np.testing.assert_allclose(venv.unnormalize_obs(venv.normalize_obs(raw)), raw, rtol=1e-5)
    reward = np.array([0.5, -0.5])
    np.testing.assert_allclose(venv.unnormalize_reward(venv.normalize_reward(reward)), reward, rtol=1e-5)


def test_chosen_keys_of_dict_observations() -> None:
    make = [lambda: SimpleMultiObsEnv()] * 2
    venv = VecNormalize(DummyVecEnv(make), norm_obs_keys=["vec"])
    obs = venv.reset()
    raw = venv.get_original_obs()
    assert obs["vec"].dtype == np.float32
    np.testing.assert_array_equal(obs["img"], raw["img"])
    assert not np.array_equal(obs["vec"], raw["vec"])
    np.testing.assert_allclose(venv.unnormalize_obs(obs)["vec"], raw["vec"], atol=1e-5)
    assert set(venv.obs_rms) == {"vec"}
    both = VecNormalize(DummyVecEnv(make))
    assert set(both.obs_rms) == {"vec", "img"}
    assert both.observation_space["img"].dtype == np.float32  # a normalised image is none any more
    with pytest.raises(UserError, match="'vek'"):
        VecNormalize(DummyVecEnv(make), norm_obs_keys=["vek"])


def test_what_cannot_be_normalised_is_refused() -> None:
    discrete = DummyVecEnv([lambda: gym.make("FrozenLake-v1")])
    with pytest.raises(UserError, match="norm_obs=False"):
        VecNormalize(discrete)
    assert VecNormalize(discrete, norm_obs=False).reset().shape == (1,)
    with pytest.raises(UserError, match="norm_obs_keys is applicable only to Dict"):
        VecNormalize(NativeCartPole("CartPole-v1"), norm_obs_keys=["x"])


def test_return_statistics_are_gathered_with_raw_rewards() -> None:
    raw, scaled = (VecNormalize(random_script(), norm_reward=norm_reward) for norm_reward in (False, True))
    for venv in (raw, scaled):
        venv.reset()
        for _ in range(5):
            venv.step_arrays(NO_ACTIONS)
    assert raw.ret_rms.count > 1
    np.testing.assert_array_equal(raw.returns, scaled.returns)
    assert raw.ret_rms.var == scaled.ret_rms.var
    assert raw.normalize_reward(np.array([-5.0])).tolist() == [-5.0]
    assert raw.normalize_reward(np.array([-5.0])).dtype == np.float32


def test_values_of_a_step_stay_as_they_are() -> None:
    venv = VecNormalize(random_script(), norm_obs=False)
    obs = venv.reset()
    assert not np.shares_memory(obs, venv.raw_obs)  # type: ignore[arg-type]
    venv.step_arrays(NO_ACTIONS)
    assert not np.shares_memory(venv.old_obs, venv.raw_obs)  # type: ignore[arg-type]
    assert not np.shares_memory(venv.old_reward, venv.raw_reward)
    assert not np.shares_memory(venv.normalize_obs(obs), obs)  # type: ignore[arg-type]
    assert not np.shares_memory(venv.unnormalize_obs(obs), obs)  # type: ignore[arg-type]


def test_observations_switched_off_later_go_through_a_file(tmp_path: Path) -> None:
    venv = VecNormalize(random_script())
    venv.reset()
    venv.norm_obs = False
    venv.save(tmp_path / "statistics.npz")
    loaded = VecNormalize.load(tmp_path / "statistics.npz", random_script())
    assert not loaded.norm_obs
    np.testing.assert_array_equal(loaded.obs_rms.mean, venv.obs_rms.mean)  # type: ignore[union-attr]
    keys = VecNormalize(random_script(), norm_obs=False, norm_obs_keys=["x"])
    assert keys.norm_obs_keys == ["x"]


@pytest.mark.parametrize("evaluated", [False, True])
def test_statistics_of_returns_are_synchronised_alone(evaluated: bool) -> None:
    trained = VecNormalize(random_script(), norm_obs=not evaluated)
    trained.reset()
    trained.step_arrays(NO_ACTIONS)
    other = VecNormalize(random_script(), norm_obs=evaluated, training=False)
    sync_envs_normalization(trained, other)
    assert other.ret_rms.count == trained.ret_rms.count
    assert (other.obs_rms is not None) == evaluated


def test_statistics_are_found_under_the_name_of_a_pickle(tmp_path: Path) -> None:
    venv = VecNormalize(random_script(), clip_obs=3.0)
    venv.save(tmp_path / "vecnormalize.npz")
    assert VecNormalize.load(tmp_path / "vecnormalize.pkl", random_script()).clip_obs == 3.0
    with pytest.raises(UserError, match=r"vecnormalize\.zip"):
        VecNormalize.load(str(tmp_path / "vecnormalize.zip"), random_script())


@pytest.mark.parametrize("name", ["statistics.npz", "vec_normalize.pkl", "no_suffix"])
def test_save_and_load_restore_settings_and_statistics(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {"gamma": 0.9, "clip_obs": 3.0, "clip_reward": 2.0, "epsilon": 1e-4}
    venv = VecNormalize(random_script(), training=False, norm_reward=True, **settings)
    venv.training = True
    venv.reset()
    venv.step_arrays(NO_ACTIONS)
    venv.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    loaded = VecNormalize.load(str(tmp_path / name), random_script())
    for field, value in {**settings, "training": True, "norm_obs": True, "norm_reward": True}.items():
        assert getattr(loaded, field) == value
        assert type(getattr(loaded, field)) is type(value)
    np.testing.assert_equal(loaded.state_dict(), venv.state_dict())
    again = VecNormalize.load(tmp_path / name, venv=random_script())
    np.testing.assert_array_equal(again.normalize_obs(np.ones(2)), venv.normalize_obs(np.ones(2)))


def test_dict_statistics_go_through_a_file_object() -> None:
    venv = VecNormalize(DummyVecEnv([lambda: SimpleMultiObsEnv()]), norm_obs_keys=["vec"])
    venv.reset()
    file = io.BytesIO()
    venv.save(file)
    file.seek(0)
    loaded = VecNormalize.load(file, DummyVecEnv([lambda: SimpleMultiObsEnv()]))
    assert loaded.norm_obs_keys == ["vec"]
    np.testing.assert_array_equal(loaded.obs_rms["vec"].mean, venv.obs_rms["vec"].mean)


def test_files_that_are_not_ours_give_one_line(tmp_path: Path) -> None:
    foreign = tmp_path / "vec_normalize.pkl"
    foreign.write_bytes(pickle.dumps({"an": "older file"}))
    truncated = tmp_path / "truncated.npz"
    VecNormalize(random_script()).save(truncated)
    truncated.write_bytes(truncated.read_bytes()[:200])
    for path in (foreign, truncated, tmp_path / "missing.npz"):
        with pytest.raises(UserError, match=path.name) as error:
            VecNormalize.load(path, random_script())
        assert "\n" not in str(error.value)
    for change in (
        {"clip_obs": "x"},
        {"gamma": [1.0, 2.0]},
        {"norm_obs": "x"},
        {"norm_obs_keys": 5},
        {"epsilon": np.nan},
        {"obs_rms.mean": np.full(2, np.nan)},
        {"obs_rms.var": np.full(2, -1.0)},
        {"ret_rms.count": np.inf},
        {"ret_rms.mean": "x"},
    ):
        VecNormalize(random_script()).save(tmp_path / "good.npz")
        np.savez(tmp_path / "odd.npz", **{**np.load(tmp_path / "good.npz"), **change})
        with pytest.raises(UserError, match=min(change)):
            VecNormalize.load(tmp_path / "odd.npz", random_script())
    other = tmp_path / "other.npz"
    VecNormalize(NativeCartPole("CartPole-v1")).save(other)
    with pytest.raises(UserError, match=r"obs_rms.mean has shape \(4,\), the environment needs \(2,\)"):
        VecNormalize.load(other, random_script())


def test_an_unpickled_instance_gets_its_environment_back() -> None:
    venv = VecNormalize(random_script(), gamma=0.5)
    venv.reset()
    copy = pickle.loads(pickle.dumps(venv))
    copy.set_venv(random_script())
    assert copy.gamma == 0.5
    np.testing.assert_equal(copy.state_dict(), venv.state_dict())
    assert copy.reset().shape == (3, 2)
    with pytest.raises(UserError, match="has an environment"):
        copy.set_venv(random_script())


@pytest.mark.parametrize("what", ["reward", "observation", "final observation"])
def test_an_infinity_is_an_error_and_not_clipped(what: str) -> None:
    class Infinite(gym.Env):  # type: ignore[type-arg]
        observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, **kwargs: Any) -> Any:
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            obs = np.array([0, np.inf if what != "reward" else 0], np.float32)
            return obs, np.inf if what == "reward" else 1.0, False, what == "final observation", {}

    venv = VecNormalize(DummyVecEnv([Infinite]))
    venv.reset()
    with pytest.raises(EnvironmentFailed, match=rf"0 returned inf in its {what.split()[-1]} at step 1"):
        venv.step(np.zeros(1, np.int64))


@pytest.mark.parametrize("name", ["normalize_obs", "_normalize_obs"])
def test_own_normalisation_is_called_in_every_step(name: str) -> None:
    def nine(self: Any, obs: Any, *statistics: Any) -> Any:
        return np.full_like(obs, 9.0, dtype=np.float32)

    venv = type("Own", (VecNormalize,), {name: nine})(random_script(n_steps=2, ended=[[0, 2], []]))
    assert (venv.reset() == 9).all()
    step = venv.step_arrays(NO_ACTIONS)
    assert (step.obs == 9).all() and (step.final_obs == 9).all()
