"""SEC-12: what a peer sends that is not finite or of a wrong shape is refused, naming who sent it, codec and variable."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.errors import BadContent
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec import (
    Adasum,
    BlockWeight,
    CheckingPackets,
    Codec,
    GlobalSettings,
    Int8,
    PacketTraits,
    Plain,
    Ring,
    TopK,
    netEncapsulation,
)
from parallel_sgd.codec.compose import AllToAll, Delay
from parallel_sgd.codec.parameter_server import SyncPS
from parallel_sgd.codec.qsgd import QSGD
from parallel_sgd.engine.unusable import Like, Unusable, check_arrays, check_finite
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob

from ..statements import covers

HUGE = np.float32(3e38)  # finite, but the sum of its squares is not


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (4, 0, 2), (100_001,)], ids=str)
def test_every_place_counts(dtype: Any, shape: tuple[int, ...], bad: float) -> None:
    good = np.full(shape, 3, dtype)
    check_finite((1, [good, {"a": good, 2: "text"}], None, 5.0))
    if good.size:
        for place in {0, good.size // 2, good.size - 1}:
            spoiled = good.copy()
            spoiled.flat[place] = bad
            with pytest.raises(Unusable, match=rf"^1 of {good.size} numbers are not finite$"):
                check_finite((1, [good, {"a": spoiled}]))


def test_what_is_finite_passes() -> None:
    """Numbers whose squares overflow, strided views, integers: none of them is refused, and nobody warns."""
    huge = [np.full(9, HUGE), np.full(100_001, HUGE), np.full((4, 6), -HUGE)[:, ::2], np.full((70, 300), 1e308)]
    for array in (*huge, np.arange(5), np.array([True]), np.empty(0, np.float32)):
        check_finite(array)
    with pytest.raises(Unusable, match="12 of 12"):
        check_finite(np.full((4, 6), np.inf, np.float32)[:, ::2])


@dataclass(slots=True)
class Slotted:
    """What a user's codec may send."""

    block: int
    value: Any


class SlottedAndMore(Slotted):
    """It has a `__dict__`, too."""


@covers("SEC-24")
@pytest.mark.parametrize("kind", [Slotted, SlottedAndMore])
def test_fields_in_slots_count(kind: type[Slotted]) -> None:
    """As those in `__dict__` do; a slot that was never filled holds nothing."""
    like = Like((2,), np.dtype(np.float32))
    good = np.ones(2, np.float32)
    check_arrays((kind(1, [good]), kind.__new__(kind)), like)
    for bad, said in ((np.full(2, np.nan, np.float32), "2 of 2 numbers"), (np.ones(1, np.float32), "must be float32")):
        with pytest.raises(Unusable, match=said):
            check_arrays((kind(1, [good, bad]),), like)


def spoiled(kind: type[Codec], spoil: Callable[[Any], Any]) -> type[Codec]:
    """A codec whose worker 1 sends in the second batch what `spoil` makes of it; it is not honest about what it sends."""

    class Spoiled(kind):  # type: ignore[misc, valid-type]
        def _changed(self, packets: Any) -> Any:
            if packets is None or self.node_id != 1 or GlobalSettings.current().step < (0, 1):
                return packets
            found = [packets] if isinstance(packets, netEncapsulation) else list(packets)
            return [netEncapsulation(packet.targets, spoil(packet.content)) for packet in found]

        def update_blocks(self, block_weight: BlockWeight) -> Any:
            return self._changed(super().update_blocks(block_weight))

        def receive_blocks(self, content: Any) -> Any:
            return self._changed(super().receive_blocks(content))

    Spoiled.__name__ = kind.__name__
    return Spoiled


def with_bad_number(content: Any) -> Any:
    """The last array of floats in it has a NaN, or the bytes of a payload that of the largest numbers."""
    parts = list(content)
    for place, part in enumerate(parts):
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            parts[place] = part.copy()
            parts[place].flat[-1] = np.nan
        elif isinstance(part, np.ndarray):
            parts[place] = np.full_like(part, 0xFF)
    return tuple(parts)


def of_another_shape(content: Any) -> Any:
    return tuple(np.ones((3, 2), np.float32) if isinstance(part, np.ndarray) else part for part in content)


LATE = Codec.of(AllToAll(), trigger=Delay(1), name="Late")


@pytest.mark.parametrize("spoil", [with_bad_number, of_another_shape])
@pytest.mark.parametrize("kind", [Plain, SyncPS, Ring, QSGD, TopK, Int8, LATE])
def test_the_sender_is_named(kind: type[Codec], spoil: Callable[[Any], Any]) -> None:
    """Node, codec, variable and batch; with a parameter server it is that which refuses. Under `Delay` packets come when the
    result of their batch is taken, and are merged all the same."""
    settings: dict[str, Any] = {"link": lambda sender, _, key: (sender * key[2] * 1.0,)} if kind is LATE else {}
    job = ArrayJob(IIDBlockAssignment(3), codec=spoiled(kind, spoil), server=kind if kind is SyncPS else None, **settings)
    where = rf"{kind.__name__}, variable \d.*, epoch 1, batch 2"
    with pytest.raises(BadContent, match=rf"^Node\(1\) sent what cannot be used, for {where}: ") as info:
        job.run()
    assert info.value.node_id == 1


