"""What each option of DDPG does, and that with all of them an agent survives saving."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import DDPG, AdaptiveParamNoiseSpec, DummyVecEnv, UserError
from rlzoo.algorithms.off_policy.ddpg import pop_art
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.schedules import Counters
from rlzoo.core.types import PolicyInput
from tests.algorithms.idle_env import IdleEnv

SGD = {"optimizer_class": torch.optim.SGD}
BATCH = 32


OBSERVATIONS = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def make_env():
    return IdleEnv(observation_space=OBSERVATIONS)


def agent(n_envs=1, policy="MlpPolicy", **kwargs):
    kwargs["policy_kwargs"] = {"net_arch": [16, 8], **kwargs.get("policy_kwargs", {})}
    kwargs = {"learning_rate": 0.1, "buffer_size": 100, **kwargs}
    return DDPG(policy, DummyVecEnv([make_env] * n_envs), seed=0, device="cpu", **kwargs)


def batch_of(seed=0, scale=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: torch.from_numpy(rng.normal(size=shape).astype(np.float32))  # noqa: E731
    discounts = torch.from_numpy((0.9 * (rng.random(BATCH) > 0.3)).astype(np.float32))
    return ReplayBatch(
        normal(BATCH, 3),
        normal(BATCH, 2).tanh(),
        normal(BATCH, 3),
        normal(BATCH) * scale + shift,
        discounts,
        None,
    )


def vectors(model):
    return {"actor": model.actor_flat.vector.detach(), "critic": model.critic_flat.vector.detach()}


def moves(model, batch=None, counters=None):
    """How one update changes the parameters of each network."""
    before = {name: vector.clone() for name, vector in vectors(model).items()}
    model.update(batch or batch_of(), counters or Counters(total_timesteps=100))
    return {name: vector - before[name] for name, vector in vectors(model).items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_rewards_are_scaled():
    scaled = moves(agent(reward_scale=3.0, policy_kwargs=SGD))
    assert same(scaled, moves(agent(policy_kwargs=SGD), batch_of(scale=3.0)))
    assert not same(scaled, moves(agent(policy_kwargs=SGD)))


def test_actor_and_critic_have_learning_rates_of_their_own():
    plain = moves(agent(policy_kwargs=SGD))
    slow_actor = moves(agent(actor_lr=0.0, policy_kwargs=SGD))
    assert not slow_actor["actor"].any() and torch.equal(slow_actor["critic"], plain["critic"])
    model = agent(critic_lr="lin_0.4", policy_kwargs=SGD)
    fast_critic = moves(model, counters=Counters(num_timesteps=50, total_timesteps=100))
    torch.testing.assert_close(fast_critic["critic"], 2 * plain["critic"], atol=1e-6, rtol=1e-4)
    assert model.policy.actor.optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


def test_gradients_are_clipped_by_the_norm_of_each_network():
    plain = moves(agent(policy_kwargs=SGD, learning_rate=1.0))
    clipped = moves(agent(policy_kwargs=SGD, learning_rate=1.0, clip_norm=0.01))
    for move in clipped.values():
        assert float(move.norm()) == pytest.approx(0.01, rel=1e-3)
    direction = clipped["critic"] / clipped["critic"].norm()
    torch.testing.assert_close(direction, plain["critic"] / plain["critic"].norm(), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("policy", ["MlpPolicy", "LnMlpPolicy"])
def test_the_hidden_weights_of_the_critic_are_penalised(policy):
    plain, penalised = (
        agent(policy=policy, critic_l2_reg=reg, policy_kwargs={**SGD, "n_critics": 2}) for reg in (0.0, 0.5)
    )
    before = {name: value.clone() for name, value in plain.policy.critic.state_dict().items()}
    for model in (plain, penalised):
        model.update(batch_of(), Counters())
    after = penalised.policy.critic.state_dict()
    hidden = {name for name, value in before.items() if name.endswith("weight") and value.dim() == 2}
    hidden -= {name for name in hidden if len(before[name]) == 1}  # the last layer has one output
    assert len(hidden) == 4
    for name, value in plain.policy.critic.state_dict().items():
        pull = 0.1 * 0.5 * before[name] if name in hidden else torch.zeros_like(value)
        torch.testing.assert_close(after[name], value - pull, atol=1e-6, rtol=1e-4)


def test_ddpg_normalises_with_running_statistics():
    model, plain = agent(n_envs=2, normalize_observations=True), agent(n_envs=2)
    seen = torch.tensor([[0.0, 10, 100], [2, 10.5, 300], [4, 11, 100], [6, 10.5, 200]])
    with torch.inference_mode():
        for rows in (seen[:2], seen[2:]):
            model.act(PolicyInput(rows, None, 0, Counters(warm_up=True)))
    weights = {name: value for name, value in plain.policy.state_dict().items() if "target" not in name}
    missing = model.policy.load_state_dict(weights, strict=False).missing_keys
    assert all("target" in name or "normalizer" in name for name in missing)
    obs, actions = torch.tensor([[1.0, 12, 150], [1e6, 10, -1e6]]), torch.rand(2, 2)
    scaled = ((obs - seen.mean(dim=0)) / seen.std(dim=0, correction=0)).clamp(-5, 5)
    with torch.no_grad():
        torch.testing.assert_close(model.policy(obs), plain.policy(scaled))
        torch.testing.assert_close(
            model.policy.critic.all_values(obs, actions), plain.policy.critic.all_values(scaled, actions)
        )
        copied = model.policy.actor_target.state_dict()
    torch.testing.assert_close(
        copied["features_extractor.normalizer.statistics.0.mean"], seen.double().mean(dim=0)
    )
    assert model.predict(obs.numpy())[0] == pytest.approx(plain.predict(scaled.numpy())[0], abs=1e-5)


def test_stored_observations_of_another_agent_are_normalised(tmp_path):
    first = agent(normalize_observations=True, learning_starts=100)
    first.learn(50)
    first.save_replay_buffer(tmp_path / "replay")
    second = agent(normalize_observations=True)
    second.load_replay_buffer(tmp_path / "replay")
    second.train(1, batch_size=8)
    assert second.normalizer.n_seen == 50
    first.train(1, batch_size=8)
    assert first.normalizer.n_seen == 50  # it had seen them already


def test_the_range_of_observations_is_what_they_are_clipped_to():
    model = agent(normalize_observations=True, observation_range=(-1, 0.5))
    shown = []
    extractor = model.policy.actor.features_extractor.extractor
    extractor.register_forward_pre_hook(lambda _, args: shown.append(args[0]))
    model.predict(np.array([[-3.0, 0.2, 3.0]], np.float32))
    assert shown[0].tolist() == [[-1.0, pytest.approx(0.2), 0.5]]


def test_images_cannot_be_normalised_twice():
    images = spaces.Box(0, 255, (3, 36, 36), np.uint8)
    with pytest.raises(UserError, match="normalize_observations"):
        DDPG(
            "CnnPolicy", DummyVecEnv([lambda: IdleEnv(observation_space=images)]), normalize_observations=True
        )


@pytest.mark.parametrize("share", [False, True])
def test_ddpg_normalises_dict_with_shared_extractor(share):
    parts = spaces.Dict({"a": OBSERVATIONS, "b": spaces.Discrete(2)})
    model = DDPG(
        "MultiInputPolicy",
        DummyVecEnv([lambda: IdleEnv(observation_space=parts)]),
        normalize_observations=True,
        buffer_size=100,
        policy_kwargs={"share_features_extractor": share},
    )
    with torch.inference_mode():
        obs = {"a": torch.full((1, 3), 7.0), "b": torch.ones(1, dtype=torch.int64)}
        model.act(PolicyInput(obs, None, 0, Counters()))
    assert (model.policy.actor.features_extractor is model.policy.critic.features_extractor) == share
    assert model.normalizer.statistics[0].mean.tolist() == [7.0, 7.0, 7.0]


def target_of(model, batch):
    """y, computed apart."""
    with torch.no_grad():
        actions = model.policy.actor_target(batch.next_observations)
        following = model.policy.critic_target.all_values(batch.next_observations, actions)[0, :, 0]
    return batch.rewards + batch.discounts * following


def test_the_critic_learns_returns_in_units_of_their_statistics():
    model, batch = agent(normalize_returns=True, policy_kwargs=SGD), batch_of(scale=20, shift=50)
    with torch.no_grad():
        outputs = model.policy.critic.all_values(batch.observations, batch.actions)[0, :, 0]
        y = target_of(model, batch)
    metrics = model.update(batch, Counters())
    expected = (outputs - (y - y.mean()) / y.std(correction=0)).square().mean()
    assert float(metrics["critic_loss"]) == pytest.approx(float(expected), rel=1e-4)
    assert float(model.returns.mean) == pytest.approx(float(y.mean()), rel=1e-5)
    with torch.no_grad():  # from now on values are what the outputs mean in these units
        actions = model.policy.actor_target(batch.next_observations)
        following = model.policy.critic_target.all_values(batch.next_observations, actions)[0, :, 0]
    y2 = batch.rewards + batch.discounts * (following * y.std(correction=0) + y.mean())
    model.update(batch, Counters())
    assert float(model.returns.mean) == pytest.approx(float(torch.cat([y, y2]).mean()), rel=1e-5)


def test_without_normalisation_no_statistics_are_kept():
    model = agent()
    model.update(batch_of(scale=20, shift=50), Counters())
    assert float(model.returns.count) == 0 and "returns" not in model.state()


@pytest.mark.parametrize("policy", ["MlpPolicy", "LnMlpPolicy"])
def test_pop_art_preserves_all_values(policy):
    model = agent(policy=policy, normalize_returns=True, enable_popart=True, policy_kwargs={"n_critics": 2})
    critics = (model.policy.critic, model.policy.critic_target)
    batch = batch_of()

    def values():
        with torch.no_grad():
            outputs = [critic.all_values(batch.observations, batch.actions) for critic in critics]
        return outputs, [model.returns.restore(output) for output in outputs]

    for target in (torch.randn(BATCH) * 100 + 1000, torch.randn(BATCH) - 500):
        outputs, before = values()
        last_layers = [critic.layers[-1] for critic in critics]
        pop_art(model.returns, target, last_layers)
        new_outputs, after = values()
        for old, new, output, new_output in zip(before, after, outputs, new_outputs, strict=True):
            torch.testing.assert_close(new, old, atol=1e-3, rtol=1e-4)
            assert not torch.allclose(new_output, output)


def test_an_update_with_pop_art_learns_from_preserved_values():
    options = {"normalize_returns": True, "policy_kwargs": SGD, "learning_rate": 0.0}
    model, without = agent(enable_popart=True, **options), agent(**options)
    batch = batch_of(scale=20, shift=50)
    with torch.no_grad():
        before = model.policy.critic.all_values(batch.observations, batch.actions)[0, :, 0]
        y = target_of(model, batch)
    metrics = model.update(batch, Counters())
    expected = ((before - y) / y.std(correction=0)).square().mean()
    assert float(metrics["critic_loss"]) == pytest.approx(float(expected), rel=1e-3)
    assert float(without.update(batch, Counters())["critic_loss"]) != pytest.approx(float(expected), rel=1e-2)


def test_pop_art_learns_large_returns_in_few_steps():
    values = {}
    for option in (False, True):
        model = agent(normalize_returns=option, enable_popart=option, learning_rate=1e-2)
        batch = batch_of(scale=100, shift=1000)
        batch.discounts = torch.zeros(BATCH)
        for _ in range(100):
            model.update(batch, Counters())
        with torch.no_grad():
            outputs = model.policy.critic.all_values(batch.observations, batch.actions)
            values[option] = float(model.returns.restore(outputs).mean())
    assert values[True] == pytest.approx(float(batch.rewards.mean()), abs=30) and values[False] < 800


def test_the_range_of_returns_bounds_what_the_critic_says():
    low, high = -0.05, 0.05
    model, batch = agent(return_range=(low, high), policy_kwargs=SGD), batch_of()
    with torch.no_grad():
        model.policy.critic_target.layers[-1].bias.fill_(7.0)
        outputs = model.policy.critic.all_values(batch.observations, batch.actions)[0, :, 0]
    y = batch.rewards + batch.discounts * high
    expected = (outputs - y.clamp(low, high)).square().mean()
    assert float(model.update(batch, Counters())["critic_loss"]) == pytest.approx(float(expected), rel=1e-4)
    with torch.no_grad():
        model.policy.critic.layers[-1].bias.fill_(7.0)
    move = moves(model, batch)
    assert not move["actor"].any(), "beyond the range nothing is gained"


SPEC = AdaptiveParamNoiseSpec(initial_stddev=0.5, desired_action_stddev=0.1, adoption_coefficient=1.1)


def test_ddpg_predicts_with_the_unperturbed_actor():
    model, obs = agent(n_envs=2, param_noise=SPEC), torch.randn(2, 3)
    with torch.inference_mode():
        inputs = PolicyInput(obs, None, 0, Counters())
        first, again = model.act(inputs).action, model.act(inputs).action
        assert torch.equal(first, again), "the same noise for all of an episode"
        assert not torch.allclose(first, model.policy(obs), atol=1e-3)
        model.end_episodes(np.array([1]))
        assert torch.equal(model.act(inputs).action, first)
        model.end_episodes(np.array([0, 1]))
        assert not torch.equal(model.act(inputs).action, first)
    plain = agent(n_envs=2).predict(obs.numpy())[0]
    assert np.array_equal(model.predict(obs.numpy())[0], plain)
    assert model.rollout_metrics() == {"param_noise_stddev": 0.5}


def test_the_size_of_parameter_noise_is_adapted_now_and_then():
    model = agent(param_noise=SPEC, param_noise_adaption_interval=3)
    counters, sizes = Counters(), []
    for step in range(7):
        model.update(batch_of(step), counters)
        sizes.append(model.parameter_noise.stddev)
    steps = np.diff(np.log([0.5, *sizes])) / np.log(1.1)
    assert np.abs(steps) == pytest.approx([0, 0, 1, 0, 0, 1, 0], abs=1e-6)
    assert SPEC.current_stddev == 0.5


def test_parameter_noise_sees_observations_as_the_actor_does():
    model = agent(param_noise=SPEC, normalize_observations=True)
    with torch.inference_mode():
        model.act(PolicyInput(torch.full((1, 3), 1e4), None, 0, Counters()))
    for network in (model.parameter_noise.exploring, model.policy.critic_target, model.policy.actor):
        assert network.features_extractor.normalizer is model.normalizer


ALL = {
    "normalize_observations": True,
    "observation_range": (-4.0, 4.0),
    "normalize_returns": True,
    "return_range": (-10.0, 10.0),
    "enable_popart": True,
    "critic_l2_reg": 0.01,
    "clip_norm": 5.0,
    "reward_scale": 0.1,
    "actor_lr": 1e-3,
    "critic_lr": "lin_1e-2",
    "param_noise": SPEC,
    "param_noise_adaption_interval": 2,
    "random_exploration": 0.2,
}


def test_ddpg_with_every_option_resumes_exactly(tmp_path):
    model = agent(n_envs=2, policy="LnMlpPolicy", **ALL)
    obs = torch.randn(2, 3, generator=torch.Generator().manual_seed(3)) * 5 + 2

    def go_on(one, steps):
        actions = []
        for step in steps:
            torch.manual_seed(step)
            with torch.inference_mode():
                actions.append(one.act(PolicyInput(obs + step, None, 0, one.counters)).action)
                one.end_episodes(np.array([step % 2]))
            one.update(batch_of(step), one.counters)
        return torch.stack(actions)

    go_on(model, range(5))
    model.save(tmp_path / "agent")
    again = DDPG.load(tmp_path / "agent", device="cpu")
    assert again.param_noise.arguments() == SPEC.arguments() and again.config.return_range == (-10.0, 10.0)
    assert np.array_equal(again.predict(obs.numpy())[0], model.predict(obs.numpy())[0])
    assert torch.equal(go_on(again, range(5, 9)), go_on(model, range(5, 9)))
    assert same(vectors(again), vectors(model))
    assert float(again.returns.mean) == float(model.returns.mean) != 0
    assert again.parameter_noise.stddev == model.parameter_noise.stddev != 0.5


def test_every_option_is_off_by_default():
    config = DDPG.Config()
    assert not (config.normalize_observations or config.normalize_returns or config.enable_popart)
    assert (config.critic_l2_reg, config.clip_norm, config.reward_scale) == (0.0, None, 1.0)
    assert (config.actor_lr, config.critic_lr, config.param_noise) == (None, None, None)
    assert config.random_exploration == 0.0 and config.return_range == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"enable_popart": True}, "normalize_returns"),
        ({"observation_range": (5, -5)}, "observation_range"),
        ({"return_range": 3}, "return_range"),
        ({"return_range": (float("nan"), 1.0)}, "return_range"),
        ({"param_noise": 0.1}, "AdaptiveParamNoiseSpec"),
        ({"clip_norm": 0}, "clip_norm"),
        ({"critic_l2_reg": -1}, "critic_l2_reg"),
        ({"param_noise_adaption_interval": 0}, "param_noise_adaption_interval"),
        ({"critic_lr": -0.1}, "critic_lr"),
    ],
)
def test_mistakes_are_named(kwargs, text):
    with pytest.raises(UserError, match=text):
        agent(**kwargs)


def test_a_policy_of_the_user_needs_no_number_of_critics():
    from rlzoo.policies.continuous_policies import TD3Policy

    class Mine(TD3Policy):
        def __init__(self, observation_space, action_space, lr_schedule):
            super().__init__(observation_space, action_space, lr_schedule, [8], nn.Tanh, n_critics=1)

    model = DDPG(Mine, DummyVecEnv([make_env]), buffer_size=10)
    model.update(batch_of(), Counters())
