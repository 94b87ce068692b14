"""What the pages of the algorithms say about scores, read from benchmarks and trained_agents, as Markdown."""

from __future__ import annotations

import re
from functools import cache

from algorithm_facts import plain, table

from rlzoo.benchmark.score_table import TableRow
from rlzoo.benchmark.table_formats import COLUMNS, NOTHING, number
from rlzoo.cli.benchmark.benchmark_table import LIST, SCORES, read_table
from rlzoo.plots.comparison import compare
from rlzoo.plots.references import random_score
from rlzoo.plots.results import from_frame
from rlzoo.plots.runs import EVALUATIONS, evaluations_of, find_runs
from rlzoo.plots.style import rendered
from rlzoo.runs.pretrained_registry import AgentEntry, shipped_agents, shipped_root

SHOWN = ("environment", "steps", "each seed", "median", "required", "reference")


@cache
def _rows() -> list[TableRow]:
    return read_table([SCORES], LIST, [])[1]


@cache
def _agents() -> list[AgentEntry]:
    return shipped_agents()


def rows_of(name: str) -> list[TableRow]:
    """Return the rows of the published table that an algorithm has."""
    return [row for row in _rows() if row.row.algo == name]


def agents_of(name: str) -> list[AgentEntry]:
    """Return the shipped agents of an algorithm."""
    return [agent for agent in _agents() if agent.algo == name]


def results(name: str) -> str:
    """Return the scores of the training seeds, and the shipped agents with their commands."""
    rows, agents = rows_of(name), agents_of(name)
    parts = []
    if rows:
        parts += [SEEDS, _scores(rows)]
        parts += [f"- {plain(row.row.env)}: {plain(row.row.note)}" for row in rows if row.row.note]
    if agents:
        parts += [
            AGENTS.format(name=name),
            _table_of_agents(agents),
            "Each was trained by",
            _commands(agents),
        ]
    return "\n\n".join(parts) if parts else "No agent of this algorithm is published."


SEEDS = """\
Final agents, played on held-out seeds of the environment. *Each seed* gives the mean return (or success
rate) of the trainings with seeds 0, 1, 2, ...; other seeds are in brackets, and ± after a single value is
the standard deviation over its episodes. *Required* is what the median must reach. *Random* is the return of
random actions. Neighbouring seeds share first observations, since environment i is seeded with the seed
plus i; networks and actions differ. *Reference* is the published score of this algorithm in RL Baselines3
Zoo (SB3 zoo) or RL Baselines Zoo (SB2 zoo), of one agent."""
AGENTS = """\
The agents below come with rlzoo: `rlzoo list agents --algo {name}` lists them, and `rlzoo enjoy` plays them.
A seed such as *2 of 3* is the best of three, selected on other episodes than those of the score."""


def _scores(rows: list[TableRow]) -> str:
    columns = [column for heading in SHOWN for column in COLUMNS if column.heading == heading]
    lines = []
    for row in rows:
        cells = [plain(column.cell(row)) for column in columns]
        by_chance = random_score(row.row.env) if row.row.measure == "return" else None
        lines.append([*cells[:-1], NOTHING if by_chance is None else number(row, by_chance), cells[-1]])
    return table([*SHOWN[:-1], "random", SHOWN[-1]], lines)


def _table_of_agents(agents: list[AgentEntry]) -> str:
    headings = ["environment", "training steps", "seed", "return", "episodes", "file"]
    lines = [
        (
            agent.env_id,
            f"{agent.n_timesteps:,}",
            agent.choice(),
            agent.summary(),
            f"{agent.episodes:,}",
            f"{agent.bytes / 1000:,.0f} kB" + (", cannot be trained further" if agent.actor_only else ""),
        )
        for agent in agents
    ]
    return table(headings, lines)


def _commands(agents: list[AgentEntry]) -> str:
    """Return the commands that trained the shipped agents, as a code block."""
    lines = [(shipped_root() / agent.path / "command.txt").read_text().strip() for agent in agents]
    return "```bash\n" + "\n".join(dict.fromkeys(lines)) + "\n```"


def curves(name: str) -> str:
    """Draw the evaluations during the training of the shipped agents, as svg; empty where none is shipped."""
    folders = [shipped_root() / agent.path for agent in agents_of(name)]
    runs = [run for folder in folders if (folder / EVALUATIONS).is_file() for run in find_runs(folder)]
    if not runs:
        return ""
    svg = rendered(compare(from_frame(evaluations_of(runs, name))), "svg").decode()
    return re.sub(r"^.*?(?=<svg)", "", svg, flags=re.S)
