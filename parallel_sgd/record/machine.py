"""Machine of a run: how many of its workers share how many cores, as far as the program that looks at its nodes can tell.

The report, the live page and `psgd page` judge by it, so that none of them blames a link for the turns of workers on cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CORES_HERE", "MACHINE", "SIMULATED", "WORKERS_HERE", "WORKERS_IN_TURN", "crowd_in"]
MACHINE: Final = "machine"
"""Fact of a run that has begun: its machine, for pages that are made before its outcome is known."""
CORES_HERE: Final = "cores"
WORKERS_HERE: Final = "workers on these cores"
WORKERS_IN_TURN: Final = "workers in one process"
"""Under these names the environment of a run tells how many workers ran on how many cores of the submitter's machine."""
SIMULATED: Final = "simulated on"
_MOST_DIGITS: Final = 18


def crowd_in(environment: Mapping[str, object]) -> tuple[int, int] | None:
    """Return how many workers shared how many cores of one machine; None where each could have one, or where it is unknown.

    Args:
        environment: what `parallel_sgd.nodes.machine_of` has told, perhaps in a file of a stranger.
    """
    told = environment
    # one process: its workers have one core between them
    if WORKERS_IN_TURN in told:
        told = {WORKERS_HERE: told[WORKERS_IN_TURN], CORES_HERE: "1"}
    workers, cores = (str(told.get(name, "")) for name in (WORKERS_HERE, CORES_HERE))
    # texts of a file that may be a stranger's: short numbers only
    if not (workers.isdecimal() and cores.isdecimal() and len(workers) + len(cores) < _MOST_DIGITS):
        return None
    return (int(workers), int(cores)) if int(workers) > int(cores) else None
