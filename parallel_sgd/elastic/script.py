"""A script as the function of an elastic job: every worker runs it as its `__main__`."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence

__all__ = ["run_script"]


class _Source(importlib.abc.SourceLoader):
    """The text of a script, which need not lie where it runs; tracebacks show its lines."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: bytes | str) -> bytes:
        return self._text.encode()


def run_script(path: str, text: str, arguments: Sequence[str], folder: str) -> None:
    """Run a script as the main program.

    Modules beside the script can be imported where they lie there on this machine, too.

    Args:
        path: its path, for tracebacks and as `sys.argv[0]`.
        text: its text.
        arguments: those in `sys.argv`.
        folder: where it runs, if that folder exists.
    """
    # where the script expects its files, if they are there
    if os.path.isdir(folder):
        os.chdir(folder)
    spec = importlib.util.spec_from_loader("__main__", _Source(path, text))
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no script that can be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.argv = [path, *arguments]
    # first, as Python does for a script that is started
    sys.path.insert(0, os.path.dirname(path))
    # before it runs: pickles and tracebacks of the script look for `__main__`
    sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as ended:
        # exit code 0 is a good end
        if ended.code:
            raise
