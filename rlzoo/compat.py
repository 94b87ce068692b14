"""Run scripts written for stable-baselines3, sb3-contrib, RL Baselines3 Zoo and huggingface_sb3 unchanged.

    python -m rlzoo.compat script.py --its-own-flags       # an unmodified script
    python -m rlzoo.compat FOLDER                          # its __main__.py
    python -m rlzoo.compat - < script.py                   # from the standard input
    python -m rlzoo.compat -m rl_zoo3.train --algo ppo     # an unmodified command
    python -m rlzoo.compat --real sb3_contrib script.py    # this package stays the installed one

or, as the first line of a script or notebook cell:

    import rlzoo.compat

From then on `stable_baselines3`, `sb3_contrib`, `rl_zoo3` and `huggingface_sb3`, with their submodules, are
imported from rlzoo, also in worker processes and where the real packages are installed. Nothing is aliased
before. An alias module has every public name of rlzoo, so that it does not matter which submodule a script
takes a name from.
`enable` and `disable` switch packages on and off.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType, TracebackType
from typing import Any, cast

from rlzoo.compat_names import (
    CLI,
    COMMANDS,
    FUNCTIONS,
    INSTEAD,
    LIBRARIES,
    POLICY_FAMILIES,
    RECURRENT_NAMES,
    SPECIAL,
    STAR,
    SUBMODULES,
)

PACKAGES = ("stable_baselines3", "sb3_contrib", "rl_zoo3", "huggingface_sb3")
VARIABLE = "RLZOO_COMPAT"  # environment variable with the packages that are aliased, for worker processes
SCRIPT_VARIABLE = "RLZOO_COMPAT_SCRIPT"  # the script that `python -m rlzoo.compat` runs
STDIN = "-"  # instead of a script: the standard input
PACKAGE_VARIABLE = "RLZOO_COMPAT_PACKAGE"  # the package that it is in
USUAL = ("Figure", "Image", "Video")  # of the logger; Matplotlib and Pillow have such classes, too
VERSION = "2.9.2"  # of the packages whose interface is offered


class AliasModule(ModuleType):
    """A module of another package whose names are those of rlzoo."""

    def __getattr__(self, name: str) -> Any:
        """Return a submodule, or a public name of rlzoo.

        :raises AttributeError: for a name that neither has, with the nearest one
        """
        if name.startswith("__"):  # what the import system asks for
            raise AttributeError(name)
        if self.__name__ == "rl_zoo3.plots" and name in COMMANDS:  # there functions hide the modules
            return functools.partial(run_command, f"rl_zoo3.plots.{name}")
        is_function = name in STAR.get(self.__name__, "").split()  # huggingface_sb3.load_from_hub is both
        if f"{self.__name__}.{name}" in _MODULES and not is_function:
            return importlib.import_module(f"{self.__name__}.{name}")
        value = _resolve(self.__name__, name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Keep a function of a package, such as `load_from_hub`, where its submodule has the same name."""
        if not (isinstance(value, ModuleType) and name in STAR.get(self.__name__, "").split()):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle by name, as other modules are."""
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        import rlzoo

        prefix = f"{self.__name__}."
        children = {
            module[len(prefix) :].partition(".")[0] for module in _MODULES if module.startswith(prefix)
        }
        names = [name for name in rlzoo.__all__ if not name.startswith("__")]
        return sorted({*super().__dir__(), *children, *names})


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder and loader of the alias modules.

    :param packages: which of `PACKAGES` are aliased
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an alias module; None for other modules."""
        if fullname.partition(".")[0] not in self.packages or fullname not in _MODULES:
            return None
        is_package = any(module.startswith(f"{fullname}.") for module in _MODULES)
        return importlib.machinery.ModuleSpec(fullname, self, origin="rlzoo.compat", is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return AliasModule(spec.name, f"Alias of `rlzoo` for scripts that import `{spec.name}`.")

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__all__"] = star_names(module.__name__)
        if module.__name__ in ("rl_zoo3.import_envs", "rl_zoo3.exp_manager", "rl_zoo3.train"):
            from rlzoo.envs.examples.velocity_mask import register_without_velocity

            register_without_velocity()
        if "." not in module.__name__:
            vars(module)["__version__"] = VERSION

    def get_code(self, fullname: str) -> CodeType:
        """Return the code that `python -m rlzoo.compat -m` runs for a command of RL Baselines3 Zoo."""
        return compile(f"from rlzoo.compat import run_command\nrun_command({fullname!r})", fullname, "exec")


def enable(*packages: str) -> None:
    """Import packages from rlzoo from now on, in this process and in its workers.

    :param packages: some of `PACKAGES`; none: all
    :raises ImportError: if a real one of them has been imported already: its classes would be mixed with
        those of rlzoo
    :raises ValueError: for another package

    >>> import rlzoo.compat  # enables all
    >>> rlzoo.compat.disable("sb3_contrib")  # the installed sb3_contrib is imported
    """
    wanted = packages or PACKAGES
    _check_packages(wanted)
    for package in wanted:
        if package in sys.modules and not isinstance(sys.modules[package], AliasModule):
            raise ImportError(
                f"{package} is imported already: put `import rlzoo.compat` before its first import"
            )
    _set_packages([package for package in PACKAGES if package in wanted or package in _enabled()])


def disable(*packages: str) -> None:
    """Import the real packages from now on; what was imported before stays what it is.

    :param packages: some of `PACKAGES`; none: all
    :raises ValueError: for another package
    """
    unwanted = packages or PACKAGES
    _check_packages(unwanted)
    _set_packages([package for package in _enabled() if package not in unwanted])
    for name in [*sys.modules]:
        if name.partition(".")[0] in unwanted and isinstance(sys.modules[name], AliasModule):
            del sys.modules[name]


def enable_from_environment() -> None:
    """Enable in a worker process what the process that started it had enabled.

    :raises ValueError: the environment variable names another package
    """
    packages = [package for package in os.environ.get(VARIABLE, "").split(",") if package]
    if packages:
        enable(*packages)


def run_command(module: str) -> None:
    """Run the rlzoo command that replaces a module of RL Baselines3 Zoo, with `sys.argv`.

    :raises SystemExit: with the command's exit code, unless that is 0
    """
    from rlzoo.__main__ import run

    before, arguments = [*sys.argv], sys.argv[1:]
    name = module.rpartition(".")[2]
    if name == "cli":  # `rl_zoo3 train ...`
        name, arguments = (arguments or ["--help"])[0], arguments[1:]
    if name == "train":
        arguments += hyperparameter_file(arguments)
    if name == "benchmark":  # there -n counts steps
        arguments = ["--n-timesteps" if word == "-n" else word for word in arguments]
    if module in _MODULES and not module.endswith(".cli") and name not in COMMANDS:
        raise SystemExit(f"{module} is not a command")
    _register_algorithms(module)
    sys.argv[1:] = [*COMMANDS.get(name, [name]), *arguments]
    try:
        if code := run():
            raise SystemExit(code)
    finally:
        sys.argv[:] = before


def hyperparameter_file(arguments: list[str]) -> list[str]:
    """Return `-conf FILE` for the `hyperparams/ALGO.yml` of a clone of RL Baselines3 Zoo; [] without one.

    A clone is the folder of the script that runs, or the working directory.

    :param arguments: of the command; one that names a file is obeyed
    """
    if any(word.startswith(("-conf", "--conf", "--resume")) for word in arguments):
        return []
    joined = next((word[7:] for word in arguments if word.startswith("--algo=")), "ppo")
    algo = arguments[arguments.index("--algo") + 1] if "--algo" in arguments[:-1] else joined
    for folder in dict.fromkeys((os.path.dirname(sys.argv[0]), "")):
        path = os.path.join(folder, "hyperparams", f"{algo}.yml")
        if os.path.isfile(path) and os.path.isdir(os.path.join(folder, "rl_zoo3")):
            print(f"hyperparameters from {path}")
            return ["-conf", path]
    return []


def _register_algorithms(module: str) -> None:
    """Register what a script has put in place of `ALGOS` of a module of RL Baselines3 Zoo."""
    import rlzoo

    for name in {module, "rl_zoo3", "rl_zoo3.exp_manager"} & sys.modules.keys():
        replaced = vars(sys.modules[name]).get("ALGOS")
        if replaced is not None and replaced is not rlzoo.ALGOS:
            rlzoo.ALGOS.update(replaced)


def _modules() -> frozenset[str]:
    """Return the names of all alias modules."""
    names = set(PACKAGES)
    for package, submodules in SUBMODULES.items():
        for submodule in submodules.split():
            parts = submodule.split(".")
            names.update(".".join([package, *parts[: n + 1]]) for n in range(len(parts)))
    return frozenset(names)


_MODULES = _modules()


def _resolve(module: str, name: str) -> Any:
    """Return the object that a name of an alias module refers to.

    :raises AttributeError: for an unknown name
    """
    import rlzoo

    family = POLICY_FAMILIES.get(module.removesuffix(".policies"))
    if family is not None and name in RECURRENT_NAMES:
        from rlzoo.policies.policy_registry import get_policy_class

        return get_policy_class(family, RECURRENT_NAMES[name] if family == "recurrent" else name)
    if module.startswith("rl_zoo3.") and (name == module.rpartition(".")[2] or (module, name) == CLI):
        return functools.partial(run_command, module)  # the function of a command's module
    target = SPECIAL.get(module, {}).get(name)
    if target is not None:
        source, _, attribute = target.partition(":")
        return getattr(importlib.import_module(source), attribute)
    if name in LIBRARIES:
        return importlib.import_module(LIBRARIES[name])
    if name in INSTEAD:
        return functools.partial(_refuse, name)
    try:
        return getattr(rlzoo, name)
    except AttributeError as error:
        raise AttributeError(str(error).replace("module 'rlzoo'", f"rlzoo's {module!r}")) from None


def star_names(module: str) -> list[str]:
    """Return what `from MODULE import *` gives.

    In modules without an own list that is every class of rlzoo but those with names of other libraries.
    """
    import rlzoo

    if module in STAR:
        return STAR[module].split()
    of_zoo, functions = module.startswith("rl_zoo3."), FUNCTIONS.split()
    names = [name for name in rlzoo.__all__ if not name.startswith("__") and name not in USUAL]
    return [name for name in names if of_zoo or name in functions or name[0].isupper()]


def system_info(print_info: bool = True) -> tuple[dict[str, str], str]:
    """Return `rlzoo.get_system_info`, with the version of stable-baselines3 whose interface is offered."""
    from rlzoo.core.runtime import get_system_info

    info, text = get_system_info(print_info=False)
    info["Stable-Baselines3"] = VERSION
    text += f"- Stable-Baselines3: {VERSION} (its interface)\n"
    if print_info:
        print(text)
    return info, text


def _refuse(name: str, *_: object, **__: object) -> None:
    from rlzoo.core.errors import UserError

    raise UserError(f"rlzoo has no {name}: {INSTEAD[name]}")


def _check_packages(packages: Sequence[str]) -> None:
    for package in packages:
        if package not in PACKAGES:
            raise ValueError(f"{package!r} is none of {', '.join(PACKAGES)}")


def _enabled() -> tuple[str, ...]:
    return next((finder.packages for finder in sys.meta_path if isinstance(finder, AliasFinder)), ())


def _set_packages(packages: Sequence[str]) -> None:
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    os.environ.pop(VARIABLE, None)
    if packages:
        sys.meta_path.insert(0, AliasFinder(packages))
        os.environ[VARIABLE] = ",".join(packages)


# ---------------------------------------------------------------------- python -m rlzoo.compat


class ScriptLoader(importlib.abc.InspectLoader):
    """Loader of a script, which writes no bytecode file beside it.

    :param path: a file, or a folder or zip file with a `__main__.py`; empty: the standard input
    :raises FileNotFoundError: there is no `__main__.py`
    """

    def __init__(self, path: str) -> None:
        self.filename = path
        self._inner: Any = importlib.machinery.SourceFileLoader("__main__", path)
        if self.is_container(path):
            spec = cast(Any, pkgutil.get_importer(path)).find_spec("__main__")
            if spec is None or spec.loader is None:
                raise FileNotFoundError(f"there is no __main__.py in {path}")
            self._inner, self.filename = spec.loader, spec.loader.get_filename("__main__")

    @staticmethod
    def is_container(path: str) -> bool:
        """Return whether Python runs the `__main__.py` in a folder or zip file."""
        return bool(path) and pkgutil.get_importer(path) is not None

    def get_code(self, fullname: str) -> Any:
        """Return the code of the script; the standard input is read for it."""
        if not self.filename:
            return compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
        if isinstance(self._inner, importlib.machinery.SourceFileLoader):
            return compile(self._inner.get_data(self.filename), self.filename, "exec", dont_inherit=True)
        return self._inner.get_code("__main__")

    def get_source(self, fullname: str) -> str | None:
        return self._inner.get_source("__main__") if self.filename else None  # type: ignore[no-any-return]


def main(spec: importlib.machinery.ModuleSpec) -> None:
    """Run the script or module that the command line names, as `__main__`.

    :param spec: of this module. Worker processes import the main module again by it, so that packages are
        aliased there before `rerun` runs the script again.
    """
    is_module, real = _parse(sys.argv[1:])
    if real:
        disable(*real)  # importing this module has enabled all
    path, package = os.path.abspath(sys.argv[0]), ""
    if is_module:
        sys.path[0] = os.getcwd()
        path, package = _find_module(sys.argv[0])
        sys.argv[0] = path
    elif sys.argv[0] == STDIN:
        path = sys.path[0] = ""
    else:
        sys.path[0] = path if ScriptLoader.is_container(path) else os.path.dirname(os.path.realpath(path))
    os.environ[SCRIPT_VARIABLE], os.environ[PACKAGE_VARIABLE] = path, package
    namespace = sys.modules["__main__"] = ModuleType("__main__")
    namespace.__spec__ = spec if path else None  # there is nothing to run again of the standard input
    try:
        _run_script(namespace, path, package)
    except BaseException:
        sys.excepthook = functools.partial(_report, sys.excepthook)
        raise


def rerun(namespace: ModuleType) -> None:
    """Run the script again in a worker process, where the main module is called `__mp_main__`."""
    if path := os.environ.get(SCRIPT_VARIABLE):
        _run_script(namespace, path, os.environ.get(PACKAGE_VARIABLE, ""))


def _run_script(namespace: ModuleType, path: str, package: str) -> None:
    loader = ScriptLoader(path)
    namespace.__package__ = package if path else None
    if path:
        namespace.__file__, namespace.__loader__ = loader.filename, loader
    loader.exec_module(namespace)


def _report(
    excepthook: Callable[..., object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Report an exception of the script without the frames that have run it."""
    frames, own = trace, trace
    while frames is not None:
        if frames.tb_frame.f_code is _run_script.__code__:
            own = frames.tb_next
        frames = frames.tb_next
    while own is not None and own.tb_frame.f_code.co_filename.startswith(("<frozen ", __file__)):
        own = own.tb_next  # the loader's
    excepthook(kind, error.with_traceback(own), own)


def _find_module(name: str) -> tuple[str, str]:
    """Return the file and the package of the module that `python -m NAME` would run.

    :raises SystemExit: there is none, or it is a command of RL Baselines3 Zoo, which has then been run
    """
    if name in _MODULES and name.partition(".")[0] in _enabled():
        run_command(name)
        raise SystemExit(0)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        print(f"rlzoo.compat: there is no module {name} to run", file=sys.stderr)
        raise SystemExit(2)
    return spec.origin, spec.parent or ""


def _parse(arguments: list[str]) -> tuple[bool, list[str]]:
    """Read this command's own flags and leave those of the script in `sys.argv`.

    :return: whether a module is to be run, and the packages that stay real
    """
    real: list[str] = []
    while arguments[:1] == ["--real"]:
        real += arguments[1:2]
        arguments = arguments[2:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[is_module:]
    problem = ""
    if not arguments or arguments[0] in ("-h", "--help"):
        usage = "python -m rlzoo.compat [--real PACKAGE] (SCRIPT | FOLDER | - | -m MODULE) [ARGUMENTS]"
        print(f"usage: {usage}\n\nRun a script for {', '.join(PACKAGES)} with rlzoo.")
        raise SystemExit(0 if arguments else 2)
    if any(package not in PACKAGES for package in real):
        problem = f"--real takes one of {', '.join(PACKAGES)}"
    elif not is_module and arguments[0] != STDIN:
        if not os.path.exists(arguments[0]):
            problem = f"there is no script {arguments[0]}"
        else:
            try:
                ScriptLoader(arguments[0])
            except FileNotFoundError as error:
                problem = str(error)
    if problem:
        print(f"rlzoo.compat: {problem}", file=sys.stderr)
        raise SystemExit(2)
    sys.argv[:] = arguments
    return is_module, real


if __name__ in ("__main__", "__mp_main__"):
    # The alias modules belong to the imported `rlzoo.compat`, not to this second copy of it.
    from rlzoo import compat

    if __name__ == "__main__":
        assert __spec__ is not None  # started with -m
        compat.main(__spec__)
    else:
        compat.rerun(sys.modules[__name__])
elif os.environ.get(VARIABLE):
    enable_from_environment()
else:
    enable()
