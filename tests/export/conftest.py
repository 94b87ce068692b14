"""What the tests of exported policies share."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "rlzoo" / "export" / "page"


@pytest.fixture
def run_in_node(tmp_path: Path) -> Any:
    """Evaluate JavaScript behind scripts of the page, with `input` as given; what it leaves in `output`."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")

    def run(scripts: tuple[str, ...], code: str, given: Any) -> Any:
        source = "\n".join((PAGE / name).read_text() for name in scripts)
        program = tmp_path / "program.js"
        wrapped = f"let output;\n{code}\nprocess.stdout.write(JSON.stringify(output));"
        reading = "const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        program.write_text(f"{source}\n{reading}\n{wrapped}")
        done = subprocess.run(
            ["node", str(program)], input=json.dumps(given), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
