"""What can go wrong with a job, beyond the network."""

from __future__ import annotations

from network.errors import NetworkError

__all__ = ["Deposed", "InvalidTransition", "JobAborted", "NodeBusy", "SettingsError", "SubmissionError", "UnknownJob"]

ROLLED_BACK = "Rolled back before the start"
"""How a job process says that it ends because it has lost another one."""


class SubmissionError(NetworkError):
    """The job was not started anywhere; the message names the node and the reason."""


class NodeBusy(SubmissionError):
    """The job was not started because a node works on another one; trying again later can help."""


class Deposed(NetworkError):
    """Somebody else drives the job now, because its agents had lost us; it goes on."""


class UnknownJob(NetworkError, ValueError):
    """None of the nodes that were reached knows the job, or any."""


class JobAborted(Exception):
    """Raised inside an executor, at its next send or receive, when the job has been stopped."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"This job has been aborted. {reason}".rstrip())


class SettingsError(ValueError):
    """A setting of an agent is wrong, or cannot be followed; the message names it, the expectation and what came."""


class InvalidTransition(RuntimeError):
    """A state machine got an event that its state does not allow: a mistake in this program; the last events are attached."""
