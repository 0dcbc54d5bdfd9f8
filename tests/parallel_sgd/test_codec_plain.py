"""What every codec inherits and may look up, which one a variable gets; Plain, exact to the bit; DummyCodec: no exchange."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nn
from parallel_sgd import JobResult, ParallelSGD, Parameter_Server, in_process
from parallel_sgd.codec import (
    REQUIRED,
    BlockWeight,
    Codec,
    DummyCodec,
    GlobalSettings,
    MissingParameter,
    Plain,
    SizeAdaptive,
    SyncPS,
    netEncapsulation,
)
from parallel_sgd.codec.choice import by_size, choose_codecs
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import SHAPES, ArrayJob, expected, gradient, tree_mean

from ..statements import covers
from .codec.compositions import check_exact
from .networks import mlp


class Keep(Codec):
    """Holds what it is given."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return None

    def receive_blocks(self, content: object) -> Any:
        return None


@covers("SUB-34")
def test_set_result_adds_or_asks_an_operation_and_get_result_empties(caplog: pytest.LogCaptureFixture) -> None:
    """Adding, replacing by `op(old or None, new)`, emptying; `record` writes into the log."""
    codec, one, seen = Keep(3), np.ones(2, np.float32), []
    assert (codec.node_id, codec.is_done(), codec.get_result()) == (3, False, None)
    codec.set_result(one)
    codec.set_result(one)
    assert codec.is_done()
    np.testing.assert_array_equal(codec.get_result(), [2, 2])
    np.testing.assert_array_equal(one, [1, 1])
    assert codec.get_result() is None and not codec.is_done()

    def larger(old: np.ndarray | None, new: np.ndarray) -> np.ndarray:
        seen.append(old)
        return new if old is None else np.maximum(old, new)

    codec.set_result(np.array([1.0, 5.0]), larger)
    codec.set_result(np.array([2.0, 4.0]), larger)
    assert seen[0] is None
    np.testing.assert_array_equal(codec.get_result(), [2, 5])
    codec.set_result(one)
    codec.dispose()
    assert not codec.is_done()
    with caplog.at_level(logging.INFO, "parallel_sgd.codec"):
        codec.record("half the values are zero")
    assert caplog.messages == ["Codec: Keep, Report: half the values are zero"]


@pytest.mark.parametrize("number", [0.5, np.float32(0.5), np.array(0.5)])
def test_set_result_adds_a_number_to_each_element_and_arrays_of_one_shape(number: Any) -> None:
    """A sum may begin with a number; of arrays NumPy would repeat the smaller one."""
    codec, column = Keep(0), np.array([[1.0], [2.0]])
    for first, second in ((number, column), (column, number)):
        codec.set_result(first)
        codec.set_result(second)
        np.testing.assert_array_equal(codec.get_result(), [[1.5], [2.5]])
    codec.set_result(column)
    with pytest.raises(TypeError, match=r"adds arrays of one shape, got \(2,\) for a result of shape \(2, 1\)"):
        codec.set_result(np.ones(2))


def test_a_packet_goes_to_one_node_or_any_iterable_of_nodes() -> None:
    for targets in ([1, 2], (1, 2), {1, 2}, range(1, 3), iter([1, 2])):
        assert netEncapsulation(targets, 0).targets == (1, 2)  # type: ignore[arg-type]
    assert netEncapsulation(-2, "x").targets == (-2,)
    assert netEncapsulation(np.int64(4), "x").targets == (4,)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'targets' must be a node id or several, got None"):
        netEncapsulation(None, "x")  # type: ignore[arg-type]


def test_an_error_of_a_generator_of_nodes_is_its_own() -> None:
    def nodes() -> Iterator[int]:
        yield 0
        raise TypeError("of mine")

    with pytest.raises(TypeError, match=r"^of mine$"):
        netEncapsulation(nodes(), "x")


