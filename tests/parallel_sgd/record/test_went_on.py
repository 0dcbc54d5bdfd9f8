"""Figures of a training that goes on with other workers: those of its epochs before are what they were, and none is lost."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from nn.optimizer import GradientAveragingOptimizer, ParameterAveragingOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.codec import ADPSGD, DPSGD, AsyncPS, BlockWeight, FedAvg, GlobalSettings, LocalSGD, Plain, SyncPS
from parallel_sgd.engine.block_tree import Copy
from parallel_sgd.record.certificate import contradictions
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.report import TrainingReport
from parallel_sgd.record.run import RunManifest
from parallel_sgd.record.table import Earlier
from parallel_sgd.record.tables import Columns, joined, read_hashes
from parallel_sgd.record.weight_hashes import hash_of
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.writers.live import LiveFigures
from tests.parallel_sgd.networks import mlp

from ...statements import covers

#: Samples of a batch of all workers: an epoch of Digits has 12 of them and a tail of 60 samples.
BATCH, BATCHES = 120, 13
LAST = 20
"""Batches after which the job is stopped, in its second epoch; its newest checkpoint is four batches old at most."""


class Ends(Plain):
    """Plain exchange that raises an error after a number of batches."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.count = 0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self.count += 1
        if self.count > GlobalSettings.get_params("last", default=1 << 30):
            raise RuntimeError("it was to end here")
        return super().update_blocks(block_weight)


class Lacks(Ends):
    """Exchange that says, where the job asks for it, that no copy of any block but the first was merged."""

    @property
    def copies(self) -> tuple[Copy, ...] | None:
        return (((0, 1), 0),) if GlobalSettings.get_params("lacks", default=False) else self._merged

    @copies.setter
    def copies(self, merged: tuple[Copy, ...] | None) -> None:
        self._merged = merged


class EndsByServer(SyncPS):
    """Exchange by a parameter server that raises an error after a number of batches."""

    count = 0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self.count += 1
        if self.count > GlobalSettings.get_params("last", default=1 << 30):
            raise RuntimeError("it was to end here")
        return super().update_blocks(block_weight)


