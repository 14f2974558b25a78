"""`muster completion`: scripts that let shells complete commands, options and their values.

They are made from the commands themselves, and ask nobody when they run: completing is as fast as the shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Level:
    """What may follow a command: `path` is how one types it, without the program's name."""

    path: str
    #: Name and help.
    commands: tuple[tuple[str, str], ...]
    #: Names, help, and the values that it takes; None: it takes none, empty: any.
    options: tuple[tuple[tuple[str, ...], str, tuple[str, ...] | None], ...]


def levels(command: Any, path: str = "") -> Iterator[Level]:  # noqa: ANN401  # the command library types it loosely
    """Yield a command and all below it."""
    inner = dict(getattr(command, "commands", {}))
    options = []
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        choices = tuple(str(each) for each in getattr(parameter.type, "choices", ()))
        takes = None if parameter.is_flag else choices
        names = (*parameter.opts, *parameter.secondary_opts)
        options.append((names, _first_sentence(parameter.help or ""), takes))
    options.append((("--help", "-h"), "Show this message and exit.", None))
    yield Level(path, tuple((name, _first_sentence(_short(each))) for name, each in inner.items()), tuple(options))
    for name, each in inner.items():
        yield from levels(each, f"{path} {name}".strip())


def _short(command: Any) -> str:  # noqa: ANN401  # as above
    return str(command.short_help or (command.help or "").partition("\n")[0])


def _first_sentence(text: str) -> str:
    """A line that is safe between single quotes."""
    return " ".join(text.split()).replace("'", "").replace(":", ";").replace("[", "(").replace("]", ")")


def script(shell: str, command: object, name: str = "muster") -> str:
    """The script for a shell."""
    known = list(levels(command))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known, name)


def _bash(known: list[Level], name: str) -> str:
    words, values = [], []
    for level in known:
        offered = [one for one, _ in level.commands] + [one for names, _, _ in level.options for one in names]
        words.append(f"    '{level.path}') echo '{' '.join(offered)}' ;;")
        for names, _, takes in level.options:
            if takes is not None:
                pattern = "|".join(f"'{level.path} {one}'" for one in names)
                values.append(f"    {pattern}) echo '{' '.join(takes) or '@files'}' ;;")
    commands = " ".join(f"'{level.path}'" for level in known if level.path)
    return f"""# Completion of {name} for bash: source <({name} completion bash)
_{name}_words() {{
  case "$1" in
{chr(10).join(words)}
  esac
}}
_{name}_values() {{
  case "$1" in
{chr(10).join(values)}
  esac
}}
_{name}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path='' word known
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    for known in {commands}; do
      if [[ "$known" == "${{path:+$path }}$word" ]]; then path="$known"; break; fi
    done
  done
  local values
  values="$(_{name}_values "$path $before")"
  if [[ "$values" == '@files' ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ -n "$values" ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$(_{name}_words "$path")" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$(_{name}_words "$path" | tr ' ' '\\n' | grep -v '^-')" -- "$current"))
    [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _{name} {name}
"""


def _zsh(known: list[Level], name: str) -> str:
    cases = []
    for level in known:
        commands = " ".join(f"'{one}:{text}'" for one, text in level.commands)
        specs = " ".join(_zsh_option(names, text, takes) for names, text, takes in level.options)
        cases.append(f"    '{level.path}') commands=({commands}); options=({specs}) ;;")
    paths = " ".join(f"'{level.path}'" for level in known if level.path)
    return f"""#compdef {name}
# Completion of {name} for zsh: source <({name} completion zsh), or a file _{name} in a directory of $fpath.
_{name}() {{
  local -a commands options paths
  local way='' word
  paths=({paths})
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    if (( ${{paths[(Ie)${{way:+$way }}$word]}} )); then way="${{way:+$way }}$word"; fi
  done
  case "$way" in
{chr(10).join(cases)}
  esac
  if [[ "$PREFIX" != -* && ${{#commands}} -gt 0 ]]; then
    _describe command commands
  else
    _arguments $options '*:file:_files'
  fi
}}
compdef _{name} {name}
"""


def _zsh_option(names: tuple[str, ...], text: str, takes: tuple[str, ...] | None) -> str:
    value = "" if takes is None else f":value:({' '.join(takes)})" if takes else ":value:_files"
    return " ".join(f"'{one}[{text}]{value}'" for one in names)


def _fish(known: list[Level], name: str) -> str:
    lines = [
        f"# Completion of {name} for fish: {name} completion fish | source",
        f"function __{name}_at",
        "    set -l way",
        "    for word in (commandline -opc)[2..]",
        "        if string match -qv -- '-*' $word; set -a way $word; end",
        "    end",
        "    set -l wanted (string split ' ' -- $argv[1])",
        '    test -z "$argv[1]"; and set wanted',
        "    test (count $way) -ge (count $wanted); or return 1",
        "    test (count $wanted) -eq 0; and test (count $way) -eq 0; and return 0",
        '    test (count $wanted) -gt 0; and test "$way[1..(count $wanted)]" = "$wanted"',
        "end",
    ]
    for level in known:
        here = f"-n '__{name}_at \"{level.path}\"'"
        lines += [f"complete -c {name} {here} -f -a '{one}' -d '{text}'" for one, text in level.commands]
        for names, text, takes in level.options:
            flags = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in names)
            values = "" if takes is None else f" -x -a '{' '.join(takes)}'" if takes else " -r -F"
            lines.append(f"complete -c {name} {here} {flags}{values} -d '{text}'")
    return "\n".join(lines) + "\n"


def print_script(shell: str, command: object, name: str = "muster") -> None:
    """Print the script."""
    typer.echo(script(shell, command, name), nl=False)
