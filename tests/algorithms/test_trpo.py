"""The step of TRPO against the natural gradient, its trust region, its line search, its critic."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import TRPO, DummyVecEnv, UserError, flat_grad
from rlzoo.algorithms.on_policy import trpo
from rlzoo.algorithms.on_policy.trpo import TRPOConfig, trpo_objective
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.core.schedules import Counters
from rlzoo.core.types import PolicyOutput
from rlzoo.distributions import Categorical, DiagGaussian, SquashedDiagGaussian
from rlzoo.envs.vec_env.vec_env import VecStep
from tests.algorithms.idle_env import IdleEnv

N_STEPS, N_ENVS = 16, 3
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Box": spaces.Box(-1, 1, (2,), np.float32),
    "Box0": spaces.Box(-1, 1, (), np.float32),
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary((2, 2)),
}
CASES = [*((name, {}) for name in ACTIONS), ("Box", {"use_sde": True})]


OBSERVATIONS = spaces.Box(-1, 1, (4,), np.float32)


def agent(space: str = "Discrete", **kwargs: Any) -> TRPO:
    env = DummyVecEnv([lambda: IdleEnv(ACTIONS[space], OBSERVATIONS) for _ in range(N_ENVS)])
    kwargs["policy_kwargs"] = {"net_arch": [8], "ortho_init": False, **kwargs.get("policy_kwargs", {})}
    return TRPO(
        "MlpPolicy",
        env,
        seed=0,
        device="cpu",
        **{"n_steps": N_STEPS, "batch_size": 8, "sum_kl": True, **kwargs},
    )


def rollout_of(model: TRPO, truncated: bool = False) -> RolloutBuffer:
    """Made-up experience; every fourth step ends an episode, by termination or truncation."""
    rng = np.random.default_rng(1)
    rollout = RolloutBuffer(N_STEPS, OBSERVATIONS, model.action_space, n_envs=N_ENVS)
    rollout.start(rng.normal(size=(N_ENVS, 4)))
    for t in range(N_STEPS):
        ends, never = np.full(N_ENVS, t % 4 == 3), np.zeros(N_ENVS, bool)
        ended = np.flatnonzero(ends)
        obs = rng.normal(size=(N_ENVS, 4))
        rewards = rng.normal(size=N_ENVS).astype(np.float32)
        how = (never, ends) if truncated else (ends, never)
        result = VecStep(obs, rewards, *how, ended, 2 * obs[ended], [{}] * N_ENVS)
        with torch.no_grad():
            action = model.policy.act(rollout.obs_rows[t])
        rollout.add_step(t, PolicyOutput(action, None), result, np.zeros(N_ENVS, bool))
    return rollout


def batch_of(model: TRPO, rollout: RolloutBuffer) -> RolloutBatch:
    batch = model.read_rollout(rollout)
    batch.log_probs, *_ = model.old_values(rollout, batch)
    batch.advantages = torch.from_numpy(rollout.rewards.reshape(-1))
    return batch


def distribution_now(model: TRPO, obs: torch.Tensor) -> Any:
    """The distribution of the policy, for comparison with what it will be."""
    with torch.no_grad():
        return copy.deepcopy(model.policy.get_distribution(obs))


def divergence(model: TRPO, old: Any, obs: torch.Tensor) -> float:
    with torch.no_grad():
        return float(old.kl(model.policy.get_distribution(obs)).mean())


def test_the_objective_is_its_definition() -> None:
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.5, 0.5]])
    batch = RolloutBatch(
        torch.empty(3, 0),
        actions=torch.tensor([0, 1, 1]),
        log_probs=torch.tensor([-1.0, -2.0, -0.5]),
        advantages=torch.tensor([1.0, -2.0, 3.0]),
    )
    p = torch.softmax(logits, 1).numpy()
    chosen = p[range(3), [0, 1, 1]]
    expected = (chosen / np.exp([-1.0, -2.0, -0.5]) * [1.0, -2.0, 3.0]).mean()
    distribution = Categorical(2).proba_distribution(logits)
    assert float(trpo_objective(distribution, batch, TRPOConfig())) == pytest.approx(expected, rel=1e-5)
    bonus = 0.3 * -(p * np.log(p)).sum(1).mean()
    assert float(trpo_objective(distribution, batch, TRPOConfig(ent_coef=0.3))) == pytest.approx(
        expected + bonus
    )


def test_without_a_closed_form_the_entropy_is_estimated() -> None:
    mean, log_std = torch.zeros(3, 1), torch.zeros(1)
    squashed = SquashedDiagGaussian(1).proba_distribution(mean, log_std)
    actions = torch.tensor([[0.1], [0.5], [-0.7]])
    log_probs = squashed.log_prob(actions)
    batch = RolloutBatch(torch.empty(3, 0), actions, log_probs=log_probs, advantages=torch.zeros(3))
    objective = trpo_objective(squashed, batch, TRPOConfig(ent_coef=0.5))
    torch.testing.assert_close(objective, -0.5 * log_probs.mean())
    assert isinstance(squashed, DiagGaussian)


@pytest.mark.parametrize("space", ["Discrete", "Box"])
def test_trpo_step_reaches_the_trust_region_boundary(space: str) -> None:
    """Against the Fisher matrix found by differentiating the divergence twice, and a direct solver."""
    model = agent(
        space, cg_max_steps=200, cg_damping=1e-3, line_search_max_iter=1, normalize_advantage=False,
        target_kl=1e-5, policy_kwargs={"net_arch": [2]},
    )  # fmt: skip
    batch = batch_of(model, rollout_of(model))
    parameters = model.actor_flat.parameters
    old = distribution_now(model, batch.obs)
    distribution = model.policy.get_distribution(batch.obs)
    ratio = (distribution.log_prob(batch.actions) - batch.log_probs).exp()
    gradient = flat_grad((ratio * batch.advantages).mean(), parameters, retain_graph=True)
    slope = flat_grad(old.kl(distribution).mean(), parameters, create_graph=True)
    fisher = torch.stack([flat_grad(entry, parameters, retain_graph=True) for entry in slope])
    damped = (fisher + 1e-3 * torch.eye(len(gradient))).double()
    direction = torch.linalg.solve(damped, gradient.double())
    step = direction * (2 * 1e-5 / (direction @ damped @ direction)).sqrt()

    before = model.actor_flat.vector.detach().clone()
    metrics = model.improve_policy(batch)
    moved = (model.actor_flat.vector.detach() - before).double()
    assert metrics["is_line_search_success"] == 1.0
    torch.testing.assert_close(moved, step, rtol=2e-2, atol=2e-2 * float(step.norm()))
    expected = float(step @ fisher.double() @ step) / 2
    assert divergence(model, old, batch.obs) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("space", "options"), CASES)
def test_every_update_improves_inside_the_trust_region(space: str, options: dict[str, Any]) -> None:
    model = agent(space, target_kl=0.02, **options)
    batch = batch_of(model, rollout_of(model))
    old = distribution_now(model, batch.obs)
    critic = model.critic_flat.vector.detach().clone()
    metrics = model.improve_policy(batch)
    assert metrics["is_line_search_success"] == 1.0 and metrics["policy_objective"] > 0.01
    assert 0.002 < divergence(model, old, batch.obs) <= 0.02
    assert divergence(model, old, batch.obs) == pytest.approx(float(metrics["kl_divergence_loss"]), rel=1e-4)
    assert torch.equal(critic, model.critic_flat.vector.detach())


def test_a_failed_line_search_leaves_the_policy_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = agent()
    batch = batch_of(model, rollout_of(model))
    before = model.actor_flat.vector.detach().clone()
    calls: list[float] = []

    def never_better(distribution: Any, batch: Any, config: Any) -> torch.Tensor:
        objective = trpo_objective(distribution, batch, config)
        calls.append(float(objective.detach()))
        return objective if len(calls) == 1 else objective.detach() - 100

    monkeypatch.setattr(trpo, "trpo_objective", never_better)
    metrics = model.improve_policy(batch)
    assert metrics["is_line_search_success"] == 0.0 and float(metrics["kl_divergence_loss"]) == 0.0
    assert len(calls) == 1 + model.line_search_max_iter
    assert torch.equal(before, model.actor_flat.vector.detach())
    assert all(
        torch.equal(p, q) for p, q in zip(model.actor_flat.parameters, views(model, before), strict=True)
    )


def views(model: TRPO, vector: torch.Tensor) -> list[torch.Tensor]:
    pieces = vector.split([parameter.numel() for parameter in model.actor_flat.parameters])
    return [p.view_as(like) for p, like in zip(pieces, model.actor_flat.parameters, strict=True)]


def test_too_long_steps_are_shortened_by_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third length is the first that is accepted: half of half of the step."""
    model = agent(line_search_shrinking_factor=0.5)
    batch = batch_of(model, rollout_of(model))
    before = model.actor_flat.vector.detach().clone()
    lengths: list[float] = []

    def better_from_the_third(distribution: Any, batch: Any, config: Any) -> torch.Tensor:
        objective = trpo_objective(distribution, batch, config)
        lengths.append(float((model.actor_flat.vector.detach() - before).norm()))
        return objective if len(lengths) in (1, 4) else objective.detach() - 100

    monkeypatch.setattr(trpo, "trpo_objective", better_from_the_third)
    assert model.improve_policy(batch)["is_line_search_success"] == 1.0
    np.testing.assert_allclose(lengths[1:], [lengths[1], lengths[1] / 2, lengths[1] / 4], rtol=1e-4)
    assert float((model.actor_flat.vector.detach() - before).norm()) == pytest.approx(lengths[3])


