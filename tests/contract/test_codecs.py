"""What holds for every codec that exchanges: the laws of docs/contract.md, on a job of arrays."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec
from parallel_sgd import Parameter_Server
from parallel_sgd import codec as codecs
from parallel_sgd.batch_sync import AsynchronizedSGD, SyncChoice, SynchronizedSGD
from parallel_sgd.codec import (
    DCASGD,
    AsyncPS,
    BlockWeight,
    Codec,
    DummyCodec,
    GlobalSettings,
    GradCode,
    Plain,
    SyncPS,
    netEncapsulation,
)
from parallel_sgd.profiles import CyclicAssignment, DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import Array, ArrayJob, Shapes, gradient, start
from tests.contract.kinds import public_kinds, row_faults
from tests.parallel_sgd import links

from ..statements import covers


@dataclass(frozen=True)
class Row:
    """What is true of a codec beyond the common laws."""

    exchanges: bool  # sends packets, so that all replicas agree
    assignments: tuple[ISetting, ...]
    server: bool = False  # needs a parameter server, which runs the same codec
    parameters: dict[str, Any] = field(default_factory=dict)
    sync_type: SyncChoice = SynchronizedSGD


EVERY = (IIDBlockAssignment(1), IIDBlockAssignment(3), DuplicateAssignment(4, 2), FixedBlockAssignment(2, 1, 4))
ALONE = (IIDBlockAssignment(1), IIDBlockAssignment(3), FixedBlockAssignment(2, 1, 4))  # each block on one worker
ROWS: dict[type[Codec], Row] = {
    Plain: Row(exchanges=True, assignments=EVERY),
    DummyCodec: Row(exchanges=False, assignments=EVERY),
    SyncPS: Row(exchanges=True, assignments=EVERY, server=True),
    AsyncPS: Row(exchanges=False, assignments=ALONE, server=True),  # bits depend on the order of arrival
    DCASGD: Row(exchanges=False, assignments=ALONE, server=True),
    GradCode: Row(exchanges=True, assignments=(CyclicAssignment(1), CyclicAssignment(3)), server=True),
    codecs.GradCodePeers: Row(exchanges=False, assignments=(CyclicAssignment(1), CyclicAssignment(3))),  # equal to rounding
}
EACH_BATCH = {"local_batches": 1, "learn_rate": 0.1}
MOST = (IIDBlockAssignment(3), DuplicateAssignment(4, 2), FixedBlockAssignment(2, 1, 4))
FIVE = (IIDBlockAssignment(5), FixedBlockAssignment(5, 1, 8))
ROWS |= {
    kind: Row(exchanges=True, assignments=MOST)
    for kind in (
        *(codecs.BF16, codecs.FP16, codecs.Int8, codecs.Natural, codecs.QSGD, codecs.TernGrad, codecs.ShardedLevels),
        *(codecs.EFSign, codecs.EFSignBothWays, codecs.OneBit, codecs.TopK, codecs.TopKInt8, codecs.ShardedTopK, codecs.DGC),
        *(codecs.Ring, codecs.ShardedPS, codecs.RandomK, codecs.PowerSGD, codecs.FirstCopy, codecs.FirstCopyInt8),
        *(codecs.SignSGD, codecs.Signum, codecs.Median, codecs.Adasum),
    )
}
ROWS |= {
    kind: Row(exchanges=True, assignments=MOST, server=True)
    for kind in (codecs.LevelQuantizer, codecs.SignSGDPS, codecs.ServerAdam, codecs.LAQ)
}
ROWS |= {
    kind: Row(exchanges=True, assignments=MOST, server=True, parameters=EACH_BATCH)
    for kind in (codecs.FedAvg, codecs.FedAdam, codecs.DiLoCoPS, codecs.FedProx, codecs.SCAFFOLD)
}
ROWS |= {kind: Row(True, MOST, parameters=EACH_BATCH) for kind in (codecs.LocalSGD, codecs.DiLoCo)}
ROWS |= {codecs.OneBitAdam: Row(exchanges=True, assignments=MOST, parameters={"warmup": 1})}
ROWS |= {kind: Row(exchanges=True, assignments=FIVE) for kind in (codecs.Krum, codecs.TrimmedMean)}
ROWS |= {codecs.Tree: Row(exchanges=True, assignments=(*ALONE, *FIVE))}
ROWS |= {kind: Row(exchanges=False, assignments=ALONE) for kind in (codecs.DPSGD, codecs.CHOCO, codecs.RandomPair)}
ROWS |= {codecs.SMA: Row(exchanges=False, assignments=MOST)}
ROWS |= {codecs.ADPSGD: Row(exchanges=False, assignments=ALONE, sync_type=AsynchronizedSGD)}
CASES = [(kind, assignment) for kind, row in ROWS.items() for assignment in row.assignments]
EXCHANGING = [case for case in CASES if ROWS[case[0]].exchanges and case[1].node_count > 1]
each = pytest.mark.parametrize(("kind", "assignment"), CASES)
each_exchanging = pytest.mark.parametrize(("kind", "assignment"), EXCHANGING)


def job_of(kind: type[Codec], assignment: ISetting, **settings: Any) -> ArrayJob:
    row = ROWS[kind]
    settings = {"parameters": row.parameters, "sync_type": row.sync_type, **settings}
    return ArrayJob(assignment, codec=kind, server=kind if row.server else None, **settings).run()


calm = functools.cache(job_of)  # the job as it is, to which each test compares its own


def bits(job: ArrayJob) -> list[list[bytes]]:
    """The results of every node: one entry per batch and variable."""
    return [[value.tobytes() for batch in job.results[node] for value in batch] for node in job.assignment.nodes]


def test_every_codec_has_a_row() -> None:
    assert not row_faults(public_kinds(Codec, parallel_sgd.codec), ROWS, "ROWS in tests/contract/test_codecs.py")


def test_every_recipe_ships() -> None:
    """What composes a codec stands in a list of names that are known before it is called."""
    for found in pkgutil.iter_modules(parallel_sgd.codec.__path__):
        module = importlib.import_module(f"parallel_sgd.codec.{found.name}")
        if shipped := getattr(module, "shipped", None):
            assert set(codecs.SHIPPED) >= shipped._recipes.keys(), found.name


@covers("SUB-45")
@each
@pytest.mark.share(6)
def test_a_tail_with_empty_blocks_is_a_batch_like_any_other(kind: type[Codec], assignment: ISetting) -> None:
    """The last block has the one sample of the second batch, weighted by the number of blocks; others give zeros."""
    blocks = assignment.block_count

    def content(batch: int, block: int, variable: int, shapes: Shapes) -> Array:
        whole = gradient(batch, block, variable, shapes)
        return whole if batch != 1 else whole * np.float32(blocks * (block == blocks - 1))

    job = job_of(kind, assignment, content=content)
    assert all(np.isfinite(value).all() for batches in job.results.values() for batch in batches for value in batch)
    assert bits(job) == bits(job_of(kind, assignment, content=content))
    if ROWS[kind].exchanges and assignment.node_count > 1:
        assert len({tuple(found) for found in bits(job)}) == 1
    if kind in (Plain, SyncPS, codecs.Tree, codecs.FirstCopy):
        exact = [gradient(1, blocks - 1, variable) for variable in range(2)]
        assert all(np.allclose(found, value, rtol=1e-6) for found, value in zip(job.results[0][1], exact, strict=True))


@covers("LAW-2", "LAW-7")
@each
@pytest.mark.share(4)
def test_the_same_job_gives_the_same_bits(kind: type[Codec], assignment: ISetting) -> None:
    """Determinism; hash-equal after every synchronous step. All results have the shapes that were put."""
    job = job_of(kind, assignment)
    assert bits(job) == bits(calm(kind, assignment))
    if ROWS[kind].exchanges:
        assert len(set(map(tuple, bits(job)))) == 1
    for node in assignment.nodes:
        shapes = [[value.shape for value in batch] for batch in job.results[node]]
        assert shapes == [[(3, 4), (4,)]] * job.batches


@covers("LAW-1")
@each
def test_content_is_never_changed(kind: type[Codec], assignment: ISetting) -> None:
    """Input never mutated, which a read-only array proves."""
    with GlobalSettings.use(assignment, ROWS[kind].parameters, values=[start(0)]):
        codec = kind(0)
    for block in assignment.node_2_block[0]:
        content = gradient(0, block, 0)
        content.flags.writeable = False
        packets = codec.update_blocks(BlockWeight(content, block))
        if packets is not None and not isinstance(packets, netEncapsulation):
            list(packets)
        assert content.tobytes() == gradient(0, block, 0).tobytes()


def delayed() -> Callable[[int, int, tuple[int, ...]], tuple[float, ...]]:
    rng = np.random.default_rng(1)
    return lambda *_: (float(rng.random()),)


def repeated() -> Callable[[int, int, tuple[int, ...]], tuple[float, ...]]:
    return lambda *_: (0.0, 0.0)


def lost_once() -> Callable[[int, int, tuple[int, ...]], tuple[float, ...]]:
    return links.lost_once(lambda sender, _receiver, key: key[2] == 1 and sender == 0)


@covers("SUB-22", "SUB-23", "LAW-7")
@each_exchanging
@pytest.mark.parametrize("link", [delayed, repeated, lost_once])
@pytest.mark.share(9)
def test_the_way_of_packets_changes_nothing(
    kind: type[Codec], assignment: ISetting, link: Callable[[], Callable[[int, int, tuple[int, ...]], tuple[float, ...]]]
) -> None:
    """Arrival order, duplicates, and a lost packet that a rescue replaces."""
    assert bits(job_of(kind, assignment, link=link())) == bits(calm(kind, assignment))


@covers("SUB-24")
@each
def test_a_codec_without_its_peers_says_so_or_is_done(kind: type[Codec], assignment: ISetting) -> None:
    """`is_done` is never true before the result exists, and rescue is never an error."""
    with GlobalSettings.use(assignment, values=[start(0)]):
        codec = kind(0)
    assert not codec.is_done()
    assert codec.get_result() is None
    assert codec.do_something_to_save_yourself() is None  # it has computed nothing that it could send
    codec.dispose()
    assert not codec.is_done()


@pytest.mark.parametrize("kind", ROWS)
def test_a_codec_runs_on_nodes_of_the_job_only(kind: type[Codec]) -> None:
    nodes = (7, -1) if ROWS[kind].server else (7, -1, Parameter_Server)
    for node in nodes:
        wanted = rf"{kind.__name__} runs on the workers \[0, 1\].*, got node {node}$"
        with GlobalSettings.use(IIDBlockAssignment(2)), pytest.raises(ValueError, match=wanted):
            kind(node)
