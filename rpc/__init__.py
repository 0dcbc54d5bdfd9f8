"""Jobs on many nodes: submission, agents, retrieval. Knows no learning."""

import sys

if sys.platform == "win32":
    raise ImportError("Parallel-SGD runs on Linux and macOS; on Windows use the Windows Subsystem for Linux.")

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
