"""Write rlzoo/__init__.pyi, so that editors and type checkers see what `rlzoo` loads lazily.

    python scripts/make_stubs.py            # writes the file
    python scripts/make_stubs.py --check    # fails when it is not current

Made from the table of public names in rlzoo/__init__.py and from the Config of each algorithm: completing
`PPO(` shows every hyperparameter with its type, default and description.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "rlzoo" / "__init__.pyi"
LINE_LENGTH = 110  # as in pyproject.toml

HEADER = '''"""Made by scripts/make_stubs.py; do not edit."""

from typing import Any

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike
from rlzoo.algorithms.hyperparameters import TrainFreq as TrainFreqLike
'''


def stub_text() -> str:
    """The whole text of the stub."""
    import rlzoo

    imports, aliases, classes = [], [], []
    for name, target in sorted(rlzoo._EXPORTS.items()):
        module, _, attribute = target.partition(":")
        value = getattr(rlzoo, name)
        if not attribute:  # a module
            parent, _, child = module.rpartition(".")
            imports.append(f"from {parent} import {child} as _{name}")
            aliases.append(f"{name} = _{name}")
        elif attribute != name:
            aliases.append(f"{name} = {attribute}")
        elif hasattr(value, "Config"):
            imports.append(f"from {module} import {name} as _{name}")
            classes.append(algorithm_stub(name, value))
        else:
            line = f"from {module} import {name} as {name}"
            wrapped = f"from {module} import (\n    {name} as {name},\n)"
            imports.append(line if len(line) <= LINE_LENGTH else wrapped)
    facts = ["__version__: str", "__all__: list[str]", *aliases]
    text = "\n".join([HEADER + "\n".join(sorted(imports)), "", *facts, "", *classes])
    return text.replace("train_freq: TrainFreq", "train_freq: TrainFreqLike")  # a class has that name, too


def algorithm_stub(name: str, algorithm: Any) -> str:
    """A class with the hyperparameters as attributes and as keywords of its constructor."""
    from rlzoo.params.shared import CONSTRUCTOR

    fields = {field.name: str(field.type) for field in dataclasses.fields(algorithm.Config)}
    docstring = inspect.cleandoc(algorithm.__doc__ or name).replace("\n", "\n    ")
    lines = [f"class {name}(_{name}):", f'    """{docstring}\n    """', ""]
    lines = re.sub(r"(?m)^ +$", "", "\n".join(lines)).split("\n")
    shown = {name: kind for name, kind in fields.items() if name not in algorithm.shown_otherwise}
    lines += [f"    {field}: {annotation}" for field, annotation in shown.items()]
    lines += ["    def __init__(", "        self,", "        policy: str | type,", "        env: Any = None,"]
    parameters = inspect.signature(algorithm).parameters
    for parameter in list(parameters.values())[2:]:
        if not parameter.name.startswith("_"):
            annotation = fields.get(parameter.name) or CONSTRUCTOR[parameter.name][0]
            lines.append(f"        {parameter.name}: {annotation} = {literal(parameter.default)},")
    return "\n".join([*lines, "    ) -> None: ...", ""])


def literal(value: Any) -> str:
    """A default as the formatter writes it; `...` replaces one that is no literal, such as infinity."""
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    return "..." if "inf" in re.findall(r"\w+", written) and not isinstance(value, str) else written


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when the file is stale"
    )
    args = parser.parse_args()
    text = stub_text()
    if args.check:
        if TARGET.read_text() != text:
            print("rlzoo/__init__.pyi is stale: run python scripts/make_stubs.py", file=sys.stderr)
            return 1
    else:
        TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
