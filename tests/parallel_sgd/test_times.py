"""What a node spends its time on: every second once."""

from __future__ import annotations

import csv
from collections.abc import Generator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.wire import Sent
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import ParallelSGD, Parameter_Server, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import Answering, AsyncPS, BlockWeight, netEncapsulation
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.accounts import RECEIVED, SENT, Accounts, Entry, NodeAccounts, Stopwatch, Times
from parallel_sgd.engine.channel import Key, Wait
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.report import BLOCKS, KINDS, TrainingReport
from parallel_sgd.record.tables import read_columns
from tests.parallel_sgd.networks import mlp

from ..statements import covers
from .stub_channel import StubChannel


class Time:
    """Passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


NOTHING = Wait(lambda: True, None, str)


def test_every_second_is_counted_once() -> None:
    time = Time()
    watch = Stopwatch(time)
    assert watch.times().total == 0

    def process() -> Generator[Wait, None, dict[str, float]]:
        time.now += 1  # computing
        watch.encode += 2
        time.now += 2
        yield NOTHING
        time.now += 4
        assert watch.times() == (5, 2, 8, 16, 32)
        return {"Loss": 0.5}

    timed = watch.timed(process())
    next(timed)
    watch.send += 8  # within the wait, as the driver asks for what is there
    watch.merge += 32
    time.now += 8 + 16 + 32
    with pytest.raises(StopIteration) as end:
        next(timed)
    assert end.value.value == {"Loss": 0.5}
    time.now += 1000
    assert watch.times() == Times(compute=5, encode=2, send=8, wait=16, merge=32)
    assert watch.times().total == 63


def test_a_process_that_is_closed_or_fails_is_timed_until_then() -> None:
    time = Time()
    closed = []

    def process() -> Generator[Wait, None, dict[str, float]]:
        try:
            time.now += 3
            yield NOTHING
            raise OSError("a codec's own")
        finally:
            closed.append(True)

    first, second = Stopwatch(time), Stopwatch(time)
    early, failing = first.timed(process()), second.timed(process())
    next(early)
    early.close()
    next(failing)
    with pytest.raises(OSError, match="own"):
        next(failing)
    time.now += 1000
    assert closed == [True, True]
    assert first.times().total == 3 and second.times().total == 3


class SlowWire(StubChannel):
    """Posting takes 1 s and flushing 10 s."""

    def __init__(self, time: Time) -> None:
        super().__init__(here={1}, size=Sent(1 << 20, 0))
        self.time = self.clock = time

    def post(self, target: int, key: Key, content: object) -> Sent | None:
        self.time.now += 1
        return super().post(target, key, content)

    def flush(self) -> None:
        self.time.now += 10


def test_codecs_and_wire_are_told_apart() -> None:
    """Packets that leave while a block is encoded, because many bytes wait, are no time of the codec."""
    time = Time()

    class Slow(Answering):
        def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
            time.now += 100
            return netEncapsulation(1, block_weight.content)

        def receive_blocks(self, content: object) -> netEncapsulation:
            time.now += 1000
            return netEncapsulation(1, None)

        def answer(self, node: int) -> netEncapsulation:
            time.now += 10000
            return netEncapsulation(node, None)

    bank = copy_context().run(CodecBank, [Slow], JobSettings(IIDBlockAssignment(2)), SlowWire(time), 0)
    watch = bank.accounts.watch

    def process() -> Generator[Wait, None, dict[str, float]]:
        bank.update(0, 0, np.zeros(4, np.float32))
        assert (watch.encode, watch.send) == (101, 10)
        bank.receive(0, None)
        assert (watch.merge, watch.send) == (1001, 20)
        bank.answer(0, 1, (0, 0))
        bank.flush()
        time.now += 7
        return {}
        yield

    assert list(watch.timed(process())) == []
    assert watch.times() == Times(compute=7, encode=101 + 10001, send=30, wait=0, merge=1001)


@covers("SUB-40")
def test_a_job_reports_times_and_packets(tmp_path: Path) -> None:
    """In the tables, and in the result; sums are conserved."""
    with in_process(2, ps=True) as nodes:
        result = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes, block_size=32, epoch=2, assignment_type=FixedBlockAssignment.of(4), directory=tmp_path, mission_title="T"
        )
    for node in (0, 1):
        times, entries = result.accounts[node].times, result.accounts[node]
        assert min(times) > 0
        folder = tmp_path / f"Node-{node}-Retrieve"
        epochs = list(csv.DictReader((folder / f"TI-T-N({node}).csv").read_text().splitlines()))
        assert [row["Epochs"] for row in epochs] == ["1", "2"]
        for row in epochs:
            parts = [float(row[name.capitalize()]) for name in Times._fields]
            assert float(row["Total"]) == pytest.approx(sum(parts), abs=1e-5)
        # what comes after the last epoch takes what a busy machine makes of it
        assert 0 < sum(float(row["Total"]) for row in epochs) <= times.total + 1e-5
        rows = list(csv.DictReader((folder / f"AC-T-N({node}).csv").read_text().splitlines()))
        assert [row["Name"] for row in rows[:2]] == ["dense_1/kernel", "dense_1/bias"]
        columns = ("Codec", "Variable", "Peer", "Direction", "Transport", "Packets", "Raw", "Wire", "Overhead")
        assert [[row[name] for name in columns] for row in rows] == [[str(field) for field in entry] for entry in entries]
        assert {path.name.partition("-")[0] for path in result.files[node]} == {*KINDS, BLOCKS, "LEDGER", "MODEL"}
        assert all(path.is_file() for path in result.files[node])
        batches = read_columns(folder / f"BA-T-N({node}).csv")
        assert len(batches["Time"]) == 2 * len(set(zip(batches["Batches"], strict=True))) > 20
        total, put, sent = (np.array(batches[name]) for name in ("Total", "Put", "Sent"))
        phases = ("Data", "Compute", "Encode", "Send", "Wait", "Merge", "Rule")
        assert total == pytest.approx(sum(np.array(batches[name]) for name in phases), abs=1e-5)
        assert (put > 0).all() and (put <= total).all() and (sent <= total).all() and set(batches["Peer"]) <= {-2, ""}
        assert float(total.sum()) < times.total
        costs = read_columns(folder / f"CO-T-N({node}).csv")
        assert sum(map(float, costs["Encode"])) == pytest.approx(times.encode, rel=0.1) and len(costs["Name"]) == 6
    history = result.history
    assert history["val_Loss"][-1] == pytest.approx(result["Loss"], rel=1e-3) and history["epoch"] == [1, 2]
    assert history["Loss"] == pytest.approx(np.mean([worker["Loss"] for worker in history.workers.values()], axis=0))
    assert len(history.steps) == len(batches["Time"]) and history.steps[0]["batch"] == 1
    frame = history.to_frame("step")
    assert frame.index.names == ["epoch", "batch"] and set(frame.columns.get_level_values(0)) == {"mean", 0, 1}
    history.plot(tmp_path / "steps.png", per="step")
    assert (tmp_path / "steps.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="JobHistory 'per' must be one of epoch, step, got 'batch'"):
        history.to_frame("batch")
    server = result.accounts[Parameter_Server]
    assert server.times.merge > 0 and server.times.wait > 0 and server.staleness == {}
    sent = sum(entry.wire for node in (0, 1) for entry in result.accounts[node] if entry.direction == SENT)
    assert sent == sum(entry.wire for entry in server if entry.direction == RECEIVED)


def test_staleness_is_counted_under_asynchronous_types(tmp_path: Path) -> None:
    with in_process(3, ps=True) as nodes:
        result = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes,
            block_size=50,
            epoch=1,
            codec=AsyncPS,
            op_type=GradientAveragingOptimizer,
            sync_type=AsynchronizedSGD,
            directory=tmp_path,
        )
    counted = result.accounts[Parameter_Server].staleness
    assert sum(counted.values()) == 3 * (1500 // 150) * 6, "every gradient of every variable"
    assert max(counted) >= 2, "three workers take turns"
    assert result.accounts[0].staleness == {}


def test_the_log_says_it_in_words() -> None:
    books = Accounts(0, ["Plain", "QSGD"], {1: "tcp", 2: "unix"}.__getitem__)
    books.sent(0, 1, Sent(10, 4))
    books.sent(0, 2, Sent(10, 4, shared=True))
    books.sent(1, 2, Sent(1, 2))
    books.received(1, 2, Sent(5, 2))
    found = NodeAccounts(books.entries(), Times(1, 0.5, 0.25, 2, 0.125), {3: 1, 0: 7})
    assert found.describe() == [
        "Packets sent: raw 21 + overhead 10 = wire 31 bytes.",
        "Packets received: raw 5 + overhead 2 = wire 7 bytes.",
        "By memory sent: 1 packets, raw 10 + overhead 0 = wire 10 bytes.",
        "By memory received: 0 packets, raw 0 + overhead 0 = wire 0 bytes.",
        "By tcp sent: 1 packets, raw 10 + overhead 4 = wire 14 bytes.",
        "By tcp received: 0 packets, raw 0 + overhead 0 = wire 0 bytes.",
        "By unix sent: 1 packets, raw 1 + overhead 6 = wire 7 bytes.",
        "By unix received: 1 packets, raw 5 + overhead 2 = wire 7 bytes.",
        "Plain sent: 2 packets, raw 20 + overhead 8 = wire 28 bytes.",
        "Plain received: 0 packets, raw 0 + overhead 0 = wire 0 bytes.",
        "QSGD sent: 1 packets, raw 1 + overhead 2 = wire 3 bytes.",
        "QSGD received: 1 packets, raw 5 + overhead 2 = wire 7 bytes.",
        "Time: compute 1.000 + encode 0.500 + send 0.250 + wait 2.000 + merge 0.125 = 3.875 s.",
        "Staleness of gradients in steps: 7 of 0, 1 of 3.",
    ]
    assert isinstance(found[0], Entry) and found.staleness == {0: 7, 3: 1}


def test_times_of_epochs_are_differences(tmp_path: Path) -> None:
    report = TrainingReport(tmp_path, "t", 0, [])
    report.times(1, Times(1.0, 2.0, 3.0, 4.0, 5.0))
    report.times(2, Times(1.5, 2.0, 3.0, 4.25, 5.0))
    assert (tmp_path / "TI-t-N(0).csv").read_text() == (
        "Epochs,Total,Compute,Encode,Send,Wait,Merge\n1,15.0,1.0,2.0,3.0,4.0,5.0\n2,0.75,0.5,0.0,0.0,0.25,0.0\n"
    )


def test_a_picture_by_batch_leaves_out_what_a_worker_could_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed has lost its last batches; those after them stand where they belong."""
    axes = pytest.importorskip("matplotlib.axes").Axes
    places: dict[str, list[float]] = {}

    def plot(self: Any, x: list[float], y: list[float], *, label: str, **how: Any) -> Any:
        places[label] = x
        return drawn(self, x, y, label=label, **how)

    drawn = axes.plot
    monkeypatch.setattr(axes, "plot", plot)
    whole = [{"epoch": epoch, "batch": batch, "Loss": 1.0} for epoch in (1.0, 2.0) for batch in (1.0, 2.0, 3.0)]
    parts = [row for row in whole if (row["epoch"], row["batch"]) != (1, 3)]
    epochs = [{"epoch": 1.0, "Loss": 1.0}]
    workers = {0: JobHistory(whole, epochs), 1: JobHistory(parts, epochs)}
    JobHistory(whole, epochs, workers).plot(tmp_path / "a.svg", per="step")
    assert places == {"training": [1, 2, 3, 4, 5, 6], "worker 0": [1, 2, 3, 4, 5, 6], "worker 1": [1, 2, 4, 5, 6]}
