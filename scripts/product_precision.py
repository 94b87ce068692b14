"""Where `--matmul-precision medium` pays: the three products of a linear layer, by width and batch.

    python scripts/product_precision.py

A layer of `width` inputs and outputs multiplies three times in a gradient step: its values (forward), the
gradient of its weights, and that of its inputs. Both precisions take turns; prints a Markdown table of the
time in float32 over that in bfloat16 (with the conversions), and for a pair of critics in one batched
product. All products are in bfloat16 here; in a training those that do not gain stay in float32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlzoo.accel.matmul_precision import rounded_product

WIDTHS = (64, 128, 256, 400, 512, 1024)
BATCHES = (64, 256, 1024)
Product = Callable[[], Tensor]


def products(batch: int, width: int) -> dict[str, tuple[Product, Product]]:
    """Return the products of a layer, and the values of two layers at once, by name: float32 and bfloat16."""
    inputs, gradients = torch.randn(batch, width), torch.randn(batch, width)
    weights, bias = torch.randn(width, width), torch.randn(width)
    pair, pair_weights, pair_bias = (
        torch.randn(2, batch, width),
        torch.randn(2, width, width),
        torch.randn(2, 1, width),
    )
    return {
        "forward": (
            lambda: F.linear(inputs, weights, bias),
            lambda: rounded_product(inputs, weights.t()).add_(bias),
        ),
        "gradient of weights": (
            lambda: gradients.t() @ inputs,
            lambda: rounded_product(gradients.t(), inputs),
        ),
        "gradient of inputs": (lambda: gradients @ weights, lambda: rounded_product(gradients, weights)),
        "forward, two critics": (
            lambda: torch.baddbmm(pair_bias, pair, pair_weights),
            lambda: rounded_product(pair, pair_weights).add_(pair_bias),
        ),
    }


def seconds(product: Product, calls: int) -> float:
    """Return the time of one call."""
    began = time.perf_counter()
    for _ in range(calls):
        product()
    return (time.perf_counter() - began) / calls


def speed_up(pair: tuple[Product, Product], rounds: int = 15) -> float:
    """Return the median time in float32 over that in bfloat16; both take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    pair[0]()
    calls = max(1, int(0.005 / seconds(pair[0], 3)))
    for _ in range(rounds):
        for product, own in zip(pair, times, strict=True):
            product()
            own.append(seconds(product, calls))
    return statistics.median(times[0]) / statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    torch.set_num_threads(parser.parse_args().threads)
    print("| batch | width | " + " | ".join(products(1, 1)) + " |\n|---|---|" + "---|" * len(products(1, 1)))
    for batch in BATCHES:
        for width in WIDTHS:
            ratios = [f"{speed_up(pair):.2f}" for pair in products(batch, width).values()]
            print(f"| {batch} | {width} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
