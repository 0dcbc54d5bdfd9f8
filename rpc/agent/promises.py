"""What a node has promised to drivers of a job (`lease.Promise`), on disk in the folder of the job."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..files import parsed, read_regular, write_private
from ..lease.lease import DriverLease, Promise
from ..messages import Denied

LEASE = "lease.json"


def write_promise(folder: Path, promise: Promise) -> None:
    """Keep it, so that a host that loses power knows it, too.

    Raises: OSError when the disk refuses; then the one before is kept.
    """
    write_private(folder / LEASE, json.dumps(asdict(promise)), lasting=True)


def read_promise(folder: Path) -> Promise:
    """What was kept last; one to nobody where there is none, or none that can be read."""
    try:
        promise = Promise(**parsed(json.loads, read_regular(folder / LEASE)))
    except (OSError, ValueError, TypeError):
        return Promise()
    kinds = [type(getattr(Promise(), name)) for name in asdict(promise)]
    return promise if [type(value) for value in asdict(promise).values()] == kinds else Promise()


def content_of(promise: Promise) -> tuple[int, int, bool, str, int, int, str]:
    """What an answer to a driver tells of a promise."""
    own = (promise.own, promise.own_attempt, promise.own_charter)
    return promise.attempt, promise.agreed, promise.begun, promise.charter, *own


def denied(job: str, node: int, lease: DriverLease, reason: str, outcome: str = "") -> Denied:
    """The answer to somebody who does not drive."""
    return Denied(job, node, *content_of(lease.promise), lease.promise.term, lease.driver != "", reason, outcome)
