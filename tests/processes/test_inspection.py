"""What a job can see of the cluster's key: nothing, though its processes have the user of the agents."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from network.key_files import load_key_file
from rpc.agent.children import ChildProcesses
from rpc.agent.standby import StandbyProcess

from ..statements import covers
from .harness import Cluster, wait_for
from .host_executors import SharedSum, Thief
from .ordinary_user import is_ordinary
from .test_secrets import forms

pytestmark = pytest.mark.ordinary_user
CLEAN = {"environ": "clean", "cmdline": "clean", "mem": "clean", "fd": "clean"}
_DECOY = "import os; open('up', 'w').close(); os.read(0, 1)"


def masked(secret: bytes) -> list[object]:
    return [bytes(255 - b for b in secret[:6]), len(secret), hashlib.sha256(secret).digest()]


def may_trace() -> bool:
    """Whether a process may look into the memory of another one of its user that is not its child."""
    path = Path("/proc/sys/kernel/yama/ptrace_scope")
    return not path.exists() or path.read_text().strip() == "0"


@covers("SEC-23")
def test_a_job_does_not_find_the_key(own: Cluster, tmp_path: Path) -> None:
    """Environment, memory, descriptors and command line of agents, of a standby driver and of its own
    process; one that does nothing against it gives the same key away."""
    assert is_ordinary()
    text = own.key_file.read_text()
    agents = own.start(2, PSGD_KEY=text)
    key = load_key_file(own.key_file).offered
    decoy = subprocess.Popen(
        [sys.executable, "-c", _DECOY], cwd=tmp_path, env={"PATH": os.environ["PATH"], "PSGD_KEY": text}, stdin=subprocess.PIPE
    )
    standby = StandbyProcess("tests.processes.standby", tmp_path, 0, tmp_path, key, ChildProcesses(adopts=False))
    try:
        wait_for((tmp_path / "key-size").exists, "the standby driver to have the key")
        wait_for((tmp_path / "up").exists, "the process without protection")
        told = {"secrets": [masked(form) for form in forms(key)], "submitter": os.getpid()}
        outcome = own.run(Thief, tmp_path, nodes=own.nodes(1), objects=told)
        assert not outcome.error
        seen = outcome.results[0]
        assert (seen[decoy.pid]["environ"], seen[decoy.pid]["mem"]) == ("found", "found" if may_trace() else "denied")
        for pid in (standby.pid, *(agent.pid for agent in agents)):
            assert (seen[pid]["environ"], seen[pid]["mem"]) == ("denied", "denied")
        assert CLEAN in seen.values()  # itself
        assert [pid for pid, each in seen.items() if "found" in each.values()] == [decoy.pid]
    finally:
        standby.end()
        decoy.communicate()


@pytest.mark.long
@covers("SEC-23")
def test_job_processes_share_memory(own: Cluster, tmp_path: Path) -> None:
    """What keeps others out of the agents does not keep peers on one host out of what they share."""
    assert is_ordinary()
    own.start(2)
    outcome = own.run(SharedSum, tmp_path)
    assert not outcome.error
    for total, shared in outcome.results.values():
        assert total == 3.0 and shared > 1 << 22
