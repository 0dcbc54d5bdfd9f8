"""Hosts that offer slots: read from text, ordered, compared, and dealt to workers."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from network.nodes import Address

from ..registration import MAX_SLOTS

__all__ = ["MAX_SLOTS", "Host", "HostUpdateResult", "Place", "classify", "deal", "order_hosts", "parse_host", "parse_hosts"]


class Host(NamedTuple):
    """The agent of a host, and how many workers it may run at once."""

    address: Address
    slots: int = 1


Place: TypeAlias = tuple[Address, int]
"""One slot: the host, and which of its slots, from 0."""


class HostUpdateResult(enum.IntFlag):
    """What became of the slots between two looks; results of several looks are joined by `|`."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


def parse_hosts(text: str) -> list[Host]:
    """Read lines of `host[:port] [slots=n]`, 1 slot if none are given; blank text means that there are no hosts yet.

    A host that stands there twice is one host; one with 0 slots is none.
    Raises: ValueError naming the line, what is expected and what it holds.
    """
    slots: dict[Address, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            host = parse_host(line)
        except ValueError as error:
            raise ValueError(f"Line {number} of the hosts: {error}") from error
        if slots.setdefault(host.address, host.slots) != host.slots:
            raise ValueError(
                f"Line {number} of the hosts: {host.address} has {host.slots} slot(s) here and {slots[host.address]} above."
            )
    return [Host(address, count) for address, count in slots.items() if count]


def parse_host(line: str) -> Host:
    """Read one line of `host[:port] [slots=n]`.

    Raises: ValueError with what is expected and what came.
    """
    parts = line.split()
    name, count = (parts[1].partition("=")[::2]) if len(parts) == 2 else ("slots", "1")
    if len(parts) not in (1, 2) or name != "slots":
        raise ValueError(f"A host is written 'host[:port] [slots=n]', got {line.strip()!r}.")
    if not (count.isascii() and count.isdigit()) or len(count) > 5 or int(count) > MAX_SLOTS:
        raise ValueError(f"'slots' must be an integer from 0 to {MAX_SLOTS}, got {count!r} in {line.strip()!r}.")
    return Host(Address.parse(parts[0]), int(count))


def classify(before: Mapping[Address, int], after: Mapping[Address, int]) -> HostUpdateResult:
    """What became of the slots of all hosts: a host or slots more is `added`, fewer is `removed`, both is `mixed`."""
    result = HostUpdateResult.no_update
    for address in before.keys() | after.keys():
        change = after.get(address, 0) - before.get(address, 0)
        if change:
            result |= HostUpdateResult.added if change > 0 else HostUpdateResult.removed
    return result


def order_hosts(previous: Iterable[Address], available: Iterable[Address]) -> list[Address]:
    """The available hosts by age: those of `previous` in the order they had, then newcomers in the order they came.

    >>> a, b, c, d = (Address(name, 1) for name in "abcd")
    >>> [host.host for host in order_hosts([a, b, c], [d, c, b])]
    ['b', 'c', 'd']
    """
    there = dict.fromkeys(available)
    survivors = dict.fromkeys(address for address in previous if address in there)
    return [*survivors, *(address for address in there if address not in survivors)]


def slots_of(host: Host) -> list[Place]:
    """All slots of a host."""
    return [(host.address, index) for index in range(host.slots)]


def deal(
    hosts: Sequence[Host], maximum: int | None = None, keep: Collection[Place] = (), out: Collection[Place] = ()
) -> list[Place]:
    """The slots that get a worker, at most `maximum` of them, host by host in the given order, so that slot i gets rank i.

    Slots in `keep` come before others, as long as their host has them: a worker that lives is not sent away for a new one.
    Those in `out` get none.
    """
    places = [place for host in hosts for place in slots_of(host) if place not in out]
    chosen = sorted(range(len(places)), key=lambda rank: places[rank] not in keep)[:maximum]
    return [places[rank] for rank in sorted(chosen)]
