"""Operations of a group among nodes in threads over real sockets: results, types, sizes on either side of every border, and
failures; and progress."""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.controller import Controller
from network.errors import BadContent, PeerLost, TimedOut
from network.session import Peer, Session
from network.transport import SocketLink
from rpc.collective.allreduce import AHEAD, COMBINE, PART_NUMBERS, PIECE_BYTES, STRETCH_BYTES, WAKE, WHOLE_BYTES, combined
from rpc.collective.shared_slots import FIRST
from rpc.communication import Communication
from tests.network.wires import keys_for

from ...statements import covers

LIMIT = 60.0


@contextlib.contextmanager
def group(count: int, *, sealed: bool = False) -> Iterator[list[Communication]]:
    """The `com` of every node; they know each other already."""
    sessions: list[dict[int, Session]] = [{} for _ in range(count)]
    for low, high in itertools.combinations(range(count), 2):
        for node, peer, end in zip((low, high), (high, low), socket.socketpair(), strict=True):
            sessions[node][peer] = Session(SocketLink(end), keys_for(sealed), Peer("peer"), is_server=node == low)
    controllers = [Controller(node, found) for node, found in enumerate(sessions)]
    try:
        yield [Communication(com, range(count), Path(), Path(), lambda percent: None) for com in controllers]
    finally:
        for controller in controllers:
            controller.close(graceful=False)


