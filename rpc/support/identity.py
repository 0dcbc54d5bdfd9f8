"""Names of jobs, of their processes and of hosts, and the keys that are a job's own."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from network.keys import Key, derive_key

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")


def new_job_id() -> str:
    """Make a fresh name: date, time and 32 random bits, as in `20261120-173000-9f86d081`."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"


def is_job_id(text: str) -> bool:
    """Tell if `text` may name a job, and a folder."""
    return _JOB_ID.fullmatch(text) is not None and ".." not in text


def process_name(job: str, node: int) -> str:
    """Return the name for which connections to the process of `node` in `job` ask."""
    return f"{job}.{node}" if node >= 0 else f"{job}.ps{-node}"


def code_key(cluster: Key, job: str, node: int) -> Key:
    """Derive the key of the submitter's session with one job process. Both ends derive it, so it never travels."""
    return derive_key(cluster, f"code {process_name(job, node)}")


def peer_key(cluster: Key, job: str, one: int, other: int) -> Key:
    """Derive the key of the sessions between two nodes of a job, in either order; no third one holds it, so it names the
    two.

    Args:
        cluster: the cluster's key.
        job: id of the job.
        one: number of a node.
        other: number of the other.
    """
    return derive_key(cluster, f"peers {job} {min(one, other)} {max(one, other)}")


def peer_keys(cluster: Key, job: str, node: int, nodes: Iterable[int]) -> dict[int, Key]:
    """Derive all keys that `node` shares with others of `nodes`, by these."""
    return {other: peer_key(cluster, job, node, other) for other in sorted(set(nodes) - {node})}


@cache
def host_name() -> str:
    """Return a name that processes share exactly if they run on one booted system, in one mount namespace, as one user."""
    parts = [socket.gethostname(), str(os.getuid())]
    # host names may be equal, as those of containers are
    for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        try:
            parts.append(Path(path).read_text(encoding="ascii").strip())
        except OSError:
            continue
    try:
        # in another mount namespace a path of a socket leads elsewhere
        parts.append(os.readlink("/proc/self/ns/mnt"))
    except OSError:
        parts.append("one namespace")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
