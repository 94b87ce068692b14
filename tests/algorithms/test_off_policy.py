"""What all algorithms with replay ask of their arguments, and what they do before they learn."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    DDPG,
    DQN,
    HER,
    SAC,
    TD3,
    TQC,
    CrossQ,
    HerReplayBuffer,
    NormalActionNoise,
    NStepReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VecNormalize,
    make_vec_env,
)
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import PolicyInput

SMALL: dict[str, Any] = {
    "buffer_size": 100,
    "learning_starts": 10,
    "batch_size": 4,
    "device": "cpu",
    "seed": 0,
}


class Number(gym.Env[Any, Any]):
    """Actions are numbers: a Box without axes."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 3, (), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert np.shape(action) == ()
        return np.zeros(2, np.float32), 1.0, False, bool(self.np_random.random() < 0.2), {}


@pytest.mark.parametrize(
    ("algorithm", "arguments", "message"),
    [
        (SAC, {"n_target_critics": 3}, "n_target_critics must be at most 2"),
        (SAC, {"policy_kwargs": {"optimizer_kwargs": 3}}, "optimizer_kwargs must be a mapping"),
        (
            SAC,
            {"policy_kwargs": {"features_extractor_kwargs": [3]}},
            "features_extractor_kwargs must be a mapping",
        ),
        (TQC, {"policy_kwargs": {"n_critics": 1.5}}, "n_critics must be a whole number"),
        (CrossQ, {"policy_kwargs": {"renorm_warmup_steps": -1}}, "renorm_warmup_steps must be at least 0"),
        (DDPG, {"observation_range": (-1.0, 1.0)}, "observation_range is of no use without normalize_obs"),
        (TD3, {"action_noise": NormalActionNoise(np.zeros(2), np.ones(2))}, "action_noise is of shape"),
    ],
)
def test_arguments_that_cannot_work_are_refused(
    algorithm: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        algorithm("MlpPolicy", "Pendulum-v1", **SMALL, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exploration_fraction": 0}, "exploration_fraction must be above 0"),
        ({"prioritized_replay_alpha": 0.3}, "is of no use without prioritized_replay=True"),
        ({"prioritized_replay_beta_iters": 3}, "is of no use without prioritized_replay=True"),
    ],
)
def test_arguments_of_dqn_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DQN("MlpPolicy", "CartPole-v1", **SMALL, **arguments)


@pytest.mark.parametrize(
    ("buffer_class", "arguments", "message"),
    [
        (ReplayBuffer, {"buffer_size": 3}, "buffer_size is set by the algorithm"),
        (ReplayBuffer, {"n_envs": 1}, "n_envs is set by the algorithm"),
        (ReplayBuffer, {"gamma": 0.5}, "gamma is set by the algorithm"),
        (ReplayBuffer, {"handle_timeout_termination": 4}, "must be true or false, not 4"),
        (PrioritizedReplayBuffer, {"alpha": "x"}, "alpha must be a number, not 'x'"),
        (NStepReplayBuffer, {"n_steps": 5}, "n_steps is 3, but 5 in replay_buffer_kwargs"),
    ],
)
def test_replay_buffer_kwargs_are_checked(
    buffer_class: type[ReplayBuffer], arguments: dict[str, Any], message: str
) -> None:
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        **SMALL,
        n_steps=3,
        replay_buffer_class=buffer_class,
        replay_buffer_kwargs=arguments,
    )
    with pytest.raises(UserError, match=message):
        _ = model.replay_buffer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replay_buffer_class": 3}, "must be derived from HerReplayBuffer"),
        ({"replay_buffer_kwargs": 3}, "replay_buffer_kwargs must be a dictionary"),
        ({"n_sampled_goal": "many"}, "n_sampled_goal must be a whole number"),
        ({"replay_buffer_kwargs": {"copy_info_dict": 7}}, "copy_info_dict must be true or false"),
    ],
)
def test_arguments_of_her_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _ = HER("MlpPolicy", "BitFlipping-v0", DQN, **SMALL, **arguments).replay_buffer


def test_her_accepts_arguments_of_older_files() -> None:
    kwargs = {"n_sampled_goal": 2, "online_sampling": True, "max_episode_length": 10}
    model = DQN(
        "MultiInputPolicy",
        "BitFlipping-v0",
        **SMALL,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=kwargs,
    )
    with pytest.warns(UserWarning, match="online_sampling is no longer needed"):
        assert model.replay_buffer.n_sampled_goal == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("buffer_size", [10**14, 10**18])
def test_a_buffer_that_no_memory_can_hold_is_refused(buffer_size: int) -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", **{**SMALL, "buffer_size": buffer_size})
    with warnings.catch_warnings(), pytest.raises(UserError, match="there is no memory for a replay buffer"):
        warnings.simplefilter("ignore")
        _ = model.replay_buffer


