"""What interrupts a training function whose workers come and go."""

from __future__ import annotations


class WorkersLostError(RuntimeError):
    """A peer failed during an exchange. `run` goes back to the last commit and on with those who are left."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers are to come or to go. `run` goes on with them, and nothing is lost.

    Attributes: `skip_sync`, whether workers only go, so that nobody needs the state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("Hosts have been " + ("removed." if skip_sync else "added, or added and removed."))
        self.skip_sync = skip_sync


class WorkerRemoved(RuntimeError):
    """This worker has no place in the next round: it ends, which is no failure. The message names it."""
