"""Which of the agents that are said to exist answer, and hold the cluster's key."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from network.clock import Clock, SystemClock
from network.dial import Target, dial_all
from network.errors import NetworkError
from network.keys import Key
from network.nodes import Address, is_loopback
from network.session import Session

from ..logs import clean, get_logger
from ..registration import Registration

CALL_SECONDS = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
Dial = Callable[[Mapping[int, Target], float], tuple[dict[int, Session], dict[int, NetworkError]]]

_log = get_logger(__name__)


class Living:
    """Calls whoever registers, once; whoever does not answer is called again after a while, which doubles up to 30 s.

    So what a killed agent left behind costs little, and one that starts slowly is found. Who has answered counts as living
    for as long as it is registered: that it dies later, the failure detector finds out.
    """

    def __init__(self, key: Key, clock: Clock | None = None, dial: Dial = dial_all) -> None:
        self._key, self._clock, self._dial = key, clock or SystemClock(), dial
        self._answered: set[Registration] = set()
        self._silent: dict[Registration, tuple[float, float, str]] = {}  # when to call again, the pause, why it is silent

    @property
    def silent(self) -> dict[str, str]:
        """Names of those that do not answer, and why."""
        return {one.name: reason for one, (_, _, reason) in self._silent.items()}

    def among(self, registered: Sequence[Registration]) -> list[Registration]:
        """Those of `registered` that live, in the same order."""
        known = set(registered)
        self._answered &= known
        self._silent = {one: state for one, state in self._silent.items() if one in known}
        now = self._clock.monotonic()
        to_call = [one for one in registered if one not in self._answered and self._silent.get(one, (now,))[0] <= now]
        self._call([one for one in to_call if not self._is_elsewhere(one, now)])
        return [one for one in registered if one in self._answered]

    def _is_elsewhere(self, one: Registration, now: float) -> bool:
        """Whether it listens for its own machine only, and that is another one."""
        address = Address.parse(one.address)
        if not is_loopback(address.host) or one.host == socket.gethostname():
            return False
        self._is_silent(one, now, f"it listens on {address} of {clean(one.host)} only; start it with --listen 0.0.0.0")
        return True

    def _call(self, registered: Sequence[Registration]) -> None:
        targets = {
            number: Target(Address.parse(one.address), self._key, "submitter", "agent") for number, one in enumerate(registered)
        }
        if not targets:
            return
        sessions, errors = self._dial(targets, CALL_SECONDS)
        for number, session in sessions.items():
            session.close()
            self._answered.add(registered[number])
            self._silent.pop(registered[number], None)
        now = self._clock.monotonic()
        for number, error in errors.items():
            self._is_silent(registered[number], now, str(error))

    def _is_silent(self, one: Registration, now: float, reason: str) -> None:
        if one not in self._silent:
            _log.info("The registration %s is left out: %s", one.name, clean(reason))
        _, pause, _ = self._silent.get(one, (0.0, _FIRST_PAUSE / 2, ""))
        pause = min(2 * pause, _LONGEST_PAUSE)
        self._silent[one] = (now + pause, pause, reason)
