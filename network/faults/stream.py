"""Direction of a connection under its faults: bytes go in and come out at times; no socket, thread or clock inside."""

from __future__ import annotations

import contextlib
import enum
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from network.errors import ProtocolError
from network.hello import HEAD, LENGTH, hello_length, reply_length
from network.keys import PROOF_SIZE
from network.records import Sealer
from network.wire import CONTINUES, HEADER, KINDS, TAG_SIZE, Kind

from .fault import LinkFault


class Shape:
    """Faults of one direction; without a call of its method none happens. `counts` tells how often each kind has acted,
    `passed` is the number of bytes that got through.

    Changes hold from the next byte on, for every connection that has this shape. Faults at a byte happen once: to the first
    connection that comes there. `changing` is a lock around each change, for the thread that moves bytes.
    """

    def __init__(self, changing: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        self.counts: Counter[str] = Counter()
        self.passed = 0
        self.rate: float | None = None
        self.lag = self.jitter = 0.0
        self.swallows = self.stalls = False
        self.piece: int | None = None
        self.flip_at: int | None = None
        self.end_at: int | None = None
        self.loss = self.repeats = self.swaps = 0.0
        self._changing = changing  # keeps off the thread that moves bytes, and wakes it up

    def throttle(self, bytes_per_second: float | None) -> None:
        """Let at most `bytes_per_second` pass; None: no limit."""
        if bytes_per_second is not None and not bytes_per_second > 0:  # written so that nan is refused as well
            raise ValueError(f"throttle 'bytes_per_second' must be positive or None, got {bytes_per_second!r}.")
        with self._changing():
            self.rate = bytes_per_second

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Let everything arrive later, in order.

        Args:
            seconds: by how much.
            jitter: seconds more at most, drawn from the proxy's seed.
        """
        with self._changing():
            self.lag, self.jitter = _checked("delay", "seconds", seconds), _checked("delay", "jitter", jitter)

    def swallow(self, on: bool = True) -> None:
        """Take everything, bring nothing, and keep the end of the connection secret: a half-open link.

        Swallowed bytes are gone: a connection that is healed has a hole. For one that heals without, as after a partition, use
        `stall`.
        """
        with self._changing():
            self.swallows = on

    def stall(self, on: bool = True) -> None:
        """Read nothing: buffers fill, and the sender has to wait."""
        with self._changing():
            if on and not self.stalls:
                self.counts["stall"] += 1
            self.stalls = on

    def segment(self, size: int | None) -> None:
        """Let at most `size` bytes pass at a time; None: as they come."""
        if size is not None and not size >= 1:
            raise ValueError(f"segment 'size' must be positive or None, got {size!r}.")
        with self._changing():
            self.piece = size

    def flip(self, at: int) -> None:
        """Flip the lowest bit of byte `at` of a connection, counted from 0."""
        with self._changing():
            self.flip_at = int(_checked("flip", "at", at))

    def truncate(self, at: int) -> None:
        """Let a connection end in this direction after `at` bytes."""
        with self._changing():
            self.end_at = int(_checked("truncate", "at", at))

    def lose(self, share: float) -> None:
        """Lose this share of the messages, drawn from the proxy's seed; only where frames are known."""
        if not 0 <= share <= 1:
            raise ValueError(f"lose 'share' must be from 0 to 1, got {share!r}.")
        with self._changing():
            self.loss = share

    def duplicate(self, messages: float = math.inf) -> None:
        """Bring each of the next messages (all) twice; only where frames are known."""
        with self._changing():
            self.repeats = _checked("duplicate", "messages", messages)

    def reorder(self, pairs: float = math.inf) -> None:
        """Swap each of the next pairs of messages (all); only where frames are known. A first one waits for its second, but
        not for longer than 50 ms: it may be the last that its sender says before it waits for an answer.
        """
        with self._changing():
            self.swaps = _checked("reorder", "pairs", pairs)

    def effect(self, fault: LinkFault) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the calls that begin and end a fault of a plan in this direction.

        A link that is swallowed for a time is stalled instead, and delivers afterwards, as TCP does after a partition.
        Raises: KeyError for `cut`, which is a fault of connections.
        """
        lasting = fault.seconds is not None
        effects: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "delay": (lambda: self.delay(fault.delay, fault.jitter), lambda: self.delay(0.0)),
            "throttle": (lambda: self.throttle(fault.rate), lambda: self.throttle(None)),
            "swallow": (self.stall, lambda: self.stall(False)) if lasting else (self.swallow, lambda: None),
            "lose": (lambda: self.lose(fault.share), lambda: self.lose(0.0)),
            "duplicate": (self.duplicate, lambda: self.duplicate(0)),
            "reorder": (self.reorder, lambda: self.reorder(0)),
        }
        return effects[fault.kind]


def _checked(method: str, name: str, value: float) -> float:
    if not value >= 0:  # written so that nan is refused as well
        raise ValueError(f"{method} '{name}' must not be negative, got {value!r}.")
    return value


def seal_later(sealer: Sealer, frames: bytes) -> bytes:
    """Make records of frames that have left their session with room for the tags (`Session.let_seal`)."""
    records = memoryview(bytearray(len(frames)))
    at = 0
    while at < len(frames):
        meta_bytes, data_bytes = HEADER.unpack_from(frames, at)[3:]
        # the tag is not in the header's lengths
        end = at + HEADER.size + meta_bytes + data_bytes
        sealer.seal([frames[at:end]], records[at : end + TAG_SIZE])
        at = end + TAG_SIZE
    return bytes(records)


CAPACITY = 1 << 18
"""Bytes that wait inside at most, besides those in their delay; a sender of more has to wait, as for any slow reader."""
MOST_DELAYED = 1 << 26
"""Bytes in their delay at most: a link brings no more than these in the time of its delay, throttled or not."""

HOLD_SECONDS = 0.05  # for the second message of a pair to be swapped
_TURN = 0.002  # seconds' worth of bytes that a throttled link brings at a time,
_LARGEST = 1 << 16  # bytes at most
_AHEAD_SECONDS = 0.05  # worth of bytes that wait at a throttled link: so late its proxy may be, and it brings its rate


class Stream:
    """Stream of bytes in one direction of a connection, delayed and damaged by a shape.

    Args:
        shape: their faults, which may change at any time.
        generator: source of the draws for jitter and losses.
        splitter: finds the messages where they are to be handled whole.
    """

    def __init__(self, shape: Shape, generator: random.Random, splitter: MessageSplitter | None = None) -> None:
        self.shape = shape
        self.seal: Callable[[bytes], bytes] | None = None  # makes records of a message, behind all faults that messages meet
        self.ended = False  # the sender has ended, and its bytes are out
        self._random = generator
        self._splitter = splitter
        self._queue: deque[tuple[float, memoryview]] = deque()  # (when it may leave, bytes)
        self._size = 0
        self._taken = 0
        self._latest = 0.0
        self._free_at = 0.0  # when a throttled link takes the next bytes
        self._finished = self._cut_off = False
        self._held = b""  # the first message of a pair to be swapped,
        self._held_until = 0.0  # and when it goes on alone

    @property
    def room(self) -> int:
        """Number of bytes that are taken now.

        Bytes in their delay take no room from those that wait for the link: it would bring nothing while they are on their way.
        """
        shape = self.shape
        if shape.stalls or self._finished:
            return 0
        if shape.swallows:
            return CAPACITY
        # at least one byte, so that the slowest link moves
        waiting = CAPACITY if shape.rate is None else min(CAPACITY, max(1.0, shape.rate * _AHEAD_SECONDS))
        late = shape.lag + shape.jitter
        delayed = 0 if not late else MOST_DELAYED if shape.rate is None else min(MOST_DELAYED, shape.rate * late)
        return max(0, math.ceil(waiting + delayed) - self._size)

    def take(self, data: bytes, now: float) -> None:
        shape = self.shape
        if shape.swallows:
            shape.counts["swallow"] += 1
            self._taken += len(data)
            return
        # bytes first: a flip is counted from the first byte of the connection
        data = self._damage(data)
        for part in self._messages(data, now):
            self._put(part, now)

    def finish(self, now: float) -> None:
        """End the stream as its sender has at `now`; the other side ends too, unless the link swallows."""
        self._finished = True
        self._release(now)
        # half a frame cannot be sealed, and its sender has gone
        if self._splitter is not None and self.seal is None:
            self._put(self._splitter.rest(), now)

    def due(self, now: float) -> list[bytes]:
        """Take out the pieces that leave at `now`."""
        out: list[bytes] = []
        if now >= self._held_until:
            self._release(now)
        while self._queue and self._departure() <= now:
            if self.shape.rate is not None:
                # from when it should have left, not from now: a proxy that comes late keeps the rate
                self._free_at = self._departure()
                self.shape.counts["throttle"] += 1
            moment, data = self._queue.popleft()
            size = self._portion(len(data))
            if self.shape.piece == size < len(data):
                self.shape.counts["segment"] += 1
            if size < len(data):
                self._queue.appendleft((moment, data[size:]))
            self._size -= size
            self.shape.passed += size
            out.append(bytes(data[:size]))
        over = self._finished or self._cut_off
        # an end is as late as the bytes before it, and swallowed like them
        self.ended = over and not self._queue and not self.shape.swallows and not self.shape.stalls
        return out

    def next_moment(self) -> float | None:
        """Return when `due` has something, should nothing else happen; None: nothing waits."""
        moments = [self._departure()] if self._queue else []
        return min([*moments, self._held_until] if self._held else moments, default=None)

    def _departure(self) -> float:
        """Return when the next piece has passed: as a whole, at the end of its time on the link."""
        moment, data = self._queue[0]
        rate = self.shape.rate
        return moment if rate is None else max(moment, self._free_at) + self._portion(len(data)) / rate

    def _portion(self, size: int) -> int:
        """Return how many of `size` bytes pass at a time."""
        rate, piece = self.shape.rate, self.shape.piece
        if rate is not None:
            size = min(size, max(1, min(_LARGEST, int(rate * _TURN))))
        return size if piece is None else min(size, piece)

    def _damage(self, data: bytes) -> bytes:
        shape, start, end = self.shape, self._taken, self._taken + len(data)
        self._taken = end
        if self._cut_off:
            return b""
        if shape.flip_at is not None and start <= shape.flip_at < end:
            place = shape.flip_at - start
            data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            shape.flip_at = None
            shape.counts["flip"] += 1
        if shape.end_at is not None and shape.end_at < end:
            data = data[: max(0, shape.end_at - start)]
            shape.end_at = None
            shape.counts["truncate"] += 1
            self._cut_off = True
        return data

    def _messages(self, data: bytes, now: float) -> Iterable[bytes]:
        if self._splitter is None:
            yield data
            return
        shape = self.shape
        for part, is_message in self._splitter.split(data):
            if not is_message:  # a farewell, say, which no message may follow
                held, self._held = self._held, b""
                yield held
                yield part
            elif shape.loss and self._random.random() < shape.loss:
                shape.counts["lose"] += 1
            elif shape.swaps > 0 and not self._held:
                self._held, self._held_until = part, now + HOLD_SECONDS
            else:
                yield part
                if self._held:
                    yield self._held
                    self._held = b""
                    shape.swaps -= 1
                    shape.counts["reorder"] += 1
                elif shape.repeats > 0:
                    yield part
                    shape.repeats -= 1
                    shape.counts["duplicate"] += 1

    def _release(self, now: float) -> None:
        """Let a message go on alone: its second did not come."""
        held, self._held = self._held, b""
        self._put(held, now)

    def _put(self, data: bytes, now: float) -> None:
        if not data:
            return
        if self.seal is not None:
            data = self.seal(data)
        shape, moment = self.shape, now
        if shape.lag or shape.jitter:
            moment += shape.lag + shape.jitter * self._random.random()
            shape.counts["delay"] += 1
        self._latest = max(self._latest, moment)
        # never before the one ahead of it: jitter delays, but TCP keeps the order
        self._queue.append((self._latest, memoryview(data)))
        self._size += len(data)


class Place(enum.Enum):
    """Stage of the protocol that one direction of a connection has reached."""

    HELLO = enum.auto()
    PROOF = enum.auto()
    REPLY = enum.auto()
    FRAMES = enum.auto()
    UNKNOWN = enum.auto()


class MessageSplitter:
    """Splitter of one direction of a connection into handshake messages and messages of frames.

    Bytes that are no Parallel-SGD connection pass as they come.

    Args:
        place: its begin: HELLO for a client's bytes from the start, REPLY for a server's, FRAMES after the handshake.
        sealed: whether its frames are records; that of READY always is.
    """

    def __init__(self, place: Place, sealed: bool) -> None:
        self._place = place
        self._sealed = sealed
        self._data = bytearray()

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Add bytes; yield the parts that are complete, and whether each is a message."""
        self._data += data
        while self._data:
            try:
                size, is_message = self._measure()
            except ProtocolError:
                # it is no connection of ours, or another fault has damaged it: from here on bytes pass as they are
                self._place = Place.UNKNOWN
                continue
            if not size or size > len(self._data):
                return
            part = bytes(self._data[:size])
            del self._data[:size]
            if self._place is not Place.UNKNOWN:
                # of a client HELLO and PROOF come before frames, of a server REPLY alone
                self._place = Place.PROOF if self._place is Place.HELLO else Place.FRAMES
            yield part, is_message

    def rest(self) -> bytes:
        rest = bytes(self._data)
        self._data.clear()
        return rest

    def _measure(self) -> tuple[int, bool]:
        """Return the size of the part at the begin, 0 while it is not known, and whether it is a message."""
        data = self._data
        if self._place is Place.HELLO:
            return (HEAD.size + hello_length(data[: HEAD.size]) if len(data) >= HEAD.size else 0), False
        if self._place is Place.PROOF:
            return PROOF_SIZE, False
        if self._place is Place.REPLY:
            if data[0]:  # a refusal
                raise ProtocolError("A reply must begin with 0.")
            start = 1 + LENGTH.size
            return (start + reply_length(bytes(data[1:start])) if len(data) >= start else 0), False
        return self._measure_message() if self._place is Place.FRAMES else (len(data), False)

    def _measure_message(self) -> tuple[int, bool]:
        """Measure a frame and those that continue it."""
        data, end, first, flags = self._data, 0, 0, CONTINUES
        while flags:
            if len(data) < end + HEADER.size:
                return 0, False
            kind, flags, _, meta_bytes, data_bytes = HEADER.unpack_from(data, end)
            if kind not in KINDS or flags & ~CONTINUES:
                raise ProtocolError(f"A frame of unknown kind {kind} (flags {flags}) came by.")
            # the kind of the first frame tells what the whole is: BYE and notes about memory are no messages
            first = first or kind
            end += HEADER.size + meta_bytes + data_bytes + (TAG_SIZE if self._sealed or kind == Kind.READY else 0)
        return end, first == Kind.MESSAGE
