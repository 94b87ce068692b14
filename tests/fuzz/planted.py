"""Bad loaders, which the sandbox must notice: a check that cannot fail is none."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from rlzoo.core.errors import UserError
from tests.fuzz.loader import Loader, ctrl_c_after
from tests.fuzz.mutations import CANARY, PICKLE

ELSEWHERE = Path("/tmp", CANARY)


def shell() -> None:
    os.system(f"touch {ELSEWHERE}")


def swallowed_shell() -> None:
    with contextlib.suppress(BaseException):
        shell()


def process() -> None:
    subprocess.run(["true"], check=True)


def unpickle() -> None:
    pickle.loads(PICKLE)


def text_run() -> None:
    exec(f"{CANARY} = 1")


def module() -> None:
    sys.path.insert(0, os.getcwd())
    Path(f"{CANARY}.py").write_text("x = 1")
    __import__(CANARY)


def write() -> None:
    ELSEWHERE.write_text("x")


def make_folder() -> None:
    ELSEWHERE.mkdir()


def foreign_error() -> None:
    raise KeyError("not an error of the package")


def own_error() -> None:
    raise UserError("refused")


def loop() -> None:
    while True:
        pass


def deaf_loop() -> None:
    """A loop in C, in which Python handles no signals."""
    sum(range(10**12))


def interrupted() -> None:
    with ctrl_c_after(0.05):
        time.sleep(10)


def memory() -> None:
    _ = b"x" * (1200 * 2**20)


def hidden_memory_error() -> None:
    try:
        bytearray(2**36)
    except MemoryError as error:
        raise UserError("too large for this machine") from error


def die() -> None:
    os.abort()


EXPECTED: dict[str, tuple[Callable[[], None], str]] = {
    "shell": (shell, "executed"),
    "swallowed_shell": (swallowed_shell, "executed"),
    "process": (process, "executed"),
    "unpickle": (unpickle, "executed"),
    "text_run": (text_run, "executed"),
    "module": (module, "imported"),
    "write": (write, "touched"),
    "make_folder": (make_folder, "touched"),
    "foreign_error": (foreign_error, "traceback"),
    "own_error": (own_error, "refused"),
    "loop": (loop, "hang"),
    "deaf_loop": (deaf_loop, "hang"),
    "interrupted": (interrupted, "interrupted"),
    "memory": (memory, "memory"),
    "hidden_memory_error": (hidden_memory_error, "memory"),
    "die": (die, "died"),
}


def loader_of(name: str) -> Loader:
    """Honest files are of one letter; the second mutated one does what is planted."""

    def make(folder: Path) -> None:
        (folder / "file").write_text("a")

    def mutate(rng: Random, _: str, data: bytes) -> bytes:
        return data * 2

    def use(folder: Path, rng: Random) -> Any:
        os.chdir(folder)
        if (folder / "file").read_text() == "aa":
            EXPECTED[name][0]()

    return Loader(name, make, use, mutate=mutate)


DISHONEST = Loader("dishonest", lambda folder: (folder / "file").touch(), lambda *_: own_error())
LOADERS = (*map(loader_of, EXPECTED), DISHONEST)