def trained(folder: Path, workers: int, epochs: int, ps: bool = False, **options: Any) -> JobResult:
    job = ParallelSGD(mlp(), Digits(), ImageCls())
    with in_process(workers, ps) as nodes:
        options = {"checkpoint_every": 4, "codec": Ends, **options}
        return job.parallel(nodes, epoch=epochs, block_size=BATCH // workers, directory=folder, **options)


def stopped(folder: Path, workers: int) -> None:
    with pytest.raises(RuntimeError, match="it was to end here"):
        trained(folder, workers, 3, codec_extra_parameters={"last": LAST})


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> JobHistory:
    """History of three workers without a disturbance. Batches have the same samples on any number of workers."""
    return trained(tmp_path_factory.mktemp("calm"), 3, 3).history


@covers("RUN-4")
@pytest.mark.parametrize(
    "options",
    [
        {"codec": LocalSGD, "op_type": ParameterAveragingOptimizer},
        {"codec": DPSGD, "op_type": ParameterAveragingOptimizer},
        {"codec": FedAvg, "op_type": ParameterAveragingOptimizer, "ps": True, "codec_extra_parameters": {"local_batches": 5}},
        {"codec": ADPSGD, "op_type": ParameterAveragingOptimizer, "sync_type": "asgd"},
    ],
    ids=["LocalSGD", "gossip", "FedAvg", "asynchronous gossip"],
)
def test_the_tables_of_weights_tell_the_state_that_a_worker_has(tmp_path: Path, options: dict[str, Any]) -> None:
    """Where each worker had a state of its own, all go on with that of one; with nothing left to train it is what they save."""
    first = trained(tmp_path, 4, 1, **options)
    assert first.folder is not None and len(hashes(first.folder, 1)) == 4
    last = trained(tmp_path, 2, 1, resume="last", **options)
    assert last.folder is not None and len(hashes(last.folder, 1)) == 1
    assert [*contradictions(last.folder, RunManifest.read(last.folder))] == []
    # figures stay those of the training
    assert last.history.rows == first.history.rows


def hashes(run: Path, epoch: int) -> set[tuple[str, ...]]:
    """Return the hashes of all variables after an epoch, of each worker whose table has it."""
    tables: dict[int, list[str]] = {}
    for values in read_hashes(run)[epoch].values():
        for node, value in values.items():
            tables.setdefault(node, []).append(value)
    return {*map(tuple, tables.values())}


@pytest.mark.parametrize("known", [1, 2])
def test_the_weights_of_the_state_that_goes_on_are_in_their_table(tmp_path: Path, known: int) -> None:
    """A worker that was stopped between the checkpoint of another one and its own row has that row when it goes on."""
    report = TrainingReport(tmp_path, "T", 0, [])
    values = {epoch: {"kernel": np.full(2, epoch, np.float32), "bias": np.ones(1, np.float32)} for epoch in (1, 2, 3)}
    for epoch in range(1, known + 1):
        report.weights(epoch, values[epoch])
    report = TrainingReport(tmp_path, "T", 0, [], Earlier(tmp_path, (2, 0)))
    state = {"kernel": np.zeros(2, np.float32), "bias": np.ones(1, np.float32)}
    report.goes_on_after(2, [], state)
    report.weights(3, values[3])
    rows = [
        [str(epoch), name, hash_of(value)]
        for epoch, each in ((1, values[1]), (2, state), (3, values[3]))
        for name, value in each.items()
    ]
    (path,) = tmp_path.glob("WH-*.csv")
    assert [line.split(",") for line in path.read_text().splitlines()[1:]] == rows


@pytest.mark.parametrize(("before", "after"), [(3, 2), (3, 1), (2, 3), (1, 2)])
def test_within_an_epoch_on_another_number_of_workers(
    calm: JobHistory, tmp_path: Path, caplog: pytest.LogCaptureFixture, before: int, after: int
) -> None:
    """Each epoch has the figures that it would have without, on the console, too; no step is called lost, no block lacks."""
    stopped(tmp_path, before)
    with caplog.at_level("INFO"):
        result = trained(tmp_path, after, 3, resume="last")
    history = result.history
    assert history["Loss"] == pytest.approx(calm["Loss"], rel=1e-5)
    assert history["val_Loss"] == pytest.approx(calm["val_Loss"], rel=1e-5)
    assert history.untold == {}
    assert result.ledger is not None and result.ledger.problems == ()
    said = [record.getMessage() for record in caplog.records]
    assert not [line for line in said if "lost with a worker" in line or "Not every block" in line]
    for epoch in (2, 3):
        (line,) = (line for line in said if line.startswith(f"epoch {epoch}/3"))
        assert f"Loss {calm['Loss'][epoch - 1]:.4f} " in line
    assert len(history.workers) == max(before, after)
    for again in (JobHistory.read(result.files), RunRecords.read(tmp_path / "runs" / "latest").history):
        assert again.rows == history.rows and again.untold == {}


def test_blocks_that_a_job_before_has_not_applied_are_told(tmp_path: Path) -> None:
    """Also where it lacks the same ones in all of its batches, so that its rows are those of a job with fewer blocks."""
    with pytest.raises(RuntimeError, match="it was to end here"):
        trained(tmp_path, 2, 2, codec=Lacks, codec_extra_parameters={"last": LAST, "lacks": True})
    ledger = trained(tmp_path, 2, 2, codec=Lacks, resume="last").ledger
    assert ledger is not None
    assert ledger.problems[:2] == tuple(f"block 1 of epoch 1, batch {batch} was not applied" for batch in (1, 2))
    # those up to the checkpoint, which is after 16 or 20 batches, and five are told by name
    assert ledger.problems[5:] in ((f"and {16 - 5} more",), (f"and {LAST - 5} more",))


def test_epochs_before_stay_as_they_were(tmp_path: Path) -> None:
    """To the bit, through two more runs, on fewer and on more workers; each row is under the number that its worker had."""
    first = trained(tmp_path, 3, 2)
    second = trained(tmp_path, 1, 3, resume="last")
    third = trained(tmp_path, 2, 4, resume="last")
    assert second.history.rows[:2] == first.history.rows
    assert third.history.rows[:3] == second.history.rows
    for history in (second.history, third.history):
        assert {number: len(own.steps) for number, own in first.history.workers.items()} == dict.fromkeys(range(3), 2 * BATCHES)
        assert [history.workers[2].steps[at] for at in (0, -1)] == [first.history.workers[2].steps[at] for at in (0, -1)]
    assert [len(third.history.workers[number].steps) for number in range(3)] == [4 * BATCHES, 3 * BATCHES, 2 * BATCHES]


@pytest.mark.parametrize("workers", [(20, 3), (12, 20), (20, 3, 20), (20, 24, 20)])
def test_rows_of_workers_that_share_a_table_stay_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, workers: tuple[int, ...]
) -> None:
    """Many workers in equal states have one table of their steps; what goes on with few, or was few, lacks none of its rows."""
    before = trained(tmp_path, workers[0], 1, codec=None, checkpoint_every="epoch").history
    assert len(before.workers) == workers[0]
    for epoch, count in enumerate(workers[1:], 2):
        history = trained(tmp_path, count, epoch, codec=None, checkpoint_every="epoch", resume="last").history
        assert history.untold == {}
        assert history.rows[: epoch - 1] == before.rows
        for number, own in before.workers.items():
            assert history.workers[number].steps[: len(own.steps)] == own.steps
        found = RunRecords.read(tmp_path / "runs" / "latest").history
        assert found.rows == history.rows and found.untold == {}
        before = history
    assert not [line for line in caplog.messages if "lost with a worker" in line]


