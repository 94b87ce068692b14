"""One gradient step of SAC against the floor that its matrix products set on the same threads.

    python scripts/gradient_floor.py --threads 1 2

The products of a step (batch 256, two hidden layers of 256, 17 observations, 6 actions as in HalfCheetah-v5)
are counted; the floor is their floating-point operations at the rate of one large product on these threads.
The second floor runs products of the very shapes, one after the other, and nothing else. Each product has
matrices of its own there, whereas those of a step share theirs, which keeps more of them in the cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

BATCH, WIDTH, OBS, ACTIONS, CRITICS = 256, 256, 17, 6, 2
LARGE = 2048


def forward(n_in: int, n_out: int) -> list[tuple[int, int, int]]:
    """(rows, inner, columns) of the products of one pass through a network."""
    return [(BATCH, n_in, WIDTH), (BATCH, WIDTH, WIDTH), (BATCH, WIDTH, n_out)]


def weight_gradients(shapes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return [(inner, rows, columns) for rows, inner, columns in shapes]


def input_gradients(shapes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return [(rows, columns, inner) for rows, inner, columns in shapes]


def products() -> list[tuple[int, int, int]]:
    """Every product that a step cannot do without."""
    actor, critic = forward(OBS, 2 * ACTIONS), forward(OBS + ACTIONS, 1) * CRITICS
    first_layers = critic[::3]
    behind_first = [shape for shape in critic if shape not in first_layers]
    target = actor + critic
    critic_step = critic + weight_gradients(critic) + input_gradients(behind_first)
    actor_step = (
        actor + critic + input_gradients(critic) + weight_gradients(actor) + input_gradients(actor[1:])
    )
    return target + critic_step + actor_step


def median_time(function: Callable[[], object], repeats: int = 100) -> float:
    """Seconds per call."""
    for _ in range(repeats // 5):
        function()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(threads: int) -> str:
    """A row of the table."""
    import numpy as np
    import torch
    from gymnasium import spaces

    from rlzoo.algorithms.off_policy.sac import SAC
    from rlzoo.buffers.replay.replay_batch import ReplayBatch
    from rlzoo.envs.examples.toy import IdentityEnvBox
    from rlzoo.envs.vec_env.dummy import DummyVecEnv

    torch.set_num_threads(threads)
    shapes = products()
    operations = 2 * sum(rows * inner * columns for rows, inner, columns in shapes)
    large = torch.randn(LARGE, LARGE)
    out = torch.empty_like(large)
    rate = 2 * LARGE**3 / median_time(lambda: torch.mm(large, large, out=out), 10)
    matrices = [(torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def bare() -> None:
        for left, right, product in matrices:
            torch.mm(left, right, out=product)

    model = SAC("MlpPolicy", DummyVecEnv([IdentityEnvBox]), device="cpu", seed=0, _init_setup_model=False)
    model.build(spaces.Box(-np.inf, np.inf, (OBS,), np.float32), spaces.Box(-1, 1, (ACTIONS,), np.float32))
    rows = torch.randn(2, BATCH, OBS)
    batch = ReplayBatch(
        rows[0],
        torch.rand(BATCH, ACTIONS) * 2 - 1,
        rows[1],
        torch.randn(BATCH),
        torch.full((BATCH,), 0.99),
        np.arange(BATCH),
    )
    step, bare_step = median_time(lambda: model.update(batch, model.counters)), median_time(bare)
    floor = operations / rate
    return (
        f"| {threads} | {operations / 1e6:.0f} | {rate / 1e9:.0f} | {floor * 1e3:.2f} "
        f"| {bare_step * 1e3:.2f} | {step * 1e3:.2f} | **{step / floor:.2f}** | {step / bare_step:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    print(
        "| threads | MFLOP | GFLOP/s of a large product | floor, ms | bare products, ms | step, ms "
        "| step / floor | step / bare products |\n|---|---|---|---|---|---|---|---|"
    )
    for threads in args.threads:
        print(measure(threads))


if __name__ == "__main__":
    main()
