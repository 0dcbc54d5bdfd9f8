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
_SEPARATORS = frozenset('/\\:*?"<>|')


def check_title(title: str) -> str:
    """Return the title, which becomes part of file names.

    Raises: ValueError when it cannot.
    """
    if (
        not title
        or title in (".", "..")
        or len(title.encode("utf-8", "surrogatepass")) > 200
        or not title.isprintable()
        or _SEPARATORS & set(title)
    ):
        raise ValueError(
            f"'mission_title' must be able to stand in a file name (1 to 200 bytes, printable, "
            f"none of {' '.join(sorted(_SEPARATORS))}), got {title!r}"
        )
    return title
