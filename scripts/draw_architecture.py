"""Draw the folders of the package and the imports between them: docs/developing/architecture.svg.

    python scripts/draw_architecture.py            # writes the picture
    python scripts/draw_architecture.py --check    # fails if it is not current

Every folder stands above everything that it imports. An arrow is left out where a longer way of arrows leads
to the same folder. The picture has no background, and its colours can be read on light and dark pages.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rlzoo"
PICTURE = ROOT / "docs" / "developing" / "architecture.svg"

CAPTIONS = {
    "cli": "commands and flags",
    "hub": "push and pull agents",
    "export": "ONNX, TorchScript, HTML",
    "jobs": "Slurm, PBS, shell",
    "tuning": "hyperparameter search",
    "benchmark": "lists, scores, tables",
    "playback": "enjoy, videos, experts",
    "plots": "curves and aggregates",
    "experiment": "a run, from flags to agent",
    "runs": "run folders",
    "stacked": "several seeds at once",
    "algorithms": "one file each",
    "interop": "stable-baselines3 files",
    "training": "loops, checkpoints",
    "callbacks": "hooks of training",
    "evaluation": "episodes of a policy",
    "policies": "actors, critics, registry",
    "cluster": "tasks, local or on Ray",
    "networks": "extractors, MLP, LSTM",
    "envs": "vector environments",
    "config": "YAML, catalogue, flags",
    "buffers": "rollout and replay",
    "metrics": "logger and formats",
    "processes": "workers, locks, signals",
    "optim": "K-FAC, Polyak, CG",
    "distributions": "of actions",
    "params": "hyperparameters described",
    "io": "safe files",
    "accel": "speed-ups",
    "core": "errors, spaces, returns",
}
GROUPS = {  # the colour of a box, and the folders that have it
    "#2b66d9": ("cli",),
    "#7248c2": ("hub", "export", "jobs", "tuning", "benchmark", "playback", "plots", "experiment", "runs"),
    "#b05a12": ("algorithms", "stacked", "training", "interop", "callbacks", "evaluation"),
    "#1c7a50": ("policies", "networks", "envs", "buffers", "distributions", "optim"),
}
OTHER = "#5a6772"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 44, 18, 34, 10


def imports() -> dict[str, set[str]]:
    """Return the folders that each folder imports, inside functions too."""
    folders = {path.name: path for path in sorted(PACKAGE.iterdir()) if (path / "__init__.py").is_file()}
    found: dict[str, set[str]] = {name: set() for name in folders}
    for name, folder in folders.items():
        for file in folder.rglob("*.py"):
            found[name] |= {other for other in imported(file) if other in folders and other != name}
    return found


def imported(file: Path) -> Iterator[str]:
    """Yield the folder of every import of rlzoo in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("rlzoo."))


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Drop the edges that a longer path implies."""

    @cache
    def below(name: str) -> frozenset[str]:
        return frozenset(graph[name]).union(*(below(other) for other in graph[name]))

    return {
        name: {other for other in others if not any(other in below(third) for third in others)}
        for name, others in graph.items()
    }


def rows(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the folders by the length of their longest path downwards, the lowest row first."""

    @cache
    def level(name: str) -> int:
        return 1 + max(map(level, graph[name]), default=-1)

    levels: list[list[str]] = [[] for _ in range(1 + max(map(level, graph)))]
    for name in graph:
        levels[level(name)].append(name)
    return levels


