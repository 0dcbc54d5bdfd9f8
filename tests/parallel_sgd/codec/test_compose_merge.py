"""Merge rules, by hand and through jobs; codecs that exchange parameters or changes of them; what codecs remember."""

from __future__ import annotations

from collections.abc import Generator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, NesterovOptimizer, SGDOptimizer
from parallel_sgd.codec import Codec, DiLoCo, DiLoCoPS, FedAvg, GlobalSettings
from parallel_sgd.codec.compose import (
    PS,
    Adasum,
    AllToAll,
    Every,
    FirstCopy,
    Gossip,
    Krum,
    Mean,
    Median,
    MergeRule,
    Ring,
    Round,
    ServerOpt,
    ShardedPS,
    Sum,
    Tree,
    TrimmedMean,
    Vote,
    WeightedMean,
)
from parallel_sgd.codec.pipeline import (
    DGCMemory,
    DiffRef,
    ErrorFeedback,
    Int8,
    Momentum,
    PowerSGD,
    RandomK,
    Sign,
    Tern,
    TopK,
)
from parallel_sgd.codec.pipeline.stage import MERGE, Draw
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import SHAPES, ArrayJob, expected, gradient, start
from tests.parallel_sgd.codec.compositions import ByHand, bits, codec_of, run
from tests.statements import covers

THREE = IIDBlockAssignment(3)
EACH = pytest.mark.parametrize("exchange", [AllToAll(), PS(), ShardedPS(smallest=1)], ids=repr)


def combine(rule: MergeRule, *parts: Any, weights: Any = None) -> list[float]:
    """What a rule makes of lists of numbers."""
    arrays = [np.array(part, np.float32) for part in parts]
    round_ = Round(0, Draw(7, 0, 0, 0, 0, MERGE), tuple(range(len(arrays))))
    return rule.combine(arrays, weights or [1.0] * len(arrays), round_).tolist()


