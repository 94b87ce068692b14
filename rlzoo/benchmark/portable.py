"""The description of a run for publication: without paths of this machine and without passwords.

Paths below the working directory become relative to it. The caller decides about other absolute paths: the
model zoo refuses them, `rlzoo push` keeps their last part.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import overload

from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import dump_yaml, plain, read_yaml
from rlzoo.core.errors import UserError
from rlzoo.runs.run_folder import config_path

OF_THE_MACHINE = {
    "log_folder": ("-f", "--log-folder"),
    "tensorboard_log": ("-tb", "--tensorboard-log"),
    "num_threads": ("--num-threads",),
    "verbose": ("--verbose",),
}
"""Arguments of a run that depend on the machine and not on the agent -> their flags."""

OF_A_STUDY = ("--storage", "--study-name", "--trial-id")
"""Flags of `rlzoo train` that name a study: it is not published, and its URL may hold a password."""

COMMAND = Path("command.txt")
HIDDEN = "***"

_ABSOLUTE = re.compile(r"""(^|[=:'"]|^-[a-zA-Z])((?:~|/(?!/))[^'"]*)""")
_IN_TEXT = re.compile(r"""([\s\[({,])((?:~/|/(?![/\s]))[^'",\s\])}]*)""")
_SECRET_NAME = re.compile(
    r"(^|[._-])(password|passwd|passphrase|pwd|secrets?|token|credentials?|auth|"
    r"(api|access|private|secret|wandb)[_-]?key)$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KEY_OF_SERVICE = re.compile(
    r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|AKIA)[\w-]{16,}|(?<=Bearer )[\w.~+/=-]+"
)
"""API keys that can be recognised by their prefix."""
_SECRET = re.compile(
    r"""((?:^|[^a-z0-9])(?:password|passwd|secret|token|api[_-]?key)["']?\s*[:=]\s*)"""
    r"""("[^"]*"|'[^']*'|[^\s&,)}]+)""",
    re.IGNORECASE,
)
_LOCAL_URL = re.compile(r"""\b(?:file|sqlite|journal)://(/[^'"\s]*)""")
_USER_OF_URL = re.compile(r"""(://)(?:[^/\s'"]*|[^/\s'":]*:[^\s'"]*)@""")

Outside = Callable[[str], str]
"""Function of an absolute path outside the working directory that returns its replacement."""


def portable_texts(
    source: Path, run: RunConfig, outside: Outside | None = None, require_command: bool = True
) -> dict[Path, str]:
    """Return hyperparameters, arguments and command of a run, without what is specific to this machine.

    :param source: the folder of the run
    :param outside: what a path outside the working directory becomes; None: it is refused
    :param require_command: False: a run that `rlzoo train` has not begun, such as an imported one, has none
    :return: file in the run's folder -> text
    :raises UserError: a path is refused, or the run was not begun by `rlzoo train`
    """
    outside = outside or refusing(source)
    defaults = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    arguments = dataclasses.asdict(run) | {name: defaults[name] for name in OF_THE_MACHINE}
    config = config_path(Path(), run.env_id)
    texts = {
        config: dump_yaml(portable(read_yaml(source / config), outside)),
        config.with_name("args.yml"): dump_yaml(portable(plain(arguments), outside)),
    }
    if require_command or _words(source):
        texts[COMMAND] = shlex.join(str(portable(word, outside)) for word in _command(source, run)) + "\n"
    return texts


@overload
def portable(value: dict[str, object], outside: Outside) -> dict[str, object]: ...


@overload
def portable(value: object, outside: Outside) -> object: ...


def portable(value: object, outside: Outside) -> object:
    """Remove absolute paths, user names in URLs and passwords from nested dictionaries and lists.

    >>> portable({"file": "/elsewhere/maze.xml", "api_key": "1234"}, lambda path: Path(path).name)
    {'file': 'maze.xml', 'api_key': '***'}
    """
    if isinstance(value, dict):
        return {
            key: HIDDEN if _is_secret(str(key), item) else portable(item, outside)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [portable(item, outside) for item in value]
    if not isinstance(value, str):
        return value

    def shortened(path: str) -> str:
        if Path(path).is_relative_to(Path.cwd()):
            return Path(path).relative_to(Path.cwd()).as_posix()
        return outside(path)

    text = _KEY_OF_SERVICE.sub(HIDDEN, _SECRET.sub(rf"\1{HIDDEN}", value))
    text = _USER_OF_URL.sub(r"\1", text)
    text = _LOCAL_URL.sub(lambda match: shortened(f"/{match[1].lstrip('/')}"), text)
    for pattern in (_ABSOLUTE, _IN_TEXT):
        text = pattern.sub(lambda match: match[1] + shortened(match[2]), text)
    return text


def _is_secret(name: str, value: object) -> bool:
    """Return whether a value is secret by its name; `max_tokens: 5` is not, `password: 5` is."""
    match = _SECRET_NAME.search(_HUMP.sub("_", name))
    if match is None or isinstance(value, bool) or not value:
        return False
    return isinstance(value, str | list | dict) or match[2].lower().startswith(("pass", "pwd"))


def refusing(source: Path) -> Outside:
    """Return a function that refuses paths outside the working directory.

    :param source: what names them, for the error
    """

    def refuse(path: str) -> str:
        raise UserError(f"{source} names {path}, which is not below the working directory")

    return refuse


def _words(source: Path) -> list[str]:
    """Return the words of a run's command; none if it is not `rlzoo train`."""
    try:
        words = shlex.split((source / COMMAND).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or no command of a shell
        return []
    return words if words[:2] == ["rlzoo", "train"] else []


def _command(source: Path, run: RunConfig) -> list[str]:
    """Return the command that reproduces the training.

    :raises UserError: the run was not begun by `rlzoo train`
    """
    words = _words(source)
    if not words:
        raise UserError(
            f"{source / COMMAND} does not say how to train this agent: it begins with `rlzoo train`"
        )
    left_out = [*OF_A_STUDY, *(flag for flags in OF_THE_MACHINE.values() for flag in flags)]
    kept, words = words[:2], words[2:]
    while words:
        flag, equals, _ = words[0].partition("=")
        if flag not in left_out:
            kept.append(words[0])
        words = words[1 if equals or flag not in left_out else 2 :]
    return kept if any(word.startswith("--seed") for word in kept) else [*kept, "--seed", str(run.seed)]
