"""`fault=`: what a job asks to go wrong goes wrong, at that step, once; and what the policies make of it."""

from __future__ import annotations

import contextlib
import csv
import errno
import logging
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network import NetworkError
from network.faults.proxy import Proxy
from nn.model import SequentialModel
from parallel_sgd import JobFailed, ParallelSGD, in_process
from parallel_sgd.codec import Codec, GlobalSettings, Int8, TopK, netEncapsulation
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from rpc import monitor
from tests.processes.harness import SLACK, wait_for
from tests.processes.training.jobs import (
    FOUR_BLOCKS,
    assert_serves,
    hearing,
    here,
    line_job,
    log_of,
    marking,
    only_weights,
    said,
    some,
)

from ...statements import covers

STALL = 3.0  # seconds that a batch may take where somebody is to be found stuck; nobody else may take as long
LONG_PAUSE = 1.4 * STALL
WAKE_SECONDS = 0.05


def run(agents: LocalNodes, folder: Path, fault: str, workers: int = 3, **further: Any) -> Any:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2, "on_failure": "restart"}
    settings |= {"fault": fault, "directory": folder, "stall_timeout": 30.0}
    return line_job().parallel(some(agents, workers), **settings | further)


def fired(folder: Path, fault: str) -> int:
    """How often a clause has been injected, by the logs of all nodes."""
    lines = [line for path in folder.glob("Node-*-Retrieve/Fit-*.log") for line in path.read_text("utf-8").splitlines()]
    return sum("Injected fault in attempt" in line and line.endswith(f": {fault}.") for line in lines)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2}
    return only_weights(here(line_job(), 3, tmp_path_factory.mktemp("calm"), **settings))


