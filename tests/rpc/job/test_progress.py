"""What a job process tells of its progress."""

from __future__ import annotations

from pathlib import Path

from network.controller import Controller
from rpc.communication import Communication

from ...statements import covers


@covers("SUB-12")
def test_fast_progress_is_told_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    """each message wakes the agent and the submitter, which take the cores that workers compute on."""
    told: list[tuple[int, str]] = []
    with Controller(0, {}) as controller:
        com = Communication(controller, [0], tmp_path, tmp_path, lambda percent, note: told.append((percent, note)))
        for _ in range(3):
            for percent in range(100):
                com.report_progress(percent, f"at {percent}")
        com.report_progress(100, "done")
        com.report_progress(100, "done")
    assert told[0] == (0, "at 0") and told[-1] == (100, "done")
    assert len(told) < 100
    assert told.count((100, "done")) == 1
