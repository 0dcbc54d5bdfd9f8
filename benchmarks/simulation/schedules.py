"""Schedules of messages that have sizes only, and the driver that lets them through a network.

Collectives are for W workers with the ids 0 to W - 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from parallel_sgd.simulation.network import Arrival, Network

Message = tuple[int, int, float, object]
"""Message of a schedule: id of its source, of its target, bytes, and the item that arrives."""
Reaction = Callable[[int, int, object], Iterable[Message]]
"""Function of an arrival (source, target, item) that returns the messages that leave then."""


class Schedule(NamedTuple):
    """Messages that leave at time 0, and those that each arrival causes."""

    begin: list[Message]
    reaction: Reaction


def nothing_more(_source: int, _target: int, _item: object) -> Iterable[Message]:
    """Return no message."""
    return ()


def drive(network: Network, begin: Iterable[Message], reaction: Reaction = nothing_more) -> list[Arrival]:
    """Let the messages of `begin` leave at time 0 and then those that arrivals cause; return all arrivals."""
    for message in begin:
        network.send(0.0, *message)
    arrivals: list[Arrival] = []
    while (moment := network.next_moment()) is not None:
        for now, source, target, item in network.advance(moment):
            arrivals.append((now, source, target, item))
            for message in reaction(source, target, item):
                network.send(now, *message)
    return arrivals


def literal_ring(workers: int, size: float) -> Schedule:
    """Each worker passes a piece of the size / W to the next one, 2 (W - 1) times."""
    piece, last = size / workers, 2 * (workers - 1) - 1

    def pass_on(_source: int, target: int, item: object) -> Iterable[Message]:
        return [(target, (target + 1) % workers, piece, number(item) + 1)] if number(item) < last else []

    return Schedule([(worker, (worker + 1) % workers, piece, 0) for worker in range(workers)], pass_on)


def exchanges(workers: int, steps: Sequence[tuple[int, float]]) -> Schedule:
    """In each step of (distance, size) a worker exchanges with the one whose number differs by that bit; W is a power of 2."""
    at = [0] * workers
    come: set[tuple[int, int]] = set()

    def go_on(_source: int, target: int, item: object) -> Iterable[Message]:
        come.add((target, number(item)))
        while (target, at[target]) in come:
            at[target] += 1
            if at[target] < len(steps):
                distance, size = steps[at[target]]
                yield target, target ^ distance, size, at[target]

    return Schedule([(worker, worker ^ steps[0][0], steps[0][1], 0) for worker in range(workers)], go_on)


def recursive_doubling(workers: int, size: float) -> Schedule:
    """All of the size is exchanged at distances 1, 2, 4, .."""
    return exchanges(workers, [(1 << bit, size) for bit in range(workers.bit_length() - 1)])


def halving_doubling(workers: int, size: float) -> Schedule:
    """Halves, quarters, .. are reduced at distances W/2, W/4, .., and gathered the other way."""
    halves = [(workers >> bit, size / (1 << bit)) for bit in range(1, workers.bit_length())]
    return exchanges(workers, halves + halves[::-1])


def server_star(workers: int, size: float, server: int) -> Schedule:
    """All send to the server, which then sends to all."""
    come: Counter[str] = Counter()

    def answer(_source: int, target: int, _item: object) -> Iterable[Message]:
        come["up"] += target == server
        ready = target == server and come["up"] == workers
        return [(server, worker, size, None) for worker in range(workers)] if ready else []

    return Schedule([(worker, server, size, None) for worker in range(workers)], answer)


def shards_to_owners(workers: int, size: float, neighbour_first: bool) -> Schedule:
    """The codec `Ring`: each sends every shard to its owner, which sends the sum to all; first is its neighbour, or 0."""
    shard = size / workers
    come: Counter[int] = Counter()

    def others(worker: int) -> list[int]:
        first = worker + 1 if neighbour_first else 0
        return [other for other in ((first + each) % workers for each in range(workers)) if other != worker]

    def answer(_source: int, target: int, item: object) -> Iterable[Message]:
        come[target] += item == "shard"
        ready = item == "shard" and come[target] == workers - 1
        return [(target, other, shard, "sum") for other in others(target)] if ready else []

    return Schedule([(worker, other, shard, "shard") for worker in range(workers) for other in others(worker)], answer)


def chain(workers: int, size: float, pieces: int, waits: bool) -> Schedule:
    """A broadcast from worker 0 through all others; each may wait until a piece has arrived before it sends the next."""
    piece = size / pieces
    have, sent, free = [pieces] + [0] * (workers - 1), [0] * workers, [True] * workers

    def possible(worker: int) -> Iterable[Message]:
        while worker < workers - 1 and sent[worker] < have[worker] and (free[worker] or not waits):
            free[worker] = False
            sent[worker] += 1
            yield worker, worker + 1, piece, sent[worker]

    def go_on(source: int, target: int, _item: object) -> Iterable[Message]:
        have[target] += 1
        free[source] = True
        return [*possible(source), *possible(target)]

    return Schedule(list(possible(0)), go_on)


def number(item: object) -> int:
    """Return an item that is a number."""
    assert isinstance(item, int)
    return item
