"""The page of a run names who slowed it down: real workers, and in each case one thing that takes too long, at six places."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.dataset.interface import Arrays
from parallel_sgd.codec import BlockWeight
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import GlobalSettings
from parallel_sgd.engine.batches import BlockFeeder
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.run_page import RunRecords, blame
from parallel_sgd.run_page.blame import Cause, critical_path
from parallel_sgd.run_page.data import _in_turns, _phases
from parallel_sgd.run_page.records import Batch, without_pauses

from .digits_job import digits, plan_of
from .networks import mlp
from .parallel_time import Cluster

WORKERS, BATCHES, ORDINARY, EXTRA = 6, 6, 0.004, 0.03
CASES = {
    "slow node": [("node", f"worker {node}") for node in range(6)],
    "slow link": [("link", f"link {min(n, (n + 1) % 6)}\u2013{max(n, (n + 1) % 6)}") for n in range(6)],
    "big codec": [("codec", f"Heavy of dense_{1 + v // 2}/{('kernel', 'bias')[v % 2]}") for v in range(6)],
    "late data": [("data", f"worker {node}") for node in range(6)],
}


@cache
def samples() -> Arrays:
    x, y, test_x, test_y = digits()
    count = 16 * WORKERS * BATCHES // 2
    return x[:count], y[:count], test_x[:8], test_y[:8]


@pytest.mark.parametrize(
    ("case", "place"),
    [
        pytest.param(case, place, marks=() if place == number else pytest.mark.long)
        for number, case in enumerate(CASES, 1)
        for place in range(6)
    ],
)
def test_the_true_cause_comes_first(case: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With at least 80 % of the seconds that it cost, in each batch of a training."""
    deal = BlockFeeder.deal

    def begins(node: int, epoch: int, batch: int) -> None:
        uneven = np.random.default_rng([node, epoch, batch]).uniform(0, 0.25)
        slow = EXTRA if case == "slow node" and node == place else 0.0
        cluster.clocks[node].advance(ORDINARY * (1 + uneven) + slow)

    def late(self: BlockFeeder, batch: int, block: int) -> Any:
        if case == "late data" and cluster.running == place:
            cluster.clocks[place].advance(EXTRA)
        return deal(self, batch, block)

    def link(sender: int, receiver: int) -> float:
        slow = case == "slow link" and {sender, receiver} == {place, (place + 1) % WORKERS}
        return 0.0004 + (EXTRA if slow else 0.0)

    class Heavy(Plain):
        def update_blocks(self, block_weight: BlockWeight) -> Any:
            if case == "big codec" and GlobalSettings.current().variable == place:
                cluster.clocks[self.node_id].advance(EXTRA)
            return super().update_blocks(block_weight)

    monkeypatch.setattr(BlockFeeder, "deal", late)
    plan = plan_of(IIDBlockAssignment(WORKERS), default_codec=Heavy, epoch=2, block_size=16)
    cluster = Cluster(plan, mlp(units=8), samples(), tmp_path, link, begins)
    cluster.run()
    records = RunRecords.read(tmp_path)
    found = blame(records.batches, records.costs())
    first = found.causes[0]
    injected = EXTRA * BATCHES
    assert (first.kind, first.place) == CASES[case][place] and 0.8 * injected <= first.seconds <= 1.2 * injected, found.causes
    # while it goes on some workers have written more than others
    uneven = {node: rows[: len(rows) - 2 * (node % 2)] for node, rows in records.batches.items()}
    assert min(step.seconds for step in critical_path(uneven)) >= 0
    assert found.seconds == pytest.approx(sum(found.ordinary.values()) + sum(c.seconds for c in found.causes), rel=0.01)


def test_who_came_with_a_restart_goes_on_where_others_stood() -> None:
    """Of workers that are numbered anew one may have no batch of the attempt that failed; the pause is entered nevertheless."""
    first = Batch(1, 1, 0.0, 0, 1.0, 0, 0, 0, 0, 0, 1.0, 1.0, 1.0, None)
    again = Batch(1, 2, 9.0, 0, 1.0, 0, 0, 2.0, 0, 0, 1.0, 1.0, 3.0, 1)
    last = Batch(1, 2, 9.0, 0, 3.0, 0, 0, 0, 0, 0, 3.0, 3.0, 3.0, None)
    found = blame({0: [first, again], 1: [last]}, failures=[2.0])
    assert [(cause.kind, cause.seconds) for cause in found.causes] == [
        ("restart", 8.0),
        ("node", 2.0),
    ] and found.seconds == 12.0
    assert blame({0: [first, again], 1: [last]}).seconds == 3.0  # without one, its own first batch is the beginning


