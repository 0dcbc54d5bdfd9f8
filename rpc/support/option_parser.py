"""Parser of command lines that takes options by their whole names, and suggests a near word for a misspelt one or a choice."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from network.names import did_you_mean
from network.nodes import LAST_PORT

_NEAR: Final = 0.7
"""Share of letters that a near option has alike: with less, such as 0.67, `--gpus` would be `--ps`, and `--watch` `--wait`."""

_EXPECTED: Final[Mapping[Any, str]] = MappingProxyType({int: "an integer", float: "a number"})
"""Types of arguments whose texts Python reads by itself, with what they expect."""


def positive(text: str) -> int:
    """Parse the `text` of an option, an integer from 1 on; the `type` of such an option, as those below."""
    # of a ValueError argparse would tell no more than the name of this function
    with contextlib.suppress(ValueError):
        if (value := int(text)) > 0:
            return value
    raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")


def counted(text: str) -> int:
    """Parse the `text` of an option, a number of things; one below 1 is left to the check of the value."""
    with contextlib.suppress(ValueError):
        return int(text)
    return positive(text)


def number(text: str) -> float:
    """Parse the `text` of an option, any number but infinity and NaN."""
    with contextlib.suppress(ValueError):
        # `float` takes the words nan and inf, too
        if math.isfinite(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f"must be a number, got {text!r}")


def above_0(text: str) -> float:
    """Parse the `text` of an option, a number above 0."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number > 0, got {text!r}")
    return value