def test_a_replay_buffer_can_be_replaced_by_one_that_fits() -> None:
    model = SAC("MlpPolicy", VecNormalize(make_vec_env("Pendulum-v1", 2)), **SMALL)
    other = ReplayBuffer(50, model.observation_space, model.action_space, n_envs=2)
    model.replay_buffer = other
    assert model.replay_buffer is other
    assert other.normalizer.obs_normalizer is model.get_vec_normalize_env()
    wrong_number = ReplayBuffer(50, model.observation_space, model.action_space, n_envs=1)
    wrong_space = ReplayBuffer(50, model.action_space, model.action_space, n_envs=2)
    for wrong in (wrong_number, wrong_space, 3):
        with pytest.raises(UserError, match=r"replay.buffer"):
            model.replay_buffer = wrong  # type: ignore[assignment]
    assert model.replay_buffer is other


def test_warmup_is_random_without_gsde(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", **SMALL, use_sde_at_warmup=True)
    asked = []

    def explore(obs: Any) -> torch.Tensor:
        asked.append(obs)
        return torch.zeros(1, 1)

    monkeypatch.setattr(model, "explore", explore)
    for warm_up in (True, False):
        counters = Counters(warm_up=warm_up)
        model.act(PolicyInput(torch.zeros(1, 3), np.zeros(1, bool), 0, counters))
        assert len(asked) == (not warm_up)


@pytest.mark.parametrize("algorithm", [DDPG, TD3, SAC, TQC, CrossQ])
def test_actions_may_be_numbers(algorithm: Any) -> None:
    model = algorithm("MlpPolicy", Number(), **SMALL, policy_kwargs={"net_arch": [4]}).learn(14)
    assert model.counters.n_updates == 4
    action, _ = model.predict(np.zeros(2, np.float32))
    assert action.shape == ()


class Shaped(Number):
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.action_space = spaces.Box(-1, 3, shape, np.float32)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_random_exploration_replaces_the_whole_action(shape: tuple[int, ...]) -> None:
    n_envs = 3
    env = make_vec_env(lambda: Shaped(shape), n_envs)
    model = SAC("MlpPolicy", env, random_exploration=0.5, **SMALL)
    model.explore = lambda obs: torch.full((n_envs, *shape), 2.0)  # type: ignore[method-assign]
    replaced = []
    for _ in range(100):
        actions = model.act(PolicyInput(torch.zeros(n_envs, 2), None, 0, Counters(num_timesteps=1000))).action
        assert actions.shape == (n_envs, *shape)
        replaced.append((actions != 2).reshape(n_envs, -1))
    found = torch.stack(replaced)
    assert torch.equal(found.all(dim=2), found.any(dim=2))
    assert not torch.equal(found[:, 0], found[:, 1])  # each has a coin of its own
    assert 0.3 < found.float().mean() < 0.7


def test_networks_are_found_at_the_agent() -> None:
    model = TD3("MlpPolicy", "Pendulum-v1", **SMALL, policy_kwargs={"net_arch": [4]})
    for name in ("actor", "actor_target", "critic", "critic_target"):
        assert getattr(model, name) is getattr(model.policy, name)
    q_learner = DQN("MlpPolicy", "CartPole-v1", **SMALL)
    assert q_learner.q_net is q_learner.policy.q_net
    with pytest.raises(AttributeError, match="'DQN' object has no attribute 'actor'"):
        _ = q_learner.actor


def test_assigned_entropy_coefficient_takes_effect() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", **SMALL)
    learned = model.entropy_coefficient
    assert learned.learned
    model.ent_coef = 0.3
    assert not model.entropy_coefficient.learned and model.ent_coef_tensor.item() == pytest.approx(0.3)
    fixed = model.entropy_coefficient
    model.ent_coef = 0.2
    assert model.entropy_coefficient is fixed and model.ent_coef_tensor.item() == pytest.approx(0.2)
    model.ent_coef = "auto_0.5"
    assert model.entropy_coefficient.learned and model.ent_coef_tensor.item() == pytest.approx(0.5)
    with pytest.raises(UserError, match="ent_coef must be a number"):
        model.ent_coef = -1.0


def test_assigned_hyperparameters_take_effect_or_are_refused() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", **SMALL)
    model.buffer_size = 60  # there is no buffer yet
    assert model.replay_buffer.buffer_size == 60
    model.action_noise = None
    for name, value in {"buffer_size": 70, "n_steps": 3, "use_sde": True}.items():
        with pytest.raises(UserError, match=f"{name} cannot be changed"):
            setattr(model, name, value)
    model.buffer_size = 60  # as it is
    model.replay_buffer = None  # type: ignore[assignment]
    model.n_steps = 3
    assert model.replay_buffer.n_steps == 3
