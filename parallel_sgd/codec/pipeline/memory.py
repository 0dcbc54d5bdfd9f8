"""Stages that remember the part of their vectors which they have not sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from nn import arguments
from nn.gradient_descent.numerics import flush_to_zero

from .stage import (
    Chain,
    Draw,
    Indices,
    OrDense,
    Reader,
    Sparsifier,
    Stage,
    State,
    Vector,
    Writer,
    gathered,
    room_for,
    scattered,
)

__all__ = ["DGCMemory", "DiffRef", "ErrorFeedback", "Memory"]


class Memory(Stage):
    """Stage that has another one, or a chain, send a vector, and remembers the vector that receivers make of the packet.

    A packet has the bytes that `inner` alone would write. Where these were more than the 4 n bytes of the dense vector, the
    vector is sent dense, and the memory goes on all the same. Vectors of the memory appear with the first packet.

    Raises: TypeError when `inner` is not a stage; ValueError when it holds a memory of its own, or a stage of the gradient's
    side, which belongs in front of the memory, not into it.
    """

    ends: ClassVar[bool] = True
    feeds_back: ClassVar[bool] = True

    def __init__(self, inner: Stage) -> None:
        self.inner: Stage = arguments.instance(self, "inner", inner, Stage)
        # stages of the gradient's side would see the residual again in each packet
        for stage in inner.stages if isinstance(inner, Chain) else [inner]:
            if stage.leads:
                raise ValueError(
                    f"{type(self).__name__} 'inner' must be what sends, got {inner!r}: what it leaves over would pass "
                    f"{type(stage).__name__} again; write {stage!r} | {type(self).__name__}(...)"
                )
            if isinstance(stage, Memory):
                raise ValueError(f"{type(self).__name__} 'inner' must not remember anything itself, got {stage!r}")
        self.linear = inner.linear
        self.deterministic = inner.deterministic
        self.shared_seed = inner.shared_seed
        # without the front: a dense packet sends the vector of the memory itself
        self.sender = OrDense(inner, Chain())
        self._vectors: dict[str, Vector] = {}

    def delta(self, n: int) -> float | None:
        """Return None: the part that one packet lacks comes with later ones."""
        return None

    def side_bytes(self, n: int) -> int:
        return self.sender(n).side_bytes(n)

    def carried(self, n: int) -> int:
        return self.sender(n).carried(n)

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        return self.sender(n).parse(reader, n, draw)

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        return self.sender(n).decode(values, side, n)

    def send(self, x: Vector, writer: Writer, draw: Draw) -> tuple[Vector, Decoded]:
        """Write the packet of a vector.

        Args:
            x: the vector, of n float32 values.
            writer: collects the bytes of the packet.
            draw: keys the random numbers of the packet.

        Returns: the values for the next stage, and the vector that receivers will read, from the same bytes. Neither shares
            memory with `x`, so `x` may be changed then.
        """
        # of its own, to read it again: the memory must know what receivers read, rounding included
        stage, own = self.sender(x.size), Writer()
        values = stage.encode(x, own, draw)
        # a stage may return its input, or a view of it, which the caller changes next
        if np.may_share_memory(values, x):
            values = values.copy()
        written = own.join()
        writer.write(written)
        side, _ = stage.parse(Reader(written), x.size, draw)
        return values, decoded(stage, values, side, x.size)

    def vector(self, name: str, n: int) -> Vector:
        """Return a vector that is remembered, zeros at first.

        Args:
            name: its name.
            n: its number of values.

        Raises: ValueError when it has another number of them.
        """
        found = self._vectors.get(name)
        if found is None:
            # with the first packet, since before it the size is not known
            found = self._vectors[name] = np.zeros(n, np.float32)
        if found.size != n:
            raise ValueError(f"{type(self).__name__} remembers {found.size} numbers as {name!r}, got {n}")
        return found

    def remembers(self, name: str) -> bool:
        return False

    def state_dict(self) -> State:
        """Return the vectors, and the state of `inner` as `inner.<name>`."""
        return self._vectors | gathered({"inner": self.inner})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_dict` returned; an empty one starts afresh.

        Raises: ValueError for names that this stage does not remember, or an array that is no vector.
        """
        rest = scattered({"inner": self.inner}, state)
        own = {name: np.array(value, np.float32) for name, value in rest.items()}
        for name, value in own.items():
            if not self.remembers(name) or value.ndim != 1:
                raise ValueError(f"{type(self).__name__} does not remember {name!r} of shape {value.shape}")
        self._vectors = own


