"""The peers of which the failure detector has a doubt: in a moment it will say that they are stuck, or take it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

SLACK_SECONDS: Final = 2.0
"""What a verdict may need beyond its limit: the stack of the process is taken, the process ended, and the loss of it seen."""


class Suspects:
    """Told by one thread, asked by another. A doubt that nobody confirms or takes back ends by itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[int, float] = {}

    def note(self, node: int, seconds: float) -> None:
        """Within `seconds` it will be known what is the matter with `node`; 0: it is well again."""
        with self._lock:
            self._until.pop(node, None)
            if seconds > 0:
                self._until[node] = self._clock() + seconds + SLACK_SECONDS

    def __call__(self) -> list[int]:
        """Those of which a doubt stands, ascending."""
        now = self._clock()
        with self._lock:
            return sorted(node for node, until in self._until.items() if now < until)
