"""The ledger of a job out of those of its workers: holes and doubles are found where there are some, and only there. Whatever
happens on the way, every block of every batch goes into the weights exactly once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallel_sgd.codec import Codec, Plain, SyncPS, TopK
from parallel_sgd.engine.plan import WorkerPlan
from parallel_sgd.engine.progress import NOBODY, History, Stretch
from parallel_sgd.profiles import FixedBlockAssignment, ISetting
from parallel_sgd.record.block_history import LedgerTable
from parallel_sgd.record.ledger import Grid, Ledger, collect
from tests.parallel_sgd.digits_job import plan_of
from tests.parallel_sgd.ledger.cluster import Attempt, Cluster

from ...statements import covers

GRID = Grid(epochs=2, batches=3, blocks=2)
TWICE = "block 1 of epoch 1, batch 2 was applied 2 times, of node {} in attempt 1 and of node 1"
Rows = list[tuple[int, int, int, int, int, int]]


def rows(attempt: int = 0, nodes: tuple[int, ...] = (0, 1)) -> Rows:
    return [row for epoch in range(2) for row in Stretch(attempt, epoch, 0, 3, nodes).rows()]


def ledger(*tables: Rows, grid: Grid = GRID) -> Ledger:
    return Ledger.of([np.array(table, np.int64).reshape(-1, 6) for table in tables], grid)


@covers("INV-3")
def test_a_calm_run() -> None:
    """Whichever worker lacks its last rows."""
    found = ledger(rows(), rows()[:-3])
    assert found.problems == ()
    assert [tuple(row) for row in found.rows.tolist()] == rows()


@covers("INV-3")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (rows()[:-1], "block 1 of epoch 2, batch 3 was not applied"),
        (rows()[1:], "block 0 of epoch 1, batch 1 was not applied"),
        ([*rows(), (1, 2, 1, 1, 2, 1)], TWICE.format(1)),
        ([*rows(), (1, 2, 1, 1, 1, 1)], TWICE.format(1)),
        ([*rows(), (1, 2, 1, 0, 1, 1)], TWICE.format(0)),
        ([*rows(), (2, 4, 0, 0, 0, 1)], "block 0 of epoch 2, batch 4 does not exist, but was applied"),
        ([*rows(), (3, 1, 0, 0, 0, 1)], "block 0 of epoch 3, batch 1 does not exist, but was applied"),
        ([], "block 0 of epoch 1, batch 3 was not applied; and 7 more"),
    ],
    ids=["end", "start", "attempts", "same", "nodes", "batch", "epoch", "empty"],
)
def test_what_is_wrong_is_found(changed: Rows, said: str) -> None:
    """a hole, a double, and what there should not be; by name."""
    assert said in "; ".join(ledger(changed).problems)


@covers("INV-3")
def test_workers_that_disagree() -> None:
    """About the attempt always, about the node only where there are no copies."""
    assert "was applied 2 times" in ledger(rows(), rows(attempt=1)).problems[0]
    assert "of node 0 in attempt 1 and of node 2 in attempt 1" in ledger(rows(), rows(nodes=(2, 1))).problems[0]
    copies = ledger(rows(), rows(nodes=(2, 1)), grid=Grid(2, 3, 2, redundancy=2))
    assert copies.problems == ()
    assert [tuple(row) for row in copies.committed.tolist()] == rows()
    assert {tuple(row[2:]) for row in copies.rows[copies.rows[:, 5] == 0].tolist()} == {(0, 2, 1, 0)}


def test_an_earlier_job_had_another_batch() -> None:
    before, after = list(Stretch(0, 0, 0, 7, (0,)).rows()), list(Stretch(1, 1, 0, 3, (0, 1)).rows())
    # nothing was left to do after the other job, whose last epoch had other blocks
    other = [[1, batch, 0, 0, 1, 1] for batch in (1, 2)]
    assert Ledger.of([np.array(other)], Grid(1, 3, 2, resumed=True, before=1)).problems == ()
    assert Ledger.of([np.array(other)], Grid(1, 3, 2, resumed=True)).problems != ()
    grid = Grid(2, 3, 2, resumed=True)
    assert ledger(before + after, grid=grid).problems == ()
    assert ledger(before[:3] + before[4:] + after, grid=grid).problems == ("block 0 of epoch 1, batch 4 was not applied",)
    assert ledger(before + after[:-1], grid=grid).problems == ("block 1 of epoch 2, batch 3 was not applied",)


def test_another_batch_within_an_epoch() -> None:
    """A job goes on within an epoch with three blocks of a batch in place of two: what lacks in either part is found."""
    before, after = list(Stretch(0, 0, 0, 2, (0, 1)).rows()), list(Stretch(1, 0, 2, 3, (0, 1, 2)).rows())
    for grid in (Grid(1, 3, 3, resumed=True), Grid(1, 3, 3, resumed=True, before=1), Grid(2, 3, 3, resumed=True)):
        more = list(Stretch(1, 1, 0, 3, (0, 1, 2)).rows()) if grid.epochs > 1 else []
        assert ledger(before + after + more, grid=grid).problems == ()
        assert ledger(before[1:] + after + more, grid=grid).problems == ("block 0 of epoch 1, batch 1 was not applied",)
        assert ledger(before[:2] + after + more, grid=grid).problems == (
            "block 0 of epoch 1, batch 2 was not applied",
            "block 1 of epoch 1, batch 2 was not applied",
        )
    assert ledger(before + after[:-1], grid=Grid(1, 3, 3, resumed=True)).problems == (
        "block 2 of epoch 1, batch 3 was not applied",
    )


@covers("INV-3")
def test_a_hole_as_large_as_all_that_an_attempt_has_applied() -> None:
    """The rows of an attempt alone look like those of a job with fewer blocks; what its history tells decides."""
    before = list(Stretch(0, 0, 0, 3, (0, 1)).rows())
    short, after = list(Stretch(1, 1, 0, 1, (0,)).rows()), list(Stretch(2, 1, 1, 3, (0, 1)).rows())
    hole = ("block 1 of epoch 2, batch 1 was not applied",)
    begun = History(2, (Stretch(0, 0, 0, 3, (0, 1)), Stretch(1, 1, 0, 1, (0, NOBODY))))
    assert begun.sizes == {1: 2, 2: 2}
    for sizes in (begun.sizes, {1: 2}):  # also of an attempt of this job, which has its blocks
        assert ledger(before + short + after, grid=Grid(2, 3, 2, resumed=True, before=1, sizes=sizes)).problems == hole
    # a job of one block between two others
    fewer = Grid(2, 3, 2, resumed=True, before=1, sizes={1: 2, 2: 1})
    assert ledger(before + short + after, grid=fewer).problems == ()
    assert ledger(before[:1] + before[2:] + short + after, grid=fewer).problems == (
        "block 1 of epoch 1, batch 1 was not applied",
    )
    last = Grid(1, 3, 2, resumed=True, sizes={1: 2})
    assert ledger(before[:4] + list(Stretch(1, 0, 2, 3, (0,)).rows()), grid=last).problems == (
        "block 1 of epoch 1, batch 3 was not applied",
    )


def test_the_table_of_a_worker(tmp_path: Path) -> None:
    """What a restart has undone and copies that were not needed are not committed; a row that was cut off is none."""
    path = tmp_path / "LEDGER-t-N(1).csv"
    earlier = [row.split(",") for row in ("1,1,0,0,1,1", "1,1,1,1,1,1", "1,2,0,0,1,1", "1,2,1,1,1,0", "1,3,0,0,")]
    begun = History(0, (Stretch(0, 0, 0, 1, (0, 1)),))
    table = LedgerTable(path, 1, [0, 1], begun, earlier)
    table.applied(Stretch(1, 0, 1, 2, (0, NOBODY)))
    assert path.read_text() == (
        "epoch,batch,block,node,attempt,committed\n1,1,0,0,1,1\n1,1,1,1,1,1\n1,2,0,0,1,0\n1,2,1,1,1,0\n"
    )
    table.save()
    table.save()
    assert path.read_text().splitlines()[5:] == ["1,2,0,0,2,1", "1,2,0,1,2,0", "1,2,1,1,2,0"]


def test_histories_travel_as_tables() -> None:
    """Also where an earlier job had fewer blocks, and with blocks that are nobody's; they go on in another job."""
    stretches = (Stretch(0, 0, 0, 3, (0,)), Stretch(1, 1, 0, 3, (NOBODY, 1, NOBODY)), Stretch(2, 1, 3, 4, (0, 0, 1)))
    for history in (History(3, stretches), History(1, stretches[:1]), History()):
        assert History.of_array(history.attempts, history.to_array()) == history == history.of_job(same=True)
    begun = History(0, (Stretch(0, 0, 0, 3, (0, 1)), Stretch(2, 1, 0, 3, (0, 0))))
    assert begun.of_job(same=False) == History(3, begun.stretches)
    assert History().of_job(same=False) == History()
    five = np.zeros((2, 5), np.int32)
    for attempts, table in (
        (0, five.astype(np.float32)),
        (0, five[:, :3]),
        (0, five[0]),
        ("0", five),
        (True, five),
        (None, five),
    ):
        said = r"a history must be a table of int32" + (r", got \w+ \(.*\) of 0 attempts" if attempts == 0 else "")
        with pytest.raises(ValueError, match=said):
            History.of_array(attempts, table)  # type: ignore[arg-type]