def image_job() -> ParallelSGD:
    """A network of 118,282 parameters, and six batches for two workers."""
    model = SequentialModel(input_shape=[-1, 784], seed=1)
    for _ in range(2):
        model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    x = nn.random.keyed(0, "images").normal(size=(48, 784)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[np.arange(48) % 10]
    return ParallelSGD(model, nn.dataset.ArrayDataset(x, y, x[:2], y[:2]))


@pytest.mark.slow
@covers("FLT-9")
@pytest.mark.parametrize(
    ("codec", "fault", "rate", "rounds"),
    [
        (Plain, "throttle 0-1 10mbit; +20ms 0-1", 1.25e6, 1),
        (Plain, "throttle 0-1 10mbit; +200ms 0-1", 1.25e6, 1),
        (TopK, "throttle 0-1 1mbit; +200ms 0-1", 125e3, 1),
        (Int8, "throttle 0-1 1mbit; +200ms 0-1", 125e3, 2),
    ],
)
@pytest.mark.long
def test_a_link_that_is_throttled_and_late(
    agents: LocalNodes, tmp_path: Path, codec: type[Codec], fault: str, rate: float, rounds: int
) -> None:
    """A step takes what its bytes need on the link, and its delay once for each round of the codec, whose second may begin
    before the first is over: on the average no less, and at best not 1 % more than that and the same step without the fault,
    plus the time in which a busy system wakes those that wait."""
    fastest = []
    for plan in (fault, ""):
        settings: dict[str, Any] = {
            "gd_type": nn.gradient_descent.SGDOptimizer,
            "gd_params": (0.01,),
            "ssgd_timeout_limit": 60_000,
        }
        settings |= {"epoch": 1, "block_size": 4, "codec": codec, "fault": plan, "directory": tmp_path / str(bool(plan))}
        result = image_job().parallel(some(agents, 2), **settings)
        (table,) = (tmp_path / str(bool(plan))).rglob("TR-*-N(0).csv")
        with table.open(newline="", encoding="utf-8") as file:
            times = [float(row["Time"]) for row in csv.DictReader(file)]
        fastest.append(min(np.diff(times)[1:]))
        if plan:
            sent = sum(entry.wire for entry in result.accounts[0] if entry.direction == "sent" and entry.peer == 1) / len(times)
            delay = float(fault.partition("+")[2].partition("ms")[0]) / 1000
            average = float(np.mean(np.diff(times)))
    assert len(times) == 6 and average >= 0.99 * (sent / rate + delay)
    assert fastest[0] <= 1.01 * (sent / rate + rounds * delay) + fastest[1] + WAKE_SECONDS


@covers("FLT-1", "FLT-2", "FLT-5", "FLT-6", "INV-3")
@pytest.mark.parametrize(
    ("fault", "workers"),
    [
        pytest.param("kill 1@e2.b2", 2, id="FLT-1"),
        pytest.param("stop 2@e1.b3", 3, id="FLT-2"),
        pytest.param("raise 0@e3.b1", 2, id="FLT-5"),
        pytest.param("nan 1@e2.b1", 3, id="FLT-6"),
        pytest.param("exit 1@e2 code 3", 2, id="FLT-5, exit"),
        pytest.param("hang 1@e2.b3", 2, id="FLT-2, hang"),
    ],
)
@pytest.mark.share(12)
def test_faults_of_a_process(agents: LocalNodes, tmp_path: Path, calm: bytes, fault: str, workers: int) -> None:
    """It fires once, the job starts again, and the weights are those of a calm run; every
    block of every batch was applied exactly once."""
    hangs = {"stall_timeout": STALL} if fault.startswith(("stop", "hang")) else {}
    result = run(agents, tmp_path, fault, workers, **hangs)
    assert result.restarts == 1
    assert only_weights(result) == calm
    assert result.ledger.problems == ()
    assert fired(tmp_path, fault) == 1


@covers("FLT-9", "FLT-7", "FLT-2", "INV-9", "FLT-10", "SUB-23")
def test_faults_that_pass(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """Slow links, and a link or a worker that stands still for less than anybody's patience, change
    nothing. FLT-10, SUB-23: no more do messages that come twice or in another order."""
    once = (
        "throttle 0>2@e1.b1 80kbit for 1s",
        "+100ms 0>1@e1.b2 for 1s",
        "stop 2@e1.b3 for 300ms",
        "swallow 1>2@e2.b1 for 500ms",
    )
    by_both = ("duplicate 0-1@e3.b1", "reorder 1-2@e3.b2")  # ends of the link
    result = run(agents, tmp_path, "; ".join(once + by_both))
    assert (result.restarts, only_weights(result)) == (0, calm)
    assert [fired(tmp_path, fault) for fault in once] == [1] * 4
    assert [fired(tmp_path, fault) for fault in by_both] == [2] * 2


@covers("FLT-8", "INV-11", "SUB-40")
def test_a_link_that_is_cut(agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Both ends lose each other, nobody is to blame; under 'shrink' all three go on in the next attempt. That link goes over
    TCP, so that no byte gets around the fault; the others stay on the host's Unix sockets."""
    caplog.set_level(logging.INFO)
    result = run(agents, tmp_path, "cut 0-2@e2.b2", on_failure="shrink")
    assert (result.restarts, sorted(result.models)) == (1, [0, 1, 2])
    assert only_weights(result) == calm
    links = {(node, entry.peer): entry.transport for node, entries in result.accounts.items() for entry in entries}
    assert links == {(a, b): "tcp" if {a, b} == {0, 2} else "unix" for a in range(3) for b in range(3) if a != b}
    assert any(line.startswith("All nodes start again") for line in said(caplog.records))


@pytest.mark.long
@covers("FLT-7", "FLT-8")
def test_links_that_swallow(agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """a link that brings nothing more in either direction, and in the next attempt one that does so in one: all
    wait, no connection ends, nobody is stuck. The link is named, and no batch is lost."""
    faults = ("swallow 1-2@e2.b1", "swallow 0>1@e3.b1@a2")
    result = run(agents, tmp_path, "; ".join(faults), stall_timeout=STALL)
    assert (result.restarts, only_weights(result)) == (2, calm)
    assert [fired(tmp_path, fault) for fault in faults] == [2, 1]  # by both ends of the link, and by the one that sends
    told = "\n".join(said(caplog.records))
    for link in ("Node(1) to Node(2)", "Node(2) to Node(1)", "Node(0) to Node(1)"):
        assert re.search(rf"messages are lost on the way from (.*, )?{re.escape(link)} \(\d+ of \d+ came\)", told)


@covers("FLT-27")
@pytest.mark.parametrize("fault", ["swallow 0-2@e2.b1@a*", "swallow 0>2@e2.b1@a*"], ids=["both", "one"])
@pytest.mark.share(2)
def test_one_dead_link_costs_one_worker(
    agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """0 and 2 reach everybody else; under 'shrink' one of the two is left out, and the job goes on with equal bits."""
    caplog.set_level(logging.INFO)
    result = run(agents, tmp_path, fault, on_failure="shrink", stall_timeout=STALL)
    assert (result.restarts, sorted(result.models), only_weights(result)) == (1, [0, 1], calm)
    assert result.ledger.problems == ()
    (told,) = [line for line in said(caplog.records) if re.match(r"Node\(2\) on .*cut off from nodes that wait", line)]
    assert "messages are lost on the way from Node(0) to Node(2) (" in told


@covers("FLT-28")
@pytest.mark.long
def test_a_mute_host_costs_one_worker(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its connection stands and takes everything; it is named within 3 s, and 'shrink' goes on without it."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"epoch": 60, "block_size": 2, "assignment_type": FOUR_BLOCKS}
    calm = here(line_job(), 3, tmp_path / "calm", **settings)
    moments: dict[str, float] = {}
    with Proxy() as proxy:
        route = proxy.route(agents[2])
        assert route.address is not None

        def mute(text: str) -> None:
            """When the job runs, nothing more of what the agent sends comes through."""
            if text.startswith("Waiting for (") and "cut" not in moments:
                route.back.swallow()
                moments["cut"] = time.monotonic()
            elif "its host has been silent for" in text:
                moments.setdefault("named", time.monotonic())

        with hearing(mute):
            slow = {"fault": "+60ms 0-1", "on_failure": "shrink"}  # until then
            result = line_job().parallel(some(agents, 2).add(2, route.address), directory=tmp_path, **settings, **slow)
    assert (result.restarts, sorted(result.models), result.ledger.problems) == (1, [0, 1], ())
    assert only_weights(result) == only_weights(calm)
    assert 0.0 < moments["named"] - moments["cut"] <= 3.0 + SLACK
    assert_serves(agents, 3, tmp_path)


class BadDay(Plain):
    """The disk of worker 0 is full, worker 1 dies while it writes its second checkpoint; worker 2 is slow, its clock jumps, and
    it stands still between its first two batches, for longer than a batch may take.

    Whatever is written is synchronised, so that is where it happens, in the first attempt. Worker 1 does not die before the
    disk of worker 0 has refused.
    """

    real_time = staticmethod(time.time)

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.seen = self.saved = 0
        self.note = Path(GlobalSettings.get_params("note"))
        self.refused = self.note.with_suffix(".refused")

    def _begin(self) -> None:
        if self.node_id < 2:
            os.fsync = self._synchronise
        else:
            self.batch_end = monitor.job_monitor.batch_end
            monitor.job_monitor.batch_end = self._pause

    def _pause(self) -> None:
        monitor.job_monitor.batch_end = self.batch_end
        self.batch_end()
        subprocess.Popen(["/bin/sh", "-c", f"sleep {LONG_PAUSE}; kill -CONT {os.getpid()}"])
        self.record(f"It stands still for {LONG_PAUSE} s.")
        os.kill(os.getpid(), signal.SIGSTOP)

    def _synchronise(self, _descriptor: int) -> None:
        self.saved += 1
        if self.note.exists():
            return
        if self.node_id == 0:
            self.refused.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.saved > 2 and self.refused.exists():  # the first one synchronised the file and its folder
            self.note.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.seen == 1:  # a batch, so this is a job process
            self._begin()
        if self.node_id == 2:
            time.sleep(0.05)  # ten times the usual
            jump = 3600.0 * (-1) ** self.seen
            time.time = lambda: self.real_time() + jump
        return super().update_blocks(block_weight)


@pytest.mark.long
@covers("FLT-3", "FLT-12", "FLT-13", "FLT-18", "FLT-23", "FD-4", "INV-5")
def test_a_full_disk_a_death_while_saving_a_slow_worker_and_a_clock_that_jumps(
    agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """a full disk is a warning; of the worker that dies only the file is
    lost that it was writing; a slow worker whose clock jumps back and forth, and which is stopped between two batches, is not
    accused, and no batch is lost."""
    note = tmp_path / "note"
    settings: dict[str, Any] = {"codec": {0: BadDay}, "codec_extra_parameters": {"note": str(note)}, "checkpoint_every": 1}
    result = run(agents, tmp_path / "run", "", stall_timeout=STALL, **settings)
    assert note.exists() and (result.restarts, only_weights(result)) == (1, calm)
    verdicts = [line for line in said(caplog.records) if line.startswith("Node(") and "attempt 1" in line]
    assert "Node(1)" in verdicts[0] and "SIGKILL" in verdicts[0]
    assert not [line for line in said(caplog.records) if line.startswith("Node(2)") and ("silent" in line or "stuck" in line)]
    assert "could not be saved, training goes on: [Errno 28]" in log_of(result.files, 0)
    assert "Training goes on after" in log_of(result.files, 1)
    assert "It stands still" in log_of(result.files, 2)


class UntilWarned(Plain):
    """Worker 2 computes in its third batch until worker 0 has warned of it."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        warned = Path(GlobalSettings.get_params("warned"))
        if self.node_id == 0 and self.seen == 1:
            logging.getLogger().addHandler(_Warned(warned))
        if self.node_id == 2 and self.seen == 3:
            wait_for(warned.exists, "the warning of worker 0")
        return super().update_blocks(block_weight)


class _Warned(logging.Handler):
    """Handler that makes `file` when a time-out leaves the word to the failure detector."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        if "The failure detector will say more." in record.getMessage():
            self._file.touch()


@covers("SUB-25", "FD-19", "FD-18")
def test_the_time_out_waits_for_the_verdict(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """Two periods of T end between the warning and the verdict; what the submitter is told is the
    verdict, and no time-out. Where the job would start again, a worker that is slow but not stuck costs no restart."""
    parameters = {"warned": str(tmp_path / "warned")}
    settings: dict[str, Any] = {"stall_timeout": 30.0, "ssgd_timeout_limit": 300, "codec_extra_parameters": parameters}
    slow = run(agents, tmp_path / "slow", "", codec={0: UntilWarned}, **settings)
    assert (slow.restarts, only_weights(slow)) == (0, calm)
    assert "The failure detector will say more." in log_of(slow.files, 0)
    with pytest.raises(JobFailed) as info:
        run(agents, tmp_path, "stop 2@e1.b3", stall_timeout=4.0, ssgd_timeout_limit=1900, on_failure="fail")
    assert (info.value.verdicts[0].node, info.value.verdicts[0].kind) == (2, "stuck")
    assert 4.0 < info.value.verdicts[0].seconds <= 4.5 + SLACK
    assert "Time out" not in str(info.value) and "TimeoutError" not in str(info.value)
    assert fired(tmp_path, "stop 2@e1.b3") == 1


@covers("FLT-4")
def test_a_worker_that_returns_from_the_dead(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """Host and worker stand still, the others go on without them; when they wake up, they are of an attempt that is
    over: their packets reach nobody, and the host serves the next job."""
    with marking(tmp_path / "runs-now") as runs:
        parameters = {"note": str(tmp_path / "note"), "runs": str(runs)}
        result = run(agents, tmp_path, "", on_failure="shrink", codec={0: Zombie}, codec_extra_parameters=parameters)
    assert (result.restarts, sorted(result.models), only_weights(result)) == (1, [0, 1], calm)
    wait_for(lambda: serves(agents, tmp_path), "the host that stood still to serve again")


def serves(agents: LocalNodes, folder: Path) -> bool:
    try:
        assert_serves(agents, 3, folder)
    except NetworkError:
        return False
    return True


class Zombie(Plain):
    """Worker 2 stops its agent and then itself, when the submitter knows that all run, and notes both; when the others train on
    without it, they wake both up."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        note = Path(GlobalSettings.get_params("note"))
        if self.node_id == 2 and self.seen == 3:
            wait_for(Path(GlobalSettings.get_params("runs")).exists, "the submitter to know that all run")
            note.write_text(f"{os.getppid()} {os.getpid()}")
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif GlobalSettings.get_default().node_count == 2:
            for pid in map(int, note.read_text().split() if self.seen == 2 else ()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
        return super().update_blocks(block_weight)


class Liar(Plain):
    """The second of three workers sends what is not finite, in its third batch."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        packet = super().update_blocks(block_weight)
        self.seen += 1
        if (self.node_id, self.seen, GlobalSettings.get_default().node_count) == (1, 3, 3) and packet is not None:
            low, high, total = packet.content
            return netEncapsulation(packet.targets, (low, high, np.full_like(total, np.inf)))
        return packet


@covers("SEC-12")
def test_what_cannot_be_merged_names_its_sender(
    agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The others refuse it before it reaches a parameter, naming node, codec, variable and batch; it is the sender
    without which they go on."""
    result = run(agents, tmp_path, "", codec={0: Liar}, on_failure="shrink")
    refusal = "BadContent: Node(1) sent what cannot be used, for Liar, variable 0 (dense_1/kernel), epoch 1, batch 3: "
    assert any(f"{refusal}2 of 2 numbers are not finite" in line for line in said(caplog.records))
    assert (result.restarts, sorted(result.models), only_weights(result)) == (1, [0, 1], calm)
    assert any(line.startswith("2 nodes, numbered anew, start again") for line in said(caplog.records))


@covers("FD-20")
def test_a_fault_in_every_attempt(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What fails three times at the same place is not tried a fourth time."""
    with pytest.raises(JobFailed, match="epoch 2, batch 1"):
        run(agents, tmp_path, "kill 1@e2.b1@a*", workers=2, max_restarts=9)
    assert "Giving up: the same failure has come 3 times at the same place, so it would come again." in said(caplog.records)


@covers("FLT-19", "FLT-21")
@pytest.mark.long
def test_a_second_fault_while_the_first_is_mended(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """Another worker dies at the very batch with which the second attempt goes on. Two of three die in the same batch, or one
    after the other; the last one goes on alone, with the same batches. There worker 2 may be told to end before it comes to
    that batch; then it is worker 1 of the next attempt."""
    result = run(agents, tmp_path, "kill 1@e2.b2; kill 0@e2.b2@a2")
    assert (result.restarts, only_weights(result)) == (2, calm)
    assert fired(tmp_path, "kill 0@e2.b2@a2") == 1
    result = run(agents, tmp_path / "alone", "kill 1@e2.b2@a*; kill 2@e2.b2", on_failure="shrink")
    assert (sorted(result.models), only_weights(result)) == ([0], calm)


@pytest.mark.parametrize("settings", [{"fault": "kill 1@e1"}, {"discovery": list}], ids=str)
@pytest.mark.share(2)
def test_what_needs_processes_of_its_own(settings: dict[str, Any], tmp_path: Path) -> None:
    """Within the user's own process nobody is killed, and nobody joins."""
    with in_process(2) as nodes, pytest.raises(ValueError, match=r"'\w+' needs nodes with processes of their own"):
        line_job().parallel(nodes, directory=tmp_path, **settings)
