"""What the pages of the algorithms say about each of them, read from the code, as Markdown."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from search_ranges import in_words

from rlzoo.algorithms.base import COMMON_ARGUMENTS
from rlzoo.config import catalog
from rlzoo.config.hyperparams import shipped_envs, shipped_files, shipped_folder
from rlzoo.config.legacy.sb2_options import OPTIONS, SB2_CLASSES, Conversion
from rlzoo.core.errors import UserError
from rlzoo.params import ranges
from rlzoo.params.descriptions import Hyperparameter, by_section, describe
from rlzoo.params.shared import CONSTRUCTOR, FILE_KEYS
from rlzoo.policies.policy_registry import get_policy_class

KINDS = {
    "on_policy": "on-policy",
    "off_policy": "off-policy",
    "imitation": "imitation",
    "ars": "random search",
}
POLICIES = (
    "LinearPolicy",
    "MlpPolicy",
    "CnnPolicy",
    "MultiInputPolicy",
    "LnMlpPolicy",
    "LnCnnPolicy",
    "MlpLstmPolicy",
    "MlpLnLstmPolicy",
    "CnnLstmPolicy",
    "CnnLnLstmPolicy",
    "MultiInputLstmPolicy",
)
MARKED_ENTRY = re.compile(r"(?m)^# (?P<mark>tuned|paper|untested): .*\n(?P<entry>[^\s#].*):$")
SPARE = r"([\\*<>\[\]|$_{}])"


def plain(text: str) -> str:
    """Return text with its Markdown signs escaped; code spans and flags become code, addresses links."""
    parts = re.split(r"(`[^`]*`|https?://[^\s,;)]+|(?<!\w)--[a-z][\w-]+)", text)
    return "".join(map(_part, parts))


def _part(part: str) -> str:
    if part.startswith("`"):
        return part.replace("|", r"\|")
    if part.startswith("--"):
        return f"`{part}`"
    return f"<{part}>" if part.startswith("http") else re.sub(SPARE, r"\\\1", part)


def table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; cells are Markdown, in which only the column separator is escaped."""
    rows = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows))


def code(value: object) -> str:
    """Return a value as Python writes it, in a code span; large numbers with separators."""
    text = f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return f"`{text}`"


def module_of(name: str) -> str:
    """Return the name of the module that an algorithm is in."""
    return catalog.resolve(name).partition(":")[0]


def source_of(name: str) -> str:
    """Return the path of its file, from the top of the repository."""
    return module_of(name).replace(".", "/") + ".py"


def paragraphs(name: str) -> list[str]:
    """Return the paragraphs of the docstring of an algorithm's module."""
    catalog.load(name)
    return inspect.cleandoc(sys.modules[module_of(name)].__doc__ or "").split("\n\n")


def kind(name: str) -> str:
    """Return the kind of learning: on-policy, off-policy, imitation or random search."""
    return KINDS[module_of(name).split(".")[2]]


def policies(name: str) -> list[str]:
    """Return the policies that an algorithm takes by name."""
    family = getattr(catalog.load(name), "policy_family", None)
    return [policy for policy in POLICIES if family is not None and _knows(family, policy)]


def _knows(family: str, policy: str) -> bool:
    try:
        get_policy_class(family, policy)
    except UserError:
        return False
    return True


def config_of(name: str) -> type | None:
    """Return the dataclass of an algorithm's hyperparameters; None for one that makes another's agents."""
    return getattr(catalog.load(name), "Config", None)


def supports(name: str) -> dict[str, bool]:
    """Return what an algorithm supports, by the name of the feature."""
    config: Any = config_of(name)
    if (other := stand_in(name)) is not None:
        return supports(other)
    return {
        "recurrent policies": any("Lstm" in policy for policy in policies(name)),
        "action masks": getattr(catalog.load(name), "policy_family", "") == "maskable",
        "hindsight replay": hasattr(config, "replay_buffer_class") or name == "her",
        "prioritised replay": hasattr(config, "replay_buffer_class"),
        "n-step returns": hasattr(config, "replay_buffer_class") and hasattr(config, "n_steps"),
        "state-dependent exploration": hasattr(config, "use_sde"),
    }


