"""Run cases in a child process that notices what a file must not do.

An audit hook records, and stops, what executes or writes outside of the folder of the case. The child ends
itself when a case takes too long; the peak of its memory is read after each case.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from rlzoo.accel.memory import TooManyParameters
from rlzoo.core.errors import RunFailed, UserError
from tests.fuzz.mutations import CANARY

MODULES = {
    "files": "tests.fuzz.loaders",
    "commands": "tests.fuzz.commands",
    "short": "tests.fuzz.short",
    "hostile": "tests.fuzz.hostile",
    "planted": "tests.fuzz.planted",
    "kills": "tests.fuzz.kills",
    "signals": "tests.fuzz.signals",
}
"""Where `LOADERS` is."""
ROOT = Path(__file__).parents[2]
SECONDS = 20
"""Longest time for one case."""
BYTES = 2**30
"""Memory that a case may take beyond that of the honest file."""
FREE_BYTES = 4 * 2**30
"""What the child may allocate at all, so that a greedy case does not disturb the machine."""

EXECUTING = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.kill",
    "subprocess.Popen", "pty.spawn", "pickle.find_class", "socket.connect", "socket.bind", "webbrowser.open",
    "urllib.Request", "ctypes.dlopen",
)  # fmt: skip
CHANGING = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
    "os.chown", "shutil.rmtree", "shutil.move",
)  # fmt: skip
BREAKS = ("executed", "touched", "imported", "traceback", "hang", "memory", "died", "dishonest")


class Forbidden(BaseException):
    """Raised where a case was about to do what no file may do."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    :param what: files or commands
    :param kind: ok, refused (an error of the package), interrupted, or one of `BREAKS`
    :param where: the exception and the last line of the package in its traceback
    """

    what: str
    loader: str
    seed: int
    number: int
    kind: str
    where: str = ""
    text: str = ""
    seconds: float = 0.0
    megabytes: int = 0

    @property
    def is_break(self) -> bool:
        return self.kind in BREAKS

    def __str__(self) -> str:
        """What broke, and the command that runs this case alone."""
        case = f"--loader {self.loader} --seed {self.seed} --first {self.number} --count 1"
        return f"{self.kind}: {self.where}: {self.text[-400:]!r}\n    python -m tests.fuzz {self.what} {case}"


class Guard:
    """The audit hook of a child process; hooks cannot be removed, so it is switched."""

    def __init__(self, writable: Sequence[Path]) -> None:
        self.writable = tuple(os.path.realpath(path) for path in writable)
        self.active = False
        self.events: list[tuple[str, str]] = []  # (kind of break, what happened)
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        kind = self._judge(event, args)
        if kind:
            self.events.append((kind, f"{event} {args!r}"[:300]))
            raise Forbidden(event)

    def _judge(self, event: str, args: tuple[Any, ...]) -> str:
        if event in EXECUTING and (event, args) != ("ctypes.dlopen", (None,)):  # the process itself
            return "executed"
        if event == "exec" and Path(args[0].co_filename).stem in (CANARY, "antigravity"):
            return "imported"
        if event == "exec" and CANARY in repr((args[0].co_names, args[0].co_consts)):
            return "executed"
        if event == "open" and self._writes(args[1], args[2]) and not self._is_ours(args[0]):
            return "touched"
        if event in CHANGING and not all(map(self._is_ours, args[:1])):
            return "touched"
        return ""

    @staticmethod
    def _writes(mode: Any, flags: Any) -> bool:
        if isinstance(mode, str):
            return any(letter in mode for letter in "wax+")
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def _is_ours(self, path: Any) -> bool:
        if isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or real.startswith(self.writable)


# -- in the child -------------------------------------------------------------------------------


def run_case(case: Callable[[], None], guard: Guard, guarded: bool = True) -> tuple[str, str, str]:
    """Run a case under the guard; returns the kind of its outcome, where it broke, and the error's text."""
    guard.events.clear()
    kind, where, text = "ok", "", ""
    guard.active = guarded
    try:
        case()
    except (UserError, RunFailed) as error:
        kind, where, text = ("memory" if _out_of_memory(error) else "refused"), place(error), str(error)
    except KeyboardInterrupt:
        kind = "interrupted"
    except BaseException as error:
        kind, where, text = "traceback", place(error), str(error)
    finally:
        guard.active = False
    if guard.events:
        kind, text = guard.events[0]
    return kind, where, text


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether the error stands for a refused allocation, which a larger machine would have granted.

    Parameters of networks are no such allocation: where they are granted, they are counted and refused before
    anything is written to them.
    """
    while error is not None and not isinstance(error, TooManyParameters):
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def place(error: BaseException) -> str:
    """`ValueError at rlzoo/io/npz.py:60 in read_npz`."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}rlzoo{os.sep}" in frame.filename
    ]
    if not frames:
        return type(error).__name__
    path = frames[-1].filename.rpartition(f"{os.sep}rlzoo{os.sep}")[2]
    return f"{type(error).__name__} at rlzoo/{path}:{frames[-1].lineno} in {frames[-1].name}"


