"""Workers join a running job and leave it, as discovery says; the batch stays the same, and so do the weights."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed, local_workers
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from tests.processes.training.jobs import FOUR_BLOCKS, here, line_job, only_weights, said, some

from ...statements import covers


class Unhurried(Plain):
    """A job that goes slowly until the file `hurry` is there: every batch takes as long as its slowest block."""

    def update_blocks(self, block_weight: Any) -> Any:
        if not Path(GlobalSettings.get_params("hurry")).exists():
            time.sleep(0.15)
        return super().update_blocks(block_weight)


class StopsOnce(Unhurried):
    """Worker 1 stands still in its ninth batch; the file `note` says which process does."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        note = Path(GlobalSettings.get_params("hurry")).with_name("note")
        if self.node_id == 1 and self.seen > 16 and not note.exists():
            draft = note.with_suffix(".draft")
            draft.write_text(str(os.getpid()))
            draft.rename(note)
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().update_blocks(block_weight)


def addresses(agents: LocalNodes, *which: int) -> list[str]:
    return [str(agents[node]) for node in which]


def begun(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said when attempts were."""
    return [line for line in said(caplog.records) if line.startswith("Waiting for (")]


def run(agents: LocalNodes, folder: Path, workers: int, **further: Any) -> Any:
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 30, "block_size": 2, "codec": {0: Unhurried}}
    if "codec" not in further or further["codec"]:
        settings["codec_extra_parameters"] = {"hurry": str(folder / "hurry")}
    return line_job(26).parallel(some(agents, workers), directory=folder, **settings | further)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 30, "block_size": 2}
    return only_weights(here(line_job(26), 4, tmp_path_factory.mktemp("calm"), **settings))


@covers("EL-11", "EL-13", "EL-15", "EL-18")
def test_workers_come_and_leave(agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """2, then 4, then 2 others of them; survivors come first, and the weights are those of a calm
    run of four, for no batch was lost or computed twice."""
    caplog.set_level(logging.INFO)

    def hosts() -> list[str]:
        """Others as soon as all of the last ones are at work."""
        changes = len(begun(caplog))
        if changes == 3:
            (tmp_path / "hurry").touch()
        return addresses(agents, *[(0, 1), (0, 1, 2, 3), (3, 1), (3, 1)][changes])

    result = run(agents, tmp_path, 2, discovery=hosts, min_workers=2, max_workers=4)
    assert only_weights(result) == calm
    assert result.ledger.problems == ()  # though two workers came, and one of the first took its disk away with it
    assert len(result.ledger.committed) == 30 * 4 * 4
    assert (sorted(result.models), result.restarts, result.failures) == ([0, 1], 0, {})
    told = said(caplog.records)
    assert [line for line in told if line.startswith("The hosts have changed")] == [
        "The hosts have changed: workers have come.",
        "The hosts have changed: workers have left.",
    ]
    assert begun(caplog) == ["Waiting for ({0, 1}) ...", "Waiting for ({0, 1, 2, 3}) ...", "Waiting for ({0, 1}) ..."]


@pytest.mark.long
@covers("EL-19", "EL-22", "INV-3")
def test_a_worker_takes_the_place_of_one_that_dies(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """The host of a worker that was killed, or that is stuck, is left alone, and another one that was to
    spare comes in, until none of the first is left; every block of every batch was applied exactly once."""
    faults = "kill 1@e3.b1; stop 0@e6.b2@a2"
    settings: dict[str, Any] = {"fault": faults, "min_workers": 1, "max_workers": 2, "codec": None, "stall_timeout": 3.0}
    result = run(agents, tmp_path, 2, discovery=lambda: addresses(agents, 0, 1, 2, 3), **settings)
    assert only_weights(result) == calm
    assert (sorted(result.models), result.restarts) == ([0, 1], 2)
    assert result.ledger.problems == ()
    attempts = result.ledger.committed[:, [0, 1, 4]].tolist()
    assert sorted(attempts, key=lambda row: row[2]) == attempts and {attempt for *_, attempt in attempts} == {1, 2, 3}
    assert result.ledger.path.read_text().splitlines()[0] == "epoch,batch,block,node,attempt,committed"


@pytest.mark.slow
@covers("FLT-24")
@pytest.mark.long
def test_a_worker_joins_during_a_stall(
    agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two stands still, and while the detector only suspects that, a third host appears: the job goes on with
    it, and every block of every batch was applied exactly once."""
    caplog.set_level(logging.INFO)
    note, ended = tmp_path / "note", tmp_path / "ended"

    def hosts() -> list[str]:
        late = note.exists() and any("half of what it may be" in line for line in said(caplog.records))
        if late and not ended.exists():  # it is the first look at hosts that have changed: the stall ends now
            ended.touch()
            os.kill(int(note.read_text()), signal.SIGCONT)
        if begun(caplog)[1:]:
            (tmp_path / "hurry").touch()
        return addresses(agents, *((0, 1, 2) if late else (0, 1)))

    settings: dict[str, Any] = {"codec": {0: StopsOnce}, "min_workers": 1, "max_workers": 3, "stall_timeout": 6.0}
    result = run(agents, tmp_path, 2, discovery=hosts, **settings)
    assert only_weights(result) == calm
    assert result.ledger.problems == () and len(result.models) >= 2
    assert "The hosts have changed: workers have come." in said(caplog.records)


@covers("EL-17")
@pytest.mark.long
def test_without_hosts_the_job_does_not_begin(agents: LocalNodes, tmp_path: Path) -> None:
    """a discovery that fails at the first call ends the job at once, and says how."""

    def broken() -> str:
        raise LookupError("no such rack")

    with pytest.raises(JobFailed, match=r"The first discovery of hosts failed: .*LookupError: no such rack"):
        run(agents, tmp_path, 2, discovery=broken)


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    with local_workers(1) as nodes:
        for settings, message in [
            ({"max_workers": 3}, "'max_workers' needs 'discovery'"),
            ({"discovery": list, "max_workers": 9}, r"'max_workers' can be at most the number of blocks in a batch, 4, got 9"),
            (
                {"discovery": list, "on_failure": "restart"},
                "'discovery' finds other nodes, so 'on_failure' can only be 'shrink'",
            ),
            ({"discovery": 5}, "discovery"),
        ]:
            with pytest.raises((ValueError, TypeError), match=message):
                run(nodes, tmp_path, 1, **settings)
