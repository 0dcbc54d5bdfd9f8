"""`on_failure="restart"`: all processes of a failed job end, and all start again, as often as allowed and no more."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import nn
from parallel_sgd import JobFailed
from parallel_sgd import codec as codecs
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from tests.processes.harness import wait_for
from tests.processes.training.jobs import FOUR_BLOCKS, hearing, here, line_job, log_of, only_weights, said, some

from ...screen import Screen
from ...statements import covers

FAULTS = {"kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "segfault": lambda: ctypes.string_at(0)}


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
        if self.seen == GlobalSettings.get_params("when", 8) and self.node_id == 1:
            attempts = sum(line.startswith("1 ") for line in self.notes.read_text().splitlines())
            if attempts <= GlobalSettings.get_params("times"):
                FAULTS.get(str(GlobalSettings.get_params("fault")), self.fail)()
        return super().update_blocks(block_weight)

    def fail(self) -> None:
        raise ArithmeticError("bad luck")


def run(agents: LocalNodes | None, folder: Path, fault: str, times: int, **further: Any) -> Any:
    """On the first agents, or within this process."""
    folder.mkdir(exist_ok=True)
    parameters = {"notes": str(folder / "notes"), "fault": fault, "times": times, "when": further.pop("when", 8)}
    settings: dict[str, Any] = {"codec": {0: Unlucky}, "assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 3}
    settings |= {"codec_extra_parameters": parameters, "directory": folder, "on_failure": "restart"}
    job, workers = line_job(further.pop("samples", 24)), further.pop("workers", 2)
    if agents is None:
        return here(job, workers, **settings | further)
    return job.parallel(some(agents, workers), **settings | further)


def calm(folder: Path, **settings: Any) -> Any:
    """A run in which nothing fails."""
    return run(None, folder / "calm", "", 0, **settings)


def processes(folder: Path) -> list[int]:
    return [int(line.split()[1]) for line in (folder / "notes").read_text().splitlines()]


@covers("FD-9", "FD-10", "SUB-45")
def test_a_failure_is_survived(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever ends a process, here a segmentation fault, all start again without a checkpoint from the
    first epoch; the weights are those of a run without any failure. The last batch of an epoch has three samples, for three of
    four blocks. The other ends of a process are those of test_faults.py."""
    caplog.set_level(logging.INFO)
    undisturbed = calm(tmp_path, samples=27)
    assert undisturbed.restarts == 0 and len(undisturbed.ledger.committed) == 3 * 3 * 4
    result = run(agents, tmp_path, "segfault", 1, samples=27)
    assert result.restarts == 1
    assert only_weights(result) == only_weights(undisturbed)
    assert result.ledger.problems == () and set(result.ledger.committed[:, 4].tolist()) == {1, 2}
    assert len(set(processes(tmp_path))) == 4
    assert "All nodes start again from the newest state that any of them has (restart 1 of at most 3)." in said(caplog.records)
    with pytest.raises(ProcessLookupError):  # nothing is left of the first attempt
        os.kill(processes(tmp_path)[0], 0)


class Sleeper(Unlucky):
    """Worker 1 stops in epoch 3 of the first attempt."""

    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


