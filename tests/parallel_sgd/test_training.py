"""The training of a worker: the samples of its blocks, its steps, signals and tables, and the scheduler that runs all workers
inside this process."""

from __future__ import annotations

import csv
import os
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.testing import VirtualClock
from nn.gradient_descent import SGDOptimizer
from nn.metric import CategoricalAccuracy
from nn.model.scored_network import ScoredNetwork
from nn.optimizer import GDOptimizer, OpContainer
from parallel_sgd import MonitorCallback
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import GlobalSettings, Plain
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.accounts import BatchPackets, Entry, Times
from parallel_sgd.engine.batches import FIXED, ORDERS, SHUFFLED, SHUFFLED_IN_BLOCKS, Batches, BlockFeeder
from parallel_sgd.engine.channel import Key, Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.progress import History, Stretch
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import Worker, build_worker
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.record.report import KINDS, StepRows, TrainingReport, check_title
from parallel_sgd.simulation.kernel import Deadlock, Kernel, MemoryChannel, run_in_process
from parallel_sgd.simulation.timeline import SkippingClock
from parallel_sgd.testing.array_job import ArrayJob
from rpc.liveness.recorder import Kind, Reader, Recorder, make_memory
from rpc.monitor import Monitor
from tests.fulldisk import FullDisk
from tests.parallel_sgd.codec.compositions import check_exact
from tests.parallel_sgd.dealing import dealt, factors
from tests.parallel_sgd.digits_job import ADAM, DigitsJob, digits, plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers

# batches and blocks of a training set


@covers("SUB-30")
def test_slices_are_disjoint_and_cover_the_batch() -> None:
    """Batch = block_size x blocks; what does not fill one is a last, shorter batch. A data set smaller than a batch is refused
    with the needed number."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    rows = [list(range(103))[batches.rows(batch, block)] for batch in range(batches.count) for block in range(4)]
    assert [len(part) for part in rows] == [5] * 20 + [0, 1, 1, 1]
    assert [row for part in rows for row in part] == list(range(103))
    assert (batches.batch_size, batches.whole, batches.count, batches.tail) == (20, 5, 6, 3)
    assert batches.tail_factors(range(4)) == {0: 0.0, 1: 4 / 3, 2: 4 / 3, 3: 4 / 3}
    assert batches.tail_factors([0, 1]) == {0: 0.0, 1: 2.0} and batches.tail_factors([0]) == {0: 0.0}
    assert (batches.idle(range(4)), batches.idle([1, 2])) == (1, 0)
    batches = Batches(samples=100, block_size=5, block_count=4)
    assert (batches.whole, batches.count, batches.tail, batches.idle(range(4))) == (5, 5, 0, 0)
    assert batches.tail_factors(range(4)) == {}
    with pytest.raises(ValueError, match=r"at least one batch of 256 samples \(block_size 64 x 4 blocks\), got 255"):
        Batches(255, 64, 4)
    with pytest.raises(ValueError, match=r"at least one batch of 2048 samples \(block_size 512 x 4 blocks\), got 1500"):
        DigitsJob(plan_of(FixedBlockAssignment(2, 1, 4), block_size=512), mlp()).run()


@pytest.mark.parametrize(("dtype", "calls"), [("float32", 2), ("float64", 4)])
def test_the_test_set_is_checked_once(dtype: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in each of three epochs, and the figures are the same; memory for samples in the type of the model is not held."""
    taken: list[int] = []
    take = ScoredNetwork._take_labels

    def noted(model: ScoredNetwork, label: Any, samples: Any) -> Any:
        taken.append(len(label))
        return take(model, label, samples)

    monkeypatch.setattr(ScoredNetwork, "_take_labels", noted)
    x, y, test_x, test_y = digits()
    job = DigitsJob(plan_of(FixedBlockAssignment(1, 1, 4), epoch=3), mlp(), data=(x, y, test_x.astype(dtype), test_y)).run()
    assert taken == [len(y)] + [len(test_y)] * (calls - 1)
    model = job.models[0]
    assert job.results[0] == model.evaluate(test_x, test_y)


