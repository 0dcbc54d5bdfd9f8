"""Names of the files of a run that several parts of the product write or read."""

from __future__ import annotations

from typing import Final

IDENTITIES: Final = "identities.csv"
"""Identities of the processes of each attempt, as the nodes told them to the submitter when it started."""
JOB_FILE: Final = "job.toml"
"""Settings of a run, from which it is trained again."""
MANIFEST: Final = "manifest.json"
OUTCOME: Final = "outcome.json"
PAGE: Final = "report.html"
TIMELINE: Final = "timeline.json.gz"
