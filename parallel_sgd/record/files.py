"""Names of the files of a run that several parts of the product write or read."""

from __future__ import annotations

from typing import Final

IDENTITIES: Final = "identities.csv"
"""What the nodes of each attempt computed with, as they told the submitter when it started."""
JOB_FILE: Final = "job.toml"
"""The settings of a run, from which it is trained again."""
MANIFEST: Final = "manifest.json"
OUTCOME: Final = "outcome.json"
PAGE: Final = "report.html"
TIMELINE: Final = "timeline.json.gz"
