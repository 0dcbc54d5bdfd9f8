"""Messages that have sizes only, through a new network of a platform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.simulation.schedules import Message, Reaction, drive, nothing_more, number
from parallel_sgd.simulation.network import Arrival, network_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import platform_of


def run(
    platform: Platform | str, nodes: Sequence[int], begin: Iterable[Message], reaction: Reaction = nothing_more
) -> list[Arrival]:
    """Drive a schedule through a new network of `platform`."""
    return drive(network_of(platform_of(platform), nodes), begin, reaction)


def ends(platform: Platform | str, nodes: Sequence[int], messages: Sequence[tuple[int, int, float]]) -> list[float]:
    """Let all messages leave at time 0; return when each arrives, in the order of `messages`."""
    found = {number(item): moment for moment, _, _, item in run(platform, nodes, _numbered(messages))}
    return [found[position] for position in range(len(messages))]


def _numbered(messages: Sequence[tuple[int, int, float]]) -> Iterable[Message]:
    return ((*message, position) for position, message in enumerate(messages))
