"""What ranks check before they train, and how they share rows and noise; without other processes."""

from __future__ import annotations

import json
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlzoo import ARS, PPO, make_vec_env
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.distributed.launch import is_rank
from rlzoo.distributed.minibatches import Shares
from rlzoo.distributed.noise import GlobalNoise
from rlzoo.distributed.rank_episodes import EpisodeWindow
from rlzoo.distributed.ranks import Ranks, check_supported
from rlzoo.experiment.data_parallel.rank_run import Start, agree_to_start
from rlzoo.experiment.training_run import check


class Group:
    """Rank 0 of two; `other` changes what rank 1 tells."""

    def __init__(self, other=lambda told: told):
        self.rank, self.size, self.other = 0, 2, other

    def gather_json(self, value):
        return [value, self.other(json.loads(json.dumps(value)))]


def prepare(**options):
    run = RunConfig(**{"algo": "ppo", "env_id": "CartPole-v1", "n_timesteps": 100, **options})
    return lambda: Start(run, check(run))


def test_ranks_agree_on_the_seed_of_rank_0():
    start = agree_to_start(Ranks(Group()), prepare())
    assert start.run.seed >= 0 and start.agent is None


def test_ranks_with_other_arguments_are_refused():
    def other(told):
        told["description"]["n_timesteps"] = "200"
        return told

    with pytest.raises(UserError, match="n_timesteps is 100 on rank 0 and 200 on rank 1"):
        agree_to_start(Ranks(Group(other)), prepare())


def test_mistake_on_another_rank_is_told():
    with pytest.raises(UserError, match="no such thing"):
        agree_to_start(Ranks(Group(lambda told: {**told, "error": "no such thing"})), prepare())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algo": "ars"}, "ars cannot be trained by several processes; those that can: a2c, dqn, ppo"),
        ({"hyperparams": {"n_envs": 3}}, "n_envs=3 environments .* among 2 ranks; n_envs can be 2 or 4"),
    ],
)
def test_runs_that_cannot_be_shared_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        agree_to_start(Ranks(Group()), prepare(**options))


def test_models_that_cannot_be_shared_are_refused():
    with pytest.raises(UserError, match="ARS cannot be trained by several ranks"):
        check_supported(ARS("LinearPolicy", "CartPole-v1"))
    with pytest.raises(UserError, match="use_sde needs at least two environments"):
        check_supported(PPO("MlpPolicy", "Pendulum-v1", use_sde=True))


def test_own_batches_of_rollout_buffers_are_refused():
    own = type("Own", (RolloutBuffer,), {"get": lambda self, batch_size=None: iter(())})
    with pytest.raises(UserError, match=r"the get\(\) of an own rollout buffer"):
        check_supported(PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=own))
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8)
    check_supported(model)
    model.rollout_buffer = own(8, model.observation_space, model.action_space)
    with pytest.raises(UserError, match=r"the get\(\) of an own rollout buffer"):
        check_supported(model)


def test_second_rank_has_the_second_half_of_environments():
    ranks = Ranks(SimpleNamespace(rank=1, size=2))
    whole, part = make_vec_env("CartPole-v1", 4, seed=5), ranks.make_vec_env("CartPole-v1", 4, seed=5)
    assert np.array_equal(whole.reset()[2:], part.reset())
    whole.seed(9), part.seed(9)
    assert np.array_equal(whole.reset()[2:], part.reset())


def test_noise_of_a_rank_is_a_part_of_that_of_all():
    torch.manual_seed(0)
    like = torch.zeros(4, 3)
    whole = (
        torch.randn_like(like),
        torch.empty_like(like).exponential_(),
        torch.rand(4, 3),
        torch.randint(9, (4,)),
    )
    torch.manual_seed(0)
    half = torch.zeros(2, 3)
    with GlobalNoise(n_local=2, n_all=4, rows=slice(2, 4)):
        part = (
            torch.randn_like(half),
            torch.empty_like(half).exponential_(),
            torch.rand(2, 3),
            torch.randint(9, (2,)),
        )
    assert all(torch.equal(a[-len(b) :], b) for a, b in zip(whole, part, strict=True))


def test_minibatch_without_own_rows_has_no_share():
    shares = Shares(rank=1, size=2, n_local=1)  # rows of rank 1 are the odd ones
    batch = RolloutBatch(torch.arange(4.0)[:, None])  # of its four steps

    def take(rows):
        return batch.take(torch.from_numpy(rows))

    order, advantages = np.array([0, 2, 4, 3, 5, 7, 6, 1]), torch.arange(8.0)
    parts = list(shares.minibatches(order, 2, advantages, take))
    assert [share for _, share in parts] == [0.0, 0.5, 1.0, 0.5]
    assert [part.obs.flatten().tolist() for part, _ in parts] == [[0.0], [1.0], [2.0, 3.0], [0.0]]
    std, mean = parts[1][0].moments
    assert (float(mean), float(std)) == (3.5, pytest.approx(0.7071, abs=1e-4))


def test_episodes_of_all_ranks_are_in_order_of_time():
    counters = Counters()
    window = EpisodeWindow(deque(maxlen=3), lambda: counters.num_timesteps)
    counters.num_timesteps = 8
    window.append("late")
    assert not window
    window.merge([*window.tell(), (4, "early"), (8, "of the second rank"), (9, "last")])
    assert list(window.plain()) == ["late", "of the second rank", "last"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"WORLD_SIZE": "4"}, False),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, False),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, True),
        ({"RANK": "0", "WORLD_SIZE": "2", "RLZOO_RENDEZVOUS": "file"}, True),
    ],
)
def test_ranks_are_recognised_by_their_variables(variables, expected):
    assert is_rank(variables) == expected
