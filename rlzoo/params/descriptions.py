"""Fields of a Config that describe themselves.

A Config is a frozen dataclass. `param` declares a field with its default and its description:

    @dataclass(frozen=True, kw_only=True)
    class MyConfig:
        gamma: float = param(0.99, doc=shared.GAMMA)
        n_heads: int = param(4, doc="number of Q-heads; more cost time", section="critics")

Descriptions that several algorithms have in common are in `rlzoo.params.shared`. Docstrings, the stub for
editors, `rlzoo show --explain` and `rlzoo list algos --verbose` are made from them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, get_args

T = TypeVar("T")

Section: TypeAlias = Literal[
    "agent",
    "training",
    "environment",
    "demonstrations",
    "optimisation",
    "rollout",
    "replay buffer",
    "returns and advantages",
    "losses",
    "entropy",
    "trust region",
    "critics",
    "target networks",
    "discriminator",
    "random search",
    "exploration",
    "normalisation",
]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""In the order in which they are shown."""


@dataclass(frozen=True)
class Doc:
    """The description of a hyperparameter, and the section in which it is shown."""

    text: str
    section: Section

    def plus(self, note: str) -> Doc:
        """Return the same description with a note on what is particular to one algorithm."""
        return Doc(f"{self.text}; {note}", self.section)


@dataclass(frozen=True)
class Hyperparameter:
    """A field of a Config: name, annotation, default, description and section ("" where it has none)."""

    name: str
    annotation: str
    default: object
    text: str
    section: str


def param(default: T, *, doc: Doc | str, section: Section | None = None) -> T:
    """Declare a field of a Config.

    :param default: its default
    :param doc: a description from `rlzoo.params.shared`, or a string: what the hyperparameter does, its unit,
        when to raise or lower it, its source
    :param section: where it is shown; needed with a string, and replaces the section of a shared description
    :raises ValueError: a string without a section
    """
    if isinstance(doc, str):
        if section is None:
            raise ValueError(f"the description {doc!r} needs a section")
        doc = Doc(doc, section)
    elif section is not None:
        doc = Doc(doc.text, section)
    field: T = dataclasses.field(default=default, metadata={"doc": doc})
    return field


def describe(config: type) -> list[Hyperparameter]:
    """Return the hyperparameters of a Config class, in the order of its fields."""
    described = []
    for field in dataclasses.fields(config):
        doc: Doc | None = field.metadata.get("doc")
        text, section = (doc.text, doc.section) if doc else ("", "")
        described.append(Hyperparameter(field.name, str(field.type), field.default, text, section))
    return described


def by_section(hyperparameters: list[Hyperparameter]) -> dict[str, list[Hyperparameter]]:
    """Return hyperparameters by section, in the order of `SECTIONS`; those without one come last."""
    order = [*SECTIONS, ""]
    found = {section: [item for item in hyperparameters if item.section == section] for section in order}
    return {section: items for section, items in found.items() if items}
