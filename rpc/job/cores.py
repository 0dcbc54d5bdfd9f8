"""How the processes of a job wait for each other: where each has a core to itself, looking costs nobody anything."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from network.controller import Controller
from network.transport import looking

from ..host import host_name

LOOKING_SECONDS = 0.0002  # before a wait sleeps


def look_if_cores_suffice(controller: Controller, places: Iterable[Sequence[str]]) -> None:
    """Have `controller` look before it sleeps, if this host has a core for each process; see `network.transport.looking`.

    `places` are [address, host, path] of all processes that work together, this one included.
    """
    here = sum(host == host_name() for _, host, _ in places)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if here <= cores:
        controller.use_wait(looking(LOOKING_SECONDS))
