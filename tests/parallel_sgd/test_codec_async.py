"""AsyncPS and DCASGD: their identities, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, IGradientDescent, LAMBOptimizer, MomentumOptimizer, SGDOptimizer
from parallel_sgd import Parameter_Server
from parallel_sgd.batch_sync import AsynchronizedSGD, SynchronizedSGD
from parallel_sgd.codec import DCASGD, AsyncPS, BlockWeight, Codec, GlobalSettings
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import SHAPES, ArrayJob, start, tree_mean
from tests.parallel_sgd.paced_job import PacedJob, pulled

RULES: list[Callable[[], IGradientDescent]] = [
    lambda: SGDOptimizer(0.1),
    lambda: MomentumOptimizer(0.1),
    lambda: ADAMOptimizer(0.01, weight_decay=0.1, clip_value=1.0),
    lambda: LAMBOptimizer(0.01),
]


def asynchronous(workers: int, codec: type[Codec] = AsyncPS, **settings: Any) -> PacedJob:
    settings = {"sync_type": AsynchronizedSGD, "batches": 12, **settings}
    return PacedJob(settings.pop("assignment", IIDBlockAssignment(workers)), codec=codec, server=codec, **settings).run()


def same(job: ArrayJob, node: int, batch: int, values: list[np.ndarray]) -> bool:
    return [got.tobytes() for got in job.results[node][batch]] == [value.tobytes() for value in values]


def server(job: ArrayJob) -> AsyncPS:
    codec = job.server_bank.codecs[0]
    assert isinstance(codec, AsyncPS)
    return codec


@pytest.mark.parametrize("codec", [AsyncPS, DCASGD])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("blocks", [1, 3])
def test_one_worker_trains_as_with_the_rule_itself(
    codec: type[Codec], rule: Callable[[], IGradientDescent], blocks: int
) -> None:
    """AsyncPS: W=1 bit-exact to SGD; DC-ASGD: W=1 == SGD for any lambda."""
    job = asynchronous(1, codec, assignment=FixedBlockAssignment(1, 1, blocks), rule=rule, parameters={"lambda": 5.0})
    values = [start(variable) for variable in range(len(SHAPES))]
    rules = [rule() for _ in values]
    for own, value in zip(rules, values, strict=True):
        own.partition([value.size])
    for batch in range(job.batches):
        for variable, (own, value) in enumerate(zip(rules, values, strict=True)):
            gradient = tree_mean([pulled(value, batch, block, variable) for block in range(blocks)])
            own.update(value.reshape(-1), gradient.reshape(-1))
        assert same(job, 0, batch, values)


@pytest.mark.parametrize("aware", [False, True])
def test_workers_that_take_turns_are_delayed_sgd(aware: bool) -> None:
    """AsyncPS: the W=4 round-robin scheduler is a scripted tau=3 delayed SGD, bit for bit; Zhang et al.: eta / (tau + 1)."""
    job = asynchronous(4, parameters={"staleness_aware": aware})
    for variable in (0, 1):
        history = [start(variable)]
        for step in range(4 * job.batches):
            tau = min(step, 3)
            change = pulled(history[step - tau], step // 4, step % 4, variable) * np.float32(-0.1)
            history.append(history[-1] + (change / np.float32(tau + 1) if aware else change))
        for step, value in enumerate(history[1:]):
            assert job.results[step % 4][step // 4][variable].tobytes() == value.tobytes()
    assert server(job).staleness == Counter({0: 1, 1: 1, 2: 1, 3: 4 * job.batches - 3})


def test_under_a_synchronous_type_everybody_gets_the_same() -> None:
    """All gradients of the batch, computed with the same parameters, are in before anybody reads."""
    job = asynchronous(3, sync_type=SynchronizedSGD, seconds=lambda node, batch: 1.0 + node)
    value = start(1)
    for batch in range(job.batches):
        gradients = [pulled(value, batch, node, 1) for node in range(3)]
        for gradient in gradients:
            value = value + gradient * np.float32(-0.1)
        assert {job.results[node][batch][1].tobytes() for node in range(3)} == {value.tobytes()}
    assert server(job).staleness == Counter({0: job.batches, 1: job.batches, 2: job.batches})


def test_bytes_up_and_down() -> None:
    """4n up, 4n down, and the parameters once; links between workers carry nothing."""
    job = asynchronous(3)
    size = 4 * (12 + 4)
    for node in range(3):
        books = job.exchanges[node].accounts
        assert books.total("sent").raw == (job.batches + 1) * size
        assert books.total("received").raw == job.batches * size
        assert {entry.peer for entry in books.entries()} == {Parameter_Server}


def compensated(job: ArrayJob, variable: int, strength: float, ms: float | None) -> list[np.ndarray]:
    """DC-ASGD with SGD at rate 0.1 and workers that take turns, in float64."""
    history = [start(variable).astype(np.float64)]
    mean_square = np.zeros(SHAPES[variable])
    for step in range(4 * job.batches):
        old = history[max(step - 3, 0)]
        g = pulled(old.astype(np.float32), step // 4, step % 4, variable).astype(np.float64)
        by = strength
        if ms is not None:
            mean_square = ms * mean_square + (1 - ms) * g * g
            by = strength / np.sqrt(mean_square + 1e-7)
        history.append(history[-1] - 0.1 * (g + by * g * g * (history[-1] - old)))
    return history[1:]


@pytest.mark.parametrize(
    ("parameters", "strength", "ms"),
    [
        ({}, 2.0, 0.95),
        ({"lambda": 0.5, "ms": 0.0}, 0.5, 0.0),
        ({"adaptive": False}, 0.04, None),
        ({"adaptive": 0, "lambda": 0.3}, 0.3, None),
    ],
)
def test_delay_compensation_follows_the_paper(parameters: dict[str, Any], strength: float, ms: float | None) -> None:
    """Zheng et al.; lambda_t stays lambda_0 / sqrt(MS + eps), and the first messages work."""
    job = asynchronous(4, DCASGD, parameters=parameters)
    for variable in (0, 1):
        for step, value in enumerate(compensated(job, variable, strength, ms)):
            np.testing.assert_allclose(job.results[step % 4][step // 4][variable], value, rtol=1e-4, atol=1e-4)


def test_a_mean_square_that_fades_out_becomes_0() -> None:
    """Denormal numbers would be slow for ever."""
    codec = server(asynchronous(1, DCASGD))
    assert isinstance(codec, DCASGD)
    still = np.zeros(4, np.float32)
    codec._mean_square = np.full(4, np.finfo(np.float32).tiny / 2, np.float32)
    codec._compensated, codec._scratch = np.empty_like(still), np.empty_like(still)
    for _ in range(128):
        codec._compensate(still, still, still)
    assert not codec._mean_square.any()


def test_without_strength_it_is_async_ps() -> None:
    """DC-ASGD: lambda=0 == AsyncPS bit-exact."""
    plain = asynchronous(4, seconds=lambda node, batch: 1.0 + node)
    for parameters in ({"lambda": 0.0}, {"lambda": 0, "adaptive": False}):
        job = asynchronous(4, DCASGD, parameters=parameters, seconds=lambda node, batch: 1.0 + node)
        for node in range(4):
            for batch in range(job.batches):
                assert same(job, node, batch, plain.results[node][batch])


@pytest.mark.parametrize(
    ("codec", "settings", "words"),
    [
        (DCASGD, {"parameters": {"lambda": -1.0}}, "DCASGD 'lambda' must be a number >= 0, got -1"),
        (DCASGD, {"parameters": {"ms": 1.0}}, "DCASGD 'ms' must be a number >= 0 and < 1, got 1"),
        (AsyncPS, {"assignment": DuplicateAssignment(4, 2)}, r"AsyncPS applies every gradient.*'redundancy' must be 1, got 2"),
        (
            DCASGD,
            {"rule": lambda: SGDOptimizer(0.1, clip_norm=1.0)},
            "DCASGD has a rule for each variable, so 'clip_norm' must be None, got 1",
        ),
    ],
)
def test_what_cannot_work_is_refused(codec: type[Codec], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        asynchronous(1, codec, **settings)


def test_a_node_without_what_it_needs_says_so() -> None:
    """Values, a rule; and a server that was started anew must not go on as if nothing had happened."""
    with GlobalSettings.use(IIDBlockAssignment(1)):
        with pytest.raises(LookupError, match="asks for the value of variable 0, which this node does not have"):
            AsyncPS(0)
        with pytest.raises(LookupError, match="asks for the job's gradient-descent rule, which was not given"):
            AsyncPS(Parameter_Server)
    with GlobalSettings.use(IIDBlockAssignment(2), rule=RULES[0]):
        fresh = AsyncPS(Parameter_Server)
    with pytest.raises(ValueError, match=r"has had 0 gradients of node\(1\), which has sent 3 before"):
        fresh.receive_blocks((1, 3, np.zeros(2, np.float32)))
    assert fresh.answer(1) is None


@pytest.mark.parametrize("codec", [AsyncPS, DCASGD])
def test_a_server_goes_on_from_its_state(codec: type[AsyncPS]) -> None:
    """Bit for bit: parameters, rule, what each worker has read, and the rounds."""

    def turn(worker: AsyncPS, server: AsyncPS, number: int) -> bytes:
        packet = worker.update_blocks(BlockWeight(pulled(np.ones(5, np.float32), number, worker.node_id, 0), worker.node_id))
        assert packet is not None
        server.receive_blocks(packet.content)
        answer = server.answer(worker.node_id)
        assert answer is not None
        worker.receive_blocks(answer.content)
        result = worker.get_result()
        assert result is not None
        return result.tobytes()

    def made() -> tuple[list[AsyncPS], AsyncPS]:
        with GlobalSettings.use(IIDBlockAssignment(2), values=[np.ones(5, np.float32)], rule=RULES[1]):
            return [codec(0), codec(1)], codec(Parameter_Server)

    (workers, server), (others, another) = made(), made()
    order = [0, 1, 0, 0, 1, 0, 1, 1]
    for number, node in enumerate(order):
        turn(workers[node], server, number)
    for old, new in zip([*workers, server], [*others, another], strict=True):
        new.load_state_dict(old.state_dict())
    assert another.staleness == server.staleness
    for number, node in enumerate(order):
        assert turn(workers[node], server, 9 + number) == turn(others[node], another, 9 + number)
    with pytest.raises(ValueError, match=r"state must hold round\.0, round\.1"):
        another.load_state_dict({})
    with pytest.raises(ValueError, match="ServedVariable state must hold"):
        another.load_state_dict({"round.0": 1, "round.1": 1, "applied": 2})