@pytest.mark.parametrize(("before", "after"), [(3, 3), (3, 2)])
def test_bytes_of_a_parameter_server_stay_as_they_were(tmp_path: Path, before: int, after: int) -> None:
    """Also of one that remembers nothing, so that it does not know where training goes on."""
    calm = trained(tmp_path / "calm", before, 3, ps=True, codec=None).history
    with pytest.raises(RuntimeError, match="it was to end here"):
        trained(tmp_path, before, 3, ps=True, codec=EndsByServer, codec_extra_parameters={"last": LAST})
    history = trained(tmp_path, after, 3, ps=True, codec=None, resume="last").history
    assert history["bytes"][0] == calm["bytes"][0] > 0
    if before == after:
        # the server had not written down all packets of the batch in which it ended
        assert 0 <= calm["bytes"][1] - history["bytes"][1] < calm["bytes"][1] / BATCHES
    assert history["bytes"][2] == calm["bytes"][2] * after / before


def test_packets_of_checkpoints_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They belong to no variable, have no name of one, and no warning says that their row is none."""
    options = {"codec": AsyncPS, "ps_codec": AsyncPS, "op_type": GradientAveragingOptimizer}
    trained(tmp_path, 2, 1, ps=True, **options)
    assert not [line for line in caplog.messages if "left out" in line]
    accounts = RunRecords.read(tmp_path / "runs" / "latest").tables[0]["AC"]
    (mark,) = (at for at, codec in enumerate(accounts["Codec"]) if codec == "checkpoint")
    assert (accounts["Variable"][mark], accounts["Name"][mark], accounts["Peer"][mark]) == (-1, "", -2)
    assert accounts["Packets"][mark] == 1 + (BATCHES - 1) // 4


def test_rows_that_are_gone_are_told(tmp_path: Path) -> None:
    """As of a worker whose machine is gone: the epochs that it has trained lack its steps."""
    first = trained(tmp_path, 3, 2)
    shutil.rmtree(tmp_path / "runs" / "P-SGD-1" / "Node-2-Retrieve")
    history = trained(tmp_path, 2, 3, resume="last").history
    assert history.untold == {1: BATCHES, 2: BATCHES}
    assert history["val_Loss"][:2] == first.history["val_Loss"]


def test_a_reader_of_the_running_job_waits_for_the_tables_of_others(tmp_path: Path) -> None:
    """They may come behind the worker's own, of which they have the batches before."""
    trained(tmp_path, 3, 2)
    result = trained(tmp_path, 1, 3, resume="last")
    told: list[JobHistory] = []
    reader = LiveFigures(lambda: None, told.append)
    reader.begin([0])
    tables = sorted(path for path in result.files[0] if path.suffix == ".csv")
    assert {"TR-P-SGD-N(1).csv", "TR-P-SGD-N(2).csv", "DE-P-SGD-N(0).csv"} <= {path.name for path in tables}

    def read(path: Path) -> None:
        reader.take(0, path.name, 0, path.read_bytes())

    others = [path for path in tables if path.name.startswith("TR") and not path.name.endswith("N(0).csv")]
    for path in tables:
        if path not in others:
            read(path)
    assert told == []
    for path in others:
        read(path)
    (history,) = told
    assert history.rows == result.history.rows


def test_the_same_rows_in_two_places_count_once(tmp_path: Path) -> None:
    """Two workers of one machine may both have carried those of a third on."""
    head, rows = ["Time", "Epochs", "Batches", "in", "Total", "Loss"], [f"{n}.0,1,{n},4,{n},0.5" for n in range(1, 5)]
    for name, own in (("a", rows[:3]), ("b", rows[1:])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "TR-t-N(2).csv").write_text("\n".join([",".join(head), *own, ""]))
    earlier = Earlier(None, (1, 0), [tmp_path / "a", tmp_path / "b"])
    assert earlier.numbers() == [2]
    assert [row[0] for row in earlier.rows(Path("TR-x-N(2).csv"), 2, head)] == ["1.0", "2.0", "3.0", "4.0"]


