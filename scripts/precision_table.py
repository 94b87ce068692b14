"""Compare agents trained with lower `matmul_precision` with agents trained in float32.

    python scripts/precision_table.py precision_scores.json

The scores are those of benchmarks/matmul_precision.yml. Prints one Markdown line for each algorithm and
environment: the return of each seed, the difference of the means with a 95% bootstrap interval, and the
two-sided p-value of an exact Mann-Whitney U test.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean

from compare_learning import interval

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlzoo.benchmark.scores import Score, read_score_file

SUFFIXES = ("_high", "_medium")  # of a row's name, behind its algorithm


def table(scores: list[Score]) -> str:
    """Return the lines of all pairs of rows, with the seeds that are there on both sides."""
    rows: dict[tuple[str, str], list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        rows.setdefault(score.key, []).append(score)
    lines = [
        "| algorithm | environment | precision | highest: each seed | lower: each seed | means "
        "| lower - highest (95% interval) | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (label, env), lower in rows.items():
        algo, _, precision = label.rpartition("_")
        highest = rows.get((algo, env), [])
        seeds = {score.seed for score in highest} & {score.seed for score in lower}
        if label.endswith(SUFFIXES) and seeds:
            sides = [[score for score in side if score.seed in seeds] for side in (highest, lower)]
            lines.append(table_line(env, precision, *sides))
    return "\n".join(lines)


def table_line(env: str, precision: str, highest: list[Score], lower: list[Score]) -> str:
    """Return one line; both sides have the same seeds in the same order."""
    from scipy.stats import mannwhitneyu

    base, changed = ([score.mean for score in side] for side in (highest, lower))
    low, high = interval(changed, base)
    each = " | ".join(", ".join(f"{value:.1f}" for value in side) for side in (base, changed))
    p_value = mannwhitneyu(changed, base, method="auto").pvalue
    means = f"{fmean(base):.1f} / {fmean(changed):.1f}"
    difference = f"{fmean(changed) - fmean(base):.1f} [{low:.1f}, {high:.1f}]"
    return f"| {highest[0].algo} | {env} | {precision} | {each} | {means} | {difference} | {p_value:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("scores", type=Path, metavar="FILE", help="made by `rlzoo benchmark score -o FILE`")
    print(table(read_score_file(parser.parse_args().scores)))


if __name__ == "__main__":
    main()
