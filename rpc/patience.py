"""Trying again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .logs import SUBMIT_LOGGER, get_logger

_log = get_logger(SUBMIT_LOGGER)
Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


class Patience:
    """Repeats a call that fails with one of `kinds`, but none of `never`, until `seconds` have passed."""

    def __init__(self, seconds: float, *kinds: type[Exception], never: tuple[type[Exception], ...] = ()) -> None:
        self._seconds, self._kinds, self._never = seconds, kinds, never

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of `function`; raises what it raised last."""
        deadline = time.monotonic() + self._seconds
        said = ""
        while True:
            try:
                return function()
            except self._never:
                raise
            except self._kinds as error:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                if str(error) != said:
                    said = str(error)
                    _log.info("%s Trying again for up to %.0f s.", said, left)
                time.sleep(min(PAUSE_SECONDS, left))
