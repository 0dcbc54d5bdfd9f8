"""What the driver of a job makes of the failure detector's verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rpc.liveness.verdict import Verdict

MOST_REPORT = 60_000  # characters


def cause_of(verdicts: Sequence[Verdict]) -> tuple[int, int, int] | None:
    """Where it happened: node, epoch and batch of the first verdict; None for a failure at no batch in particular."""
    if not verdicts or not verdicts[0].epoch:
        return None
    first = verdicts[0]
    return first.node, first.epoch, first.batch


def report_of(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as JSON, first causes first, as many as there is room for."""
    told: list[Mapping[str, Any]] = []
    for verdict in verdicts:
        if len(json.dumps([*told, asdict(verdict)])) > MOST_REPORT:
            break
        told.append(asdict(verdict))
    return json.dumps(told)
