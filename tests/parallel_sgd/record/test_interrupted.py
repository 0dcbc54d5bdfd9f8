"""Ctrl-C after the first one, and after the last batch: the run keeps its end, and the console says what is left to do."""

from __future__ import annotations

import json
import logging
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nn.callback import Callback
from nn.dataset import SimData
from parallel_sgd.driver.standstill import StandstillWatch
from parallel_sgd.record.files import PAGE
from parallel_sgd.run_page import outcome
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.run_page.story import why_none
from parallel_sgd.writers.console import JobConsole
from parallel_sgd.writers.live import Followers
from rpc.submit import RunFolder
from rpc.support.logs import SUBMIT_LOGGER
from tests.statements import covers

from .runs import train

#: The call of `train`, as it goes on.
CALL = "job.parallel(here, **{**OPTIONS, **options}, resume='last')"


class Press(Callback):
    """Press Ctrl-C after the first epoch."""

    def on_epoch_end(self, epoch: int, logs: Any) -> None:
        signal.raise_signal(signal.SIGINT)


class Silent:
    """A writer that keeps nothing."""

    def start(self, config: Any) -> None: ...

    def log(self, step: int, values: Any) -> None: ...

    def finish(self, status: str) -> None: ...


def pressing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Press Ctrl-C when the function begins."""

    def pressed(*given: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return function(*given, **named)

    return pressed


def state_of(directory: Path) -> str:
    return str(json.loads((directory / "runs/P-SGD-1/outcome.json").read_text())["state"])


@covers("SUB-44")
def test_the_outcome_is_written_before_a_second_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outcome, "publish", pressing(outcome.publish))
    with pytest.raises(KeyboardInterrupt):
        train(directory=tmp_path, callbacks=[Press()])
    assert state_of(tmp_path) == "stopped"
    assert [each for each in caplog.messages if "Ctrl-C" in each] == [
        "The job was stopped by Ctrl-C.",
        f"Ctrl-C stopped the report; 'psgd report {tmp_path}/runs/P-SGD-1' writes it.",
    ]


@covers("SUB-44")
@pytest.mark.parametrize(("owner", "name"), [(StandstillWatch, "end"), (outcome.Outcome, "done")])
def test_a_run_that_has_its_result_is_done(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, name, pressing(getattr(owner, name)))
    with pytest.raises(KeyboardInterrupt):
        train(directory=tmp_path)
    assert state_of(tmp_path) == "done" and "The job was stopped by Ctrl-C." not in caplog.messages


@covers("SUB-44")
@pytest.mark.parametrize(("callbacks", "state"), [([Press()], "stopped"), ([], "done")])
def test_a_report_that_is_stopped_is_written_later(
    callbacks: list[Callback],
    state: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(outcome, "write_page", pressing(outcome.write_page))
    with pytest.raises(KeyboardInterrupt):
        train(directory=tmp_path, callbacks=callbacks)
    assert state_of(tmp_path) == state
    told = [each for each in caplog.messages if "Ctrl-C" in each]
    assert told.pop() == f"Ctrl-C stopped the report; 'psgd report {tmp_path}/runs/P-SGD-1' writes it."
    assert told == ["The job was stopped by Ctrl-C."] * len(callbacks)


@covers("SUB-44")
@pytest.mark.parametrize("moment", ["publish", "write_page", "RunRecords.read"])
@pytest.mark.parametrize("every", ["epoch", None])
def test_how_a_run_goes_on_is_told_without_its_report(
    every: str | None, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second Ctrl-C may come before its tables are read."""
    owner, _, name = moment.rpartition(".")
    place = outcome.RunRecords if owner else outcome
    original = getattr(place, name)

    def pressed(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(place, name, original)
        signal.raise_signal(signal.SIGINT)
        return original(*given, **named)

    monkeypatch.setattr(place, name, pressed)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        train(directory=tmp_path, callbacks=[Press()], checkpoint_every=every)
    said = caplog.messages[-1]
    assert said == ("It cannot go on, for it kept no checkpoints." if every is None else f"go on    {CALL}")


class PressFirst(Callback):
    """Press Ctrl-C before the first batch."""

    def on_epoch_begin(self, epoch: int) -> None:
        signal.raise_signal(signal.SIGINT)


@covers("SUB-44")
@pytest.mark.parametrize("every", ["epoch", None])
def test_a_run_that_had_gone_on_goes_on_from_there_again(
    every: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the run between had no checkpoint either. Once that checkpoint has gone, none is spoken of."""
    train(directory=tmp_path, checkpoint_every="epoch")
    said = "It had gone on from P-SGD-1, whose newest checkpoint is after 2 epochs"
    for folder in ("P-SGD-2", "P-SGD-3"):
        caplog.clear()
        with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO, SUBMIT_LOGGER):
            train(directory=tmp_path, checkpoint_every=every, epoch=4, callbacks=[PressFirst()], resume="last")
        ended = [each for each in caplog.messages if each.startswith(("It ", "go on "))]
        assert ended == [f"{said}: it goes on from there again.", "go on    the same call of parallel(), with resume='last'"]
        assert said in (tmp_path / "runs" / folder / PAGE).read_text()
    shutil.rmtree(tmp_path / "runs/P-SGD-1")
    assert why_none(RunRecords.read(tmp_path / "runs/P-SGD-3")).startswith("It cannot go on, for it ")


class Stopped(SimData):
    """Data that are long in coming."""

    def load(self) -> Any:
        signal.raise_signal(signal.SIGINT)
        return super().load()


@covers("SUB-44")
def test_a_job_that_had_not_begun_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While its data are loaded, and before its run is there."""
    for stopped in (lambda: train(Stopped(samples=120, features=6, classes=3), directory=tmp_path), None):
        caplog.clear()
        if stopped is None:
            monkeypatch.setattr(RunFolder, "begin", pressing(RunFolder.begin))
        with pytest.raises(KeyboardInterrupt):
            stopped() if stopped else train(directory=tmp_path)
        assert caplog.messages == ["The job, of which nothing had been trained, was stopped by Ctrl-C."]
        assert not list(tmp_path.glob("runs/P-SGD-*"))


@covers("SUB-44")
def test_a_run_that_is_done_says_where_its_models_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where its report is stopped."""
    monkeypatch.setattr(outcome, "write_page", pressing(outcome.write_page))
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        train(directory=tmp_path)
    assert caplog.messages[-1] == f"The run is done, and its models are in {tmp_path}/runs/P-SGD-1."
    assert list(tmp_path.glob("runs/P-SGD-1/*/MODEL-*.model"))


@covers("SUB-44")
@pytest.mark.parametrize("writers", [[], [Silent()]])
def test_the_end_of_the_console_is_called_what_it_is(
    writers: list[Silent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without writers nothing is said of what they get."""
    monkeypatch.setattr(Followers, "done", pressing(Followers.done))
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        train(directory=tmp_path, writers=writers)
    what = "What the writers get at the end" if writers else "The console of the job"
    assert [each for each in caplog.messages if "Ctrl-C" in each] == [f"{what} was stopped by Ctrl-C."]
    assert any(each.startswith("model    ") for each in caplog.messages), caplog.messages


@covers("SUB-44")
def test_the_last_lines_of_a_job_that_is_done_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(JobConsole, "done", pressing(JobConsole.done))
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO, SUBMIT_LOGGER):
        train(directory=tmp_path)
    assert not [each for each in caplog.messages if "Ctrl-C" in each]
    assert any(each.startswith("model    ") for each in caplog.messages), caplog.messages
    assert (tmp_path / "runs/P-SGD-1/manifest.json").exists()
