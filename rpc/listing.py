"""Asking agents which jobs they run or remember."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, TimedOut

from .messages import FROM_AGENT, Jobs, ListJobs, parse

ANSWER_SECONDS = 5.0
Entry = Mapping[str, Any]


def list_jobs(com: Controller) -> dict[int, list[Entry]]:
    """The jobs of every agent that answers within five seconds, newest last; see `messages.Jobs`."""
    clock = SystemClock()
    deadline = clock.monotonic() + ANSWER_SECONDS
    found: dict[int, list[Entry]] = {}
    for node in com.available_clients:
        with contextlib.suppress(NetworkError):  # gone meanwhile
            com.post(node, ListJobs().to_value())
    while set(com.available_clients) - found.keys():
        try:
            received = com.get_one(timeout=max(0.0, deadline - clock.monotonic()))
        except PeerLost:
            continue
        except TimedOut:
            break
        if received is not None:
            said = parse(received[1], FROM_AGENT)
            if isinstance(said, Jobs):
                found[received[0]] = list(said.entries)
    return found


def jobs_known(com: Controller, jobs: Sequence[str]) -> list[int]:
    """The nodes whose agents know one of `jobs`."""
    return [node for node, entries in list_jobs(com).items() if any(entry.get("job") in jobs for entry in entries)]
