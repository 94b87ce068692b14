"""A configuration as files and the command line give it: text is parsed, nothing is interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RawConfig:
    """Hyperparameters of one algorithm on one environment, and the source of each."""

    algo: str  # name in the catalogue
    values: dict[str, object]  # an entry of a hyperparameter file, with overrides merged
    sources: dict[str, str] = field(default_factory=dict)  # key -> "hyperparams/ppo.yml: CartPole-v1"
    entry: str = ""  # "CartPole-v1", "atari", "default", ...
    translated_keys: tuple[str, ...] = ()  # valid keys that were translated, for "did you mean"