def _verdict(name: str, feature: str) -> str:
    """Say that a feature is supported, and under which condition."""
    if feature == "recurrent policies" and hasattr(config_of(name), "learner"):
        return 'yes, with `learner="ppo"`'
    return "yes"


def stand_in(name: str) -> str | None:
    """Return the algorithm whose agents `name` makes; None for one that learns itself."""
    cls = catalog.load(name).__name__
    return SB2_CLASSES[cls].new if cls in SB2_CLASSES else None


def spaces(name: str) -> str:
    """Return the table of what an algorithm is called, where it is, and what it supports."""
    cls, config, taken = catalog.load(name), config_of(name), policies(name)
    sees_images, sees_dicts = (any(kind in policy for policy in taken) for kind in ("Cnn", "MultiInput"))
    observed = ["Box (vectors, images)" if sees_images else "Box (vectors)"]
    observed += ["Discrete", "MultiDiscrete", "MultiBinary"] + ["Dict of those"] * sees_dicts
    lines = [
        ("command line", f"`--algo {name}`"),
        ("Python", f"`rlzoo.{cls.__name__}`"),
        ("module", f"{{source}}`{source_of(name)}`"),
        ("kind", kind(name)),
        *([("paper", paper(name))] if paper(name) else []),
        ("action spaces", ", ".join(catalog.action_spaces(name))),
    ]
    if config is not None:
        lines += [
            ("observation spaces", ", ".join(observed)),
            ("policies", ", ".join(f"`{policy}`" for policy in taken)),
            ("hyperparameters", f"`{config.__name__}`, see below"),
            *((feature, _verdict(name, feature) if has else "no") for feature, has in supports(name).items()),
        ]
    files = " and ".join(f"`{file.label}`" for file in shipped_files(name))
    n_envs = len(shipped_envs(name))
    counted = f", for {n_envs} environments (tuned: {len(tuned_envs(name))})"
    shipped = files + (counted if n_envs else ": a default for every environment")
    return table(["", ""], [*lines, ("shipped hyperparameters", shipped)])


def tuned_envs(name: str) -> list[str]:
    """Return the environments whose shipped entry is marked as found by a search."""
    marks: dict[str, str] = {}
    for file in reversed(shipped_files(name)):  # an entry of the newer file is preferred
        path = shipped_folder("hyperparams").parent / file.label
        text = path.read_text() if path.is_file() else ""  # no file: the defaults of the Config
        marks |= {match["entry"]: match["mark"] for match in MARKED_ENTRY.finditer(text)}
    return [env for env in shipped_envs(name) if marks[env] == "tuned"]


def hyperparameters(name: str) -> str:
    """Return tables of the hyperparameters by section: default, search range and description."""
    if name == "her":
        return _arguments_of_her()
    if (other := stand_in(name)) is not None:
        return _older_options(catalog.load(name).__name__, other)
    config, algorithm = config_of(name), catalog.load(name)
    assert config is not None
    searched = dict(getattr(algorithm, "search_space", {}))
    parts = []
    for section, items in by_section(describe(config)).items():
        lines = [_line(item, searched) for item in items]
        parts += [f"**{section.capitalize()}**", table(HEADINGS, lines)]
    if searched:
        others = [(f"`{key}`", in_words(parameter), _text_of(key)) for key, parameter in searched.items()]
        parts += ["**Searched besides**", table(["key", "search range", "description"], others)]
    return "\n\n".join(parts)


HEADINGS = ["hyperparameter", "default", "search range", "description"]


def _line(item: Hyperparameter, searched: dict[str, Any]) -> tuple[str, ...]:
    parameter = searched.pop(item.name, None)
    sampled = "-" if parameter is None else in_words(parameter)
    return f"`{item.name}`", code(item.default), sampled, plain(item.text)


def _text_of(key: str) -> str:
    """Describe a searched key that is no field of a Config."""
    if key in FILE_KEYS:
        return plain(FILE_KEYS[key].text)
    return KEYWORDS.get(key.removeprefix("policy_kwargs."), "")


