"""Merge rules, by hand and through jobs; codecs that exchange parameters or what has changed in them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, NesterovOptimizer, SGDOptimizer
from parallel_sgd.channel import Wait
from parallel_sgd.codec import Codec, DiLoCo, DiLoCoPS, FedAvg
from parallel_sgd.codec.compose import (
    PS,
    Adasum,
    AllToAll,
    Every,
    FirstCopy,
    Krum,
    Mean,
    Median,
    MergeRule,
    ServerOpt,
    ShardedPS,
    Sum,
    TrimmedMean,
    Vote,
    WeightedMean,
)
from parallel_sgd.codec.pipeline import ErrorFeedback, Int8, Sign, TopK
from parallel_sgd.exchange import BlockExchange
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob, gradient, start
from tests.parallel_sgd.codec.compositions import bits, codec_of, run


def combine(rule: MergeRule, *parts: Any, weights: Any = None) -> list[float]:
    """What a rule makes of lists of numbers."""
    arrays = [np.array(part, np.float32) for part in parts]
    return rule.combine(arrays, weights or [1.0] * len(arrays)).tolist()


def test_rules_by_hand() -> None:
    assert combine(Mean(), [1, 2], [3, 6]) == [2, 4]
    assert combine(Mean(), [0, 4], [4, 0], weights=[1.0, 3.0]) == [3, 1]
    assert combine(Sum(), [1, 2], [3, 6], weights=[1.0, 2.0]) == [7, 14]
    assert combine(Vote(), [1, -1, 1], [-1, -1, -1], [-1, 1, 1]) == [-1, -1, 1]
    assert combine(Vote(), [1, 0, -1], [-1, 0, -1]) == [1, 1, -1], "ties and zeros count as positive"
    assert combine(Median(), [1, 9], [2, 1e6], [3, 8]) == [2, 9]
    assert combine(Median(), [1], [2], [4], [1e6]) == [3]
    assert combine(TrimmedMean(1), [1], [2], [4], [-1e6]) == [1.5]
    assert combine(Krum(1), [1, 1], [1.25, 1], [1, 1.25], [1.0, 1.125], [1e6, -1e6])[0] < 2
    assert combine(Adasum(), [3, 0], [0, 4]) == [3, 4], "orthogonal: the sum"
    assert combine(Adasum(), [3, 5], [3, 5]) == [3, 5], "equal: the same"
    assert combine(Adasum(), [0, 0], [1, 2]) == [1, 2]


def test_rules_that_need_more_workers_say_so() -> None:
    with pytest.raises(ValueError, match=r"Krum\(faulty=1, keep=1\) needs 5 workers or more, got 4"):
        combine(Krum(1), [1], [1], [1], [1])
    with pytest.raises(ValueError, match="TrimmedMean without 1 values at each end leaves nothing of 2 workers"):
        combine(TrimmedMean(1), [1], [1])


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(1), Krum(1), Krum(1, keep=2)], ids=repr)
def test_one_wrong_worker_does_not_move_the_result(rule: MergeRule) -> None:
    """codecs.md: one 1e6-outlier worker: result within the honest range."""
    rng = np.random.default_rng(0)
    honest = [rng.standard_normal(50).astype(np.float32) for _ in range(4)]
    wrong = np.full(50, 1e6, np.float32)
    result = rule.combine([part.copy() for part in (*honest[:2], wrong, *honest[2:])], [1.0] * 5)
    assert (result >= np.min(honest, axis=0) - 1e-6).all()
    assert (result <= np.max(honest, axis=0) + 1e-6).all()


@pytest.mark.parametrize("exchange", [AllToAll(), PS(), ShardedPS(smallest=1)], ids=repr)
def test_an_odd_vote_is_the_sign_of_the_sum(exchange: Any) -> None:
    """codecs.md: one bit up, one down."""
    down = {"down": Sign(scale=None)} if exchange.returns else {}
    job = run(Codec.of(exchange, up=Sign(scale=None), merge=Vote(), **down), IIDBlockAssignment(3))
    for batch in range(3):
        for variable in range(2):
            signs = [np.where(gradient(batch, block, variable) < 0, -1, 1) for block in range(3)]
            wanted = np.sign(np.sum(signs, axis=0))
            assert all((job.results[node][batch][variable] == wanted).all() for node in range(3))


def test_a_vote_bears_many_liars() -> None:
    """codecs.md: with 49 % sign-flipping workers a quadratic still falls."""
    rng = np.random.default_rng(1)
    x = np.full(20, 5.0, np.float32)
    for _ in range(400):
        sent = [np.sign(x + rng.normal(0, 0.5, 20)) * (-1 if worker < 49 else 1) for worker in range(101)]
        x -= 0.02 * np.asarray(combine(Vote(), *sent), np.float32)
    assert np.abs(x).max() < 1


def test_weights_are_the_numbers_of_blocks() -> None:
    """codecs.md, FedAvg: counts (1, 3) give weights (.25, .75) exactly."""
    assert combine(WeightedMean(), [8.0], [4.0], weights=[1.0, 3.0]) == [5.0]
    assignment = FixedBlockAssignment(3, 1, 4)  # 2, 1 and 1 blocks
    job = run(Codec.of(AllToAll(), merge=WeightedMean()), assignment)
    means = [np.mean([gradient(0, block, 0) for block in blocks], axis=0) for blocks in assignment.node_2_block]
    wanted = 0.5 * means[0] + 0.25 * means[1] + 0.25 * means[2]
    np.testing.assert_allclose(job.results[0][0][0], wanted, rtol=1e-5)
    mine = run(Codec.of(AllToAll(), merge=WeightedMean([1, 0.5, 2.5])), assignment)
    wanted = (means[0] + 0.5 * means[1] + 2.5 * means[2]) / 4
    np.testing.assert_allclose(mine.results[0][0][0], wanted, rtol=1e-4)
    with pytest.raises(ValueError, match="WeightedMean 'weights' has 3 numbers, the job has 2 workers"):
        run(Codec.of(AllToAll(), merge=WeightedMean([1, 0.5, 2.5])), IIDBlockAssignment(2))


def test_between_exchanges_a_worker_keeps_its_own() -> None:
    job = run(Codec.of(AllToAll(), send="weights", trigger=Every(3)), FixedBlockAssignment(2, 1, 4), batches=6)
    for node in range(2):
        for batch in (0, 1, 3, 4):
            wanted = np.mean([gradient(batch, block, 0) for block in job.assignment.node_2_block[node]], axis=0)
            np.testing.assert_allclose(job.results[node][batch][0], wanted, rtol=1e-6)
    for batch in (2, 5):
        assert job.results[0][batch][0].tobytes() == job.results[1][batch][0].tobytes()
    sent = [entry.packets for entry in job.exchanges[0].accounts.entries()]
    assert sum(sent) == 2 * 2 * 2, "two variables, both ways, two exchanges"


@pytest.mark.parametrize("exchange", [AllToAll(), PS(), ShardedPS(smallest=1)], ids=repr)
def test_an_outer_step_of_one_is_federated_averaging(exchange: Any) -> None:
    """codecs.md: FedOpt and DiLoCo with learning rate 1 and no momentum, to the bit; weights in place of changes, to 1e-6."""
    outer = run(Codec.of(exchange, send="delta", merge=ServerOpt(SGDOptimizer(1.0)), trigger=Every(2)), IIDBlockAssignment(3))
    plain = run(Codec.of(exchange, send="delta", merge=WeightedMean(), trigger=Every(2)), IIDBlockAssignment(3))
    assert bits(outer) == bits(plain)
    weights = run(Codec.of(exchange, send="weights", merge=WeightedMean(), trigger=Every(2)), IIDBlockAssignment(3))
    for batch in range(3):
        got, wanted = plain.results[0][batch][0], weights.results[0][batch][0]
        np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())


class Halves(ArrayJob):
    """Parameters that float32 holds with room to spare, so that no sum of them and no half is rounded."""

    def _train(self, node: int, exchange: BlockExchange) -> Generator[Wait, None, dict[str, float]]:
        rng = np.random.default_rng(node)
        for batch in range(self.batches):
            exchange.begin(0, batch)
            for variable, shape in enumerate(self.shapes):
                exchange.put(variable, node, rng.integers(-999, 999, shape).astype(np.float32) / np.float32(64))
            for variable in range(len(self.shapes)):
                yield from exchange.wait(variable)
            self.results[node].append([exchange.get(variable).copy() for variable in range(len(self.shapes))])
        return {}


@pytest.mark.parametrize("kind", [DiLoCo, DiLoCoPS, Codec.of(PS(), send="delta", merge=ServerOpt(SGDOptimizer(1.0)))])
def test_an_outer_rate_of_one_without_momentum_has_the_bits_of_federated_averaging(
    kind: type[Codec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """codecs.md, FedOpt/DiLoCo: outer (lr 1, mom 0) == FedAvg bit-exact, where sums of parameters are not rounded."""
    module = "parallel_sgd.testing.array_job.start"
    monkeypatch.setattr(module, lambda variable, shapes=(): np.full(shapes[variable], 1.5, np.float32))
    parameters = {"local_batches": 1, "outer_learn_rate": 1.0, "outer_momentum": 0.0}
    wanted, found = (
        Halves(IIDBlockAssignment(4), codec=codec, server=codec if codec.needs_server else None, parameters=parameters).run()
        for codec in (FedAvg, kind)
    )
    assert len(set(bits(found))) == 1
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("exchange", [AllToAll(), PS(), ShardedPS(smallest=1)], ids=repr)
def test_outer_steps_by_hand(exchange: Any) -> None:
    """codecs.md: Nesterov's momentum, as DiLoCo has it, and Adam, to 1e-7 of the largest number."""
    rules: list[tuple[Any, Any]] = [
        (NesterovOptimizer(0.7, 0.9), lambda g, v, _: (0.7 * (g + 0.9 * (0.9 * v + g)), 0.9 * v + g, None)),
        (ADAMOptimizer(0.1, 0.9, 0.99, 1e-3), _adam),
    ]
    for rule, step in rules:
        job = run(Codec.of(exchange, send="delta", merge=ServerOpt(rule)), IIDBlockAssignment(2))
        w = start(0).astype(np.float64)
        first: Any = np.zeros_like(w)
        second: Any = None
        for batch in range(3):
            change = np.mean([gradient(batch, block, 0) - w.astype(np.float32) for block in range(2)], axis=0)
            step_taken, first, second = step(-change.astype(np.float64), first, second)
            w = w - step_taken
            np.testing.assert_allclose(job.results[1][batch][0], w, atol=3e-7 * max(1, np.abs(change).max()))