@covers("FD-7", "FD-8", "FD-18")
def test_a_stuck_worker_costs_no_finished_epoch(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Stopped in the third epoch of five; the second attempt goes on in that epoch, and
    the weights are those of a calm run."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"epoch": 5, "codec": {0: Sleeper}, "stall_timeout": 3.0, "when": 11}
    undisturbed = calm(tmp_path, **settings)
    result = run(agents, tmp_path, "", 1, **settings)
    assert result.restarts == 1
    assert only_weights(result) == only_weights(undisturbed)
    for node, files in result.files.items():
        assert "Training goes on after 2 epochs" in log_of(result.files, node)
        (table,) = [path for path in files if path.name.startswith("EV-")]
        assert len(table.read_text().splitlines()) == 1 + 5
    told = "\n".join(said(caplog.records))
    assert "in epoch 3, batch" in told
    assert "stopped by a signal (state T)" in told


class SavedBefore(Unlucky):
    """Worker 1 is killed when its first checkpoint is on disk, which is written beside training, and worker 0, which may be a
    batch behind, is in the same batch."""

    def update_blocks(self, block_weight: Any) -> Any:
        if self.node_id == 0 and self.seen == 7:
            Path(f"{self.notes}.there").touch()
        return super().update_blocks(block_weight)

    def fail(self) -> None:
        wait_for(lambda: any(Path("checkpoints").glob("checkpoint-*.safetensors")), "the first checkpoint")
        wait_for(Path(f"{self.notes}.there").exists, "worker 0")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
@covers("FD-8")
@pytest.mark.parametrize(
    "codec", [codecs.TopK, *(pytest.param(codec, marks=pytest.mark.long) for codec in (codecs.RandomK, codecs.Ring))]
)
def test_codecs_that_count_or_remember(agents: LocalNodes, tmp_path: Path, codec: Any) -> None:
    """What a codec has counted goes on where the batch broke off; with one that remembers what it has not sent, all go
    back to the checkpoint of the last epoch. Either way the weights are those of a calm run."""
    settings: dict[str, Any] = {"codec": {0: SavedBefore, 1: codec}, "gd_type": nn.gradient_descent.SGDOptimizer}
    undisturbed = calm(tmp_path, **settings)
    result = run(agents, tmp_path, "", 1, **settings)
    assert (result.restarts, only_weights(result)) == (1, only_weights(undisturbed))
    assert result.ledger.problems == ()
    begins = "epoch 2." if codec is codecs.TopK else "epoch 2, batch 2."
    assert f"with {begins}" in log_of(result.files, 0)


@covers("FD-7", "SUB-12")
def test_the_first_attempt_is_gone_before_the_second_begins(
    agents: LocalNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who notes the pids of a new attempt finds no process of the one before, and whoever watches on a terminal sees one bar
    for each worker."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    result = run(agents, tmp_path, "kill", 2, codec={0: Watchful}, epoch=8, verbose=2)
    assert result.restarts == 2
    assert [row[:15] for row in screen.rows if "Worker(" in row] == ["Worker(0): 100%", "Worker(1): 100%"]
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


@covers("FD-20", "FD-12")
def test_no_more_than_max_restarts(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two failures in a row need two restarts; with one allowed the job fails, its files come home, and the nodes
    take the next job."""
    with pytest.raises(JobFailed, match=r"Node\(1\) failed: .*SIGKILL") as failed:
        run(agents, tmp_path, "kill", 5, max_restarts=1, epoch=8)
    reason = "it was started again as often as 'max_restarts' allows, 1."
    assert f"Giving up: {reason}" in said(caplog.records) and failed.value.reason == f"Given up: {reason}"
    page = unescape(Path(tmp_path, "runs", "latest", "report.html").read_text("utf-8"))
    assert f"The job had been started again 1 time before. Given up: {reason}" in page
    assert failed.value.files.keys() == {0, 1}
    assert log_of(failed.value.files, 1).count("Training begins") == 2  # one log holds both attempts
    assert run(agents, tmp_path / "next", "kill", 0).restarts == 0


class Told:
    """A writer that keeps what it is told, and makes `file` when the second epoch is."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.told: list[str] = []

    def start(self, config: Mapping[str, Any]) -> None:
        self.told.append(Path(config["run"]).name)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append((step, dict(values)))
        if values.get("epoch") == 2:
            self.file.touch()

    def finish(self, status: str) -> None:
        self.told.append(status)


class UntilTold(Unlucky):
    """Worker 1 is killed in the third epoch, when a writer knows of the second."""

    def fail(self) -> None:
        wait_for(Path(f"{self.notes}.told").exists, "the writer")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_writers_are_told_while_the_job_runs(agents: LocalNodes, tmp_path: Path) -> None:
    """Each batch once, with the figures of the history, although the job starts again."""
    writer = Told(tmp_path / "notes.told")
    result = run(agents, tmp_path, "", 1, codec={0: UntilTold}, epoch=4, when=12, writers=[writer], stall_timeout=60.0)
    assert (result.restarts, writer.told) == (1, ["P-SGD-1", "done"])
    steps = result.history.steps
    assert [(step, values["Loss"]) for step, values in writer.rows] == [(n, row["Loss"]) for n, row in enumerate(steps, 1)]
    tests = [(values["epoch"], values["val_Loss"]) for _, values in writer.rows if "epoch" in values]
    assert tests == [(row["epoch"], row["val_Loss"]) for row in result.history.rows]


class Together(Unlucky):
    """Worker 1 sends itself the signal `fault` in epoch 2, batch 2, when the others, which may be a batch behind, are there."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.job = GlobalSettings.current()

    def update_blocks(self, block_weight: Any) -> Any:
        if self.job.step == (1, 1):
            Path(f"{self.notes}.there-{self.node_id}").touch()
        return super().update_blocks(block_weight)

    def fail(self) -> None:
        there = [Path(f"{self.notes}.there-{node}") for node in range(3)]
        wait_for(lambda: all(path.exists() for path in there), "the other workers")
        os.kill(os.getpid(), signal.Signals[GlobalSettings.get_params("fault")])


@covers("EL-19", "EL-28", "FD-8", "SUB-45")
@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP"])
@pytest.mark.share(2)
def test_the_others_go_on(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """Without the worker that was killed, or that is stuck, the others go on after the last batch
    that was applied, numbered anew; the batch stays the same, so the weights are those of a calm run of three."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"workers": 3, "epoch": 4, "when": 5, "codec": {0: Together}, "on_failure": "shrink"}
    settings["samples"] = 27  # two whole batches, and one of three samples
    undisturbed = calm(tmp_path, **settings)
    result = run(agents, tmp_path, fault, 1, stall_timeout=3.0 if fault == "SIGSTOP" else 30.0, **settings)
    assert (sorted(undisturbed.models), sorted(result.models)) == ([0, 1, 2], [0, 1])
    assert (undisturbed.ledger.problems, result.ledger.problems) == ((), ())
    assert only_weights(result) == only_weights(undisturbed)
    assert result.restarts == 1
    page = Path(result.report or "").read_text("utf-8")
    assert f"Worker 1 {'died, killed by signal 9 (SIGKILL)' if fault == 'SIGKILL' else 'hung'}, in epoch" in page
    assert (
        "Training went on with epoch 2, batch 2, with workers 0 and 1." in page
        and "All were started again after a failure" in page
    )
    told = "\n".join(said(caplog.records))
    assert "2 nodes, numbered anew, start again from the newest state that any of them has" in told
    assert "Training goes on after 1 epoch and 1 batch, with epoch 2, batch 2." in log_of(result.files, 0)


@covers("EL-16")
def test_too_few_are_left(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Below `min_workers` the job fails, and says why."""
    with pytest.raises(JobFailed, match=r"Node\(1\) failed"):
        run(agents, tmp_path, "kill", 1, on_failure="shrink", min_workers=2)
    assert "Giving up: 1 workers are left, 'min_workers' is 2." in said(caplog.records)


def room(pid: int, is_there: bool) -> None:
    """Let a process write to files, or refuse every byte of it as a full disk does."""
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if is_there else 0, hard))


class FullForAMoment(Unlucky):
    """In the first attempt worker 0 has no room from the second batch to the second epoch; worker 1 is killed in that epoch,
    when its agent has none."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.first = not self.notes.exists()

    def update_blocks(self, block_weight: Any) -> Any:
        if self.first and self.node_id == 0 and self.seen in (3, 7):
            room(os.getpid(), self.seen == 7)
        return super().update_blocks(block_weight)

    def fail(self) -> None:
        self.notes.with_suffix(".agent").write_text(str(os.getppid()))
        room(os.getppid(), False)
        os.kill(os.getpid(), signal.SIGKILL)


@covers("FLT-26")
@pytest.mark.long
def test_disks_that_are_full_for_a_moment(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Under a worker, which trains on and loses no row; and under an agent, which refuses an attempt and takes the next
    one when there is room again."""
    caplog.set_level(logging.INFO)
    undisturbed = calm(tmp_path)
    refused: list[str] = []

    def make_room(text: str) -> None:
        if "Trying again" in text:
            refused.append(text)
            room(int((tmp_path / "notes.agent").read_text()), True)

    with hearing(make_room):
        result = run(agents, tmp_path, "", 1, codec={0: FullForAMoment})
    assert (len(refused), result.restarts, result.ledger.problems) == (1, 1, ())
    assert only_weights(result) == only_weights(undisturbed)
    told = "\n".join(said(caplog.records))
    assert "the job process cannot be started: File too large" in told and "File exists" not in told
    # but of the accounts, which are those of an attempt, of the processes, one more of which has trained, and of the parts of a
    # training that has gone on
    lengths = [
        {
            path.name: len(path.read_text().splitlines())
            for path in files
            if path.suffix == ".csv" and path.name[:2] not in ("AC", "ID", "DE")
        }
        for files in (result.files[0], undisturbed.files[0])
    ]
    assert lengths[0] == lengths[1] and len(lengths[0]) >= 4
