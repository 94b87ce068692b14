"""One `rlzoo push` and one `rlzoo pull`, and how repositories of agents are called."""

from __future__ import annotations

from dataclasses import dataclass

from rlzoo.config.run import LOG_FOLDER, PlayConfig, safe_name


@dataclass(frozen=True, kw_only=True)
class PushConfig:
    """One `rlzoo push`."""

    play: PlayConfig  # the agent, and how the video of it is played
    organization: str = ""  # or user; empty: the user that the token belongs to
    repo_name: str = ""  # empty: that of `agent_name`
    commit_message: str = "Upload an agent of rlzoo"  # message of the commit on the hub
    private: bool = False  # create a private repository
    n_eval_episodes: int | None = None  # at least; None: a score that is known holds
    video: bool = True  # record a video for the model card
    verbose: int = 1  # 0: only the result, 2: also what huggingface_hub says


@dataclass(frozen=True, kw_only=True)
class PullConfig:
    """One `rlzoo pull`."""

    repo_id: str  # "organization/name"
    file: str = ""  # the agent in it; empty: that of `agent_name`, else the only one
    algo: str = ""  # that it must be of; empty: any
    env_id: str = ""  # that it must be of; "": any
    revision: str = "main"  # a branch, a tag or a commit
    folder: str = LOG_FOLDER  # folder of all runs
    exp_id: int = 0  # number of the run that it becomes; 0: the next one
    force: bool = False  # replace the run of that number
    verbose: int = 1  # 0: only the result, 1: what is downloaded


def agent_name(algo: str, env_id: str) -> str:
    """Return the name of an agent, and of its repository.

    >>> agent_name("ppo", "ALE/Pong-v5")
    'ppo-ALE-Pong-v5'
    """
    return f"{algo}-{safe_name(env_id)}"