@pytest.mark.parametrize(
    ("rule", "parts", "weights", "wanted"),
    [
        (Mean(), ([1, 2], [3, 6]), None, [2, 4]),
        (Mean(), ([0, 4], [4, 0]), [1.0, 3.0], [3, 1]),
        (Sum(), ([1, 2], [3, 6]), [1.0, 2.0], [7, 14]),
        (WeightedMean(), ([8.0], [4.0]), [1.0, 3.0], [5.0]),  # FedAvg: counts (1, 3) give (.25, .75) exactly
        (Vote(), ([1, -1, 1], [-1, -1, -1], [-1, 1, 1]), None, [-1, -1, 1]),
        (Vote(), ([1, 0, -1], [-1, 0, -1]), None, [1, 1, -1]),  # ties and zeros count as positive
        (Median(), ([1, 9], [2, 1e6], [3, 8]), None, [2, 9]),
        (Median(), ([1], [2], [4], [1e6]), None, [3]),
        (TrimmedMean(1), ([1], [2], [4], [-1e6]), None, [1.5]),
        (Krum(1), ([1, 1], [1.25, 1], [1, 1.25], [1.0, 1.125], [1e6, -1e6]), None, [1.0, 1.125]),
        (Adasum(), ([3, 0], [0, 4]), None, [3, 4]),  # orthogonal: the sum
        (Adasum(), ([3, 5], [3, 5]), None, [3, 5]),  # equal: the same
        (Adasum(), ([0, 0], [1, 2]), None, [1, 2]),
        (Krum(1), ([1], [1], [1], [1]), None, r"Krum\(faulty=1, keep=1\) needs 5 workers or more, got 4"),
        (TrimmedMean(1), ([1], [1]), None, "TrimmedMean without 1 values at each end leaves nothing of 2 workers"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_rules_by_hand(rule: MergeRule, parts: tuple[Any, ...], weights: Any, wanted: list[float] | str) -> None:
    if isinstance(wanted, str):
        with pytest.raises(ValueError, match=wanted):
            combine(rule, *parts, weights=weights)
    else:
        assert combine(rule, *parts, weights=weights) == wanted


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(1), Krum(1), Krum(1, keep=2)], ids=repr)
def test_one_wrong_worker_does_not_move_the_result(rule: MergeRule) -> None:
    """One 1e6-outlier worker: result within the honest range."""
    rng = np.random.default_rng(0)
    honest = [rng.standard_normal(50).astype(np.float32) for _ in range(4)]
    result = np.array(combine(rule, *honest[:2], np.full(50, 1e6), *honest[2:]))
    assert (result >= np.min(honest, axis=0) - 1e-6).all() and (result <= np.max(honest, axis=0) + 1e-6).all()


def test_a_vote_bears_many_liars() -> None:
    """With 49 % sign-flipping workers a quadratic still falls."""
    rng, x = np.random.default_rng(1), np.full(20, 5.0, np.float32)
    for _ in range(400):
        sent = [np.sign(x + rng.normal(0, 0.5, 20)) * (-1 if worker < 49 else 1) for worker in range(101)]
        x -= 0.02 * np.asarray(combine(Vote(), *sent), np.float32)
    assert np.abs(x).max() < 1


@EACH
def test_an_odd_vote_is_the_sign_of_the_sum(exchange: Any) -> None:
    """One bit up, one down."""
    down = {"down": Sign(scale=None)} if exchange.returns else {}
    job = run(Codec.of(exchange, up=Sign(scale=None), merge=Vote(), **down), THREE)
    for batch in range(3):
        for variable in range(2):
            signs = [np.where(gradient(batch, block, variable) < 0, -1, 1) for block in range(3)]
            wanted = np.sign(np.sum(signs, axis=0))
            assert all((job.results[node][batch][variable] == wanted).all() for node in range(3))


def test_weights_are_the_numbers_of_blocks_or_those_given() -> None:
    assignment = FixedBlockAssignment(3, 1, 4)  # 2, 1 and 1 blocks
    means = [np.mean([gradient(0, block, 0) for block in blocks], axis=0) for blocks in assignment.node_2_block]
    for rule, weights, rtol in (
        (WeightedMean(), (0.5, 0.25, 0.25), 1e-5),
        (WeightedMean([1, 0.5, 2.5]), (0.25, 0.125, 0.625), 1e-4),
    ):
        job = run(Codec.of(AllToAll(), merge=rule), assignment)
        wanted = sum(weight * mean for weight, mean in zip(weights, means, strict=True))
        np.testing.assert_allclose(job.results[0][0][0], wanted, rtol=rtol)


def test_between_exchanges_a_worker_keeps_its_own() -> None:
    job = run(Codec.of(AllToAll(), send="weights", trigger=Every(3)), FixedBlockAssignment(2, 1, 4), batches=6)
    for node in range(2):
        for batch in (0, 1, 3, 4):
            wanted = np.mean([gradient(batch, block, 0) for block in job.assignment.node_2_block[node]], axis=0)
            np.testing.assert_allclose(job.results[node][batch][0], wanted, rtol=1e-6)
    for batch in (2, 5):
        assert job.results[0][batch][0].tobytes() == job.results[1][batch][0].tobytes()
    packets = sum(entry.packets for entry in job.exchanges[0].accounts.entries())
    assert packets == 2 * 2 * 2, "two variables, both ways, two exchanges"


@EACH
def test_an_outer_step_of_one_is_federated_averaging(exchange: Any) -> None:
    """FedOpt and DiLoCo with learning rate 1 and no momentum, to the bit; weights in place of changes, to 1e-6."""
    every: dict[str, Any] = {"trigger": Every(2)}
    outer = run(Codec.of(exchange, send="delta", merge=ServerOpt(SGDOptimizer(1.0)), **every), THREE)
    plain = run(Codec.of(exchange, send="delta", merge=WeightedMean(), **every), THREE)
    assert bits(outer) == bits(plain)
    weights = run(Codec.of(exchange, send="weights", merge=WeightedMean(), **every), THREE)
    for batch in range(3):
        got, wanted = plain.results[0][batch][0], weights.results[0][batch][0]
        np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())


