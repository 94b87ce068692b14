"""`rlzoo push` and `rlzoo.push_to_hub`: an agent and what describes it, uploaded in one commit."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from rlzoo.config.hub import PushConfig, agent_name
from rlzoo.config.run import PlayConfig
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import import_packages
from rlzoo.hub.client import check_repo_id, connect, hub_errors, quiet, require_token
from rlzoo.hub.hub_files import COMMAND, SCORE, VIDEO
from rlzoo.hub.package import Package, package_file, package_run
from rlzoo.runs.agent_file import with_agent_file
from rlzoo.runs.run_folder import find_agent, model_path, read_run
from rlzoo.training.checkpoint import find_checkpoint


def push(config: PushConfig) -> str:
    """Upload an agent as `rlzoo push` does, and print where it is.

    :return: the address of the commit
    :raises UserError: there is no such agent, no token, or the token may not write there
    :raises RunFailed: the hub cannot be reached, or the upload was cut; the repository is as it was
    """
    api = connect()
    token = require_token(api)
    play = with_agent_file(config.play)
    import_packages(play.gym_packages, play.env_id)
    agent = find_agent(play)
    run = read_run(agent.path.parent)
    name = config.repo_name or agent_name(run.algo, run.env_id)
    with quiet(config.verbose), tempfile.TemporaryDirectory(prefix="rlzoo-push-") as place:
        user = _user(api, token)  # so that a wrong token is found before anything is played
        repo_id = check_repo_id(f"{config.organization or user}/{name}")
        package = package_run(
            agent.path,
            play,
            repo_id,
            Path(place),
            n_eval_episodes=config.n_eval_episodes,
            video=config.video,
            verbose=config.verbose,
        )
        url = _upload(api, token, repo_id, package, config.commit_message, config.private)
    if package.score is not None and config.verbose > 0:
        print(f"{agent.path}: {package.score.mean:.2f} +/- {package.score.std:.2f}")
    print(url)
    return url


def push_to_hub(
    repo_id: str,
    filename: str | os.PathLike[str],
    commit_message: str = "Upload an agent of rlzoo",
    token: str | None = None,
    *,
    private: bool = False,
    n_eval_episodes: int | None = None,
    video: bool = True,
    video_length: int = 1000,
    verbose: int = 0,
) -> str:
    """Upload an agent to the Hugging Face Hub, in one commit.

    An agent in the folder of a run goes with its hyperparameters, its score, a video and a model card; a file
    that `save` has written goes with a card. Nothing that is uploaded is pickled or names a folder of this
    machine.

    >>> push_to_hub("me/ppo-CartPole-v1", "logs/ppo/CartPole-v1_1")  # doctest: +SKIP

    :param repo_id: "organization/name"; the repository is made if it is not there
    :param filename: the folder of a run, or a model file
    :param token: that may write (default: the one of huggingface_hub)
    :param private: whether a repository that is made is private
    :param n_eval_episodes: that the score is of, at least (default: a score that is known, or 100)
    :param video_length: steps
    :param verbose: 1: say what is done, 2: also what huggingface_hub says
    :return: the address of the commit
    :raises UserError: there is no such agent, no token, or the token may not write there
    :raises RunFailed: the hub cannot be reached, or the upload was cut; the repository is as it was
    """
    path, api = Path(filename), connect()
    if path.is_dir():
        path = model_path(path, read_run(path).env_id)
    path = find_checkpoint(path)
    token = require_token(api, token)
    check_repo_id(repo_id)
    with quiet(verbose), tempfile.TemporaryDirectory(prefix="rlzoo-push-") as place:
        _user(api, token)
        if any(path.parent.glob("*/args.yml")):
            run = read_run(path.parent)
            play = PlayConfig(algo=run.algo, env_id=run.env_id, n_timesteps=video_length)
            package = package_run(
                path,
                play,
                repo_id,
                Path(place),
                n_eval_episodes=n_eval_episodes,
                video=video,
                verbose=verbose,
            )
        else:
            package = package_file(path, repo_id, Path(place))
        return _upload(api, token, repo_id, package, commit_message, private)


def _user(api: HfApi, token: str) -> str:
    with hub_errors(api, "the user of the token"):
        return str(api.whoami(token)["name"])


def _upload(api: HfApi, token: str, repo_id: str, package: Package, message: str, private: bool) -> str:
    """Make the repository if it is not there, and upload all files in one commit.

    The files go as streams: huggingface_hub then uploads them by plain HTTP, which every hub understands.
    """
    if not message.strip():
        raise UserError("the message of a commit cannot be empty")
    with hub_errors(api, repo_id), ExitStack() as opened:
        api.create_repo(repo_id, token=token, private=private or None, exist_ok=True)
        there = set(api.list_repo_files(repo_id, token=token))
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(name, opened.enter_context(path.open("rb")))
            for name, path in package.files.items()
        ]
        stale = there & {VIDEO, SCORE, COMMAND} - package.files.keys()  # of an agent that was here before
        operations += [CommitOperationDelete(name, is_folder=False) for name in sorted(stale)]
        return str(api.create_commit(repo_id, operations, commit_message=message, token=token).commit_url)
