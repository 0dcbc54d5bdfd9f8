"""A disk that is full costs files and no result: training in this process goes on, and what is told is so."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from nn import tensor_files
from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from parallel_sgd.record import table
from parallel_sgd.run_page import outcome
from rpc.submit import run_folder
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp


def full_for(real: Callable[..., Any], begin: str) -> Callable[..., Any]:
    """Return a writer of files to which the disk refuses those whose name begins so."""

    def write(path: Path, *args: Any, **named: Any) -> Any:
        if Path(path).name.startswith(begin):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, *args, **named)

    return write


def trained(nodes: Any, folder: Path) -> Any:
    job = parallel_sgd.ParallelSGD(mlp(), Digits(), ImageCls())
    with nodes:
        return job.parallel(nodes, epochs=2, block_size=250, directory=folder)


@pytest.mark.parametrize("make", [parallel_sgd.in_process, parallel_sgd.simulated])
@pytest.mark.parametrize("kind", ["AC-", "TR-", "BY-"])
def test_a_table_that_is_never_written_ends_no_training(
    make: Callable[[int], Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The console follows the tables of a job while it trains, and does without one that is not there."""
    calm = trained(make(2), tmp_path / "calm")
    for name in ("publish", "append", "continued"):
        monkeypatch.setattr(table, name, full_for(getattr(table, name), kind))
    with caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        result = trained(make(2), tmp_path / "full")
    assert dict(result) == dict(calm)
    assert not list(tmp_path.glob(f"full/runs/*/*/{kind}*"))
    assert any("cannot be written, training goes on and its rows are kept: No space left" in line for line in caplog.messages)


@pytest.mark.parametrize("what", ["the record of the run", "the folder of a node"])
@pytest.mark.parametrize("make", [parallel_sgd.in_process, parallel_sgd.simulated])
def test_a_run_that_cannot_begin_is_told_in_a_sentence(
    make: Callable[[int], Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job file was written, and took the last room."""
    if what == "the record of the run":
        monkeypatch.setattr(run_folder, "publish", full_for(run_folder.publish, "job.json"))
    else:
        monkeypatch.setattr(Path, "mkdir", full_for(Path.mkdir, "Node-"))
    with pytest.raises(ValueError, match=r"^'directory' must be a folder that can be written to, got ") as caught:
        trained(make(2), tmp_path)
    assert str(caught.value) == (
        f"'directory' must be a folder that can be written to, got '{tmp_path}': No space left on device. "
        "Make room there, or name another one."
    )
    assert not list(tmp_path.glob("runs/P-SGD*"))


def test_a_run_without_models_does_not_say_that_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tensor_files, "write_file", full_for(tensor_files.write_file, "MODEL-"))
    monkeypatch.setattr(outcome, "publish", full_for(outcome.publish, "outcome"))  # nor is there a page then
    with caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        result = trained(parallel_sgd.in_process(1), tmp_path)
    assert result["accuracy"] > 0
    assert (
        f"The report of the run could not be written ({tmp_path}/runs/P-SGD-1/outcome.json: No space left on device). "
        f"When that is mended, 'psgd report {tmp_path}/runs/P-SGD-1' writes it from what is there."
    ) in caplog.messages
    told = [line for line in caplog.messages if line.startswith("The run is done")]
    assert told == [f"The run is done, and what could be written of it, without a model, is in {tmp_path}/runs/P-SGD-1."], (
        caplog.text
    )