def _adam(g: Any, m: Any, rest: Any) -> Any:
    v, t = rest or (np.zeros_like(g), 0)
    m, v, t = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g, t + 1
    return 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3), m, (v, t)


def test_a_server_with_a_rule_gives_parameters_for_gradients() -> None:
    job = run(Codec.of(PS(), merge=ServerOpt(SGDOptimizer(0.5))), IIDBlockAssignment(3))
    w = start(1)
    for batch in range(3):
        w = w - np.float32(0.5) * np.mean([gradient(batch, block, 1) for block in range(3)], axis=0)
        np.testing.assert_allclose(job.results[2][batch][1], w, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("stage", [Int8(), ErrorFeedback(TopK(0.3))], ids=repr)
@pytest.mark.parametrize("exchange", [AllToAll(), PS()], ids=repr)
@pytest.mark.parametrize(
    ("assignment", "stragglers"),
    [(DuplicateAssignment(4, 2), (1,)), (DuplicateAssignment(6, 3), (1, 2, 4)), (IIDBlockAssignment(3, 2), (2,))],
    ids=["4,2", "6,3", "iid"],
)
def test_first_copies_count(stage: Any, exchange: Any, assignment: Any, stragglers: tuple[int, ...]) -> None:
    """codecs.md, FirstCopy: up to r - 1 of those that share a block may be gone, and no bit changes."""
    kind = Codec.of(exchange, up=stage, merge=FirstCopy())
    whole = run(kind, assignment)
    assert len(set(bits(whole))) == 1
    partial = run(kind, assignment, ends_after=dict.fromkeys(stragglers, 1))
    assert partial.clock.monotonic() == 0.0, "nobody waits for them"
    for node in assignment.nodes:
        done = partial.results[node]
        assert len(done) == (1 if node in stragglers else 3)
        for batch, values in enumerate(done):
            assert [value.tobytes() for value in values] == [value.tobytes() for value in whole.results[0][batch]]


def test_repeated_first_copies_are_counted() -> None:
    job = run(Codec.of(AllToAll(), up=Int8(), merge=FirstCopy()), DuplicateAssignment(4, 2))
    assert codec_of(job).duplicates + codec_of(job).late + job.sync(0).late > 0
