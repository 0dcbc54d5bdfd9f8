"""FLT-2 with redundancy: a worker that is stopped, not dead, must not hold up those who can do without it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobResult, ParallelSGD
from parallel_sgd.codec import BlockWeight, GlobalSettings, Plain, SyncPS
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import IIDBlockAssignment
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import (
    assert_serves,
    digits_job,
    hearing,
    here,
    log_of,
    only_weights,
    said,
    some,
    with_server,
)

from ...statements import covers

VICTIM = 1
SETTINGS: dict[str, Any] = {"redundancy": 2, "assignment_type": IIDBlockAssignment, "block_size": 16, "epoch": 2}
PATIENCE = 100.0  # of the failure detector, which is to leave the one that is stopped alone


class StopsOnce:
    """Mixed into a codec: worker 1 leaves its process id in a note and stops at the fifth block."""

    seen = 0

    def update_blocks(self: Any, block_weight: BlockWeight) -> Any:
        self.seen += 1
        if self.node_id == VICTIM and self.seen == 5:
            note = Path(GlobalSettings.get_params("note"))
            if not note.exists():
                note.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)
        return super().update_blocks(block_weight)  # type: ignore[misc]


class StoppedPlain(StopsOnce, Plain):
    pass


class StoppedPS(StopsOnce, SyncPS):
    pass


def run(job: ParallelSGD, nodes: LocalNodes, directory: Path, codec: type[Any], **settings: Any) -> JobResult:
    """The stopped process goes on when the submitter has said that the two other workers are done, at the latest at the end."""
    note = directory / "note"

    def resume(text: str) -> None:
        if text.endswith("{0, 2} is done."):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(note.read_text()), signal.SIGCONT)

    settings |= {"codec": codec, "codec_extra_parameters": {"note": str(note)}, "directory": directory}
    settings["stall_timeout"] = PATIENCE
    try:
        with hearing(resume):
            return job.parallel(nodes, **SETTINGS, **settings)
    finally:
        resume("{0, 2} is done.")


def undisturbed(job: ParallelSGD, directory: Path) -> JobResult:
    return here(job, 3, directory / "undisturbed", codec=Plain, **SETTINGS)


@pytest.mark.slow
@covers("SUB-31", "FLT-2")
@pytest.mark.long
def test_a_stopped_worker_is_given_up(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """2.4 MB per batch fill the memory of the others and then its socket; after T they go on without it, with unchanged
    weights. When it wakes up it finds itself alone."""
    caplog.set_level(logging.INFO)
    job = digits_job(mlp(units=768))
    result = run(job, some(agents, 3), tmp_path, StoppedPlain, ssgd_timeout_limit=2000)
    assert sorted(result.models) == [0, 2]
    assert only_weights(result) == only_weights(undisturbed(job, tmp_path))
    assert result.ledger is not None and result.ledger.problems == ()
    given_up = rf"Node\({VICTIM}\) .* is lost: it has not taken our data within 2(\.\d+)? s\. Its blocks are on other nodes too"
    assert any(re.search(given_up, log_of(result.files, node)) for node in (0, 2))
    assert "PeerLost" in log_of(result.files, VICTIM)
    assert not [line for line in said(caplog.records) if "accounts" in line]
    assert_serves(agents, 4, tmp_path)


@pytest.mark.long
def test_a_stopped_worker_finds_all_that_it_missed_at_the_server(
    agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server keeps its answers in line, so that the others end undisturbed and the stopped worker ends like them."""
    caplog.set_level(logging.INFO)
    result = run(digits_job(), with_server(agents, 3), tmp_path, StoppedPS, ssgd_timeout_limit=2000)
    assert sorted(result.models) == [0, 1, 2]
    assert only_weights(result) == only_weights(undisturbed(digits_job(), tmp_path))
    assert result.ledger is not None and result.ledger.problems == ()
    assert not [line for line in said(caplog.records) if "accounts" in line or "Time out" in line]
