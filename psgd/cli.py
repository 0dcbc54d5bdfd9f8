"""`psgd`: one command for all of it, with a subcommand for each task.

A subcommand is a row of `COMMANDS`, which names a function that takes a parser, adds its options, and returns the task to be
done with them: a function of the options that returns the exit code. Its module is loaded when the subcommand is called.

To add one: the function in a module of this package, its row in `COMMANDS`, and a row in the table of docs/command.md, which a
test demands. The help of a subcommand ends with its exit codes. `parallel_sgd.commands` has the parts of all commands:
`options.add_output` adds --json, --quiet and --verbose, `output.carry_out` does the task and ends an error in one line with
its exit code, and `output.tell` prints a result, or the JSON of it; `options.load_model` takes the file of a model.
`psgd.tables` shows their use. Its tests stand in tests/test_psgd.py, wrong arguments as rows of
`test_what_is_wrong_is_said_in_one_line`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from network import VERSION
from network.names import did_you_mean
from rpc import OptionParser, program_name

Task = Callable[[argparse.Namespace], int]
Configure = Callable[[OptionParser], Task]


class Command(NamedTuple):
    """Subcommand: the module and the function that is its `Configure`, and its purpose in one line."""

    module: str
    function: str
    help: str


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "run": Command("psgd.jobs", "run", "train again what a job.toml says, with the same bits, or with other options"),
        "submit": Command("psgd.jobs", "submit", "train a saved model on several workers"),
        "sweep": Command("psgd.sweeps", "sweep", "train every combination of options and seeds that a sweep.toml names"),
        "jobs": Command("psgd.jobs", "jobs", "list which jobs run where, with --watch again and again"),
        "attach": Command("psgd.jobs", "attach", "show the progress of a job again, fetch its files at its end"),
        "stop": Command("psgd.jobs", "stop", "stop a job for good"),
        "fetch": Command("psgd.jobs", "fetch", "fetch logs and files of a job"),
        "post-mortem": Command("psgd.jobs", "post_mortem", "collect what all workers know of a job that failed"),
        "runs": Command("psgd.runs", "runs", "list the runs of this directory, or delete some of them"),
        "show": Command("psgd.runs", "show", "tell what a run was and what came of it, in a few lines"),
        "compare": Command("psgd.runs", "compare", "compare runs: what differs, and a page with the curves of all"),
        "report": Command("psgd.pages", "report", "write the page of a run again, from the files in its folder"),
        "page": Command("psgd.pages", "page", "show a run of this machine in a browser while it goes on"),
        "predict": Command("psgd.tables", "predict", "predict the rows of a CSV file by a trained model"),
        "evaluate": Command("psgd.tables", "evaluate", "evaluate a trained model on the rows of a CSV file"),
        "verify": Command("psgd.jobs", "verify", "compare a run with its manifest, and compute epochs of it again"),
        "sign": Command("psgd.jobs", "sign", "sign a run with a key of your own, so that others see who stands for it"),
        "worker": Command("psgd.agents", "worker", "serve jobs on this machine"),
        "doctor": Command("psgd.agents", "doctor", "examine workers: who reaches whom, versions, clocks, what is wrong"),
        "calibrate": Command("psgd.simulation", "calibrate", "measure workers, for simulations of their cluster"),
        "plan": Command("psgd.simulation", "plan", "find out by simulation which codec and how many workers train fastest"),
        "launch": Command("psgd.launch", "launch", "run a script on several workers, which may come and go"),
    }
)

# few: a list of all of them hides the ones to begin with
NEEDED: Final = ("submit", "runs", "compare", "page", "worker", "doctor")
"""The commands that `psgd` without an argument shows; `--help` and `--help-all` show all of them."""
MEANT: Final = {
    **dict.fromkeys(("list", "ls", "history"), "runs"),
    **dict.fromkeys(("delete", "rm", "remove", "clean"), "runs --delete"),
    "diff": "compare",
    "info": "show",
    "status": "show",
    **dict.fromkeys(("resume", "continue"), "run RUN --resume RUN --epochs N"),
    **dict.fromkeys(("open", "view"), "report"),
    **dict.fromkeys(("repeat", "rerun", "retrain"), "run"),
    **dict.fromkeys(("ps", "queue", "top"), "jobs"),
    **dict.fromkeys(("log", "logs", "download"), "fetch"),
    **dict.fromkeys(("cancel", "kill"), "stop"),
    "train": "submit",
    "fit": "submit",
    "test": "evaluate",
    **dict.fromkeys(("latest", "last", "newest"), "show"),
    "help": "--help-all",
    "version": "--version",
}
"""Words that other tools have, and what to suggest for each."""
_ELSEWHERE: Final = {
    **dict.fromkeys(("export", "convert"), "a program writes ONNX by nn.model.Model.load(FILE).export('model.onnx')"),
    **dict.fromkeys(
        ("serve", "deploy"), "a program answers rows by nn.model.Model.load(FILE).predict(rows), 'psgd predict' those of a file"
    ),
    **dict.fromkeys(("rename", "mv"), "a run keeps its name; --title names the next one"),
}
"""Words for which there is no command, and the way to it."""
SHELLS: Final = ("bash", "zsh")
# a script with all words, so no key waits for Python
_COMPLETION = """_psgd() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --help-all --version --completion"
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the arguments name.

    Args:
        arguments: words after the name of the program; default: those of the command line.

    Returns: the exit code, which each subcommand tells in its help.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # found before argparse parses: only this subcommand is configured, for --version and --help must not load NumPy
    parser, tasks = make_parser(given[0] if given and given[0] in COMMANDS else "")
    if given and given[0] in tasks:
        # by its own parser: errors then name the subcommand, and options of the whole are none of it
        subparser, task = tasks[given[0]]
        return _exit_code(given[0], task(subparser.parse_args(given[1:])))
    options = parser.parse_args(given)
    if options.completion:
        # all modules, which takes long, but a shell asks only once
        sys.stdout.write(_completion(options.completion, {name: each for name, (each, _) in make_parser(None)[1].items()}))
        return 0
    if options.help_all:
        parser.print_help()
        return 0
    # not argparse's help, which would list all of them
    width = max(map(len, NEEDED))
    lines = [f"  {name:{width}}  {COMMANDS[name].help}" for name in NEEDED]
    text = "\n".join([f"usage: {parser.prog} COMMAND [options]", "", *lines])
    sys.stdout.write(f"{text}\n\n'{parser.prog} COMMAND --help' tells the options, '{parser.prog} --help-all' all commands.\n")
    # 2, as of any command line that asks for nothing to be done
    return 2