def test_settings_give_assignment_and_parameters_within_a_job() -> None:
    """Several workers may live in one process: contexts do not share settings."""
    assignment, get = IIDBlockAssignment(2), GlobalSettings.get_params
    with GlobalSettings.use(assignment, {"bits": 4}) as job:
        assert GlobalSettings.get_default() is assignment
        assert [get("bits"), get("bits", REQUIRED), get("bucket"), get("bucket", 512)] == [4, 4, 0, 512]
        job.codec = "QSGD"
        wanted = "QSGD needs the parameter 'clip': pass codec_extra_parameters="
        with pytest.raises(MissingParameter, match=wanted) as caught:
            get("clip", REQUIRED)
    assert (caught.value.key, caught.value.codec) == ("clip", "QSGD")
    with pytest.raises(LookupError, match="a class body runs before it"):
        get("bits")
    contexts = [copy_context() for _ in range(2)]
    uses = [GlobalSettings.use(IIDBlockAssignment(value + 1), {"value": value}) for value in range(2)]
    for use, context in zip(uses, contexts, strict=True):
        context.run(use.__enter__)
    assert [context.run(get, "value") for context in contexts] == [0, 1]
    assert [context.run(GlobalSettings.get_default).node_count for context in contexts] == [1, 2]
    for use, context in zip(uses, contexts, strict=True):
        context.run(use.__exit__, None, None, None)


# by variable, layer and size ---------------------------------------------------------------------------------------------

NAMES = ["dense_1/kernel", "dense_1/bias", "dense_2/kernel", "dense_2/bias", "dense_10/kernel", "dense_10/bias"]
SIZES = [2048, 32, 1024, 32, 320, 10]


class Large(Plain):
    """For kernels."""


class Small(Plain):
    """For biases."""


@covers("SUB-33")
def test_a_codec_is_chosen_for_all_variables_or_by_id() -> None:
    """a class, or a dict, the rest the default codec."""
    assert choose_codecs(None, Plain, 2) == [Plain, Plain]
    assert choose_codecs(DummyCodec, Plain, 2) == [DummyCodec, DummyCodec]
    assert choose_codecs({1: DummyCodec}, Plain, 3) == [Plain, DummyCodec, Plain]
    wrong: list[tuple[Any, type[Exception], str]] = [
        ("Plain", TypeError, "must be a subclass of Codec or a dict of them by variable id, got 'Plain'"),
        ({0: int}, TypeError, "got <class 'int'>"),
        ({5: Plain}, ValueError, r"names variable 5, but the model has the variables 0\.\.2"),
    ]
    for choice, error, words in wrong:
        with pytest.raises(error, match=words):
            choose_codecs(choice, Plain, 3)


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (SizeAdaptive(big=Large, small=Small), dict(enumerate([Large, Small, Large, Small, Small, Small]))),
        (SizeAdaptive(min=33, big=Large), {0: Large, 2: Large, 4: Large}),
        (SizeAdaptive(min=0, big=Large), dict.fromkeys(range(6), Large)),
        (
            {"dense_1": SizeAdaptive(big=Large, small=Small), "dense_2/kernel": Small, 5: SizeAdaptive(big=Large), 4: Plain},
            {0: Large, 1: Small, 2: Small, 4: Plain},
        ),
        ({"dense_1/bias": Small, 1: Plain, "dense_1": Large}, {0: Large, 1: Plain}),  # what is more exact counts
        (Plain, Plain),
        (None, None),
    ],
)
def test_sizes_and_names_go_together(choice: Any, chosen: Any) -> None:
    assert by_size(choice, NAMES, SIZES) == chosen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"big": "plain"}, "SizeAdaptive 'big' must be a subclass of Codec, got 'plain'"),
        ({"big": None}, "SizeAdaptive 'big' must be a subclass of Codec, got None"),
        ({"big": Codec}, "SizeAdaptive 'big' must be a subclass of Codec, got <class"),
        ({"big": Plain, "small": 3}, "SizeAdaptive 'small' must be a subclass of Codec, got 3"),
        ({"big": Plain, "min": -1}, "SizeAdaptive 'min' must be .*, got -1"),
        ({"big": Plain, "min": 1.5}, "SizeAdaptive 'min' must be .*, got 1.5"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        SizeAdaptive(**given)


def train(directory: Path, ps: bool = False, **options: Any) -> tuple[JobResult, dict[int, dict[int, str]]]:
    """What a job gives, and the codecs of its variables by node."""
    with in_process(2, ps=ps) as nodes:
        job = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls())
        result = job.parallel(nodes, block_size=128, epoch=1, directory=directory, **options)
    return result, {node: {entry.variable: entry.codec for entry in books} for node, books in result.accounts.items()}


