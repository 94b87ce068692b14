"""`rlzoo completion`: the scripts hold every command, flag and value, and shells accept them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rlzoo.cli.completion import WRITERS, commands
from rlzoo.cli.main import FIRST_WORDS, main
from rlzoo.config import catalog


@pytest.fixture(scope="module")
def scripts():
    found = commands()
    return {shell: write(found) for shell, write in WRITERS.items()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_flag_and_value_is_in_the_script(scripts, shell):
    script = scripts[shell]
    for command in commands():
        assert all(word in script for word in command.name.split())
        for argument in command.arguments:
            for flag in argument.flags:
                assert flag.lstrip("-") in script
            assert all(value in script for value in argument.values)
    assert "CartPole-v1" in script and "a2c" in script


def test_environment_ids_complete_after_env():
    train = next(command for command in commands() if command.name == "train")
    env = next(argument for argument in train.arguments if "--env" in argument.flags)
    assert "Pendulum-v1" in env.values


def test_the_command_prints_the_script(capsys, scripts):
    assert main(["completion", "fish"]) == 0
    assert capsys.readouterr().out == scripts["fish"] + "\n"
    assert main(["completion", "tcsh"]) == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rlzoo", ""], [*FIRST_WORDS]),
        (["rlzoo", "tr"], ["train"]),
        (["rlzoo", "train", "--algo", ""], catalog.names()),
        (["rlzoo", "benchmark", ""], ["run", "score", "table", "page", "ship"]),
        (["rlzoo", "benchmark", "run", "--dry"], ["--dry-run"]),
        (["rlzoo", "benchmark", "score", "--dry"], []),
        (["rlzoo", "train", "--env", "Acrob"], ["Acrobot-v1"]),
        (["rlzoo", "show", "--conf"], ["--conf-file"]),
        (["rlzoo", "list", "a"], ["algos", "agents"]),
    ],
)
def test_bash_completes(scripts, words, expected):
    quoted = " ".join(f"'{word}'" for word in words)
    call = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _rlzoo; printf "%s\\n" "${{COMPREPLY[@]}}"'
    code = f"{scripts['bash']}\n{call}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == expected and done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_accepts_the_script(scripts, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n"], input=scripts[shell], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_quotes_are_balanced_on_every_line(scripts, shell):
    for line in scripts[shell].splitlines():
        if "funcstack" not in line:
            assert line.replace("'\\''", "").count("'") % 2 == 0, line
