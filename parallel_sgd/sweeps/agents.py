"""Agents of a sweep, which its runs share: which are free, busy elsewhere, or away."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from network.errors import NetworkError
from network.nodes import Address, NodeAssignment
from network.request import Request
from rpc.liveness.limits import RETURN_SECONDS

__all__ = ["AWAY_SECONDS", "REST_SECONDS", "SharedAgents", "unreached"]

REST_SECONDS: Final = 2.0
AWAY_SECONDS: Final = 15.0
"""Until agents that were busy, or could not be reached, are asked again."""


class SharedAgents:
    """Agents that are shared out among the runs of a sweep.

    Those that are busy with a job of another submitter, or cannot be reached, are asked again after a while. One that has
    served a run may be away as long as a job would wait for its return; one that has not is missing at once.

    Args:
        agents: their addresses.
    """

    def __init__(self, agents: Sequence[Address]) -> None:
        self._free = list(agents)
        self._resting: dict[Address, float] = {}
        self._away: dict[Address, tuple[float, str]] = {}  # since when, and why
        self._served: set[Address] = set()

    @property
    def wakes(self) -> float:
        """Moment at which the next one is asked again; infinity where none rests."""
        return min(self._resting.values(), default=math.inf)

    def wake(self, now: float) -> None:
        """Make those free that have rested.

        Args:
            now: the moment, in seconds of the monotonic clock, as below.
        """
        self._free += [agent for agent, until in self._resting.items() if until <= now]
        self._resting = {agent: until for agent, until in self._resting.items() if until > now}

    def take(self, count: int) -> tuple[Address, ...] | None:
        """Take free agents, and return them; None where there are fewer.

        Args:
            count: how many.
        """
        if count > len(self._free):
            return None
        # one that was away may be so still, and holds up those that it is taken with
        self._free.sort(key=lambda agent: agent in self._away)
        taken = tuple(self._free[:count])
        del self._free[:count]
        return taken

    def give_back(self, agents: Sequence[Address], *, served: bool = True) -> None:
        """Take back agents from a run that has ended.

        Args:
            agents: all that it was given.
            served: whether it was done, so that all of them were there.
        """
        self._free += agents
        if not served:
            return
        self._served.update(agents)
        for agent in agents:
            self._away.pop(agent, None)

    def rest(self, agents: Sequence[Address], now: float) -> None:
        """Take back agents of which one is busy.

        Args:
            agents: all that the run was given.
            now: the moment.
        """
        self._resting |= dict.fromkeys(agents, now + REST_SECONDS)

    def miss(self, agents: Sequence[Address], reasons: Mapping[Address, str], now: float) -> list[str]:
        """Take back agents of which some cannot be reached; return the reasons that are new.

        Args:
            agents: all that the run was given.
            reasons: why, for each of those.
            now: the moment.
        """
        self._free += [agent for agent in agents if agent not in reasons]
        self._resting |= dict.fromkeys(reasons, now + AWAY_SECONDS)
        new = [reason for agent, reason in reasons.items() if agent not in self._away]
        self._away |= {agent: (self._away.get(agent, (now,))[0], reason) for agent, reason in reasons.items()}
        return new

    def lacking(self, count: int, now: float) -> str:
        """Return why there are not so many agents, and will not be; "" where they are there, or may come.

        Args:
            count: how many.
            now: the moment.
        """
        gone = {
            agent: reason
            for agent, (since, reason) in self._away.items()
            if now - since >= (RETURN_SECONDS if agent in self._served else 0.0)
        }
        there = {*self._free, *self._resting} - gone.keys()
        return " ".join(gone.values()) if count > len(there) else ""


def unreached(nodes: NodeAssignment) -> dict[Address, str]:
    """Return why agents cannot be reached, by address; empty where all can be.

    Args:
        nodes: the agents.
    """
    try:
        com, errors = Request(nodes.key_file).reach(nodes)
    except NetworkError:  # of the whole assignment, and of no agent
        return {}
    com.close()
    return {nodes[node]: str(error) for node, error in errors.items()}
