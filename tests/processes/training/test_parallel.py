"""Training jobs on real agents: what comes back, in which files, and that it is the same everywhere to the bit."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.model import Model
from parallel_sgd import ParallelSGD
from parallel_sgd.codec import Codec, DummyCodec
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.accounts import SENT, Entry, check_conserved
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.record.report import BLOCKS, KINDS
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import (
    FOUR_BLOCKS,
    digits_job,
    here,
    line_data,
    line_job,
    line_model,
    log_of,
    only_weights,
    said,
    some,
    weights,
)

from ...statements import covers

IN_ORDER = [
    r"Start job\.",
    r"Workers: \(2\) nodes has been assigned:\n\t\t-->ID: +0\t\tAddress:  127\.0\.0\.1:\d+\n\t\t-->ID: +1\t\tAddress: .*",
    r"Coordinator version: \d+\.\d+.*",
    r"Group submission complete \(\{0, 1\}\)\.",
    r"Worker: \(0\) in Version: \(.*\)\.",
    r"Worker: \(1\) in Version: \(.*\)\.",
    r"Reply requirements to node\(\d\), type\(net_setting\)\.",
    r"Reply requirements to node\(\d\), type\(net_transfer\)\.",
    r"Node\(\d\) is ready, \{\d\} is ready\.",
    r"Node\(\d\) is ready, \{0, 1\} is ready\.",
    r"Dispatch complete\.",
    r"Waiting for \(\{0, 1\}\) \.\.\.",
    r"Current progress: .*100%.* \| Running",
    r"Save file for \d\.\n\tList:(\n\t\t--> .*)+",
    r"Node\(\d\) is done, \{0, 1\} is done\.",
    r"All the tasks are done\.",
]


def read_csv(path: Path) -> Any:
    """A table. Only the worker of xdist that gets these tests imports pandas, which takes it half a second."""
    import pandas as pd

    return pd.read_csv(path)


@pytest.mark.long
@covers("SUB-1", "SUB-5")
def test_digits_learn(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """a dict with Loss and accuracy, the mean over the nodes. SUB-5: every node has the embedded digits."""
    caplog.set_level(logging.INFO)
    result = digits_job(mlp(units=64)).parallel(some(agents, 2), codec=Plain, epoch=15, block_size=16, directory=tmp_path)
    assert isinstance(result, dict) and str(result).startswith("{'Loss': ")
    assert list(result) == ["Loss", "accuracy"] and all(type(value) is float for value in result.values())
    assert result["accuracy"] > 0.9
    rows = [read_csv(tmp_path / f"Node-{node}-Retrieve" / f"EV-P-SGD-N({node}).csv").iloc[-1] for node in (0, 1)]
    assert result == {name: np.mean([row[name] for row in rows]) for name in result}
    assert not [line for line in said(caplog.records) if "data_samples" in line]


@covers("SUB-1")
def test_the_mean_is_taken_over_the_nodes(agents: LocalNodes, tmp_path: Path) -> None:
    """Workers that do not exchange end at different losses; the result is their mean."""
    result = line_job().parallel(some(agents, 2), codec=DummyCodec, epoch=2, block_size=4, directory=tmp_path)
    losses = [read_csv(tmp_path / f"Node-{n}-Retrieve" / f"EV-P-SGD-N({n}).csv")["Loss"].iloc[-1] for n in (0, 1)]
    assert losses[0] != losses[1]
    assert result["Loss"] == pytest.approx(sum(losses) / 2, rel=1e-15)
    assert len(set(weights(result).values())) == 2


@covers("SUB-10", "SUB-40")
def test_the_story_of_a_job_and_its_bytes(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The messages, in order. SUB-40: bytes are logged for submission and execution; what one node sent has arrived at
    the other."""
    caplog.set_level(logging.INFO)
    result = line_job().parallel(some(agents, 2), epoch=2, block_size=4, directory=tmp_path)
    lines = iter(said(caplog.records))
    for expected in IN_ORDER:
        assert any(re.fullmatch(expected, line) for line in lines), f"{expected} is missing, or in a wrong place"
    assert [line for line in said(caplog.records) if re.fullmatch(r"Submission sent \d+ bytes and read \d+ bytes\.", line)]
    books = {node: [Entry(*row) for row in rows] for node, rows in result.accounts.items()}
    check_conserved(books, {})
    for node, rows in books.items():
        kernel, bias = (row for row in rows if row.direction == SENT)
        assert (kernel.codec, kernel.peer, kernel.packets) == ("Plain", 1 - node, 2 * 24 // 8)
        assert kernel.raw - bias.raw == kernel.packets * 4  # two float32 numbers against one
        match = re.search(r"Bytes sent: (\d+), bytes read: (\d+)\.", log_of(result.files, node))
        assert match is not None
        assert int(match[1]) >= sum(row.wire for row in rows if row.direction == SENT) > 0
        assert int(match[2]) >= sum(row.wire for row in rows if row.direction != SENT) > 0


@covers("SUB-5")
def test_samples_are_sent_once(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The order of the requests; the second submission of the same data sends none of it."""
    caplog.set_level(logging.INFO)
    data = line_data(8192, seed=os.getpid())
    size = sum(array.nbytes for array in data.load())
    first = ["net_setting", "net_model", "net_optimizer", "data_package", "misc_package", "extra_package"]
    job = ParallelSGD(line_model(), data)
    sent = []
    for requests in ([*first, "data_samples", "net_transfer"], [*first, "net_transfer"]):
        caplog.clear()
        result = job.parallel(some(agents, 2), epoch=1, block_size=1024, directory=tmp_path)
        lines = said(caplog.records)
        for node in (0, 1):
            prefix = f"Reply requirements to node({node}), type("
            assert [line[len(prefix) : -2] for line in lines if line.startswith(prefix)] == requests
        (submission,) = (match for line in lines if (match := re.match(r"Submission sent (\d+) bytes and read (\d+)", line)))
        sent.append(int(submission[1]))
        assert only_weights(result)
    assert sent[0] > 2 * size > 20 * sent[1]


@covers("SUB-17", "SUB-40", "SUB-44")
def test_the_files_of_every_node(agents: LocalNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, columns and rows; a second run of the title leaves those of the first as they are. What variables take that go as
    one vector is in memory, and no byte more; their frames are on the socket; both are what the other worker has received."""
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {"epoch": 3, "block_size": 16, "assignment_type": FOUR_BLOCKS, "mission_title": "My title"}
    first = digits_job().parallel(some(agents, 2), **settings)
    before = {path: path.read_bytes() for files in first.files.values() for path in files}
    result = digits_job(mlp(units=64)).parallel(some(agents, 2), **settings)
    assert before == {path: path.read_bytes() for path in before}
    for node in (0, 1):
        folder = Path(f"runs/My title-2/Node-{node}-Retrieve")
        assert set(result.files[node]) == set(folder.iterdir()) and Path(folder.name).samefile(folder)
        date = r" \d{4}-\d\d-\d\d \d{4}\.log"
        expected = [rf"Worker-127\.0\.0\.1{date}", rf"Fit-{node}{date}"]
        expected += [rf"{kind}-My title-N\({node}\)\.csv" for kind in (*KINDS, "LEDGER", BLOCKS)]
        expected.append(rf"MODEL-My title-N\({node}\)\.model")
        expected += [r"LEDGER-My title\.csv"] if node == 0 else []
        assert all(re.fullmatch(e, path.name) for e, path in zip(expected, result.files[node], strict=True))
        steps, epochs, times, packets = (read_csv(path) for path in result.files[node][2:6])
        batches = -(-1500 // 64)
        assert list(steps.columns) == ["Time", "Epochs", "Batches", "in", "Total", "Loss", "accuracy"]
        assert list(epochs.columns) == ["Loss", "accuracy", "Epoch"] and epochs["Epoch"].tolist() == [1, 2, 3]
        assert steps["Total"].tolist() == list(range(1, 3 * batches * 2 + 1))  # two of the four blocks are this worker's
        assert steps["Epochs"].tolist() == sorted([1, 2, 3] * batches * 2)
        assert steps["Batches"].tolist() == sorted([*range(1, batches + 1)] * 2) * 3
        assert set(steps["in"]) == {batches * 2}
        assert steps["Time"].is_monotonic_increasing and steps["Time"].iloc[0] >= 0
        assert result == epochs.iloc[-1].drop("Epoch").to_dict()
        spent = result.accounts[node].times
        kinds = [name.capitalize() for name in spent._fields]
        assert list(times.columns) == ["Epochs", "Total", *kinds] and times["Epochs"].tolist() == [1, 2, 3]
        assert times[kinds].sum(axis=1).to_numpy() == pytest.approx(times["Total"].to_numpy(), abs=1e-5)
        # not in the table: what comes after the last epoch, which takes what a busy machine makes of it
        for name, whole in zip(kinds, spent, strict=True):
            assert (times[name] >= 0).all() and 0 < times[name].sum() <= whole + 1e-5, name
        # all steps are within the epochs of the table
        assert times["Total"].sum() >= steps["Time"].iloc[-1] - steps["Time"].iloc[0] - 0.001
        assert packets["Wire"].sum() == sum(entry.wire for entry in result.accounts[node])
        assert set(packets["Transport"]) == ({"unix", "memory"} if sys.platform == "linux" else {"unix"})
        in_memory = packets[packets["Transport"] == "memory"]
        each = {variable.value.nbytes for variable in result.models[node].store.variables}
        assert set(in_memory["Overhead"]) <= {0} and set(in_memory["Raw"] / in_memory["Packets"]) <= each
        log = log_of(result.files, node)
        assert f"Time: {spent}." in log
        sent = [entry for entry in result.accounts[node] if entry.direction == SENT]
        assert f"Plain sent: {sum(entry.packets for entry in sent)} packets, raw {sum(entry.raw for entry in sent)} + " in log
        check_conserved(result.accounts, {})
        model = Model.load(folder / f"MODEL-My title-N({node}).model")
        x, y = ImageCls()(*Shuffle()(*nn.dataset.Digits().load()))[2:]
        assert model.evaluate(x, y) == result
        assert np.array_equal(model.predict(x), result.models[node].predict(x))


@covers("SUB-20")
def test_the_number_of_workers_changes_no_bit(agents: LocalNodes, tmp_path: Path) -> None:
    """With fixed blocks 1, 2 and 4 workers train the same weights, on agents and in process, dropout included."""
    model = mlp(dropout=0.2)
    before = model.store.values.copy()
    settings: dict[str, Any] = {"epoch": 2, "block_size": 16, "assignment_type": FOUR_BLOCKS, "gd_type": ADAMOptimizer}
    settings["seed"] = 7
    bits, tables = set(), set()
    for count in (1, 2, 4):
        for place in ("agents", "here"):
            folder, job = tmp_path / f"{place}-{count}", digits_job(model)
            if place == "agents":
                result = job.parallel(some(agents, count), directory=folder, **settings)
            else:
                result = here(job, count, folder, **settings)
            assert sorted(result.models) == list(range(count))
            bits |= set(weights(result).values())
            tables |= {(folder / f"Node-{n}-Retrieve" / f"EV-P-SGD-N({n}).csv").read_bytes() for n in range(count)}
    assert len(bits) == 1 and len(tables) == 1
    assert np.array_equal(model.store.values, before)  # what was submitted does not change
    assert bits != {before.tobytes()}


@pytest.mark.long
def test_four_blocks_are_one_big_batch(tmp_path: Path) -> None:
    """The mean over blocks is the gradient of the whole batch, up to rounding."""
    settings: dict[str, Any] = {"epoch": 2, "gd_type": SGDOptimizer, "gd_params": (0.1,)}
    blocks = here(digits_job(), 1, tmp_path, block_size=16, assignment_type=FOUR_BLOCKS, **settings)
    batch = here(digits_job(), 1, tmp_path, block_size=64, **settings)
    np.testing.assert_allclose(blocks.models[0].store.values, batch.models[0].store.values, atol=1e-6, rtol=0)


class Late(Plain):
    """Worker 0 keeps what is for worker 2 until worker 2 has spoken; by then worker 1 is a batch further."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.kept: list[Any] = []

    def update_blocks(self, block_weight: Any) -> Any:
        packet: Any = super().update_blocks(block_weight)
        if self.node_id != 0 or packet is None:
            return packet
        self.kept.append(type(packet)(2, packet.content))
        return type(packet)(1, packet.content)

    def receive_blocks(self, content: Any) -> Any:
        super().receive_blocks(content)
        if self.node_id == 0 and content[0] == 2:
            kept, self.kept = self.kept, []
            return kept
        return None


class Twice(Plain):
    """Every packet is sent twice."""

    def update_blocks(self, block_weight: Any) -> Any:
        packet = super().update_blocks(block_weight)
        return None if packet is None else [packet, packet]


@covers("SUB-22", "SUB-23")
@pytest.mark.parametrize("codec", [Late, Twice])
@pytest.mark.share(2)
def test_late_and_repeated_packets_change_nothing(agents: LocalNodes, tmp_path: Path, codec: type[Codec]) -> None:
    """The same weights as without, over real sockets."""
    disturbed = line_job().parallel(some(agents, 3), codec=codec, epoch=3, block_size=2, directory=tmp_path)
    plain = here(line_job(), 3, tmp_path / "here", codec=Plain, epoch=3, block_size=2)
    assert only_weights(disturbed) == only_weights(plain)


@covers("SUB-43")
@pytest.mark.long
def test_a_saved_model_starts_every_submission_alike(agents: LocalNodes, tmp_path: Path) -> None:
    """Save and load keep the start weights; the format holds no pickle."""
    path = tmp_path / "dnn.model"
    mlp().save(path)
    assert b"pickle" not in path.read_bytes()
    loaded = [Model.load(path) for _ in range(3)]
    assert all(np.array_equal(model.store.values, mlp().store.values) for model in loaded)
    first = digits_job(loaded[0]).parallel(some(agents, 1), epoch=1, seed=0, directory=tmp_path)
    again, other = (here(digits_job(loaded[1 + seed]), 1, tmp_path / str(seed), epoch=1, seed=seed) for seed in (0, 1))
    assert only_weights(first) == only_weights(again) != only_weights(other)


@covers("SUB-30", "SUB-45")
def test_samples_that_fill_no_batch_make_a_shorter_one(agents: LocalNodes, tmp_path: Path) -> None:
    """The tail of one sample is a batch for all, on agents as in process; the worker without it has no row."""
    settings: dict[str, Any] = {"epoch": 3, "block_size": 4, "seed": 9}
    result = line_job(25).parallel(some(agents, 2), directory=tmp_path / "agents", **settings)
    local = here(line_job(25), 2, tmp_path / "here", **settings)
    assert weights(result) == weights(local) and len(set(weights(result).values())) == 1
    for found in (result, local):
        assert found.ledger is not None and found.ledger.problems == ()
        assert len(found.ledger.committed) == 3 * 4 * 2
        steps = [read_csv(next(path for path in found.files[node] if path.match("TR-*"))) for node in (0, 1)]
        assert [len(table) for table in steps] == [3 * 3, 3 * 4] and [set(table["in"]) for table in steps] == [{3}, {4}]
    fixed = here(line_job(25), 2, tmp_path / "fixed", shuffle=False, **settings)
    assert weights(fixed) != weights(result)