class Halves(ArrayJob):
    """Parameters that float32 holds with room to spare, so that no sum of them and no half is rounded."""

    def _train(self, node: int, exchange: Any) -> Generator[Any, None, dict[str, float]]:
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
    """FedOpt/DiLoCo: outer (lr 1, mom 0) == FedAvg bit-exact, where sums of parameters are not rounded."""
    module = "parallel_sgd.testing.array_job.start"
    monkeypatch.setattr(module, lambda variable, shapes=(): np.full(shapes[variable], 1.5, np.float32))
    parameters = {"local_batches": 1, "outer_learn_rate": 1.0, "outer_momentum": 0.0}
    wanted, found = (
        Halves(
            IIDBlockAssignment(4), codec=codec, server=codec if codec.traits.needs_server else None, parameters=parameters
        ).run()
        for codec in (FedAvg, kind)
    )
    assert len(set(bits(found))) == 1 and bits(found) == bits(wanted)


def _adam(g: Any, m: Any, rest: Any) -> Any:
    v, t = rest or (np.zeros_like(g), 0)
    m, v, t = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g, t + 1
    return 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3), m, (v, t)


@EACH
def test_outer_steps_by_hand(exchange: Any) -> None:
    """Nesterov's momentum, as DiLoCo has it, and Adam, to 1e-7 of the largest number."""
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


