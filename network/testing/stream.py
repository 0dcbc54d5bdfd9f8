"""One direction of one connection under its faults: bytes go in and come out at times; no socket, thread or clock inside."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from .messages import MessageSplitter
from .shape import Shape

CAPACITY = 1 << 18
"""Bytes that wait inside at most; whoever sends more has to wait, as for any slow reader."""

HOLD_SECONDS = 0.05  # for the second message of a pair to be swapped
_TURN = 0.002  # seconds' worth of bytes that a throttled link brings at a time,
_LARGEST = 1 << 16  # bytes at most


class Stream:
    """Bytes on their way. `shape` may change at any time; `splitter` finds the messages where they are to be handled whole."""

    def __init__(self, shape: Shape, generator: random.Random, splitter: MessageSplitter | None = None) -> None:
        self.shape = shape
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
        """How many bytes it takes now."""
        shape = self.shape
        if shape.stalls or self._finished:
            return 0
        most = CAPACITY if shape.rate is None or shape.swallows else 4 * self._portion(_LARGEST)
        return max(0, most - self._size)

    def take(self, data: bytes, now: float) -> None:
        """Put bytes in."""
        shape = self.shape
        if shape.swallows:
            shape.counts["swallow"] += 1
            self._taken += len(data)
            return
        data = self._damage(data)
        for part in self._messages(data, now):
            self._put(part, now)

    def finish(self, now: float) -> None:
        """The sender ends; so does the other side, unless the link swallows."""
        self._finished = True
        self._release(now)
        if self._splitter is not None:
            self._put(self._splitter.rest(), now)

    def due(self, now: float) -> list[bytes]:
        """The pieces that leave now."""
        out: list[bytes] = []
        if now >= self._held_until:
            self._release(now)
        while self._queue and self._departure() <= now:
            if self.shape.rate is not None:
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
        self.ended = over and not self._queue and not self.shape.swallows and not self.shape.stalls
        return out

    def next_moment(self) -> float | None:
        """When `due` has something, should nothing else happen; None: nothing waits."""
        moments = [self._departure()] if self._queue else []
        return min([*moments, self._held_until] if self._held else moments, default=None)

    def _departure(self) -> float:
        """When the next piece has passed: as a whole, at the end of its time on the link."""
        moment, data = self._queue[0]
        rate = self.shape.rate
        return moment if rate is None else max(moment, self._free_at) + self._portion(len(data)) / rate

    def _portion(self, size: int) -> int:
        """How many of `size` bytes pass at a time."""
        rate, piece = self.shape.rate, self.shape.piece
        if rate is not None:
            size = min(size, max(1, min(_LARGEST, int(rate * _TURN))))
        return size if piece is None else min(size, piece)

    def _damage(self, data: bytes) -> bytes:
        """Flip and truncate."""
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
        """Lose, duplicate and reorder."""
        if self._splitter is None:
            yield data
            return
        shape = self.shape
        for part, is_message in self._splitter.split(data):
            if not is_message:
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
        """Let a message go on whose second did not come."""
        held, self._held = self._held, b""
        self._put(held, now)

    def _put(self, data: bytes, now: float) -> None:
        if not data:
            return
        shape, moment = self.shape, now
        if shape.lag or shape.jitter:
            moment += shape.lag + shape.jitter * self._random.random()
            shape.counts["delay"] += 1
        self._latest = max(self._latest, moment)
        self._queue.append((self._latest, memoryview(data)))
        self._size += len(data)
