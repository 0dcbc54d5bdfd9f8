"""SimGrid's Python binding, if there is one on this machine.

Debian's package python3-simgrid is for the system's own Python only, so it is another process than this one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ABSENT = "no Python here has the module simgrid (Debian: python3-simgrid)"
EVEN = ("model:CM02", "crosstraffic:0", "TCP-gamma:0")
"""Settings with which all flows of a link share it evenly."""
_PROGRAM = str(Path(__file__).with_name("simgrid_peer.py"))


@cache
def peer_python() -> str | None:
    """Return the path of a Python that can import `simgrid`, None where there is none."""
    for python in (sys.executable, shutil.which("python3", path=os.defpath)):
        if python and not subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False).returncode:
            return python
    return None


def simulate(python: str, program: dict[str, Any], settings: tuple[str, ...] = EVEN) -> dict[str, Any]:
    """Run a program on a star of 1 Gbit/s and 50 us; return its ends and its seconds of processor time.

    Always under `network/optim:Full`: by default a flow may be faster than its link.
    """
    told = {"bandwidth": 125e6, "latency": 50e-6, "settings": [f"network/{each}" for each in (*settings, "optim:Full")]}
    command = [python, _PROGRAM]
    ran = subprocess.run(command, input=json.dumps({**program, **told}), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