def make_parser(chosen: str | None) -> tuple[argparse.ArgumentParser, dict[str, tuple[argparse.ArgumentParser, Task]]]:
    """Return the parser of all subcommands, and by name the parser and task of those that are configured.

    Args:
        chosen: subcommand to configure, whose module alone is loaded; None: all of them.
    """
    parser = _Parser(
        prog=program_name("psgd", "psgd"),
        description="Train neural networks in parallel on ordinary CPUs, and look after the jobs.",
        epilog="'%(prog)s COMMAND --help' tells the options of a command.",
    )
    parser.meant = MEANT
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("--help-all", action="store_true", help="show all commands")
    parser.add_argument(
        "--completion",
        choices=SHELLS,
        help='print what completes commands and options in a shell: eval "$(psgd --completion bash)"',
    )
    # not `required`: without one there is a shorter help, above
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    tasks: dict[str, tuple[argparse.ArgumentParser, Task]] = {}
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=f"{command.help[0].upper()}{command.help[1:]}.")
        # the others have but their line in the help
        if chosen in (name, None):
            configure: Configure | None = getattr(import_module(command.module), command.function, None)
            if configure is None:
                raise TypeError(
                    f"COMMANDS names {command.module}.{command.function} for {name!r}, and there is no such function"
                )
            task: Any = configure(subparser)
            if not callable(task):
                raise TypeError(
                    f"{command.module}.{command.function}() must return the task of {name!r}, which takes its options, "
                    f"got {task!r}"
                )
            tasks[name] = (subparser, task)
    return parser, tasks


def _exit_code(name: str, code: object) -> int:
    """Return the exit code of a task; raise TypeError where it has returned none: Python would end with 0."""
    if not isinstance(code, int):
        raise TypeError(f"the task of {name!r} must return its exit code, got {code!r}")
    return code


class _Parser(OptionParser):
    """Parser that says in one line which argument is wrong, as the commands do."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # without the list of all commands, in which the near one would be lost
        if self.meant and not action.option_strings and action.choices is not None and value not in action.choices:
            found = {name: f"'{self.prog} {name}'" for name in action.choices}
            found |= {word: f"'{self.prog} {name}'" for word, name in self.meant.items()}
            if value in _ELSEWHERE:
                near = f"; {_ELSEWHERE[value]}"
            elif os.path.isdir(os.path.join("runs", value)):
                near = f"; it is a run: did you mean '{self.prog} show {value}'?"
            else:
                near = did_you_mean(value, found, quoted=False, meant=found)
            self.error(f"there is no command {value!r}{near}")
        super()._check_value(action, value)

    def complain(self, message: str) -> None:
        # without the usage, which for twenty options is longer than a screen
        self.exit(2, f"{self.prog}: {message} ('{self.prog} --help' tells what there is)\n")


def _completion(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script that completes in one of SHELLS: options of the `parsers` after commands, else the names of files."""
    cases = "\n".join(f'            {name}) words="{" ".join(_options(parser))}" ;;' for name, parser in parsers.items())
    # zsh knows `complete` by its module bashcompinit
    start = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return start + _COMPLETION.format(commands=" ".join(parsers), cases=cases)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    # no public name of argparse tells its options; the short ones need no completion
    return [text for action in parser._actions for text in action.option_strings if text.startswith("--")]
