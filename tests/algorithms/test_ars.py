"""The step of ARS, its candidates, and the workers that play them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from candidate_envs import Deadly, Walk, env_of
from gymnasium import spaces

from rlzoo import (
    ARS,
    AsyncEval,
    BaseCallback,
    EnvironmentFailed,
    UserError,
    VecEnvWrapper,
    VecNormalize,
    make_vec_env,
)
from rlzoo.algorithms.ars import ars_step
from rlzoo.core.schedules import Counters
from rlzoo.training.candidates import Outcome, play_here


def agent(n_envs: int = 1, normalized: bool = False, policy: str = "LinearPolicy", **kwargs: Any) -> ARS:
    return ARS(policy, env_of(n_envs, normalized), seed=3, device="cpu", **{"n_delta": 4, **kwargs})


def weights(model: ARS) -> np.ndarray:
    return model.flat.vector.detach().numpy().copy()


def test_the_step_is_that_of_the_paper() -> None:
    """Of four directions the second and the fourth have the best single returns."""
    deltas = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    returns = torch.tensor([[0.0, 7.0, 2.0, 1.0], [3.0, 4.0, 1.0, 9.0]], dtype=torch.float64)
    direction, deviation = ars_step(deltas, returns, 2)
    assert direction.tolist() == [-8 * 2.0, 3 * 1.0 + 8 * 1.0]
    assert float(deviation) == pytest.approx(np.std([7, 4, 1, 9], ddof=1))
    direction, deviation = ars_step(deltas, returns, 4)
    np.testing.assert_allclose(direction, (deltas.numpy() * [[-3.0], [3.0], [1.0], [-8.0]]).sum(0))
    assert float(deviation) == pytest.approx(returns.std())


def test_an_update_moves_the_policy_by_its_definition() -> None:
    model = agent(n_top=3, learning_rate=0.5, delta_std=0.1, alive_bonus_offset=-2.0, zero_policy=False)
    start = weights(model)
    candidates = model.propose(Counters())
    assert candidates.shape == (model.pop_size, model.n_params) == (8, 3)
    deltas = model.deltas.numpy()
    np.testing.assert_allclose(
        candidates, np.concatenate([start + 0.1 * deltas, start - 0.1 * deltas]), rtol=1e-5
    )
    rng = np.random.default_rng(0)
    outcomes = [Outcome(rng.normal(size=n).astype(np.float32)) for n in (3, 1, 4, 1, 5, 9, 2, 6)]
    returns = np.array([o.rewards.sum(dtype=np.float64) - 2.0 * len(o.rewards) for o in outcomes]).reshape(
        2, 4
    )
    best = np.argsort(-returns.max(axis=0))[:3]
    gains = (returns[0] - returns[1])[best] @ deltas[best]
    model.update(outcomes, Counters())
    expected = start + 0.5 / (3 * returns[:, best].std(ddof=1) + 1e-6) * gains
    np.testing.assert_allclose(weights(model), expected, rtol=1e-4)


def test_equal_returns_are_no_step() -> None:
    model = agent(learning_rate=100.0)
    model.propose(Counters())
    model.update([Outcome(np.ones(2, np.float32))] * 8, Counters())
    assert not weights(model).any()


def test_a_policy_starts_at_zero_unless_told_otherwise() -> None:
    assert not weights(agent(policy="MlpPolicy")).any()
    assert weights(agent(policy="MlpPolicy", zero_policy=False)).any()


@pytest.mark.parametrize(("policy", "normalized"), [("LinearPolicy", False), ("MlpPolicy", True)])
def test_ars_results_do_not_depend_on_workers(policy: str, normalized: bool) -> None:
    options = {"zero_policy": False, "n_eval_episodes": 2, "policy_kwargs": {"net_arch": [4]}}
    if policy == "LinearPolicy":
        del options["policy_kwargs"]
    results = []
    for n_envs, n_workers in ((1, 0), (3, 0), (1, 2), (2, 2)):
        model = agent(1 if n_workers else n_envs, normalized, policy, **options)
        if n_workers:
            makers = [partial(env_of, n_envs, normalized)] * n_workers
            with AsyncEval(makers, model.policy) as workers:
                model.learn(200, async_eval=workers)
        else:
            model.learn(200)
        statistics = model.env.obs_rms if normalized else None
        results.append((model, statistics))
    first, seen = results[0]
    assert first.num_timesteps >= 200 and weights(first).any()
    for model, statistics in results[1:]:
        np.testing.assert_array_equal(weights(model), weights(first))
        assert model.num_timesteps == first.num_timesteps
        assert [e["r"] for e in model.ep_info_buffer] == [e["r"] for e in first.ep_info_buffer]
        if normalized:
            assert statistics.count == seen.count
            np.testing.assert_array_equal(statistics.mean, seen.mean)
            np.testing.assert_array_equal(statistics.var, seen.var)


def test_steps_and_episodes_are_counted_truthfully() -> None:
    counted: list[int] = []
    ended: list[bool] = []
    episodes: list[dict[str, Any]] = []
    rewards: list[float] = []

    def look(locals_: Any, _: Any) -> None:
        counted.append(locals_["self"].num_timesteps)
        ended.append(bool(locals_["dones"][0]))
        rewards.append(float(locals_["rewards"][0]))
        episodes.extend(info["episode"] for info in locals_["infos"] if "episode" in info)

    model = agent(3, stats_window_size=1000)
    model.learn(100, look)
    assert counted == list(range(1, model.num_timesteps + 1))
    assert sum(episode["l"] for episode in episodes) == model.num_timesteps == len(rewards)
    assert len(episodes) == sum(ended) == 8 * model.counters.iteration == len(model.ep_info_buffer)
    assert sum(rewards) == pytest.approx(sum(episode["r"] for episode in episodes), abs=1e-3)


def test_a_callback_ends_the_training_at_its_step() -> None:
    model = agent()
    model.learn(1000, lambda locals_, _: locals_["self"].num_timesteps < 37)
    assert model.num_timesteps == 37


def test_ars_updates_statistics_after_the_iteration() -> None:
    model = agent(normalized=True)
    env = model.env
    counts: list[float] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            counts.append(env.obs_rms.count)
            return True

    model.learn(1, Watch())
    assert len(set(counts)) == 1 and env.training
    assert env.obs_rms.count == pytest.approx(counts[0] + model.num_timesteps)
    np.testing.assert_allclose(env.obs_rms.mean, 5.0, atol=2.0)
    env.training = False
    count = env.obs_rms.count
    model.learn(100)
    assert env.obs_rms.count == count


def test_normalised_candidates_see_the_statistics_of_before() -> None:
    """The policy's one weight looks at the first observation, scaled."""
    env = env_of(normalized=True)
    env.obs_rms.mean, env.obs_rms.var, env.obs_rms.count = np.full(3, 4.0), np.full(3, 4.0), 100.0
    model = ARS("LinearPolicy", env, seed=0, device="cpu")
    seen: list[np.ndarray] = []

    class Actor:
        def with_weights(self, rows: np.ndarray) -> Any:
            return lambda obs: seen.append(obs.copy()) or np.ones((1, 1), np.float32)

    (outcome,) = play_here(env, Actor(), np.zeros((1, 3), np.float32), 5, 1, True)
    raw = Walk()
    first, _ = raw.reset(seed=5)
    np.testing.assert_allclose(seen[0][0], (first - 4.0) / 2.0, rtol=1e-5)
    assert outcome.seen is not None and outcome.seen.count == len(outcome.rewards) == len(seen)
    np.testing.assert_allclose(outcome.seen.mean, np.concatenate(seen).mean(0) * 2.0 + 4.0, rtol=1e-4)
    assert model.env.obs_rms.count == 100.0


