"""The harness for authors of codecs: it passes what is right and says what is wrong with what is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallel_sgd import codec as codecs
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.codec.compose import AllToAll, Krum
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.testing import CodecLawError, check_codec

from ..statements import covers


@pytest.mark.parametrize("kind", [Plain, SyncPS, codecs.TopK])
def test_right_codecs_pass(kind: type[Codec]) -> None:
    report = check_codec(kind)
    assert len(report.held) == 8
    assert report.skipped == {}
    assert 0 < report.wire_bytes < 2 * report.dense_bytes
    assert report.error > 0.1 if kind is codecs.TopK else report.error == 0


@pytest.mark.parametrize(
    ("kind", "parameters", "skipped"),
    [
        (codecs.SMA, {}, {"all workers agree": "workers may differ"}),
        (codecs.SCAFFOLD, {"local_batches": 2, "learn_rate": 0.1}, {"all workers agree": "workers may differ"}),
        (codecs.OneBitAdam, {"warmup": 1}, {}),
        (
            codecs.ADPSGD,
            {},
            {
                "all workers agree": "workers may differ",
                "the order of arrival changes nothing": "packets count when they come",
                "a packet that comes twice changes nothing": (
                    "each packet is sent once: it has no do_something_to_save_yourself(), and no worker repeats a block"
                ),
                "a lost packet is made up for": "nobody waits for a packet",
            },
        ),
    ],
)
def test_what_a_codec_declares_is_heeded(kind: type[Codec], parameters: dict[str, Any], skipped: dict[str, str]) -> None:
    assert check_codec(kind, parameters=parameters).skipped == skipped


class Mean(Codec):
    """Right; the wrong ones below change one thing."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.assignment = GlobalSettings.get_default()
        self.blocks: dict[int, np.ndarray] = {}

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self.blocks[block_weight.block_id] = block_weight.content
        others = [node for node in self.assignment.nodes if node != self.node_id]
        packet = netEncapsulation(others, (block_weight.block_id, block_weight.content))
        self.finish()
        return packet

    def receive_blocks(self, content: Any) -> None:
        self.blocks.setdefault(*content)
        self.finish()

    def finish(self) -> None:
        if len(self.blocks) == self.assignment.block_count:
            self.set_result(self.merged())
            self.blocks = {}

    def merged(self) -> np.ndarray:
        return np.mean([self.blocks[block] for block in sorted(self.blocks)], axis=0, dtype=np.float32)


def merging(name: str, merged: Callable[[Any], np.ndarray]) -> type[Codec]:
    """`Mean` with another result, made of the codec."""
    return type(name, (Mean,), {"merged": merged, "__module__": __name__})


class Overwriting(Mean):
    def update_blocks(self, block_weight: BlockWeight) -> Any:
        np.multiply(block_weight.content, 2, out=block_weight.content)
        return super().update_blocks(block_weight)


def directions(codec: Mean) -> np.ndarray:
    """Every block counts as a direction."""
    codec.blocks = {block: value / np.linalg.norm(value) for block, value in codec.blocks.items()}
    return Mean.merged(codec)


def in_order_of_arrival(codec: Mean) -> np.ndarray:
    total = np.zeros_like(next(iter(codec.blocks.values())))
    for value in codec.blocks.values():
        total += value
    return total


Flat = merging("Flat", lambda codec: Mean.merged(codec).ravel())
Infinite = merging("Infinite", lambda codec: Mean.merged(codec) / np.float32(0))
Rolling = merging("Rolling", lambda codec: Mean.merged(codec) * np.float32(np.random.default_rng().random()))
Selfish = merging("Selfish", lambda codec: Mean.merged(codec) + np.float32(codec.node_id))
Normed = merging("Normed", directions)
Impatient = merging("Impatient", in_order_of_arrival)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Infinite, "results must be finite but are not: The result cannot be used: 260 of 260 numbers are not finite"),
        (Overwriting, "content must not be changed, but block 0 was"),
        (Rolling, "a repeated job must give the same bits but they differ"),
        (Selfish, r"all workers must have the same results but node\(s\) \[1, 2\] have others than node 0"),
        (Normed, "blocks without samples, which give zeros, must do no harm, but: The result cannot be used"),
        (Impatient, "all workers must have the same results|packets that arrive in another order change the results"),
    ],
)
def test_wrong_codecs_are_told_what_is_wrong(kind: type[Codec], message: str) -> None:
    with pytest.raises(CodecLawError, match=message):
        check_codec(kind)
    with pytest.raises(TypeError, match=r"Flat must give variable 0 \(dense/kernel\) an array of floats of shape \(20, 13\)"):
        check_codec(Flat)  # what the engine refuses passes through


def test_a_codec_without_a_rescue_is_not_blamed_for_it() -> None:
    report = check_codec(Mean)
    assert set(report.skipped) == {"a lost packet is made up for", "a packet that comes twice changes nothing"}
    assert "all workers agree" in report.held
    assert "not tried a lost packet is made up for: it has no do_something_to_save_yourself()" in report.summary()


class Raising(Plain):
    """Needs three blocks."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        raise ValueError(f"three blocks or more, got {block_weight.block_id}")


@covers("RES-11")
def test_what_a_codec_raises_is_not_taken_for_a_write_into_its_input() -> None:
    """Its own error comes as it is, with the assignment that it was tried with."""
    with pytest.raises(ValueError, match=r"^three blocks or more, got 0") as own:
        check_codec(Raising)
    assert not isinstance(own.value, CodecLawError)
    notes = vars(own.value)["__notes__"]
    assert re.match(
        r"Raising\.update_blocks raised ValueError: three blocks or more, got 0 \(.*test_harness\.py:\d+\)$", notes[0]
    )
    assert notes[1].startswith("It was tried on ") and "'assignments' names others" in notes[1]
    with pytest.raises(ValueError, match=r"^Krum\(faulty=2, keep=1\) needs 7 workers or more, got 3") as krum:
        check_codec(Codec.of(AllToAll(), merge=Krum(2), name="K"))
    assert not isinstance(krum.value, CodecLawError)
    assert check_codec(Codec.of(AllToAll(), merge=Krum(2), name="K"), assignments=[IIDBlockAssignment(7)]).held
