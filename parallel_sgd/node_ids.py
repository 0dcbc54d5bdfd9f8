"""Node ids with a meaning: workers are 0..n-1, everybody else is negative."""

from __future__ import annotations

from typing import Final

Submitter: Final = -1
Parameter_Server: Final = -2
