"""`rlzoo completion`: print shell completion of commands, flags, algorithms and environment ids."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from rlzoo.cli.flags.parser import Choice, values_of

EPILOG = """\
examples:
  eval "$(rlzoo completion bash)"          # in ~/.bashrc
  rlzoo completion zsh > ~/.zfunc/_rlzoo   # ~/.zfunc must be in fpath
  rlzoo completion fish > ~/.config/fish/completions/rlzoo.fish
"""


class Argument(NamedTuple):
    """One flag (several spellings) or positional argument (no spelling) of a command."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]  # empty: any


class Command(NamedTuple):
    """One subcommand."""

    name: str  # one word, or two
    help: str
    arguments: tuple[Argument, ...]

    def flags(self) -> list[str]:
        """Return every spelling of every flag."""
        return [flag for argument in self.arguments for flag in argument.flags]


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "shell", type=Choice("shell", WRITERS), metavar="bash|zsh|fish", help="name of the shell"
    )


def run(args: argparse.Namespace) -> int:
    print(WRITERS[args.shell](commands()))
    return 0


def commands() -> list[Command]:
    """Return every command with the arguments of its parser."""
    from rlzoo.cli import main
    from rlzoo.config.catalog import names
    from rlzoo.config.hyperparams import shipped_envs

    env_ids = tuple(sorted({env_id for algo in names() for env_id in shipped_envs(algo)}))
    found = []
    for name in main.COMMANDS:
        module = main.load_command(name)
        arguments = [
            Argument(
                tuple(action.option_strings),
                (action.help or "").replace("%%", "%"),
                action.nargs != 0,
                env_ids if action.dest == "env" else values_of(action),
            )
            for action in main.build(name, module).actions
        ]
        found.append(Command(name, main.COMMANDS[name].help, tuple(arguments)))
    return found


def first_words(commands: list[Command]) -> dict[str, list[Command]]:
    """Group commands by their first word."""
    found: dict[str, list[Command]] = {}
    for command in commands:
        found.setdefault(command.name.partition(" ")[0], []).append(command)
    return found


def second_words(commands: list[Command]) -> dict[str, list[Command]]:
    """Group commands of two words by their first word."""
    return {word: found for word, found in first_words(commands).items() if " " in found[0].name}


def bash(commands: list[Command]) -> str:
    """Return a bash script: values after `command:previous word`, flags of the command, else files."""
    verbs = [
        f'        {word}) verbs="{" ".join(command.name.partition(" ")[2] for command in found)}" ;;'
        for word, found in second_words(commands).items()
    ]
    flags = [f'        "{command.name}") flags="{" ".join(command.flags())}" ;;' for command in commands]
    places: dict[tuple[str, ...], list[str]] = {}
    for command in commands:
        for argument in command.arguments:
            words = argument.flags or (command.name.split()[-1],)  # a positional argument follows the command
            places.setdefault(argument.values, []).extend(f'"{command.name}:{word}"' for word in words)
    values = [f'        {"|".join(words)}) values="{" ".join(v)}" ;;' for v, words in places.items() if v]
    names = " ".join(first_words(commands))
    return _BASH.format(names=names, verbs="\n".join(verbs), flags="\n".join(flags), values="\n".join(values))


def zsh(commands: list[Command]) -> str:
    """Return a zsh script with one `_arguments` call per command."""
    described = " ".join(_zsh_word(word, found[0]) for word, found in first_words(commands).items())
    lines = ["#compdef rlzoo", "", "_rlzoo() {", f"  local -a commands=({described}) verbs"]
    lines += ["  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi"]
    lines += ["  local command=$words[2]", "  shift words", "  (( CURRENT-- ))", "  case $command in"]
    for word, found in second_words(commands).items():
        described = " ".join(_zsh_word(command.name.partition(" ")[2], command) for command in found)
        lines += [f"    {word})", f"      verbs=({described})"]
        lines += ["      if (( CURRENT == 2 )); then", "        _describe verb verbs", "        return"]
        lines += [
            "      fi",
            '      command="$command $words[2]"',
            "      shift words",
            "      (( CURRENT-- ))",
        ]
        lines += ["      ;;"]
    lines += ["  esac", "  case $command in"]
    for command in commands:
        specs = [_zsh_spec(argument) for argument in command.arguments]
        flat = [_single_quoted(spec) for per_argument in specs for spec in per_argument]
        lines += [
            f'    "{command.name}")',
            "      _arguments \\",
            *(f"        {spec} \\" for spec in flat[:-1]),
        ]
        lines += [f"        {flat[-1]}", "      ;;"]
    lines += [
        "  esac",
        "}",
        "",
        'if [ "$funcstack[1]" = "_rlzoo" ]; then _rlzoo "$@"; else compdef _rlzoo rlzoo; fi',
    ]
    return "\n".join(lines)


def fish(commands: list[Command]) -> str:
    """Return a fish script with one `complete` line per argument."""
    lines = []
    for command in commands:
        help, (first, _, verb) = _single_quoted(command.help), command.name.partition(" ")
        begun = f"__fish_seen_subcommand_from {first}"
        if verb:
            lines.append(f"complete -c rlzoo -n __fish_use_subcommand -f -a {first}")
            lines.append(f"complete -c rlzoo -n '{begun}' -f -a {verb} -d {help}")
            begun += f"; and __fish_seen_subcommand_from {verb}"
        else:
            lines.append(f"complete -c rlzoo -n __fish_use_subcommand -f -a {first} -d {help}")
        for argument in command.arguments:
            words = [f"complete -c rlzoo -n '{begun}'"]
            words += [_fish_flag(flag) for flag in argument.flags]
            if argument.values:
                words.append(
                    f"{'-x' if argument.flags else '-f'} -a {_single_quoted(' '.join(argument.values))}"
                )
            elif argument.takes_value:
                words.append("-r")
            lines.append(" ".join([*words, f"-d {_single_quoted(argument.help)}"]))
    return "\n".join(lines)


WRITERS: dict[str, Callable[[list[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


_BASH = """\
_rlzoo() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" verbs="" flags="" values=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current"))
        return
    fi
    case "$command" in
{verbs}
    esac
    if [ -n "$verbs" ] && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$current"))
        return
    fi
    [ -z "$verbs" ] || command="$command ${{COMP_WORDS[2]}}"
    case "$command" in
{flags}
    esac
    case "$command:$previous" in
{values}
    esac
    if [ "${{current#-}}" != "$current" ]; then
        COMPREPLY=($(compgen -W "$flags" -- "$current"))
    elif [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _rlzoo rlzoo"""


def _zsh_word(word: str, command: Command) -> str:
    """Return `word:help`, with the help of the first command that begins with the word."""
    return _single_quoted(f"{word}:{_escaped(command.help)}")


def _zsh_spec(argument: Argument) -> list[str]:
    """Return `--flag[help]:what:(values)` per spelling; a positional argument has the last two parts."""
    what = f":{'value' if argument.values else 'file'}:" + (
        f"({' '.join(argument.values)})" if argument.values else "_files"
    )
    if not argument.flags:
        return [f"*{what}"]
    return [
        f"{flag}[{_escaped(argument.help)}]" + (what if argument.takes_value else "")
        for flag in argument.flags
    ]


def _fish_flag(flag: str) -> str:
    """Return `-l` for --long, `-s` for -s, `-o` for -long."""
    if flag.startswith("--"):
        return f"-l {flag[2:]}"
    return f"-s {flag[1:]}" if len(flag) == 2 else f"-o {flag[1:]}"


def _escaped(text: str) -> str:
    """Escape text inside the brackets of a zsh specification."""
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _single_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
