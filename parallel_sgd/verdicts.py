"""What the driver of a job makes of the failure detector's verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from rpc.liveness.verdict import Verdict

from .errors import JobFailed
from .recovery import Place

MOST_REPORT = 60_000  # characters


def places_of(failed: JobFailed) -> Set[Place]:
    """Where it failed first, by nodes, epochs and batches; nowhere for a failure at no batch in particular, a lost connection
    for example.

    All that failed by themselves count, because which of them is heard of first is chance. Where nobody did, whoever sent what
    others had to refuse; else those that waited in vain. Who is a bystander, also of a node that left no verdict, does not.
    """
    own = [verdict for verdict in failed.verdicts if verdict.rank == 0]
    late = [verdict for verdict in failed.verdicts if verdict.rank == 1]
    if own:
        found = {(verdict.node, verdict.epoch, verdict.batch) for verdict in own}
    elif failed.culprits:
        senders = [node for node in failed.culprits if failed.failures[node][0] != "lost"]
        found = {(node, verdict.epoch, verdict.batch) for verdict in late for node in senders}
    else:
        found = {(verdict.node, verdict.epoch, verdict.batch) for verdict in late}
    return {place for place in found if place[1]}  # epochs count from 1


def report_of(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as JSON, first causes first, as many as there is room for."""
    told: list[Mapping[str, Any]] = []
    for verdict in verdicts:
        if len(json.dumps([*told, asdict(verdict)])) > MOST_REPORT:
            break
        told.append(asdict(verdict))
    return json.dumps(told)
