"""Errors of a job, beyond the network."""

from __future__ import annotations

from network.errors import NetworkError

__all__ = ["Deposed", "InvalidTransition", "JobAborted", "NodeBusy", "SettingsError", "SubmissionError", "UnknownJob"]

ROLLED_BACK = "Rolled back before the start"
"""Begin of the report of a job process that ends because it has lost another one."""


class SubmissionError(NetworkError):
    """Error: the job was not started anywhere; the message names the node and the reason."""


class NodeBusy(SubmissionError):
    """Error: the job was not started because a node works on another one; trying again later can help."""


class Deposed(NetworkError):
    """Error: another driver drives the job now, because its agents had lost us; it goes on."""


class UnknownJob(NetworkError, ValueError):
    """Error: none of the nodes that were reached knows the job, or any."""


class JobAborted(Exception):
    """Error inside an executor, at its next send or receive, when the job has been stopped for `reason`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"This job has been aborted. {reason}".rstrip())


class SettingsError(ValueError):
    """Error: a setting of an agent is wrong, or cannot be followed; the message names it, the expectation and its value."""


class InvalidTransition(RuntimeError):
    """Error: a state machine got an event that its state does not allow: a mistake in this program; the last events are
    attached.
    """