@covers("INV-3")
def test_files_of_workers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Told by name at the end of the job; a file that is none is said and passed over, one that was cut off is read."""
    caplog.set_level(logging.WARNING)
    text = "epoch,batch,block,node,attempt,committed\n" + "".join(",".join(map(str, row)) + "\n" for row in rows())
    files: dict[int, list[Path]] = {}
    for node, content in enumerate(["nonsense\n", text[:-12], text[:-24] + "2,3"]):
        folder = tmp_path / f"Node-{node}-Retrieve"
        folder.mkdir()
        files[node] = [folder / f"LEDGER-t-N({node}).csv"]
        files[node][0].write_text(content)
    found = collect("t", files, GRID)
    assert found is not None and found.path == tmp_path / "Node-0-Retrieve" / "LEDGER-t.csv" == files[0][-1]
    assert found.path.read_text().splitlines() == text.splitlines()[:-1]
    assert "Node(0): LEDGER-t-N(0).csv is left out: it is no table of this kind" in caplog.text
    assert "Not every block was applied exactly once" in caplog.text
    assert "block 1 of epoch 2, batch 3 was not applied." in caplog.text
    assert collect("t", {0: []}, GRID) is None


# jobs of several attempts

BLOCKS, EPOCHS, BATCHES, VARIABLES = 4, 3, 5, 6


def plan(assignment: ISetting, codec: type[Codec], **options: Any) -> WorkerPlan:
    return plan_of(assignment, block_size=75, epoch=EPOCHS, seed=3, codec=codec, checkpoint_every="epoch", **options)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> set[bytes]:
    cluster = Cluster(plan(FixedBlockAssignment(2, 1, BLOCKS), Plain), tmp_path_factory.mktemp("calm"))
    ledger = cluster.run([Attempt("ab")])
    assert ledger is not None and ledger.problems == () and len(ledger.rows) == EPOCHS * BATCHES * BLOCKS
    return cluster.values()


def drawn(seed: int, codec: type[Codec]) -> list[Attempt]:
    """Five attempts, each but the last with less than four batches: after a kill the same hosts go on, else some leave, or all
    but one, and others come.
    """
    rng = np.random.default_rng(seed)
    pool, attempts = list("abcdefghijklmnopqrst"), []
    hosts = [pool.pop(0) for _ in range(rng.integers(2, 5))]
    for _ in range(4):
        count, kills = len(hosts), bool(rng.integers(0, 2))
        a_batch = VARIABLES * count * 2 if codec is SyncPS else count * (count - 1)  # with Plain all variables are one packet
        attempts.append(Attempt("".join(hosts), int(a_batch * rng.uniform(0, 3.5)), kills))
        if not kills:
            hosts = [host for host in hosts if rng.integers(0, 2)] or hosts[-1:]
            hosts += [pool.pop(0) for _ in range(rng.integers(max(0, 2 - len(hosts)), 5 - len(hosts)))]
    return [*attempts, Attempt("".join(hosts))]


@pytest.mark.share(3)
@covers("INV-2", "INV-3", "EL-26")
@pytest.mark.parametrize("codec", [Plain, SyncPS])
@pytest.mark.parametrize("seed", range(3))
def test_kills_joins_and_leaves(tmp_path: Path, calm: set[bytes], codec: type[Codec], seed: int) -> None:
    """Killed in the middle of sending, ended for hosts that come and go, who take their disks with them,
    over links that delay and repeat; the committed rows are each block once, and the weights those of a calm run."""
    attempts = drawn(seed, codec)
    first = len(attempts[0].hosts)
    cluster = Cluster(plan(FixedBlockAssignment(first, 1, BLOCKS), codec), tmp_path, codec is SyncPS, seed)
    ledger = cluster.run(attempts)
    assert ledger is not None and ledger.problems == ()
    assert cluster.ended == len(attempts) - 1
    wanted = [(e, b, k) for e in range(1, EPOCHS + 1) for b in range(1, BATCHES + 1) for k in range(BLOCKS)]
    assert [tuple(row) for row in ledger.committed[:, :3].tolist()] == wanted
    assert cluster.values() == calm


@covers("INV-3")
@pytest.mark.parametrize("codec", [Plain, SyncPS])
def test_redundant_blocks(tmp_path: Path, calm: set[bytes], codec: type[Codec]) -> None:
    """Of two copies of each block one is committed and the other is there; so many rows as samples times redundancy."""
    cluster = Cluster(plan(FixedBlockAssignment(4, 2, BLOCKS), codec), tmp_path, codec is SyncPS)
    packets = 300 if codec is SyncPS else 300 // VARIABLES
    ledger = cluster.run([Attempt("abcd", packets), Attempt("abcd")])
    assert ledger is not None and ledger.problems == () and cluster.ended == 1
    assert len(ledger.committed) == EPOCHS * BATCHES * BLOCKS and cluster.values() == calm
    last = ledger.rows[ledger.rows[:, 4] == 2]
    assert len(last) == 2 * len(last[last[:, 5] == 1]) > 0
    holders = {tuple(row) for row in ledger.committed[:, 2:4].tolist()}
    assert holders <= {(block, node) for block in range(4) for node in ((0, 1) if block < 2 else (2, 3))}
    if codec is SyncPS:  # whoever comes first counts, so not always the same
        assert len(holders) > BLOCKS


@covers("INV-3")
def test_what_a_restart_undoes_is_told(tmp_path: Path) -> None:
    """With a codec that remembers what it has not sent, a kill sends all back to the last checkpoint; what came after it
    stands in the ledger as not committed, and once more as committed, of the later attempt."""
    cluster = Cluster(plan(FixedBlockAssignment(2, 1, BLOCKS), TopK), tmp_path)
    ledger = cluster.run([Attempt("ab", 90), Attempt("ab")])
    assert ledger is not None and ledger.problems == () and cluster.ended == 1
    undone = ledger.rows[ledger.rows[:, 5] == 0]
    assert len(undone) and set(undone[:, 4].tolist()) == {1}
    again = {tuple(row) for row in ledger.committed[ledger.committed[:, 4] == 2][:, :4].tolist()}
    assert {tuple(row) for row in undone[:, :4].tolist()} <= again


@covers("EL-28")
@pytest.mark.parametrize("every", [1, 2])
def test_commits_of_workers_that_differ(tmp_path: Path, every: int) -> None:
    """Where nobody was killed, a codec that remembers goes on from the last commit, which is at most so many batches
    back, with the bits of a calm run; the checkpoint is five batches apart."""
    calm = Cluster(plan(FixedBlockAssignment(2, 1, BLOCKS), TopK), tmp_path / "calm")
    calm.run([Attempt("ab")])
    cluster = Cluster(plan(FixedBlockAssignment(2, 1, BLOCKS), TopK, commit_every=every), tmp_path / "ended")
    ledger = cluster.run([Attempt("ab", 105, kills=False), Attempt("ab")])
    assert ledger is not None and ledger.problems == () and cluster.ended == 1
    assert cluster.values() == calm.values()
    applied = ledger.rows[ledger.rows[:, 4] == 1]
    undone = {tuple(row[:2]) for row in applied[applied[:, 5] == 0].tolist()}
    assert len({tuple(row[:2]) for row in applied.tolist()}) > BATCHES + every and len(undone) <= every