def test_a_server_with_a_rule_gives_parameters_for_gradients() -> None:
    job, w = run(Codec.of(PS(), merge=ServerOpt(SGDOptimizer(0.5))), THREE), start(1)
    for batch in range(3):
        w = w - np.float32(0.5) * np.mean([gradient(batch, block, 1) for block in range(3)], axis=0)
        np.testing.assert_allclose(job.results[2][batch][1], w, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("stage", [Int8(), ErrorFeedback(TopK(0.3))], ids=repr)
@pytest.mark.parametrize("exchange", [AllToAll(), PS()], ids=repr)
def test_first_copies_count(stage: Any, exchange: Any) -> None:
    """FirstCopy: up to r - 1 of those that share a block may be gone, and no bit changes; repeated ones count."""
    kind = Codec.of(exchange, up=stage, merge=FirstCopy())
    for assignment, stragglers in (
        (DuplicateAssignment(4, 2), (1,)),
        (DuplicateAssignment(6, 3), (1, 2, 4)),
        (IIDBlockAssignment(3, 2), (2,)),
    ):
        whole = run(kind, assignment)
        assert len(set(bits(whole))) == 1
        if not kind.traits.needs_server:
            assert codec_of(whole).duplicates + codec_of(whole).late + whole.sync(0).late > 0
        partial = run(kind, assignment, ends_after=dict.fromkeys(stragglers, 1))
        assert partial.clock.monotonic() == 0.0, "nobody waits for them"
        for node in assignment.nodes:
            done = partial.results[node]
            assert len(done) == (1 if node in stragglers else 3)
            for batch, values in enumerate(done):
                assert [value.tobytes() for value in values] == [value.tobytes() for value in whole.results[0][batch]]


# what codecs remember ----------------------------------------------------------------------------------------------------


def numbers(batch: int, workers: int) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    return [rng.standard_normal((5, 8)).astype(np.float32) for _ in range(workers)]


OUTER = ServerOpt(NesterovOptimizer(0.7, 0.9))
REMEMBERING = [
    Codec.of(AllToAll(), up=ErrorFeedback(TopK(0.2))),
    Codec.of(AllToAll(), up=Momentum(0.9) | ErrorFeedback(Sign())),
    Codec.of(AllToAll(), up=DGCMemory(0.9, TopK(0.2, warmup=8))),
    Codec.of(AllToAll(), up=DiffRef(TopK(0.2))),
    Codec.of(PS(), up=ErrorFeedback(TopK(0.2)), down=ErrorFeedback(Sign())),
    Codec.of(PS(), up=DiffRef(Int8(8))),
    Codec.of(PS(), send="delta", merge=OUTER, trigger=Every(2)),
    Codec.of(ShardedPS(smallest=8), up=ErrorFeedback(TopK(0.2) | Int8(8)), down=ErrorFeedback(Int8(8))),
    Codec.of(AllToAll(), send="delta", up=ErrorFeedback(Int8(8)), trigger=Every(2)),
    Codec.of(ShardedPS(smallest=8), send="delta", merge=OUTER),
    Codec.of(Ring(smallest=8), up=PowerSGD(1)),
    Codec.of(Ring(smallest=8), up=ErrorFeedback(RandomK(0.3, scaled=False))),
    Codec.of(Tree(), up=PowerSGD(1)),
    Codec.of(Gossip(gamma=0.5), up=DiffRef(TopK(0.2)), send="weights"),
]


@covers("LAW-5")
@pytest.mark.parametrize("kind", REMEMBERING, ids=lambda kind: f"{kind.__doc__[19:60]}")
def test_a_saved_state_goes_on_to_the_bit(kind: type[Codec]) -> None:
    """Save and load in the middle of a run; a foreign state is refused."""
    first, second = ByHand(kind, 3), ByHand(kind, 3)
    for batch in range(5):
        first.exchange(numbers(batch, 3))
    saved = {node: deepcopy(codec.state_dict()) for node, codec in first.codecs.items()}
    rest = [first.exchange(numbers(batch, 3)) for batch in range(5, 10)]
    assert all(len(state) > 1 for node, state in saved.items() if node >= 0 or len(saved) == 1)
    second.batch = 5
    for node, codec in second.codecs.items():
        codec.load_state_dict(saved[node])
    for batch, before in enumerate(rest, start=5):
        assert [value.tobytes() for value in before] == [value.tobytes() for value in second.exchange(numbers(batch, 3))]
    with GlobalSettings.use(IIDBlockAssignment(2)), pytest.raises(ValueError, match="remembers nothing, got colour"):
        Codec.of(AllToAll())(0).load_state_dict({"colour": 1})


ONE_WAY = [Codec.of(AllToAll(), up=ErrorFeedback(stage)) for stage in (TopK(0.2), Sign(), TopK(0.3) | Int8(8))]
BOTH_WAYS = [
    Codec.of(exchange, up=ErrorFeedback(Sign()), down=ErrorFeedback(Sign()))
    for exchange in (PS(), ShardedPS(smallest=8), ShardedPS(smallest=40))
]


@covers("LAW-5")
@pytest.mark.parametrize("kind", ONE_WAY + BOTH_WAYS, ids=lambda kind: f"{kind.__doc__[19:90]}")
@pytest.mark.share(6)
def test_what_is_left_out_comes_later(kind: Any) -> None:
    """The sum of all results and the residuals, where it is merged too, are the sum of all means."""
    table = ByHand(kind, 3)
    given, got = np.zeros(40), np.zeros(40)
    for batch in range(200):
        values = numbers(batch, 3)
        given += np.mean(values, axis=0, dtype=np.float64).reshape(-1)
        got += table.exchange(values)[0].reshape(-1)
    left, shards = np.zeros((2, 40)), kind.composition.exchange.shards(40, table.job.assignment, 0)
    for codec in table.codecs.values():
        for name, value in codec.state_dict().items():
            if name.endswith("residual"):
                way, places, _ = name.split(".", 2)
                start_, stop, _ = shards[int(places.split(",")[-1])]
                left[int(way == "down"), start_:stop] += value / (3 if way == "up" else 1)
    np.testing.assert_allclose(got + left.sum(axis=0), given, atol=1e-4)
    assert np.abs(left).max(axis=1)[: 2 if kind in BOTH_WAYS else 1].min() > 1e-2, "the residuals matter"


@covers("LAW-2")
@pytest.mark.parametrize("exchange", [AllToAll(), ShardedPS(smallest=8)], ids=repr)
def test_draws_depend_on_seed_batch_variable_and_worker(exchange: Any) -> None:
    """Equal in each run, different in each batch, on each worker and in each shard."""
    seen: list[tuple[bytes, ...]] = []
    for seed in (0, 0, 1):
        table = ByHand(Codec.of(exchange, up=Tern(clip=None)), 2)
        table.job.seed = seed
        value = np.full((5, 8), 0.5, np.float32)
        value[0, 0] = 1
        seen.append(tuple(table.exchange([value, value])[0].tobytes() for batch in range(8)))
        assert len(set(seen[-1])) == 8
    assert seen[0] == seen[1] and seen[0][0] != seen[2][0]


@pytest.mark.parametrize("exchange", [Ring(smallest=1), AllToAll(), PS(), Tree()], ids=repr)
def test_power_sgd_of_many_is_that_of_one_on_the_mean(exchange: Any) -> None:
    """PowerSGD of rank 2, to 1e-5; full rank is exact."""
    many, one = ByHand(Codec.of(exchange, up=PowerSGD(2)), 4), ByHand(Codec.of(AllToAll(), up=PowerSGD(2)), 1)
    for batch in range(4):
        values = numbers(batch, 4)
        got = many.exchange(values)
        assert len({value.tobytes() for value in got}) == 1
        np.testing.assert_allclose(got[0], one.exchange([np.mean(values, axis=0)])[0], atol=1e-5)
    full, values = ByHand(Codec.of(exchange, up=PowerSGD(5)), 3), numbers(0, 3)
    np.testing.assert_allclose(full.exchange(values)[1], np.mean(values, axis=0), atol=1e-5)


def test_random_places_are_the_same_for_all() -> None:
    """A ring may add RandomK; the result is the scaled part of the mean."""
    job = run(Codec.of(Ring(smallest=1), up=RandomK(0.5)), THREE)
    for batch in range(3):
        wanted, got = expected(batch, 3)[0], job.results[0][batch][0]
        places = got != 0
        assert places.sum() == 6
        np.testing.assert_allclose(got[places], 2 * wanted[places], rtol=1e-5)


def test_deep_gradient_compression_of_all_numbers_is_local_momentum() -> None:
    """DGC with rho = 1."""
    dgc, momentum = (run(Codec.of(AllToAll(), up=up), THREE, batches=6) for up in (DGCMemory(0.9, TopK(1.0)), Momentum(0.9)))
    assert bits(dgc) == bits(momentum)
    velocity = np.zeros(SHAPES[0])
    for batch in range(6):
        velocity = 0.9 * velocity + np.mean([gradient(batch, block, 0) for block in range(3)], axis=0)
        np.testing.assert_allclose(dgc.results[0][batch][0], velocity, rtol=1e-4, atol=1e-2)


def test_variables_are_cut_after_the_gradient_s_side_and_blocks_encoded_as_their_mean() -> None:
    """Shards of what Momentum makes of the whole variable; two workers of two blocks send one packet each."""
    job = run(Codec.of(ShardedPS(smallest=1), up=Momentum(0.5) | Int8()), THREE)
    names = [name for name in codec_of(job).state_dict() if name.startswith("front.")]
    assert sorted(names) == ["front.0.0.step", "front.0.0.velocity"]
    job = run(Codec.of(AllToAll(), up=Int8()), FixedBlockAssignment(2, 1, 4))
    for batch in range(3):
        wanted = expected(batch, 4)[0]
        np.testing.assert_allclose(job.results[0][batch][0], wanted, atol=np.abs(gradient(batch, 0, 0)).max() + 10)
    assert sum(entry.packets for entry in job.exchanges[0].accounts.entries()) == 3 * 2 * 2