@pytest.mark.parametrize(("slow", "place"), [([1], "Q of kernel on worker 1"), ([0, 1, 2], "Q of kernel"), ([], None)])
def test_a_codec_that_is_slow_on_one_worker_names_it(slow: list[int], place: str | None) -> None:
    """It encodes for 1 s where it is slow, elsewhere for 1 ms; the others wait for that worker."""
    runs = {}
    for node in range(3):
        encode = 1.0 if node in slow else 0.001
        wait, peer = (1.001 - encode, 1) if slow else (0.0, None)
        put = 1.0 + encode
        runs[node] = [Batch(1, 1, 0.0, 0, 1.0, encode, 0, wait, 0.0, 0, put, put, put + wait, peer)]
    causes = blame(runs, {node: [("Q of kernel", 1.0, 0.0)] for node in runs}).causes
    assert [cause.place for cause in causes if cause.kind == "codec" and cause.seconds > 0.5] == [place] * (place is not None)


def test_every_second_of_a_run_is_entered() -> None:
    """Also those of a wait whose sender seems to have begun when it was over, as one that found no core after it had sent."""
    waiting = Batch(1, 1, 0.0, 0, 1.0, 0, 0, 4.0, 0, 1.0, 1.0, 1.0, 6.0, 1)
    late = Batch(1, 1, 5.5, 0, 0.2, 0, 0, 0, 0, 0, 0.2, 0.2, 0.3, None)
    found = blame({0: [waiting], 1: [late]})
    assert found.seconds == 6.0 and (found.causes[0].kind, found.causes[0].seconds) == ("link", 4.0)


def test_a_worker_that_begins_late_is_named() -> None:
    """The others wait for its first batch, from their own on."""
    early = Batch(1, 1, 0.0, 0, 1.0, 0, 0, 4.0, 0, 0, 1.0, 1.0, 5.0, 1)
    late = Batch(1, 1, 4.0, 0, 1.0, 0, 0, 0, 0, 0, 1.0, 1.0, 1.0, None)
    found = blame({0: [early], 1: [late]})
    assert found.seconds == 5.0 and [(c.kind, c.place, c.seconds) for c in found.causes] == [("start", "worker 1", 4.0)]
    assert _in_turns(found.causes, 2) == [Cause("cores", "2 workers", 4.0)], "on shared cores nobody is late"


def test_workers_of_one_machine_have_one_clock(tmp_path: Path) -> None:
    """A packet that came before its sender could tell that it had left moves no batch there."""
    early = {"Epochs": 1, "Batches": 1, "Data": 0, "Compute": 1, "Encode": 0, "Send": 0, "Merge": 0, "Rule": 0, "Put": 1}
    rows = [
        {**early, "Time": 0, "Wait": 1, "Sent": 9, "Total": 9, "Peer": 1},
        {**early, "Time": 0, "Wait": 1, "Sent": 9, "Total": 9, "Peer": 0},
    ]
    tables = {
        node: {"BA": {name: [float(value) if name != "Peer" else str(value)] for name, value in row.items()}}
        for node, row in enumerate(rows)
    }
    tables[1]["BA"]["Wait"] = [3.0]
    begins = {}
    for machine in ({}, {"workers on these cores": "2"}):
        records = RunRecords(tmp_path, None, {"environment": machine}, tables)
        begins[len(machine)] = [batches[0].begin for batches in records.batches.values()]
    assert begins == {0: [0.0, -1.0], 1: [0.0, 0.0]}, begins


def rows(*begins: tuple[int, float]) -> list[Batch]:
    """Rows of batches that compute for a second each: number of the batch, and when it began."""
    return [Batch(1, batch, begin, 0, 1.0, 0, 0, 0, 0, 0, 1.0, 1.0, 1.0, None) for batch, begin in begins]


def test_the_time_between_two_runs_is_nobodys() -> None:
    """Of a run that went on with another one, which had gone on with a third: an hour, and a day."""
    runs = {0: rows((1, 100.0), (2, 3701.5), (3, 90_003.0)), 1: rows((1, 100.25), (3, 90_003.25))}
    found = without_pauses(runs, [(1, 1), (1, 2), (1, 3)], began=90_001.0)
    assert {node: [row.begin for row in each] for node, each in found.items()} == {
        0: [90_000.75, 90_002.0, 90_003.0],
        1: [90_001.0, 90_003.25],
    }
    assert without_pauses(runs, [(1, 2)], began=200_000.0) == runs  # by another clock
    told = blame(found)
    assert told.seconds == pytest.approx(3.5) and max(cause.seconds for cause in told.causes) < 0.5


def test_a_worker_that_had_no_part_did_not_evaluate_meanwhile() -> None:
    runs = {0: rows((1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)), 1: rows((1, 0.0), (4, 3.25))}
    told = blame(runs)
    assert told.seconds == pytest.approx(4.25)
    assert {(cause.kind, cause.place) for cause in told.causes} <= {("pause", "worker 1")}
    assert sum(cause.seconds for cause in told.causes) == pytest.approx(0.25)
    assert _phases(runs, [])["seconds"]["between"] == [0.0, 0.0]
    assert _phases(runs, [1.5])["seconds"]["restart"] == [0.0, 2.25]
