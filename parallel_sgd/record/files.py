"""The names of the files of a run that several parts of the product write or read."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "manifest.json"
OUTCOME: Final = "outcome.json"
PAGE: Final = "report.html"
TIMELINE: Final = "timeline.json.gz"
