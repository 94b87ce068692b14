"""Hindsight experience replay: learn from a reward that is almost never seen.

python examples/hindsight.py
"""

import sys

from rlzoo import DQN, BitFlippingEnv, HerReplayBuffer, evaluate_policy


def train(steps: int, hindsight: bool) -> float:
    """Return the mean return after training; with 10 bits, -10 is a failure."""
    replay = {
        "replay_buffer_class": HerReplayBuffer,
        "replay_buffer_kwargs": {"n_sampled_goal": 4, "goal_selection_strategy": "future"},
    }
    model = DQN(
        "MultiInputPolicy",  # observations are a Dict: observation, achieved_goal, desired_goal
        BitFlippingEnv(n_bits=10),
        learning_rate=1e-3,
        learning_starts=200,
        train_freq=1,
        target_update_interval=100,
        exploration_fraction=0.3,
        buffer_size=50_000,
        seed=0,
        **(replay if hindsight else {}),
    )
    mean, _ = evaluate_policy(model.learn(steps), BitFlippingEnv(n_bits=10), n_eval_episodes=50, warn=False)
    return mean


def main(steps: int = 5_000) -> tuple[float, float]:
    with_her, without = train(steps, hindsight=True), train(steps, hindsight=False)
    print(f"mean return with hindsight {with_her:.1f}, without {without:.1f}, failing always: -10")
    return with_her, without


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