def together(coms: list[Communication], work: Callable[[Communication], Any]) -> list[Any]:
    """What `work` gives on every node, or the error that it raises."""
    results: list[Any] = [None] * len(coms)

    def run(com: Communication) -> None:
        try:
            results[com.rank] = work(com)
        except Exception as error:
            results[com.rank] = error

    threads = [threading.Thread(target=run, args=(com,)) for com in coms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    return results


def array_of(rank: int, shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    generator = np.random.default_rng((rank, *shape))
    if np.dtype(dtype).kind in "biu":
        return generator.integers(0, 2 if dtype == "?" else 50, shape).astype(dtype)
    return (generator.standard_normal(shape) * 10.0 ** generator.integers(-2, 3, shape)).astype(dtype)


BORDER, PIECE = WHOLE_BYTES // 4, PIECE_BYTES // 4
SHAPES = [(), (0,), (3, 5), (1,) * 8 + (3,), (BORDER,), (BORDER + 1,), (2 * PIECE - 1,), (2, PIECE + 1)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("count", "sealed"), [(1, False), (2, False), (2, True), (3, False), (4, False), (5, False)])
def test_everybody_gets_the_bits_of_the_tree(count: int, sealed: bool) -> None:
    """Through messages, and through shared memory once the peers have agreed on it; sealed sessions never share any."""
    with group(count, sealed=sealed) as coms:
        for shape in SHAPES:
            parts = [array_of(rank, shape) for rank in range(count)]
            for op in ("mean", "sum", "max", "min"):
                expected = combined(parts, op)
                for found in together(coms, lambda com, op=op, parts=parts: com.allreduce(parts[com.rank], op, LIMIT)):
                    assert found.dtype == expected.dtype and found.shape == shape, found
                    np.testing.assert_array_equal(found, expected)
        shared = [session.bytes_shared > 0 for com in coms for session in com.controller.sessions.values()]
        assert shared == [not sealed and sys.platform == "linux"] * len(shared)


@pytest.mark.parametrize("sealed", [False, True])
def test_every_byte_is_accounted_on_both_sides_and_no_more_than_needed_travels(sealed: bool) -> None:
    """2 (W - 1) / W times the array in each direction, however it travels."""
    size, turns = 4 * PIECE_BYTES, 3
    with group(3, sealed=sealed) as coms:
        before = [com.bytes_sent for com in coms]

        def work(com: Communication) -> None:
            for _ in range(turns):
                com.allreduce(np.zeros(size // 4, np.float32), "sum", LIMIT)
            com.barrier(LIMIT)

        together(coms, work)
        for com, start in zip(coms, before, strict=True):
            assert 0 <= com.bytes_sent - start - turns * size * 4 // 3 < turns * size // 50
        for low, high in itertools.permutations(range(3), 2):
            assert coms[low].controller.sessions[high].bytes_sent == coms[high].controller.sessions[low].bytes_read


def test_more_pieces_than_slots() -> None:
    """Nothing is overwritten that somebody has yet to read, within an operation and from one to the next."""
    size = 3 * (AHEAD + 1) * PIECE_BYTES
    parts = [np.arange(rank, size + rank, dtype=np.uint32).astype(np.uint8) for rank in range(3)]
    expected = combined(parts, "sum")
    with group(3) as coms:
        for found in together(coms, lambda com: [com.allreduce(parts[com.rank], "sum", LIMIT) for _ in range(2)]):
            for total in found:
                np.testing.assert_array_equal(total, expected)


def test_an_operation_that_failed_spoils_none_that_follows() -> None:
    """A node gives up and begins the next operation while another may still combine what the first one left for it."""
    size, begun = 300_000, threading.Barrier(3)

    def work(com: Communication) -> list[Any]:
        found = [com.allreduce(array_of(com.rank, (size,)), "sum", LIMIT)]
        if com.rank == 2:
            begun.wait(LIMIT)
        else:
            with pytest.raises(TimedOut, match=r"node\(s\) .*2"):
                com.allreduce(array_of(com.rank + 3, (size,)), "sum", 0.3)
            begun.wait(LIMIT)
        if com.rank == 2:
            with pytest.raises(TimedOut):
                com.allreduce(array_of(com.rank + 3, (size,)), "sum", 0.1)
        return [*found, *(com.allreduce(array_of(com.rank + 6 * turn, (size,)), "sum", LIMIT) for turn in (1, 2))]

    with group(3) as coms:
        results = together(coms, work)
        for turn in range(3):
            expected = combined([array_of(rank + 6 * turn, (size,)) for rank in range(3)], "sum")
            for found in results:
                np.testing.assert_array_equal(found[turn], expected)


@pytest.mark.parametrize("count", [2, 3])
def test_types_come_out_as_numpy_has_them(count: int) -> None:
    with group(count) as coms:
        for dtype in ("?", "i1", "u2", "i8", "f2", "f8", "c8", ">f4"):
            parts = [array_of(rank, (40_001,), dtype) for rank in range(count)]
            for op in ("sum", "mean"):
                expected = combined(parts, op)
                for found in together(coms, lambda com, op=op, parts=parts: com.allreduce(parts[com.rank], op, LIMIT)):
                    assert found.dtype == expected.dtype
                    np.testing.assert_array_equal(found, expected)


def test_one_operation_after_the_other_through_sealed_sessions() -> None:
    """Nodes that are ahead send pieces of an operation that others have not begun; strided input; results that stay."""

    def work(com: Communication) -> bool:
        kept = []
        for turn in range(6):
            shape = (50_000 + 30_000 * turn, 2)
            mine = array_of(com.rank + 10 * turn, shape)[:, 0]
            kept.append((com.allreduce(mine, "sum", LIMIT), turn, shape))
            com.barrier(LIMIT)
        return all(
            np.array_equal(total, combined([array_of(rank + 10 * turn, shape)[:, 0] for rank in range(3)], "sum"))
            for total, turn, shape in kept
        )

    with group(3, sealed=True) as coms:
        assert together(coms, work) == [True] * 3


def warm(coms: list[Communication]) -> None:
    """Let them do what brings small arrays into slots of memory: one offers, one agrees, and both slots have been used."""
    for _ in range(FIRST + 3):
        together(coms, lambda com: com.barrier(LIMIT))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes share no memory")
def test_small_arrays_need_no_message() -> None:
    """Where each looks until the others are there; the results are those of the tree, and each its own."""
    with group(3) as coms:
        warm(coms)
        for com in coms:
            com.controller.look_seconds = 100 * LIMIT
        before = [com.controller.counts() for com in coms]
        kept = together(
            coms, lambda com: [com.allreduce(array_of(com.rank + turn, (7, turn)), "sum", LIMIT) for turn in range(5)]
        )
        for turn in range(5):
            expected = combined([array_of(rank + turn, (7, turn)) for rank in range(3)], "sum")
            assert all(np.array_equal(found[turn], expected) for found in kept)
        assert before == [com.controller.counts() for com in coms]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes share no memory")
def test_what_wakes_a_node_is_no_message_for_its_program() -> None:
    """One that sleeps may find the array before the message that wakes it, which is read later, where nothing is awaited."""
    with group(2) as coms:
        warm(coms)
        coms[1].controller.post(0, None, (WAKE, coms[1]._operation))
        coms[1].controller.flush()
        while not coms[0].controller.sessions[1].inbox:
            coms[0].controller.read()
        assert coms[0].get_one(blocking=False) is None
        coms[1].send_one(0, "a message")
        assert coms[0].get_one(timeout=LIMIT) == (1, "a message")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes share no memory")
def test_between_two_nodes_no_array_needs_a_message() -> None:
    """Of a large one each leaves the half that the other combines, stretch by stretch, and then the result."""
    shapes = [(3, 4), (BORDER + 1,), (3, STRETCH_BYTES // 8 + 1)]
    with group(2) as coms:
        warm(coms)
        for com in coms:
            com.controller.look_seconds = 100 * LIMIT
        before = [(com.controller.counts(), com.bytes_sent) for com in coms]
        for shape in shapes:
            parts = [array_of(rank, shape) for rank in range(2)]
            for total in together(coms, lambda com, parts=parts: com.allreduce(parts[com.rank], "mean", LIMIT)):
                np.testing.assert_array_equal(total, combined(parts, "mean"))
        for com, (counts, sent) in zip(coms, before, strict=True):
            assert com.controller.counts() == counts
            assert abs(com.bytes_sent - sent - sum(4 * math.prod(shape) for shape in shapes)) <= 4 * len(shapes)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes share no memory")
@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\xfe\x01", "what it left in memory is no array"),
        (b"\x05\x09", "what it left in memory is no array"),
        (b"\x05\x01" + bytes(6) + (1 << 63).to_bytes(8, "little"), "what it left in memory is no array"),
        (b"\x05\x01" + bytes(6) + (1 << 22).to_bytes(8, "little"), "what it left in memory is no array"),
        (b"\x05\x01" + bytes(6) + struct.pack("=2Q", 2, 3), "it has 2 items where 3 should be"),
    ],
)
def test_what_a_slot_holds_is_looked_at_first(head: bytes, said: str) -> None:
    """A type that there is, no more bytes than the slot has, and as many items as the shape says."""
    with group(2) as coms:
        warm(coms)
        board, is_read = coms[1].controller.sessions[0].offer_memory()
        assert board is not None and is_read
        words = board.cast("Q")
        old = min((0, len(words) // 2 - 8), key=words.__getitem__)
        board[8 * old + 8 : 8 * old + 8 + len(head)] = head
        words[old] = (FIRST + 4) * PART_NUMBERS
        with pytest.raises(BadContent, match=f"(?s)1.*group operation {FIRST + 4}.*{said}"):
            coms[0].allreduce(np.zeros(3), "sum", LIMIT)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes share no memory")
@pytest.mark.parametrize("size", [3, 50_000])
def test_a_laggard_combines_nothing_that_is_written_again(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node gives operations up. The other, which is late, reads what the first of them left, when that is overwritten."""
    found, overwritten = threading.Event(), threading.Event()
    add = COMBINE["sum"]

    def late(*parts: Any, **out: Any) -> Any:
        if parts[0].size and not found.is_set():
            found.set()
            assert overwritten.wait(LIMIT)
        return add(*parts, **out)

    def parts_of(turn: int) -> list[np.ndarray]:
        return [array_of(rank + 2 * turn, (size,), "f8") for rank in range(2)]

    def give_up(turn: int) -> None:
        with pytest.raises(TimedOut, match="of node 1"):
            coms[0].allreduce(parts_of(turn)[0], "sum", 0.02)

    def lag(com: Communication, first: int, end: int) -> list[Any]:
        totals: list[Any] = []
        for turn in range(first, end):
            try:
                totals.append(com.allreduce(parts_of(turn)[com.rank], "sum", LIMIT))
            except BadContent as error:
                totals.append(error)
        return totals

    with group(2) as coms:
        warm(coms)
        monkeypatch.setitem(COMBINE, "sum", late)
        for turn in range(2):
            give_up(turn)
        laggard = threading.Thread(target=lambda: totals.extend(lag(coms[1], 0, 3)))
        totals: list[Any] = []
        laggard.start()
        assert found.wait(LIMIT)
        give_up(2)
        overwritten.set()
        if size > 3:  # of a large one the results are missing, which the first node leaves for none that it gave up
            give_up(3)
        laggard.join(LIMIT)
        assert not laggard.is_alive()
        assert isinstance(totals[0], BadContent) and "given that up and begun a later one" in str(totals[0])
        for turn in (1, 2):
            assert isinstance(totals[turn], BadContent) or np.array_equal(totals[turn], combined(parts_of(turn), "sum"))
        board, _ = coms[1].controller.sessions[0].offer_memory()
        assert board is not None
        sleeping, third = board[-8:].cast("Q"), (FIRST + 3 + 4) * PART_NUMBERS

        def go_on(com: Communication) -> list[Any]:
            if com.rank or size == 3:
                return lag(com, 3, 5)
            while sleeping[0] != third + 1:
                time.sleep(0.001)
            return lag(com, 4, 5)

        totals = together(coms, go_on)
        if size > 3:  # it slept until the first node went on
            assert isinstance(totals[1].pop(0), BadContent)
        for last in totals:
            np.testing.assert_array_equal(last[-1], combined(parts_of(4), "sum"))


@pytest.mark.parametrize("begun", [False, True], ids=["first", "in slots"])
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        *(((a, "f4"), (b, "f4"), "allreduce needs one shape") for a, b in ((9, 10), (50_000, 60_000), (9, 50_000))),
        # where each node combines a part
        ((50_000, "f4"), (50_000, "f8"), "needs one shape and type; node"),
    ],
)
def test_arrays_that_differ_are_refused(one: tuple[int, str], other: tuple[int, str], said: str, begun: bool) -> None:
    with group(2) as coms:
        if begun:
            warm(coms)
        errors = together(coms, lambda com: com.allreduce(np.zeros(*(one, other)[com.rank]), "sum", LIMIT))
        assert any(isinstance(error, ValueError) and said in str(error) for error in errors), errors


def test_how_an_operation_fails() -> None:
    """A node that is lost ends it, the limit names who is awaited."""

    def work(com: Communication, size: int) -> object:
        if com.rank == 1:
            com.controller.close(graceful=False)
            return None
        return com.allreduce(np.zeros(size, np.float32), "sum", LIMIT)

    for size in (200_000, 3):
        with group(3) as coms:
            warm(coms)
            first, _, last = together(coms, lambda com, size=size: work(com, size))
            assert isinstance(first, PeerLost) and isinstance(last, PeerLost)
    with group(2) as coms:
        warm(coms)
        with pytest.raises(TimedOut, match=rf"group operation {FIRST + 4} of node 1"):
            coms[0].allreduce(1.0, "sum", 0.05)
    with group(2) as coms, pytest.raises(TimedOut, match="group operation 1 of node 1"):
        coms[0].allreduce(np.zeros(20_000, np.float32), "sum", 0.05)
    with group(2) as coms:
        for wait in (
            lambda: coms[0].allreduce(np.zeros(1 << 20), "sum", 0.05),
            lambda: coms[0].barrier(0.05),
            lambda: coms[1].broadcast(0, timeout=0.05),
        ):
            with pytest.raises(TimedOut, match=r"^Timed out after 0\.05 s") as caught:
                wait()
            assert caught.value.seconds == 0.05, "the limit of the whole, and not what was left for the last wait"
    with group(1) as (com,), pytest.raises(ValueError, match="'op' must be one of mean, sum, max, min, got 'product'"):
        com.allreduce(1.0, "product")


@covers("SUB-12")
def test_fast_progress_is_told_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    """each message wakes the agent and the submitter, which take the cores that workers compute on."""
    told: list[tuple[int, str]] = []
    with Controller(0, {}) as controller:
        com = Communication(controller, [0], tmp_path, tmp_path, lambda percent, note: told.append((percent, note)))
        for _ in range(3):
            for percent in range(100):
                com.report_progress(percent, f"at {percent}")
        com.report_progress(100, "done")
        com.report_progress(100, "done")
    assert told[0] == (0, "at 0") and told[-1] == (100, "done") and told.count((100, "done")) == 1 and len(told) < 100
