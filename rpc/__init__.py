"""Jobs on many nodes: submission, agents, retrieval. Knows no learning."""

import sys
from typing import TYPE_CHECKING

from network.names import lazily

if sys.platform == "win32":
    raise ImportError("Parallel-SGD runs on Linux and macOS; on Windows use the Windows Subsystem for Linux.")

if TYPE_CHECKING:
    from .agent.agent import Cohort
    from .communication import Communication
    from .errors import JobAborted, SubmissionError
    from .executable import AbsExecutable, AbsSimpleExecutor, ReplyPackage
    from .submit.attach import Reclaimer
    from .submit.coordinator import Coordinator

__all__ = [
    "AbsExecutable",
    "AbsSimpleExecutor",
    "Cohort",
    "Communication",
    "Coordinator",
    "JobAborted",
    "Reclaimer",
    "ReplyPackage",
    "SubmissionError",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "AbsExecutable": "executable",
        "AbsSimpleExecutor": "executable",
        "Cohort": "agent.agent",
        "Communication": "communication",
        "Coordinator": "submit.coordinator",
        "JobAborted": "errors",
        "Reclaimer": "submit.attach",
        "ReplyPackage": "executable",
        "SubmissionError": "errors",
    },
)
