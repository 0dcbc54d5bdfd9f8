"""Python that has SimGrid's binding, if there is one on this machine.

Debian's package python3-simgrid is for the system's own Python only, so it is another process than this one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

PEER = str(Path(__file__).with_name("simgrid_peer.py"))


@cache
def peer_python() -> str | None:
    """Return the path of a Python that can import `simgrid`, None where there is none."""
    for python in (sys.executable, shutil.which("python3", path=os.defpath)):
        if python and not subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False).returncode:
            return python
    return None
