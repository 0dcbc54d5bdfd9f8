"""Hosts that offer slots: read from text, ordered, compared, dealt to workers; and those that are left alone for a while."""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from network.nodes import Address

from ..agent.registration import MAX_SLOTS

__all__ = ["MAX_SLOTS", "Host", "HostUpdateResult", "Place", "classify", "deal", "order_hosts", "parse_host", "parse_hosts"]


class Host(NamedTuple):
    """Agent of a host.

    Args:
        address: its address.
        slots: number of workers that it may run at once.
    """

    address: Address
    slots: int = 1


Place: TypeAlias = tuple[Address, int]
"""One slot: the host, and which of its slots, from 0."""


class HostUpdateResult(enum.IntFlag):
    """Change of the slots between two looks; results of several looks are joined by `|`."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


def parse_hosts(text: str) -> list[Host]:
    """Read lines of `host[:port] [slots=n]`, 1 slot if none are given; blank `text` means that there are no hosts yet.

    A host that stands there twice is one host; one with 0 slots is none.

    Raises: ValueError naming the line, the expectation and its content.
    """
    slots: dict[Address, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            host = parse_host(line)
        except ValueError as error:
            raise ValueError(f"Line {number} of the hosts: {error}") from error
        # the same line twice is a slip; two numbers for one host are a contradiction
        if slots.setdefault(host.address, host.slots) != host.slots:
            raise ValueError(
                f"Line {number} of the hosts: {host.address} has slots={host.slots} here and slots={slots[host.address]} above."
            )
    return [Host(address, count) for address, count in slots.items() if count]


def parse_host(line: str) -> Host:
    """Read one `line` of `host[:port] [slots=n]`.

    Raises: ValueError with the expectation and the text that came.
    """
    parts = line.split()
    name, count = (parts[1].partition("=")[::2]) if len(parts) == 2 else ("slots", "1")
    if len(parts) not in (1, 2) or name != "slots":
        raise ValueError(f"A host is written 'host[:port] [slots=n]', got {line.strip()!r}.")
    # digits of other scripts and superscripts are digits to `isdigit`, too; `int` has a sentence of its own for very long ones
    if not (count.isascii() and count.isdigit()) or len(count) > 5 or int(count) > MAX_SLOTS:
        raise ValueError(f"'slots' must be an integer from 0 to {MAX_SLOTS}, got {count!r} in {line.strip()!r}.")
    return Host(Address.parse(parts[0]), int(count))


def classify(before: Mapping[Address, int], after: Mapping[Address, int]) -> HostUpdateResult:
    """Compare the slots of all hosts: a host or slots more is `added`, fewer is `removed`, both is `mixed`.

    Args:
        before: the slots by host, as they were.
        after: as they are.
    """
    result = HostUpdateResult.no_update
    for address in before.keys() | after.keys():
        change = after.get(address, 0) - before.get(address, 0)
        if change:
            result |= HostUpdateResult.added if change > 0 else HostUpdateResult.removed
    return result


def order_hosts(previous: Iterable[Address], available: Iterable[Address]) -> list[Address]:
    """Order hosts by age: those of before in the order they had, then newcomers in the order they came.

    Args:
        previous: the hosts of before.
        available: those of now; only these are returned.

    >>> a, b, c, d = (Address(name, 1) for name in "abcd")
    >>> [host.host for host in order_hosts([a, b, c], [d, c, b])]
    ['b', 'c', 'd']
    """
    # dicts, not sets: they keep the order
    there = dict.fromkeys(available)
    survivors = dict.fromkeys(address for address in previous if address in there)
    return [*survivors, *(address for address in there if address not in survivors)]


def slots_of(host: Host) -> list[Place]:
    return [(host.address, index) for index in range(host.slots)]


def deal(
    hosts: Sequence[Host], maximum: int | None = None, keep: Collection[Place] = (), out: Collection[Place] = ()
) -> list[Place]:
    """Deal slots to workers, host by host in the given order, so that slot i gets rank i.

    Args:
        hosts: the hosts, by age.
        maximum: most slots that get a worker; None: all.
        keep: slots that come before others, as long as their host has them: a worker that lives is not sent away for a new one.
        out: slots that get none.
    """
    places = [place for host in hosts for place in slots_of(host) if place not in out]
    # a stable sort: kept slots first, otherwise in the order of hosts
    chosen = sorted(range(len(places)), key=lambda rank: places[rank] not in keep)[:maximum]
    # and back in that order, so that ranks follow the hosts
    return [places[rank] for rank in sorted(chosen)]


@dataclass(frozen=True)
class CoolDown:
    """Range of seconds for which a failing slot or host is left alone, twice as long each time.

    Args:
        low: the first time.
        high: the longest time.

    Raises: ValueError unless 0 < low <= high, both finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise ValueError(f"CoolDown needs 0 < low <= high, both finite, got {self.low} and {self.high}.")

    def seconds(self, failures: int) -> float:
        """Return the seconds after that many failures, from 1: low, 2 low, 4 low ... capped at high."""
        # 2**64 times any low that matters is more than any high; without a limit the power would become too large a number
        return min(self.high, self.low * 2.0 ** min(failures - 1, 64))