@pytest.mark.parametrize("space", ["Discrete", "Box0"])
def test_the_longest_step_inside_the_trust_region_is_taken(space: str) -> None:
    """With little damping the quadratic model is far off: the first lengths all lie outside."""
    model = agent(space, target_kl=0.2, cg_damping=1e-3)
    batch = batch_of(model, rollout_of(model))
    old, vector = distribution_now(model, batch.obs), model.actor_flat.vector.detach()
    before = vector.clone()
    assert model.improve_policy(batch)["is_line_search_success"] == 1.0
    assert divergence(model, old, batch.obs) <= 0.2
    vector.copy_(before + (vector - before) / model.line_search_shrinking_factor)
    assert divergence(model, old, batch.obs) > 0.2


def test_nothing_to_gain_is_no_step() -> None:
    """Equal advantages have no gradient once they are normalised."""
    model = agent()
    batch = replace(batch_of(model, rollout_of(model)), advantages=torch.ones(N_STEPS * N_ENVS))
    before = model.actor_flat.vector.detach().clone()
    model.improve_policy(batch)
    assert torch.equal(before, model.actor_flat.vector.detach())


def test_the_critic_takes_its_steps_and_the_actor_none() -> None:
    """N_STEPS * N_ENVS = 48 rows in minibatches of 8, three times over."""
    model = agent(n_critic_updates=3, learning_rate=0.01, target_kl=1e-9)
    rollout = rollout_of(model)
    actor = model.actor_flat.vector.detach().clone()
    columns = RolloutBatch(
        rollout.flat_obs(model.device), returns=torch.from_numpy(rollout.rewards.reshape(-1))
    )
    losses = model.fit_critic(columns, rollout)
    assert len(losses) == 18 and losses[-1]["value_loss"].isfinite()
    assert torch.equal(actor, model.actor_flat.vector.detach())
    (state,) = model.policy.optimizer.state.values()
    assert int(state["step"]) == 18
    assert len(agent(n_critic_updates=0).fit_critic(columns, rollout)) == 0


