"""Bounds of the numbers that describe a job: beyond them a number is a slip or a trap, and nothing is made of it."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["MOST_BLOCKS", "MOST_EPOCHS", "MOST_SAMPLES", "MOST_WORKERS", "bounded"]

MOST_WORKERS: Final = 1 << 16
MOST_BLOCKS: Final = 1 << 20
"""Blocks of a batch."""
MOST_EPOCHS: Final = 10_000_000
MOST_SAMPLES: Final = 1 << 31
"""Samples of a block."""
_LONG: Final = 10**30
_MOST: Final = (1 << 63) - 1
_BOUNDS: Final = {
    "run.workers": (1, MOST_WORKERS),
    "run.blocks": (1, MOST_BLOCKS),
    "options.redundancy": (1, MOST_WORKERS),
    "options.block_size": (1, MOST_SAMPLES),
    "options.epoch": (1, MOST_EPOCHS),
    "options.keep_every": (1, MOST_EPOCHS),
    "options.commit_every": (1, _MOST),
    "options.max_restarts": (0, 1_000_000),
    "options.min_workers": (1, MOST_WORKERS),
    "options.max_workers": (1, MOST_WORKERS),
    "options.seed": (0, _MOST),
}


def bounded(key: str, value: object, told: str = "") -> object:
    """Return the value of a key of a job file, if it is no number beyond its bounds.

    Args:
        key: table and name, such as `run.workers`.
        value: any value; one that is no number has no bounds here.
        told: name of the key in the message; by default the key.

    Raises:
        ValueError: The number is out of its bounds, or not finite; the message names key, bounds and number.
    """
    # a bool is an int, and has no size
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, float) and key not in _BOUNDS:
        if not math.isfinite(value):
            raise ValueError(f"'{told or key}' must be a finite number, got {value}")
        return value
    # of a key without bounds: what 64 bits hold, since TOML's integers have no end
    low, high = _BOUNDS.get(key, (-_MOST, _MOST))
    if not -high <= value <= high:  # a number that is merely too small meets the check of its option
        # Python refuses to write very long integers
        shown = str(value) if isinstance(value, float) or abs(value) < _LONG else "a longer one"
        raise ValueError(f"'{told or key}' must be from {low} to {high}, got {shown}")
    return value


_SEPARATORS = frozenset('/\\:*?"<>|')


def check_title(title: str, name: str = "mission_title") -> str:
    """Return the title, which becomes part of file names.

    Raises: ValueError when it cannot; it calls the title `name`.
    """
    if (
        not title
        or title in (".", "..")
        # bytes, not letters: file systems count these
        or len(title.encode("utf-8", "surrogatepass")) > 200
        or not title.isprintable()
        or _SEPARATORS & set(title)
    ):
        raise ValueError(
            f"'{name}' must be able to stand in a file name (1 to 200 bytes, printable, "
            f"none of {' '.join(sorted(_SEPARATORS))}), got {title!r}"
        )
    return title
