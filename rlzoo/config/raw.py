"""A configuration as files and the command line give it: text is parsed, nothing is interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RawConfig:
    """Hyperparameters of one algorithm on one environment, and the source of each.

    :param algo: name of the algorithm
    :param values: an entry of a hyperparameter file, with overrides merged
    :param sources: key -> "hyperparams/ppo.yml: CartPole-v1"
    :param entry: "CartPole-v1", "atari", "default", ...
    :param translated_keys: keys that were valid and have been translated, for "did you mean"
    """

    algo: str
    values: dict[str, object]
    sources: dict[str, str] = field(default_factory=dict)
    entry: str = ""
    translated_keys: tuple[str, ...] = ()