@pytest.mark.parametrize("truncated", [False, True])
def test_trpo_returns_bootstrap_from_the_next_value(truncated: bool) -> None:
    """With lambda 1: up to the end of the episode, and beyond it where it was truncated."""
    model = agent(gae_lambda=1.0, gamma=0.9)
    rollout = rollout_of(model, truncated)
    final = torch.tensor(2 * rollout.obs_column[4])  # of the first episode
    with torch.no_grad():
        value = model.policy.predict_values(final).flatten().numpy() * truncated
    seen: list[torch.Tensor] = []
    model.fit_critic = lambda batch, rollout: seen.append(batch.returns) or []  # type: ignore[method-assign]
    model.update(rollout, Counters(total_timesteps=100))
    expected = 0.9 ** np.arange(4) @ rollout.rewards[:4] + 0.9**4 * value
    np.testing.assert_allclose(seen[0].view(N_STEPS, N_ENVS)[0], expected, rtol=1e-4)


def test_the_learning_rate_of_the_critic_follows_its_schedule() -> None:
    model = agent(learning_rate="lin_0.01", n_critic_updates=1)
    metrics = model.update(rollout_of(model), Counters(num_timesteps=75, total_timesteps=100))
    (group,) = model.policy.optimizer.param_groups
    assert group["lr"] == metrics["learning_rate"] == pytest.approx(0.0025)


