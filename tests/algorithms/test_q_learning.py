"""DQN and QR-DQN against their equations, one gradient step at a time."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces

from rlzoo import DQN, QRDQN, IdentityEnv, PrioritizedReplayBuffer, ReplayBuffer
from rlzoo.algorithms.off_policy.dqn import IntervalCounter, dqn_loss, dqn_target
from rlzoo.algorithms.off_policy.qrdqn import qrdqn_loss, qrdqn_target
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.errors import UserError

B, N_ACTIONS, N_QUANTILES = 6, 3, 5
ALGORITHMS = [DQN, QRDQN]


class Vectors(IdentityEnv):
    """As IdentityEnv, with states as points of a plane."""

    def __init__(self):
        super().__init__(space=spaces.Discrete(N_ACTIONS))
        self.observation_space = spaces.Box(-1, 1, (2,))


def make(cls=DQN, seed=0, vectors=False, **kwargs):
    """An agent whose network and target network differ."""
    kwargs.setdefault("policy_kwargs", {"net_arch": [8]})
    if cls is QRDQN:
        kwargs["policy_kwargs"] = {"n_quantiles": N_QUANTILES, **kwargs["policy_kwargs"]}
    env = Vectors() if vectors else IdentityEnv(space=spaces.Discrete(N_ACTIONS))
    model = cls("MlpPolicy", env, seed=seed, **kwargs)
    with torch.no_grad():
        for parameter in model.policy.target_net().parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.counters.total_timesteps = 1000
    return model


def make_batch(weights=False, vectors=False):
    generator = np.random.default_rng(0)
    obs, actions, next_obs = torch.from_numpy(generator.integers(0, N_ACTIONS, (3, B)))
    plane = torch.tensor([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    return ReplayBatch(
        observations=plane[obs] if vectors else obs,
        actions=actions,
        next_observations=plane[next_obs] if vectors else next_obs,
        rewards=torch.from_numpy(3 * generator.normal(size=B).astype(np.float32)),
        discounts=torch.tensor([0.9, 0.0, 0.9, 0.81, 0.729, 0.0]),  # ends, and returns of several steps
        indices=np.arange(B),
        weights=torch.tensor([1.0, 0.5, 0.25, 0.7, 0.1, 0.9]) if weights else None,
    )


def tables(network):
    """What a network says for each of the N_ACTIONS states, [n_states, (n_quantiles,) n_actions]."""
    with torch.no_grad():
        return network(torch.arange(N_ACTIONS)).double().numpy()


def rows(batch):
    columns = (batch.observations, batch.actions, batch.next_observations, batch.rewards, batch.discounts)
    return zip(*(column.numpy() for column in columns), strict=True)


def huber(delta):
    return delta**2 / 2 if abs(delta) <= 1 else abs(delta) - 0.5


def dqn_by_hand(model, batch, double_q):
    """Losses and temporal differences of each row."""
    q, target = tables(model.policy.q_net), tables(model.policy.q_net_target)
    losses, differences = [], []
    for s, a, s2, reward, discount in rows(batch):
        best = np.argmax(q[s2]) if double_q else np.argmax(target[s2])
        difference = q[s, a] - (reward + discount * target[s2, best])
        losses.append(huber(difference))
        differences.append(difference)
    return losses, differences


def qrdqn_by_hand(model, batch):
    theta, target = tables(model.policy.quantile_net), tables(model.policy.quantile_net_target)
    losses, differences = [], []
    for s, a, s2, reward, discount in rows(batch):
        best = np.argmax(target[s2].mean(0))
        goals = reward + discount * target[s2, :, best]
        loss = 0.0
        for i, estimate in enumerate(theta[s, :, a]):
            tau = (2 * i + 1) / (2 * N_QUANTILES)
            loss += np.mean([abs(tau - (z < estimate)) * huber(z - estimate) for z in goals])
        losses.append(loss)
        differences.append(theta[s, :, a].mean() - goals.mean())
    return losses, differences


def quantile_losses(quantiles, actions, target):
    """With a graph: [B, n_quantiles, n_actions], [B], [B, n_quantiles] -> [B]."""
    theta = quantiles[torch.arange(B), :, actions]
    delta = target[:, None, :] - theta[:, :, None]
    tau = (torch.arange(N_QUANTILES) + 0.5)[:, None] / N_QUANTILES
    weight = (tau - (delta < 0).float()).abs()
    return (weight * F.smooth_l1_loss(delta, torch.zeros_like(delta), reduction="none")).mean(2).sum(1)


@pytest.mark.parametrize("double_q", [False, True])
def test_the_objective_of_dqn(double_q):
    model, batch = make(), make_batch()
    target = dqn_target(model.policy, batch, double_q)
    assert not target.requires_grad
    q = model.policy.q_net(batch.observations).detach()
    loss, none = dqn_loss(q, batch.actions, target, None)
    _, td_errors = dqn_loss(q, batch.actions, target, torch.ones(B))
    assert none is None and td_errors is not None
    expected_losses, expected_errors = dqn_by_hand(model, batch, double_q)
    assert loss.item() == pytest.approx(sum(expected_losses) / B, abs=1e-5)
    assert td_errors.tolist() == pytest.approx(expected_errors, abs=1e-5)
    for weights in torch.eye(B):
        one, _ = dqn_loss(q, batch.actions, target, weights * B)
        assert one.item() == pytest.approx(expected_losses[int(weights.argmax())], abs=1e-5)


def test_double_q_makes_a_difference_here():
    model, batch = make(), make_batch()
    assert not torch.allclose(dqn_target(model.policy, batch, True), dqn_target(model.policy, batch, False))


def test_the_objective_of_qrdqn():
    model, batch = make(QRDQN), make_batch()
    target = qrdqn_target(model.policy, batch)
    assert not target.requires_grad and target.shape == (B, N_QUANTILES)
    quantiles = model.policy.quantile_net(batch.observations).detach()
    quantiles.requires_grad_()
    loss, none = qrdqn_loss(quantiles, batch.actions, target, None)
    _, td_errors = qrdqn_loss(quantiles, batch.actions, target, torch.ones(B))
    assert none is None and td_errors is not None
    expected_losses, expected_errors = qrdqn_by_hand(model, batch)
    assert loss.item() == pytest.approx(sum(expected_losses) / B, abs=1e-5)
    assert td_errors.tolist() == pytest.approx(expected_errors, abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, quantiles)
    (expected,) = torch.autograd.grad(quantile_losses(quantiles, batch.actions, target).mean(), quantiles)
    assert torch.allclose(gradient, expected, atol=1e-6)


@pytest.mark.parametrize("max_grad_norm", [None, 1e-2, 1e3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("cls", ALGORITHMS)
def test_an_update_is_one_step_of_the_optimiser_on_it(cls, vectors, dueling, weighted, max_grad_norm):
    """With SGD, so that the step is the clipped gradient of the (weighted) mean."""
    policy_kwargs = {"net_arch": [8, 6], "optimizer_class": torch.optim.SGD, "dueling": dueling}
    model = make(
        cls, vectors=vectors, learning_rate=0.5, max_grad_norm=max_grad_norm, policy_kwargs=policy_kwargs
    )
    batch, reference = make_batch(weighted, vectors), copy.deepcopy(model.policy)

    output = reference.online_net()(batch.observations)
    if cls is DQN:
        target, chosen = dqn_target(reference, batch, False), output[torch.arange(B), batch.actions]
        losses, differences = F.smooth_l1_loss(chosen, target, reduction="none"), chosen - target
    else:
        target = qrdqn_target(reference, batch)
        losses = quantile_losses(output, batch.actions, target)
        differences = output[torch.arange(B), :, batch.actions].mean(1) - target.mean(1)
    weights = batch.weights if weighted else torch.ones(B)
    loss = (losses * weights).sum() / B
    parameters = list(reference.online_net().parameters())
    gradients = torch.autograd.grad(loss, parameters)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
    scale = 1.0 if max_grad_norm is None else min(1.0, max_grad_norm / (norm + 1e-6))
    assert (scale < 1) == (max_grad_norm == 1e-2)
    model.target_updates.last = model.counters.num_timesteps
    metrics = model.update(batch, model.counters)

    assert float(metrics["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
    for parameter, gradient, updated in zip(
        parameters, gradients, model.policy.online_net().parameters(), strict=True
    ):
        assert torch.allclose(updated, parameter - 0.5 * scale * gradient, atol=1e-6)
    for own, updated in zip(
        reference.target_net().parameters(), model.policy.target_net().parameters(), strict=True
    ):
        assert torch.equal(own, updated)
    assert model.counters.n_updates == 1
    if weighted:
        assert torch.allclose(batch.priorities, differences.detach().abs(), atol=1e-6)
    else:
        assert batch.priorities is None


# ---------------------------------------------------------------------- target network


def gap(model):
    """The distance of the target network from the network."""
    pairs = zip(model.policy.online_net().parameters(), model.policy.target_net().parameters(), strict=True)
    return math.sqrt(sum(float((mine - own).detach().square().sum()) for mine, own in pairs))


@pytest.mark.parametrize("cls", ALGORITHMS)
@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_the_target_follows_at_multiples_of_the_interval(cls, tau):
    model = make(cls, learning_rate=0.0, target_update_interval=10, tau=tau)
    distance, before = gap(model), 0
    for step in (4, 9, 10, 19, 20, 47, 47, 50):  # at 47 two updates are due at once
        model.counters.num_timesteps = step
        model.update(make_batch(), model.counters)
        distance *= (1 - tau) ** (step // 10 - before // 10)
        before = step
        assert gap(model) == pytest.approx(distance, rel=1e-4, abs=1e-6)


def test_interval_counter_counts_multiples_and_restarts():
    counter = IntervalCounter()
    assert [counter.crossings(step, 10) for step in (3, 10, 10, 35, 4, 11)] == [0, 1, 0, 2, 0, 1]
    other = IntervalCounter()
    other.load_state_dict(counter.state_dict())
    assert other.crossings(20, 10) == 1 and other.crossings(20, 10) == 0


# ---------------------------------------------------------------------- exploring


def test_the_exploration_rate_falls_and_stays():
    model = make(exploration_fraction=0.5, exploration_initial_eps=0.9, exploration_final_eps=0.1)
    rates = []
    for model.counters.num_timesteps in (0, 125, 250, 500, 750, 1000):
        rates.append(model.exploration_rate)
        assert model.rollout_metrics() == {"exploration_rate": rates[-1]}
    assert rates == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1, 0.1])


def explored(model, n):
    model.n_envs = n
    with torch.inference_mode():
        return model.explore(torch.zeros(n, dtype=torch.int64)).numpy()


@pytest.mark.parametrize("cls", ALGORITHMS)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_every_environment_has_its_own_coin(cls, epsilon):
    model = make(cls, exploration_initial_eps=epsilon, exploration_final_eps=epsilon)
    best = model.predict(0, deterministic=True)[0]
    counts = np.bincount(explored(model, 30_000), minlength=N_ACTIONS) / 30_000
    expected = np.full(N_ACTIONS, epsilon / N_ACTIONS)
    expected[best] += 1 - epsilon
    assert counts == pytest.approx(expected, abs=0.02)


def test_random_actions_ask_no_network(monkeypatch):
    model = make(exploration_initial_eps=1.0)
    monkeypatch.setattr(model.policy, "q_net", None)
    assert len(explored(model, 5)) == 5


def test_dqn_parameter_noise_is_redrawn_per_episode():
    model = make(param_noise=True, seed=3)
    noise, plain = model.parameter_noise, model.policy.q_net
    first = tables(noise.exploring)
    assert not np.allclose(first, tables(plain))
    with torch.inference_mode():
        assert model.greedy_actions(torch.arange(N_ACTIONS)).tolist() == first.argmax(1).tolist()
        model.end_episodes(np.array([1, 2]))
        np.testing.assert_array_equal(first, tables(noise.exploring))
        model.end_episodes(np.array([0]))  # of the environment that sets the pace for all
    assert not np.allclose(first, tables(noise.exploring))
    model.counters.num_timesteps = 0
    assert model.exploration_rate == 1.0
    assert len(set(explored(model, 1000).tolist())) > 1  # one in a hundred is random
    assert np.mean(explored(model, 1000) == tables(noise.exploring)[0].argmax()) > 0.97


def test_dqn_parameter_noise_matches_epsilon_greedy_kl():
    model = make(param_noise=True, exploration_initial_eps=0.5, exploration_final_eps=0.5)
    noise = model.parameter_noise
    wanted = -math.log(1 - 0.5 + 0.5 / N_ACTIONS)
    noise.spec.current_stddev = 50.0
    model.counters.num_timesteps = 50
    model.update(make_batch(), model.counters)
    assert noise.spec.desired_action_stddev == pytest.approx(wanted)
    assert noise.stddev == pytest.approx(50 / 1.01)
    model.update(make_batch(), model.counters)  # at the same step: once is enough
    assert noise.stddev == pytest.approx(50 / 1.01)
    noise.spec.current_stddev = 1e-6
    model.counters.num_timesteps = 100
    model.update(make_batch(), model.counters)
    assert noise.stddev == pytest.approx(1e-6 * 1.01)
    assert model.rollout_metrics()["param_noise_stddev"] == noise.stddev


# ---------------------------------------------------------------------- hyperparameters


def test_prioritised_replay_has_its_own_hyperparameters():
    own = {"alpha": 0.7, "beta0": 0.3, "beta_iters": 50, "eps": 1e-3}
    model = make(prioritized_replay=True, **{f"prioritized_replay_{name}": own[name] for name in own})
    assert model.replay_class() == (PrioritizedReplayBuffer, own)
    replay = model.replay_buffer
    assert isinstance(replay, PrioritizedReplayBuffer)
    assert {name: getattr(replay, name) for name in own} == own
    assert make().replay_class() == (ReplayBuffer, {})


@pytest.mark.parametrize(
    "kwargs",
    [
        {"prioritized_replay": True, "double_q": True, "n_steps": 3},
        {"param_noise": True, "policy_kwargs": {"layer_norm": True, "dueling": True}},
        {"replay_buffer_class": PrioritizedReplayBuffer, "max_grad_norm": None},
    ],
)
def test_options_learn_together(kwargs):
    model = make(learning_starts=20, learning_rate=1e-3, **kwargs)
    before = tables(model.policy.q_net)
    model.learn(120)
    assert model.n_updates == 25 and not np.allclose(before, tables(model.policy.q_net))


def test_adam_has_the_epsilon_of_the_paper_unless_told_otherwise():
    def group(**policy_kwargs):
        return make(QRDQN, batch_size=50, policy_kwargs=policy_kwargs).policy.optimizer.param_groups[0]

    assert group()["eps"] == pytest.approx(0.01 / 50)
    kept = group(optimizer_kwargs={"weight_decay": 0.1})
    assert kept["weight_decay"] == 0.1 and kept["eps"] == pytest.approx(0.01 / 50)
    assert group(optimizer_kwargs={"eps": 1e-4})["eps"] == 1e-4
    assert group(optimizer_class=torch.optim.AdamW)["eps"] == 1e-8


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"exploration_final_eps": 1.5}, "exploration_final_eps must be"),
        ({"target_update_interval": 0}, "target_update_interval must be"),
        ({"max_grad_norm": 0}, "max_grad_norm must be above 0"),
        ({"prioritized_replay_alpha": -1.0}, "prioritized_replay_alpha must be"),
        ({"prioritized_replay": True, "replay_buffer_class": ReplayBuffer}, "together with ReplayBuffer"),
    ],
)
def test_wrong_hyperparameters(kwargs, message):
    with pytest.raises(UserError, match=message):
        make(**kwargs)


def test_box_actions_are_refused():
    with pytest.raises(UserError, match="DQN does not support Box actions; it supports Discrete"):
        DQN("MlpPolicy", "Pendulum-v1")


# ---------------------------------------------------------------------- going on


@pytest.mark.parametrize("kwargs", [{}, {"param_noise": True}])
def test_the_state_holds_what_the_next_update_needs(tmp_path, kwargs):
    model = make(target_update_interval=7, tau=0.5, exploration_fraction=1.0, learning_starts=10, **kwargs)
    model.learn(60)
    model.save(tmp_path / "model")
    loaded = DQN.load(tmp_path / "model", env=IdentityEnv(space=spaces.Discrete(N_ACTIONS)))
    assert loaded.target_updates.last == model.target_updates.last == 60
    assert loaded.exploration_rate == model.exploration_rate
    for agent in (model, loaded):
        agent.counters.num_timesteps = 75
        torch.manual_seed(0)
        agent.update(make_batch(), agent.counters)
    mine, other = model.policy.state_dict(), loaded.policy.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    if kwargs:
        assert loaded.parameter_noise.stddev == model.parameter_noise.stddev
        assert np.array_equal(
            tables(loaded.parameter_noise.exploring), tables(model.parameter_noise.exploring)
        )


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_a_small_problem_is_learned(cls):
    """The action to take is the state that is shown."""
    model = make(
        cls,
        learning_rate=1e-2,
        learning_starts=100,
        gamma=0.5,
        target_update_interval=50,
        exploration_fraction=0.5,
        train_freq=2,
    )
    model.learn(1500)
    assert model.predict(np.arange(N_ACTIONS), deterministic=True)[0].tolist() == [0, 1, 2]
    values = model.policy.predict_values(torch.arange(N_ACTIONS)).detach().flatten().tolist()
    assert values == pytest.approx([2.0, 2.0, 2.0], abs=0.4)  # 1 / (1 - gamma)


@pytest.mark.parametrize("learner", [DQN, QRDQN])
def test_sampled_predictions_are_epsilon_greedy(learner):
    model = learner("MlpPolicy", "CartPole-v1", learning_starts=8, exploration_final_eps=0.5, seed=0)
    obs = np.zeros((4000, 4), np.float32)
    assert len(np.unique(model.predict(obs)[0])) == 1  # nothing has been explored yet
    model.learn(16)
    greedy, _ = model.predict(obs, deterministic=True)
    assert len(np.unique(greedy)) == 1
    sampled, _ = model.predict(obs, deterministic=False)
    assert sampled.dtype == greedy.dtype
    assert np.mean(sampled != greedy) == pytest.approx(model.exploration_rate / 2, abs=0.03)
