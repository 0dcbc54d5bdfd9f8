"""What a job process may use of its machine: limits against accidents, no sandbox."""

from __future__ import annotations

import resource

MAX_FILE_BYTES = 64 << 30
_OPEN_FILES = 4096


def set_limits() -> None:
    """No core dumps, which would hold keys; no endless file; room for a connection with every node of a large job."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lower(kind: int, most: int) -> None:
    soft, hard = resource.getrlimit(kind)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(kind, (most, hard))
