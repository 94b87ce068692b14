"""What `huggingface_sb3` has and rlzoo has not: names of models and repositories, and `package_to_hub`."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.config.run import EnvironmentName as EnvironmentName
from rlzoo.hub.upload import push_to_hub

if TYPE_CHECKING:
    from rlzoo.algorithms.base import Algorithm


class ModelName(str):
    """Name of a model of one algorithm and environment.

    :param algo_name: such as "ppo"
    :param environment_name: an `EnvironmentName`

    >>> ModelName("ppo", EnvironmentName("CartPole-v1")).filename
    'ppo-CartPole-v1.zip'
    """

    def __new__(cls, algo_name: str, environment_name: str) -> ModelName:
        return super().__new__(cls, f"{algo_name}-{environment_name}")

    @property
    def filename(self) -> str:
        """Name of the model file."""
        return f"{self}.zip"


class ModelRepoId(str):
    """Repository of a model on the Hugging Face Hub.

    :param org: organization or user
    :param model_name: a `ModelName`

    >>> ModelRepoId("my-lab", ModelName("ppo", "CartPole-v1"))
    'my-lab/ppo-CartPole-v1'
    """

    def __new__(cls, org: str, model_name: str) -> ModelRepoId:
        return super().__new__(cls, f"{org}/{model_name}")


def package_to_hub(
    model: Algorithm,
    model_name: str,
    model_architecture: str,
    env_id: str,
    eval_env: object,
    repo_id: str,
    commit_message: str,
    is_deterministic: bool = True,
    n_eval_episodes: int = 10,
    token: str | None = None,
    video_length: int = 1000,
    logs: object = None,
) -> str:
    """Upload an agent with a model card; a warning says what else `rlzoo push` uploads.

    :param model: the agent
    :param model_name: of the file, without .zip
    :param repo_id: "organization/name"
    :param token: that may write (default: the one of huggingface_hub)
    :return: the address of the commit
    :raises UserError: there is no token, or it may not write there

    The other parameters have no effect.
    """
    warnings.warn(
        "package_to_hub uploads the agent alone; rlzoo.push_to_hub(repo_id, FOLDER OF A RUN) evaluates it and"
        " records a video",
        stacklevel=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{model_name}.zip"
        model.save(path)
        return push_to_hub(repo_id, path, commit_message, token)
