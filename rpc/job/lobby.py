"""Where peers wait that have called a job process for one of its rounds, until the process takes them in."""

from __future__ import annotations

import threading

from network.session import Session

MOST_WAITING = 1024  # a call beyond that is refused


class Lobby:
    """Sessions by the attempt and the node that they came with. Any thread may call everything.

    An attempt is open from the first call on, so that whoever hears of a round first may call at once; `begin` closes all that
    came before it: a node that was left behind does not get in any more.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], Session] = {}
        self._attempt = 0
        self._arrived = threading.Condition()

    def arrive(self, attempt: object, node: int | None, session: Session) -> bool:
        """Node `node` has proven its key. False, and the session is not ours, when it comes too late, or is none of a round."""
        if type(attempt) is not int or node is None or node < 0:
            return False
        with self._arrived:
            if attempt < self._attempt or len(self._waiting) >= MOST_WAITING:
                return False
            earlier = self._waiting.pop((attempt, node), None)
            if earlier is not None:  # it has called again because that call came to nothing
                earlier.close()
            self._waiting[attempt, node] = session
            self._arrived.notify_all()
            return True

    def begin(self, attempt: int) -> None:
        """This attempt begins here: who calls for an earlier one is refused from now on."""
        with self._arrived:
            self._attempt = attempt
            for key in [key for key in self._waiting if key[0] < attempt]:
                self._waiting.pop(key).close()

    def take(self, attempt: int) -> dict[int, Session]:
        """The sessions of all that have called for `attempt`; they belong to the caller."""
        with self._arrived:
            keys = [key for key in self._waiting if key[0] == attempt]
            return {key[1]: self._waiting.pop(key) for key in keys}

    def wait(self, seconds: float) -> None:
        """Return when somebody arrives, or after `seconds`."""
        with self._arrived:
            self._arrived.wait(seconds)

    def close(self) -> None:
        """Refuse everybody."""
        self.begin(1 << 62)
