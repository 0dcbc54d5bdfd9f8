"""What a driver has said at the end of a job that failed, as one of the files of the job."""

from __future__ import annotations

import json
from pathlib import Path

from ..files import is_safe_name, write_private
from .jobs import JobRecord


def keep_verdict(record: JobRecord, folder: Path, detail: str, report: str) -> None:
    """Write `VERDICT-<title>-N(<node>).json` and register it; `report` is a text in JSON.

    Raises: OSError when the disk refuses.
    """
    name = f"VERDICT-{record.title}-N({record.node}).json"
    if not is_safe_name(name):
        name = f"VERDICT-N({record.node}).json"
    try:
        verdicts = json.loads(report)
    except (ValueError, RecursionError):
        verdicts = []
    content = {"job": record.job, "outcome": record.outcome, "detail": detail, "verdicts": verdicts}
    write_private(folder / "out" / name, json.dumps(content, indent=1))
    if name not in record.files:
        record.files.append(name)
