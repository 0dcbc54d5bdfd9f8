"""What a worker's training process yields instead of blocking."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Wait(NamedTuple):
    """Resume me when `ready()` is true, or when the clock has reached `deadline`.

    The process looks which of the two it was. `ready` moves received messages into the codecs, so it runs in the worker's
    own context, never concurrently with anything else of that worker; what a codec raises leaves through it, and the driver
    then closes the process.
    """

    ready: Callable[[], bool]
    deadline: float | None
    what: Callable[[], str]
