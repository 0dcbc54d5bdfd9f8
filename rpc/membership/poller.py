"""Looks for hosts in the background, so that one who hangs while he is asked stops nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..logs import get_logger
from .discovery import Discovery, DiscoveryError
from .rounds import DiscoveryFailed, HostsSeen

PERIOD_SECONDS = 1.0
CLOSE_SECONDS = 2.0  # for the last look to end

_log = get_logger(__name__)


class Poller:
    """Asks a discovery every `period` seconds, in a helper thread, from the construction until `close`.

    Each answer goes to `deliver` as a HostsSeen or DiscoveryFailed, in that thread; `deliver` must be quick and thread-safe, as
    `queue.SimpleQueue.put` is.
    """

    def __init__(
        self, discovery: Discovery, deliver: Callable[[HostsSeen | DiscoveryFailed], None], period: float = PERIOD_SECONDS
    ) -> None:
        self._discovery = discovery
        self._deliver = deliver
        self._period = period
        self._closed = threading.Event()
        # a function of the user that hangs cannot be ended; it must not keep the process from ending
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and a script that it waits for. Nothing is delivered any more, unless that is going on already."""
        self._closed.set()
        self._discovery.close()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.warning("Discovery has not answered within %g s; it is left alone.", CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closed.is_set():
            began = time.monotonic()
            answer = self._look()
            if not self._closed.is_set():
                self._deliver(answer)
            self._closed.wait(max(0.0, began + self._period - time.monotonic()))

    def _look(self) -> HostsSeen | DiscoveryFailed:
        try:
            return HostsSeen(tuple(self._discovery.find()))
        except DiscoveryError as error:
            return DiscoveryFailed(str(error))
        except Exception as error:  # noqa: BLE001  somebody wrote it, and a thread that ends looks no more
            return DiscoveryFailed(f"{type(self._discovery).__qualname__} failed: {type(error).__name__}: {error}")
