"""Stages of the gradient's side and merge rules of a user's own, and those that take what these took before."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
import pytest

from nn.extension import HiddenName, OverrideWarning
from nn.gradient_descent import SGDOptimizer
from parallel_sgd.codec import BlockWeight, Codec
from parallel_sgd.codec.compose import (
    PS,
    AllToAll,
    Every,
    FirstCopy,
    Median,
    MergeRule,
    Round,
    ServerOpt,
    ShardedPS,
    WeightedMean,
)
from parallel_sgd.codec.pipeline import QSGD, Chain, Clip, Draw, ErrorFeedback, GradientStage, Writer
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from tests.parallel_sgd.codec.compositions import ByHand, bits, run
from tests.statements import covers

THREE = IIDBlockAssignment(3)
seen: list[Any] = []


class Watching(MergeRule):
    """The sum, which keeps what it is told."""

    def combine(self, parts: Any, weights: Any, round_: Round) -> Any:
        seen.append((round_, round_.draw.generator().random()))
        return np.add.reduce(list(parts))


class Noise(GradientStage):
    """Adds noise, and keeps it."""

    deterministic = False

    def transform(self, x: Any, draw: Draw) -> Any:
        noise = draw.generator().random(x.size).astype(np.float32)
        seen.append((draw.variable, draw.batch, draw.node, noise.tobytes()))
        return x + noise


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@covers("LAW-2")
@pytest.mark.parametrize("exchange", [AllToAll(), PS(), ShardedPS(smallest=1)], ids=repr)
def test_a_merge_rule_is_told_exchange_draw_and_workers(exchange: Any) -> None:
    """Each node that merges a vector gets the same draw for it, and another one for each vector and exchange."""
    run(Codec.of(exchange, send="weights", merge=Watching(), trigger=Every(2)), THREE, batches=6)
    copies = 3 if not exchange.returns else 1
    places = {AllToAll: 1, PS: 1}.get(type(exchange), 3)
    assert {round_.nodes for round_, _ in seen} == {(0, 1, 2)}
    assert {(round_.number, round_.draw.epoch, round_.draw.batch) for round_, _ in seen} == {(0, 0, 1), (1, 0, 3), (2, 0, 5)}
    drawn = [number for _, number in seen]
    assert len(seen) == 3 * 2 * places * copies and len(set(drawn)) == len(seen) / copies


def test_parts_that_are_lost_leave_their_worker_out() -> None:
    table = ByHand(Codec.of(PS(quorum=0.6), merge=Watching()), 3)
    server = table.codecs[-2]
    table.exchange([np.ones((5, 8), np.float32)] * 3)
    table.job.step = (0, 1)
    for node in (0, 2):
        for packet in table.codecs[node].update_blocks(_block(node)):
            server.receive_blocks(packet.content)
    for packet in table.codecs[0].do_something_to_save_yourself():
        server.receive_blocks(packet.content)
    assert [round_.nodes for round_, _ in seen] == [(0, 1, 2), (0, 2)]


def _block(node: int) -> Any:
    return BlockWeight(np.ones((5, 8), np.float32), node)


def test_the_number_of_the_exchange_goes_on_after_a_restart() -> None:
    kind = Codec.of(AllToAll(), merge=Watching())
    first, second = ByHand(kind, 2), ByHand(kind, 2)
    values = [np.ones((5, 8), np.float32)] * 2
    for _ in range(3):
        first.exchange(values)
    second.batch = 3
    for node, codec in second.codecs.items():
        codec.load_state_dict(first.codecs[node].state_dict())
    second.exchange(values)
    assert [round_.number for round_, _ in seen] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_worker_counts_exchanges_by_its_batches_and_a_server_by_itself() -> None:
    """A batch that broke off has begun an exchange: its worker's checkpoint has the batches before it, and no other number that
    would make it a state of this worker alone.
    """
    settings: Any = {"send": "weights", "merge": Watching(), "trigger": Every(3)}
    peers, served = ByHand(Codec.of(AllToAll(), **settings), 2), ByHand(Codec.of(PS(), **settings), 2)
    values = [np.ones((5, 8), np.float32)] * 2
    for table in (peers, served):
        for _ in range(8):
            table.exchange(values)
    assert {node: set(codec.state_dict()) for node, codec in (peers.codecs | served.codecs).items()} == {
        0: {"batches"}, 1: {"batches"}, -2: {"batches", "exchanges"},
    }  # fmt: skip
    assert served.codecs[-2].state_dict()["exchanges"] == 2
    seen.clear()
    for table in (peers, served):
        for codec in table.codecs.values():
            codec.load_state_dict({"batches": 7, **({"exchanges": 2} if codec.node_id < 0 else {})})
        for _ in range(2):
            table.exchange(values)
    assert [round_.number for round_, _ in seen] == [2, 2, 2]
    exact = ByHand(Codec.of(PS()), 2)
    exact.exchange(values)
    assert all(set(codec.state_dict()) == {"batches"} for codec in exact.codecs.values())


def test_of_a_block_the_worker_is_told_that_came_first() -> None:
    class First(FirstCopy):
        exact = False

        def combine(self, parts: Any, weights: Any, round_: Round | None = None) -> Any:
            seen.append(round_)
            return super().combine(parts, weights)

    assignment = DuplicateAssignment(4, 2)
    run(Codec.of(AllToAll(), up=QSGD(8), merge=First()), assignment)
    for round_ in seen:
        assert all(node in assignment.block_2_node[block] for block, node in enumerate(round_.nodes))


def test_an_optimizer_after_the_merge_hands_on_what_it_is_told() -> None:
    run(Codec.of(AllToAll(), send="delta", merge=ServerOpt(SGDOptimizer(1.0), Watching())), THREE)
    assert {round_.nodes for round_, _ in seen} == {(0, 1, 2)}


@covers("LAW-2")
@pytest.mark.parametrize("up", [Noise(), Noise() | ErrorFeedback(QSGD(4))], ids=repr)
def test_noise_is_that_of_its_worker_variable_and_batch(up: Any) -> None:
    first = bits(run(Codec.of(AllToAll(), up=up), THREE))
    before = list(seen)
    assert len({noise for *_, noise in before}) == len(before) == 3 * 2 * 3
    seen.clear()
    assert bits(run(Codec.of(AllToAll(), up=up), THREE)) == first and seen == before


@covers("LAW-2")
def test_each_stage_has_numbers_of_its_own() -> None:
    """Two stages of noise differ, and a quantiser has neither's numbers."""
    draw, x = Draw(7, 0, 3, 1, 0), np.zeros(8, np.float32)
    Chain([Noise(), Noise()]).encode(x, Writer(), draw)
    Noise().encode(x, Writer(), draw)
    (*_, one), (*_, two), (*_, alone) = seen
    assert one == alone != two
    assert draw.generator().random(8).astype(np.float32).tobytes() not in (one, two)