class Decoded(NamedTuple):
    """Vector of `values` at `indices` and 0 elsewhere, or of all its `values` where `indices` is None."""

    values: Vector
    indices: Indices | None = None

    def apply(self, operation: np.ufunc, total: Vector) -> None:
        """Have `total` become `operation(total, vector)`, for np.add or np.subtract, which a 0 leaves as it is."""
        if self.indices is None:
            operation(total, self.values, out=total)
        else:
            # in the time of the entries; each index comes once, so the order of the additions is no matter
            operation.at(total, self.indices, self.values)


def decoded(stage: Stage, values: Vector, side: Any, n: int) -> Decoded:
    """Return the vector that a stage decodes, sparse where the stage, or the first one of a chain, is.

    Args:
        stage: the stage.
        values, side, n: as of `Stage.decode`.
    """
    if isinstance(stage, Sparsifier):
        indices, found = stage.entries(values, side)
        return Decoded(found, indices)
    if isinstance(stage, Chain) and stage.stages:
        (first, own, count), *sides = side
        # a sparsifier in front: what follows it sees its values alone
        if isinstance(first, Sparsifier):
            indices, found = first.entries(Chain.decode(stage, values, sides, count), own)
            return Decoded(found, indices)
    return Decoded(stage.decode(values, side, n))


CHUNK: Final = 1 << 16


class ErrorFeedback(Memory):
    """Memory that adds to every vector the residual of the packets before:  p = x + beta e,  send C(p),  e <- p - C(p).

    e is `residual` in the state. Its input has to be the vector that is subtracted from the parameters: with a rule
    that has momentum, the momentum comes before it, not after the merge.

    Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD and other
    gradient compression schemes", 2019.

    Args:
        inner: C, a stage or a chain that sends.
        beta: the share of e that is added. With 1 nothing is ever lost: all decoded packets and e add up to the sum of all
            inputs. Smaller values forget.

    Raises: TypeError, ValueError for an `inner` that `Memory` does not take, a scaled RandomK, with an error that grows from
    packet to packet, or unless 0 <= beta <= 1.
    """

    def __init__(self, inner: Stage, beta: float = 1.0) -> None:
        super().__init__(inner)
        self.beta = arguments.number(self, "beta", beta, 0)
        if self.beta > 1:
            raise ValueError(f"ErrorFeedback 'beta' must be a number >= 0 and <= 1, got {beta}")
        for stage in inner.stages if isinstance(inner, Chain) else [inner]:
            # an error longer than the vector would grow with each packet
            if stage.expands:
                raise ValueError(f"ErrorFeedback 'inner' must be a contraction, got {stage!r}; write scaled=False")

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        p = self.vector("residual", x.size)
        # p is e in place: after the packet e is what is left of it
        for start in range(0, x.size, CHUNK):
            part = p[start : start + CHUNK]
            # 1 changes no bit
            if self.beta != 1:
                np.multiply(part, self.beta, out=part)
            np.add(x[start : start + CHUNK], part, out=part)
        values, sent = self.send(p, writer, draw)
        sent.apply(np.subtract, p)
        return values

    def remembers(self, name: str) -> bool:
        return name == "residual"


VELOCITY_CHUNK: Final = 1 << 15


