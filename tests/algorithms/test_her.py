"""`HER(...)` and `her` entries make agents of other algorithms, with hindsight replay."""

from __future__ import annotations

import io

import numpy as np
import pytest

from rlzoo import (
    DQN,
    HER,
    PPO,
    BitFlippingEnv,
    DummyVecEnv,
    GoalSelectionStrategy,
    HERGoalEnvWrapper,
    HerReplayBuffer,
    UserError,
)
from rlzoo.experiment.resolve import resolve_config

SMALL = {"buffer_size": 200, "learning_starts": 20, "batch_size": 16, "train_freq": 1, "seed": 0}


def test_an_agent_of_the_model_class():
    model = HER("MlpPolicy", BitFlippingEnv(3), DQN, 2, GoalSelectionStrategy.FINAL, **SMALL)
    assert type(model) is DQN
    replay = model.replay_buffer
    assert type(replay) is HerReplayBuffer
    assert (replay.n_sampled_goal, replay.goal_selection_strategy) == (2, GoalSelectionStrategy.FINAL)
    before = model.get_parameters()["policy"]["q_net.q_net.0.weight"].clone()
    model.learn(60)
    assert model.n_updates > 20
    assert not before.equal(model.get_parameters()["policy"]["q_net.q_net.0.weight"])


def test_the_same_as_the_replay_buffer_class():
    kwargs = {"n_sampled_goal": 4, "goal_selection_strategy": "future", "copy_info_dict": True}
    by_hand = DQN(
        "MultiInputPolicy",
        BitFlippingEnv(3),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=kwargs,
        **SMALL,
    ).learn(60)
    buffer = {"copy_info_dict": True}
    model = HER("MlpPolicy", BitFlippingEnv(3), "dqn", replay_buffer_kwargs=buffer, **SMALL).learn(60)
    for name, value in by_hand.get_parameters()["policy"].items():
        assert value.equal(model.get_parameters()["policy"][name])


def test_load_finds_the_class(tmp_path):
    env = BitFlippingEnv(3)
    model = HER("MlpPolicy", env, DQN, **SMALL)
    obs, _ = env.reset(seed=1)
    model.save(tmp_path / "agent")
    file = io.BytesIO()
    file.write(b"something before it")
    start = file.tell()
    model.save(file)
    file.seek(start)
    for source in (tmp_path / "agent", tmp_path / "agent.zip", file):
        loaded = HER.load(source)
        assert type(loaded) is DQN and loaded.env is None
        assert loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]
    loaded = HER.load(tmp_path / "agent", env=env, learning_starts=30)
    assert loaded.learning_starts == 30
    loaded.learn(50)
    assert type(loaded.replay_buffer) is HerReplayBuffer


def test_a_strategy_given_as_a_member_is_saved(tmp_path):
    kwargs = {"goal_selection_strategy": GoalSelectionStrategy.EPISODE, "n_sampled_goal": 3}
    model = DQN(
        "MultiInputPolicy",
        BitFlippingEnv(3),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=kwargs,
        **SMALL,
    )
    model.save(tmp_path / "agent")
    replay = DQN.load(tmp_path / "agent", env=BitFlippingEnv(3)).replay_buffer
    assert replay.goal_selection_strategy is GoalSelectionStrategy.EPISODE
    assert replay.her_ratio == 0.75


def test_an_environment_in_the_wrapper_is_seen_without_it():
    wrapped = HERGoalEnvWrapper(BitFlippingEnv(3))
    model = HER("MlpPolicy", wrapped, DQN, **SMALL).learn(40)
    obs, _ = wrapped.reset()
    action, _ = model.predict(wrapped.convert_obs_to_dict(obs))
    assert wrapped.action_space.contains(np.int64(action))


def test_another_environment_is_asked_for_rewards_from_then_on():
    model = HER("MlpPolicy", BitFlippingEnv(3), DQN, **SMALL).learn(40)
    other = BitFlippingEnv(3)
    asked = []
    pays = other.compute_reward
    other.compute_reward = lambda *goals: asked.append(goals) or pays(*goals)
    model.set_env(DummyVecEnv([lambda: other]))
    asked.clear()
    model.learn(10, reset_num_timesteps=False)
    assert asked


def test_refusals():
    with pytest.raises(UserError, match="HER needs an algorithm with a replay buffer, such as SAC, not PPO"):
        HER("MlpPolicy", BitFlippingEnv(3), PPO)
    with pytest.raises(UserError, match="must be an algorithm"):
        HER("MlpPolicy", BitFlippingEnv(3), BitFlippingEnv)
    with pytest.raises(UserError, match="HER needs a goal environment"):
        HER("MlpPolicy", "CartPole-v1", DQN)
    with pytest.raises(UserError, match="HER needs a goal environment"):
        DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=HerReplayBuffer)
    with pytest.raises(UserError, match="n_steps=1 only"):
        HER("MlpPolicy", BitFlippingEnv(3), DQN, n_steps=3, **SMALL).learn(1)
    with pytest.raises(UserError, match="does not go together with HerReplayBuffer"):
        HER("MlpPolicy", BitFlippingEnv(3), DQN, prioritized_replay=True)
    with pytest.raises(UserError, match="did you mean 'episode'"):
        HER("MlpPolicy", BitFlippingEnv(3), DQN, goal_selection_strategy="episodes")


def test_old_arguments_are_taken_with_a_notice():
    with pytest.warns(UserWarning, match="max_episode_length is no longer needed"):
        HER("MlpPolicy", BitFlippingEnv(3), DQN, max_episode_length=10, **SMALL)


def test_an_entry_of_her_is_one_of_its_learner():
    values = {"model_class": "dqn", "policy": "MlpPolicy", "n_sampled_goal": 3, "train_freq": 1}
    resolved = resolve_config("her", values)
    assert (resolved.algo, resolved.algorithm, resolved.values) == ("her", DQN, values)
    assert resolved.policy == "MultiInputPolicy"
    assert resolved.hyperparams["replay_buffer_class"] is HerReplayBuffer
    assert resolved.hyperparams["replay_buffer_kwargs"] == {"n_sampled_goal": 3}
    with pytest.raises(UserError, match="with a replay buffer"):
        resolve_config("her", {"model_class": "ppo", "policy": "MlpPolicy"})
    with pytest.raises(UserError, match="did you mean 'n_sampled_goal'"):
        resolve_config("her", {**values, "n_sample_goal": 3})


def test_predict_takes_what_the_wrapper_shows():
    env = HERGoalEnvWrapper(BitFlippingEnv(4, continuous=False))
    agent = HER("MlpPolicy", env, DQN, **SMALL)
    flat, _ = env.reset(seed=0)
    batch = np.stack([flat, 1 - flat])
    for observation in (flat, batch):
        expected, _ = agent.predict(env.convert_obs_to_dict(observation), deterministic=True)
        found, _ = agent.predict(observation, deterministic=True)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(UserError, match="a vector of 12 numbers was expected"):
        agent.predict(flat[:-1])


def test_training_without_a_finished_episode_says_so():
    env = BitFlippingEnv(n_bits=20, max_steps=1000)  # not reached by chance
    with pytest.warns(
        UserWarning, match=r"nothing was learned in 60 steps: HerReplayBuffer draws from finished"
    ):
        HER("MultiInputPolicy", env, DQN, learning_starts=10, policy_kwargs={"net_arch": [4]}).learn(60)
