"""`on_failure="restart"`: all processes of a failed job end, and all start again, as often as allowed and no more."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from tests.processes.training.jobs import FOUR_BLOCKS, line_job, only_weights, said, some

pytestmark = pytest.mark.processes
FAULTS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: sys.exit(3),
    "segfault": lambda: ctypes.string_at(0),
}


class Unlucky(Plain):
    """Worker 1 fails at its eighth block (epoch 2), in each attempt until it has failed as often as it must.

    It notes its attempts in a file, with the process ids of both workers.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.seen = 0
        self.notes = Path(GlobalSettings.get_params("notes"))

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.seen == 1:
            with open(self.notes, "a", encoding="utf-8") as file:
                file.write(f"{self.node_id} {os.getpid()}\n")
        if self.seen == 8 and self.node_id == 1:
            attempts = sum(line.startswith("1 ") for line in self.notes.read_text().splitlines())
            if attempts <= GlobalSettings.get_params("times"):
                FAULTS.get(str(GlobalSettings.get_params("fault")), self.fail)()
        return super().update_blocks(block_weight)

    def fail(self) -> None:
        raise ArithmeticError("bad luck")


def run(agents: LocalNodes, folder: Path, fault: str, times: int, **further: Any) -> Any:
    parameters = {"notes": str(folder / "notes"), "fault": fault, "times": times}
    settings: dict[str, Any] = {"codec": {0: Unlucky}, "assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 3}
    settings |= {"codec_extra_parameters": parameters, "directory": folder, "on_failure": "restart"}
    return line_job().parallel(some(agents, 2), **settings | further)


def processes(folder: Path) -> list[int]:
    return [int(line.split()[1]) for line in (folder / "notes").read_text().splitlines()]


@pytest.mark.parametrize("fault", ["kill", "exit", "segfault", "raise"])
def test_a_failure_is_survived(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """FD-9, FD-10: whatever ends a process, all start again without a checkpoint from the first epoch; the weights are those of
    a run without any failure."""
    caplog.set_level(logging.INFO)
    (tmp_path / "calm").mkdir()
    calm = run(agents, tmp_path / "calm", fault, 0)
    assert calm.restarts == 0
    result = run(agents, tmp_path, fault, 1)
    assert result.restarts == 1
    assert only_weights(result) == only_weights(calm)
    assert len(set(processes(tmp_path))) == 4
    assert "All nodes start again from the newest checkpoint (restart 1 of at most 3)." in said(caplog.records)
    with pytest.raises(ProcessLookupError):  # nothing is left of the first attempt
        os.kill(processes(tmp_path)[0], 0)


def test_the_first_attempt_is_gone_before_the_second_begins(agents: LocalNodes, tmp_path: Path) -> None:
    """FD-7: who notes the pids of a new attempt finds no process of the one before."""

    result = run(agents, tmp_path, "kill", 2, codec={0: Watchful})
    assert result.restarts == 2
    assert (tmp_path / "notes.alive").read_text() == ""


class Watchful(Unlucky):
    """Looks at its first block whether processes of earlier attempts are alive."""

    def update_blocks(self, block_weight: Any) -> Any:
        if self.seen == 0:
            earlier = [line.split() for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
            mine = sum(int(node) == self.node_id for node, _ in earlier)
            with open(f"{self.notes}.alive", "a", encoding="utf-8") as file:
                for pid in [pid for node, pid in earlier][: 2 * mine]:
                    if os.path.exists(f"/proc/{pid}"):
                        file.write(f"{pid}\n")
        return super().update_blocks(block_weight)


def test_no_more_than_max_restarts(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """FD-20, FD-12: two failures in a row need two restarts; with one allowed the job fails, its files come home, and the nodes
    take the next job."""
    with pytest.raises(JobFailed, match=r"Node\(1\) failed: .*SIGKILL") as failed:
        run(agents, tmp_path, "kill", 5, max_restarts=1)
    assert "Giving up: it was started again as often as 'max_restarts' allows, 1." in said(caplog.records)
    assert failed.value.files.keys() == {0, 1}
    log = next(path for path in failed.value.files[1] if path.name.startswith("Fit-1"))
    assert log.read_text("utf-8").count("Training begins") == 2  # one log holds both attempts
    (tmp_path / "next").mkdir()
    assert run(agents, tmp_path / "next", "kill", 0).restarts == 0
