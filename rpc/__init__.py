"""Jobs on many nodes: submission, agents, retrieval. This package knows no learning."""

import sys
from typing import TYPE_CHECKING

import _psgd_packages

# before anything of ours is imported: it tells of packages that do not belong together
_psgd_packages.check(__name__)

from network.names import lazily

if sys.platform == "win32":
    raise ImportError("Parallel-SGD runs on Linux and macOS; on Windows use the Windows Subsystem for Linux.")

if TYPE_CHECKING:
    from .agent.agent import Cohort
    from .code_closure import OWN_PACKAGES as OWN_PACKAGES
    from .code_closure import is_user_module as is_user_module
    from .collective.allreduce import check_op as check_op
    from .collective.allreduce import combined as combined
    from .communication import Communication
    from .communication import check_root as check_root
    from .dialing import await_submitter as await_submitter
    from .dialing import watch_for_silence as watch_for_silence
    from .errors import Deposed, JobAborted, NodeBusy, SubmissionError, UnknownJob
    from .executable import AbsExecutable, AbsSimpleExecutor, ReplyPackage
    from .liveness import limits as limits
    from .liveness.cluster_monitor import LIVENESS_MESSAGES as LIVENESS_MESSAGES
    from .liveness.cluster_monitor import ClusterMonitor as ClusterMonitor
    from .machine import Machine as Machine
    from .machine import Tick as Tick
    from .submit.attach import Reclaimer
    from .submit.coordinator import Coordinator
    from .support.identity import is_job_id as is_job_id
    from .support.identity import new_job_id as new_job_id
    from .support.option_parser import OptionParser as OptionParser
    from .support.option_parser import program_name as program_name

__all__ = [
    "AbsExecutable",
    "AbsSimpleExecutor",
    "Cohort",
    "Communication",
    "Coordinator",
    "Deposed",
    "JobAborted",
    "NodeBusy",
    "Reclaimer",
    "ReplyPackage",
    "SubmissionError",
    "UnknownJob",
]

lazily(
    __name__,
    {
        "agent.agent": "Cohort",
        "communication": "Communication",
        "errors": "Deposed JobAborted NodeBusy SubmissionError UnknownJob",
        "executable": "AbsExecutable AbsSimpleExecutor ReplyPackage",
        "submit.attach": "Reclaimer",
        "submit.coordinator": "Coordinator",
    },
    {  # for the packages that build on this one
        "code_closure": "OWN_PACKAGES is_user_module",
        "collective.allreduce": "check_op combined",
        "communication": "check_root",
        "dialing": "await_submitter watch_for_silence",
        "support.identity": "is_job_id new_job_id",
        "liveness": "limits",
        "liveness.cluster_monitor": "LIVENESS_MESSAGES ClusterMonitor",
        "machine": "Machine Tick",
        "support.option_parser": "OptionParser program_name",
    },
)
