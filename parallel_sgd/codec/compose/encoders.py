"""Encoding of arrays on their way up to the node that merges them, and down again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, LinearCode, PayloadError, Pipeline, Reader, Stage, Writer
from parallel_sgd.codec.pipeline.stage import Remembers, State, gathered, scattered

from .packet import DENSE
from .parts import Copies, Parts

#: Contributor whose pipelines encode for all clients, one after the other.
ANY: Final = 0


class _Sender:
    """The copies of one sender, with a state by the numbers behind that of the contributor."""

    def __init__(self, copies: Copies[Any]) -> None:
        self._copies = copies

    def state_dict(self) -> State:
        return self._copies.state_of(ANY)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._copies.load_state_of(ANY, state)


class Encoders:
    """Pipelines of one codec, with their states.

    A variable as a whole passes the gradient's side and, where payloads are averaged, a linear code; the vector that comes of
    it is encoded shard by shard. `decoder` is the contributor that gives the pipelines for decoding payloads on the way up: the
    own one, so that random numbers which all nodes draw alike are drawn once.
    """

    def __init__(self, parts: Parts, linear: bool, decoder: int) -> None:
        # the gradient's side needs the variable as a whole, so it comes before the cut into shards
        front, rest = parts.split()
        self._front = Copies(front) if front.stages else None
        self._writer = Writer()  # of the front, which writes nothing
        # a linear stage is averaged as it is, so no payload is decoded one by one
        self.coder = parts.code or (StageCode(rest) if rest is not None and linear else None)
        # copies by contributor and shard: each has a memory of its own
        self._up = Copies(Pipeline(rest)) if rest is not None and self.coder is None else None
        self._down = None if parts.down is None else Copies(Pipeline(parts.down))
        self.uploads = parts.trigger.uploads()
        self._decoder = decoder

    @property
    def encodes(self) -> bool:
        """Whether payloads on the way up are encoded shard by shard."""
        return self._up is not None

    def size(self, round_: int, shape: Sequence[int], numbers: int, past: bool) -> int:
        """Return how many numbers the vector of a round has, for a variable of this shape of which `numbers` are sent.

        `past`: past all stages. Raises: PayloadError where there is no such round.
        """
        sizes = (numbers,) if past or self.coder is None else self.coder.sizes(shape, numbers)
        if round_ >= len(sizes):
            raise PayloadError(f"it is of round {round_}, and there are {len(sizes)}")
        return sizes[round_]

    def start(self, contributor: int, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        if self._front is not None:
            # float32: stages are written for it
            x = self._front(contributor).encode(x.astype("f4", copy=False), self._writer, draw)
        return x if self.coder is None else self.coder.start(x, shape, draw)

    def proceed(self, mean: Array) -> tuple[Array, bool]:
        vector, complete = (mean, True) if self.coder is None else self.coder.proceed(mean)
        if complete and self.uploads is not None:
            # once per vector, when all rounds are through
            self.uploads.observe(vector)
        return vector, complete

    def encode_up(self, contributor: int, shard: int, x: Array, draw: Draw) -> tuple[Array | None, int]:
        """Return the payload of a shard and its flag: `x` itself, DENSE, where it goes up as it is; None where it is not worth
        sending."""
        if self._up is None:
            return x, DENSE
        pipeline = self._up(contributor, shard)
        return (pipeline.encode(x, draw) if self.uploads is None else self.uploads.encode(contributor, x, pipeline, draw)), 0

    def decode_up(self, contributor: int, shard: int, payload: Array | None, size: int, draw: Draw) -> Array:
        """Return the vector that a payload stands for; valid until the next call."""
        if self._up is not None:
            # one pipeline for all foreign payloads: the memory of a sender is with the sender, or keyed by its number
            pipeline = self._up(self._decoder, shard)
            if self.uploads is not None:
                return self.uploads.decode(contributor, payload, size, pipeline, draw)
            if payload is not None:
                return pipeline.decode(payload, (size,), draw)
        return dense(payload, size)

    def encode_down(self, shard: int, x: Array, draw: Draw) -> tuple[Array, int]:
        """Return the payload of a merged shard and its flag, as `encode_up`."""
        return (x, DENSE) if self._down is None else (self._down(shard).encode(x, draw), 0)

    def decode_down(self, shard: int, payload: Array | None, size: int, draw: Draw) -> Array:
        """Return the vector that a payload stands for; valid until the next call."""
        if self._down is None or payload is None:
            return dense(payload, size)
        return self._down(shard).decode(payload, (size,), draw)

    def remembered(self) -> State:
        """Return the memory of the client whose contribution was encoded last, by the contributor ANY: arrays, live, and
        numbers.
        """
        return gathered({name: _Sender(copies) for name, copies in self._of_senders().items()})

    def recall(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of the memory of the next client.

        Args:
            state: as `remembered` returned it; empty for a client without one.

        Raises: ValueError for names that the stages do not know.
        """
        rest = scattered({name: _Sender(copies) for name, copies in self._of_senders().items()}, state)
        if rest:
            raise ValueError(f"The memory of a client has {', '.join(sorted(rest))}, which no stage of the codec keeps")

    def _of_senders(self) -> dict[str, Copies[Any]]:
        parts = {"front": self._front, "up": self._up}
        return {name: part for name, part in parts.items() if part is not None}

    def within(self) -> dict[str, Remembers]:
        parts = {"front": self._front, "coder": self.coder, "up": self._up, "down": self._down, "lazy": self.uploads}
        return {name: part for name, part in parts.items() if part is not None}


def dense(payload: Array | None, size: int) -> Array:
    """Return a payload that is a vector as it is.

    Raises: PayloadError where it is not one of `size` numbers.
    """
    if payload is None or payload.dtype.kind != "f" or payload.shape != (size,):
        raise PayloadError(f"a packet must have {size} numbers as they are, got {None if payload is None else payload.shape}")
    return payload


class StageCode(LinearCode):
    """A linear stage in one round: the values that it carries are averaged, and their mean is decoded."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._open: tuple[int, Draw] | None = None

    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        return (self._stage.carried(numbers),)

    def start(self, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        """Return the values that the stage carries.

        Raises: ValueError for numbers that are not finite, and when the stage writes side information or carries another
            number of values than it says.
        """
        vector = np.ascontiguousarray(x, np.float32)
        if not np.isfinite(vector).all():
            # linear stages write values alone: anything beside them could not be added up
            raise ValueError(f"a codec takes finite numbers, got {int((~np.isfinite(vector)).sum())} that are not")
        writer = Writer()
        values: Array = self._stage.encode(vector, writer, draw)
        if writer.size:
            raise ValueError(f"{self._stage!r} is not linear: it writes {writer.size} bytes beside the values")
        carried = self._stage.carried(vector.size)
        if values.size != carried:
            raise ValueError(f"{self._stage!r} is linear and must carry {carried} of {vector.size} values, got {values.size}")
        self._open = (vector.size, draw)
        return values

    def proceed(self, mean: Array) -> tuple[Array, bool]:
        if self._open is None:
            raise RuntimeError(f"{self._stage!r} has no batch under way")
        n, draw = self._open
        # side information of a linear stage follows from n and draw, not from bytes
        side, _ = self._stage.parse(Reader(np.empty(0, np.uint8)), n, draw)
        return self._stage.decode(np.ascontiguousarray(mean, np.float32), side, n), True

    def state_dict(self) -> State:
        return self._stage.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._stage.load_state_dict(state)
