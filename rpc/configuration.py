"""What a job process says of itself, for whoever looks for the cause of a failure later: a file in its job's folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CONFIGURATION: Final = "configuration.json"


def keep_configuration(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `content` into `folder`, in place of that of an earlier attempt; what JSON does not know is written as its text.

    Raises: OSError when the disk refuses; what was there before is there still.
    """
    draft = folder / f".{secrets.token_hex(6)}.new"
    try:
        with open(draft, "x", encoding="utf-8", opener=_private) as file:
            json.dump(content, file, indent=1, default=str)
        os.replace(draft, folder / CONFIGURATION)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
