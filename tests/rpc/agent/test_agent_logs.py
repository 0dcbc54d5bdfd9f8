"""Which of an agent's own logs belong to a job, and which are kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rpc.agent.agent_logs import KEPT, logs_between, new_log

MINUTE = 60.0


def log(folder: Path, begun: float, written: float, suffix: str = "") -> Path:
    stamp = time.strftime("%Y-%m-%d %H%M", time.localtime(begun))
    path = folder / f"Worker-127.0.0.1 {stamp}.log{suffix}"
    path.touch()
    os.utime(path, (written, written))
    return path


def test_logs_of_the_time_of_a_job(tmp_path: Path) -> None:
    """SUB-18: after a restart the log of the agent that ran the job comes, not only that of the one that answers."""
    now = time.time() // MINUTE * MINUTE
    log(tmp_path, now - 90 * MINUTE, now - 80 * MINUTE)
    rotated = log(tmp_path, now - 60 * MINUTE, now - 40 * MINUTE, ".1")
    running = log(tmp_path, now - 60 * MINUTE, now - 20 * MINUTE)
    later = log(tmp_path, now - 10 * MINUTE, now)
    assert logs_between(tmp_path, now - 50 * MINUTE, now - 30 * MINUTE) == [rotated, running]
    assert logs_between(tmp_path, now - 30 * MINUTE, float("inf")) == [running, later]
    assert logs_between(tmp_path, now - 5 * MINUTE, float("inf")) == [later]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    """Security 8: an agent that is started again and again does not fill the disk with logs."""
    now = time.time()
    made = [log(tmp_path, now - age * MINUTE, now - age * MINUTE) for age in range(30, 0, -1)]
    path = new_log(tmp_path, "Worker-127.0.0.1")
    assert path not in made
    assert [p for p in made if p.exists()] == made[-KEPT + 1 :]
