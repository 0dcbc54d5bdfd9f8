"""How what threads bring reaches the driver of an elastic job."""

from __future__ import annotations

import contextlib
import threading

from network.transport import wait_sockets
from parallel_sgd.elastic_membership import Inbox

LIMIT = 10.0


def test_what_threads_bring_is_taken_in_its_order() -> None:
    """Its socket is readable when there is something, and nothing comes twice."""
    with contextlib.closing(Inbox()) as inbox:
        assert inbox.take() == []
        thread = threading.Thread(target=lambda: [inbox.put(number) for number in range(100)])
        thread.start()
        found: list[int] = []
        while len(found) < 100:
            wait_sockets([inbox.sock], [], LIMIT)
            found += inbox.take()
        thread.join()
        assert found == list(range(100))
        assert inbox.take() == []