@covers("SUB-45")
@given(size=st.integers(1, 7), blocks=st.integers(1, 7), more=st.integers(0, 99))
def test_blocks_of_an_epoch_hold_every_sample_once(size: int, blocks: int, more: int) -> None:
    """Whatever the numbers, as the contract cuts them; the factors make the mean over blocks that over samples."""
    samples = size * blocks + more
    batches = Batches(samples, size, blocks)
    wanted = dealt(samples, size, blocks, 0, None)
    assert batches.count == len(wanted)
    for batch, parts in enumerate(wanted):
        assert [list(range(samples))[batches.rows(batch, block)] for block in range(blocks)] == [p.tolist() for p in parts]
    if batches.tail:
        found = batches.tail_factors(range(blocks))
        assert [np.float32(found[block]) for block in range(blocks)] == factors(wanted[-1])


@covers("SUB-45")
def test_every_epoch_has_an_order_of_its_own() -> None:
    """Keyed by (seed, epoch); that of the training set where it is fixed. It may leave every sample in its block, for
    transforms that say which block gets what."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    orders = [batches.order(SHUFFLED, seed, epoch) for seed in (0, 1) for epoch in range(3)]
    assert len({order.tobytes() for order in orders if order is not None}) == 6
    assert all(sorted(order) == list(range(103)) for order in orders if order is not None)
    again = Batches(103, 25, 4).order(SHUFFLED, 1, 2)
    assert again is not None and np.array_equal(again, orders[-1])  # type: ignore[arg-type]
    assert batches.order(FIXED, 0, 2) is None
    orders = [batches.order(SHUFFLED_IN_BLOCKS, 0, epoch) for epoch in range(3)]
    for order in orders:
        assert order is not None and sorted(order) == list(range(103)) and sorted(order[100:]) == [100, 101, 102]
        assert np.array_equal(order[:100] % 20 // 5, np.arange(100) % 20 // 5)
    assert len({order.tobytes() for order in orders if order is not None}) == 3
    with pytest.raises(ValueError, match="'order' must be one of fixed, shuffled, shuffled in blocks, got 'sorted'"):
        plan_of(IIDBlockAssignment(1), order="sorted")


@pytest.mark.parametrize("order", [FIXED, SHUFFLED])
def test_the_feeder_deals_what_lies_there(order: str) -> None:
    """Labels stay with their samples, in the types that they have; each is found again in the training set."""
    x, y = np.arange(23, dtype=np.uint8)[:, None], np.arange(23) * 10
    feeder = BlockFeeder(Batches(23, 3, 2), (x,), (y,), order, seed=7, weights=(y / 2,))
    for epoch in range(2):
        feeder.begin(epoch)
        for batch, parts in enumerate(dealt(23, 3, 2, epoch, None if order == FIXED else 7)):
            for block, places in enumerate(parts):
                (samples,), (labels,), weights = feeder.deal(batch, block)
                assert samples.dtype == np.uint8 and samples[:, 0].tolist() == places.tolist()
                assert labels.tolist() == (places * 10).tolist()
                assert weights is not None and weights[0] is not None and weights[0].tolist() == (places * 5).tolist()
                assert list(feeder.places(batch, block)) == places.tolist()


# the loop on a real model


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@covers("SUB-12", "SUB-17")
def test_tables_and_results_of_a_job(tmp_path: Path) -> None:
    """One TR row per block step, one EV row per epoch; people count from 1. The result is the last evaluation, and progress
    goes to 100 after every epoch."""
    plan = plan_of(FixedBlockAssignment(2, 1, 4), block_size=64, epoch=2, optimizer=ADAM)
    job = DigitsJob(plan, mlp(), directory=tmp_path).run()
    head, *rows = rows_of(tmp_path / "TR-digits-N(1).csv")
    assert head == ["Time", "Epochs", "Batches", "in", "Total", "Loss", "accuracy"]
    assert len(rows) == 2 * -(-1500 // 256) * 2
    assert [row[1:5] for row in rows[:3]] == [["1", "1", "12", "1"], ["1", "1", "12", "2"], ["1", "2", "12", "3"]]
    assert rows[-1][1:5] == ["2", "6", "12", "24"]
    assert float(rows[-1][5]) < float(rows[0][5])
    head, *rows = rows_of(tmp_path / "EV-digits-N(1).csv")
    assert head == ["Loss", "accuracy", "Epoch"]
    assert [row[-1] for row in rows] == ["1", "2"]
    assert [float(value) for value in rows[-1][:-1]] == list(job.results[1].values())
    job = DigitsJob(plan_of(IIDBlockAssignment(2), block_size=50, epoch=3, optimizer=ADAM), mlp()).run()
    assert job.results[0] == job.models[0].evaluate(*digits()[2:])
    assert list(job.results[0]) == ["Loss", "accuracy"]
    assert all(type(value) is float for value in job.results[0].values())
    assert job.progress == {0: [33, 66, 100], 1: [33, 66, 100]}


def test_metrics_that_wait_are_those_of_their_step(tmp_path: Path) -> None:
    """What they are computed of may change afterwards; rows stay in their order, also behind predictions too large to wait, and
    behind a slow step none waits."""
    report = TrainingReport(tmp_path, "T", 0, ["accuracy"])
    rows = StepRows(report.step, [(0, CategoricalAccuracy())])
    for step, (second, samples) in enumerate(((0, 4), (0.01, 10_000), (0.02, 4), (0.03, 4), (0.3, 4))):
        label, prediction = np.zeros(samples, np.int64), np.zeros((samples, 2), np.float32)
        prediction[: samples // 4 * step, 1] = 1
        rows.add((second, 1, step + 1, 4, step + 1, 0.5), [label], [prediction])
        prediction[:] = np.nan
    report.close()
    assert [row[2:] for row in rows_of(report.steps_path)[1:]] == [
        [str(step + 1), "4", str(step + 1), "0.5", str(1 - step / 4)] for step in range(5)
    ]


def test_rows_say_what_the_block_step_gave(tmp_path: Path) -> None:
    plan = plan_of(IIDBlockAssignment(1), block_size=100, epoch=1, optimizer=ADAM)
    DigitsJob(plan, mlp(), directory=tmp_path).run()
    x, y, _, _ = digits()
    model, places = mlp(), dealt(1500, 100, 1, 0, seed=0)[0][0]
    loss, prediction = model.compute_gradients(x[places], y[places])
    first = rows_of(tmp_path / "TR-digits-N(0).csv")[1]
    assert float(first[5]) == loss
    assert float(first[6]) == np.mean(prediction.argmax(1) == y[places].argmax(1))


@covers("SUB-17")
def test_a_block_without_samples_makes_no_step(tmp_path: Path) -> None:
    """The tail is one sample, which the last of four blocks has."""
    x, y, *test = digits()
    plan = plan_of(FixedBlockAssignment(2, 1, 4), block_size=50, epoch=2, optimizer=ADAM)
    DigitsJob(plan, mlp(), directory=tmp_path, data=(x[:201], y[:201], *test)).run()
    tables = [rows_of(tmp_path / f"TR-digits-N({node}).csv")[1:] for node in (0, 1)]
    places = [[row[1:5] for row in table] for table in tables]
    assert places[0] == [["1", "1", "2", "1"], ["1", "1", "2", "2"], ["2", "1", "2", "3"], ["2", "1", "2", "4"]]
    assert places[1][:3] == [["1", "1", "3", "1"], ["1", "1", "3", "2"], ["1", "2", "3", "3"]] and len(places[1]) == 6
    assert all(np.isfinite(float(row[5])) for table in tables for row in table)


@pytest.mark.share(4)
@covers("SUB-31")
@pytest.mark.parametrize("dead", range(4))
def test_one_of_two_copies_may_die_in_mid_epoch(dead: int) -> None:
    """No time-out, unchanged weights."""
    plan = plan_of(DuplicateAssignment(4, 2), block_size=64, epoch=2, optimizer=ADAM)
    whole = DigitsJob(plan, mlp()).run()
    silent = []

    def link(sender: int, _receiver: int, key: Key) -> tuple[float, ...]:
        if sender == dead and (key[1], key[2]) >= (0, 5):
            silent.append(key)
            return ()
        return (0.0,)

    job = DigitsJob(plan, mlp(), link=link).run()
    assert silent
    assert job.clock.monotonic() == 0.0
    assert job.weights() == whole.weights()


def test_a_time_out_ends_the_job_and_keeps_the_rows(tmp_path: Path) -> None:
    plan = plan_of(IIDBlockAssignment(2), block_size=64, epoch=2, optimizer=ADAM, ssgd_timeout_limit=1500)
    link = lambda s, r, key: () if key[:3] >= (0, 0, 4) else (0.0,)  # noqa: E731
    job = DigitsJob(plan, mlp(), directory=tmp_path, link=link)
    late = r"variables 0 to 5 \(dense_1/kernel to dense_3/bias\)"  # they are one packet
    with pytest.raises(TimeoutError, match=rf"Waited 3 s for {late} of epoch 1, batch 5"):
        job.run()
    assert job.clock.monotonic() == 3.0
    assert len(rows_of(tmp_path / "TR-digits-N(0).csv")) == 1 + 5


def test_an_optimizer_without_exchange_runs_alone() -> None:
    """The process asks its optimizer what to wait for; this one waits for nobody."""
    plan = plan_of(IIDBlockAssignment(2), block_size=64, epoch=1, optimizer=OpContainer(GDOptimizer, ADAM.gd_type))
    job = DigitsJob(plan, mlp()).run()
    assert len(set(job.weights())) == 2
    assert job.workers[0].exchange.accounts.entries() == []


@pytest.mark.parametrize(
    ("assignment", "size", "sample", "order"),
    [
        *((FixedBlockAssignment(2, 1, 2), 75, sample, SHUFFLED) for sample in (0, 1499)),
        *((IIDBlockAssignment(2), 350, 1499, order) for order in ORDERS),  # it fills no batch
    ],
)
def test_labels_are_checked_before_the_first_batch(assignment: Any, size: int, sample: int, order: str, tmp_path: Path) -> None:
    """Once for the whole job, in the form in which the loss takes them, so that a step has nothing left to check."""
    x, y, test_x, test_y = digits()
    wrong = y.copy()
    wrong[sample] = 0.5
    plan = plan_of(assignment, block_size=size, epoch=1, optimizer=ADAM, order=order)
    job = DigitsJob(plan, mlp(), directory=tmp_path, data=(x, wrong, test_x, test_y))
    with pytest.raises(ValueError, match=rf"label rows must hold probabilities that sum to 1, got row {sample} sums to 5"):
        job.run()
    assert len(rows_of(tmp_path / "TR-digits-N(0).csv")) == 1
    assert DigitsJob(plan, mlp(), data=(x, y, test_x, test_y)).run().results[0]["Loss"] > 0


# signals of the failure detector

Signals = list[tuple[Kind, int, int]]


class Listener:
    """A monitor whose signals can be read."""

    def __init__(self) -> None:
        self._memory = make_memory()
        self._recorder = Recorder(self._memory, lambda: 1.0)
        self._reader = Reader(self._memory)
        self.monitor = Monitor()
        self.monitor.attach(self._recorder)

    def heard(self) -> Signals:
        return [signal[:3] for signal in self._reader.read(1.0)]

    def close(self) -> None:
        self._recorder.close()
        self._reader.close()


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    made = [Listener(), Listener()]
    yield made
    for listener in made:
        listener.close()


def expected(epochs: range, batches: int) -> Signals:
    """BEGIN and END of every batch, EPOCH after each epoch, one TRAIN END."""
    signals: Signals = []
    for epoch in epochs:
        signals += [(kind, epoch, batch) for batch in range(batches) for kind in (Kind.BEGIN, Kind.END)]
        signals.append((Kind.EPOCH, epoch, batches - 1))
    return [*signals, (Kind.TRAIN_END, epochs[-1], batches - 1)]


@covers("FD-1")
def test_callback_of_fit(listeners: list[Listener]) -> None:
    """`MonitorCallback` makes the four calls at the right moments; a continued training goes on counting. Without a job the
    callback does nothing, and opens nothing."""
    model = mlp()
    model.compile(SGDOptimizer(0.1))
    x, y, _, _ = digits()
    callback = MonitorCallback(listeners[0].monitor)
    model.fit(x[:60], y[:60], epoch=2, batch_size=20, callbacks=[callback], verbose=0)
    assert listeners[0].heard() == expected(range(2), 3)
    model.fit(x[:60], y[:60], epoch=1, batch_size=20, callbacks=[callback], verbose=0)
    assert listeners[0].heard() == expected(range(2, 3), 3)
    open_before = os.listdir("/dev/fd")
    model.fit(x[:20], y[:20], epoch=1, batch_size=20, callbacks=[MonitorCallback()], verbose=0)
    assert os.listdir("/dev/fd") == open_before


@covers("FD-1")
def test_workers_signal_by_themselves(listeners: list[Listener]) -> None:
    """Every worker of a job signals each batch, each epoch and the end, epochs and batches as they are counted."""
    plan = plan_of(FixedBlockAssignment.of(blocks=2)(2, 1), block_size=16, epoch=2, optimizer=ADAM)
    x, y, test_x, test_y = digits()
    data, model, clock = (x[:96], y[:96], test_x[:10], test_y[:10]), mlp(), VirtualClock()

    def build(channel: MemoryChannel, monitor: Monitor) -> Worker:
        own = type(model).from_bytes(model.to_bytes())
        return build_worker(plan, own, data, channel, clock.monotonic, Hooks(monitor=monitor))

    run_in_process({node: partial(build, monitor=listener.monitor) for node, listener in enumerate(listeners)}, clock)
    assert [listener.heard() for listener in listeners] == [expected(range(2), 3)] * 2


# tables


@covers("SUB-17")
def test_tables_have_the_documented_names_columns_and_rows(tmp_path: Path) -> None:
    """TR per block step, EV per epoch, whose number is its last column; docs/results.md has a row for each, in their order."""
    report = TrainingReport(tmp_path, "P-SGD", 3, ["accuracy"])
    report.step((0.25, 1, 2, 10, 2, 0.1 + 0.2, 0.5))
    report.evaluation(1, [1 / 3, 0.9576])
    report.save()
    report.step((0.5, 1, 3, 10, 3, 1e-17, 1.0))
    report.save()
    report.save()
    assert (tmp_path / "TR-P-SGD-N(3).csv").read_text() == (
        "Time,Epochs,Batches,in,Total,Loss,accuracy\n0.25,1,2,10,2,0.30000000000000004,0.5\n0.5,1,3,10,3,1e-17,1.0\n"
    )
    assert (tmp_path / "EV-P-SGD-N(3).csv").read_text() == "Loss,accuracy,Epoch\n0.3333333333333333,0.9576,1\n"
    guide = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    TrainingReport(tmp_path, "t", 0, ["one per metric"]).close()
    for kind in KINDS:
        (head, *_) = (tmp_path / f"{kind}-t-N(0).csv").read_text().splitlines()
        part = guide.partition(f"`{kind}-<title>-N(i).csv`:")[2].partition("-N(i).csv`")[0]
        cells = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("|")]
        assert [cell.strip("`") for cell in cells[2:]] == head.split(","), kind


@pytest.mark.parametrize("title", ["", "a/b", "..", "a\\b", "a\nb", "x" * 201, 'say "no"', "a:b", "\0"])
def test_a_title_that_cannot_be_a_file_name_is_refused(title: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'mission_title' must be able to stand in a file name"):
        TrainingReport(tmp_path, title, 0, [])
    assert not list(tmp_path.iterdir())
    ordinary = ["P-SGD", "第一 run", "a.b(1)"]
    assert list(map(check_title, ordinary)) == ordinary


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def fill(report: TrainingReport, disk: FullDisk, epochs: Sequence[int]) -> None:
    """Three epochs of two steps; there is no room in `epochs`."""
    ledger = report.ledger([0], History())
    report.traffic(lambda last: [] if last is None else [BatchPackets("Plain", last[0] + 1, last[1] + 1, *[1] * 6)])
    for epoch in (1, 2, 3):
        disk.full = epoch in epochs
        for batch in (1, 2):
            report.step((float(2 * epoch + batch), epoch, batch, 2, 2 * epoch + batch, 0.5))
            report.batch((float(2 * epoch + batch), epoch, batch, *[0.25] * 10, 1))
            ledger.applied(Stretch(0, epoch - 1, batch - 1, batch, (0,)))
        report.evaluation(epoch, [1 / epoch])
        report.times(epoch, Times(epoch, epoch, 0.0, 0.0, 0.0))
        report.weights(epoch, {"kernel": np.full(2, epoch, np.float32)})
        report.save()
    report.accounts([Entry("Plain", 0, 1, "sent", "tcp", 2, 3, 4, 5)], ["kernel"])
    report.costs([("Plain", 0, 0.5, 0.25)], ["kernel"])


@covers("FLT-26")
@pytest.mark.parametrize("epochs", [(1,), (2,), (1, 2), (2, 3)])
def test_a_disk_that_is_full_for_a_moment_costs_no_row(
    tmp_path: Path, disk: FullDisk, epochs: Sequence[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Each table is in the end what it would have been; a warning names each file once."""
    tables = []
    for folder, no_room in (("calm", ()), ("full", epochs)):
        (tmp_path / folder).mkdir()
        disk.full = 1 in no_room
        report = TrainingReport(tmp_path / folder, "t", 0, [])
        fill(report, disk, no_room)
        disk.full = False
        report.close()
        tables.append({path.name: path.read_text() for path in report.paths})
    calm, full = tables
    assert disk.refused and len(calm) == len(KINDS) + 1 and all(text.count("\n") > 1 for text in calm.values())
    assert full == calm
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == len(set(warned)) >= 4 and all("No space left on device" in line for line in warned)


