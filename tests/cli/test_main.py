"""The command line as a whole: dispatch, exit codes, one-line errors, and what it does not import."""

from __future__ import annotations

import errno
import subprocess
import sys
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest

from rlzoo.cli import main as cli
from rlzoo.cli.commands import Command
from rlzoo.cli.flags.parser import Choice, Parser, flags_of, values_of
from rlzoo.cli.main import main
from rlzoo.core.errors import RunFailed, UserError

DEMO = Command("demo", "a demo")


@pytest.fixture
def command(monkeypatch):
    """A command `demo` whose `run` is what the test makes it."""
    module = SimpleNamespace(build_parser=lambda parser: None, run=lambda args: 0)

    def build_parser(parser):
        parser.add_argument("--algo", type=Choice("algorithm", ["a2c", "ppo"]))
        parser.add_argument("-params", nargs="+")
        parser.add_argument("--eval-freq", type=int)
        parser.add_argument("-n", "--n-timesteps", type=int)

    module.build_parser = build_parser
    monkeypatch.setattr(cli, "COMMANDS", dict.fromkeys(("demo", "record-video"), DEMO))
    monkeypatch.setattr(cli, "FIRST_WORDS", ("demo", "record-video", "--help"))
    monkeypatch.setattr(cli, "load_command", lambda name: module)
    return module


def failing(error):
    def run(args):
        raise error

    return run


def test_every_command_follows_the_convention():
    for name, (_, help) in cli.COMMANDS.items():
        module = cli.load_command(name)
        assert "\n" not in help and len(help) < 80
        parser = cli.build(name, module)
        assert "examples:" in parser.epilog
        assert f"rlzoo {name}" in parser.epilog
        assert all(action.help for action in parser._actions), name


def test_arguments_reach_run_and_its_result_is_the_exit_code(command):
    seen = []
    command.run = lambda args: seen.append(args) or 3
    assert main(["demo", "--algo", "ppo", "--eval-freq", "-1", "-n50", "-params", "a:-1", "b:2"]) == 3
    assert (seen[0].algo, seen[0].eval_freq, seen[0].n_timesteps) == ("ppo", -1, 50)
    assert seen[0].params == ["a:-1", "b:2"]


def test_underscores_and_dashes_are_the_same_command(command):
    command.run = lambda args: 7
    assert main(["record_video"]) == main(["record-video"]) == 7


@pytest.fixture
def pair(command, monkeypatch):
    """The commands `bench run` and `bench table`; `run` of the module gets which of them it was."""
    monkeypatch.setattr(cli, "COMMANDS", dict.fromkeys(("demo", "bench run", "bench table"), DEMO))
    monkeypatch.setattr(cli, "FIRST_WORDS", ("demo", "bench", "--help"))
    monkeypatch.setattr(cli, "load_command", lambda name: loaded.append(name) or command)
    loaded: list[str] = []
    return loaded


def test_a_command_may_be_two_words(pair, command):
    command.run = lambda args: int(args.eval_freq)
    assert main(["bench", "table", "--eval-freq", "7"]) == 7
    assert pair == ["bench table"]