@pytest.mark.parametrize(("made", "words"), [(None, "None"), (np.ones(5, "f4"), r"an array of shape \(5,\)")], ids=str)
def test_a_rule_that_returns_no_such_vector_is_named_and_no_sender(made: Any, words: str) -> None:
    class Wrong(MergeRule):
        def combine(self, parts: Any, weights: Any, round_: Any) -> Any:
            return made

    with pytest.raises(RuntimeError, match=rf"Wrong\(\)\.combine\(\) must return an array of shape \(4,\), got {words}"):
        run(Codec.of(AllToAll(), merge=Wrong()), THREE)


# what stages and rules took before -------------------------------------------------------------------------------------------


def former_stage() -> Any:
    class Half(GradientStage):
        def transform(self, x: Any) -> Any:  # type: ignore[override]
            """Half of it."""
            return np.float32(0.5) * x

    return Half


def former_rule() -> Any:
    class Half(MergeRule):
        def combine(self, parts: Any, weights: Any) -> Any:  # type: ignore[override]
            return np.float32(0.5) * np.add.reduce(list(parts))

    return Half


def test_those_of_before_go_on_with_one_warning() -> None:
    with pytest.warns(OverrideWarning) as told:
        stage, rule = former_stage(), former_rule()
    assert [str(each.message) for each in told] == [
        "Half.transform(x) is called with what GradientStage.transform took before; it takes (x, draw) now",
        "Half.combine(parts, weights) is called with what MergeRule.combine took before; it takes (parts, weights, round_) now",
    ]
    assert {each.filename for each in told} == {__file__} and stage.transform.__doc__ == "Half of it."
    wanted = bits(run(Codec.of(AllToAll(), merge=WeightedMean()), IIDBlockAssignment(2)))
    assert bits(run(Codec.of(AllToAll(), merge=rule()), IIDBlockAssignment(2))) == wanted
    halved = run(Codec.of(AllToAll(), up=stage()), IIDBlockAssignment(2)).results[0][0][0]
    np.testing.assert_array_equal(halved, np.float32(0.5) * run(Codec.of(AllToAll()), IIDBlockAssignment(2)).results[0][0][0])
    travelled = cloudpickle.loads(cloudpickle.dumps((stage, rule)))  # no second warning
    assert bits(run(Codec.of(AllToAll(), merge=travelled[1]()), IIDBlockAssignment(2))) == wanted
    assert travelled[0]().transform(np.ones(1), Draw(0, 0, 0, 0, 0)).tolist() == [0.5]


