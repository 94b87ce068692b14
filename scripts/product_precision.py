"""Where `--matmul-precision medium` pays: the three products of a linear layer, by width and batch.

    python scripts/product_precision.py

A layer of `width` inputs and outputs multiplies three times in a gradient step: its values (forward), the
gradient of its weights, and that of its inputs. Both precisions take turns; prints a Markdown table of the
time in float32 over that with `medium`, on one thread, and for a pair of critics in one batched product.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

WIDTHS = (64, 128, 256, 400, 512, 1024)
BATCHES = (64, 256, 1024)
PRECISIONS = ("highest", "medium")
Product = Callable[[], Tensor]


def products(batch: int, width: int) -> dict[str, Product]:
    """Return the products of a layer, and the values of two layers at once, by name."""
    inputs, gradients = torch.randn(batch, width), torch.randn(batch, width)
    weights, bias = torch.randn(width, width), torch.randn(width)
    pair, pair_weights, pair_bias = (
        torch.randn(2, batch, width),
        torch.randn(2, width, width),
        torch.randn(2, 1, width),
    )
    return {
        "forward": lambda: torch.nn.functional.linear(inputs, weights, bias),
        "gradient of weights": lambda: gradients.t() @ inputs,
        "gradient of inputs": lambda: gradients @ weights,
        "forward, two critics": lambda: torch.baddbmm(pair_bias, pair, pair_weights),
    }


def seconds(product: Product, calls: int) -> float:
    """Return the time of one call."""
    began = time.perf_counter()
    for _ in range(calls):
        product()
    return (time.perf_counter() - began) / calls


def speed_up(product: Product, rounds: int = 15) -> float:
    """Return the median time in float32 over that with `medium`; both take turns."""
    times: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    product()
    calls = max(1, int(0.005 / seconds(product, 3)))
    for _ in range(rounds):
        for precision in PRECISIONS:
            torch.set_float32_matmul_precision(precision)
            product()
            times[precision].append(seconds(product, calls))
    torch.set_float32_matmul_precision("highest")
    return statistics.median(times["highest"]) / statistics.median(times["medium"])


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    ).parse_args()
    torch.set_num_threads(1)
    print("| batch | width | " + " | ".join(products(1, 1)) + " |\n|---|---|" + "---|" * len(products(1, 1)))
    for batch in BATCHES:
        for width in WIDTHS:
            ratios = [f"{speed_up(product):.2f}" for product in products(batch, width).values()]
            print(f"| {batch} | {width} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
