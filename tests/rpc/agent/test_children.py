"""The children of an agent: its own, those that were there before, and those that it adopts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rpc.agent import children
from rpc.agent.children import project_root

from ...statements import covers

# a process of its own, whose only children are these
_PROGRAM = """
import subprocess, sys
from rpc.agent.children import ChildProcesses
before = subprocess.Popen(["sleep", "60"])
mine = ChildProcesses(adopts=sys.argv[1] != "leaves")
own = mine.start(["sleep", "60"])
shell = ["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"]
orphan = int(subprocess.run(shell, stdout=subprocess.PIPE, text=True).stdout)
if sys.argv[1] == "gives up":
    mine.give_up({orphan})
while mine.end_adopted():
    pass
sys.stdout.write(f"{before.poll()} {own.poll()} {orphan}")
for process in (before, own):
    process.kill()
    process.wait()
"""


@covers("SEC-25")
def test_all_children_of_an_agent_are_known_to_it() -> None:
    """a child that was started elsewhere would be taken for a job's, and killed with the next one."""
    folder = Path(children.__file__).parent
    starting = re.compile(r"Popen\(|os\.fork|os\.posix_spawn|subprocess\.(run|call)")
    assert [path.name for path in folder.glob("*.py") if starting.search(path.read_text())] == ["children.py"]


@covers("SEC-25")
@pytest.mark.processes
@pytest.mark.parametrize("how", ["adopts", "leaves", "gives up"])
def test_what_is_not_of_a_job_stays(how: str) -> None:
    """What a shell had started before it became the agent, and what the agent has started; in a program that is more
    than an agent, nothing is taken for a job's. What has been given up holds up no later job."""
    command = [sys.executable, "-c", _PROGRAM, how]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": project_root()}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    before, own, orphan = done.stdout.split()
    assert (before, own) == ("None", "None")
    assert Path(f"/proc/{orphan}").exists() != (how == "adopts")
    if how != "adopts":
        subprocess.run(["kill", orphan], check=True)