@pytest.mark.share(2)
@covers("SUB-33")
@pytest.mark.parametrize("ps", [False, True])
def test_two_codecs_in_one_job(ps: bool, tmp_path: Path) -> None:
    """Per variable, the rest the default codec; the same bits as with one lossless codec for all."""
    rest = "SyncPS" if ps else "Plain"
    models = set()
    for codec, wanted in (
        (SizeAdaptive(min=1000, big=Large), ["Large", rest, "Large", rest, rest, rest]),
        ({"dense_1": Small, "dense_3/bias": Large}, ["Small", "Small", rest, rest, rest, "Large"]),
        (None, [rest] * 6),
    ):
        result, kinds = train(tmp_path, ps, codec=codec)
        assert [kinds[0][variable] for variable in range(6)] == wanted
        models.add(result.models[0].store.values.tobytes())
    assert len(models) == 1


def test_the_server_side_may_be_chosen_by_size_too_and_variables_left_out(tmp_path: Path) -> None:
    class Served(SyncPS):
        """A name of its own in the accounts."""

    _, kinds = train(tmp_path, True, ps_codec=SizeAdaptive(min=2000, big=Served))
    assert [kinds[Parameter_Server][variable] for variable in range(6)] == ["Served"] + ["SyncPS"] * 5
    _, kinds = train(tmp_path, codec=SizeAdaptive(big=Plain, small=DummyCodec))
    assert set(kinds[0]) == {0, 2}, "nobody exchanges what is left out"


# Plain and DummyCodec ----------------------------------------------------------------------------------------------------

ASSIGNMENTS = [
    *(IIDBlockAssignment(*numbers) for numbers in ((1,), (2,), (3,), (4, 2), (4, 3), (3, 3))),
    *(DuplicateAssignment(*numbers) for numbers in ((4, 2), (6, 3))),
    *(FixedBlockAssignment(*numbers) for numbers in ((1, 1, 4), (2, 1, 4), (3, 1, 4), (3, 1, 8), (4, 2, 7))),
]


@covers("SUB-20")
@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda a: f"{type(a).__name__}-{a.node_count}-{a.redundancy}")
def test_every_worker_gets_the_mean_over_all_blocks(assignment: ISetting) -> None:
    """The same bits everywhere, whoever holds which block."""
    check_exact(ArrayJob(assignment).run())


@covers("SUB-22", "SUB-23")
@settings(deadline=None, max_examples=40)
@given(assignment=st.sampled_from(ASSIGNMENTS), data=st.data())
def test_delays_and_copies_in_any_combination_change_nothing(assignment: ISetting, data: st.DataObject) -> None:
    """Hypothesis chooses when each packet arrives and how often."""
    delays = st.lists(st.sampled_from([0.0, 0.1, 0.25, 3.0]), min_size=1, max_size=2)
    check_exact(ArrayJob(assignment, link=lambda *_: data.draw(delays)).run())