def test_the_first_of_two_words_explains_itself(pair, capsys):
    assert main(["bench", "--help"]) == 0
    assert [
        line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.startswith("  bench")
    ] == [
        ["bench", "run"],
        ["bench", "table"],
    ]
    assert main(["bench"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: bench what? One of: run, table\n"
    assert main(["bench", "rum"]) == 2
    assert "unknown kind of bench 'rum'; did you mean 'run'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmeo"], "unknown command 'dmeo'; did you mean 'demo'?"),
        (["--hlep"], "unknown flag '--hlep'; did you mean '--help'?"),
        (["demo", "--aglo", "ppo"], "unknown flag '--aglo'; did you mean '--algo'?"),
        (["demo", "--eval-frq=3"], "unknown flag '--eval-frq'; did you mean '--eval-freq'?"),
        (["demo", "--evaluate"], "unknown flag '--evaluate'; did you mean '--eval-freq'?"),
        (["demo", "--eval"], "unknown flag '--eval'; did you mean '--eval-freq'?"),
        (["demo", "--algo", "pop"], "argument --algo: unknown algorithm 'pop'; did you mean 'ppo'?"),
        (["demo", "--algo", "xyz"], "argument --algo: unknown algorithm 'xyz'; known: a2c, ppo"),
        (["demo", "--eval-freq", "often"], "argument --eval-freq: invalid int value: 'often'"),
        (["demo", "--algo"], "argument --algo: expected one argument"),
        (["demo", "extra"], "unexpected argument 'extra'"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(command, capsys, arguments, message):
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"rlzoo: error: {message}\n"


@pytest.mark.parametrize(("error", "code"), [(UserError("two\nlines"), 2), (RunFailed("two\nlines"), 1)])
def test_errors_of_a_command_are_one_line(command, capsys, error, code):
    command.run = failing(error)
    assert main(["demo"]) == code
    assert capsys.readouterr().err == "rlzoo: error: two lines\n"


def test_a_defect_keeps_its_traceback(command):
    command.run = failing(KeyError("bug"))
    with pytest.raises(KeyError):
        main(["demo"])


def test_broken_pipe_of_a_process_is_an_error(command, capfd):
    command.run = failing(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert main(["demo"]) == 1
    assert "Broken pipe: a process that rlzoo has started ended" in capfd.readouterr().err


def test_an_interrupt_ends_with_a_message(command, capsys):
    command.run = failing(KeyboardInterrupt())
    assert main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_no_arguments_print_overview_and_exit_2(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"  {name} " in out


def test_help_of_a_command_shows_its_examples(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["show", "--help"])
    assert exit.value.code == 0
    assert "\n  rlzoo show --algo ppo --env CartPole-v1\n" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rlzoo ")


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m rlzoo list envs | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == ""


def test_the_overview_and_parsing_import_nothing_heavy():
    code = (
        "import sys; from rlzoo.cli.main import *\n"
        "main(['--help']); main(['list', 'envs']); main(['show'])\n"
        "[build(name, load_command(name)) for name in COMMANDS]\n"
        "heavy = ('torch', 'gymnasium', 'numpy', 'pandas', 'matplotlib')\n"
        "print(*[module for module in heavy if module in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "\n"


def test_values_of_finds_fixed_sets():
    parser = Parser("demo", "a demo")
    parser.add_argument("--a", type=Choice("letter", "xyz"))
    parser.add_argument("--b", choices=(1, 2))
    parser.add_argument("--c")
    assert [values_of(action) for action in parser._actions[1:]] == [("x", "y", "z"), ("1", "2"), ()]
    assert flags_of(parser) == ["-h", "--help", "--a", "--b", "--c"]


@pytest.mark.parametrize("arguments", [["--algo", ""], ["-params", "a:1", " "], ["--eval-freq="]])
def test_empty_value_is_a_mistake(command, capsys, arguments):
    assert main(["demo", *arguments]) == 2
    error = capsys.readouterr().err
    assert "its value is empty (is a shell variable not set?)" in error and error.count("\n") == 1


@pytest.mark.parametrize("flags", [["-f", "missing"], ["-f", "missing", "--exp-id", "-1"]])
@pytest.mark.parametrize(
    "what", [["enjoy", "--no-render"], ["record-expert", "-o", "x.npz"], ["list", "agents"]]
)
def test_folder_that_is_not_there_is_a_mistake(capsys, tmp_path, monkeypatch, what, flags):
    monkeypatch.chdir(tmp_path)
    flags = flags[:2] if what[0] == "list" else flags
    assert main([*what, *flags]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there is no folder 'missing'\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", [False, True])
def test_quick_imports_leave_garbage_collection_on(monkeypatch, fails):
    monkeypatch.setattr(cli, "gc", collector := SimpleNamespace(calls=[], isenabled=lambda: True))
    for name in ("collect", "disable", "freeze", "enable"):
        setattr(collector, name, partial(collector.calls.append, name))
    monkeypatch.delitem(sys.modules, "torch")
    with suppress(ImportError), cli.quick_imports():
        assert collector.calls == ["collect", "disable"]
        if fails:
            raise ImportError
    assert collector.calls == ["collect", "disable", "freeze", "enable"]


@pytest.mark.parametrize("change", ["imported before", "turned off by the user"])
def test_quick_imports_change_nothing_where_they_do_not_help(monkeypatch, change):
    """What a program has made that calls `main` is not frozen."""
    monkeypatch.setattr(cli, "gc", SimpleNamespace(isenabled=lambda: change == "imported before"))
    if change == "turned off by the user":
        monkeypatch.delitem(sys.modules, "torch")
    with cli.quick_imports():  # an AttributeError if it called anything else of `gc`
        pass


def test_train_imports_without_collecting_garbage(tmp_path):
    code = (
        "import gc, sys; from rlzoo.cli.main import main\n"
        f"main(['train', '-n', '64', '--eval-freq', '-1', '--verbose', '0', '-f', {str(tmp_path)!r}])\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 100_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-2:] == ["True", "True"], done.stderr
