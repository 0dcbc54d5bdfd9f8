"""Order of the packets that arrive at each node between its turns: kept while a job runs, and followed by a later one.

The bits of an asynchronous job depend on which packets a worker or server has got before each of its turns. A job that follows
the order of another one has its bits, however long its nodes compute. The method is that of record and replay for message
passing (Netzer and Miller, "Optimal tracing and replay for debugging message-passing parallel programs", 1992); here all
receptions are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..engine.channel import Key
from .parcel import Parcel

Packets = list[tuple[int, Parcel]]
Turns = Sequence[Sequence[tuple[int, Key]]]


@dataclass(frozen=True)
class Arrivals:
    """Order of arrival of the packets of a job.

    Args:
        turns: by node, for each of its turns the packets that came before it, as (sender, key), in their order.
    """

    turns: Mapping[int, Turns] = field(repr=False)

    def check(self, nodes: Sequence[int]) -> None:
        """Check that the order is that of a job of these nodes.

        Args:
            nodes: ids of the nodes.

        Raises: ValueError where it is not.
        """
        if sorted(self.turns) != sorted(nodes):
            raise ValueError(f"'arrivals' must be those of a job of the nodes {sorted(nodes)}, got {sorted(self.turns)}")


class Order(Protocol):
    """Order of arrival, as the kernel asks for it.

    Attributes:
        excuse: sentence behind the message that no node can go on.
    """

    excuse: str = ""

    def take(self, node: int, inbox: Packets) -> Packets | None:
        """Take the packets from the inbox of a node that it gets now; None where it has to wait for others first.

        Args:
            node: the node.
            inbox: packets that have arrived.
        """

    def resumed(self, node: int) -> None:
        """Note that a node goes on with the packets that it has got."""


class Recorder(Order):
    """Order that keeps all arrivals as they are.

    Args:
        nodes: ids of the nodes.
    """

    def __init__(self, nodes: Sequence[int]) -> None:
        self._turns: dict[int, list[Sequence[tuple[int, Key]]]] = {node: [] for node in nodes}
        self._got: dict[int, list[tuple[int, Key]]] = {node: [] for node in nodes}

    def take(self, node: int, inbox: Packets) -> Packets:
        packets = inbox[:]
        inbox.clear()
        self._got[node] += [(sender, parcel.key) for sender, parcel in packets]
        return packets

    def resumed(self, node: int) -> None:
        self._turns[node].append(tuple(self._got[node]))
        self._got[node] = []

    @property
    def arrivals(self) -> Arrivals:
        """The order so far."""
        return Arrivals({node: tuple(turns) for node, turns in self._turns.items()})


class Replayer(Order):
    """Order that holds packets back until their turn.

    Args:
        arrivals: the order that is followed; behind its end packets are taken as they come.
    """

    excuse = " 'arrivals' must be those of the same job, with the same codec, samples and epochs."

    def __init__(self, arrivals: Arrivals) -> None:
        self._turns = arrivals.turns
        self._place = dict.fromkeys(arrivals.turns, 0)
        self._taken = dict.fromkeys(arrivals.turns, False)

    def take(self, node: int, inbox: Packets) -> Packets | None:
        turns, place = self._turns[node], self._place[node]
        # it has all of this turn; what comes meanwhile belongs to later ones
        if self._taken[node]:
            return []
        if place >= len(turns):
            packets = inbox[:]
            inbox.clear()
            return packets
        left: Packets = inbox[:]  # a copy: while one of the packets lacks, all stay where they are
        found: Packets = []
        for wanted in turns[place]:
            for position, (sender, parcel) in enumerate(left):
                if (sender, parcel.key) == wanted:
                    found.append(left.pop(position))
                    break
            else:
                return None
        inbox[:] = left
        self._taken[node] = True
        return found

    def resumed(self, node: int) -> None:
        self._place[node] += 1
        self._taken[node] = False
