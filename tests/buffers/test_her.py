"""Hindsight replay against a plain record of every episode: each drawn row says where it came from."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    DQN,
    BitFlippingEnv,
    DummyVecEnv,
    GoalSelectionStrategy,
    HerReplayBuffer,
    SubprocVecEnv,
    UserError,
)
from rlzoo.buffers.replay.her_replay_buffer import GOAL_KEYS
from rlzoo.buffers.replay.replay_file import load_replay_buffer, save_replay_buffer
from rlzoo.buffers.replay.stored_infos import decode_infos, encode_infos
from rlzoo.core.errors import CheckpointError

STRATEGIES = [strategy.value for strategy in GoalSelectionStrategy]
PLACE = spaces.Box(-np.inf, np.inf, (3,), np.float64)
SPACE = spaces.Dict({"observation": PLACE, "achieved_goal": PLACE, "desired_goal": PLACE})
ACTIONS = spaces.Discrete(1000)


def pays(achieved: np.ndarray, desired: np.ndarray) -> Any:
    return (achieved * [1.0, 10.0, 100.0]).sum(axis=-1) - (desired * [3.0, 30.0, 7.0]).sum(axis=-1)


class Goals(gym.Env[Any, Any]):
    """Only `compute_reward` is asked of it."""

    observation_space, action_space = SPACE, ACTIONS

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return pays(achieved_goal, desired_goal)


class SingleGoals(Goals):
    """Takes one pair of goals at a time."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert np.shape(achieved_goal) == (3,)
        return pays(achieved_goal, desired_goal)