Where: TypeAlias = Address | Place
"""A host as a whole, or one of its slots."""
ASK_AGAIN = CoolDown(0.5, 8.0)  # between attempts at a host that took no worker


@dataclass
class _Ban:
    """Ban of a place, to which no worker is sent. `ask`: when to try again where no worker was taken; None where one had
    run.
    """

    failures: int = 0
    until: float = -math.inf
    ask: float | None = None


class Blacklist:
    """Slots and hosts that failed. Without a cool-down range they are not used again, unless `lift` gives them back; else each
    period is longer by a jitter of up to `low`.

    The jitter keeps hosts that failed together from coming back together.

    Args:
        cool_down: the range, None for ever.
        seed: of the jitter.
    """

    def __init__(self, cool_down: CoolDown | None = None, seed: int = 0) -> None:
        self._cool_down = cool_down
        self._random = random.Random(seed)  # noqa: S311 - spreads load, keeps no secret
        self._bans: dict[Where, _Ban] = {}

    def add(self, where: Where, now: float, *, answers: bool = True) -> None:
        """Take note of a failure. Several failures during one period are one: they have one cause.

        Args:
            where: the slot or host.
            now: monotonic seconds.
            answers: whether the host can be reached and takes workers.
        """
        if self.holds(where, now):
            return
        ban = self._bans.setdefault(where, _Ban())
        ban.failures += 1
        ban.ask = None if answers else now + ASK_AGAIN.seconds(ban.failures)
        if self._cool_down is None:
            ban.until = math.inf
        else:
            ban.until = now + self._cool_down.seconds(ban.failures) + self._random.uniform(0, self._cool_down.low)

    def holds(self, where: Where, now: float) -> bool:
        """Tell if no worker may be sent to a place.

        Args:
            where: a host or a slot of one.
            now: the time, in seconds of the clock of all these calls.
        """
        ban = self._bans.get(where)
        return ban is not None and now < ban.until

    def next_release(self, now: float) -> float | None:
        """Return when the next one comes back by itself after `now`, or None."""
        return min((ban.until for ban in self._bans.values() if now < ban.until < math.inf), default=None)

    def lift(self, now: float, *, silent: bool = False) -> None:
        """Give back the places that are out for ever, where hosts answer.

        Args:
            now: the time, in seconds of the clock of all these calls.
            silent: whether places whose hosts did not answer are given back, too, after a while.
        """
        for ban in self._bans.values():
            # those with a cool-down come back by themselves
            if ban.until == math.inf and (ban.ask is None or (silent and ban.ask <= now)):
                # the ban stays, with its count: after the next failure the wait is longer
                ban.until = now

    def next_ask(self, now: float) -> float | None:
        """Return when, after `now`, `lift` with `silent` gives back the next one, or None."""
        asks = (ban.ask for ban in self._bans.values() if ban.until == math.inf and ban.ask is not None)
        return min((ask for ask in asks if ask > now), default=None)
