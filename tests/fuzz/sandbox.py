"""Run cases in a child process that notices what a file must not do.

An audit hook records, and stops, whatever executes or writes outside of the folder of the case. The child ends
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
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from rlzoo.core.errors import RunFailed, UserError
from tests.fuzz.mutations import CANARY

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

    :param kind: ok, refused (an error of the package), interrupted, or one of `BREAKS`
    :param where: the exception and the last line of the package in its traceback
    """

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

    def repeat(self) -> str:
        """The command that runs this case alone."""
        return f"python -m tests.fuzz files --loader {self.loader} --seed {self.seed} --first {self.number} --count 1"


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
        if event == "import" and str(args[0]).split(".")[0] in (CANARY, "antigravity", "this"):
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


def run_case(case: Callable[[], None], guard: Guard, honest: bool = False) -> tuple[str, str, str]:
    """Run a case under the guard; returns the kind of its outcome, where it broke, and the error's text."""
    guard.events.clear()
    kind, where, text = "ok", "", ""
    guard.active = not honest
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
    """Whether the error stands for a refused allocation, which a larger machine would have granted."""
    while error is not None:
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def place(error: BaseException) -> str:
    """`ValueError at rlzoo/core/npz.py:60 in read_npz`."""
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


def serve(
    loaders: Sequence[Any], seed: int, first: int, count: int, folder: Path, seconds: float
) -> Iterator[dict[str, Any]]:
    """The cases of some loaders, one after the other: `{"begin": [loader, number]}`, then the outcome."""
    warnings.simplefilter("ignore")
    platform.platform()  # asks `uname` once
    case = folder / "case"
    guard = Guard([folder])
    for loader in loaders:
        honest = _honest_files(loader, folder)
        yield {"begin": [loader.name, -1]}
        expected = 0
        for files in loader.honest(honest):
            _fill(case, files)
            with Peak() as peak:
                kind, where, text = run_case(lambda: loader.use(case, Random(0)), guard, honest=True)  # noqa: B023
            expected = max(expected, peak.bytes)
            if kind != "ok":
                yield asdict(
                    Outcome(loader.name, seed, -1, "dishonest", where, f"{min(files)}: {text[:2000]}")
                )
        limit_memory()
        for number in range(first, first + count):
            yield {"begin": [loader.name, number]}
            rng = Random(f"{loader.name} {seed} {number}")
            _fill(case, loader.mutated(rng, honest))
            faulthandler.dump_traceback_later(seconds, exit=True)
            began = time.monotonic()
            with Peak() as peak:
                kind, where, text = run_case(lambda: loader.use(case, rng), guard)  # noqa: B023
            took = time.monotonic() - began
            faulthandler.cancel_dump_traceback_later()
            if peak.bytes > expected + BYTES and kind in ("ok", "refused"):
                kind = "memory"
            yield asdict(Outcome(loader.name, seed, number, kind, where, text[:2000], took, peak.bytes >> 20))
            if number % 50 == 0:
                gc.collect()


def _honest_files(loader: Any, folder: Path) -> dict[str, bytes]:
    made = folder / "honest"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    loader.make(made)
    return {
        str(path.relative_to(made)): path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()
    }


def _fill(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# -- in the parent ------------------------------------------------------------------------------


def run_files(
    names: Sequence[str],
    seed: int,
    count: int,
    first: int = 0,
    seconds: float = SECONDS,
    module: str = "tests.fuzz.loaders",
    batch: int = 2000,
) -> Iterator[Outcome]:
    """The outcomes of `count` cases of each loader, from number `first` on.

    :param module: where `LOADERS` is
    :param batch: cases of a loader after which a fresh process takes over
    """
    for start in range(first, first + count, batch):
        waiting = [(name, start) for name in names]
        stop = min(start + batch, first + count)
        while waiting:  # begun again behind a case that ended the process
            together = [name for name, number in waiting if number == start]
            group, number = ([waiting[0][0]], waiting[0][1]) if waiting[0][1] > start else (together, start)
            waiting = waiting[len(group) :]
            broken = yield from _run_process(group, seed, number, stop - number, seconds, module)
            if broken is not None:
                name, number = broken
                waiting = [(other, start) for other in group[group.index(name) + 1 :]] + waiting
                if 0 <= number < stop - 1:
                    waiting.insert(0, (name, number + 1))


def _run_process(
    names: Sequence[str], seed: int, first: int, count: int, seconds: float, module: str
) -> Iterator[Outcome]:
    """One child; returns (loader, number) of the case that ended it, if one did."""
    with tempfile.TemporaryDirectory(prefix="rlzoo_fuzz_") as folder:
        arguments = [
            sys.executable,
            "-m",
            "tests.fuzz.sandbox",
            module,
            ",".join(names),
            str(seed),
            str(first),
        ]
        home = {
            "TMPDIR": folder,
            "HOME": folder,
            "MPLCONFIGDIR": folder,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        with open(Path(folder, "stderr"), "w+b") as errors:
            process = subprocess.Popen(
                [*arguments, str(count), folder, str(seconds)],
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**os.environ, **home, **quiet},
            )
            begun = None
            assert process.stdout is not None
            with process, process.stdout:
                for line in process.stdout:
                    content = json.loads(line)
                    if "begin" in content:
                        begun = content["begin"]
                    else:
                        begun = None
                        yield Outcome(**content)
            if process.returncode == 0:
                return None
            errors.seek(0)
            said = errors.read().decode(errors="replace")
    if begun is None:
        raise RuntimeError(f"the process of the fuzzer ended with {process.returncode}: {said[-3000:]}")
    kind = "hang" if "Timeout (" in said else "died"
    frames = re.findall(r'File ".*?[/\\](rlzoo[/\\][^"]*)", line (\d+) in (\w+)', said)
    where = "{}:{} in {}".format(*frames[0]) if frames else f"exit code {process.returncode}"
    yield Outcome(begun[0], seed, begun[1], kind, where, said[-2000:], seconds)
    return begun[0], begun[1]


def main() -> None:
    """The child process; see `_run_process`."""
    module, names, seed, first, count, folder, seconds = sys.argv[1:]
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the package prints
    from importlib import import_module

    table = {loader.name: loader for loader in import_module(module).LOADERS}
    loaders = [table[name] for name in names.split(",")]
    for answer in serve(loaders, int(seed), int(first), int(count), Path(folder), float(seconds)):
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
