"""What completes the commands and options of `psgd` in a shell: a script with all of them, so no key waits for Python."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

SHELLS: Final = ("bash", "zsh")
_FUNCTION = """_psgd() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version --completion"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
        case "$word" in -*) ;; *) words="" ;; esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _psgd psgd
"""


def script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """For one of SHELLS: of the subcommands' `parsers` their options, elsewhere the names of files."""
    cases = "\n".join(f'            {name}) words="{" ".join(_options(parser))}" ;;' for name, parser in parsers.items())
    start = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return start + _FUNCTION.format(commands=" ".join(parsers), cases=cases)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings if text.startswith("--")]
