"""What another benchmark prints, as a figure to compare.

The argument is `<module>:<function>:<argument>...|<text>`: the function is called, and the figure is the first number that it
prints after the text. `<module>` alone is run as a program.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import subprocess
import sys
from collections.abc import Callable


def prepare(argument: str) -> Callable[[], float]:
    logging.basicConfig(handlers=[logging.NullHandler()])  # so that submitters do not tell of their jobs
    call, _, text = argument.partition("|")
    module, *rest = call.split(":")

    def run() -> float:
        printed = called(module, *rest) if rest else program(*module.split())
        found = re.search(re.escape(text) + r"\s*(\d+\.?\d*(?:e-?\d+)?)", printed)
        if found is None:
            raise ValueError(f"no number after {text!r} in {printed!r}")
        return float(found[1])

    return run


def called(module: str, function: str, *arguments: str) -> str:
    """What a function prints; arguments of digits are numbers."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        getattr(importlib.import_module(module), function)(*(int(each) if each.isdigit() else each for each in arguments))
    return output.getvalue()


def program(module: str, *arguments: str) -> str:
    """What `python -m module arguments` prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
