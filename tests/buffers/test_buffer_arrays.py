"""Buffers as scripts use them: arrays, named tuples, classes of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    DQN,
    PPO,
    SAC,
    ActorCriticPolicy,
    BaseBuffer,
    BaseCallback,
    DictReplayBuffer,
    DictRolloutBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
    ReplayBufferSamples,
    RolloutBuffer,
    UserError,
    VecNormalize,
    make_vec_env,
)
from rlzoo.buffers.replay.replay_batch import as_batch

BOX, ACTIONS = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))


class Steps:
    """Random transitions of two environments; `added` keeps those that were given to a buffer."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.obs = self.rng.normal(size=(2, 3)).astype(np.float32)
        self.added: list[tuple[Any, ...]] = []

    def add_to(self, buffer: ReplayBuffer, count: int) -> None:
        for _ in range(count):
            next_obs, fresh = self.rng.normal(size=(2, 2, 3)).astype(np.float32)
            action, reward = self.rng.uniform(-1, 1, (2, 2)), self.rng.normal(size=2)
            done = self.rng.random(2) < 0.3
            limit = done & (self.rng.random(2) < 0.5)
            self.added.append((self.obs, next_obs, action, reward, done, limit))
            buffer.add(
                self.obs, next_obs, action, reward, done, [{"TimeLimit.truncated": bool(x)} for x in limit]
            )
            self.obs = np.where(done[:, None], fresh, next_obs)


@pytest.mark.parametrize("count", [4, 10, 11, 37])
def test_arrays_hold_what_was_added(count: int) -> None:
    steps, buffer = Steps(), ReplayBuffer(20, BOX, ACTIONS, n_envs=2)
    steps.add_to(buffer, count)
    assert (buffer.pos, buffer.size(), buffer.full) == (count % 10, min(count, 10), count >= 10)
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    for column, name in enumerate(names):
        array = getattr(buffer, name)
        assert len(array) == 10
        for t in range(max(count - 10, 0), count):
            np.testing.assert_allclose(array[t % 10], steps.added[t][column], rtol=1e-6)
        assert not array[count:].any()


@pytest.mark.parametrize("seed", range(3))
def test_arrays_read_now_and_then_equal_arrays_read_once(seed: int) -> None:
    rng, steps, often = np.random.default_rng(seed), Steps(), ReplayBuffer(20, BOX, ACTIONS, n_envs=2)
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    for _ in range(12):
        steps.add_to(often, int(rng.integers(0, 9)))
        if often.started and rng.random() < 0.3:
            often.end_episodes()
        if rng.random() < 0.1:
            often.reset()
        read = {name: getattr(often, name).copy() for name in names}
        once = ReplayBuffer(20, BOX, ACTIONS, n_envs=2)
        vars(once).update(vars(often), _mirrors={})
        for name in names:
            np.testing.assert_array_equal(read[name], getattr(once, name), err_msg=name)


def test_arrays_read_again_copy_only_the_new_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, buffer = Steps(), ReplayBuffer(2000, BOX, ACTIONS, n_envs=2)
    steps.add_to(buffer, 500)
    assert buffer.observations.shape == (1000, 2, 3)
    copied: list[int] = []
    gather = buffer.obs.gather
    monkeypatch.setattr(buffer.obs, "gather", lambda rows: copied.append(len(rows)) or gather(rows))
    steps.add_to(buffer, 3)
    np.testing.assert_array_equal(
        buffer.observations[499:503, 0], [added[0][0] for added in steps.added[-4:]]
    )
    assert copied == [2 * 4]


def test_rewards_can_be_replaced_before_the_ring_is_full() -> None:
    steps, buffer = Steps(), ReplayBuffer(20, BOX, ACTIONS, n_envs=2)
    steps.add_to(buffer, 5)
    buffer.rewards[:] = 3
    assert (buffer.sample(50).rewards == 3).all()
    steps.add_to(buffer, 20)
    with pytest.raises(ValueError, match="read-only"):  # a copy by then
        buffer.rewards[:] = 4


