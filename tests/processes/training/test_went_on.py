"""Figures of jobs that go on with fewer workers: those of a calm job, or what they lack is told; the console says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobResult, local_workers
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.record.history import JobHistory
from parallel_sgd.run_page.records import RunRecords
from tests.parallel_sgd.record.test_went_on import Lacks
from tests.processes.training.jobs import digits_job, here, some

#: 25 batches of 60 samples in an epoch.
SETTINGS: dict[str, Any] = {"epoch": 3, "block_size": 20, "checkpoint_every": 5}
BATCHES = 25


def checked(result: JobResult, directory: Path, calm: JobHistory, caplog: pytest.LogCaptureFixture) -> JobHistory:
    """Return its history, which the report has, too."""
    history = result.history
    assert history["val_Loss"] == pytest.approx(calm["val_Loss"], rel=1e-5)
    for row, own in zip(calm.rows, history.rows, strict=True):
        if int(row["epoch"]) not in history.untold:
            assert own["Loss"] == pytest.approx(row["Loss"], rel=1e-5)
    found = RunRecords.read(directory / "runs" / "latest").history
    assert (found.rows, found.untold) == (history.rows, history.untold)
    assert result.ledger is not None and result.ledger.problems == ()
    return history


@pytest.mark.parametrize("fault", ["kill 1@e2.b7", "kill 0@e2.b7; kill 2@e3.b2@a2"])
@pytest.mark.share(2)
def test_local_workers_keep_the_rows_of_the_dead(tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """All but those of the second in which a worker was killed; each is under the number that the worker had."""
    count = 3 + fault.count(";")
    settings = {**SETTINGS, "block_size": 60 // count}
    calm = here(digits_job(), count, tmp_path / "calm", **settings).history
    with local_workers(count) as nodes, caplog.at_level("INFO"):
        result = digits_job().parallel(nodes, on_failure="shrink", fault=fault, directory=tmp_path, **settings)
    history = checked(result, tmp_path, calm, caplog)
    assert result.restarts == fault.count("kill") and len(history.workers) == count
    # rows of a second at most: a file has all up to the last that it has
    lost = sum(history.untold.values())
    told = sum(len(own.steps) for own in history.workers.values())
    batches = [len({(row["epoch"], row["batch"]) for row in own.steps}) for own in history.workers.values()]
    assert told == sum(batches) and lost <= 2 * BATCHES
    lines = {match[1]: match[2] for line in caplog.messages if (match := re.match(r"epoch (\d)/3 .*?Loss (\d\.\d{4})", line))}
    assert lines == {str(n + 1): f"{loss:.4f}" for n, loss in enumerate(history["Loss"])}


@pytest.mark.long
def test_agents_elsewhere_carry_on_what_they_have(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rows of the dead are with its agent, which is not asked; those of a worker with another number are there."""
    calm = here(digits_job(), 3, tmp_path / "calm", **SETTINGS).history
    result = digits_job().parallel(some(agents, 3), on_failure="shrink", fault="kill 1@e2.b7", directory=tmp_path, **SETTINGS)
    history = checked(result, tmp_path, calm, caplog)
    assert history.untold[1] == BATCHES and 0 < history.untold[2] <= BATCHES and 3 not in history.untold
    for epoch in (1, 2):
        rows = [row["Loss"] for row in history.workers[2].steps if row["epoch"] == epoch]
        assert rows == [row["Loss"] for row in calm.workers[2].steps if row["epoch"] == epoch][: len(rows)] and rows
    assert not [row for row in history.workers[1].steps if row["epoch"] == 1]


@pytest.mark.share(2)
def test_workers_tell_how_many_blocks_a_batch_had(tmp_path: Path) -> None:
    """So that the ledger of a job that goes on names a block that the job before has not applied in any of its batches."""
    settings = {**SETTINGS, "block_size": 30, "codec": Lacks, "directory": tmp_path}
    with local_workers(2) as nodes:
        digits_job().parallel(nodes, **{**settings, "epoch": 1}, codec_extra_parameters={"lacks": True})
        ledger = digits_job().parallel(nodes, **{**settings, "epoch": 2}, resume="last").ledger
    assert ledger is not None
    assert ledger.problems[0] == "block 1 of epoch 1, batch 1 was not applied"
    assert ledger.problems[5:] == (f"and {BATCHES - 5} more",)