class DGCMemory(Memory):
    """Momentum before a sparsifier, with momentum correction and factor masking:

    u <- momentum u + x,  v <- v + u,  send C(v),  v <- v - C(v),  u <- 0 where something was sent.

    u is `velocity` in the state, v is `accumulated`. v is exactly 0 where its values were sent; where a quantiser after the
    sparsifier rounds them, v keeps the rounding error. A packet of all numbers needs no mask: u stays, so that with rho = 1
    the packets are those of SGD with local momentum, bit for bit. The rule after the merge has no momentum then.

    Lin et al., "Deep gradient compression: reducing the communication bandwidth for distributed training", 2018. Its clipping
    is `Clip(norm, workers)` in front, its warm-up `TopK(rho, warmup=steps)`.

    Args:
        momentum: the factor of u.
        inner: C, a sparsifier or a chain that begins with one.

    Raises: TypeError, ValueError unless 0 <= momentum < 1 and `inner` is a sparsifier or a chain that begins with one.
    """

    def __init__(self, momentum: float, inner: Stage) -> None:
        super().__init__(inner)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        first = inner.stages[0] if isinstance(inner, Chain) and inner.stages else inner
        if not isinstance(first, Sparsifier):
            raise ValueError(f"DGCMemory 'inner' must begin with a sparsifier such as TopK(0.001), got {inner!r}")

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        # both vectors, since a checkpoint between two packets needs both
        velocity, accumulated = self.vector("velocity", x.size), self.vector("accumulated", x.size)
        for start in range(0, x.size, VELOCITY_CHUNK):
            part = slice(start, start + VELOCITY_CHUNK)
            u, v = velocity[part], accumulated[part]
            np.multiply(u, self.momentum, out=u)
            np.add(u, x[part], out=u)
            # denormals make arithmetic slow, and decay to them takes thousands of steps
            flush_to_zero(draw.batch, u)
            np.add(v, u, out=v)
        values, sent = self.send(accumulated, writer, draw)
        sent.apply(np.subtract, accumulated)
        # a packet of all numbers has no indices: no mask then (see above)
        if sent.indices is not None:
            velocity[sent.indices] = 0
        return values

    def remembers(self, name: str) -> bool:
        return name in ("velocity", "accumulated")


HEARD = "heard."


class DiffRef(Memory):
    """Memory that sends changes: both sides keep h, 0 at first;  send C(x - h),  h <- h + C(x - h).  Receivers read h.

    The sender's h is `reference` in the state; receivers keep that of node i as `heard.<i>`. As x settles,
    x - h and with it the error of the packets go to 0, for every contraction C. Every packet has to be decoded, once, in the
    order of the steps: a codec drops repeated ones before.

    Richtarik, Sokolov and Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster error feedback",
    2021; with an unbiased C Mishchenko et al., "Distributed learning with compressed gradient differences", 2019.

    Raises: TypeError, ValueError for an `inner` that `Memory` does not take.
    """

    feeds_back: ClassVar[bool] = False
    needs_every_packet: ClassVar[bool] = True

    def __init__(self, inner: Stage) -> None:
        super().__init__(inner)
        self.unbiased = inner.unbiased
        self.linear = False  # a sum of packets lacks the sum of their references
        self._difference: Vector = np.empty(0, np.float32)
        self._result: Vector = np.empty(0, np.float32)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        reference = self.vector("reference", x.size)
        # reused: of the size of the variable
        self._difference = room_for(x, self._difference)
        values, sent = self.send(np.subtract(x, reference, out=self._difference), writer, draw)
        sent.apply(np.add, reference)
        return values

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[tuple[int, Any], int]:
        side, carried = super().parse(reader, n, draw)
        # the node of the sender tells whose h is meant
        return (draw.node, side), carried

    def decode(self, values: Vector, side: tuple[int, Any], n: int) -> Vector:
        node, inner = side
        reference = self.vector(f"{HEARD}{node}", n)
        decoded(self.sender(n), values, inner, n).apply(np.add, reference)
        self._result = room_for(reference, self._result)
        # copied: h changes with the next packet, the result belongs to the batch
        np.copyto(self._result, reference)
        return self._result

    def remembers(self, name: str) -> bool:
        return name == "reference" or (name.startswith(HEARD) and name[len(HEARD) :].lstrip("-").isdecimal())
