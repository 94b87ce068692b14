"""Compare two algorithms over several seeds, with intervals instead of single numbers.

python examples/compare.py             # 8 seeds, 10,000 steps each
python examples/compare.py 2000 3
"""

import sys

import numpy as np

from rlzoo import (
    A2C,
    PPO,
    evaluate_policy,
    iqm,
    make_vec_env,
    probability_of_improvement,
    stratified_bootstrap,
)


def score(algorithm, seed: int, steps: int, **hyperparameters) -> float:
    """Train with a seed; return the mean return in environments that training has not seen."""
    env = make_vec_env("CartPole-v1", n_envs=4, seed=100 * seed)  # no two runs share an environment's seed
    model = algorithm("MlpPolicy", env, seed=seed, device="cpu", **hyperparameters).learn(steps)
    held_out = make_vec_env("CartPole-v1", n_envs=4, seed=1_000_000)
    return evaluate_policy(model, held_out, n_eval_episodes=20)[0]


def main(steps: int = 10_000, n_seeds: int = 8) -> float:
    ppo = np.array(
        [score(PPO, k, steps, n_steps=64, batch_size=64, learning_rate=1e-3) for k in range(n_seeds)]
    )
    a2c = np.array([score(A2C, k, steps, n_steps=8, learning_rate=2e-3) for k in range(n_seeds)])
    for name, scores in (("ppo", ppo), ("a2c", a2c)):
        low, high = stratified_bootstrap(scores, iqm, n_resamples=2_000)
        runs = np.sort(scores).round()
        print(f"{name}: IQM {iqm(scores):.0f}, 95% interval {low:.0f} to {high:.0f}; runs {runs}")
    better = probability_of_improvement(ppo, a2c)
    low, high = stratified_bootstrap((ppo, a2c), probability_of_improvement, n_resamples=2_000)
    print(f"P(a run of ppo beats one of a2c) = {better:.2f}, 95% interval {low:.2f} to {high:.2f}")
    return better


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
