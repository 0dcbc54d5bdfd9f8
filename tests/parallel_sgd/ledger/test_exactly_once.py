"""Whatever happens on the way, every block of every batch goes into the weights exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallel_sgd.codec import Codec, Plain, SyncPS, TopK
from parallel_sgd.plan import WorkerPlan
from parallel_sgd.profiles import FixedBlockAssignment, ISetting
from tests.parallel_sgd.digits_job import plan_of
from tests.parallel_sgd.ledger.cluster import Attempt, Cluster

from ...statements import covers

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
        a_batch = VARIABLES * count * (2 if codec is SyncPS else count - 1)
        attempts.append(Attempt("".join(hosts), int(a_batch * rng.uniform(0, 3.5)), kills))
        if not kills:
            hosts = [host for host in hosts if rng.integers(0, 2)] or hosts[-1:]
            hosts += [pool.pop(0) for _ in range(rng.integers(max(0, 2 - len(hosts)), 5 - len(hosts)))]
    return [*attempts, Attempt("".join(hosts))]


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
    ledger = cluster.run([Attempt("abcd", 300), Attempt("abcd")])
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
