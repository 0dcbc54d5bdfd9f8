"""Progress at the submitter."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ..statements import covers
from .executors import Reporting
from .harness import Cluster


@covers("SUB-12")
def test_plain_lines(
    trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal one line per change and no escape codes; every worker reaches 100."""
    caplog.set_level(logging.INFO, "P-SGD Submit")
    assert not trio.run(Reporting, tmp_path).error
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Current progress: ")]
    assert len(lines) == len(set(lines))
    assert lines[-1] == "Current progress: Worker(0):100% Worker(1):100% Worker(2):100% | Running"
    assert all("\x1b" not in line and "\r" not in line for line in lines)
    assert "\x1b" not in "".join(capfd.readouterr())