def test_what_actor_and_critic_share_is_the_actors() -> None:
    model = agent(policy_kwargs={"net_arch": [8, {"pi": [4], "vf": [4]}]})
    names = {id(p): name for name, p in model.policy.named_parameters()}
    actor = {names[id(p)] for p in model.actor_flat.parameters}
    critic = {names[id(p)] for p in model.critic_flat.parameters}
    assert actor | critic == set(names.values()) and not actor & critic
    assert {name.split(".")[-2] for name in critic} == {"0", "value_net"}
    assert {"mlp_extractor.shared_net.0.weight", "action_net.weight"} <= actor
    rollout = rollout_of(model)
    shared = model.policy.mlp_extractor.shared_net[0].weight.detach().clone()
    columns = RolloutBatch(rollout.flat_obs(model.device), returns=torch.ones(N_STEPS * N_ENVS))
    model.fit_critic(columns, rollout)
    assert torch.equal(shared, model.policy.mlp_extractor.shared_net[0].weight)


@pytest.mark.parametrize(("factor", "rows"), [(1, 48), (2, 24), (5, 10), (100, 1)])
def test_the_policy_learns_from_a_sample_and_the_critic_from_all(
    factor: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = agent(sub_sampling_factor=factor, n_critic_updates=1)
    seen: list[int] = []
    improve, fit = model.improve_policy, model.fit_critic

    def watch(batch: RolloutBatch) -> Any:
        seen.append(len(batch.actions))
        return improve(batch)

    monkeypatch.setattr(model, "improve_policy", watch)
    monkeypatch.setattr(model, "fit_critic", lambda c, r: seen.append(len(c.returns)) or fit(c, r))
    metrics = model.update(rollout_of(model), Counters(total_timesteps=100))
    assert seen == [rows, 48] and np.isfinite(float(metrics["value_loss"]))


def test_damping_and_entropy_reach_the_step() -> None:
    steps = []
    for options in ({}, {"cg_damping": 10.0}, {"ent_coef": 1.0}, {"cg_max_steps": 1}):
        model = agent(**options)
        batch = batch_of(model, rollout_of(model))
        before = model.actor_flat.vector.detach().clone()
        model.improve_policy(batch)
        steps.append(model.actor_flat.vector.detach() - before)
    assert all(not torch.allclose(steps[0], other, rtol=1e-2) for other in steps[1:])


def test_gsde_learns() -> None:
    env = gym.make("Pendulum-v1")
    model = TRPO("MlpPolicy", env, n_steps=128, use_sde=True, sde_sample_freq=4, seed=0, device="cpu")
    before = model.policy.log_std.detach().clone()
    model.learn(256)
    assert not torch.equal(before, model.policy.log_std) and model.n_updates == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("target_kl", 0), ("cg_max_steps", 0), ("line_search_shrinking_factor", 0), ("sub_sampling_factor", 0),
     ("cg_damping", -1), ("n_critic_updates", -1), ("line_search_max_iter", 0), ("batch_size", 0)],
)  # fmt: skip
def test_values_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name):
        agent(**{name: value})


def test_cartpole_gets_better() -> None:
    model = TRPO(
        "MlpPolicy", "CartPole-v1", n_steps=1024, batch_size=512, cg_damping=1e-3, n_critic_updates=20,
        seed=0, device="cpu",
    )  # fmt: skip
    model.learn(8 * 1024)
    early = np.mean([episode["l"] for episode in list(model.ep_info_buffer)[:10]])
    late = np.mean([episode["l"] for episode in list(model.ep_info_buffer)[-10:]])
    assert late > 60 and late > early


def test_kl_is_averaged_over_actions_or_summed():
    """The average with given target_kl and cg_damping is the sum with both times the number of dimensions."""

    def parameters(**kwargs):
        model = TRPO("MlpPolicy", IdentityBox3(), n_steps=64, batch_size=64, seed=0, **kwargs).learn(128)
        return torch.nn.utils.parameters_to_vector(model.policy.parameters())

    averaged = parameters(target_kl=0.02, cg_damping=0.1)
    summed = parameters(target_kl=0.06, cg_damping=0.3, sum_kl=True)
    assert torch.allclose(averaged, summed, atol=1e-5)
    assert not torch.allclose(averaged, parameters(target_kl=0.02, cg_damping=0.1, sum_kl=True), atol=1e-4)


class IdentityBox3(gym.Env):
    """Pays for actions near the observation, in three dimensions."""

    observation_space = action_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.shown, {}

    def step(self, action):
        reward = -float(np.square(action - self.shown).sum())
        self.shown = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.shown, reward, False, False, {}
