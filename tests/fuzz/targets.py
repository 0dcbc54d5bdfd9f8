"""All targets, by name."""

from __future__ import annotations

from .file_targets import FILES
from .memory_targets import MEMORY
from .record_targets import RECORDS
from .slot_targets import SLOTS
from .target import Target
from .wire_targets import WIRE

TARGETS: dict[str, Target] = {target.name: target for target in (*WIRE, *MEMORY, *SLOTS, *FILES, *RECORDS)}
