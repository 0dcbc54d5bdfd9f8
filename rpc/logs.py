"""How log lines look, everywhere: `INFO P-SGD Submit@23:23:13: Start job.`"""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

SUBMIT_LOGGER = "P-SGD Submit"
_FORMAT, _TIME = "%(levelname)s %(name)s@%(asctime)s: %(message)s", "%H:%M:%S"
_AGENT_LOG_BYTES, _AGENT_LOG_PARTS = 10 << 20, 5


class CleanFormatter(logging.Formatter):
    """Formats a record; what peers sent cannot put control characters (escape codes, forged lines) into it."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, _TIME)

    def format(self, record: logging.LogRecord) -> str:
        """The line, tabs and line breaks kept, other control characters shown as escapes."""
        text = super().format(record)
        return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def clean(text: str, limit: int = 512) -> str:
    """Text of a peer for one log line: control characters escaped, cut at `limit`."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "..."


def attach_console(level: int = logging.INFO) -> None:
    """Show the log on stderr, unless the application has configured logging itself."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter())
    root.addHandler(handler)
    root.setLevel(level)


def attach_file(path: Path) -> logging.Handler:
    """Write the log to a rotating file too, readable by its owner only: 10 MiB, five parts."""
    path.touch(mode=0o600, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=_AGENT_LOG_BYTES, backupCount=_AGENT_LOG_PARTS, encoding="utf-8")
    handler.setFormatter(CleanFormatter())
    logging.getLogger().addHandler(handler)
    return handler
