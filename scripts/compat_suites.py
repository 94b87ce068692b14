"""Run the tests of stable-baselines3, sb3-contrib and RL Baselines3 Zoo on rlzoo.

    python scripts/compat_suites.py                                # all three, about 20 minutes on two cores
    python scripts/compat_suites.py sb3_contrib==2.9.2 -k predict  # one of them, with arguments for pytest

Source distributions are downloaded into a temporary folder. Their tests run beside a `conftest.py` that
imports `rlzoo.compat`, so that every name of these packages is one of rlzoo. A Markdown table of how many
pass is printed, and the tests that fail.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGES = ("stable_baselines3==2.9.2", "sb3_contrib==2.9.2", "rl_zoo3==2.9.2")
COMMANDS = ("train", "enjoy")
INI = "[pytest]\nmarkers =\n    expensive: takes long\n    slow: takes long\n"


def unpack(package: str, folder: Path) -> Path:
    """Download a source distribution and return the folder with its tests."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*download, "--no-binary", ":all:", "-d", folder, package], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (source,) = folder.glob("*/tests")
    tests = folder / "here"
    tests.mkdir()
    source.rename(tests / "tests")  # apart from the package itself, which must not be imported
    (tests / "conftest.py").write_text("import rlzoo.compat\n")
    (tests / "pytest.ini").write_text(INI)
    for name in COMMANDS:
        text = f"import rlzoo.compat\nfrom rl_zoo3.{name} import {name}\n\n{name}()\n"
        (tests / f"{name}.py").write_text(text)
    return tests


def run(tests: Path, arguments: list[str]) -> tuple[dict[str, int], list[str]]:
    """Return how many tests passed, failed, were skipped or had errors, and those that failed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "600",
    ]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # they call `python`
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    command += [*arguments, "tests"]
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    counts = {name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", lines[-1])}
    return counts, [line for line in lines if line.startswith(("FAILED", "ERROR"))]


def main() -> None:
    names = {package.partition("==")[0] for package in PACKAGES}
    named = [word for word in sys.argv[1:] if word.partition("==")[0] in names]
    arguments = [word for word in sys.argv[1:] if word not in named] or ["-n", "2"]
    print("| tests of | passed | failed | skipped |\n|---|---:|---:|---:|")
    failures = []
    for package in named or PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            counts, failed = run(unpack(package, Path(folder)), arguments)
        bad = sum(counts.get(name, 0) for name in ("failed", "error", "errors"))
        title = package.replace("_", "-").replace("==", " ")
        print(f"| {title} | {counts.get('passed', 0)} | {bad} | {counts.get('skipped', 0)} |", flush=True)
        failures += failed
    print("", *failures, sep="\n")


if __name__ == "__main__":
    main()