def woven(graph: dict[str, set[str]]) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Return the rows with a knot wherever an arrow passes, and the stations of every arrow."""
    levels = rows(graph)
    level = {name: height for height, row in enumerate(levels) for name in row}
    arrows = {}
    for name, others in sorted(graph.items()):
        for other in sorted(others):
            passed = range(level[name] - 1, level[other], -1)
            knots = [f"{name}>{other}@{height}" for height in passed]
            for height, knot in zip(passed, knots, strict=True):
                levels[height].append(knot)
            arrows[f"{name}>{other}"] = [name, *knots, other]
    return levels, arrows


def spread(wished: list[float], widths: list[float]) -> list[float]:
    """Return centres that keep their order and distances, with the least squared distance to `wished`."""
    offsets = [0.0]
    for one, two in pairwise(widths):
        offsets.append(offsets[-1] + (one + two) / 2 + GAP_X)
    blocks: list[tuple[float, int]] = []  # (mean, count): neighbours that would overlap move as one
    for wish, offset in zip(wished, offsets, strict=True):
        mean, count = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def arranged(levels: list[list[str]], arrows: dict[str, list[str]]) -> dict[str, tuple[float, float]]:
    """Return the upper middle of every box and knot; they move towards those that they are joined with."""
    joined: dict[str, list[str]] = {name: [] for row in levels for name in row}
    for stations in arrows.values():
        for one, two in pairwise(stations):
            joined[one].append(two)
            joined[two].append(one)
    centre = {name: 100.0 * i for row in levels for i, name in enumerate(row)}
    for sweep in range(80):
        for row in levels if sweep % 2 else levels[::-1]:
            wished = {name: sum(centre[other] for other in joined[name]) / len(joined[name]) for name in row}
            if sweep < 60:  # then the order stays, and only distances settle
                row.sort(key=lambda name: (wished[name], name))
            centres = spread([wished[name] for name in row], [WIDTH * (">" not in name) for name in row])
            centre.update(zip(row, centres, strict=True))
    left = min(centre[name] - WIDTH / 2 * (">" not in name) for name in centre)
    top = len(levels) - 1
    return {
        name: (round(MARGIN + centre[name] - left, 1), MARGIN + (top - height) * (HEIGHT + GAP_Y))
        for height, row in enumerate(levels)
        for name in row
    }


def line(stations: list[str], places: dict[str, tuple[float, float]]) -> str:
    """Return the path of an arrow: curves between rows, straight beside the boxes of a row."""
    x, y = places[stations[0]]
    path = f"M{x:g} {y + HEIGHT:g}"
    for one, two in pairwise(stations):
        (x, y), (to_x, to_y) = places[one], places[two]
        middle = (y + HEIGHT + to_y) / 2
        path += f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
        if two != stations[-1]:
            path += f"V{to_y + HEIGHT:g}"
    return f'<path d="{path}" fill="none" stroke="#8a8f98" stroke-width="1.4" marker-end="url(#tip)"/>'


def drawn(graph: dict[str, set[str]]) -> str:
    """Return the picture as SVG."""
    levels, arrows = woven(graph)
    places = arranged(levels, arrows)
    colours = {name: colour for colour, names in GROUPS.items() for name in names}
    width = max(places[name][0] for name in graph) + WIDTH / 2 + MARGIN
    height = len(levels) * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
        ' font-family="sans-serif" style="max-width: 100%; height: auto">',
        "<title>Folders of rlzoo and the imports between them</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0 0 8 4 0 8z" fill="#8a8f98"/></marker></defs>',
        *(line(stations, places) for stations in arrows.values()),
    ]
    for name in sorted(graph):
        x, y = places[name]
        lines.append(
            f'<rect x="{x - WIDTH / 2:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"'
            f' fill="{colours.get(name, OTHER)}"/>'
            f'<text x="{x:g}" y="{y + 19:g}" text-anchor="middle" font-size="15" font-weight="bold"'
            f' fill="#fff">{name}</text>'
            f'<text x="{x:g}" y="{y + 35:g}" text-anchor="middle" font-size="11.5" fill="#fff">'
            f"{CAPTIONS.get(name, '')}</text>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--check", action="store_true", help="fail if the picture is not current")
    args = parser.parse_args()
    picture = drawn(reduced(imports()))
    if not args.check:
        PICTURE.write_text(picture)
    elif not PICTURE.is_file() or PICTURE.read_text() != picture:
        print("docs/developing/architecture.svg is not current: run python scripts/draw_architecture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
