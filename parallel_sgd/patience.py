"""Trying again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from nn import arguments

Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


class Patience:
    """Repeats a call that fails with `kind` until `seconds` have passed.

    Raises: TypeError or ValueError when `seconds` is no number of 0 or more.
    """

    def __init__(self, seconds: float, kind: type[Exception]) -> None:
        self._seconds = arguments.number("parallel()", "wait", seconds, 0)
        self._kind = kind

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of `function`; raises what it raised last."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return function()
            except self._kind:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                time.sleep(min(PAUSE_SECONDS, left))
