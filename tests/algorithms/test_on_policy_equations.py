"""The objectives of PPO and A2C against their definitions, and one update against the gradient of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import A2C, PPO, DummyVecEnv, RMSpropTFLike
from rlzoo.accel.fast_mlp import KnownGradients, actor_critic_loss
from rlzoo.algorithms.on_policy.a2c import a2c_loss
from rlzoo.algorithms.on_policy.ppo import ppo_loss
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.core.errors import UserError
from rlzoo.core.returns import clipped_surrogate, policy_gradient, standardized
from rlzoo.core.schedules import Counters
from rlzoo.core.types import PolicyInput, PolicyOutput
from rlzoo.envs.vec_env.vec_env import VecStep
from tests.algorithms.idle_env import IdleEnv

N_STEPS, N_ENVS = 6, 3
N = N_STEPS * N_ENVS
RNG = np.random.default_rng(0)
ROWS = {
    name: RNG.normal(size=N)
    for name in ("advantages", "returns", "values", "new_values", "log_ratio", "entropy")
}
ROWS["log_probs"] = RNG.normal(-1, 0.3, size=N)
SPACES = {"Discrete": spaces.Discrete(3), "Box": spaces.Box(-1, 1, (2,), np.float32)}


class Answers:
    """Stands in for a policy: answers what it was told to."""

    def __init__(self, entropy=True):
        self.entropy = torch.tensor(ROWS["entropy"]) if entropy else None

    def evaluate_actions(self, obs, actions):
        new_log_probs = torch.tensor(ROWS["log_probs"] + ROWS["log_ratio"])
        return torch.tensor(ROWS["new_values"])[:, None], new_log_probs, self.entropy


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("clip_range_vf", [None, 0.3])
def test_ppo_objective_is_its_definition(clip_range_vf, normalize, entropy):
    config = PPO.Config(normalize_advantage=normalize, ent_coef=0.7, vf_coef=0.4)
    names = ("advantages", "returns", "values", "log_probs")
    batch = RolloutBatch(torch.empty(N, 0), **{name: torch.tensor(ROWS[name]) for name in names})
    loss, metrics = ppo_loss(Answers(entropy), batch, 0.2, clip_range_vf, config)

    a = ROWS["advantages"]
    if normalize:
        a = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
    terms = []
    for ratio, advantage in zip(np.exp(ROWS["log_ratio"]), a, strict=True):
        terms.append(min(ratio * advantage, float(np.clip(ratio, 0.8, 1.2)) * advantage))
    moved = ROWS["new_values"] - ROWS["values"]
    if clip_range_vf is not None:
        moved = np.clip(moved, -clip_range_vf, clip_range_vf)
    value_loss = ((ROWS["values"] + moved - ROWS["returns"]) ** 2).mean()
    bonus = ROWS["entropy"].mean() if entropy else -(ROWS["log_probs"] + ROWS["log_ratio"]).mean()
    assert float(loss) == pytest.approx(-np.mean(terms) + 0.4 * value_loss - 0.7 * bonus)
    assert float(metrics["clip_fraction"]) == pytest.approx(
        (np.abs(np.exp(ROWS["log_ratio"]) - 1) > 0.2).mean()
    )
    kl = np.exp(ROWS["log_ratio"]) - 1 - ROWS["log_ratio"]
    assert float(metrics["approx_kl"]) == pytest.approx(kl.mean())


@pytest.mark.parametrize(("n_steps", "said"), [(17, "have one row, whose advantage"), (18, "be smaller")])
def test_ppo_warns_of_a_smaller_last_minibatch(n_steps, said):
    with pytest.warns(UserWarning, match=f"so the last minibatch would {said}"):
        PPO("MlpPolicy", "CartPole-v1", n_steps=n_steps, batch_size=8)


def test_ppo_keeps_the_advantage_of_a_single_row():
    class One:
        def evaluate_actions(self, obs, actions):
            return torch.zeros(1, 1), torch.zeros(1), torch.zeros(1)

    zeros = {name: torch.zeros(1) for name in ("returns", "values", "log_probs")}
    batch = RolloutBatch(torch.empty(1, 0), advantages=torch.tensor([300.0]), **zeros)
    loss, _ = ppo_loss(One(), batch, 0.2, None, PPO.Config())
    assert float(loss) == -300


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
def test_a2c_objective_is_its_definition(normalize, entropy):
    config = A2C.Config(normalize_advantage=normalize, ent_coef=0.7, vf_coef=0.4)
    values, log_probs, entropies = Answers(entropy).evaluate_actions(None, None)
    advantages, returns = torch.tensor(ROWS["advantages"]), torch.tensor(ROWS["returns"])
    loss, _ = a2c_loss(values.flatten(), log_probs, entropies, advantages, returns, config)

    a, log_prob = ROWS["advantages"], ROWS["log_probs"] + ROWS["log_ratio"]
    if normalize:
        a = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
    value_loss = ((ROWS["new_values"] - ROWS["returns"]) ** 2).mean()
    bonus = ROWS["entropy"].mean() if entropy else -log_prob.mean()
    assert float(loss) == pytest.approx(-(a * log_prob).mean() + 0.4 * value_loss - 0.7 * bonus)


@pytest.mark.parametrize("shape", [(63,), (100,), (3, 48)])
def test_equal_advantages_are_normalised_to_zero(shape):
    """A mean rounded to float32 would differ from them, by as much as their deviation from it."""
    for value in (0.1, -3.3, 1000.1):
        assert (standardized(np.full(shape, value, np.float32)) == 0).all()
    x = RNG.normal(1000, 0.01, size=shape).astype(np.float32)
    exact = (x - x.mean(-1, dtype=float, keepdims=True)) / x.std(-1, dtype=float, ddof=1, keepdims=True)
    assert standardized(x) == pytest.approx(exact, abs=1e-4)


def outputs(entropy, shape):
    """Values [..., 1], log-probabilities and entropies of a policy, with gradients."""
    torch.manual_seed(0)
    values, log_probs = torch.randn(*shape, 1).requires_grad_(), torch.randn(shape).requires_grad_()
    return values, log_probs, torch.randn(shape).requires_grad_() if entropy else None


def gradients_of(loss, tensors):
    inputs = [tensor for tensor in tensors if tensor is not None]
    if isinstance(loss, KnownGradients):
        loss.backward()
    else:
        loss.sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs]


def check_in_arrays(compute, entropy, shape):
    """Compare a loss of the outputs computed in arrays, its metrics and gradients, with the plain one."""
    ours, theirs = outputs(entropy, shape), outputs(entropy, shape)
    loss, metrics = compute(ours, True)
    plain_loss, plain_metrics = compute(theirs, False)
    assert isinstance(loss, KnownGradients) and isinstance(plain_loss, torch.Tensor)
    assert list(metrics) == list(plain_metrics)
    for name, value in metrics.items():
        value = torch.as_tensor(value, dtype=torch.float32)
        torch.testing.assert_close(value, plain_metrics[name], rtol=1e-5, atol=1e-6, msg=name)
    for by_ours, by_theirs in zip(gradients_of(loss, ours), gradients_of(plain_loss, theirs), strict=True):
        torch.testing.assert_close(by_ours, by_theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(40,), (3, 40), (1,)])
@pytest.mark.parametrize(("entropy", "ent_coef"), [(True, 0.7), (True, 0.0), (False, 0.7), (False, 0.0)])
def test_ppo_in_arrays_has_the_same_gradients(entropy, ent_coef, shape):
    config = PPO.Config(normalize_advantage=True, ent_coef=ent_coef, vf_coef=0.4)
    old = outputs(entropy, shape)[1].detach() + torch.linspace(-0.5, 0.5, shape[-1])
    advantages, returns = torch.randn(shape), torch.randn(shape)
    batch = RolloutBatch(torch.empty(0), advantages=advantages, returns=returns, log_probs=old)

    class Fixed:
        def evaluate_actions(self, obs, actions):
            return self.outputs

    def compute(tensors, in_arrays):
        policy = Fixed()
        policy.outputs = tensors
        return ppo_loss(policy, batch, 0.2, None, config, in_arrays)

    check_in_arrays(compute, entropy, shape)


def test_surrogate_learns_at_the_ends_of_the_clip_range():
    """Ratios at 1 - eps and 1 + eps are not clipped yet; beyond, only the way back is learned from."""
    advantages = np.float32([1, -1, 1, -1])
    for end, beyond in ((0.2, 0.3), (-0.2, -0.3)):
        ratio = float(np.exp(np.float32(end)))
        log_probs = np.float32([end, end, beyond, beyond])
        derivative = clipped_surrogate(
            log_probs, np.zeros(4, np.float32), advantages, abs(ratio - 1)
        ).derivative
        assert derivative[:2].tolist() == pytest.approx([-ratio / 4, ratio / 4])
        assert (derivative[2:] != 0).tolist() == ([False, True] if end > 0 else [True, False])


@pytest.mark.parametrize("shape", [(40,), (3, 40)])
@pytest.mark.parametrize(("entropy", "ent_coef"), [(True, 0.7), (True, 0.0), (False, 0.7)])
def test_a2c_in_arrays_has_the_same_gradients(entropy, ent_coef, shape):
    config = A2C.Config(ent_coef=ent_coef, vf_coef=0.4)
    advantages, returns = torch.randn(shape), torch.randn(shape)

    def compute(tensors, in_arrays):
        values, log_probs, entropies = tensors
        return a2c_loss(
            values.squeeze(-1), log_probs, entropies, advantages, returns, config, in_arrays=in_arrays
        )

    check_in_arrays(compute, entropy, shape)


@pytest.mark.parametrize(
    "why", ["double", "entropy", "compiled", "off", "dispatch", "vmap", "value clipping"]
)
def test_losses_are_plain_where_arrays_cannot_be_used(why, monkeypatch):
    values, log_probs, entropy = outputs(True, (4,))
    if why == "double":
        log_probs = log_probs.double()
    elif why == "entropy":
        entropy = entropy.mean()
    elif why != "value clipping":
        changed = {
            "compiled": ("is_compiled", lambda: True),
            "off": ("FAST", False),
            "dispatch": ("n_dispatch_modes", lambda: 1),
            "vmap": ("current_transform", lambda: "vmap"),
        }
        monkeypatch.setattr(f"rlzoo.accel.fast_mlp.{changed[why][0]}", changed[why][1])
    zeros = {name: torch.zeros(4) for name in ("advantages", "returns", "values", "log_probs")}

    class Fixed:
        def evaluate_actions(self, obs, actions):
            return values, log_probs, entropy

    batch = RolloutBatch(torch.empty(4, 0), **zeros)
    clip_range_vf = 0.3 if why == "value clipping" else None
    config = PPO.Config(ent_coef=0.7)
    loss, _ = ppo_loss(Fixed(), batch, 0.2, clip_range_vf, config, in_arrays=True)
    assert isinstance(loss, torch.Tensor)
    if clip_range_vf is None:
        loss, _ = a2c_loss(
            values.flatten(),
            log_probs,
            entropy,
            zeros["advantages"],
            zeros["returns"],
            config,
            in_arrays=True,
        )
        assert isinstance(loss, torch.Tensor)


def test_losses_in_arrays_overflow_without_a_warning():
    huge = np.float32([1e30, -1e30])
    with warnings.catch_warnings(action="error"):
        surrogate = clipped_surrogate(np.float32([200, np.nan]), np.zeros(2, np.float32), huge, 0.2)
        assert np.isnan(surrogate.loss) and np.isnan(surrogate.derivative[1])
        values, log_probs, entropy = outputs(True, (2,))
        objective = policy_gradient(log_probs.detach().numpy(), huge)
        loss = actor_critic_loss(values, log_probs, entropy, torch.tensor(huge), objective, A2C.Config())[1]
    assert loss["value_loss"] == float("inf")


def test_a_loss_without_parameters_is_an_error():
    loss = KnownGradients([torch.ones(3)], [torch.ones(3)])
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


@pytest.mark.parametrize("cls", [PPO, A2C])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_in_arrays_is_the_plain_one(cls, env, monkeypatch):
    def train():
        options = {"target_kl": 0.02, "n_epochs": 5, "batch_size": 8} if cls is PPO else {}
        policy_kwargs = {"net_arch": [8], "ortho_init": False}
        model = cls(
            "MlpPolicy", env, n_steps=16, ent_coef=0.01, policy_kwargs=policy_kwargs, seed=0, **options
        )
        model.learn(64)
        return model.counters.n_updates, [parameter.detach() for parameter in model.policy.parameters()]

    in_arrays = train()
    module = "ppo" if cls is PPO else "a2c"
    monkeypatch.setattr(f"rlzoo.algorithms.on_policy.{module}.takes_arrays", lambda *_: False)
    plain = train()
    assert in_arrays[0] == plain[0]
    for ours, theirs in zip(in_arrays[1], plain[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_known_gradients_leave_out_what_needs_none():
    weight, frozen = torch.ones(3, requires_grad=True), torch.ones(3)
    loss = KnownGradients([2 * weight, 2 * frozen], [torch.arange(3.0), torch.ones(3)])
    assert torch.equal(loss.grad([weight])[0], 2 * torch.arange(3.0))
    loss = KnownGradients([2 * weight, 2 * frozen], [torch.arange(3.0), torch.ones(3)])
    loss.backward(inputs=[weight])
    assert torch.equal(weight.grad, 2 * torch.arange(3.0))


OBSERVATIONS = spaces.Box(-1, 1, (4,), np.float32)


def agent(cls, space="Discrete", **kwargs):
    env = DummyVecEnv([lambda: IdleEnv(SPACES[space], OBSERVATIONS) for _ in range(N_ENVS)])
    kwargs["policy_kwargs"] = {"net_arch": [8], "ortho_init": False, **kwargs.get("policy_kwargs", {})}
    if cls is PPO:
        kwargs = {"batch_size": N, "n_epochs": 1, **kwargs}
    return cls("MlpPolicy", env, n_steps=N_STEPS, seed=0, device="cpu", **kwargs)


def rollout_of(model):
    """Made-up experience: each step ends some episode, and the last one truncates and terminates some."""
    rng = np.random.default_rng(1)
    rollout = RolloutBuffer(N_STEPS, OBSERVATIONS, model.action_space, n_envs=N_ENVS)
    rollout.start(rng.normal(size=(N_ENVS, 4)))
    for t in range(N_STEPS):
        terminated, truncated = np.zeros(N_ENVS, bool), np.zeros(N_ENVS, bool)
        terminated[t % 3] = truncated[(t + 1) % 3] = True
        truncated[t % 3] = t == 3  # both at once: the task ended
        ended = np.flatnonzero(terminated | truncated)
        final_obs = rng.normal(size=(len(ended), 4)).astype(np.float32)
        rewards = rng.normal(size=N_ENVS).astype(np.float32)
        obs = rng.normal(size=(N_ENVS, 4))
        result = VecStep(obs, rewards, terminated, truncated, ended, final_obs, [{}] * N_ENVS)
        with torch.no_grad():
            action = model.policy.act(rollout.obs_rows[t])
        rollout.add_step(t, PolicyOutput(action, None), result, np.zeros(N_ENVS, bool))
    return rollout


def n_step_targets(model, rollout, gamma, gae_lambda):
    """Advantages and returns [N] by recursion over each environment alone."""

    def value(obs):
        with torch.no_grad():
            return float(model.policy.predict_values(torch.tensor(obs)[None]))

    finals, (steps, envs) = rollout.finals()
    final_of = {(int(t), int(e)): finals[row] for row, (t, e) in enumerate(zip(steps, envs, strict=True))}
    advantages = np.zeros((N_STEPS, N_ENVS))
    for e in range(N_ENVS):
        following = 0.0
        for t in reversed(range(N_STEPS)):
            end = rollout.terminated[t, e] or rollout.truncated[t, e]
            next_value = 0.0
            if rollout.truncated[t, e] and not rollout.terminated[t, e]:
                next_value = value(final_of[t, e])
            elif not end:
                next_value = value(rollout.obs_column[t + 1, e])
            delta = rollout.rewards[t, e] + gamma * next_value - value(rollout.obs_column[t, e])
            following = delta + (0.0 if end else gamma * gae_lambda * following)
            advantages[t, e] = following
    values = [value(obs) for obs in rollout.obs_column[:-1].reshape(N, 4)]
    return torch.tensor(advantages.reshape(N)), torch.tensor(advantages.reshape(N) + values)


def log_probs_and_entropy(model, obs, actions):
    """From PyTorch's own distributions, through the modules of the policy."""
    latent = model.policy.mlp_extractor.forward_actor(obs)
    mean = model.policy.action_net(latent)
    if isinstance(model.action_space, spaces.Discrete):
        distribution = torch.distributions.Categorical(logits=mean)
        return distribution.log_prob(actions), distribution.entropy()
    distribution = torch.distributions.Normal(mean, model.policy.log_std.exp().expand_as(mean))
    return distribution.log_prob(actions).sum(-1), distribution.entropy().sum(-1)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("cls", [PPO, A2C])