@covers("FLT-26")
def test_a_disk_that_stays_full(tmp_path: Path, disk: FullDisk) -> None:
    """It is an error at the end; only whole rows are in the files then, and `close` may be called again. The tables of the
    attempt before stay until there is room: whoever is killed meanwhile has lost nothing that was written before."""
    report = TrainingReport(tmp_path, "t", 0, [])
    fill(report, disk, (3,))
    with pytest.raises(OSError, match="No space left on device"):
        report.close()
    assert len(report.steps_path.read_text().splitlines()) == 1 + 4
    disk.full = False
    report.close()
    assert len(report.steps_path.read_text().splitlines()) == 1 + 6
    before = [path.read_text() for path in report.paths[:-1]]  # the ledger's begins anew
    disk.full, disk.refused = True, type(disk.refused)()
    again = TrainingReport(tmp_path, "t", 0, [])
    again.step((0.5, 9, 1, 2, 1, 0.5))
    again.save()
    assert disk.refused and before == [path.read_text() for path in again.paths]
    disk.full = False
    again.save()
    assert again.steps_path.read_text() == "Time,Epochs,Batches,in,Total,Loss\n0.5,9,1,2,1,0.5\n"


# all workers inside this process


def worker(channel: MemoryChannel, process: Generator[Wait, None, dict[str, float]]) -> Worker:
    assignment = IIDBlockAssignment(2)
    bank = CodecBank([Plain], JobSettings(assignment, {"who": channel.node_id}), channel, attempt=0)
    exchange = BlockExchange(bank, SynchronizedSGD(bank, 1.0, lambda: 0.0, ("v",)))
    return Worker(None, exchange, process)  # type: ignore[arg-type]