class InformedGoals(Goals):
    """Pays by what the info of the transition says."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        if isinstance(info, dict):
            return pays(achieved_goal, desired_goal) + info["bonus"]
        return pays(achieved_goal, desired_goal) + np.array([one["bonus"] for one in info])


class Record:
    """Drives a buffer with observations (env, episode, step), and remembers all of it.

    Desired goals are negative, achieved ones are where the agent is: a relabelled row is seen by its goal.
    """

    def __init__(self, buffer_size: int, n_envs: int, env: Any = None, seed: int = 0, **kwargs: Any) -> None:
        self.buffer = HerReplayBuffer(
            buffer_size, SPACE, ACTIONS, env=env or Goals(), n_envs=n_envs, gamma=0.5, **kwargs
        )
        self.buffer._compared = True  # rewards are made up, so as to be told from computed ones
        self.n_envs = n_envs
        self.rng = np.random.default_rng(seed)
        self.episode = np.arange(n_envs)  # the number of the present one, unique over environments
        self.step = np.zeros(n_envs, int)
        self.rows: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]  # every transition, in order
        self.buffer.start(self.obs())

    def place(self, env: int) -> np.ndarray:
        return np.array([env, self.episode[env], self.step[env]], float)

    def obs(self) -> dict[str, np.ndarray]:
        here = np.stack([self.place(env) for env in range(self.n_envs)])
        return {"observation": here, "achieved_goal": here + 0.0, "desired_goal": -1.0 - here * [1, 1, 0]}

    def advance(self, n_steps: int, end: float = 0.25) -> None:
        for _ in range(n_steps):
            terminated = self.rng.random(self.n_envs) < end / 2
            truncated = ~terminated & (self.rng.random(self.n_envs) < end / 2)
            before, self.step = self.obs(), self.step + 1
            after = self.obs()
            ended = np.flatnonzero(terminated | truncated)
            actions, rewards = self.rng.integers(0, 1000, self.n_envs), self.rng.random(self.n_envs)
            infos = [{"bonus": float(self.rng.random())} for _ in range(self.n_envs)]
            for env in range(self.n_envs):
                self.rows[env].append(
                    {
                        **{key: before[key][env] for key in GOAL_KEYS},
                        "next": {key: after[key][env] for key in GOAL_KEYS},
                        "action": actions[env],
                        "reward": rewards[env],
                        "discount": 0.0 if terminated[env] else 0.5,
                        "ended": bool(terminated[env] or truncated[env]),
                        "info": infos[env],
                    }
                )
            for env in ended:
                self.episode[env] += self.n_envs
                self.step[env] = 0
            self.buffer.add_step(
                torch.from_numpy(actions),
                SimpleNamespace(
                    obs=self.obs(),
                    rewards=rewards.astype(np.float32),
                    terminated=terminated,
                    truncated=truncated,
                    ended=ended,
                    final_obs={key: after[key][ended] for key in GOAL_KEYS} if len(ended) else None,
                    infos=infos,
                ),
            )

    def restart(self) -> None:
        """All environments are reset, whatever was going on."""
        for env, rows in enumerate(self.rows):
            if rows and not rows[-1]["ended"]:
                rows[-1]["ended"] = True
            self.episode[env] += self.n_envs
        self.step[:] = 0
        self.buffer.start(self.obs())

    def finished(self) -> list[dict[str, Any]]:
        """The transitions of finished episodes that the buffer must still have."""
        found = []
        for rows in self.rows:
            kept = rows[-self.buffer.buffer_size :]
            while kept and not kept[-1]["ended"]:
                kept = kept[:-1]
            found += kept
        return found


def goals_for(row: dict[str, Any], kept: list[dict[str, Any]], strategy: str) -> set[tuple[float, ...]]:
    """Every goal that a strategy may give a transition, worked out one by one over the transitions kept."""
    if strategy == "random":
        return {tuple(other["next"]["achieved_goal"]) for other in kept}
    episode = [other for other in kept if tuple(other["observation"][:2]) == tuple(row["observation"][:2])]
    last = max(other["observation"][2] for other in episode)
    first = {"future": row["observation"][2], "final": last, "episode": 0}[strategy]
    return {tuple(other["next"]["achieved_goal"]) for other in episode if other["observation"][2] >= first}


def by_place(rows: list[dict[str, Any]]) -> dict[tuple[float, ...], dict[str, Any]]:
    return {tuple(row["observation"]): row for row in rows}


def check_batch(record: Record, batch: Any, strategy: str) -> int:
    """Every row is a recorded transition, either as it was or relabelled as it may be; how many are."""
    kept = record.finished()
    known = by_place(kept)
    allowed: dict[tuple[float, ...], set[tuple[float, ...]]] = {}
    n_relabelled = 0
    for i in range(len(batch.rewards)):
        place = tuple(batch.observations["observation"][i].tolist())
        row = known[place]
        assert batch.actions[i] == row["action"]
        assert batch.discounts[i] == row["discount"]
        for key in ("observation", "achieved_goal"):
            np.testing.assert_array_equal(batch.observations[key][i], row[key])
            np.testing.assert_array_equal(batch.next_observations[key][i], row["next"][key])
        goal = batch.observations["desired_goal"][i].numpy()
        np.testing.assert_array_equal(goal, batch.next_observations["desired_goal"][i])
        if goal[0] < 0:
            np.testing.assert_array_equal(goal, row["desired_goal"])
            assert batch.rewards[i] == np.float32(row["reward"])
        else:
            n_relabelled += 1
            if place not in allowed:
                allowed[place] = goals_for(row, kept, strategy)
            assert tuple(goal.tolist()) in allowed[place]
            expected = pays(row["next"]["achieved_goal"], goal)
            if record.buffer.infos is not None:
                expected += row["info"]["bonus"]
            assert batch.rewards[i] == pytest.approx(expected, rel=1e-5)
    return n_relabelled


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_her_samples_stay_valid_while_overwriting(strategy: str, n_envs: int) -> None:
    torch.manual_seed(0)
    record = Record(20 * n_envs, n_envs, goal_selection_strategy=strategy)
    for n_steps in (12, 5, 9, 17, 1, 1, 1, 1, 40):
        record.advance(n_steps)
        if not record.finished():
            continue
        batch = record.buffer.draw(100)
        assert check_batch(record, batch, strategy) == 80  # 4 in 5


def chi_squared(counts: np.ndarray) -> float:
    """Of counts that should all be the same; its mean is one less than there are, if so."""
    return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())


def test_every_finished_transition_is_equally_likely() -> None:
    torch.manual_seed(1)
    record = Record(60, 2, seed=3)
    record.advance(75)
    places = [tuple(row) for row in record.buffer.draw(20_000).observations["observation"].tolist()]
    finished = by_place(record.finished())
    assert set(places) == set(finished)
    assert chi_squared(np.array([places.count(place) for place in finished])) < 2 * len(finished)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_goal_is_equally_likely(strategy: str) -> None:
    torch.manual_seed(2)
    record = Record(60, 1, goal_selection_strategy=strategy)
    record.advance(5, end=0.0)
    record.advance(1, end=2.0)
    batch = record.buffer.draw(20_000)
    goals = batch.observations["desired_goal"].numpy()
    kept = record.finished()
    for row in kept:
        here = (batch.observations["observation"].numpy() == row["observation"]).all(axis=1) & (
            goals[:, 0] >= 0
        )
        given = [tuple(goal) for goal in goals[here].tolist()]
        allowed = goals_for(row, kept, strategy)
        assert set(given) == allowed
        assert chi_squared(np.array([given.count(goal) for goal in allowed])) < 20


@pytest.mark.parametrize(
    ("n_sampled_goal", "relabelled"), [(0, 0), (1, 15), (2, 20), (4, 24), (100, 29), (2**63, 29)]
)
def test_fraction(n_sampled_goal: int, relabelled: int) -> None:
    record = Record(100, 1, n_sampled_goal=n_sampled_goal)
    record.advance(50)
    assert check_batch(record, record.buffer.draw(30), "future") == relabelled


def test_batches_are_relabelled_one_by_one() -> None:
    record = Record(100, 1)
    record.advance(50)
    batches = list(record.buffer.batches(7, 32))
    assert [len(batch.rewards) for batch in batches] == [32] * 7
    for batch in batches:
        assert check_batch(record, batch, "future") in (25, 26)


def test_episodes_that_are_cut_off_count_as_finished() -> None:
    record = Record(40, 2)
    record.advance(7, end=0.0)
    assert not record.buffer.can_sample()
    with pytest.raises(UserError, match="nothing to sample"):
        record.buffer.draw(4)
    record.restart()
    assert record.buffer.can_sample()
    check_batch(record, record.buffer.draw(64), "future")
    record.advance(5, end=0.0)
    check_batch(record, record.buffer.draw(64), "episode")
    assert len(record.finished()) == 14


def test_her_skips_unfinished_overlong_episode() -> None:
    record = Record(10, 1)
    record.advance(35, end=0.0)
    assert not record.buffer.can_sample()
    record.advance(1, end=2.0)
    assert len(record.finished()) == 10
    check_batch(record, record.buffer.draw(64), "future")
    record.advance(6, end=0.0)
    assert len(record.finished()) == 4
    assert check_batch(record, record.buffer.draw(64), "future") == 51


def test_infos_reach_compute_reward() -> None:
    record = Record(30, 2, env=InformedGoals(), copy_info_dict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            record.advance(20)
            assert check_batch(record, record.buffer.draw(50), "future") == 40
    with pytest.raises(UserError, match="copy_info_dict=True"):
        Record(30, 1, env=InformedGoals())


@pytest.mark.parametrize("copy_info_dict", [False, True])
def test_a_reward_for_one_pair_of_goals_is_asked_row_by_row(copy_info_dict: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = Record(30, 1, env=SingleGoals(), copy_info_dict=copy_info_dict)
        record.advance(30)
        for row in record.rows[0]:
            row["info"]["bonus"] = 0.0  # this reward does not depend on infos
        for _ in range(2):
            assert check_batch(record, record.buffer.draw(25), "future") == 20
    [notice] = [str(one.message) for one in caught if "compute_reward" in str(one.message)]
    assert "does not take batches" in notice


class Scaling:
    """Stands for a VecNormalize."""

    def normalize_obs(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {key: rows / 2 for key, rows in obs.items()}

    def normalize_reward(self, rewards: np.ndarray) -> np.ndarray:
        return rewards / 4


def test_goals_are_chosen_before_scaling() -> None:
    record = Record(50, 1)
    record.advance(40)
    torch.manual_seed(5)
    raw = record.buffer.draw(40)
    assert check_batch(record, raw, "future") == 32
    torch.manual_seed(5)
    scaled = record.buffer.draw(40, env=Scaling())
    for key in GOAL_KEYS:
        torch.testing.assert_close(scaled.observations[key] * 2, raw.observations[key])
        torch.testing.assert_close(scaled.next_observations[key] * 2, raw.next_observations[key])
    torch.testing.assert_close(scaled.rewards * 4, raw.rewards)


@pytest.mark.parametrize("kwargs", [{}, {"discrete_obs_space": True}, {"image_obs_space": True}])
def test_bit_flipping(kwargs: dict[str, Any]) -> None:
    venv = DummyVecEnv([lambda: BitFlippingEnv(4, **kwargs)] * 2)
    replay = HerReplayBuffer(200, venv.observation_space, venv.action_space, env=venv, n_envs=2)
    obs = venv.reset()
    replay.start(obs)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(0, 4, 2)
        replay.add_step(torch.from_numpy(actions), venv.step_arrays(actions))
    batch = replay.draw(200)
    same = (batch.next_observations["achieved_goal"] == batch.next_observations["desired_goal"]).reshape(
        200, -1
    )
    torch.testing.assert_close(batch.rewards, same.all(dim=1).float() - 1)
    for key in GOAL_KEYS:
        assert batch.observations[key].numpy().dtype == venv.observation_space[key].dtype
        assert batch.observations[key].shape[1:] == venv.observation_space[key].shape
    assert 0.3 < (batch.rewards == 0).float().mean() < 0.8


def test_worker_processes_are_asked_for_rewards() -> None:
    venv = SubprocVecEnv([lambda: BitFlippingEnv(4)] * 2)
    try:
        space = venv.observation_space
        replay = HerReplayBuffer(100, space, venv.action_space, env=venv, n_envs=2)
        replay.start(venv.reset())
        for step in range(20):
            actions = np.full(2, step % 4)
            replay.add_step(torch.from_numpy(actions), venv.step_arrays(actions))
        batch = replay.draw(64)
        same = (batch.next_observations["achieved_goal"] == batch.next_observations["desired_goal"]).all(
            dim=1
        )
        torch.testing.assert_close(batch.rewards, same.float() - 1)
        with pytest.raises(UserError, match="fails"):
            HerReplayBuffer(100, SPACE, ACTIONS, env=SubprocVecEnv([lambda: gym.make("CartPole-v1")]))
    finally:
        venv.close()


def test_her_index_is_rebuilt_from_loaded_columns() -> None:
    record = Record(40, 2)
    record.advance(3, end=0.0)
    for n_steps in (4, 30, 25):
        record.advance(n_steps)
        copy = HerReplayBuffer(40, SPACE, ACTIONS, env=Goals(), n_envs=2)
        copy.flags[:], copy.head, copy._size = record.buffer.flags, record.buffer.head, record.buffer._size
        copy.load_own_state(record.buffer.own_state())
        size = record.buffer.size()
        np.testing.assert_array_equal(
            np.minimum(copy.open_steps, size), np.minimum(record.buffer.open_steps, size)
        )
        torch.manual_seed(0)
        indices = record.buffer._draw(200)
        torch.manual_seed(0)
        np.testing.assert_array_equal(copy._draw(200), indices)
        for strategy in GoalSelectionStrategy:
            copy.goal_selection_strategy = record.buffer.goal_selection_strategy = strategy
            torch.manual_seed(1)
            goals = record.buffer._goal_indices(indices)
            torch.manual_seed(1)
            np.testing.assert_array_equal(copy._goal_indices(indices), goals)


def test_a_saved_buffer_goes_on_to_the_bit(tmp_path: Any) -> None:
    record, copy = Record(40, 2), Record(40, 2)
    record.advance(47)
    save_replay_buffer(tmp_path / "replay", record.buffer)
    load_replay_buffer(tmp_path / "replay", copy.buffer, truncate_last_traj=False)
    copy.rows, copy.step, copy.episode = record.rows, record.step.copy(), record.episode.copy()
    for _ in range(4):
        seed = record.rng.integers(1000)
        batches = []
        for each in (record, copy):
            each.rng = np.random.default_rng(seed)
            each.rows = [list(rows) for rows in each.rows]
            each.advance(5)
            torch.manual_seed(0)
            batches.append(each.buffer.draw(50))
            check_batch(each, batches[-1], "future")
        for key in GOAL_KEYS:
            assert batches[0].observations[key].equal(batches[1].observations[key])
        assert batches[0].rewards.equal(batches[1].rewards)


def test_infos_are_saved(tmp_path: Any) -> None:
    record = Record(40, 2, env=InformedGoals(), copy_info_dict=True)
    record.advance(47)
    infos = record.buffer.infos
    assert infos is not None
    infos[3, 1] = {"bonus": 2.5, "place": np.array([1.0, 2.0]), "why": ["a", None], "simulator": object()}
    with pytest.warns(UserWarning, match="infos are saved without simulator"):
        save_replay_buffer(tmp_path / "replay", record.buffer)
    del infos[3, 1]["simulator"]
    for n_steps in (20, 5):  # the whole ring, and its last steps
        copy = Record(2 * n_steps, 2, env=InformedGoals(), copy_info_dict=True).buffer
        load_replay_buffer(tmp_path / "replay", copy, truncate_last_traj=False)
        assert copy.infos is not None
        for age in range(1, n_steps + 1):
            expected = infos[(record.buffer.head - age) % record.buffer.n_slots]
            assert list(map(str, copy.infos[(copy.head - age) % copy.n_slots])) == list(map(str, expected))


def test_a_file_without_infos_is_refused_where_they_are_needed(tmp_path: Any) -> None:
    plain = Record(40, 2)
    plain.advance(10)
    save_replay_buffer(tmp_path / "replay", plain.buffer)
    informed = Record(40, 2, env=InformedGoals(), copy_info_dict=True)
    with pytest.raises(CheckpointError, match="no infos"):
        load_replay_buffer(tmp_path / "replay", informed.buffer)


@pytest.mark.parametrize("text", ["", "????", "eJyLjgUAARUAuQ==", encode_infos([{"a": 1}]), 7, None])
def test_damaged_infos_are_refused(text: Any) -> None:
    with pytest.raises(CheckpointError):
        decode_infos(text, 2)


def test_a_loaded_buffer_may_close_the_episodes_that_went_on(tmp_path: Any) -> None:
    record, copy = Record(40, 2), Record(40, 2)
    record.advance(30, end=0.1)
    save_replay_buffer(tmp_path / "replay", record.buffer)
    load_replay_buffer(tmp_path / "replay", copy.buffer)
    assert not copy.buffer.open_steps.any()
    record.restart()
    torch.manual_seed(0)
    check_batch(record, copy.buffer.draw(200), "future")


def test_refusals() -> None:
    def make(**kwargs: Any) -> HerReplayBuffer:
        arguments = {"observation_space": SPACE, "env": Goals(), **kwargs}
        return HerReplayBuffer(10, arguments.pop("observation_space"), ACTIONS, **arguments)

    with pytest.raises(UserError, match="HER needs a goal environment"):
        make(observation_space=PLACE)
    with pytest.raises(UserError, match="HER needs a goal environment"):
        make(observation_space=spaces.Dict({"observation": PLACE, "achieved_goal": PLACE}))
    smaller = spaces.Dict({**SPACE.spaces, "desired_goal": spaces.Box(0, 1, (2,))})
    with pytest.raises(UserError, match="same shape"):
        make(observation_space=smaller)
    with pytest.raises(UserError, match="n_steps=1 only"):
        make(n_steps=3)
    with pytest.raises(UserError, match="needs env"):
        make(env=None)
    with pytest.raises(UserError, match="lacks"):
        make(env=gym.make("CartPole-v1"))
    with pytest.raises(UserError, match="lacks"):
        make(env=DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    with pytest.raises(UserError, match="at least 0"):
        make(n_sampled_goal=-1)
    with pytest.raises(UserError, match="did you mean 'future'"):
        make(goal_selection_strategy="futur")


def test_strategies_by_name_and_by_member() -> None:
    assert GoalSelectionStrategy("FUTURE") is GoalSelectionStrategy.FUTURE
    assert GoalSelectionStrategy(GoalSelectionStrategy.FINAL) is GoalSelectionStrategy.FINAL
    assert STRATEGIES == ["future", "final", "episode", "random"]


class NearGoals(Goals):
    """Pays where goals differ by less than single precision can tell at this distance."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return (np.abs(achieved_goal - desired_goal).max(axis=-1) < 1e-3).astype(np.float64) - 1