def test_an_update_is_one_step_along_the_gradient(cls, space):
    """The ratio of PPO is 1 on the first pass, where its gradient is that of log pi A."""
    options = {"normalize_advantage": True, "ent_coef": 0.05, "vf_coef": 0.3, "gae_lambda": 0.9, "gamma": 0.8}
    sgd = {"optimizer_class": torch.optim.SGD}
    model = agent(cls, space, **options, learning_rate=0.5, max_grad_norm=1e9, policy_kwargs=sgd)
    rollout = rollout_of(model)
    advantages, returns = n_step_targets(model, rollout, 0.8, 0.9)
    device = torch.device("cpu")
    obs, actions = rollout.flat_obs(device), rollout.flat_actions(device)
    log_probs, entropy = log_probs_and_entropy(model, obs, actions)
    values = model.policy.value_net(model.policy.mlp_extractor.forward_critic(obs)).flatten()
    advantages = (advantages - advantages.mean()) / advantages.std()
    objective = (
        (log_probs * advantages).mean() - 0.3 * ((values - returns) ** 2).mean() + 0.05 * entropy.mean()
    )
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    gradients = torch.autograd.grad(objective, list(model.policy.parameters()))

    model.update(rollout, Counters(total_timesteps=100))
    for parameter, old, gradient in zip(model.policy.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), old + 0.5 * gradient.float(), atol=1e-6, rtol=1e-5)


