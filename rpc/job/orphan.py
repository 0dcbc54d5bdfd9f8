"""A job process whose agent dies ends itself; one that is stopped at that moment must be woken to do so."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def wake_when_orphaned() -> None:
    """Let the system send SIGCONT when the agent dies (Linux; elsewhere a stopped process waits for somebody to wake it).

    To whoever runs the signal means nothing: it sees its agent's end by itself.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a C library that does not know of it
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)