def test_goals_are_compared_in_double_precision() -> None:
    buffer = HerReplayBuffer(
        100, SPACE, ACTIONS, env=NearGoals(), goal_selection_strategy="final", n_sampled_goal=1
    )

    def places(step: int) -> dict[str, np.ndarray]:
        place = np.full((1, 3), 1e6 + 0.01 * step)
        return dict.fromkeys(GOAL_KEYS, place)

    buffer._compared = True  # rewards are made up
    buffer.start(places(0))
    for step in range(1, 6):
        ended = np.array([0]) if step == 5 else np.array([], int)
        buffer.add_step(
            np.zeros(1, int),
            SimpleNamespace(
                obs=places(step),
                rewards=np.full(1, -1.0, np.float32),
                terminated=np.zeros(1, bool),
                truncated=np.full(1, step == 5),
                ended=ended,
                final_obs=places(5) if step == 5 else None,
                infos=[{}],
            ),
        )
    batch = buffer._assemble(np.repeat(np.arange(5), 2))  # every second row is relabelled with the last goal
    assert batch.rewards[1::2].tolist() == [-1, -1, -1, -1, 0]
    assert all(part.dtype == torch.float32 for part in batch.observations.values())


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_rewards_that_only_a_wrapper_changes_are_warned_of_once(scale: float) -> None:
    def make() -> gym.Env[Any, Any]:
        return gym.wrappers.TransformReward(BitFlippingEnv(n_bits=4, continuous=False), lambda r: scale * r)

    model = DQN("MultiInputPolicy", make(), replay_buffer_class=HerReplayBuffer, seed=0, learning_starts=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(60)
    said = [str(one.message) for one in caught if "compute_reward" in str(one.message)]
    assert len(said) == (scale != 1)
    assert all("paid -10 for a transition for which its compute_reward gives -1" in text for text in said)