def moved(model, counters=None):
    """Length of the way that one update goes in parameter space."""
    rollout = rollout_of(model)
    before = model.flat.vector.detach().clone()
    model.update(rollout, counters or Counters(total_timesteps=100))
    return float((model.flat.vector.detach() - before).norm())


@pytest.mark.parametrize("cls", [PPO, A2C])
def test_gradients_are_clipped_by_their_norm(cls):
    sgd = {"optimizer_class": torch.optim.SGD}
    model = agent(cls, learning_rate=1.0, max_grad_norm=0.01, policy_kwargs=sgd)
    assert moved(model) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("cls", [PPO, A2C])
def test_the_learning_rate_follows_the_clock(cls):
    sgd = {"optimizer_class": torch.optim.SGD}
    model = agent(cls, learning_rate="lin_1.0", max_grad_norm=0.01, policy_kwargs=sgd)
    assert moved(model, Counters(num_timesteps=75, total_timesteps=100)) == pytest.approx(0.0025, rel=1e-3)


def test_clip_ranges_follow_the_clock():
    model = agent(PPO, clip_range="lin_0.4", clip_range_vf=lambda remaining: remaining)
    metrics = model.update(rollout_of(model), Counters(num_timesteps=75, total_timesteps=100))
    assert metrics["clip_range"] == pytest.approx(0.1) and metrics["clip_range_vf"] == pytest.approx(0.25)


