"""Job processes whose agent is gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rpc.liveness.process_monitor import process_status

from ..statements import covers
from .executors import Stepping
from .harness import Cluster, start_job, wait_for


@covers("FLT-2", "INV-7")
def test_a_stopped_process_does_not_outlive_its_agent(own: Cluster, tmp_path: Path) -> None:
    """SIGSTOP to a job process, then SIGKILL to its agent: the system wakes the orphan, which ends itself."""
    (agent,) = own.start(1)
    with own.request() as com:
        start_job(com, Stepping, tmp_path)
        (pid,) = agent.job_pids()
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: process_status(pid).state == "T", "the process to stop")
        agent.end(signal.SIGKILL)
        wait_for(lambda: process_status(pid).state in ("", "Z"), "the orphan to end")
