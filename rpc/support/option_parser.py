"""Parser of command lines that suggests a near word for a misspelt option or choice."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from network.names import did_you_mean

_CHOICE = re.compile(r"invalid choice: '?([^']*?)'? \(choose from (.*)\)$", re.DOTALL)


class OptionParser(argparse.ArgumentParser):
    """Parser of a command line (an `argparse.ArgumentParser`) that suggests near words."""

    def parse_args(  # type: ignore[override] # one signature instead of three
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Return the options; end the program where one is wrong."""
        found: argparse.Namespace
        found, strange = self.parse_known_args(args, namespace)
        if strange:
            known = [text for action in self._actions for text in action.option_strings]
            near = next((near for each in strange if (near := did_you_mean(each.partition("=")[0], known, quoted=False))), "")
            self.error(f"unrecognized arguments: {' '.join(strange)}{near}")
        return found

    def error(self, message: str) -> NoReturn:
        """Print usage, the error and a near word, exit with status 2."""
        choice = _CHOICE.search(message)
        near = "" if choice is None else did_you_mean(choice[1], re.findall(r"[^\s,']+", choice[2]), quoted=False)
        self.complain(message + near)
        raise SystemExit(2)

    def complain(self, message: str) -> None:
        """Print usage and the error, exit with status 2."""
        super().error(message)


def program_name(command: str, script: str) -> str:
    """Return the name under which this program was called: as `psgd` or the `command` that an installation has, as a module,
    or as the `script`.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name in ("psgd", "parallel_sgd"):  # not pytest's, for one
        return f"python -m {called.parent.name}"
    return called.name if called.name in ("psgd", command) else script
