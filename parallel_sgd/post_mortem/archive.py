"""The zip of a post-mortem: it appears whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .case import Case
from .story import checkpoints, summary, timeline, verdicts, versions_of


def write_archive(case: Case, target: Path, now: float) -> None:
    """Write what `case` knows to `target`, in place of an earlier one; `now` in seconds since 1970.

    Raises: OSError when the disk refuses; what was there before is there still.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        with open(draft, "xb", opener=_private) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                for name, text in _texts(case, now).items():
                    archive.writestr(name, text)
                for node in case.nodes:
                    for path in sorted(node.found.files):
                        archive.write(path, f"{node.folder}/{path.name}")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _texts(case: Case, now: float) -> Mapping[str, str]:
    told = case.timeline
    states = [{"node": node.name, **asdict(state)} for node in case.nodes for state in node.states]
    return {
        "summary.txt": summary(case, now),
        "verdicts.txt": verdicts(case),
        "verdicts.json": _json([asdict(verdict) for verdict in case.verdicts]),
        "timeline.txt": timeline(told),
        "timeline.json": _json([{"node": event.node, **event.fields} for event in told]),
        "checkpoints.txt": "".join(f"{line}\n" for line in checkpoints(case)),
        "checkpoints.json": _json(states),
        "versions.json": _json(versions_of(case)),
        "nodes.json": _json(_nodes(case)),
    }


def _nodes(case: Case) -> dict[str, Any]:
    return {
        "job": case.job,
        "nodes": [
            {
                "node": node.found.node,
                "agent": str(node.found.address),
                "folder": node.folder,
                "state": node.record.get("state"),
                "problem": node.found.problem,
                "not read": node.left_out,
            }
            for node in case.nodes
        ],
        "not reached": dict(case.unreached),
        "know nothing of it": case.strangers,
    }


def _json(content: object) -> str:
    return json.dumps(content, indent=1)


def _private(path: str, flags: int) -> int:
    """Logs are nobody else's business."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
