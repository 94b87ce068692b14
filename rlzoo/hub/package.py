"""What a push uploads: put together in a folder, without folders of this machine and without passwords."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rlzoo.benchmark.finished import training_seconds
from rlzoo.benchmark.portable import Outside, portable, portable_texts
from rlzoo.benchmark.scores import SCORE as SCORE_OF_RUN
from rlzoo.benchmark.scores import Score, digest, write_score
from rlzoo.benchmark.scoring import kept_score, score_run
from rlzoo.config.benchmark import EPISODES
from rlzoo.config.hub import agent_name
from rlzoo.config.run import PlayConfig, RunConfig, VideoConfig, model_file, run_name
from rlzoo.config.values_as_text import dump_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.hub.card import CardContent, model_card
from rlzoo.hub.hub_files import ARGS, CARD, COMMAND, CONFIG, SCORE, VIDEO
from rlzoo.playback.video_recording import record
from rlzoo.runs.run_folder import config_path, model_path, read_run, refuse_links
from rlzoo.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


@dataclass(frozen=True)
class Package:
    """The files of a repository, and what its card says."""

    files: dict[str, Path]  # name in the repository -> where it is now
    score: Score | None


def package_run(
    agent: Path,
    play: PlayConfig,
    repo_id: str,
    place: Path,
    *,
    n_eval_episodes: int | None = None,
    video: bool = True,
    verbose: int = 1,
) -> Package:
    """Put an agent of a run together with what describes it.

    The run is copied to `place` and evaluated there, so that the score is that of the uploaded files.

    :param agent: a model file in the folder of a run
    :param play: how the video is played
    :param place: an empty folder
    :param n_eval_episodes: that the score is of, at least; None: a score that is known holds
    :raises UserError: the file is none of rlzoo, its environment cannot be played in or drawn here, or names
        code that is not trusted
    """
    source = agent.parent
    refuse_links(source)
    run = read_run(source)
    name = agent_name(run.algo, run.env_id)
    checkpoint, outside = read_checkpoint(agent), _shortening()
    staged = place / run.algo / run_name(run.env_id, 1)
    for path, text in portable_texts(source, run, outside, require_command=False).items():
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        (staged / path).write_text(text, encoding="utf-8")
    _write_agent(agent, checkpoint, outside, staged / model_file(run.env_id))
    config = config_path(staged, run.env_id)
    files = {
        f"{name}.zip": staged / model_file(run.env_id),
        CONFIG: config,
        ARGS: config.with_name("args.yml"),
    }
    if (staged / COMMAND).is_file():
        files[COMMAND] = staged / COMMAND
    if video:  # before the score: it says how MuJoCo is to draw, which must be said first
        _say(verbose, "recording a video")
        files[VIDEO] = _record(play, run, place)
    score = _score(agent, staged, run, n_eval_episodes, verbose)
    write_score(staged / SCORE_OF_RUN, score)
    files[SCORE] = staged / SCORE_OF_RUN
    content = CardContent(
        repo_id=repo_id,
        algo=run.algo,
        algorithm=str(checkpoint.metadata["algorithm"]),
        env_id=run.env_id,
        file=f"{name}.zip",
        n_timesteps=checkpoint.steps(),
        score=score,
        hyperparams=config.read_text(encoding="utf-8"),
        command=files[COMMAND].read_text(encoding="utf-8").strip() if COMMAND in files else None,
        video=video,
        actor_only=checkpoint.actor_only,
    )
    return Package({**files, CARD: _write_card(content, place)}, score)


def package_file(agent: Path, repo_id: str, place: Path) -> Package:
    """Put a model file that `save` has written together with a card.

    :raises UserError: the file is none of rlzoo
    """
    checkpoint, outside = read_checkpoint(agent), _shortening()
    file = place / agent.name
    _write_agent(agent, checkpoint, outside, file)
    hyperparams = portable(checkpoint.config.get("hyperparameters", {}), outside)
    algorithm = str(checkpoint.metadata["algorithm"])
    content = CardContent(
        repo_id=repo_id,
        algo=algorithm.lower(),
        algorithm=algorithm,
        env_id=str(checkpoint.metadata.get("env_id") or "an environment without an id"),
        file=agent.name,
        n_timesteps=checkpoint.steps(),
        hyperparams=dump_yaml(hyperparams),
        is_run=False,
        actor_only=checkpoint.actor_only,
    )
    return Package({agent.name: file, CARD: _write_card(content, place)}, None)


def _write_card(content: CardContent, place: Path) -> Path:
    card = place / CARD
    card.write_text(model_card(content), encoding="utf-8")
    return card


def _write_agent(agent: Path, checkpoint: Checkpoint, outside: Outside, target: Path) -> None:
    """Return the model file as it is, or without the paths of this machine that it names."""
    config = portable(checkpoint.config, outside)
    arguments = config.get("arguments")
    if isinstance(arguments, dict) and arguments.get("tensorboard_log") is not None:
        arguments["tensorboard_log"] = None
    metadata = portable(checkpoint.metadata, outside)
    if (config, metadata) == (checkpoint.config, checkpoint.metadata):
        shutil.copyfile(agent, target)
    else:
        write_checkpoint(target, dataclasses.replace(checkpoint, config=config, metadata=metadata))


def _record(play: PlayConfig, run: RunConfig, place: Path) -> Path:
    staged = replace(
        play,
        algo=run.algo,
        env_id=run.env_id,
        folder=str(place),
        exp_id=1,
        load_best=False,
        load_checkpoint=None,
        load_last_checkpoint=False,
        verbose=0,
    )
    try:
        return record(VideoConfig(play=staged, output=str(place / VIDEO)))
    except (UserError, RunFailed) as error:
        raise UserError(f"no video: {error} (--no-video pushes without one)") from error


def _score(agent: Path, staged: Path, run: RunConfig, episodes: int | None, verbose: int) -> Score:
    """Return the score that is known of this very file, else what the agent plays now."""
    source, sha256 = agent.parent, digest(model_path(staged, run.env_id))
    if agent == model_path(source, run.env_id):
        known = kept_score(source, run, episodes or 1)
        if known is not None:
            # The copy may lack a path, and plays the same; the row of a list is not in the repository.
            return replace(known, sha256=sha256, name=None)
    _say(verbose, f"playing {episodes or EPISODES} episodes")
    score = score_run(staged, episodes or EPISODES)
    return replace(score, training_seconds=training_seconds(source))


def _shortening() -> Outside:
    """Return a function that replaces a path outside the working directory by its last part.

    So no folder of this machine is published. Each path is named once.
    """

    @cache
    def shorten(path: str) -> str:
        name = Path(path).name or "~"
        print(f"rlzoo: {path} is outside the working directory and becomes {name}", file=sys.stderr)
        return name

    return shorten


def _say(verbose: int, text: str) -> None:
    if verbose > 0:
        print(text, flush=True)
