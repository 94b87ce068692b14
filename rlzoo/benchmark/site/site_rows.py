"""What the results page shows of each row: scores, trainings, hyperparameters, commands and files."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rlzoo.benchmark.finished import row_name
from rlzoo.benchmark.run_list import training_command
from rlzoo.benchmark.score_table import TableRow
from rlzoo.benchmark.scores import Score, files_named
from rlzoo.benchmark.suites import suite_of
from rlzoo.benchmark.table_formats import cells_of, columns_of, number
from rlzoo.config.benchmark import Row
from rlzoo.config.hyperparams import lookup, merge
from rlzoo.config.values_as_text import dump_yaml, plain
from rlzoo.core.errors import UserError
from rlzoo.metrics.short_count import short_count
from rlzoo.runs.run_folder import config_path, model_path, read_run

UNKNOWN = "not recorded"
HASH_LENGTH = 10  # of a commit, as it is shown

Key = tuple[str, str, int]
"""Label, environment and training seed."""


@dataclass(frozen=True)
class SiteRow:
    """One row of the results page.

    :param table: its scores
    :param folders: the run folders that are there, by training seed
    :param slug: what its files are called
    """

    table: TableRow
    folders: dict[int, Path]
    slug: str

    @property
    def row(self) -> Row:
        return self.table.row

    @cached_property
    def suite(self) -> str:
        return suite_of(self.row.env)

    @property
    def shown(self) -> tuple[Score, Path] | None:
        """The agent to be watched: the one with the highest score among those that are there."""
        there = [
            (mean, score)
            for mean, score in zip(self.table.means, self.table.scores, strict=True)
            if score.seed in self.folders and model_path(self.folders[score.seed], score.env_id).is_file()
        ]
        if not there:
            return None
        _, best = max(there, key=lambda pair: pair[0])
        return best, self.folders[best.seed]

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values, as the columns of the table of results have them."""
        columns = columns_of([self.table])
        (cells,) = cells_of([self.table], columns)
        named = zip((column.heading or "verdict" for column in columns), cells, strict=True)
        return [(name, text) for name, text in named if name not in ("algorithm", "environment") and text]

    def seeds(self) -> list[dict[str, Any]]:
        """Return one line for each training seed."""
        return [
            self._seed(*values)
            for values in zip(self.table.scores, self.table.means, self.table.stds, strict=True)
        ]

    def hyperparams(self) -> str:
        """Return the hyperparameters as YAML: of a training that is there, else those the row has now."""
        if self.folders:
            folder = self.folders[min(self.folders)]
            return _text_of(config_path(folder, self.row.env))
        values = lookup(self.row.algo, self.row.env, self.row.conf_file).values
        return dump_yaml(plain(merge(values, self.row.hyperparams))).strip()

    def command(self) -> str:
        """Return the command that trains such agents."""
        for _, folder in sorted(self.folders.items()):
            if (folder / "command.txt").is_file():
                return _text_of(folder / "command.txt")
        return shlex.join(["rlzoo", *training_command(self.row, "SEED", Path("logs/benchmark"))])

    def _seed(self, score: Score, mean: float, std: float) -> dict[str, Any]:
        origin = score.trained_with
        versions = origin.get("versions")
        versions = versions if isinstance(versions, dict) else {}
        return {
            "seed": score.seed,
            "score": f"{number(self.table, mean)} ± {number(self.table, std)}",
            "steps": short_count(score.n_timesteps),
            "seconds": UNKNOWN if score.training_seconds is None else f"{score.training_seconds:,.0f} s",
            "processor": _known(origin.get("processor") or self._processor(score.seed)),
            "rlzoo": _known(versions.get("rlzoo")),
            "torch": _known(versions.get("torch")),
            "commit": _known(origin.get("git_commit"))[:HASH_LENGTH],
            "date": _known(origin.get("date")).partition("T")[0],
        }

    def _processor(self, seed: int) -> str:
        try:
            system = json.loads((self.folders[seed] / "system.json").read_text())
            return str(system["processor"])
        except (KeyError, OSError, TypeError, ValueError):
            return UNKNOWN


def site_rows(rows: Sequence[TableRow], places: Iterable[Path]) -> list[SiteRow]:
    """Find the run folders that belong to the scores of a table.

    :param places: folders that hold runs or trained agents; others hold none
    """
    found = run_folders(places)
    return [
        SiteRow(
            row,
            {score.seed: found[key] for score in row.scores if (key := (*score.key, score.seed)) in found},
            slug,
        )
        for row, slug in zip(rows, _slugs(rows), strict=True)
    ]


def _known(value: object) -> str:
    """Return a non-empty string of a score as it is, and `UNKNOWN` for any other value."""
    return value if isinstance(value, str) and value else UNKNOWN


def _slugs(rows: Iterable[TableRow]) -> Iterator[str]:
    """Return names of files that differ, also where upper and lower case are the same."""
    taken: set[str] = set()
    for table in rows:
        first = re.sub(r"[^\w.+=-]", "-", f"{table.row.label}-{table.row.env}", flags=re.ASCII)
        numbered = (f"{first}-{number}" for number in itertools.count(2))
        slug = next(name for name in itertools.chain([first], numbered) if name.casefold() not in taken)
        taken.add(slug.casefold())
        yield slug


def _text_of(path: Path) -> str:
    """:raises UserError: the file of a run cannot be read"""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', 'it is no UTF-8 text')}") from None


def run_folders(places: Iterable[Path]) -> dict[Key, Path]:
    """Return the folders of runs below some places, by label, environment and training seed.

    A folder that cannot be read is none of them.
    """
    found: dict[Key, Path] = {}
    for place in places:
        for args in files_named("args.yml", place) if place.is_dir() else []:
            folder = args.parents[1]
            try:
                run = read_run(folder)
                label = row_name(folder) or run.algo
            except UserError:
                continue
            found[label, run.env_id, run.seed] = folder
    return found
