"""Sync types of real jobs in virtual time: when workers of unequal speed go on, and orders of arrival that are replayed."""

from __future__ import annotations

import csv
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from nn.optimizer import GradientAveragingOptimizer, ParameterAveragingOptimizer
from parallel_sgd.batch_sync import FirstK, StaleSynchronous
from parallel_sgd.codec import ADPSGD, AsyncPS, Plain, Ring
from parallel_sgd.profiles import DuplicateAssignment
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.kernel import Deadlock
from parallel_sgd.simulation.order import Arrivals
from tests.statements import covers

from .test_jobs import train, weights

FAST = "star 1000Gbit/s 0us"
UNEQUAL = {0: 0.001, 1: 0.002, 2: 0.004}
ASYNC: dict[str, Any] = {"op_type": GradientAveragingOptimizer, "sync_type": "asgd"}


def nodes(compute: object, ps: bool = False, count: int = 3, platform: str = FAST, **given: Any) -> Any:
    """Simulated nodes whose codecs take no time."""
    return parallel_sgd.simulated(count, platform, ps=ps, compute=compute, codec_time=0, **given)


def computed(result: JobResult, node: int) -> list[float]:
    """The virtual moments at which a worker has computed each batch."""
    path = next(path for path in result.files[node] if path.name.startswith("TR-"))
    with path.open(encoding="utf-8", newline="") as opened:
        return [float(row["Time"]) for row in csv.DictReader(opened)]


@covers("SIM-7")
def test_synchronous_workers_wait_for_the_slowest_and_asynchronous_ones_do_not(tmp_path: Path) -> None:
    together = train(nodes(UNEQUAL), Plain, tmp_path / "bsp", steps=6)
    for node, own in UNEQUAL.items():
        assert computed(together, node) == pytest.approx([0.004 * batch + own for batch in range(6)], abs=2e-6)
    apart = train(nodes(UNEQUAL, ps=True), AsyncPS, tmp_path / "asgd", steps=6, **ASYNC)
    for node, own in UNEQUAL.items():
        assert computed(apart, node) == pytest.approx([own * (batch + 1) for batch in range(6)], abs=2e-6)


@covers("SIM-7")
@pytest.mark.parametrize("bound", [1, 3])
def test_a_worker_is_never_further_ahead_than_its_bound(bound: int, tmp_path: Path) -> None:
    """It begins a batch only when it has computed at most `bound` more than the slowest."""
    given = {**ASYNC, "sync_type": StaleSynchronous(bound)}
    result = train(nodes(UNEQUAL, ps=True), AsyncPS, tmp_path, steps=12, **given)
    ends = {node: computed(result, node) for node in UNEQUAL}
    leads = []
    for node, own in UNEQUAL.items():
        for batch, end in enumerate(ends[node]):
            begin = end - own + 5e-6  # times in the tables are rounded
            leads.append(batch - min(bisect_right(ends[other], begin) for other in UNEQUAL))
    assert max(leads) == bound


@covers("SIM-7")
def test_the_first_k_set_the_pace_and_copies_of_a_block_stand_for_each_other(tmp_path: Path) -> None:
    compute = {0: 0.001, 1: 0.002, 2: 0.003, 3: 0.02}
    first = train(nodes(compute, count=4), Plain, tmp_path / "k", steps=6, sync_type=FirstK(3))
    assert computed(first, 0) == pytest.approx([0.003 * batch + 0.001 for batch in range(6)], abs=2e-6)
    # workers 0 and 1 compute one of two blocks, 2 and 3 the other: 1 ms and 3 ms are the first copies, and stand for all four
    twice: Any = {"assignment_type": DuplicateAssignment, "redundancy": 2}
    copies = {0: 0.001, 1: 0.02, 2: 0.003, 3: 0.02}
    both = train(nodes(copies, count=4), Plain, tmp_path / "r", steps=6, sync_type=FirstK(3), **twice)
    assert computed(both, 0) == pytest.approx([0.003 * batch + 0.001 for batch in range(12)], abs=2e-6)


@pytest.mark.share(2)
@covers("SIM-7")
@pytest.mark.parametrize("kind", ["server", "peers"])
def test_a_job_that_follows_the_order_of_another_has_its_bits_at_any_speed(kind: str, tmp_path: Path) -> None:
    """Workers that await answers of a server, and workers that go on with what has come from the others by then."""
    codec: Any = AsyncPS if kind == "server" else ADPSGD
    given = ASYNC if kind == "server" else {"sync_type": "asgd", "op_type": ParameterAveragingOptimizer}
    ps, star = kind == "server", "star 1Gbit/s 300us"

    def run(compute: object, name: str, arrivals: Any = None) -> JobResult:
        made = nodes(compute, ps=ps, platform=star, arrivals=arrivals)
        return train(made, codec, tmp_path / name, steps=8, **given)

    first = run(UNEQUAL, "first", True)
    assert first.simulated is not None
    order = first.simulated.arrivals
    assert isinstance(order, Arrivals)
    for number, compute in enumerate(({0: 0.004, 1: 0.002, 2: 0.001}, "exponential 1ms 3ms")):
        assert weights(run(compute, f"free{number}")) != weights(first)
        again = run(compute, f"again{number}", order)
        assert weights(again) == weights(first)
        assert again.simulated is not None and again.simulated.digest != first.simulated.digest


@covers("SIM-34")
def test_an_order_of_other_nodes_is_refused(tmp_path: Path) -> None:
    of_plain = train(nodes("1ms", arrivals=True), Plain, tmp_path / "plain").simulated
    assert of_plain is not None
    with pytest.raises(
        Deadlock, match=r"No node can go on: .*\. 'arrivals' must be those of the same job, with the same codec"
    ):
        train(nodes("1ms", arrivals=of_plain.arrivals), Ring, tmp_path / "ring")
    with pytest.raises(ValueError, match=r"'arrivals' must be those of a job of the nodes \[0, 1\], got \[0, 1, 2\]"):
        parallel_sgd.simulated(2, arrivals=Arrivals({0: (), 1: (), 2: ()}))
    with pytest.raises(TypeError, match="'arrivals' must be True, or those of an earlier job, got int"):
        parallel_sgd.simulated(2, arrivals=3)  # type: ignore[arg-type]