def test_a_subclass_calls_one_of_before_by_super() -> None:
    with pytest.warns(OverrideWarning):
        base = former_rule()

    class Quarter(base):  # type: ignore[misc]
        def combine(self, parts: Any, weights: Any, round_: Any) -> Any:
            return np.float32(0.5) * super().combine(parts, weights)

    with pytest.warns(OverrideWarning):

        class Eighth(Quarter):
            def combine(self, parts: Any, weights: Any) -> Any:
                return np.float32(0.5) * super().combine(parts, weights, None)

    assert Eighth().combine([np.ones(1, "f4")], [1.0], Round(0, Draw(0, 0, 0, 0, 0), (0,))).tolist() == [0.125]


def test_one_of_before_may_derive_from_a_rule_or_stage_that_ships() -> None:
    with pytest.warns(OverrideWarning) as told:

        class Twice(Median):
            def combine(self, parts: Any, weights: Any) -> Any:
                return np.float32(2) * super().combine(parts, weights)

        class Short(Clip):
            def transform(self, x: Any) -> Any:
                return np.float32(0.5) * super().transform(x)

    assert [str(each.message).partition("; ")[2] for each in told] == [
        "it takes (parts, weights, round_) now",
        "it takes (x, draw) now",
    ]
    once, twice = (run(Codec.of(AllToAll(), merge=rule), THREE).results[0][0][0] for rule in (Median(), Twice()))
    np.testing.assert_array_equal(twice, np.float32(2) * once)
    whole, half = (run(Codec.of(AllToAll(), up=stage), THREE).results[0][0][0] for stage in (Clip(1.0), Short(1.0)))
    np.testing.assert_allclose(half, whole / 2, rtol=1e-6)


def test_one_that_fits_neither_call_is_refused() -> None:
    with pytest.raises(HiddenName, match=r"None\.combine\(\) hides MergeRule\.combine\(parts, weights, round_\)"):
        type(MergeRule)("None", (MergeRule,), {"__module__": __name__, "combine": lambda self: None})


def test_a_class_beside_the_base_counts_too() -> None:
    class Mixin:
        def transform(self, x: Any) -> Any:
            return x

    with pytest.warns(OverrideWarning, match="Both.transform"):
        both: Any = type(GradientStage)("Both", (Mixin, GradientStage), {"__module__": __name__})
    assert both().transform(np.ones(1), None).tolist() == [1.0] and Mixin().transform(1) == 1