def test_full_can_be_set_by_a_script() -> None:
    replay = ReplayBuffer(10, BOX, ACTIONS, n_envs=2)
    zeros = np.zeros(2)
    replay.add(np.ones((2, 3)), np.full((2, 3), 2), np.zeros((2, 2)), zeros, zeros, [{}, {}])
    pos = replay.pos
    replay.full = True
    assert (replay.size(), replay.pos, replay.full) == (replay.buffer_size, pos, True)
    assert {*replay.sample(200).observations[:, 0].tolist()} == {0.0, 1.0}  # never written, written
    replay.full = False
    assert (replay.size(), replay.sample(9).observations.unique().tolist()) == (pos, [1.0])

    rollout = RolloutBuffer(3, BOX, ACTIONS, n_envs=2)
    rollout.full = True
    assert next(rollout.get()).observations.tolist() == [[0.0] * 3] * 6


def test_samples_unpack_in_the_known_order() -> None:
    steps, buffer = Steps(), ReplayBuffer(20, BOX, ACTIONS, n_envs=2)
    steps.add_to(buffer, 9)
    samples = buffer.sample(6)
    obs, actions, next_obs, dones, rewards, discounts = samples
    assert isinstance(samples, ReplayBufferSamples) and discounts is None
    assert obs.shape == next_obs.shape == (6, 3) and actions.shape == (6, 2)
    assert dones.shape == rewards.shape == (6, 1)
    torch.manual_seed(0)
    batch = buffer.draw(6)
    torch.manual_seed(0)
    again = as_batch(buffer.sample(6), buffer.gamma)
    for name in ("observations", "actions", "next_observations", "rewards", "discounts"):
        assert getattr(batch, name).equal(getattr(again, name)), name


def test_n_step_samples_have_their_discounts() -> None:
    steps, buffer = Steps(), NStepReplayBuffer(40, BOX, ACTIONS, n_envs=2, n_steps=3, gamma=0.9)
    steps.add_to(buffer, 15)
    samples = buffer.sample(50)
    assert samples.discounts is not None
    powers = {0.9, 0.81, 0.729}
    assert {round(float(value), 6) for value in samples.discounts} <= powers


def test_sampled_dones_are_terminations_only() -> None:
    steps, buffer = Steps(), ReplayBuffer(200, BOX, ACTIONS, n_envs=2)
    steps.add_to(buffer, 60)
    samples = buffer.sample(300)
    slots, envs = np.divmod(samples.indices, 2)
    expected = [steps.added[t][4][e] and not steps.added[t][5][e] for t, e in zip(slots, envs, strict=True)]
    assert samples.dones.flatten().tolist() == [float(value) for value in expected]


def test_extend_adds_several_steps() -> None:
    buffer = ReplayBuffer(10, BOX, ACTIONS)
    zeros = [np.zeros((1, 3))] * 3
    buffer.extend(zeros, zeros, [np.zeros((1, 2))] * 3, [np.ones(1)] * 3, [np.zeros(1)] * 3, [[{}]] * 3)
    assert buffer.size() == 3 and isinstance(buffer, BaseBuffer)


