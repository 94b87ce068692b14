"""Search for hyperparameters from Python, then train with the best ones and with new seeds.

python examples/tune.py            # 20 trials of 10,000 steps
python examples/tune.py 1000 3     # 3 trials of 1,000 steps
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import rlzoo

SPACE = """\
learning_rate: {low: 1e-5, high: 1e-2, log: true}
n_steps: [32, 64, 128]
gamma: {low: 0.9, high: 0.999}
"""


def main(steps: int = 10_000, trials: int = 20) -> list[float]:
    folder = Path(tempfile.mkdtemp())
    (folder / "space.yml").write_text(SPACE)
    task = {
        "algo": "ppo",
        "env": "CartPole-v1",
        "n_timesteps": steps,
        "log_folder": str(folder),
        "verbose": 0,
    }
    study = rlzoo.optimize(
        **task, n_trials=trials, space=str(folder / "space.yml"), seed=0, no_optim_plots=True
    )
    print(f"best of {len(study.trials)} trials: {study.best_value:.0f} with {study.best_params}")

    best = folder / "optimize" / "ppo_CartPole-v1" / "best.yml"
    scores = []
    for seed in (100, 200, 300):  # the search has not seen these
        model = rlzoo.train(**task, conf_file=str(best), seed=seed, eval_freq=0)
        held_out = rlzoo.make_vec_env("CartPole-v1", n_envs=4, seed=1_000_000)
        scores.append(rlzoo.evaluate_policy(model, held_out, n_eval_episodes=20)[0])
    print(f"with new seeds: {np.mean(scores):.0f}, runs {np.round(scores)}")
    return scores


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