class Bonus(VecEnvWrapper):
    """Pays 100 for each step on top."""

    def wait_arrays(self) -> Any:
        step = self.venv.wait_arrays()
        step.rewards = step.rewards + 100
        return step


def test_rewards_of_a_wrapper_around_vec_normalize_count() -> None:
    env = Bonus(env_of(normalized=True))
    model = ARS("LinearPolicy", env, seed=3, device="cpu", n_delta=2)
    model.learn(20)
    assert (model.returns >= 2 * 90).all()  # an episode has two steps at least


def test_two_vec_normalize_are_refused() -> None:
    inner = VecNormalize(make_vec_env("CartPole-v1", 1), norm_reward=False)
    with pytest.raises(UserError, match="one VecNormalize, not of 2"):
        ARS("LinearPolicy", VecNormalize(inner, norm_obs=False)).learn(10)


def test_ars_replaces_a_killed_worker(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = agent().learn(100)
    model = agent()
    makers = [partial(env_of, kill=Deadly(tmp_path, 1))] * 2
    with AsyncEval(makers, model.policy) as workers:
        model.learn(100, async_eval=workers)
    assert [file.name for file in tmp_path.iterdir()] == ["death_0"]
    np.testing.assert_array_equal(weights(model), weights(plain))
    assert model.num_timesteps == plain.num_timesteps
    assert "killed by signal 9" in capfd.readouterr().err


def test_an_environment_that_always_kills_its_worker_is_named(tmp_path: Path) -> None:
    model = agent()
    make = partial(env_of, kill=Deadly(tmp_path, 1000))
    workers = AsyncEval([make], model.policy, n_eval_episodes=5)
    with pytest.raises(EnvironmentFailed, match="3 worker processes died over candidate 0"):
        model.learn(100, async_eval=workers)


def test_a_round_that_was_broken_off_does_not_reach_the_next() -> None:
    model = agent()
    makers: list[Any] = [env_of] * 2
    with AsyncEval(makers, model.policy) as workers:
        candidates = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
        for _ in range(3):
            next(workers.play(candidates, 77, 1))  # the others are still at it
        again = list(workers.play(candidates, 5, 1))
    here = list(play_here(env_of(), model.actor, candidates, 5, 1, False))
    for mine, other in zip(here, again, strict=True):
        np.testing.assert_array_equal(mine.rewards, other.rewards)


@pytest.mark.parametrize(
    ("how", "text"), [("raise", "broken leg"), ("nan", "returned nan in its reward at step")]
)
@pytest.mark.parametrize("n_workers", [0, 1])
def test_an_environment_that_fails_is_named(how: str, text: str, n_workers: int) -> None:
    make = partial(env_of, fault=how)
    model = ARS("LinearPolicy", make(), seed=0, device="cpu")
    workers = AsyncEval([make], model.policy) if n_workers else None
    with pytest.raises(EnvironmentFailed, match=text):
        model.learn(100, async_eval=workers)


def test_workers_must_fit_the_training() -> None:
    model = agent(normalized=True)
    workers = AsyncEval([env_of], model.policy)
    with pytest.raises(UserError, match="training have a VecNormalize"):
        model.learn(10, async_eval=workers)
    workers.close()
    with pytest.raises(UserError, match="the policy was made for"):
        AsyncEval([partial(make_vec_env, "CartPole-v1")], model.policy)
    with pytest.raises(UserError, match="at least one"):
        AsyncEval([], model.policy)
    with pytest.raises(UserError, match="closed"):
        agent().learn(10, async_eval=workers)


def test_a_policy_of_the_user_plays_as_well() -> None:
    from rlzoo.policies.linear_policy import ARSPolicy

    class Mine(ARSPolicy):
        def forward(self, obs: Any) -> torch.Tensor:
            return super().forward(obs).abs()

    model = ARS(Mine, env_of(2), n_delta=2, seed=0, device="cpu", policy_kwargs={"net_arch": [3]}).learn(50)
    assert weights(model).any() and model.n_updates > 0


def test_dict_observations_and_wrong_values_are_refused() -> None:
    class Parts(Walk):
        observation_space = spaces.Dict(a=spaces.Box(-1, 1, (2,)))

    with pytest.raises(UserError, match="ARS does not support Dict observations"):
        ARS("MlpPolicy", Parts())
    for name, value in (("n_delta", 0), ("delta_std", 0.0), ("n_eval_episodes", 0), ("n_top", 0)):
        with pytest.raises(UserError, match=name):
            agent(**{name: value})


def test_n_top_above_n_delta_means_all_directions() -> None:
    with pytest.warns(UserWarning, match="n_top 5 is more than n_delta, 4: all directions are used"):
        assert agent(n_top=5).n_top == 4


def test_cartpole_is_learned() -> None:
    model = ARS("LinearPolicy", "CartPole-v1", n_delta=4, n_top=2, seed=1, device="cpu").learn(20_000)
    env = make_vec_env("CartPole-v1", seed=100)
    obs, length = env.reset(), 0
    for _ in range(500):
        obs, _, dones, _ = env.step(model.predict(obs)[0])
        length += 1
        if dones[0]:
            break
    assert length > 300
