"""The law of the house: which folder may import which, what is never called, how long code may be.

The checkers are functions of (path inside the package, source), so each is also run on a small bad snippet:
a rule that cannot fail is no rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rlzoo"
FILES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

# Each folder may import itself and every row above its own.
LAYERS = (
    ("core",),
    ("accel",),
    ("io", "distributions", "params"),
    ("optim", "processes", "metrics", "buffers"),
    ("envs", "config"),
    ("networks", "cluster"),
    ("policies",),
    ("evaluation",),
    ("callbacks",),
    ("distributed",),
    ("training", "interop"),
    ("algorithms",),
    ("runs", "stacked"),
    ("experiment",),
    ("playback", "plots"),
    ("tuning", "benchmark"),
    ("export", "hub", "jobs"),
    ("cli",),
)
LEVEL = {folder: level for level, row in enumerate(LAYERS) for folder in row}
HEAVY = ("torch", "gymnasium", "tensorboard", "pandas", "matplotlib", "optuna", "cv2")

MAX_FILE = 400
MAX_FUNCTION = 60
MAX_UPDATE = 100  # an algorithm's `update` is its paper, read top to bottom
# Ratchets: lower these when the package has fewer, never raise them.
MAX_ANYS = 2.31  # per 100 lines of code
MAX_PRIVATE = 14  # uses of private attributes of other objects
DECLARATIONS = ("build_parser", "add_training_args", "add_search_flags")  # say what exists, do nothing
NOUN_PHRASES = ("What", "Whether", "The", "A", "An", "One", "How", "As", "From")  # begin no summary
SHAPELESS = ("utils", "util", "common", "helpers", "helper", "misc")

# Everything that turns bytes into code or objects, and what it is called by.
FORBIDDEN_CALLS = (
    "eval",
    "exec",
    "builtins.eval",
    "builtins.exec",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "pandas.read_pickle",
)
UNPICKLERS = ("pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib")
PICKLING_MAY = ("envs/vec_env/subproc.py",)  # between our own processes
COMPAT_MAY = ("processes/safe_path.py",)  # the start of a worker process: aliases are as in its parent


# -- reading a file -----------------------------------------------------------------------------


def folder_of(path: str) -> str:
    """The layer a file belongs to; "" for the files at the top of the package."""
    return path.split("/")[0] if "/" in path else ""


def imported(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import, relative ones and literal import_module calls included."""
    package = ["rlzoo", *path.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            if ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def called(path: str, tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """(call, dotted name of the function), with the file's import aliases resolved."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            head, dot, rest = ast.unparse(node.func).partition(".")
            yield node, names.get(head, head) + dot + rest


def code_lines(source: str, tree: ast.AST) -> set[int]:
    """Line numbers that hold code: no blank lines, comments or docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in docstrings
    }


# -- the rules: (path, source) -> complaints ----------------------------------------------------


def wrong_imports(path: str, source: str) -> Iterator[str]:
    """Imports to the right in the chain, between the folders of one row, or of the lazy package root."""
    own = folder_of(path)
    if not own:
        return  # rlzoo/__init__.py and __main__.py are the front door; the process tests below watch them
    if own not in LEVEL:
        yield f"{path}: {own}/ is no layer of the design"
        return
    tree = ast.parse(source)
    for line, name in imported(path, tree):
        parts = name.split(".")
        if parts[0] != "rlzoo" or parts[1:] == ["__version__"]:
            continue
        if name == "rlzoo.compat" and path in COMPAT_MAY:
            continue
        if parts == ["rlzoo"]:
            # Facts such as __version__ are no dependency. From experiment on, a user's file may name anything
            # public, and the lazy table is where it is looked up.
            if LEVEL[own] >= LEVEL["experiment"] or not lazy_lookups(tree):
                continue
        other = parts[1] if len(parts) > 1 else ""
        if other not in LEVEL:
            yield f"{path}:{line}: {name} goes through the lazy package root; name the module that has it"
        elif other != own and LEVEL[other] >= LEVEL[own]:
            yield f"{path}:{line}: {own}/ may not import {name}"


def lazy_lookups(tree: ast.AST) -> list[ast.Name]:
    """Uses of the name `rlzoo` other than `rlzoo.__something__`."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    facts = {id(node.value) for node in attributes if node.attr.startswith("__") and node.attr.endswith("__")}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "rlzoo" and id(node) not in facts
    ]


def heavy_config(path: str, source: str) -> Iterator[str]:
    """config/ reads text: no torch, no gymnasium, not even inside a function."""
    if folder_of(path) == "config":
        for line, name in imported(path, ast.parse(source)):
            if name.split(".")[0] in ("torch", "gymnasium"):
                yield f"{path}:{line}: config/ may not import {name}"


def unsafe_calls(path: str, source: str) -> Iterator[str]:
    """Calls that run text or bytes: eval, unpicklers, shells, YAML loaders that build objects."""
    tree = ast.parse(source)
    if path not in PICKLING_MAY:
        for line, name in imported(path, tree):
            if name.split(".")[0] in UNPICKLERS:
                yield f"{path}:{line}: imports {name}"
    for call, name in called(path, tree):
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        where = f"{path}:{call.lineno}"
        if name in FORBIDDEN_CALLS:
            yield f"{where}: calls {name}"
        if name == "torch.load" and keywords.get("weights_only") != "True":
            yield f"{where}: torch.load without weights_only=True"
        if name == "numpy.load" and keywords.get("allow_pickle", "False") != "False":
            yield f"{where}: numpy.load of pickles"
        if keywords.get("shell", "False") != "False":
            yield f"{where}: shell={keywords['shell']}"
        if name in ("yaml.load", "yaml.load_all"):
            loader = ast.unparse(call.args[1]) if len(call.args) > 1 else keywords.get("Loader", "none")
            if loader.split(".")[-1] not in SAFE_LOADERS | safe_loaders(tree):
                yield f"{where}: {name} with the loader {loader}"


def safe_loaders(tree: ast.AST) -> set[str]:
    """SafeLoader, names that stand for it in this file, and the classes that derive from either."""
    safe = {"SafeLoader", "CSafeLoader"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.bases:
            if all(ast.unparse(base).split(".")[-1] in safe for base in node.bases):
                safe.add(node.name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            named = set(re.findall(r"\w*Loader\b", ast.unparse(node.value)))
            if named and named <= safe:
                safe |= {ast.unparse(target) for target in getattr(node, "targets", None) or [node.target]}
    return safe


SAFE_LOADERS = {name for path, source in FILES.items() for name in safe_loaders(ast.parse(source, path))}


def too_long(path: str, source: str) -> Iterator[str]:
    """Files and functions that no longer fit on a reader's desk."""
    tree = ast.parse(source)
    lines = code_lines(source, tree)
    if len(lines) > MAX_FILE:
        yield f"{path}: {len(lines)} lines of code, {MAX_FILE} is the limit"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in DECLARATIONS:
            size = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
            limit = MAX_UPDATE if node.name == "update" else MAX_FUNCTION
            if size > limit:
                yield f"{path}:{node.lineno}: {node.name} has {size} lines of code, {limit} is the limit"


def shapeless_names(path: str, source: str) -> Iterator[str]:
    """A module is named by its noun."""
    for part in path.removesuffix(".py").split("/"):
        if part in SHAPELESS:
            yield f"{path}: {part} says nothing about what is inside"


def bare_excepts(path: str, source: str) -> Iterator[str]:
    """`except:` swallows Ctrl-C."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{path}:{node.lineno}: bare except"


def noun_summaries(path: str, source: str) -> Iterator[str]:
    """The docstring of a function says what it does (PEP 257); a property or class is named by its noun."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split()
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            if words and words[0] in NOUN_PHRASES and not is_property:
                yield f"{path}:{node.lineno}: {node.name}: begin with a verb, such as Return, not {words[0]}"


def unfinished(path: str, source: str) -> Iterator[str]:
    """Work that somebody meant to come back to."""
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"{path}:{number}: {line.strip()}"


def anys(source: str) -> int:
    """Number of `Any` in the code of a file."""
    lines = source.splitlines()
    code = "\n".join(lines[number - 1] for number in code_lines(source, ast.parse(source)))
    return len(re.findall(r"\bAny\b", code))


def private_uses(source: str) -> int:
    """Number of times that private attributes of other objects are used."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    private = [node for node in nodes if node.attr.startswith("_") and not node.attr.startswith("__")]
    return sum(ast.unparse(node.value) not in ("self", "cls", "super()") for node in private)


RULES: tuple[Callable[[str, str], Iterator[str]], ...] = (
    wrong_imports,
    heavy_config,
    unsafe_calls,
    too_long,
    shapeless_names,
    bare_excepts,
    noun_summaries,
    unfinished,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_law(rule: Callable[[str, str], Iterator[str]]) -> None:
    assert FILES, "the package was not found"
    complaints = [complaint for path, source in FILES.items() for complaint in rule(path, source)]
    assert not complaints, "\n" + "\n".join(complaints)


def test_any_does_not_become_more_frequent() -> None:
    size = sum(len(code_lines(source, ast.parse(source))) for source in FILES.values())
    frequency = 100 * sum(map(anys, FILES.values())) / size
    assert frequency <= MAX_ANYS, f"{frequency:.2f} Any per 100 lines of code: use a type or a Protocol"


def test_private_attributes_of_others_do_not_increase() -> None:
    found = {path: n for path, source in FILES.items() if (n := private_uses(source))}
    assert sum(found.values()) <= MAX_PRIVATE, f"make a public method or property: {found}"


def test_ratchets_count_what_they_should() -> None:
    source = "# Any\nfrom typing import Any\ndef f(x: Any) -> None:\n    x._y = self._z = x.__z__ = cls._a"
    assert anys(source) == 2 and private_uses(source) == 1


# -- the package as a whole ---------------------------------------------------------------------

MAX_FILES = 14  # in a folder
KNOWN_FOLDER_CIRCLES = (
    ["algorithms", "algorithms.agent"],
    ["buffers", "buffers.replay"],
    ["config", "config.legacy"],
)


def modules() -> dict[str, str]:
    """Dotted name below `rlzoo` -> source."""
    named = {path.removesuffix(".py").replace("/", "."): source for path, source in FILES.items()}
    return {name: source for name, source in named.items() if "." in name}


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Module -> modules of `sources` that it imports, inside functions too."""
    graph = {}
    for name, source in sources.items():
        tree = ast.parse(source)
        checked = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        typing_only = {id(inner) for node in checked for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) in typing_only and isinstance(node, ast.Import | ast.ImportFrom):
                node.names = []
        found = set()
        for _, dotted in imported(f"{name.replace('.', '/')}.py", tree):
            parts = dotted.split(".")[1:]
            heads = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
            found |= {next((head for head in heads if head in sources), name)} - {name}
        graph[name] = found
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for other in graph[pending.pop()] - seen:
                seen.add(other)
                pending.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(map(sorted, groups))


def test_no_file_name_occurs_twice() -> None:
    names = [path.split("/")[-1] for path in FILES]
    repeated = {name for name in names if names.count(name) > 1} - {"__init__.py"}
    assert not repeated


def test_folders_hold_few_files() -> None:
    folders = [path.rpartition("/")[0] for path in FILES]
    assert not {folder: n for folder in folders if (n := folders.count(folder)) > MAX_FILES}


def test_modules_import_each_other_in_no_circle() -> None:
    assert not circles(import_graph(modules()))


def test_folders_import_each_other_in_few_circles() -> None:
    graph: dict[str, set[str]] = {name.rpartition(".")[0]: set() for name in modules()}
    for name, others in import_graph(modules()).items():
        folder = name.rpartition(".")[0]
        graph[folder] |= {other.rpartition(".")[0] for other in others} - {folder}
    assert all(circle in KNOWN_FOLDER_CIRCLES for circle in circles(graph))


def test_circle_through_a_function_is_seen() -> None:
    sources = {"a": "import rlzoo.b", "b": "def f():\n    from rlzoo.a import x", "c": "from rlzoo import a"}
    assert circles(import_graph(sources)) == [["a", "b"]]


# -- each rule sees what it forbids -------------------------------------------------------------

BAD = [
    (wrong_imports, "core/a.py", "from rlzoo.envs.vec_env.vec_env import VecEnv"),
    (wrong_imports, "envs/a.py", "import rlzoo.config.catalog"),
    (wrong_imports, "envs/a.py", "from ..config import catalog"),
    (wrong_imports, "training/a.py", "def f():\n    from rlzoo.algorithms.base import Algorithm"),
    (wrong_imports, "training/a.py", "importlib.import_module('rlzoo.algorithms.on_policy.ppo')"),
    (wrong_imports, "training/a.py", "from rlzoo import PPO"),
    (wrong_imports, "training/a.py", "import rlzoo\nrlzoo.PPO"),
    (wrong_imports, "training/a.py", "import rlzoo\ngetattr(rlzoo, name)"),
    (wrong_imports, "benchmark/a.py", "from rlzoo.tuning import study"),
    (wrong_imports, "plots/a.py", "from rlzoo.benchmark import scores"),
    (wrong_imports, "extras/a.py", "x = 1"),
    (heavy_config, "config/a.py", "def f():\n    import torch.nn as nn"),
    (heavy_config, "config/a.py", "from gymnasium import spaces"),
    (unsafe_calls, "cli/a.py", "x = eval('1')"),
    (unsafe_calls, "cli/a.py", "exec('1')"),
    (unsafe_calls, "cli/a.py", "import pickle\npickle.load(f)"),
    (unsafe_calls, "cli/a.py", "from cloudpickle import loads"),
    (unsafe_calls, "cli/a.py", "import torch as th\nth.load(f)"),
    (unsafe_calls, "cli/a.py", "import torch\ntorch.load(f, weights_only=False)"),
    (unsafe_calls, "cli/a.py", "import numpy as np\nnp.load(f, allow_pickle=True)"),
    (unsafe_calls, "cli/a.py", "import yaml\nyaml.load(f)"),
    (unsafe_calls, "cli/a.py", "import yaml\nyaml.load(f, Loader=yaml.UnsafeLoader)"),
    (unsafe_calls, "cli/a.py", "from yaml import load, FullLoader\nload(f, FullLoader)"),
    (unsafe_calls, "cli/a.py", "class Mine(yaml.Loader): ...\nyaml.load(f, Loader=Mine)"),
    (unsafe_calls, "cli/a.py", "Base = yaml.FullLoader\nclass Mine(Base): ...\nyaml.load(f, Mine)"),
    (unsafe_calls, "cli/a.py", "from os import system as s\ns('ls')"),
    (unsafe_calls, "cli/a.py", "import subprocess\nsubprocess.run('ls', shell=True)"),
    (too_long, "cli/a.py", "x = 1\n" * 401),
    (too_long, "cli/a.py", "def f():\n" + "    x = 1\n" * 60),
    (too_long, "cli/a.py", "class A:\n  def update(self):\n" + "    x = 1\n" * 100),
    (shapeless_names, "envs/utils.py", ""),
    (shapeless_names, "envs/helpers/noise.py", ""),
    (bare_excepts, "cli/a.py", "try:\n    x = 1\nexcept:\n    pass"),
    (noun_summaries, "cli/a.py", 'def f():\n    """Whether it is."""'),
    (unfinished, "cli/a.py", "x = 1  # TODO: more"),
]

GOOD = [
    (wrong_imports, "envs/a.py", "from rlzoo.core.errors import UserError\nfrom .vec_env import VecEnv"),
    (wrong_imports, "cli/a.py", "from rlzoo import __version__\nfrom rlzoo.experiment import train"),
    (wrong_imports, "core/a.py", "import rlzoo\nrlzoo.__version__"),
    (wrong_imports, "experiment/a.py", "import rlzoo\ngetattr(rlzoo, name)"),
    (heavy_config, "envs/a.py", "import torch"),
    (unsafe_calls, "envs/vec_env/subproc.py", "import cloudpickle\ncloudpickle.loads(b)"),
    (unsafe_calls, "cli/a.py", "policy.eval()\nimport torch\ntorch.load(f, weights_only=True)"),
    (unsafe_calls, "cli/a.py", "class Mine(yaml.SafeLoader): ...\nyaml.load(f, Loader=Mine)"),
    (unsafe_calls, "cli/a.py", "B: Any = yaml.CSafeLoader\nclass Mine(B): ...\nyaml.load(f, Mine)"),
    (too_long, "cli/a.py", '"""Doc\n' + "text\n" * 400 + '"""\n' + "# note\n\n" * 400 + "x = 1\n" * 400),
    (too_long, "cli/a.py", "def build_parser():\n" + "    x = 1\n" * 80),
    (too_long, "cli/a.py", "def update():\n" + "    x = 1\n" * 99),
    (bare_excepts, "cli/a.py", "try:\n    x = 1\nexcept OSError:\n    pass"),
    (noun_summaries, "cli/a.py", '@property\ndef f(self):\n    """The size."""'),
]


@pytest.mark.parametrize(("rule", "path", "source"), BAD)
def test_rule_sees_a_violation(rule: Callable[[str, str], Iterator[str]], path: str, source: str) -> None:
    assert list(rule(path, source))


@pytest.mark.parametrize(("rule", "path", "source"), GOOD)
def test_rule_lets_the_lawful_pass(rule: Callable[[str, str], Iterator[str]], path: str, source: str) -> None:
    assert not list(rule(path, source))


# -- what an import really loads ----------------------------------------------------------------

CONFIG = [
    f"rlzoo.{path.removesuffix('.py').replace('/', '.')}" for path in FILES if path.startswith("config/")
]


def loaded_by(*modules: str) -> set[str]:
    """The heavy packages that a fresh interpreter holds after importing `modules`."""
    report = f"import sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    code = f"import {', '.join(modules)}\n{report}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "modules",
    [["rlzoo"], ["rlzoo.cli.main"], [name.removesuffix(".__init__") for name in CONFIG]],
    ids=["rlzoo", "cli", "config"],
)
def test_light_modules_load_nothing_heavy(modules: list[str]) -> None:
    assert not loaded_by(*modules)


def test_heavy_imports_would_be_seen() -> None:
    assert "gymnasium" in loaded_by("gymnasium")


# -- the tests ----------------------------------------------------------------------------------

MAX_TEST_NAME = 60


def test_names_of_tests_are_short() -> None:
    sources = {path: path.read_text() for path in sorted(Path(__file__).parent.rglob("test_*.py"))}
    names = [
        (path.name, name) for path, text in sources.items() for name in re.findall(r"def (test_\w+)", text)
    ]
    assert len(names) > 2_000, "the tests were not found"
    assert not [found for found in names if len(found[1]) > MAX_TEST_NAME]
