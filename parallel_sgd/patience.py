"""Trying again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


class Patience:
    """Repeats a call that fails with `kind` until `seconds` have passed.

    Raises: ValueError when `seconds` is negative.
    """

    def __init__(self, seconds: float, kind: type[Exception]) -> None:
        if isinstance(seconds, bool) or not seconds >= 0:
            raise ValueError(f"'wait' must be 0 or more seconds, got {seconds!r}")
        self._seconds = seconds
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
