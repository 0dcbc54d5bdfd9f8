"""The agent's audit log: one line of JSON per decision that matters for security. Never a key, never data."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from ..files import append
from ..logs import clean

MAX_BYTES = 10 << 20
"""Size at which the log moves to `audit.jsonl.1`, over the one before; strangers cannot fill the disk."""


class AuditLog:
    """Appends to `path`, which only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: str, detail: str) -> None:
        """Note `event`; what peers have a say in is cleaned and cut. A full disk must not end the agent."""
        entry = {"time": round(time.time(), 3), "event": event, "detail": clean(detail)}
        with contextlib.suppress(OSError):
            if append(self._path, json.dumps(entry) + "\n") > MAX_BYTES:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
