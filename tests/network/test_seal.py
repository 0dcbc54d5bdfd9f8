"""Seals: only the next frame of the same session, unaltered, verifies."""

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError
from network.keys import Opener, Sealer

from ..statements import covers

KEY = b"k" * 32
FRAMES = [(b"header-1", b"meta", b"data"), (b"header-2", b"", b""), (b"header-3", b"more", bytes(1000))]


def seals() -> list[bytes]:
    sealer = Sealer(KEY)
    return [sealer.seal(frame) for frame in FRAMES]


def test_a_seal_is_the_hmac_of_the_sequence_number_and_the_frame() -> None:
    for number, (frame, seal) in enumerate(zip(FRAMES, seals(), strict=True)):
        message = struct.pack("!Q", number) + b"".join(frame)
        assert seal == hmac.new(KEY, message, hashlib.sha256).digest()


@given(st.lists(st.lists(st.binary(max_size=100), max_size=5), max_size=5), st.sampled_from([bytes, bytearray, memoryview]))
def test_what_is_sealed_verifies_in_order(frames: list[list[bytes]], kind: type[bytes | bytearray | memoryview]) -> None:
    sealer, opener = Sealer(KEY), Opener(KEY)
    for frame in frames:
        opener.verify(frame, kind(sealer.seal(kind(part) for part in frame)))


def refuses(opener: Opener, frame: tuple[bytes, ...], seal: bytes) -> None:
    with pytest.raises(ProtocolError, match="seal does not verify"):
        opener.verify(frame, seal)


@covers("SEC-4")
def test_replay_reorder_drop_and_splice_are_refused() -> None:
    """a frame verifies once, in its place, in its session, in its direction."""
    opener = Opener(KEY)
    opener.verify(FRAMES[0], seals()[0])
    refuses(opener, FRAMES[0], seals()[0])
    refuses(Opener(KEY), FRAMES[1], seals()[1])
    opener = Opener(KEY)
    opener.verify(FRAMES[0], seals()[0])
    refuses(opener, FRAMES[2], seals()[2])
    refuses(Opener(b"x" * 32), FRAMES[0], seals()[0])


@covers("SEC-7")
def test_every_bit_counts() -> None:
    """Every bit of header, meta, data and seal; and every truncation."""
    frame, seal = FRAMES[0], seals()[0]
    whole = b"".join(frame)
    for bit in range(8 * len(whole)):
        altered = bytearray(whole)
        altered[bit // 8] ^= 1 << bit % 8
        refuses(Opener(KEY), (bytes(altered),), seal)
    for bit in range(8 * len(seal)):
        altered = bytearray(seal)
        altered[bit // 8] ^= 1 << bit % 8
        refuses(Opener(KEY), frame, bytes(altered))
    for length in range(len(seal)):
        refuses(Opener(KEY), frame, seal[:length])
    for length in range(len(whole)):
        refuses(Opener(KEY), (whole[:length],), seal)


@covers("SEC-4")
def test_after_one_bad_frame_nothing_is_accepted_any_more() -> None:
    """An attacker has one try, then the session is over."""
    opener = Opener(KEY)
    refuses(opener, FRAMES[0], b"\0" * 32)
    for frame, seal in zip(FRAMES[1:], seals()[1:], strict=True):
        refuses(opener, frame, seal)


@pytest.mark.parametrize("series", [Sealer, Opener])
def test_sequence_numbers_are_never_used_twice(series: type[Sealer | Opener]) -> None:
    last = Sealer(KEY, first=2**64 - 1)
    seal = last.seal([b"x"])
    assert seal == hmac.new(KEY, b"\xff" * 8 + b"x", hashlib.sha256).digest()
    end = series(KEY, first=2**64)
    with pytest.raises(ProtocolError, match=r"used up its 2\*\*64 sequence numbers"):
        end.seal([b"x"]) if isinstance(end, Sealer) else end.verify([b"x"], seal)
    with pytest.raises(ProtocolError, match="used up"):
        last.seal([b"x"])