class Peak:
    """Memory that a case took: the peak of the resident set, less what was there before."""

    def __enter__(self) -> Peak:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak until now
        self._before, self.bytes = self._status("VmRSS"), 0
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = max(0, self._status("VmHWM") - self._before)

    @staticmethod
    def _status(name: str) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        return 0


def limit_memory(free: int = FREE_BYTES) -> None:
    """Let this process allocate so much more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + free
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


@dataclass(frozen=True)
class Batch:
    """Cases of some loaders that one child process runs.

    :param what: "files", "commands", or the module that has `LOADERS`
    :param first: number of the first case of each loader
    :param count: cases of each loader
    :param seconds: longest time for a case
    """

    what: str
    names: tuple[str, ...]
    seed: int
    first: int
    count: int
    seconds: float = SECONDS

    @property
    def module(self) -> str:
        return MODULES.get(self.what, self.what)


def serve(batch: Batch, folder: Path) -> Iterator[dict[str, Any]]:
    """The cases of a batch: `{"begin": [loader, number]}` before each, and then its outcome."""
    warnings.simplefilter("ignore")
    platform.platform()  # asks `uname` once
    table = {loader.name: loader for loader in import_module(batch.module).LOADERS}
    guard = Guard([folder])
    for name in batch.names:
        yield {"begin": [name, -1]}
        honest = _honest_files(table[name], folder)
        expected, problem = _use_honest(table[name], honest, folder, guard)
        if problem is not None:
            yield asdict(Outcome(batch.what, name, batch.seed, -1, "dishonest", *problem))
        limit_memory()
        for number in range(batch.first, batch.first + batch.count):
            yield {"begin": [name, number]}
            yield asdict(_use_mutated(table[name], honest, folder / "case", guard, batch, number, expected))
            if number % 50 == 49:
                gc.collect()


def _honest_files(loader: Any, folder: Path) -> dict[str, bytes]:
    made = folder / "honest"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    loader.make(made)
    return {
        str(path.relative_to(made)): path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()
    }


def _use_honest(
    loader: Any, honest: dict[str, bytes], folder: Path, guard: Guard
) -> tuple[int, tuple[str, str] | None]:
    """Memory that honest files take, and what went wrong with them."""
    expected, problem = 0, None
    for files in loader.honest(honest):
        _fill(folder / "case", files)
        with Peak() as peak:
            kind, where, text = run_case(lambda: loader.use(folder / "case", Random(0)), guard, guarded=False)
        expected = max(expected, peak.bytes)
        if kind != "ok":
            problem = where, f"{min(files)}: {text[:2000]}"
    return expected, problem


def _use_mutated(
    loader: Any, honest: dict[str, bytes], case: Path, guard: Guard, batch: Batch, number: int, expected: int
) -> Outcome:
    rng = Random(f"{loader.name} {batch.seed} {number}")
    _fill(case, loader.mutated(rng, honest))
    faulthandler.dump_traceback_later(batch.seconds, exit=True)
    began = time.monotonic()
    with Peak() as peak:
        kind, where, text = run_case(lambda: loader.use(case, rng), guard, loader.guarded)
    took = round(time.monotonic() - began, 3)
    faulthandler.cancel_dump_traceback_later()
    if peak.bytes > expected + BYTES and kind in ("ok", "refused"):
        kind = "memory"
    megabytes = peak.bytes >> 20
    return Outcome(batch.what, loader.name, batch.seed, number, kind, where, text[:2000], took, megabytes)


def _fill(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def main() -> None:
    """The child process; see `_run_process`."""
    values, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the package prints
    for answer in serve(Batch(**values), folder):
        print(json.dumps(answer), file=answers, flush=True)


# -- in the parent ------------------------------------------------------------------------------


def run_cases(batch: Batch, size: int = 2000) -> Iterator[Outcome]:
    """The outcomes of a batch of any length.

    :param size: cases of each loader after which a fresh process takes over
    """
    end = batch.first + batch.count
    for first in range(batch.first, end, size):
        waiting = [replace(batch, first=first, count=min(size, end - first))]
        while waiting:
            part = waiting.pop(0)
            for outcome in _run_process(part):
                yield _repeated(part, outcome) if outcome.kind == "hang" else outcome
            if outcome.kind in ("hang", "died"):
                waiting = _after(part, outcome.loader, outcome.number) + waiting


def _repeated(part: Batch, outcome: Outcome) -> Outcome:
    """The case again: on a busy machine, a process may get no time for a while."""
    alone = replace(part, names=(outcome.loader,), first=outcome.number, count=1)
    again = [other for other in _run_process(alone) if other.number == outcome.number]
    return again[0] if again else outcome


def _after(part: Batch, name: str, number: int) -> list[Batch]:
    """What is left of a batch behind the case that ended its process."""
    rest = part.names[part.names.index(name) + 1 :]
    n_left = part.first + part.count - number - 1
    left = [replace(part, names=(name,), first=number + 1, count=n_left)] if n_left else []
    return left + ([replace(part, names=rest)] if rest else [])


def _run_process(batch: Batch) -> Iterator[Outcome]:
    """The outcomes of one child; where a case ended it, that is the last one.

    :raises RuntimeError: it ended before its first case
    """
    name, number = "", -1
    with (
        tempfile.TemporaryDirectory(prefix="rlzoo_fuzz_", ignore_cleanup_errors=True) as folder,
        open(f"{folder}/errors", "w+b") as errors,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.sandbox", json.dumps(asdict(batch)), folder],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env={**os.environ, **_surroundings(folder)},
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                content = json.loads(line)
                if "begin" in content:
                    name, number = content["begin"]
                else:
                    yield Outcome(**content)
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdout.close()
            code = process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if code == 0:
        return
    if number < 0:
        raise RuntimeError(f"the process of {name or batch.what} ended with {code}: {said[-3000:]}")
    kind = "hang" if "Timeout (" in said else "died"
    frames = re.findall(r'File ".*?[/\\](rlzoo[/\\][^"]*)", line (\d+) in (\w+)', said)
    where = "{}:{} in {}".format(*frames[0]) if frames else f"exit code {code}"
    yield Outcome(batch.what, name, batch.seed, number, kind, where, said[-2000:], batch.seconds)


def _surroundings(folder: str) -> dict[str, str]:
    """Environment variables of a child: all of its own files go into its folder."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    own = dict.fromkeys(("TMPDIR", "HOME", "MPLCONFIGDIR"), folder)
    return {
        **own,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "HF_ENDPOINT": "http://127.0.0.1:9",  # where nobody listens
        "HF_TOKEN": "hf_of_nobody",
    }


if __name__ == "__main__":
    main()
