"""A callback that logs a custom metric and stops the training when the task is solved.

python examples/own_callback.py
"""

import sys

import numpy as np

from rlzoo import PPO, BaseCallback, make_vec_env


class StopWhenSolved(BaseCallback):
    """Stop when the last `window` episodes have a mean return of `threshold`."""

    def __init__(self, threshold: float, window: int = 20):
        super().__init__()
        self.threshold, self.window = threshold, window
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(float(info["episode"]["r"]))
        last = self.returns[-self.window :]
        solved = len(last) == self.window and np.mean(last) >= self.threshold
        return not solved  # False ends the training

    def _on_rollout_end(self) -> None:
        if self.returns:
            self.logger.record("rollout/best_return", max(self.returns))  # appears in the table and in files


def main(steps: int = 100_000) -> int:
    callback = StopWhenSolved(threshold=475)
    model = PPO(
        "MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=0), n_steps=64, batch_size=128, seed=0
    )
    model.learn(steps, callback=callback)
    print(f"stopped after {model.num_timesteps:,} steps, best return {max(callback.returns, default=0):.0f}")
    return model.num_timesteps


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