def waiting(*deadlines: float | None, log: list[Any] | None = None, now: Any = lambda: "closed") -> Iterator[Wait]:
    """Logs what `now` gives after each wait, and at the end."""
    try:
        for deadline in deadlines:
            yield Wait(lambda: False, deadline, lambda: "a sign")
            if log is not None:
                log.append(now())
    finally:
        if log is not None:
            log.append("closed")
    return {"Loss": 0.5}


def test_time_jumps_to_the_earliest_deadline_when_nobody_can_move() -> None:
    """The results come by node. Waits without a limit that nobody can end are a deadlock:
    no wait without a name."""
    clock, seen = VirtualClock(), []
    slow = lambda channel: worker(channel, waiting(2.0, 5.0, log=seen, now=clock.monotonic))  # noqa: E731
    results = run_in_process({0: slow, 1: lambda channel: worker(channel, waiting(3.0))}, clock)
    assert seen == [2.0, 5.0, "closed"] and results == {0: {"Loss": 0.5}, 1: {"Loss": 0.5}}
    builds = {node: lambda channel: worker(channel, waiting(None)) for node in (0, 1)}
    with pytest.raises(Deadlock, match=r"node\(0\) for a sign; node\(1\) for a sign"):
        run_in_process(builds, VirtualClock())


