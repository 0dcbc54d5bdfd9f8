"""Jobs on many nodes: submission, agents, retrieval. Knows no learning."""

import sys
from typing import TYPE_CHECKING

from network.names import lazily

if sys.platform == "win32":
    raise ImportError("Parallel-SGD runs on Linux and macOS; on Windows use the Windows Subsystem for Linux.")

if TYPE_CHECKING:
    from .cohort import Cohort
    from .communication import Communication
    from .coordinator import Coordinator
    from .errors import JobAborted, SubmissionError
    from .executable import AbsExecutable, AbsSimpleExecutor, ReplyPackage
    from .reclaimer import Reclaimer

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
        "Cohort": "cohort",
        "Communication": "communication",
        "Coordinator": "coordinator",
        "JobAborted": "errors",
        "Reclaimer": "reclaimer",
        "ReplyPackage": "executable",
        "SubmissionError": "errors",
    },
)
