"""Packets and bytes of each batch, node and codec: their sums are the accounts, also of a job that goes on."""

from __future__ import annotations

import json
from collections import Counter
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.message import Message
from network.wire import Sent
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from nn.layer import Dense
from nn.model import SequentialModel
from nn.optimizer import LocalUpdateOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import DGC, AsyncPS, FedAvg, Plain, Ring, SyncPS, TopK
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.accounts import MOST_STEPS, SENT, Accounts
from parallel_sgd.history import JobHistory
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.run_page.compare import compare_page, figures_of
from parallel_sgd.run_page.records import RunRecords
from tests.parallel_sgd.stub_channel import StubChannel
from tests.statements import covers

FIGURES = ("packets_sent", "bytes_sent", "wire_sent", "packets_received", "bytes_received", "wire_received")


def job() -> ParallelSGD:
    model = SequentialModel([-1, 12], seed=1)
    for units in (16, 3):
        model.add(Dense(units))
    model.setup("mse")
    x = np.random.default_rng(0).normal(size=(192, 12)).astype("float32")
    return ParallelSGD(model, ArrayDataset(x, x[:, :3], x[:32], x[:32, :3]))


def run(workers: int = 3, ps: bool = False, **options: Any) -> JobResult:
    given = {"epoch": 3, "block_size": 16, "gd_type": SGDOptimizer, "gd_params": (0.05,), "verbose": 0, **options}
    return job().parallel(in_process(workers, ps=ps), **given)


def of_accounts(result: JobResult) -> Counter[tuple[int, str, str]]:
    found: Counter[tuple[int, str, str]] = Counter()
    for node, entries in result.accounts.items():
        for entry in entries:
            way = "sent" if entry.direction == SENT else "received"
            for name, value in (("packets", entry.packets), ("bytes", entry.raw), ("wire", entry.wire)):
                found[node, entry.codec, f"{name}_{way}"] += value
    return +found


def of_batches(result: JobResult) -> Counter[tuple[int, str, str]]:
    found: Counter[tuple[int, str, str]] = Counter()
    for row in result.history.traffic:
        for name in FIGURES:
            found[int(row["node"]), str(row["codec"]), name] += int(row[name])
    return +found