def test_a_place_without_rows_does_not_hide_those_of_another() -> None:
    """A table that cannot be read, or of a kind that one place has not got, has no columns."""
    table: Columns = {"Epochs": [1.0, 1.0], "Batches": [1.0, 2.0], "Total": [1.0, 2.0], "Loss": [0.5, 0.25]}
    assert joined([{}, table]) == joined([table, {}]) == joined([{}, {}, table, table]) == table
    assert joined([{}, {}]) == {}


def test_rows_that_are_no_numbers_count_once() -> None:
    """No two NaN are equal; that of a row in two places is the same figure."""
    first, second = ({"Epochs": [1.0, 1.0], "Batches": [1.0, 2.0], "Loss": [0.5, float("nan")]} for _ in range(2))
    rows = joined([first, second])
    assert rows["Batches"] == [1.0, 2.0] and rows["Loss"][0] == 0.5 and math.isnan(float(rows["Loss"][1]))


def test_a_reader_of_the_running_job_has_evaluations_of_workers_before(tmp_path: Path) -> None:
    """Evaluations come with the carried tables of a worker that has another number now, whose other kinds lie elsewhere."""
    tables = {
        0: {"DE-t-N(0).csv": parts(1), "EV-t-N(0).csv": evaluation(0.5), "TR-t-N(0).csv": steps(1, 2, 3, 4)},
        1: {"DE-t-N(1).csv": parts(0), "EV-t-N(1).csv": evaluation(0.9), "TR-t-N(1).csv": steps(3, 4)},
    }
    tables[0]["TR-t-N(1).csv"] = steps(1, 2)
    told: list[JobHistory] = []
    reader = LiveFigures(lambda: None, told.append)
    reader.begin([0, 1])
    files: dict[int, list[Path]] = {0: [], 1: []}
    for node, own in tables.items():
        for name, text in own.items():
            reader.take(node, name, 0, text.encode())
            files[node].append(tmp_path / str(node) / name)
            files[node][-1].parent.mkdir(exist_ok=True)
            files[node][-1].write_text(text)
    (row,) = told[-1].rows
    (whole,) = JobHistory.read(files).rows
    assert row["val_Loss"] == whole["val_Loss"] == pytest.approx(0.7)


def test_the_next_attempt_begins_without_a_table(tmp_path: Path) -> None:
    """The attempt before has carried rows on in the folders of several agents, and each of them counts, until the next one has
    tables of its own; those of the first attempt are among the carried ones."""

    def folder(agent: int, node: int, attempt: int, **tables: str) -> None:
        out = tmp_path / f"agent-{agent}" / f"J.{node}" / "out"
        out.mkdir(parents=True)
        (out.parent / "job.json").write_text(json.dumps({"attempt": attempt}))
        for number, text in tables.items():
            (out / f"TR-t-N({number.removeprefix('n')}).csv").write_text(text)

    def counts() -> dict[int, int]:
        return {number: len(own.steps) for number, own in RunRecords.read(tmp_path).history.workers.items()}

    # of attempt 0 the rows of batch 4 were undone
    folder(0, 0, 0, n0=steps(1, 2, 3, 4))
    folder(1, 1, 0, n1=steps(1, 2, 3, 4))
    folder(2, 2, 0, n2=steps(1, 2, 3, 4))
    folder(1, 0, 1, n0=steps(*range(1, 8)), n1=steps(1, 2, 3), n2=steps(1, 2, 3))
    folder(2, 1, 1, n1=steps(4, 5, 6, 7))
    assert counts() == {0: 7, 1: 7, 2: 3}
    folder(2, 0, 2)
    assert counts() == {0: 7, 1: 7, 2: 3}
    (tmp_path / "agent-2" / "J.0" / "out" / "TR-t-N(0).csv").write_text(steps(*range(1, 9)))
    (tmp_path / "agent-2" / "J.0" / "out" / "TR-t-N(1).csv").write_text(steps(1, 2, 3, 4))
    assert counts() == {0: 8, 1: 4}


def steps(*batches: int) -> str:
    return "Time,Epochs,Batches,in,Total,Loss\n" + "".join(f"{batch}.0,1,{batch},4,{batch},0.5\n" for batch in batches)


def evaluation(loss: float) -> str:
    return f"Loss,Epoch\n{loss},1\n"


def parts(carried: int) -> str:
    return f"Steps,Epochs,Batches,Last,Tables\n2,1,1,2,{carried}\n2,1,3,2,{carried}\n"