@covers("SEC-24")
@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, ValueError, IndexError])
def test_an_error_of_a_user_s_codec_is_its_own_and_tells_the_packet(error: type[Exception]) -> None:
    """No check has refused the packet, so its sender is not blamed: class, method, line and packet stand in a note."""

    class Intolerant(Plain):
        def receive_late(self, content: Any) -> None:
            raise error(f"it has come late from {GlobalSettings.current().sender}")

    def link(sender: int, _receiver: int, key: Any) -> tuple[float, ...]:
        return (0.0, 0.5) if sender == 1 else (1.0 * key[2],)  # what node 1 sends comes again in the next batch

    with pytest.raises(error, match="it has come late from 1") as info:
        ArrayJob(IIDBlockAssignment(3), codec=Intolerant, link=link).run()
    told = rf"Intolerant\.receive_late raised {error.__name__}: .*it has come late from 1.* \({re.escape(__file__)}:\d+\)"
    packet = r" for a packet of node 1, variable \d \(dense/\w+\), epoch 1, batch \d"
    assert re.fullmatch(told + packet, vars(info.value)["__notes__"][0])


@covers("SEC-24")
@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, IndexError])
def test_a_check_of_a_user_s_codec_that_breaks_has_refused_nothing(error: type[Exception]) -> None:
    """A ValueError is a refusal, as the guide says, anything else an error of the author."""

    class Broken(Plain, CheckingPackets):
        def check(self, content: Any, like: Like | None) -> None:
            raise error("in the check")

    class Refusing(Plain, CheckingPackets):
        def check(self, content: Any, like: Like | None) -> None:
            raise ValueError("not so")

    with pytest.raises(error, match="in the check") as info:
        ArrayJob(IIDBlockAssignment(2), codec=Broken).run()
    assert vars(info.value)["__notes__"][0].startswith(f"Broken.check raised {error.__name__}: ")
    with pytest.raises(BadContent, match=r"^Node\(\d\) sent what cannot be used, for Refusing, .*: ValueError: not so"):
        ArrayJob(IIDBlockAssignment(2), codec=Refusing).run()


@covers("SEC-24")
def test_what_a_codec_of_this_project_does_not_bear_is_told_with_its_sender() -> None:
    """Where no check has seen to it, its own error is the cause: what a user's class inherits is a codec of this project."""

    class Unchecked(Plain, CheckingPackets):
        traits = replace(Plain.traits, packets=PacketTraits())

        def check(self, content: Any, like: Like | None) -> None:
            """Take anything."""

    job = ArrayJob(IIDBlockAssignment(3), codec=spoiled(Unchecked, lambda content: content[:1]))
    with pytest.raises(
        BadContent, match=r"^Node\(1\) sent what cannot be used, for Unchecked, variable \d.*: ValueError"
    ) as info:
        job.run()
    assert info.value.node_id == 1 and type(info.value.__cause__) is ValueError


def test_a_packet_that_a_user_s_codec_cannot_send_is_not_its_cause_s_fault() -> None:
    class Astray(Plain):
        def receive_blocks(self, content: Any) -> Any:
            return netEncapsulation(17, np.ones(3))

    with pytest.raises(ValueError, match=r"Astray\.receive_blocks returned .*: node 17 is none .* for a packet of node \d"):
        ArrayJob(IIDBlockAssignment(2), codec=Astray).run()


@covers("SEC-24")
def test_a_result_that_is_not_finite_is_told() -> None:
    """All that came in was finite, and one number of it so large that what is made of it is not."""

    def enlarged(content: Any) -> Any:
        return tuple(np.full_like(part, HUGE) if isinstance(part, np.ndarray) else part for part in content)

    job = ArrayJob(IIDBlockAssignment(3), codec=spoiled(Adasum, enlarged))
    said = r"though what came in was; somebody's are too large. It is for Adasum, variable \d"
    with np.errstate(over="ignore"), pytest.raises(FloatingPointError, match=said):
        job.run()


def test_a_loss_of_finite_numbers_that_is_not_finite_itself(tmp_path: Path) -> None:
    """No layer, variable or sample is to be named; what is too large is said."""
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(1)])
    model.setup("mse")
    data = nn.dataset.ArrayDataset(np.ones((8, 2), np.float32), np.full((8, 1), 1e30, np.float32))
    said = "The loss is inf in epoch 1, batch 1; outputs of the model, or labels, are too large for it"
    with np.errstate(over="ignore"), in_process(1) as nodes, pytest.raises(FloatingPointError, match=said):
        ParallelSGD(model, data).parallel(nodes, epoch=1, block_size=4, directory=tmp_path)
