"""Run the scripts of scripts/compat, which are written for stable-baselines3, unmodified with rlzoo.

    python scripts/compat_table.py                           # all, through `python -m rlzoo.compat`
    python scripts/compat_table.py custom save -o table.md   # those whose name holds a word
    python scripts/compat_table.py --sb3-python ~/sb3/bin/python   # also with the real packages

Each script checks itself and runs in an empty folder. The table names the last line of an error. The exit
code is 1 if a script failed with rlzoo that is not listed in `INTENDED`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts" / "compat"
TIMEOUT = 150  # seconds for one script

# Scripts that rlzoo refuses on purpose, and a part of what it answers.
INTENDED = {
    "export/contents_of_a_zip": "policy.pth",  # the file has no pickles, and other members
    "zoo/names_of_files": "command.txt",  # is beside the agent; the results of a search are in logs/optimize
}


@dataclass(frozen=True)
class Outcome:
    """How a script ended."""

    seconds: float
    error: str = ""  # last line of the error output; empty: the script ended without one

    def cell(self) -> str:
        return f"{'fails' if self.error else 'runs'} ({self.seconds:.0f} s)"


def find(words: Sequence[str] = ()) -> list[str]:
    """Return the names of the scripts, such as "custom/time_limits", that hold one of the words."""
    names = [str(path.relative_to(SCRIPTS).with_suffix("")) for path in sorted(SCRIPTS.glob("*/*.py"))]
    return [name for name in names if not words or any(word in name for word in words)]


def run(command: Sequence[str], name: str) -> Outcome:
    """Run a script in an empty folder.

    :param command: what comes before the script, such as ["python", "-m", "rlzoo.compat"]
    :param name: of the script
    """
    variables = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}
    path = str(SCRIPTS / f"{name}.py")
    with tempfile.TemporaryDirectory(prefix="compat_") as folder:
        start = time.monotonic()
        try:
            ended = subprocess.run(
                [*command, path],
                cwd=folder,
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return Outcome(TIMEOUT, f"not done after {TIMEOUT} s")
        seconds = time.monotonic() - start
    if ended.returncode == 0:
        return Outcome(seconds)
    return Outcome(seconds, last_error(ended.stderr, path) or f"exit code {ended.returncode}")


def last_error(stderr: str, path: str) -> str:
    """Return the last line of an error output; for an assertion without a message, its source line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if lines and lines[-1] == "AssertionError":
        places = [number for number, line in enumerate(lines) if line.startswith(f'File "{path}"')]
        return f"AssertionError: {lines[places[-1] + 1]}" if places else lines[-1]
    return lines[-1] if lines else ""


def row(name: str, ours: Outcome, real: Outcome | None) -> str:
    """Return a line of the table."""
    error = ours.error or (real.error if real else "")
    cells = [name, ours.cell(), *([real.cell()] if real else []), error.replace("|", "\\|")[:200]]
    return f"| {' | '.join(cells)} |"


def failed(name: str, outcome: Outcome) -> bool:
    """Whether a script failed in another way than it should."""
    if name in INTENDED:
        return INTENDED[name] not in outcome.error
    return bool(outcome.error)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the scripts of scripts/compat with rlzoo.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="run scripts whose name holds a word")
    parser.add_argument("--sb3-python", metavar="PATH", help="Python that has the real packages")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write the table to a file")
    options = parser.parse_args()
    names = find(options.words)
    if not names:
        parser.error(f"no script holds {' or '.join(options.words)}; there are: {', '.join(find())}")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    heads = [
        "script",
        "rlzoo",
        *(["stable-baselines3"] if options.sb3_python else []),
        "last line of the error",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    print("\n".join(lines))
    wrong = []
    for name in names:
        ours = run([sys.executable, "-m", "rlzoo.compat"], name)
        real = run([options.sb3_python], name) if options.sb3_python else None
        lines.append(row(name, ours, real))
        print(lines[-1], flush=True)
        wrong += [name] if failed(name, ours) else []
    count = f"{len(names) - len(wrong)} of {len(names)} scripts end as they should with rlzoo."
    print(f"\n{count}")
    if options.output:
        options.output.write_text("\n".join([*lines, "", count, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
