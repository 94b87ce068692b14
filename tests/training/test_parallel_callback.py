"""Gradient steps in a thread of their own."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

from rlzoo import DDPG, DQN, PPO, SAC, TD3, ParallelTrainCallback, PrioritizedReplayBuffer
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec, NormalActionNoise
from rlzoo.core.errors import TrainingDiverged, UserError

SMALL: dict[str, Any] = {
    "learning_starts": 20,
    "batch_size": 8,
    "buffer_size": 500,
    "policy_kwargs": {"net_arch": [8]},
    "seed": 0,
    "device": "cpu",
}
CASES: list[tuple[Any, dict[str, Any]]] = [
    (SAC, {"action_noise": NormalActionNoise(np.zeros(1), 0.1)}),
    (SAC, {"use_sde": True, "train_freq": 8}),
    (TD3, {"train_freq": (1, "episode"), "replay_buffer_class": PrioritizedReplayBuffer}),
    (DQN, {"train_freq": 4, "prioritized_replay": True, "target_update_interval": 10}),
]


def make(algorithm: Any, **kwargs: Any) -> Any:
    env = "CartPole-v1" if algorithm in (DQN, PPO) else "Pendulum-v1"
    return algorithm("MlpPolicy", env, **{**SMALL, **kwargs})


def tensors(model: Any) -> list[torch.Tensor]:
    return [value.clone() for value in model.policy.state_dict().values()]


@pytest.mark.parametrize(("algorithm", "kwargs"), CASES)
def test_the_agent_takes_over_what_the_thread_learned(algorithm: Any, kwargs: Any) -> None:
    model, callback = make(algorithm, **kwargs), ParallelTrainCallback(gradient_steps=5)
    before = tensors(model)
    model.learn(450, callback)
    assert model.n_updates > 0 and model.n_updates % 5 == 0
    assert not all(map(torch.equal, before, tensors(model)))
    assert all(map(torch.equal, tensors(model), tensors(callback._learner)))
    assert not any(thread.name == "ParallelTrainCallback" for thread in threading.enumerate())
    after = tensors(model)
    model.learn(200)  # without it the agent learns as ever
    assert model.n_updates > 0 and not model.trained_externally
    assert not all(map(torch.equal, after, tensors(model)))


def test_what_the_thread_found_surprising_is_drawn_more_often() -> None:
    model = make(DQN, prioritized_replay=True)
    model.learn(100, ParallelTrainCallback(gradient_steps=5))
    assert len(np.unique(model.replay_buffer.tree.leaves[:100])) > 10


def test_a_discount_factor_of_the_buffer_is_kept() -> None:
    model = make(SAC, replay_buffer_class=NStepReplayBuffer, replay_buffer_kwargs={"gamma": 0.5})
    model.learn(60, ParallelTrainCallback(gradient_steps=1))
    assert model.n_updates > 0 and model.replay_buffer.gamma == 0.5


def test_environments_do_not_wait_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(SAC)
    steps_during_update: list[int] = []
    update = SAC.update

    def slow(self: Any, batch: Any, counters: Any) -> Any:
        start = model.num_timesteps
        time.sleep(0.1)
        steps_during_update.append(model.num_timesteps - start)
        return update(self, batch, counters)

    monkeypatch.setattr(SAC, "update", slow)
    model.learn(300, ParallelTrainCallback(gradient_steps=1))
    assert max(steps_during_update) > 5


def test_the_agent_is_not_touched_while_the_thread_learns() -> None:
    model, callback = make(SAC, train_freq=50), ParallelTrainCallback(gradient_steps=20)
    seen: list[list[torch.Tensor]] = []
    model.learn(400, [callback, lambda *_: seen.append(tensors(model))])
    for start in range(0, 400, 50):
        for other in seen[start + 1 : start + 50]:
            assert all(map(torch.equal, seen[start], other))


def test_sleep_time_limits_the_pace() -> None:
    start = time.perf_counter()
    make(SAC).learn(20, ParallelTrainCallback(sleep_time=0.01))
    assert time.perf_counter() - start > 0.2


def test_what_goes_wrong_in_the_thread_ends_the_training() -> None:
    with pytest.raises(TrainingDiverged, match="NaN or infinite"):
        make(SAC, learning_rate=1e30).learn(500, ParallelTrainCallback(5))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (lambda: PPO("MlpPolicy", "CartPole-v1"), "needs an algorithm that replays experience, not PPO"),
        (lambda: make(DQN, param_noise=True), "does not go together with param_noise of DQN"),
        (lambda: make(DDPG, param_noise=AdaptiveParamNoiseSpec()), "param_noise of DDPG"),
        (lambda: make(DDPG, normalize_observations=True), "normalize_observations of DDPG"),
    ],
)
def test_where_it_cannot_work_it_is_refused(model: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        model().learn(100, ParallelTrainCallback())


def test_wrong_arguments() -> None:
    with pytest.raises(UserError, match="gradient_steps must be at least 1, not 0"):
        ParallelTrainCallback(gradient_steps=0)
    with pytest.raises(UserError, match="sleep_time must be at least 0"):
        ParallelTrainCallback(sleep_time=-1)