def port_number(text: str) -> int:
    """Parse the `text` of an option, the port of an address, or 0 for a free one."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := int(text)) <= LAST_PORT:
            return value
    raise argparse.ArgumentTypeError(f"must be a number from 0 to {LAST_PORT}, got {text!r}")


class OptionParser(argparse.ArgumentParser):
    """Parser of a command line (an `argparse.ArgumentParser`) that suggests near words, and can show few of many options. The
    beginning of a long option does not stand for it.
    """

    _hidden: Sequence[argparse.Action] = ()
    _words: Sequence[str] = ()
    """Words of the command line, while it is parsed."""
    meant: Mapping[str, str] = {}
    """Word that is no choice of an argument without a name: the choice to suggest in its place."""
    meant_options: Mapping[str, str] = {}
    """Word, without dashes, that is no option: the option to suggest in its place, "" where none is near though words are."""
    keeps_words = False
    """Whether `parse_args` returns as `words` also the whole command, as it can be given again in the same folder."""

    def show_first(self, names: Collection[str]) -> None:
        """Show only the named options and those added later in `--help`, and all of them in `--help-all`.

        Args:
            names: `dest` of each option that is shown, of those that the parser has.
        """
        self._hidden = [action for action in self._actions if action.dest not in {*names, "help"}]
        self.add_argument("--help-all", action=_HelpAll, help=f"show all options, {len(self._hidden)} more")

    def format_help(self) -> str:
        """Return the help, without the options that `show_first` leaves to `--help-all`."""
        told = [action.help for action in self._hidden]
        try:
            for action in self._hidden:
                # only while the help is made: `--help-all` shows them
                action.help = argparse.SUPPRESS
            return super().format_help()
        finally:
            for action, text in zip(self._hidden, told, strict=True):
                action.help = text

    def format_whole_help(self) -> str:
        """Return the help of all options."""
        return super().format_help()

    def parse_args(  # type: ignore[override] # one signature instead of three
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Return the options; end the program where one is wrong.

        Args:
            args: words of the command line; None: those of the program.
            namespace: object that gets the options; None: a new one.
        """
        found: argparse.Namespace
        self._words = sys.argv[1:] if args is None else args
        found, strange = self.parse_known_args(args, namespace)
        self._words = ()
        if strange:
            joined = "".join(filter(None, map(self._near, strange))).replace("?; did you mean", ",")
            self.error(f"unrecognized arguments: {' '.join(strange)}{joined}")
        if self.keeps_words:
            found.words = [*_called(self.prog), *(sys.argv[1:] if args is None else args)]
        return found

    def _near(self, strange: str) -> str:
        """Return a question that names the option nearest to a word, "" where none is near."""
        options = {text.lstrip("-"): (text, action) for action in self._actions for text in action.option_strings}
        word = strange.partition("=")[0].lstrip("-")
        if strange.startswith("-"):
            # by the word alone: the dashes, which all have, would make words near that are not
            known = {**self.meant_options, **{name: text for name, (text, _) in options.items()}}
            # `--output` is far from `--out` by its letters
            longer = [name for name in options if len(name) > 2 and word.startswith(name)]
            begun = super()._get_option_tuples(strange) if word not in known and strange.startswith("--") else ()
            if len(begun) > 1:
                return f"; did you mean {self._or([self._form(action, text) for action, text, *_ in begun])}?"
            if begun:
                return f"; did you mean {begun[0][1]}?"
            near = did_you_mean(word, known, quoted=False, meant=known, least=_NEAR)
            return near or (f"; did you mean --{max(longer, key=len)}?" if longer and word not in known else "")
        # a value, unless it is the very name of an option, or a file that is named for one, as dnn.model for --model
        text, action = options.get(strange.rpartition(".")[2], ("", None))
        if action is None or action.nargs == 0:
            return ""
        return f"; did you mean {text}?" if strange in options else f"; did you mean {text} {strange}?"

    def _get_option_tuples(self, option_string: str) -> list[Any]:  # what a beginning may stand for
        # nothing: `--n 4`, for `-n 4`, would be `--no-code`, and what is short enough today is that of two options tomorrow;
        # an unknown word is answered by `parse_args`. Without `allow_abbrev`, which would leave `_near` nothing to find
        return [] if option_string.startswith("--") else super()._get_option_tuples(option_string)

    def _form(self, action: argparse.Action, text: str) -> str:
        """Return an option as it is written, with a word for its value."""
        if action.nargs == 0:
            return text
        shown = self._get_formatter()._format_args(action, (action.metavar or action.dest.upper()))  # type: ignore[arg-type]
        return f"{text} {shown}"

    @staticmethod
    def _or(words: Sequence[str]) -> str:
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # argparse's own tells each version in other words
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            meant = {} if action.option_strings else self.meant
            near = did_you_mean(value, [*meant, *action.choices], quoted=False, meant=meant)
            raise argparse.ArgumentError(action, f"must be one of {known}, got {value!r}{near}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            # argparse's own tells the name of the type, as in "invalid int value"
            if action.type not in _EXPECTED:
                raise
            raise argparse.ArgumentError(action, f"must be {_EXPECTED[action.type]}, got {arg_string!r}") from None

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            # argparse's own, "expected one argument", does not tell which kind of value it is
            if not action.option_strings:
                raise
            form = self._form(action, action.option_strings[-1])
            came = len(arg_strings_pattern) - len(arg_strings_pattern.lstrip("A"))
            several = isinstance(action.nargs, int) and action.nargs > 1
            what = f"{action.nargs} values" if several else "a value"
            raise argparse.ArgumentError(action, f"needs {what}, as in '{form}', got {came or 'none'}") from None

    def error(self, message: str) -> NoReturn:
        """Complain by a `message`, and exit with status 2."""
        # what is missing is often there, behind an option that is none; words behind a script are its own
        if not any(action.nargs == argparse.REMAINDER for action in self._actions):
            known = self._option_string_actions
            strange = [word for word in self._words if word.startswith("--") and word.partition("=")[0] not in known]
            message += "".join(f"; {word} is no option{near}" for word in strange[:1] if (near := self._near(word)))
        self.complain(message)
        raise SystemExit(2)

    def complain(self, message: str) -> None:
        """Print usage and the error, a `message`; a subclass may print less."""
        super().error(message)


class _HelpAll(argparse.Action):
    """Option that shows the help of all options and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        # SUPPRESS: it is no option that `parse_args` returns
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **more)

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        sys.stdout.write(parser.format_whole_help() if isinstance(parser, OptionParser) else parser.format_help())
        parser.exit()


def program_name(command: str, script: str) -> str:
    """Return the name under which this program was called: as `psgd` or the `command` that an installation has, as a module,
    or as the `script`.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name in ("psgd", "parallel_sgd"):  # not pytest's, for one
        return f"python -m {called.parent.name}"
    return called.name if called.name in ("psgd", command) else script


def _called(prog: str) -> list[str]:
    """Return the words that call this program in the same folder again; its `program_name` may not say where it is."""
    name, *rest = prog.split()
    if name == "python":
        return [_interpreter(), *rest]
    # else it is called by another program, which is not the one to be named
    given = sys.argv[0] if os.path.basename(sys.argv[0]) == name else name
    # a script in a checkout is no program by itself
    return [_interpreter(), given, *rest] if name.endswith(".py") else [_shortest(given), *rest]


def _interpreter() -> str:
    return _shortest(sys.executable) if sys.executable else "python3"


def _shortest(path: str) -> str:
    """Return the name of a program alone where a shell finds the program of this path by it, else the path."""
    name = os.path.basename(path)
    return name if shutil.which(name) == path else path
