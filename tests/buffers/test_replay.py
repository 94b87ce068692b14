"""The replay buffer against one that stores everything: the same transitions, whatever ends when and wherever
the ring wraps around."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces
from naive_replay import COLOUR, DICT, FRAME, VECTOR, NaiveReplay, RandomEnvs, assert_same, sample

from rlzoo.buffers.base_buffer import map_obs
from rlzoo.buffers.replay.dict_replay_buffer import DictReplayBuffer
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer, ReplayBuffer
from rlzoo.buffers.replay.replay_file import load_replay_buffer, save_replay_buffer
from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import SimpleMultiObsEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecStep
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize

ACTIONS = spaces.Box(-1, 1, (2,))
NO_END = np.zeros(0, np.int64)


def make(envs, rows, n_steps=1, **kwargs):
    """A buffer of `rows` steps and its slow double."""
    kwargs.setdefault("frame_stack", envs.n_stack)
    replay = ReplayBuffer(
        rows * envs.n_envs, envs.space, ACTIONS, n_envs=envs.n_envs, n_steps=n_steps, gamma=0.9, **kwargs
    )
    return replay, NaiveReplay(rows, n_steps, timeouts=kwargs.get("handle_timeout_termination", True))


def drive(envs, replay, naive, steps, restart=0.05, check=0.1):
    """Random steps, with new starts in the middle, compared at random moments and at the end."""
    obs = envs.reset()
    replay.start(obs)
    naive.start(obs)
    for _ in range(steps):
        if envs.rng.random() < restart:
            obs = envs.reset(filled=envs.rng.random() < 0.5) if envs.n_stack > 1 else envs.reset()
            replay.start(obs)
            naive.start(obs)
        actions, result = envs.actions(), envs.step()
        replay.add_step(torch.from_numpy(actions) if envs.rng.random() < 0.5 else actions, result)
        naive.add(actions, result)
        map_obs(lambda array: array.fill(0), result.obs)  # the buffer must not hold on to what it was given
        if envs.rng.random() < check:
            assert_same(replay, naive)
    assert_same(replay, naive)


def step(obs, final=None, terminated=False, truncated=False, reward=0.0):
    ended = np.array([0]) if terminated or truncated else NO_END
    flags = np.array([terminated]), np.array([truncated])
    return VecStep(obs, np.array([reward], np.float32), *flags, ended, final, [{}])


# -- against the slow double ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_steps", [1, 3, 7])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 9, 60])
@pytest.mark.parametrize("space", [VECTOR, DICT], ids=["vector", "dict"])
def test_every_transition_is_what_happened(space, rows, n_envs, n_steps, seed):
    envs = RandomEnvs(space, n_envs, seed)
    drive(envs, *make(envs, rows, n_steps), steps=2 * rows + 30)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 9, 60])
@pytest.mark.parametrize("space, n_stack", [(FRAME, 4), (COLOUR, 2), (COLOUR, 3)])
def test_stacks_are_made_again_as_they_were(space, n_stack, rows, n_envs, n_steps, seed):
    envs = RandomEnvs(space, n_envs, seed, ends=0.15, n_stack=n_stack)
    drive(envs, *make(envs, rows, n_steps), steps=2 * rows + 40)


@pytest.mark.parametrize("ends", [0.0, 1.0])
@pytest.mark.parametrize("n_stack", [1, 4])
def test_no_end_at_all_and_an_end_at_every_step(n_stack, ends):
    envs = RandomEnvs(FRAME, 2, 0, ends=ends, n_stack=n_stack)
    drive(envs, *make(envs, 8, n_steps=3), steps=40, restart=0.0)


def test_without_timeouts_a_truncation_is_a_termination():
    envs = RandomEnvs(VECTOR, 2, 0)
    replay, naive = make(envs, 20, handle_timeout_termination=False)
    drive(envs, replay, naive, steps=50)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint32, np.int64, np.float16])
def test_any_kind_of_number(dtype):
    envs = RandomEnvs(spaces.Box(0, 100, (3,), dtype), 2, 0)
    drive(envs, *make(envs, 10), steps=30)


def test_stored_whole_a_stack_is_the_same():
    envs = RandomEnvs(FRAME, 2, 0, n_stack=4)
    drive(envs, *make(envs, 10, frame_stack=1), steps=30)


@pytest.mark.parametrize("space, n_stack", [(VECTOR, 1), (DICT, 1), (FRAME, 4)])
def test_columns_that_are_written_as_tensors(space, n_stack):
    """As they are where numpy has no view of them, on another device."""
    envs = RandomEnvs(space, 2, 0, n_stack=n_stack)
    replay, naive = make(envs, 10, n_steps=2)
    columns = replay.obs.columns.values() if space is DICT else [replay.obs.columns]
    for column in (*columns, replay.action_column):
        column._writer = torch.from_numpy(column._writer)
    drive(envs, replay, naive, steps=40)
    memory = io.BytesIO()
    save_replay_buffer(memory, replay)
    memory.seek(0)
    replay.reset()
    load_replay_buffer(memory, replay, truncate_last_traj=False)
    assert_same(replay, naive)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("space, n_stack", [(VECTOR, 1), (DICT, 1), (FRAME, 4)])
def test_columns_on_a_device(space, n_stack):
    envs = RandomEnvs(space, 2, 0, n_stack=n_stack)
    drive(envs, *make(envs, 10, n_steps=2, buffer_device="cuda"), steps=40)


def test_a_start_makes_the_last_transition_a_truncated_one():
    replay = ReplayBuffer(5, VECTOR, ACTIONS, n_steps=3, gamma=0.5)
    replay.start(np.full((1, 3), 1.0))
    replay.add_step(np.zeros((1, 2)), step(np.full((1, 3), 2.0), reward=1.0))
    replay.start(np.full((1, 3), 7.0))
    replay.start(np.full((1, 3), 8.0))  # nothing happened in between
    replay.add_step(np.zeros((1, 2)), step(np.full((1, 3), 9.0), reward=4.0))
    batch = replay._assemble(np.array([0, 1]))
    assert batch.observations[:, 0].tolist() == [1, 8]
    assert batch.next_observations[:, 0].tolist() == [2, 9]
    assert batch.rewards.tolist() == [1, 4] and batch.discounts.tolist() == [0.5, 0.5]


def test_n_step_returns_by_hand():
    replay = NStepReplayBuffer(10, VECTOR, ACTIONS, gamma=0.5)
    replay.start(np.full((1, 3), 0.0))
    for t in range(1, 5):
        replay.add_step(np.zeros((1, 2)), step(np.full((1, 3), t), reward=t))
    final = np.full((1, 3), 100.0)
    replay.add_step(np.zeros((1, 2)), step(np.full((1, 3), 6.0), final, terminated=True, reward=5.0))
    replay.add_step(np.zeros((1, 2)), step(np.full((1, 3), 7.0), reward=6.0))
    batch = replay._assemble(np.arange(6))
    assert batch.rewards.tolist() == [1 + 1 + 0.75, 2 + 1.5 + 1, 3 + 2 + 1.25, 4 + 2.5, 5, 6]
    assert batch.discounts.tolist() == [0.125, 0.125, 0, 0, 0, 0.5]
    assert batch.next_observations[:, 0].tolist() == [3, 4, 100, 100, 100, 7]


# -- the public face for scripts ------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("space, n_stack", [(VECTOR, 1), (DICT, 1), (FRAME, 4)])
def test_add_takes_a_trajectory_as_a_loop_does(space, n_stack, n_steps):
    envs = RandomEnvs(space, 3, 0, n_stack=n_stack)
    replay, naive = make(envs, 12, n_steps)
    obs = envs.reset()
    naive.start(obs)
    for _ in range(40):
        obs, actions, result = map_obs(np.array, obs), envs.actions(), envs.step()
        naive.add(actions, result)
        dones = result.terminated | result.truncated
        limits = result.truncated & ~result.terminated
        infos = [{"TimeLimit.truncated": bool(limit)} for limit in limits]
        replay.add(obs, naive.steps[-1]["next_obs"], actions, result.rewards, dones, infos)
        obs = result.obs
        assert_same(replay, naive)
    if space is VECTOR:  # what the next transition begins with is not stored again
        assert len(replay.obs.finals) < 36


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("space", [VECTOR, DICT], ids=["vector", "dict"])
def test_add_accepts_unrelated_transitions(space, n_steps):
    envs = RandomEnvs(space, 2, 0)
    replay, naive = make(envs, 7, n_steps)
    for _ in range(30):
        obs, next_obs, actions = envs.draw(2), envs.draw(2), envs.actions()
        replay.add(obs, next_obs, actions, np.ones(2), np.zeros(2, bool), [{}, {}])
        naive.start(obs)
        result = VecStep(next_obs, np.ones(2), np.zeros(2, bool), np.zeros(2, bool), NO_END, None, [{}, {}])
        naive.add(actions, result)
        assert_same(replay, naive)


def test_add_reshapes_what_one_environment_gives():
    replay = ReplayBuffer(4, spaces.Discrete(5), spaces.Discrete(3))
    replay.add(np.array(1), np.array(2), np.array([2]), 1.0, True, [{}])
    batch = replay.draw(2)
    assert batch.observations.tolist() == [1, 1] and batch.next_observations.tolist() == [2, 2]
    assert batch.actions.tolist() == [2, 2] and batch.actions.dtype == torch.int64
    assert batch.discounts.tolist() == [0, 0]


def test_add_refuses_stacks_that_do_not_follow():
    envs = RandomEnvs(FRAME, 1, 0, n_stack=4)
    replay, _ = make(envs, 5)
    unrelated = [sample(envs.space, 1, envs.rng) for _ in range(2)]
    with pytest.raises(UserError, match="moved on by one frame"):
        replay.add(*unrelated, np.zeros((1, 2)), 0.0, False, [{}])


# -- drawing --------------------------------------------------------------------------------------


def filled(rows=50, n_envs=2, steps=120, **kwargs):
    envs = RandomEnvs(VECTOR, n_envs, 1)
    replay, naive = make(envs, rows, **kwargs)
    drive(envs, replay, naive, steps, check=0.0)
    return replay


@pytest.mark.parametrize("steps", [30, 50, 120])
def test_every_transition_is_drawn_and_no_other(steps):
    replay = filled(steps=steps)
    torch.manual_seed(0)
    drawn = Counter(replay.draw(20_000).indices.tolist())
    slots = (replay.oldest + np.arange(replay.size())) % replay.n_slots
    assert set(drawn) == {int(slot) * 2 + env for slot in slots for env in range(2)}
    expected = 20_000 / len(replay)
    chi_squared = sum((count - expected) ** 2 / expected for count in drawn.values())
    assert chi_squared < 1.6 * len(replay)


def test_batches_drawn_together_are_those_of_one_large_draw():
    replay = filled()
    torch.manual_seed(3)
    batches = list(replay.batches(5, 32))
    torch.manual_seed(3)
    whole = replay.draw(160)
    assert len(batches) == 5
    for name in ("observations", "actions", "next_observations", "rewards", "discounts"):
        assert torch.equal(torch.cat([getattr(batch, name) for batch in batches]), getattr(whole, name))
        assert all(len(getattr(batch, name)) == 32 for batch in batches)
    assert np.array_equal(np.concatenate([batch.indices for batch in batches]), whole.indices)


def test_batches_are_gathered_in_bounded_memory(monkeypatch):
    replay = filled()
    counts = []
    assemble = replay._assemble
    monkeypatch.setattr(replay, "_assemble", lambda rows: counts.append(len(rows)) or assemble(rows))
    monkeypatch.setattr("rlzoo.buffers.replay.replay_buffer.CHUNK_BYTES", 10_000)
    assert len(list(replay.batches(7, 32))) == 7
    assert sum(counts) == 7 * 32 and 32 <= max(counts) < 7 * 32


def test_the_draw_follows_the_generator_of_torch():
    replay = filled()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = replay.draw(8).indices
    torch.set_rng_state(state)
    assert np.array_equal(replay.draw(8).indices, first)


def test_dict_batches():
    envs = RandomEnvs(DICT, 2, 0)
    replay, naive = make(envs, 10)
    drive(envs, replay, naive, 20, check=0)
    batch = next(iter(replay.batches(3, 4)))
    assert {key: tuple(value.shape) for key, value in batch.observations.items()} == {
        "a": (4, 3), "b": (4,), "c": (4, 1, 3, 4)
    }  # fmt: skip
    assert batch.observations["a"].dtype == torch.float32 and batch.observations["c"].dtype == torch.uint8


# -- VecNormalize ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 3])
def test_what_is_drawn_is_scaled_by_present_statistics(n_steps):
    replay = filled(n_steps=n_steps)
    normalizer = VecNormalize(FakeVenv(), clip_reward=0.8)
    normalizer.obs_rms.update(np.random.default_rng(0).normal(3, 5, (100, 3)))
    normalizer.ret_rms.update(np.random.default_rng(0).normal(0, 2, 100))
    indices = (replay.oldest * 2 + np.arange(len(replay))) % (2 * replay.n_slots)
    raw = replay._assemble(indices)
    replay.normalizer = normalizer
    scaled = replay._assemble(indices)
    for name in ("observations", "next_observations"):
        expected = normalizer.normalize_obs(getattr(raw, name).numpy())
        np.testing.assert_array_equal(getattr(scaled, name), expected)
    assert scaled.observations.dtype == scaled.rewards.dtype == torch.float32
    assert torch.equal(scaled.discounts, raw.discounts)
    if n_steps == 1:
        np.testing.assert_array_equal(scaled.rewards, normalizer.normalize_reward(raw.rewards.numpy()))
    else:  # each reward is clipped before they are summed
        whole = np.flatnonzero(scaled.discounts == np.float32(0.9**3))
        assert len(whole) > 5
        for row in whole:
            rewards = replay.reward_column.reshape(-1).take(indices[row] + 2 * np.arange(3), mode="wrap")
            expected = (normalizer.normalize_reward(rewards) * 0.9 ** np.arange(3)).sum()
            assert scaled.rewards[row] == pytest.approx(expected, rel=1e-5)


def test_sample_takes_a_normalizer_of_its_own():
    replay = filled()
    normalizer = VecNormalize(FakeVenv())
    normalizer.obs_rms.update(np.full((10, 3), 100.0) + np.arange(10)[:, None])
    assert replay.draw(20, env=normalizer).observations.mean() < -1
    assert replay.normalizer is None and replay.draw(20).observations.mean() > -1


class FakeVenv(DummyVecEnv):
    def __init__(self):
        self.num_envs, self.observation_space, self.action_space = 1, VECTOR, ACTIONS
        self.render_mode = None
        self.reset_infos = [{}]


def test_vec_normalize_shows_what_it_was_given():
    envs = VecNormalize(DummyVecEnv([SimpleMultiObsEnv] * 2), norm_obs_keys=["vec"])
    envs.reset()
    assert envs.raw_final_obs is None
    for _ in range(400):
        result = envs.step_arrays(np.array([envs.action_space.sample() for _ in range(2)]))
        if len(result.ended):
            break
    raw = envs.raw_final_obs["vec"]
    assert raw.shape == (len(result.ended), *envs.observation_space["vec"].shape)
    np.testing.assert_array_equal(envs.normalize_obs(envs.raw_final_obs)["vec"], result.final_obs["vec"])
    assert not np.array_equal(raw, result.final_obs["vec"])
    envs.reset()
    assert envs.raw_final_obs is None


# -- size, memory, mistakes -----------------------------------------------------------------------


def test_sizes():
    replay = ReplayBuffer(10, VECTOR, ACTIONS, n_envs=3, gamma=0.9)
    assert replay.buffer_size == 3 and replay.size() == 0 and not replay.full and not replay.can_sample()
    envs = RandomEnvs(VECTOR, 3, 0)
    replay.start(envs.reset())
    for expected in (1, 2, 3, 3):
        replay.add_step(envs.actions(), envs.step())
        assert replay.size() == expected and len(replay) == 3 * expected
        assert replay.full == (expected == 3)
    replay.reset()
    assert len(replay) == 0 and len(replay.obs.finals) == 0
    drive(envs, replay, NaiveReplay(3), 10)


@pytest.mark.parametrize("space, n_stack", [(VECTOR, 1), (DICT, 1), (FRAME, 4)])
def test_episodes_go_on_after_a_reset(space, n_stack):
    envs = RandomEnvs(space, 3, 0, n_stack=n_stack)
    replay, naive = make(envs, 12, 1)
    drive(envs, replay, naive, 20, restart=0)
    obs = replay.obs.current(replay.head)
    replay.reset()
    again = NaiveReplay(12)
    again.start(obs)
    for _ in range(6):
        actions, result = envs.actions(), envs.step()
        replay.add_step(actions, result)
        again.add(actions, result)
    assert_same(replay, again)


def test_a_million_atari_transitions_need_less_than_8_gb():
    image = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    arguments = (image, spaces.Discrete(6))
    required = ReplayBuffer.required_bytes(1_000_000, *arguments, frame_stack=4)
    assert 7e9 < required < 7.2e9
    # episodes of a quarter of the usual length, each with a final frame kept aside
    envs = RandomEnvs(spaces.Box(0, 255, (1, 84, 84), np.uint8), 2, 0, ends=1 / 50, n_stack=4)
    replay = ReplayBuffer(2000, *arguments, n_envs=2, frame_stack=4)
    assert replay.nbytes == ReplayBuffer.required_bytes(2000, *arguments, n_envs=2, frame_stack=4)
    replay.start(envs.reset())
    for _ in range(2500):
        replay.add_step(np.zeros(2, np.int64), envs.step())
    assert len(replay) == 2000 and len(replay.obs.finals) > 20
    assert replay.nbytes * 500 < 8e9


@pytest.mark.parametrize("space", [VECTOR, DICT, spaces.MultiBinary(5)], ids=str)
@pytest.mark.parametrize("actions", [ACTIONS, spaces.Discrete(3), spaces.MultiDiscrete([2, 3])], ids=str)
def test_the_memory_that_is_needed_is_known_before(space, actions):
    needed = ReplayBuffer.required_bytes(1000, space, actions, n_envs=4, n_steps=3, buffer_device="cpu")
    assert needed == ReplayBuffer(1000, space, actions, n_envs=4, optimize_memory_usage=True).nbytes


def test_final_observations_do_not_pile_up():
    envs = RandomEnvs(VECTOR, 2, 0, ends=0.8)
    replay, _ = make(envs, 10)
    replay.start(envs.reset())
    for _ in range(1000):
        replay.add_step(envs.actions(), envs.step())
    assert len(replay.obs.finals) <= 2 * 11 and replay.obs.finals.capacity <= 64


def test_frames_from_before_a_start_do_not_pile_up():
    envs = RandomEnvs(FRAME, 2, 0, n_stack=4)
    replay, naive = make(envs, 10)
    drive(envs, replay, naive, steps=600, restart=0.5, check=0.0)
    assert 0 < len(replay.obs.older) <= 60


def test_final_obs_store_grows_while_collecting():
    replay = ReplayBuffer(10, VECTOR, ACTIONS)
    final = np.zeros((1, 3))
    with torch.inference_mode():
        replay.start(final)
        replay.add_step(torch.zeros(1, 2), step(final, final, terminated=True))
    replay.add_step(torch.zeros(1, 2), step(final, final, terminated=True))
    assert not replay.draw(3).observations.is_inference()


def test_mistakes_are_named():
    with pytest.raises(UserError, match="buffer_size must be at least 1, not -1"):
        ReplayBuffer(-1, VECTOR, ACTIONS)
    with pytest.raises(UserError, match="n_steps must be at least 1, not -1"):
        ReplayBuffer(5, VECTOR, ACTIONS, n_steps=-1)
    with pytest.raises(UserError, match="frame_stack=4 needs images"):
        ReplayBuffer(5, VECTOR, ACTIONS, frame_stack=4)
    with pytest.raises(UserError, match="DictReplayBuffer is for Dict"):
        DictReplayBuffer(5, VECTOR, ACTIONS)
    assert len(DictReplayBuffer(5, DICT, ACTIONS)) == 0
    assert isinstance(ReplayBuffer(5, DICT, ACTIONS), DictReplayBuffer)
    assert not isinstance(ReplayBuffer(5, VECTOR, ACTIONS), DictReplayBuffer)
    assert not isinstance(ReplayBuffer(5, DICT, ACTIONS), type("Own", (DictReplayBuffer,), {}))
    replay = ReplayBuffer(5, VECTOR, ACTIONS)
    with pytest.raises(UserError, match="nothing to sample"):
        replay.draw(3)
    with pytest.raises(UserError, match="nothing to sample"):
        next(replay.batches(1, 3))
    with pytest.raises(UserError, match="call start"):
        replay.add_step(np.zeros((1, 2)), step(np.zeros((1, 3))))
