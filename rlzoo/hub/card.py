"""The model card of an agent: README.md of its repository, whose metadata the hub shows and searches."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from huggingface_hub import EvalResult, ModelCardData

from rlzoo.benchmark.scores import Score
from rlzoo.config.hub import agent_name
from rlzoo.hub.hub_files import ARGS, COMMAND, CONFIG, SCORE, VIDEO


@dataclass(frozen=True, kw_only=True)
class CardContent:
    """What a card says; a part that is None is left out."""

    repo_id: str
    algo: str  # as on the command line
    algorithm: str  # name of the class
    env_id: str
    file: str  # the agent in the repository
    n_timesteps: int  # that the agent has learned from
    score: Score | None = None
    hyperparams: str = ""  # YAML
    is_run: bool = True  # the repository holds what makes it a run; else the agent alone
    command: str | None = None
    video: bool = False
    actor_only: bool = False


def model_card(content: CardContent) -> str:
    """Return the text of the card, metadata first."""
    parts = [_introduction(content), _result(content), _use(content), _training(content), _files(content)]
    return f"---\n{_metadata(content).to_yaml()}\n---\n\n" + "\n".join(filter(None, parts))


def _metadata(content: CardContent) -> ModelCardData:
    """Return what the hub reads: tags to search for, and the score as an evaluation (`model-index`)."""
    tags = [content.env_id, "deep-reinforcement-learning", "reinforcement-learning", "rlzoo", content.algo]
    results = None
    if content.score is not None:
        results = [
            EvalResult(
                task_type="reinforcement-learning",
                task_name="reinforcement-learning",
                dataset_type=content.env_id,
                dataset_name=content.env_id,
                metric_type="mean_reward",
                metric_name="mean_reward",
                metric_value=f"{content.score.mean:.2f} +/- {content.score.std:.2f}",
                verified=False,
            )
        ]
    return ModelCardData(
        library_name="rlzoo",
        pipeline_tag="reinforcement-learning",
        tags=tags,
        model_name=content.algorithm,
        eval_results=results,
    )


def _introduction(content: CardContent) -> str:
    return (
        f"# {content.algorithm} agent playing {content.env_id}\n\n"
        f"An agent of {content.algorithm} for {content.env_id}, trained for {content.n_timesteps:,} steps"
        " with rlzoo.\n"
    )


def _result(content: CardContent) -> str | None:
    score = content.score
    if score is None:
        return None
    success = "" if score.success_rate is None else f", {score.success_rate:.1%} of them successful"
    actions = "always the most likely action" if score.deterministic else "sampled actions"
    return (
        f"## Return\n\n**{score.mean:.2f} +/- {score.std:.2f}**, mean and standard deviation over"
        f" {score.episodes} episodes{success}, in environments with seeds that training never saw, {actions}."
        f" The median is {score.median:.2f}, the mean length {score.mean_length:.1f} steps; `{SCORE}` has the"
        " versions and the seed.\n"
    )


def _use(content: CardContent) -> str:
    text = "## How to use it\n\n"
    organization, _, name = content.repo_id.partition("/")
    if content.is_run:
        repo = f"-orga {organization}"
        if name != agent_name(content.algo, content.env_id):
            repo += f" -name {name}"
        agent = f"--algo {content.algo} --env {shlex.quote(content.env_id)}"
        text += (
            f"```\nrlzoo pull {repo} {agent}\nrlzoo enjoy {agent}\nrlzoo record-video {agent}\n```\n\nor in"
            " Python:\n\n"
        )
    return (
        f"{text}```python\n"
        f"from rlzoo import {content.algorithm}, load_from_hub\n\n"
        f'model = {content.algorithm}.load(load_from_hub("{content.repo_id}", "{content.file}"))\n'
        "```\n\n"
        "The file holds JSON and safetensors; nothing in it is executed or unpickled.\n"
    )


def _training(content: CardContent) -> str:
    text = "## Training\n\n"
    if content.command is not None:
        text += f"```\n{content.command}\n```\n\n"
    if content.actor_only:
        text += "The file holds what acting needs only; it cannot be trained on.\n\n"
    where = f" (`{CONFIG}`)" if content.is_run else ""
    return f"{text}Hyperparameters{where}:\n\n```yaml\n{content.hyperparams.rstrip()}\n```\n"


def _files(content: CardContent) -> str | None:
    if not content.is_run:
        return None
    rows = {
        content.file: "the agent",
        CONFIG: "its hyperparameters",
        ARGS: "the arguments of its training",
    }
    if content.command is not None:
        rows[COMMAND] = "the command of its training"
    if content.score is not None:
        rows[SCORE] = "how well it plays"
    if content.video:
        rows[VIDEO] = "the agent at play"
    return "## Files\n\n| | |\n|---|---|\n" + "".join(
        f"| `{name}` | {what} |\n" for name, what in rows.items()
    )