CASES: dict[str, dict[str, Any]] = {
    "all to all": {"codec": Plain},
    "two codecs": {"codec": {"dense_1": Plain, "dense_2": Ring}},
    "ring": {"codec": Ring},
    "server": {"codec": SyncPS, "ps": True},
    "asynchronous server": {"codec": AsyncPS, "ps": True, "sync_type": AsynchronizedSGD, "op_type": "gradientaveraging"},
    "server and checkpoints": {"codec": SyncPS, "ps": True, "checkpoint_every": 1},
    "stale": {"codec": AsyncPS, "ps": True, "sync_type": "stale:1", "op_type": "gradientaveraging"},
    "sharded rule and its state": {"codec": Plain, "op_type": "shardedpsgd", "checkpoint_every": "epoch"},
    "first copy": {"codec": "firstcopy", "redundancy": 2, "assignment_type": "cyclic"},
    "local updates": {"codec": TopK, "op_type": LocalUpdateOptimizer},
    "every few batches": {
        "codec": FedAvg,
        "ps": True,
        "op_type": "parameteraveraging",
        "codec_extra_parameters": {"local_batches": 3},
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@covers("RUN-12")
@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES)
def test_the_sums_over_batches_are_the_accounts(case: str) -> None:
    """Of packets, contents and bytes on the wire, for each node and codec, the parameter server and what no codec sends too."""
    result = run(**CASES[case])
    assert of_batches(result) == of_accounts(result)
    assert sum(result.history["bytes"]) == sum(e.raw for es in result.accounts.values() for e in es if e.direction == SENT)
    assert sum(result.history["bytes"]) > 0


def test_bytes_change_as_the_codec_has_them_change() -> None:
    """DGC begins with more numbers and ends with 1 %: an even share of the whole would be wrong in each epoch."""
    result = run(2, epoch=4, codec=DGC, codec_extra_parameters={"rho": 0.01, "warmup": 12})
    sent = result.history["bytes"]
    assert sent[0] > 1.5 * sent[-1] and sent == sorted(sent, reverse=True)
    alone = [run(2, epoch=epochs, codec=DGC, codec_extra_parameters={"rho": 0.01, "warmup": 12}) for epochs in (1, 2)]
    totals = [sum(e.raw for es in each.accounts.values() for e in es if e.direction == SENT) for each in alone]
    assert [sent[0], sent[0] + sent[1]] == totals


def test_history_has_bytes_of_the_job_and_of_each_worker(folder: Path) -> None:
    history = run(codec=SyncPS, ps=True).history
    frame = history.to_frame("traffic")
    assert frame.index.names == ["node", "codec", "epoch", "batch"] and list(frame.columns) == list(FIGURES)
    by_node = frame["bytes_sent"].groupby(level=["node", "epoch"]).sum()
    assert [by_node[1, epoch] for epoch in (1, 2, 3)] == history.workers[1]["bytes"]
    server = [by_node[-2, epoch] for epoch in (1, 2, 3)]
    workers = zip(*(each["bytes"] for each in history.workers.values()), strict=True)
    assert history["bytes"] == [sum(each) + answers for each, answers in zip(workers, server, strict=True)]
    steps = history.to_frame("step")["mean"]["bytes"]
    assert steps.groupby(level="epoch").sum().tolist() == history["bytes"]
    assert history.bytes_until()[3, float("inf")] == sum(history["bytes"])


def test_curves_over_bytes(folder: Path) -> None:
    history = run(codec=Plain).history
    history.plot(folder / "bytes.svg", x="bytes")
    history.plot(folder / "steps.svg", per="step", x="bytes")
    assert min((folder / name).stat().st_size for name in ("bytes.svg", "steps.svg")) > 5000
    history.plot(folder / "seconds.svg", x="seconds")
    ends = [history.seconds_until()[epoch, float("inf")] for epoch in (1, 2, 3)]
    assert ends == [max(row["time"] for row in history.steps if row["epoch"] == epoch) for epoch in (1, 2, 3)]
    assert next(line[1] for line in history._lines("Loss")) == ends  # those of the mean in training
    with pytest.raises(ValueError, match=r"plot\(\) 'x' must be one of epoch, bytes, seconds, got 'byte'"):
        history.plot(folder / "no.svg", x="byte")  # type: ignore[arg-type]
    history = JobHistory.of({0: ({"Time": [0.0], "Epochs": [1], "Batches": [1], "Loss": [1.0]}, {})})
    with pytest.raises(ValueError, match="must be 'epoch' for a run without tables of bytes"):
        history.plot(folder / "no.svg", x="bytes")


def test_a_run_that_goes_on_has_the_bytes_of_all_its_batches() -> None:
    """Also in the middle of an epoch; of the part that is computed again once."""
    whole = run(codec=TopK, op_type=LocalUpdateOptimizer)
    run(codec=TopK, op_type=LocalUpdateOptimizer, epoch=2, checkpoint_every="epoch")
    later = run(codec=TopK, op_type=LocalUpdateOptimizer, resume="last")
    assert later.history.traffic == whole.history.traffic
    assert later.history["bytes"] == whole.history["bytes"]


def test_runs_are_compared_over_bytes() -> None:
    runs = [run(codec=codec) for codec in (Plain, Ring)]
    page = compare_page([RunRecords.read(each.folder) for each in runs if each.folder is not None])
    assert 'data-per="bytes"' in page
    for each in runs:
        until = [sent for (_, batch), sent in each.history.bytes_until().items() if batch == float("inf")]
        losses = [[at, float(f"{loss:.6g}")] for at, loss in zip(until, each.history["val_Loss"], strict=True)]
        lines = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["curves"]["bytes"]
        assert [losses] == [line["points"] for line in lines if line["label"] == f"{each.folder.name} test"]  # type: ignore[union-attr]


@covers("RUN-12")
def test_the_report_has_packets_and_bytes_by_node_and_codec() -> None:
    result = run(codec={"dense_1": SyncPS, "dense_2": Ring}, ps=True)
    assert result.folder is not None
    page = (result.folder / "report.html").read_text("utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    accounts = of_accounts(result)
    found = {(node, codec): counts for node, codec, *counts in data["traffic"]}
    assert {(node, codec) for node, codec, _ in accounts} == found.keys() and (-2, "SyncPS") in found
    for (node, codec), counts in found.items():
        assert counts == [accounts[node, codec, name] for name in FIGURES]
    lines = {line["label"]: line for line in data["curves"]["step"] if line["metric"] == "bytes"}
    # each line by batch: all nodes together are the codecs together
    total = [value for _, value in lines["all nodes"]["points"]]
    assert total == [a + b for (_, a), (_, b) in zip(lines["SyncPS"]["points"], lines["Ring"]["points"], strict=True)]
    assert "By node and codec" in page and f"{found[-2, 'SyncPS'][1]:,}" in page


def test_pages_have_the_workers_without_tables_of_their_own() -> None:
    """Of 18 workers in one process four have tables: loss and bytes of a page are those of all, as those of the history."""
    results = [run(18, codec=codec, block_size=4, epoch=2) for codec in (Plain, Ring)]
    runs = [RunRecords.read(each.folder) for each in results if each.folder is not None]
    for records, result in zip(runs, results, strict=True):
        history = records.history
        assert history.rows == result.history.rows and len(history.workers) == 18
        assert figures_of(records)["bytes sent"] == f"{sum(result.history['bytes']):,}"
        assert "; 18 workers." in (records.folder / "report.html").read_text("utf-8")
    assert results[0].history["bytes"] != results[1].history["bytes"]


def test_a_peer_cannot_fill_the_memory_with_keys() -> None:
    """It chooses the batches in the keys of its packets: too many are counted with the batch that runs, and nothing is lost."""
    settings = JobSettings(IIDBlockAssignment(2))
    bank = copy_context().run(CodecBank, [Plain], settings, StubChannel(here={1}), 0)
    bank.begin((0, 0))
    for batch in range(5000):
        assert bank.takes([(1, Message((0, 0, batch, 0), None, 10, 2))])
    assert len(bank.accounts.counts) == MOST_STEPS
    rows = bank.accounts.traffic()
    assert sum(row.bytes_received for row in rows) == 50_000 and sum(row.packets_received for row in rows) == 5000
    assert not bank.accounts.traffic()


def test_what_was_told_is_not_told_again() -> None:
    books = Accounts(0, ["Plain", "sync type"], lambda peer: "tcp")
    for batch in range(4):
        books.step = (0, batch)
        books.sent(0, 1, Sent(8, 1))
    assert [row.batch for row in books.traffic((0, 1))] == [1, 2]
    assert [(row.batch, row.bytes_sent, row.wire_sent) for row in books.traffic()] == [(3, 8, 9), (4, 8, 9)]
