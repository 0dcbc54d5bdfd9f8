"""Jobs on many nodes: submission, agents, retrieval. Knows no learning."""

import sys
from typing import TYPE_CHECKING

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
    from .errors import Deposed, JobAborted, NodeBusy, SubmissionError
    from .executable import AbsExecutable, AbsSimpleExecutor, ReplyPackage
    from .identity import is_job_id as is_job_id
    from .identity import new_job_id as new_job_id
    from .liveness.cluster_monitor import LIVENESS_MESSAGES as LIVENESS_MESSAGES
    from .liveness.cluster_monitor import ClusterMonitor as ClusterMonitor
    from .liveness.limits import DEPOSED_SECONDS as DEPOSED_SECONDS
    from .liveness.limits import GROUP_SLACK_SECONDS as GROUP_SLACK_SECONDS
    from .liveness.limits import HERE_SECONDS as HERE_SECONDS
    from .liveness.limits import LEAST_SILENCE as LEAST_SILENCE
    from .liveness.limits import LONGEST_PAUSE_SECONDS as LONGEST_PAUSE_SECONDS
    from .liveness.limits import MOST_SECONDS as MOST_SECONDS
    from .liveness.limits import PAUSE_SECONDS as PAUSE_SECONDS
    from .liveness.limits import PLACE_SECONDS as PLACE_SECONDS
    from .liveness.limits import RETURN_SECONDS as RETURN_SECONDS
    from .liveness.limits import START_SECONDS as START_SECONDS
    from .liveness.limits import VERDICT_SECONDS as VERDICT_SECONDS
    from .liveness.limits import WAIT_SECONDS as WAIT_SECONDS
    from .machine import Machine as Machine
    from .option_parser import OptionParser as OptionParser
    from .submit.attach import Reclaimer
    from .submit.coordinator import Coordinator

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
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "AbsExecutable": "executable",
        "AbsSimpleExecutor": "executable",
        "Cohort": "agent.agent",
        "Communication": "communication",
        "Coordinator": "submit.coordinator",
        "Deposed": "errors",
        "JobAborted": "errors",
        "NodeBusy": "errors",
        "Reclaimer": "submit.attach",
        "ReplyPackage": "executable",
        "SubmissionError": "errors",
    },
    {  # for the packages that build on this one
        "DEPOSED_SECONDS": "liveness.limits",
        "GROUP_SLACK_SECONDS": "liveness.limits",
        "HERE_SECONDS": "liveness.limits",
        "LEAST_SILENCE": "liveness.limits",
        "LONGEST_PAUSE_SECONDS": "liveness.limits",
        "MOST_SECONDS": "liveness.limits",
        "PAUSE_SECONDS": "liveness.limits",
        "PLACE_SECONDS": "liveness.limits",
        "RETURN_SECONDS": "liveness.limits",
        "START_SECONDS": "liveness.limits",
        "VERDICT_SECONDS": "liveness.limits",
        "WAIT_SECONDS": "liveness.limits",
        "LIVENESS_MESSAGES": "liveness.cluster_monitor",
        "OWN_PACKAGES": "code_closure",
        "ClusterMonitor": "liveness.cluster_monitor",
        "Machine": "machine",
        "OptionParser": "option_parser",
        "await_submitter": "dialing",
        "check_op": "collective.allreduce",
        "check_root": "communication",
        "combined": "collective.allreduce",
        "is_job_id": "identity",
        "is_user_module": "code_closure",
        "new_job_id": "identity",
        "watch_for_silence": "dialing",
    },
)
