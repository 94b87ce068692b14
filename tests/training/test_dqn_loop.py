"""Loop, replay buffer, clock and update together: a training of DQN is algorithm 1 of its paper."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit
from torch.nn.functional import smooth_l1_loss

from rlzoo import DQN
from rlzoo.envs.vec_env.dummy import DummyVecEnv

TAU, INTERVAL, STARTS, FREQ, STEPS, CLIP, GAMMA, LR = 0.7, 7, 50, 8, 3, 0.5, 0.9, 3e-3
TOTAL = 600


class Recorded(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps all transitions: observation, action, reward, next observation, terminated, truncated."""

    def reset(self, **kwargs: Any) -> Any:
        self.obs, info = super().reset(**kwargs)
        return self.obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        transitions.append((self.obs, action, reward, obs, terminated, truncated and not terminated))
        self.obs = obs
        return obs, reward, terminated, truncated, info


transitions: list[tuple[Any, ...]] = []


def algorithm_1(network: torch.nn.Module, draws: list[np.ndarray]) -> None:
    """Train a network on the recorded transitions, in the order in which they were made and drawn."""
    target, optimizer = copy.deepcopy(network), torch.optim.Adam(network.parameters(), lr=LR)
    columns = [torch.tensor(np.array(column)) for column in zip(*transitions, strict=True)]
    drawn = iter(draws)
    for step in range(1, TOTAL + 1):
        if step % INTERVAL == 0:
            for own, theirs in zip(target.parameters(), network.parameters(), strict=True):
                own.data = (1 - TAU) * own.data + TAU * theirs.data
        if step % FREQ or step <= STARTS:
            continue
        for _ in range(STEPS):
            rows = torch.from_numpy(next(drawn))
            assert rows.max() < step
            obs, action, reward, next_obs, terminated, _ = (column[rows] for column in columns)
            with torch.no_grad():
                y = reward.float() + GAMMA * target(next_obs).amax(1) * ~terminated
            q = network(obs).gather(1, action.unsqueeze(1)).squeeze(1)
            optimizer.zero_grad()
            smooth_l1_loss(q, y).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
    assert next(drawn, None) is None


def test_a_training_is_the_algorithm_of_the_paper() -> None:
    transitions.clear()
    model = DQN(
        "MlpPolicy",
        DummyVecEnv([lambda: Recorded(TimeLimit(CartPoleEnv(), 10))]),
        tau=TAU,
        target_update_interval=INTERVAL,
        learning_starts=STARTS,
        train_freq=FREQ,
        gradient_steps=STEPS,
        max_grad_norm=CLIP,
        gamma=GAMMA,
        learning_rate=LR,
        buffer_size=TOTAL,
        policy_kwargs={"net_arch": [16, 16]},
        seed=0,
        device="cpu",
    )
    network = copy.deepcopy(model.policy.q_net.q_net)
    for parameter in network.parameters():  # of its own, not a view of what is learned
        parameter.data, parameter.grad = parameter.data.clone(), None
    replay = model.replay_buffer
    draw, draws = replay._draw, []

    def spy(count: int) -> np.ndarray:
        indices = draw(count)
        draws.extend(indices.copy().reshape(-1, model.batch_size))
        return indices

    replay._draw = spy  # type: ignore[method-assign]
    model.learn(TOTAL)
    ends = np.array([transition[4:] for transition in transitions]).sum(axis=0)
    assert len(transitions) == TOTAL and min(ends) > 3  # the environment ends episodes, and time does
    before = [parameter.clone() for parameter in network.parameters()]
    algorithm_1(network, draws)
    for old, expected, learned in zip(
        before, network.parameters(), model.policy.q_net.q_net.parameters(), strict=True
    ):
        assert (expected - old).abs().max() > 0.05
        torch.testing.assert_close(learned, expected, atol=1e-4, rtol=1e-4)
