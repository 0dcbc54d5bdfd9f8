"""Limit of a user's processes and threads, in words, as the errors of the system by which it is met say little."""

from __future__ import annotations

import errno
import resource

_NO_THREAD = "can't start new thread"


def limit_met(error: BaseException) -> str:
    """Return that no more processes or threads may be started here, where `error` comes of that; "" for any other error."""
    thread = type(error) is RuntimeError and str(error).startswith(_NO_THREAD)
    process = isinstance(error, OSError) and error.errno == errno.EAGAIN
    return process_limit() if thread or process else ""


def process_limit() -> str:
    """Return that no more processes or threads may be started here, and the limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return "no more processes or threads, by a limit of this machine or container"
    return f"no more processes or threads (ulimit -u {soft})"
