"""What the driver of a job makes of the failure detector's verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from rpc import recovery
from rpc.verdict import Verdict

from .errors import JobFailed

MOST_REPORT = 60_000  # characters


def places_of(failed: JobFailed) -> Set[recovery.Place]:
    """Where it failed first, see `rpc.recovery.places_of`; who is a bystander, also of a node that left no verdict, does not
    count."""
    senders = [node for node in failed.culprits if failed.failures[node][0] != "lost"]
    return recovery.places_of(failed.verdicts, senders if failed.culprits else None)


def report_of(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as JSON, first causes first, as many as there is room for."""
    told: list[Mapping[str, Any]] = []
    for verdict in verdicts:
        if len(json.dumps([*told, asdict(verdict)])) > MOST_REPORT:
            break
        told.append(asdict(verdict))
    return json.dumps(told)