def test_who_is_sent_what() -> None:
    """Two workers with two blocks each send one sum per variable; copies of a block are not sent to its holders."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), batches=1).run()
    sent = [entry for entry in job.exchanges[0].accounts.entries() if entry.direction == "sent"]
    found = [(entry.codec, entry.variable, entry.peer, entry.packets, entry.raw) for entry in sent]
    assert found == [("Plain", 0, 1, 1, 4 * 12), ("Plain", 1, 1, 1, 4 * 4)]
    entries = ArrayJob(DuplicateAssignment(4, 2), batches=1).run().exchanges[0].accounts.entries()
    assert {(entry.direction, entry.peer) for entry in entries} == {
        (way, peer) for way in ("sent", "received") for peer in (2, 3)
    }


def test_a_codec_may_keep_packets_beyond_their_batch() -> None:
    """One that sends a batch later, say: the next batch changes none that was returned before."""
    kept: list[tuple[netEncapsulation, object]] = []

    class Keeping(Plain):
        def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
            packet = super().update_blocks(block_weight)
            assert packet is not None
            kept.append((packet, packet.content))
            return packet

    check_exact(ArrayJob(IIDBlockAssignment(2), codec=Keeping, batches=3).run())
    assert len(kept) == 2 * 3 * len(SHAPES) and all(packet.content is content for packet, content in kept)


@covers("SUB-31")
@pytest.mark.parametrize("assignment", [DuplicateAssignment(4, 2), IIDBlockAssignment(4, 2), FixedBlockAssignment(4, 2, 4)])
def test_any_one_worker_may_die_or_be_slow_with_two_copies(assignment: ISetting) -> None:
    """The others go on without a time-out and with unchanged results; what comes after its result was taken is dropped."""
    for dead in range(4):
        job = ArrayJob(assignment, batches=4, ends_after={dead: 2}).run()
        assert len(job.results[dead]) == 2
        check_exact(job, nodes=set(range(4)) - {dead})
        assert job.clock.monotonic() == 0.0
    job = ArrayJob(assignment, batches=3, link=lambda sender, *_: (0.5,) if sender == 3 else (0.0,)).run()
    check_exact(job)
    assert job.clock.monotonic() == 0.0
    assert job.sync(0).late == 0  # nothing had arrived when the job ended, and it was accounted for as in flight


@covers("SUB-24")
def test_the_life_of_a_codec_by_hand() -> None:
    """A single block goes out uncopied; a repeated packet is counted; the rescue sends the content of the first sending to
    the workers whose blocks are missing; results are emptied between batches; dispose lets go of everything."""
    with GlobalSettings.use(IIDBlockAssignment(3)):
        codec: Any = Plain(0)
    for batch in range(2):
        own = gradient(batch, 0, 0)
        assert codec.get_result() is None and list(codec.missing_blocks()) == ([0, 1, 2] if not batch else [])
        packet = codec.update_blocks(BlockWeight(own, 0))
        assert packet.content[2] is own
        for times in (0, 1):
            codec.receive_blocks((1, 2, gradient(batch, 1, 0)))
            assert codec.duplicates == batch + times
        (again,) = codec.do_something_to_save_yourself()
        assert again.targets == (2,) and list(codec.missing_blocks()) == [2]
        np.testing.assert_array_equal(again.content[2], own)
        codec.receive_blocks((2, 3, gradient(batch, 2, 0)))
        assert codec.get_result().tobytes() == expected(batch, 3)[0].tobytes()
    codec.update_blocks(BlockWeight(own, 0))
    codec.dispose()
    assert list(codec.missing_blocks()) == [0, 1, 2]
    assert codec.do_something_to_save_yourself() is None


@covers("SUB-33")
def test_dummy_codec_takes_the_mean_over_the_own_blocks() -> None:
    """Of all variables, or of one, while another is exchanged by the default codec; it refuses packets."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), codec=DummyCodec).run()
    for node, blocks in enumerate([(0, 1), (2, 3)]):
        for batch, results in enumerate(job.results[node]):
            for variable in range(len(SHAPES)):
                wanted = tree_mean([gradient(batch, block, variable) for block in blocks])
                assert results[variable].tobytes() == wanted.tobytes()
    assert job.exchanges[0].accounts.entries() == []
    job = ArrayJob(IIDBlockAssignment(2), codec={1: DummyCodec}, batches=1).run()
    assert [value.tobytes() for value in job.results[0][0]] == [expected(0, 2)[0].tobytes(), gradient(0, 0, 1).tobytes()]
    assert {(entry.codec, entry.variable) for entry in job.exchanges[0].accounts.entries()} == {("Plain", 0)}
    with GlobalSettings.use(IIDBlockAssignment(2)):
        codec = DummyCodec(0)
    with pytest.raises(TypeError, match="DummyCodec exchanges nothing, got a packet with tuple"):
        codec.receive_blocks((0, 1))
