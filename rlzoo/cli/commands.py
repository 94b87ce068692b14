"""The commands of rlzoo: where each is, and the line that `rlzoo --help` prints for it.

`rlzoo --help` reads this table and imports no command.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command."""

    module: str  # in `rlzoo.cli`
    help: str


COMMANDS = {
    "train": Command("train", "train an agent"),
    "enjoy": Command("enjoy", "watch a trained agent and print its returns"),
    "optimize": Command("optimize", "search for good hyperparameters"),
    "dashboard": Command("dashboard", "show a study in the browser"),
    "benchmark run": Command(
        "benchmark.benchmark_run", "train every algorithm, environment and seed of a list"
    ),
    "benchmark score": Command("benchmark.benchmark_score", "evaluate trained agents on held-out seeds"),
    "benchmark table": Command("benchmark.benchmark_table", "print or write a table of scores"),
    "benchmark page": Command("benchmark.benchmark_page", "write a website: table, learning curves, videos"),
    "benchmark ship": Command(
        "benchmark.benchmark_ship", "copy trained agents to a collection and write its registry"
    ),
    "jobs": Command("jobs.jobs", "write job scripts for a cluster: Slurm, PBS, or a shell"),
    "plot train": Command("plot.plot_train", "plot training episodes (monitor files)"),
    "plot compare": Command("plot.plot_compare", "compare learning curves over seeds and algorithms"),
    "plot report": Command("plot.plot_report", "plot aggregate metrics from a results file"),
    "record-video": Command("record.record_video", "record a video of a trained agent"),
    "record-training": Command("record.record_training", "record a video of all checkpoints of a run"),
    "record-expert": Command(
        "record.record_expert", "record demonstrations of a trained agent for bc and gail"
    ),
    "export": Command("share.export", "export a policy as ONNX, TorchScript, JSON or a web page"),
    "push": Command("share.push", "upload a trained agent to the Hugging Face Hub"),
    "pull": Command("share.pull", "download a trained agent from the Hugging Face Hub"),
    "import": Command("share.import_models", "convert stable-baselines3 models to run folders"),
    "list": Command("list", "list algorithms, environments or trained agents"),
    "show": Command("show", "print the hyperparameters of an algorithm on an environment"),
    "validate": Command("validate", "check a hyperparameter file without training"),
    "completion": Command("completion", "print a completion script for bash, zsh or fish"),
}
"""Command of one or two words -> its module and its line of help."""
TRUSTING = (
    "train",
    "enjoy",
    "optimize",
    "benchmark run",
    "benchmark score",
    "benchmark ship",
    "benchmark page",
    "jobs",
    "record-video",
    "record-training",
    "record-expert",
    "export",
    "push",
    "pull",
    "import",
    "validate",
)
"""Commands that read files which can name code: they have `--trust`."""
WORK = (
    "train", "optimize", "benchmark run", "benchmark score", "record-video", "record-training",
    "record-expert", "push", "pull",
)  # fmt: skip
"""Commands whose results are files: they continue if standard output is closed."""
