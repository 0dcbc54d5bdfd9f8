"""While the disk of a node is full its submitter says so, in a sentence, and so does the report."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
from pathlib import Path

import pytest

import nn
from nn.dataset import ArrayDataset
from parallel_sgd import JobFailed, ParallelSGD, local_workers
from parallel_sgd.record.files import OUTCOME, PAGE
from rpc.support.logs import DISK_REFUSES, SUBMIT_LOGGER
from tests.fulldisk import fill, small_disk

pytestmark = pytest.mark.processes


class FullDisk(nn.callback.Callback):
    """Callback that takes all room of a disk from the second epoch until a file was refused, for at least six epochs.

    Checkpoints are written beside training, so that a few small epochs may pass before one is tried.

    Args:
        file: file that takes the room.
        struck: file that shows in a later attempt that this one was here; with it the training fails when the disk has room
            again.
    """

    def __init__(self, file: str, struck: str = "") -> None:
        self.file, self.struck = file, struck

    def on_epoch_begin(self, epoch: int) -> None:
        if self.struck and Path(self.struck).exists():
            return
        if epoch == 1:
            # here, since a callback goes to the worker by its values, and an event has none
            self.refused = threading.Event()
            self.handler = _Refusal(self.refused)
            logging.getLogger().addHandler(self.handler)
            fill(Path(self.file))
        elif epoch == 7:
            assert self.refused.wait(60), "nothing was written to the full disk"
            logging.getLogger().removeHandler(self.handler)
            Path(self.file).unlink()
            if self.struck:
                Path(self.struck).touch()
                raise ArithmeticError("bad luck")


class _Refusal(logging.Handler):
    """Handler that sets an event when the disk has refused a file, and the submitter was told."""

    def __init__(self, refused: threading.Event) -> None:
        super().__init__()
        self._refused = refused

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, DISK_REFUSES):
            self._refused.set()


def job() -> ParallelSGD:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)], seed=1)
    model.setup("mse")
    x = nn.random.keyed(1, "x").normal(size=(40, 4)).astype("f4")
    return ParallelSGD(model, ArrayDataset(x, x[:, :3]))


@pytest.mark.parametrize("policy", ["fail", "restart"])
def test_a_full_disk_before_a_failure_is_told_of(policy: str, tmp_path: Path) -> None:
    """In the report of the job that failed, and in that of the job that went on by another attempt."""
    with small_disk(tmp_path / "disk", 20_000) as disk, local_workers(1, work_dir=disk) as nodes:
        callbacks = [FullDisk(str(disk / "other"), str(tmp_path / "struck"))]
        with pytest.raises(JobFailed) if policy == "fail" else contextlib.nullcontext():
            job().parallel(
                nodes,
                epoch=12,
                block_size=4,
                checkpoint_every="epoch",
                callbacks=callbacks,
                directory=tmp_path,
                on_failure=policy,
            )
    folder = (tmp_path / "runs/latest").resolve()
    outcome, page = json.loads((folder / OUTCOME).read_text()), (folder / PAGE).read_text()
    assert outcome["state"] == ("failed" if policy == "fail" else "done")
    begins = "Node(0): " if policy == "fail" else "Node(0) in attempt 1: "
    assert outcome["notes"][0].startswith(begins) and "No space left on device" in outcome["notes"][0]
    heading = "What went wrong before" if policy == "fail" else "Something went wrong on the way, and the job went on"
    assert heading in page and "No space left on device" in page


def test_the_submitter_and_the_report_tell_of_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, SUBMIT_LOGGER)
    with small_disk(tmp_path / "disk", 20_000) as disk, local_workers(1, work_dir=disk) as nodes:
        result = job().parallel(
            nodes,
            epoch=12,
            block_size=4,
            checkpoint_every="epoch",
            callbacks=[FullDisk(str(disk / "other"))],
            directory=tmp_path,
        )
    said = [line for line in caplog.messages if re.match(r"Node\(0\): .*(goes on|again|Checkpoint)", line)]
    assert result.report is not None and len(said) == 2, said
    assert re.search("Node\\(0\\): .* (cannot be written|could not be saved), training goes on.*: .*No space left", said[0])
    assert re.search("Node\\(0\\): .*( is written again|Checkpoint after )", said[1])
    notes = json.loads((result.report.parent / OUTCOME).read_text())["notes"]
    assert [line.partition("Node(0): ")[2] for line in said] == [note.removeprefix("Node(0): ") for note in notes]
    assert "Something went wrong on the way, and the job went on" in result.report.read_text()