KEYWORDS = {
    "net_arch": "widths of the hidden layers",
    "activation_fn": "activation function",
    "ortho_init": "orthogonal initialisation of the weights",
    "log_std_init": "initial logarithm of the standard deviation of Gaussian actions",
    "n_critics": "number of critics",
    "dueling": "dueling network: separate streams for value and advantages",
    "layer_norm": "layer normalisation",
    "n_quantiles": "number of quantiles",
    "lstm_hidden_size": "width of the LSTM",
    "enable_critic_lstm": "a separate LSTM for the critic",
}
"""Of policies, by the name of the keyword."""


def _arguments_of_her() -> str:
    cls: Any = catalog.load("her")
    text = inspect.getdoc(cls) or ""
    described = {
        match[1]: re.sub(r"\s+", " ", match[2])
        for match in re.finditer(r":param (\w+): (.*?)(?=\n:|\Z)", text, re.S)
    }
    defaults = inspect.signature(cls.__new__).parameters
    lines = []
    for argument, described_as in described.items():
        default = defaults[argument].default if argument in defaults else inspect.Parameter.empty
        shown = "-" if default is inspect.Parameter.empty else code(default)
        parameter = ranges.HINDSIGHT.get(argument)
        sampled = "-" if parameter is None else in_words(parameter)
        lines.append((f"`{argument}`", shown, sampled, plain(described_as)))
    return table(["argument", *HEADINGS[1:]], lines)


def _older_options(cls: str, other: str) -> str:
    rules = OPTIONS[catalog.load(other).__name__]
    lines = []
    for option, default in SB2_CLASSES[cls].defaults.items():
        rule = rules.get(option, option)
        now = rule.sets if isinstance(rule, Conversion) else rule
        converted = "converted" if isinstance(rule, Conversion) else "the same value"
        lines.append((f"`{option}`", code(default), f"`{now}`", converted))
    fixed = ", ".join(f"`{key}={value!r}`" for key, value in SB2_CLASSES[cls].implicit.items())
    note = f"\n\nFixed in the older class, and therefore here: {fixed}." if fixed else ""
    return table(["option", "default", f"option of {catalog.load(other).__name__}", "value"], lines) + note


def departures(name: str) -> str:
    """Return what the module's docstring says about departures from the paper.

    :raises ValueError: it says nothing
    """
    for paragraph in paragraphs(name):
        if (found := re.search(r"Departures(?: from the paper)?:\s*(.*)", paragraph, re.S)) is not None:
            text = re.sub(r"\s+", " ", found[1])
            return plain(text[0].upper() + text[1:])
    raise ValueError(f"the docstring of {module_of(name)} names no departures")


def paper(name: str) -> str:
    """Return the paper that the first line of the module's docstring names, as a link; empty without one."""
    found = re.search(
        r"\(([^()]+ \d{4}), (https?://\S+)\)|: (.+ \(\d{4}\)), (https?://\S+?)\.?$", paragraphs(name)[0], re.M
    )
    if found is None:
        return ""
    label, url = (found[1], found[2]) if found[1] else (found[3], found[4])
    return f"[{label}]({url})"


def algorithm_table() -> str:
    """Return the table of all algorithms: actions, kind, features and paper."""
    lines = []
    for name in catalog.names():
        has = supports(name)
        also = [short for feature, short in SHORT.items() if has[feature]]
        spaces_of = catalog.action_spaces(name)
        actions = "all four" if spaces_of == catalog.ALL_SPACES else ", ".join(spaces_of)
        link = f"[{catalog.load(name).__name__}]({name}.md)"
        counts = str(len(shipped_envs(name))), str(len(tuned_envs(name)))
        lines.append([link, f"`{name}`", actions, kind(name), ", ".join(also), *counts, paper(name)])
    return table(["algorithm", "`--algo`", "actions", "kind", "supports", "entries", "tuned", "paper"], lines)


SHORT = {"recurrent policies": "recurrent", "action masks": "masks", "hindsight replay": "hindsight"}


def constructor_arguments() -> str:
    """Return the table of the arguments that constructors take besides the hyperparameters."""
    lines = []
    for name, (_, doc) in CONSTRUCTOR.items():
        common = name in COMMON_ARGUMENTS or name in ("policy", "env")
        lines.append((f"`{name}`", plain(doc.text) + ("" if common else "; on-policy algorithms only")))
    return table(["argument", "description"], lines)