def test_an_error_closes_every_process() -> None:
    """Also one while a worker is built."""
    log: list[str] = []

    def fails() -> Iterator[Wait]:
        yield Wait(lambda: True, None, lambda: "")
        raise ZeroDivisionError("in worker 1")

    def cannot(channel: MemoryChannel) -> Worker:
        raise ValueError("no such data")

    waits = lambda channel: worker(channel, waiting(None, log=log))  # noqa: E731
    with pytest.raises(ZeroDivisionError, match="in worker 1"):
        run_in_process({0: waits, 1: lambda channel: worker(channel, fails())}, VirtualClock())
    assert log == ["closed"]
    with pytest.raises(ValueError, match="no such data"):
        run_in_process({0: waits, 1: cannot}, VirtualClock())


def test_every_worker_has_its_own_context() -> None:
    seen: list[int] = []

    def process() -> Iterator[Wait]:
        for _ in range(2):
            seen.append(GlobalSettings.get_params("who"))
            yield Wait(lambda: GlobalSettings.get_params("who") >= 0, None, lambda: "")
        return {}

    run_in_process({node: lambda channel: worker(channel, process()) for node in (0, 1)}, VirtualClock())
    assert sorted(seen) == [0, 0, 1, 1]
    with pytest.raises(LookupError, match="outside a job"):
        GlobalSettings.get_default()


