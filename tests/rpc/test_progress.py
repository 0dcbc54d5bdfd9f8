"""Progress on and off a terminal."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from rpc.progress import ProgressDisplay

logger = logging.getLogger("progress test")


def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    """SUB-12: one line per change, none for a repetition or a stranger."""
    caplog.set_level(logging.INFO)
    display = ProgressDisplay([0, 1], logger)
    for node, percent in ((0, 0), (0, 10), (0, 10), (7, 50), (1, 100)):
        display.update(node, percent)
    display.close()
    assert caplog.messages == [
        "Current progress: Worker(0): 10% Worker(1):  0% | Running",
        "Current progress: Worker(0): 10% Worker(1):100% | Running",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """SUB-12: on a terminal each worker has its bar."""
    caplog.set_level(logging.INFO)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    display = ProgressDisplay([0, 1], logger)
    display.update(0, 40)
    display.update(1, 100)
    display.close()
    display.close()
    shown = terminal.getvalue()
    assert "Worker(0):  40%|" in shown and "Worker(1): 100%|" in shown and not caplog.messages
