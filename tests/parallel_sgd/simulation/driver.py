"""Driver of schedules that have sizes only: each arrival may let further messages leave at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from parallel_sgd.simulation.network import Arrival, Network, network_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import platform_of

Message = tuple[int, int, float, object]
"""Message of a schedule: id of its source, of its target, bytes, and the item that arrives."""
Reaction = Callable[[int, int, object], Iterable[Message]]
"""Function of an arrival (source, target, item) that returns the messages that leave then."""


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


def run(
    platform: Platform | str, nodes: Sequence[int], begin: Iterable[Message], reaction: Reaction = nothing_more
) -> list[Arrival]:
    """Drive a schedule through a new network of `platform`."""
    return drive(network_of(platform_of(platform), nodes), begin, reaction)


def ends(platform: Platform | str, nodes: Sequence[int], messages: Sequence[tuple[int, int, float]]) -> list[float]:
    """Let all messages leave at time 0; return when each arrives, in the order of `messages`."""
    arrivals = run(platform, nodes, [(*message, number) for number, message in enumerate(messages)])
    found = {number: moment for moment, _, _, number in arrivals}
    return [found[number] for number in range(len(messages))]