def test_contents_arrive_as_copies() -> None:
    """The sender's array may change once the channel has taken it; a tuple stays a tuple."""
    kernel = Kernel([0, 1, 2], VirtualClock())
    sent = np.arange(4.0)
    content = (0, 1, sent)
    # one key for each packet, as the codecs' bank makes them: by it the channel knows a packet to several targets
    key, next_key = tuple([0] * 4), tuple([0] * 4)
    size = kernel.channel(0).post(1, key, content)
    kernel.channel(0).post(2, key, content)
    sent[:] = -1
    kernel.channel(0).post(1, next_key, content)
    (_, source, target, first), (_, _, _, second), (_, _, _, third) = kernel.network.advance(0.0)
    message = first.message
    assert (source, target, message.head, message.value[:2]) == (0, 1, (0, 0, 0, 0), (0, 1))
    np.testing.assert_array_equal(message.value[2], [0, 1, 2, 3])
    assert (size.raw, size.overhead) == (message.raw, message.overhead) == (32, size.wire - 32)
    assert second is first, "packed once for all targets"
    np.testing.assert_array_equal(third.message.value[2], [-1, -1, -1, -1])


def test_skipped_time_is_added_to_the_machines_time() -> None:
    real = [100.0]
    clock = SkippingClock(lambda: real[0])
    clock.advance_to(105.0)
    assert clock.monotonic() == 105.0
    real[0] = 101.0
    assert clock.monotonic() == 106.0
    clock.advance_to(50.0)
    assert clock.monotonic() == 106.0


@covers("SUB-31")
def test_a_dead_worker_is_no_deadlock_for_the_others() -> None:
    """With two copies of every block."""
    job = ArrayJob(DuplicateAssignment(4, 2), batches=3, ends_after={3: 0}).run()
    check_exact(job, nodes=(0, 1, 2))
