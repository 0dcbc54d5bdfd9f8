"""What happens to arrays on their way up to where they are merged, and down again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, PayloadError

from .coder import coder_of
from .composition import Parts
from .lazy import LastUploads, Lazy
from .pipelines import Fronts, Pipelines


class Ways:
    """The pipelines of one codec, with what they remember.

    A variable as a whole passes the gradient's side and, where payloads are averaged, a linear code; what comes then is
    encoded shard by shard. `decoder` is the contributor whose pipelines decode what comes up: the own one, so that what all
    draw alike is drawn once.
    """

    def __init__(self, parts: Parts, linear: bool, decoder: int) -> None:
        front, rest = parts.split()
        self._front = Fronts(front)
        self.coder = coder_of(parts.up, rest, linear)
        self._up = Pipelines(rest) if rest is not None and self.coder is None else None
        self._down = None if parts.down is None else Pipelines(parts.down)
        self.uploads = LastUploads(parts.trigger) if isinstance(parts.trigger, Lazy) else None
        self._decoder = decoder

    @property
    def dense_up(self) -> bool:
        """Whether vectors go up as they are."""
        return self._up is None

    @property
    def dense_down(self) -> bool:
        """Whether vectors come down as they are."""
        return self._down is None

    def size(self, round_: int, shape: Sequence[int], numbers: int, past: bool) -> int:
        """Return how many numbers the vector of a round has, for a variable of this shape of which `numbers` are sent.

        `past`: past all stages. Raises: PayloadError where there is no such round.
        """
        sizes = (numbers,) if past or self.coder is None else self.coder.sizes(shape, numbers)
        if round_ >= len(sizes):
            raise PayloadError(f"it is of round {round_}, and there are {len(sizes)}")
        return sizes[round_]

    def start(self, contributor: int, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        """Return the vector that is to be cut into shards."""
        x = self._front(contributor, x, draw)
        return x if self.coder is None else self.coder.start(x, shape, draw)

    def proceed(self, mean: Array) -> tuple[Array, bool]:
        """Take a merged vector; return the next one to send, or the result and True."""
        vector, complete = (mean, True) if self.coder is None else self.coder.proceed(mean)
        if complete and self.uploads is not None:
            self.uploads.observe(vector)
        return vector, complete

    def encode_up(self, contributor: int, shard: int, x: Array, draw: Draw) -> Array | None:
        """Return the payload of a shard; None where it is not worth sending. Not where it goes up dense."""
        if self._up is None:
            raise RuntimeError("a vector that goes up as it is has no payload of its own")
        pipeline = self._up(contributor, shard)
        return pipeline.encode(x, draw) if self.uploads is None else self.uploads.encode(contributor, x, pipeline, draw)

    def decode_up(self, contributor: int, shard: int, payload: Array | None, size: int, draw: Draw) -> Array:
        """Return what a payload amounts to; valid until the next call."""
        if self._up is not None:
            pipeline = self._up(self._decoder, shard)
            if self.uploads is not None:
                return self.uploads.decode(contributor, payload, size, pipeline, draw)
            if payload is not None:
                return pipeline.decode(payload, (size,), draw)
        return dense(payload, size)

    def encode_down(self, shard: int, x: Array, draw: Draw) -> Array:
        """Return the payload of a merged shard. Not where it comes down dense."""
        if self._down is None:
            raise RuntimeError("a vector that comes down as it is has no payload of its own")
        return self._down(shard).encode(x, draw)

    def decode_down(self, shard: int, payload: Array | None, size: int, draw: Draw) -> Array:
        """Return what a payload amounts to; valid until the next call."""
        if self._down is None or payload is None:
            return dense(payload, size)
        return self._down(shard).decode(payload, (size,), draw)

    def state_dict(self) -> dict[str, Any]:
        """Return what all parts remember."""
        return {f"{part}.{n}": v for part, found in self._remembering().items() for n, v in found.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Take over a copy of what `state_dict` returned; return the names that are of nothing here."""
        rest = dict(state)
        for part, found in self._remembering().items():
            own = [name for name in rest if name.startswith(f"{part}.")]
            found.load_state_dict({name[len(part) + 1 :]: rest.pop(name) for name in own})
        return rest

    def _remembering(self) -> dict[str, Any]:
        parts = {"front": self._front, "coder": self.coder, "up": self._up, "down": self._down, "lazy": self.uploads}
        return {name: part for name, part in parts.items() if part is not None}


def dense(payload: Array | None, size: int) -> Array:
    """Return a payload that is a vector as it is.

    Raises: PayloadError where it is not one of `size` numbers.
    """
    if payload is None or payload.dtype.kind != "f" or payload.shape != (size,):
        raise PayloadError(f"a packet must have {size} numbers as they are, got {None if payload is None else payload.shape}")
    return payload