class Tripled(ReplayBuffer):
    """Its own `add`, with the arguments of stable-baselines3's constructor only."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        assert all("terminal_observation" in infos[index] for index in np.flatnonzero(done))
        super().add(obs, next_obs, action, 3 * reward, done, infos)


class Shifted(ReplayBuffer):
    """Its own `sample`."""

    def sample(self, batch_size: int, env: Any = None) -> Any:
        samples = super().sample(batch_size, env)
        return samples._replace(rewards=samples.rewards + 1)


def test_an_own_add_is_called_in_training() -> None:
    arguments = {"learning_starts": 50, "buffer_size": 200, "seed": 0}
    own = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=Tripled, **arguments).learn(45)
    plain = DQN("MlpPolicy", "CartPole-v1", **arguments).learn(45)
    assert (own.replay_buffer.rewards[:45] == 3).all()
    for name in ("observations", "next_observations", "actions", "dones", "timeouts"):
        np.testing.assert_array_equal(
            getattr(own.replay_buffer, name), getattr(plain.replay_buffer, name), name
        )


def test_an_own_sample_is_learned_from() -> None:
    class Seen(Shifted):
        means: list[float] = []

        def sample(self, batch_size: int, env: Any = None) -> Any:
            samples = super().sample(batch_size, env)
            self.means.append(float(samples.rewards.mean()))
            return samples

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=Seen, learning_starts=20, train_freq=1)
    model.learn(40)
    assert len(Seen.means) == model.n_updates == 20 and set(Seen.means) == {2.0}


class OwnSamples(ReplayBuffer):
    """Transitions from the arrays, scaled by what `sample` is given."""

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        envs = np.random.randint(0, self.n_envs, size=len(batch_inds))
        dones = self.dones[batch_inds, envs] * (1 - self.timeouts[batch_inds, envs])
        columns = (
            self._normalize_obs(self.observations[batch_inds, envs, :], env),
            self.actions[batch_inds, envs, :],
            self._normalize_obs(self.next_observations[batch_inds, envs, :], env),
            dones.reshape(-1, 1),
            self._normalize_reward(self.rewards[batch_inds, envs].reshape(-1, 1), env),
        )
        return ReplayBufferSamples(*map(self.to_torch, columns))


class Forwarding(OwnSamples):
    """Passes on what `sample` is given."""

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        return super().sample(*args, **kwargs)


@pytest.mark.parametrize(
    ("normalized", "buffer_class"), [(True, OwnSamples), (False, OwnSamples), (True, Forwarding)]
)
def test_own_samples_are_normalised_as_the_agent_sees_them(normalized: bool, buffer_class: Any) -> None:
    env = make_vec_env("Pendulum-v1", 2, seed=0)
    if normalized:
        env = VecNormalize(env)
    model = SAC("MlpPolicy", env, replay_buffer_class=buffer_class, learning_starts=1000, buffer_size=500)
    model.learn(600)
    batch = next(iter(model.replay_buffer.batches(1, 6000)))
    plain = model.replay_buffer.draw(6000)
    for name in ("observations", "rewards"):
        mine, expected = getattr(batch, name), getattr(plain, name)
        torch.testing.assert_close(mine.mean(0), expected.mean(0), atol=0.1 * float(expected.std()), rtol=0)
        torch.testing.assert_close(mine.amax(0), expected.amax(0), atol=1e-5, rtol=1e-5)


def test_n_steps_make_an_n_step_buffer() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", n_steps=3, gamma=0.9, buffer_size=200)
    assert isinstance(model.replay_buffer, NStepReplayBuffer)
    assert (model.replay_buffer.n_steps, model.replay_buffer.gamma) == (3, 0.9)
    kwargs = {"n_steps": 4, "gamma": 0.95}
    model = SAC(
        "MlpPolicy", "Pendulum-v1", buffer_size=200, replay_buffer_class=NStepReplayBuffer,
        replay_buffer_kwargs=kwargs, learning_starts=10,
    ).learn(20)  # fmt: skip
    assert model.replay_buffer.gamma == 0.95 != model.gamma


def test_plain_buffers_read_each_others_files(tmp_path: Any) -> None:
    first, second = (SAC("MlpPolicy", "Pendulum-v1", n_steps=n, buffer_size=200) for n in (1, 3))
    first.learn(30)
    first.save_replay_buffer(tmp_path / "replay")
    second.load_replay_buffer(tmp_path / "replay")
    assert second.replay_buffer.size() == 30


def test_a_deleted_replay_buffer_is_loaded_again(tmp_path: Any) -> None:
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=100).learn(20)
    model.save_replay_buffer(tmp_path / "replay")
    del model.replay_buffer
    with pytest.raises(AttributeError):
        _ = model.replay_buffer
    model.load_replay_buffer(tmp_path / "replay")
    assert model.replay_buffer.size() == 20


# -- rollouts ------------------------------------------------------------------------------------


def test_a_rollout_filled_by_a_script_has_advantages() -> None:
    rng, buffer = np.random.default_rng(0), RolloutBuffer(6, BOX, spaces.Discrete(3), "cpu", 0.9, 0.95)
    rewards, values, starts = rng.normal(size=6), rng.normal(size=6), np.array([1, 0, 0, 1, 0, 0])
    for t in range(6):
        buffer.add(
            np.zeros((1, 3)), np.array([1]), rewards[t : t + 1], starts[t : t + 1],
            torch.tensor([values[t]]), torch.zeros(1),
        )  # fmt: skip
    assert buffer.full and buffer.size() == 6
    buffer.compute_returns_and_advantage(torch.tensor([0.5]), np.array([False]))
    expected, running = np.zeros(6), 0.0
    for t in reversed(range(6)):
        following, goes_on = (0.5, 1) if t == 5 else (values[t + 1], 1 - starts[t + 1])
        running = rewards[t] + 0.95 * following * goes_on - values[t] + 0.95 * 0.9 * goes_on * running
        expected[t] = running
    np.testing.assert_allclose(buffer.advantages[:, 0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(buffer.returns[:, 0], expected + values, rtol=1e-4, atol=1e-5)
    batches = list(buffer.get(4))
    assert [len(batch.actions) for batch in batches] == [4, 2] and batches[0].actions.shape == (4, 1)
    with pytest.raises(UserError, match="call reset"):
        buffer.add(np.zeros((1, 3)), [1], [0.0], [0], torch.zeros(1), torch.zeros(1))
    buffer.reset()
    with pytest.raises(UserError, match="0 of 6"):
        next(buffer.get())


class ReadRollout(BaseCallback):
    """Reads the rollout at its end, and refuses half of one."""

    def _on_step(self) -> bool:
        if self.n_calls == 3:
            with pytest.raises(UserError, match="3 of 16"):
                _ = self.model.rollout_buffer.advantages
        return True

    def _on_rollout_end(self) -> None:
        rollout = self.model.rollout_buffer
        self.returns = rollout.returns
        np.testing.assert_allclose(rollout.advantages, rollout.returns - rollout.values, atol=1e-5)
        assert rollout.size() == 16 and rollout.log_probs.shape == (16, 1)


def test_callbacks_read_the_estimates_of_a_rollout() -> None:
    callback = ReadRollout()
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, n_epochs=2, seed=0)
    model.learn(16, callback=callback)
    np.testing.assert_array_equal(model.rollout_buffer.returns, callback.returns)  # of the old policy
    plain = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, n_epochs=2, seed=0).learn(16)
    np.testing.assert_array_equal(plain.rollout_buffer.returns, callback.returns)
    for name, value in plain.policy.state_dict().items():
        assert value.equal(model.policy.state_dict()[name])


class ConstantValues(ActorCriticPolicy):
    """A policy whose own `forward` says what observations are worth."""

    def forward(self, obs: Any, deterministic: bool = False) -> Any:
        actions, values, log_probs = super().forward(obs, deterministic)
        return actions, torch.full_like(values, 2.0), log_probs


def test_an_own_forward_gives_the_values_of_a_rollout() -> None:
    model = PPO(ConstantValues, "CartPole-v1", n_steps=16, batch_size=8, n_epochs=1).learn(16)
    assert (model.rollout_buffer.values == 2).all()


def test_dict_buffers_refuse_other_spaces() -> None:
    for kind in (DictReplayBuffer, DictRolloutBuffer):
        with pytest.raises(UserError, match="for Dict observations"):
            kind(10, BOX, ACTIONS)


def test_changed_rewards_are_learned_from() -> None:
    class Curious(BaseCallback):
        bonus = 0.0

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            buffer = self.model.rollout_buffer
            before = buffer.advantages.copy()
            buffer.rewards[:] += self.bonus * np.arange(32, dtype=np.float32)[:, None]
            buffer.compute_returns_and_advantage(torch.zeros(1), self.locals["dones"])
            assert np.array_equal(before, buffer.advantages) == (self.bonus == 0)

    def parameters(bonus: float) -> torch.Tensor:
        callback = Curious()
        callback.bonus = bonus
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0)
        return torch.cat([p.flatten() for p in model.learn(32, callback).policy.parameters()])

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, seed=0).learn(32)
    with pytest.raises(UserError, match="learned from already"):
        model.rollout_buffer.compute_returns_and_advantage(torch.zeros(1), np.zeros(1))
    assert torch.equal(parameters(0.0), parameters(0.0))
    assert not torch.equal(parameters(0.0), parameters(1.0))


class Scale(BaseCallback):
    """Changes the buffer that it took before the training, as callbacks for intrinsic rewards do."""

    def __init__(self, name: str, factor: float) -> None:
        super().__init__()
        self.name, self.factor = name, factor

    def _init_callback(self) -> None:
        self.buffer = self.model.rollout_buffer

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        assert self.buffer is self.model.rollout_buffer is self.locals["rollout_buffer"]
        column = getattr(self.buffer, self.name)
        column *= self.factor
        with pytest.raises(ValueError, match="read-only"):
            self.buffer.values[:] = 0


@pytest.mark.parametrize("name", ["advantages", "returns"])
def test_estimates_changed_at_the_end_are_learned_from(name: str) -> None:
    def trained(factor: float) -> PPO:
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0)
        model.config = replace(model.config, normalize_advantage=False)
        model.learn(32, Scale(name, factor))
        return model.learn(32, Scale(name, factor))

    def parameters(model: PPO) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in model.policy.parameters()])

    plain, same, none = trained(1.0), trained(1.0), trained(0.0)
    assert torch.equal(parameters(plain), parameters(same))
    assert not torch.equal(parameters(plain), parameters(none))
    changed = getattr(none.rollout_buffer, name)
    assert not changed.any() and getattr(plain.rollout_buffer, name).all()
    other = {"advantages": "action_net", "returns": "value_net"}[name]
    fresh = PPO("MlpPolicy", "CartPole-v1", seed=0).policy
    moved = none.policy.state_dict()[f"{other}.weight"] - fresh.state_dict()[f"{other}.weight"]
    assert bool(moved.any()) == (name == "returns")  # without advantages the actor stays as it was


def test_own_get_samples_are_given_by_get() -> None:
    class Marked(RolloutBuffer):
        def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Any:
            return batch_inds, super()._get_samples(batch_inds, env)

    buffer = Marked(3, BOX, ACTIONS, n_envs=2)
    for step in range(3):
        zeros = torch.zeros(2)
        buffer.add(np.full((2, 3), step), np.zeros((2, 2)), zeros, zeros, zeros, zeros)
    rows = [row for rows, _ in buffer.get(4) for row in rows]
    assert sorted(rows) == [0, 1, 2, 3, 4, 5]
    first, batch = next(buffer.get(6))
    assert batch.observations[:, 0].tolist() == [row % 3 for row in first]


def test_mistake_in_the_constructor_of_an_own_buffer_is_named() -> None:
    class Own(ReplayBuffer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            assert self._maybe_cast_dtype(np.float64) is np.float32
            assert self._maybe_cast_dtype(np.uint8) is np.uint8
            self.missing.append(1)

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=Own, buffer_size=100)
    with pytest.raises(RuntimeError, match=r"Own\(\): 'Own' object has no attribute 'missing'"):
        _ = model.replay_buffer


def test_n_steps_changed_by_a_callback_leave_the_rollout() -> None:
    class Change(Scale):
        def _on_rollout_end(self) -> None:
            self.before = self.buffer.observations.copy()
            self.model.n_steps = 32
            _ = self.model.rollout_buffer
            np.testing.assert_array_equal(self.buffer.observations, self.before)

    callback = Change("returns", 1.0)
    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1).learn(16, callback)
    assert callback.before.any() and callback.buffer.n_steps == 16


def test_reading_estimates_does_not_change_a_later_train() -> None:
    def trained(read: bool) -> torch.Tensor:
        class Read(BaseCallback):
            def _on_step(self) -> bool:
                return True

            def _on_rollout_end(self) -> None:
                if read and self.num_timesteps == 32:  # of the first rollout alone
                    _ = self.model.rollout_buffer.advantages

        model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0)
        model.learn(64, Read())
        if read:
            _ = model.rollout_buffer.advantages
        model.train()
        return torch.cat([p.detach().flatten() for p in model.policy.parameters()])

    assert torch.equal(trained(False), trained(True))
