"""One direction of a proxied connection on a virtual clock, and how messages are found in it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from network.faults.stream import CAPACITY, HOLD_SECONDS, MOST_DELAYED, MessageSplitter, Place, Shape, Stream
from network.hello import LENGTH, Hello, Reply
from network.keys import Share
from network.records import AES, Sealer
from network.testing import VirtualClock
from network.wire import Kind, Limits, pack

from ...statements import covers
from ..wires import travelling

DATA = random.Random(1).randbytes(1 << 20)
Arrival = tuple[float, bytes]


def stream(shape: Shape, seed: int = 0) -> Stream:
    return Stream(shape, random.Random(seed))


def flow(through: Stream, data: bytes, clock: VirtualClock, end: bool = True, limit: int = 10**6) -> list[Arrival]:
    """Put all bytes in as fast as they are taken, let time pass, and tell when which came out."""
    arrivals: list[Arrival] = []
    for _ in range(limit):
        while data and through.room:
            part, data = data[: through.room], data[through.room :]
            through.take(part, clock.monotonic())
            if not data and end:
                through.finish(clock.monotonic())
        arrivals += [(clock.monotonic(), piece) for piece in through.due(clock.monotonic())]
        moment = through.next_moment()
        if moment is None and (not data or not through.room):
            return arrivals
        if moment is not None:
            clock.advance_to(moment)
    raise AssertionError("it never ended")


def brought(arrivals: Sequence[Arrival]) -> bytes:
    return b"".join(piece for _, piece in arrivals)


def test_without_faults_everything_passes_at_once() -> None:
    shape, clock = Shape(), VirtualClock(5.0)
    through = stream(shape)
    arrivals = flow(through, DATA, clock)
    assert brought(arrivals) == DATA and through.ended
    assert clock.monotonic() == 5.0 and not shape.counts


@pytest.mark.parametrize("rate", [125_000.0, 1e6, 1e7])
def test_a_throttled_link_brings_its_rate(rate: float) -> None:
    """Over the whole, and within every tenth of it."""
    shape, clock = Shape(), VirtualClock()
    shape.throttle(rate)
    arrivals = flow(stream(shape), DATA, clock)
    assert brought(arrivals) == DATA
    seconds = len(DATA) / rate
    assert seconds * 0.999 <= arrivals[-1][0] <= seconds * 1.02
    for tenth in range(1, 10):
        passed = sum(len(piece) for moment, piece in arrivals if moment <= seconds * tenth / 10)
        assert passed == pytest.approx(len(DATA) * tenth / 10, abs=0.02 * len(DATA))
    assert shape.counts["throttle"] == len(arrivals)
    through = stream(shape)  # idle time is not saved up
    flow(through, DATA[:10_000], clock, end=False)
    clock.advance(60)
    start = clock.monotonic()
    arrivals = flow(through, DATA[: int(rate / 10)], clock, end=False)
    assert 0.09 <= arrivals[-1][0] - start <= 0.11


def framed(sizes: Sequence[int]) -> bytes:
    """Messages with arrays of so many bytes."""
    arrays = [np.zeros(size, np.uint8) for size in sizes]
    return b"".join(travelling(pack(Kind.MESSAGE, (0, n), array, False)) for n, array in enumerate(arrays))


@pytest.mark.parametrize("messages", [False, True])
@settings(max_examples=60)
@given(
    rate=st.one_of(st.none(), st.floats(1e3, 1e9)),
    delay=st.floats(0.0, 2.0),
    seconds=st.lists(st.floats(0.0, 0.5), min_size=1, max_size=5),
    piece=st.one_of(st.none(), st.integers(50, 2000)),
)
@example(1.25e6, 0.2, [473_219 / 1.25e6], None)  # 10 Mbit/s and 200 ms: 579 ms
@example(1.25e6, 0.02, [473_219 / 1.25e6], None)
@example(125e3, 0.2, [119_018 / 125e3], None)
@example(125e3, 0.2, [0.01] * 5, None)  # each of many messages
@example(None, 0.2, [0.5], None)
def test_a_late_link_brings_its_rate(
    messages: bool, rate: float | None, delay: float, seconds: list[float], piece: int | None
) -> None:
    """Bytes that come as fast as they are taken need size / rate + delay, however large either is, by messages or not; an
    unthrottled link needs its delay alone."""
    sizes = [min(1 << 20, int((2e6 if rate is None else rate) * each)) for each in seconds]
    data, shape, clock = framed(sizes), Shape(), VirtualClock()
    shape.throttle(rate)
    shape.delay(delay)
    shape.segment(piece if rate is None or rate < 1e5 else None)
    through = Stream(shape, random.Random(0), MessageSplitter(Place.FRAMES, False) if messages else None)
    arrivals = flow(through, data, clock)
    assert brought(arrivals) == data
    assert arrivals[-1][0] == pytest.approx((0.0 if rate is None else len(data) / rate) + delay, rel=0.01)


def test_a_late_link_with_jitter_brings_its_rate() -> None:
    """Each draw counts once: what waits for the link behind a byte that is late is not late again."""
    for jitter in (0.01, 0.1):
        shape, clock = Shape(), VirtualClock()
        shape.throttle(1.25e6)
        shape.delay(0.2, jitter)
        arrivals = flow(stream(shape), DATA[:473_219], clock)
        assert 0.579 <= arrivals[-1][0] + 0.001 <= 0.579 + jitter + 0.001


@covers("FLT-9", "INV-13")
def test_a_late_link_delivers_in_order() -> None:
    """Jitter comes from the seed and never reorders."""
    runs = []
    for seed in (1, 1, 2):
        shape, clock = Shape(), VirtualClock()
        shape.delay(0.5, 0.1)
        through, out = stream(shape, seed), []
        for number in range(100):
            through.take(bytes([number]), clock.monotonic())
            clock.advance(0.01)
            out += [(clock.monotonic(), piece) for piece in through.due(clock.monotonic())]
        runs.append(out + flow(through, b"", clock))
        assert brought(runs[-1]) == bytes(range(100))
        assert all(0.5 <= moment - 0.01 * piece[0] < 0.7 for moment, piece in runs[-1])
        assert shape.counts == {"delay": 100}
    assert runs[0] == runs[1] != runs[2]


def test_small_pieces() -> None:
    shape = Shape()
    shape.segment(1)
    arrivals = flow(stream(shape), DATA[:3000], VirtualClock())
    assert [piece for _, piece in arrivals] == [DATA[n : n + 1] for n in range(3000)]
    assert shape.counts == {"segment": 2999}


@covers("FLT-7")
def test_swallowed_bytes_and_ends_are_gone() -> None:
    """No byte, no end; what comes after healing passes."""
    shape, clock = Shape(), VirtualClock()
    through = stream(shape)
    shape.swallow()
    assert flow(through, DATA, clock, end=False) == [] and through.room
    shape.swallow(False)
    assert brought(flow(through, b"after", clock, end=False)) == b"after"
    shape.swallow()
    assert flow(through, b"the last", clock) == [] and not through.ended
    assert shape.counts["swallow"] >= 2


def test_a_stalled_link_reads_nothing() -> None:
    """A slow reader: the sender has to keep its bytes, also the end."""
    shape, clock = Shape(), VirtualClock()
    through = stream(shape)
    through.take(b"on its way", clock.monotonic())
    shape.stall()
    assert not through.room and shape.counts == {"stall": 1}
    assert brought([(0.0, piece) for piece in through.due(0.0)]) == b"on its way"
    shape.stall(False)
    assert brought(flow(through, DATA, clock)) == DATA


@covers("INV-12")
def test_memory_is_bounded() -> None:
    """a sender that is faster than the link has to wait, if it is not for bytes in their delay."""
    for rate, delay, most in (
        (None, 0.0, CAPACITY),
        (None, 1000.0, CAPACITY + MOST_DELAYED),
        (1e6, 0.0, 50_000),
        (1e9, 0.0, CAPACITY),
        (1e6, 0.5, 550_000),
        (1e6, 1000.0, 50_000 + MOST_DELAYED),
    ):
        shape, taken = Shape(), 0
        shape.throttle(rate)
        shape.delay(delay)
        through = stream(shape)
        while through.room:
            part = DATA[: through.room]
            through.take(part, 0.0)
            taken += len(part)
        assert taken == most


@covers("FLT-11")
@given(st.lists(st.integers(1, 400), min_size=1), st.integers(0, 999), st.integers(0, 1200))
def test_faults_at_a_byte(sizes: list[int], flip: int, end: int) -> None:
    """Exactly that byte, however the bytes come; truncated at exactly that place, and no further."""
    data, clock, shape = DATA[:1000], VirtualClock(), Shape()
    shape.flip(flip)
    shape.truncate(end)
    through, out, rest = stream(shape), b"", data
    for size in [*sizes, 1000]:
        through.take(rest[:size], 0.0)
        rest = rest[size:]
        out += b"".join(through.due(0.0))
    expected = bytearray(data)
    expected[flip] ^= 1
    assert out == bytes(expected[:end])
    assert through.ended == (end < len(data)) and shape.counts["truncate"] == (end < len(data))
    assert shape.counts["flip"] == 1 or end <= flip
    if shape.flip_at is None and shape.end_at is None:  # the next connection meets neither
        assert brought(flow(stream(shape), data, clock)) == data


@pytest.mark.parametrize(
    ("fault", "arguments", "refused"),
    [
        ("throttle", (0,), "'bytes_per_second' must be positive or None, got 0"),
        ("delay", (-1,), "'seconds' must not be negative, got -1"),
        ("delay", (1, float("nan")), "'jitter' must not be negative, got nan"),
        ("segment", (0,), "'size' must be positive or None, got 0"),
        ("flip", (-1,), "'at' must not be negative, got -1"),
        ("truncate", (-2,), "'at' must not be negative, got -2"),
        ("lose", (1.5,), "'share' must be from 0 to 1, got 1.5"),
        ("duplicate", (-1,), "'messages' must not be negative, got -1"),
        ("reorder", (-1,), "'pairs' must not be negative, got -1"),
    ],
)
def test_impossible_settings(fault: str, arguments: tuple[float, ...], refused: str) -> None:
    with pytest.raises(ValueError) as caught:
        getattr(Shape(), fault)(*arguments)
    assert str(caught.value) == f"{fault} {refused}."


# ---- messages


def conversation(client: bool, sealed: bool) -> list[bytes]:
    """What one side of a connection sends, cut into what belongs together."""
    sealer, share = Sealer(AES, b"k" * 32), Share(b"e" * 32).public
    if client:
        caps = {"node": 1, "attempt": 0}
        start = [Hello((2, 2), "peer", b"12345678", b"n" * 32, caps, "job", share, (AES,)).to_bytes(), b"p" * 32]
    else:
        core = Reply(2, "peer", b"n" * 32, {}, share, AES).to_bytes()
        ready = pack(Kind.READY, (), None, True)
        start = [b"\0" + LENGTH.pack(len(core)) + core + b"m" * 32, travelling(ready, sealer)]
    values = ["one", np.arange(1000, dtype=np.float32), {"a": np.ones((3, 5)), "b": [np.zeros(0), 2]}, None, 5]
    limits = Limits(data=1000)
    packed = [pack(Kind.MESSAGE, (0, n), value, sealed, (), limits) for n, value in enumerate(values)]
    assert any(len(p.frames) > 1 for p in packed)
    return [
        *start,
        *(travelling(p, sealer if sealed else None) for p in packed),
        travelling(pack(Kind.BYE, (), None, sealed), sealer if sealed else None),
    ]


def splitter(client: bool, sealed: bool) -> MessageSplitter:
    return MessageSplitter(Place.HELLO if client else Place.REPLY, sealed)


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
@given(sizes=st.lists(st.integers(1, 3000), max_size=20))
def test_messages_are_found_however_the_bytes_come(client: bool, sealed: bool, sizes: list[int]) -> None:
    """Of a record the splitter reads the header, which is not secret; READY is one on every connection."""
    parts = conversation(client, sealed)
    rest, cutter, found = b"".join(parts), splitter(client, sealed), []
    for size in [*sizes, len(rest)]:
        found += list(cutter.split(rest[:size]))
        rest = rest[size:]
    assert [part for part, _ in found] == parts
    assert [is_message for _, is_message in found] == [False] * 2 + [True] * 5 + [False]
    assert cutter.rest() == b""


@example(b"\xff" * 60, Place.FRAMES, False)
@given(st.binary(max_size=200), st.sampled_from(Place), st.booleans())
def test_strangers_pass_as_they_come(data: bytes, place: Place, sealed: bool) -> None:
    """What is no connection of ours is neither changed nor refused, and nothing stays behind at its end."""
    cutter = MessageSplitter(place, sealed)
    out = b"".join(part for half in (data[:50], data[50:]) for part, _ in cutter.split(half))
    assert out + cutter.rest() == data


def exchanged(sealed: bool, **faults: int) -> tuple[list[bytes], list[bytes], Shape]:
    """The parts that went in, those that came out, and the shape."""
    parts, shape = conversation(True, sealed), Shape()
    for name, count in faults.items():
        getattr(shape, name)(count)
    through = Stream(shape, random.Random(3), splitter(True, sealed))
    out = flow(through, b"".join(parts), VirtualClock())
    return parts, [piece for _, piece in out], shape


#: the order in which the parts arrive: 0 and 1 are the handshake, which is never touched, 2 to 6 the messages, 7 the end
FAULTS: dict[str, tuple[bool, int, list[int], int]] = {
    "duplicate": (False, 2, [0, 1, 2, 2, 3, 3, 4, 5, 6, 7], 2),
    "reorder": (True, 2, [0, 1, 3, 2, 5, 4, 6, 7], 2),
    "lose": (False, 1, [0, 1, 7], 5),
}


@covers("FLT-8", "FLT-10")
@pytest.mark.parametrize("fault", FAULTS)
def test_messages_come_twice_in_another_order_or_not_at_all(fault: str) -> None:
    """Whole: no byte of a lost one arrives."""
    sealed, argument, order, count = FAULTS[fault]
    parts, out, shape = exchanged(sealed, **{fault: argument})
    assert out == [parts[number] for number in order]
    assert shape.counts == {fault: count}


def test_half_a_pair_leaves_at_the_end_or_after_a_while() -> None:
    """Nothing is kept back for ever: who waits for an answer says nothing more, so that its last message goes on alone; the
    farewell, after which nothing may come, overtakes none."""
    parts, out, _ = exchanged(False, reorder=9)
    assert out == [parts[number] for number in (0, 1, 3, 2, 5, 4, 6, 7)]
    shape, clock = Shape(), VirtualClock()
    shape.reorder()
    through = Stream(shape, random.Random(3), splitter(True, False))
    arrivals = flow(through, b"".join(parts[:5]), clock, end=False)
    assert [piece for _, piece in arrivals] == [*parts[:2], parts[3], parts[2], parts[4]]
    assert arrivals[-1][0] == HOLD_SECONDS and through.next_moment() is None
