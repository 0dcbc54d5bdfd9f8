"""Pages of a run from its records: `report.html` and the timeline in its folder, and the causes of its seconds."""

from __future__ import annotations

from .blame import Blame, Cause, blame
from .records import Batch, RunRecords
from .report import write_report
from .timeline import trace

__all__ = ["Batch", "Blame", "Cause", "RunRecords", "blame", "trace", "write_report"]