def test_an_update_stops_before_the_step_that_would_go_too_far():
    counters = Counters(total_timesteps=100)
    model = agent(PPO, n_epochs=20, learning_rate=0.05, target_kl=0.01)
    metrics = model.update(rollout_of(model), counters)
    assert 0 < counters.n_updates < 20
    clock_without = Counters(total_timesteps=100)
    free = agent(PPO, n_epochs=20, learning_rate=0.05)
    free_metrics = free.update(rollout_of(free), clock_without)
    assert clock_without.n_updates == 20 and metrics["approx_kl"] < free_metrics["approx_kl"]


@pytest.mark.parametrize("cls", [PPO, A2C])
@pytest.mark.parametrize(("every", "draws"), [(-1, 1), (2, 4), (4, 3)])
def test_noise_is_drawn_anew_as_often_as_asked(cls, every, draws, monkeypatch):
    """Once before a rollout of 6 steps, and at each step that `sde_sample_freq` divides, the first too."""
    model = agent(cls, "Box", use_sde=True, sde_sample_freq=every)
    drawn = []
    monkeypatch.setattr(model.policy, "reset_noise", lambda n_envs: drawn.append(n_envs))
    model.begin_rollout()
    with torch.inference_mode():
        for t in range(N_STEPS):
            model.act(PolicyInput(torch.zeros(N_ENVS, 4), np.zeros(N_ENVS, bool), t, Counters()))
    assert drawn == [N_ENVS] * draws


def test_a2c_makes_the_optimiser_that_was_asked_for():
    group = agent(A2C, rms_prop_eps=1e-3).policy.optimizer.param_groups[0]
    assert (group["alpha"], group["eps"]) == (0.99, 1e-3)
    assert isinstance(agent(A2C, use_rms_prop=False).policy.optimizer, torch.optim.Adam)
    agent(A2C, policy_kwargs={"optimizer_kwargs": None})
    own = {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 0.5}}
    optimizer = agent(A2C, policy_kwargs=own).policy.optimizer
    assert isinstance(optimizer, RMSpropTFLike) and optimizer.param_groups[0]["eps"] == 0.5


@pytest.mark.parametrize(
    "values", [{"clip_range": "lin_-0.2"}, {"learning_rate": "-1e-3"}, {"clip_range": "0"}]
)
def test_schedules_below_the_range_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(UserError, match=next(iter(values))):
        PPO.Config(**values)
    assert PPO.Config(**dict.fromkeys(values, "lin_0.1"))
