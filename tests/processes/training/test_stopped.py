"""FLT-2 with redundancy: a worker that is stopped, not dead, must not hold up those who can do without it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobResult, ParallelSGD, Parameter_Server
from parallel_sgd.codec import BlockWeight, GlobalSettings, Plain, SyncPS
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import IIDBlockAssignment
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import assert_serves, digits_job, here, log_of, only_weights, said, some

from ...statements import covers

pytestmark = pytest.mark.processes
VICTIM = 1
SETTINGS: dict[str, Any] = {"redundancy": 2, "assignment_type": IIDBlockAssignment, "block_size": 16, "epoch": 2}


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


class Resumer(logging.Handler):
    """Lets the stopped process go on when the submitter has said that the two other workers are done."""

    def __init__(self, note: Path) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().endswith("{0, 2} is done."):
            self.resume()

    def resume(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self._note.read_text()), signal.SIGCONT)


@contextmanager
def resumed_after_the_others(note: Path) -> Iterator[None]:
    resumer = Resumer(note)
    logger = logging.getLogger("P-SGD Submit")
    logger.addHandler(resumer)
    try:
        yield
    finally:
        logger.removeHandler(resumer)
        resumer.resume()


def run(job: ParallelSGD, nodes: LocalNodes, directory: Path, codec: type[Any], **settings: Any) -> JobResult:
    note = directory / "note"
    with resumed_after_the_others(note):
        return job.parallel(
            nodes, codec=codec, codec_extra_parameters={"note": str(note)}, directory=directory, **SETTINGS, **settings
        )


def undisturbed(job: ParallelSGD, directory: Path) -> JobResult:
    return here(job, 3, directory / "undisturbed", codec=Plain, **SETTINGS)


@covers("SUB-31", "FLT-2")
def test_a_stopped_worker_is_given_up(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """340 KB per batch fill its socket; after T the others go on without it, with unchanged weights. When it
    wakes up it finds itself alone."""
    caplog.set_level(logging.INFO)
    job = digits_job(mlp(units=256))
    result = run(job, some(agents, 3), tmp_path, StoppedPlain, ssgd_timeout_limit=2000)
    assert sorted(result.models) == [0, 2]
    assert only_weights(result) == only_weights(undisturbed(job, tmp_path))
    assert result.ledger is not None and result.ledger.problems == ()
    given_up = rf"Node\({VICTIM}\) .* is lost: it has not taken our data within 2(\.\d+)? s\. Its blocks are on other nodes too"
    assert any(re.search(given_up, log_of(result.files, node)) for node in (0, 2))
    assert "PeerLost" in log_of(result.files, VICTIM)
    assert not [line for line in said(caplog.records) if "accounts" in line]
    assert_serves(agents, 4, tmp_path)


def test_a_stopped_worker_finds_all_that_it_missed_at_the_server(
    agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server keeps its answers in line, so that the others end undisturbed and the stopped worker ends like them."""
    caplog.set_level(logging.INFO)
    nodes = some(agents, 3)
    nodes.add(Parameter_Server, agents[3])
    result = run(digits_job(), nodes, tmp_path, StoppedPS, ssgd_timeout_limit=2000)
    assert sorted(result.models) == [0, 1, 2]
    assert only_weights(result) == only_weights(undisturbed(digits_job(), tmp_path))
    assert result.ledger is not None and result.ledger.problems == ()
    assert not [line for line in said(caplog.records) if "accounts" in line or "Time out" in line]
