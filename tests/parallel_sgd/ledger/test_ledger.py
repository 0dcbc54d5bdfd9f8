"""The ledger of a job out of those of its workers: holes and doubles are found where there are some, and only there."""

from __future__ import annotations

import doctest
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parallel_sgd.ledger as module
from parallel_sgd.block_history import LedgerTable
from parallel_sgd.ledger import Grid, Ledger, collect
from parallel_sgd.progress import NOBODY, History, Stretch

from ...statements import covers

GRID = Grid(epochs=2, batches=3, blocks=2)
Rows = list[tuple[int, int, int, int, int, int]]


def rows(attempt: int = 0, nodes: tuple[int, ...] = (0, 1)) -> Rows:
    return [row for epoch in range(2) for row in Stretch(attempt, epoch, 0, 3, nodes).rows()]


def ledger(*tables: Rows, grid: Grid = GRID) -> Ledger:
    return Ledger.of([np.array(table, np.int64).reshape(-1, 6) for table in tables], grid)


def test_examples() -> None:
    assert doctest.testmod(module) == (0, 3)


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
        (
            [*rows(), (1, 2, 1, 1, 2, 1)],
            "block 1 of epoch 1, batch 2 was applied 2 times, of node 1 in attempt 1 and of node 1",
        ),
        (
            [*rows(), (1, 2, 1, 1, 1, 1)],
            "block 1 of epoch 1, batch 2 was applied 2 times, of node 1 in attempt 1 and of node 1",
        ),
        (
            [*rows(), (1, 2, 1, 0, 1, 1)],
            "block 1 of epoch 1, batch 2 was applied 2 times, of node 0 in attempt 1 and of node 1",
        ),
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
    grid = Grid(2, 3, 2, resumed=True)
    assert ledger(before + after, grid=grid).problems == ()
    assert ledger(before[:3] + before[4:] + after, grid=grid).problems == ("block 0 of epoch 1, batch 4 was not applied",)
    assert ledger(before + after[:-1], grid=grid).problems == ("block 1 of epoch 2, batch 3 was not applied",)


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


def test_histories_go_on_in_another_job() -> None:
    history = History(0, (Stretch(0, 0, 0, 3, (0, 1)), Stretch(2, 1, 0, 3, (0, 0))))
    assert history.of_job(same=True) == history
    assert history.of_job(same=False) == History(3, history.stretches)
    assert History().of_job(same=False) == History()


def test_histories_travel_as_tables() -> None:
    """Also where an earlier job had fewer blocks, and with blocks that are nobody's."""
    stretches = (Stretch(0, 0, 0, 3, (0,)), Stretch(1, 1, 0, 3, (NOBODY, 1, NOBODY)), Stretch(2, 1, 3, 4, (0, 0, 1)))
    for history in (History(3, stretches), History(1, stretches[:1]), History()):
        assert History.of_array(history.attempts, history.to_array()) == history


@pytest.mark.parametrize("attempts", ["0", True, None])
def test_no_history(attempts: Any) -> None:
    for table in (np.zeros((2, 5), np.float32), np.zeros((2, 3), np.int32), np.zeros(8, np.int32)):
        with pytest.raises(ValueError, match=r"a history must be a table of int32, got \w+ \(.*\) of 0 attempts"):
            History.of_array(0, table)
    with pytest.raises(ValueError, match="a history must be a table of int32"):
        History.of_array(attempts, np.zeros((2, 5), np.int32))


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
    assert "The ledger of node(0) cannot be read: it begins with 'nonsense'" in caplog.text
    assert "Not every block was applied exactly once" in caplog.text
    assert "block 1 of epoch 2, batch 3 was not applied." in caplog.text
    assert collect("t", {0: []}, GRID) is None
