"""StaleSynchronous(s): nobody is more than s batches ahead of the slowest worker. Time is virtual."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import SGDOptimizer
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous, SyncChoice, SynchronizedSGD
from parallel_sgd.codec import AsyncPS, Codec, DummyCodec, Plain, SyncPS
from parallel_sgd.in_process_scheduler import reliable
from parallel_sgd.parameter_server import Read, ReadGate
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.profiles.interface import ISetting
from parallel_sgd.testing.array_job import ArrayJob, start
from rpc.shipping import load, pack
from tests.parallel_sgd.paced_job import PacedJob
from tests.parallel_sgd.test_sync_asynchronous import Gossip

SERVERS: dict[type[Codec], type[Codec] | None] = {AsyncPS: AsyncPS, SyncPS: SyncPS}


def job_of(codec: type[Codec], sync_type: SyncChoice, **settings: Any) -> PacedJob:
    assignment = settings.pop("assignment", IIDBlockAssignment(4))
    return PacedJob(assignment, codec=codec, server=SERVERS.get(codec), sync_type=sync_type, **settings)


def bits(job: ArrayJob) -> list[bytes]:
    return [value.tobytes() for node in job.assignment.nodes for batch in job.results[node] for value in batch]


def uneven(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda *_: float(rng.uniform(0.1, 3.0))


@pytest.mark.parametrize(
    ("codec", "assignment"),
    [
        (Plain, IIDBlockAssignment(3)),
        (Plain, DuplicateAssignment(4, 2)),
        (SyncPS, FixedBlockAssignment(2, 1, 4)),
        (AsyncPS, IIDBlockAssignment(3)),
        (DummyCodec, IIDBlockAssignment(2)),
    ],
)
def test_without_slack_it_is_synchronous(codec: type[Codec], assignment: ISetting) -> None:
    """codecs.md, SSP(s): s=0 bit-exact to SSGD, whatever the links do."""
    runs = []
    for sync_type in (SynchronizedSGD, StaleSynchronous(0)):
        rng = np.random.default_rng(4)
        link = lambda *_, rng=rng: (float(rng.random()),)  # noqa: E731
        in_order = codec is AsyncPS  # which applies gradients in the order of their arrival
        runs.append(job_of(codec, sync_type, assignment=assignment, link=reliable if in_order else link).run())
    assert bits(runs[0]) == bits(runs[1])


@pytest.mark.parametrize("codec", [AsyncPS, DummyCodec, Gossip])
def test_with_infinite_slack_it_is_asynchronous(codec: type[Codec]) -> None:
    """codecs.md, SSP(s): s=inf == ASGD, in bits, time and bytes."""
    runs = [job_of(codec, sync, batches=8, seconds=uneven(7)).run() for sync in (AsynchronizedSGD, StaleSynchronous(math.inf))]
    assert bits(runs[0]) == bits(runs[1])
    assert runs[0].ended == runs[1].ended
    assert [e.accounts.entries() for e in runs[0].exchanges.values()] == [
        e.accounts.entries() for e in runs[1].exchanges.values()
    ]


@pytest.mark.parametrize("codec", [AsyncPS, DummyCodec, Gossip])
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_nobody_gets_further_ahead(codec: type[Codec], slack: int) -> None:
    """codecs.md, SSP(s): random delays of workers and links, max lead observed <= s; and the slack is used."""
    rng = np.random.default_rng(slack)
    link = lambda *_: (float(rng.uniform(0, 0.2)),)  # noqa: E731
    job = job_of(codec, StaleSynchronous(slack), batches=25, timeout=60.0, seconds=uneven(slack), link=link).run()
    assert max(job.leads) == slack
    assert [len(results) for results in job.results.values()] == [25] * 4


@pytest.mark.parametrize("slack", [0, 1, 4])
def test_what_is_read_holds_all_updates_that_are_old_enough(slack: int) -> None:
    """Ho et al.: with a clock of c a worker sees the first c - s updates of everybody, and all of its own."""

    def one_for_the_block(parameters: np.ndarray, batch: int, block: int, variable: int) -> np.ndarray:
        result = np.zeros_like(parameters)
        result.reshape(-1)[block] = -1.0
        return result

    job = job_of(
        AsyncPS,
        StaleSynchronous(slack),
        batches=12,
        timeout=60.0,
        seconds=uneven(3),
        gradient_of=one_for_the_block,
        rule=lambda: SGDOptimizer(1.0),
    ).run()
    for node in range(4):
        for batch, values in enumerate(job.results[node]):
            counts = np.rint(values[1] - start(1))
            assert counts.min() >= batch + 1 - slack
            assert counts[node] == batch + 1


@pytest.mark.parametrize("codec", [AsyncPS, DummyCodec])
def test_a_worker_may_pause(codec: type[Codec]) -> None:
    """codecs.md, SSP(s): no deadlock when one worker pauses and resumes; the others wait, and go on."""
    pause = lambda node, batch: 15.0 if (node, batch) == (2, 3) else 1.0  # noqa: E731
    job = job_of(codec, StaleSynchronous(1), batches=8, seconds=pause).run()
    assert [len(results) for results in job.results.values()] == [8] * 4
    assert max(job.leads) == 1
    assert all(moments[3] < 6.0 < 18.0 <= moments[4] for node, moments in job.ended.items() if node != 2)


def test_one_that_does_not_resume_is_named() -> None:
    """No wait without a limit."""
    pause = lambda node, batch: 100.0 if (node, batch) == (2, 3) else 1.0  # noqa: E731
    with pytest.raises(TimeoutError, match=r"Waited 20 s for node\(s\) 2, more than 1 batch\(es\) behind"):
        job_of(DummyCodec, StaleSynchronous(1), batches=8, seconds=pause).run()
    with pytest.raises(TimeoutError, match=r"the retry did not help. Waited 20 s for variable 1 .* of epoch 1, batch 5"):
        job_of(AsyncPS, StaleSynchronous(1), batches=8, seconds=pause).run()


@pytest.mark.parametrize("codec", [AsyncPS, DummyCodec])
def test_nobody_waits_for_a_worker_that_has_left(codec: type[Codec]) -> None:
    job = job_of(codec, StaleSynchronous(1), batches=8, ends_after={3: 2}).run()
    assert [len(results) for results in job.results.values()] == [8, 8, 8, 2]
    assert job.clock.monotonic() == 8.0


@pytest.mark.parametrize(("slack", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)])
def test_impossible_slack_is_refused(slack: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="StaleSynchronous 'staleness' must be an integer of at least 0"):
        StaleSynchronous(slack)


def test_it_travels_as_plain_data() -> None:
    """By name and number, so that agents which accept no code take it too."""
    for slack in (3, math.inf):
        bundle = pack({"sync_type": StaleSynchronous(slack)})
        assert bundle.code == b""
        assert load(bundle.objects, bundle.code)[0]["sync_type"] == StaleSynchronous(slack)
    assert StaleSynchronous(3).__name__ == "StaleSynchronous(3)"


def test_a_gate_opens_in_the_order_of_arrival() -> None:
    gate = ReadGate(range(3), staleness=1)
    for node, batch in ((0, 0), (1, 0), (0, 1), (1, 1)):
        gate.arrived(node, (0, batch))
    assert gate.open(range(3)) == [Read(1, 0, (0, 0)), Read(1, 1, (0, 0))]
    assert gate.waiting
    assert gate.open(range(3)) == []
    gate.arrived(1, (0, 1))  # again: it asks once more, and its clock stays
    gate.arrived(2, (0, 0))
    assert gate.open(range(3)) == [Read(2, 0, (0, 1)), Read(2, 1, (0, 1)), Read(1, 2, (0, 0))]
    gate.arrived(1, (0, 1))
    assert gate.open(range(3)) == [Read(2, 1, (0, 1))]
    gate.arrived(1, (0, 0))  # older than what it has sent since
    assert not gate.waiting
