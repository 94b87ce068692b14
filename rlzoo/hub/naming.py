"""Names of environments, models and repositories as `huggingface_sb3` makes them."""

from __future__ import annotations

from rlzoo.config.run import safe_name


class EnvironmentName(str):
    """Environment id as part of a file name.

    :param gym_id: environment id

    >>> EnvironmentName("robots/Arm-v0")
    'robots-Arm-v0'
    >>> EnvironmentName("robots/Arm-v0").gym_id
    'robots/Arm-v0'
    """

    gym_id: str

    def __new__(cls, gym_id: str) -> EnvironmentName:
        name = super().__new__(cls, safe_name(gym_id))
        name.gym_id = gym_id
        return name


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
