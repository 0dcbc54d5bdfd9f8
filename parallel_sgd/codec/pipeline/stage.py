"""A stage of a pipeline, several in a chain, and the bytes that they write one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nn import arguments
from nn.arrays import Array
from nn.extension import described, is_ours, signature_of
from nn.random import keyed
from parallel_sgd.codec.traits import Scope
from parallel_sgd.engine.unusable import Unusable

Vector = NDArray[np.float32]
Indices = NDArray[np.intp]
State = dict[str, Any]
MERGE: Final = -1


class Draw(NamedTuple):
    """Key of the random numbers of one packet: equal keys give equal bits, on every node and after a restart.

    Args:
        seed: that of the job.
        epoch: the epoch, counted from 0.
        batch: the batch in the epoch, counted from 0.
        variable: the id of the variable.
        node: the contributor that encodes the packet, often the id of its node.
        place: k > 0 is the k-th stage of the gradient's side, `MERGE` the merge rule, 0 all stages that write a packet, which
            share its numbers: of these at most one may draw.
    """

    seed: int
    epoch: int
    batch: int
    variable: int
    node: int
    place: int = 0

    def generator(self, *, shared: bool = False) -> np.random.Generator:
        """Return the generator of this packet; a `shared` one is the same on all nodes."""
        # a packet's own numbers keep the key that they had before there were places
        place = (self.place,) if self.place else ()
        return keyed(self.seed, "codec", self.epoch, self.batch, self.variable, -1 if shared else self.node, *place)


class Remembers(Protocol):
    """Part that has a state between two batches."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state: arrays and numbers, live."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Take over a copy of a `state` that `state_dict` returned."""


def gathered(parts: Mapping[str, Remembers]) -> State:
    """Return the states of several parts as one, in which a part's name stands before its own names: `<part>.<name>`."""
    return {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}


def scattered(parts: Mapping[str, Remembers], state: Mapping[str, Any]) -> State:
    """Give each part its own entries of a state that `gathered` returned; return the entries of none of them."""
    rest = dict(state)
    for name, part in parts.items():
        start = f"{name}."
        # popped as they are given away, so that names of none remain to be refused
        part.load_state_dict({key[len(start) :]: rest.pop(key) for key in list(rest) if key.startswith(start)})
    return rest


@lru_cache(maxsize=256)  # every codec object asks for them
def _arguments(kind: type[Any]) -> tuple[str, ...]:
    return tuple(signature_of(kind).parameters)


def arguments_of(value: object) -> dict[str, Any]:
    """Return the arguments of an object's constructor that it has kept as attributes of the same names."""
    # arguments that were made into something else have no attribute of their name, and do not count
    kind: Any = type(value)
    return {name: vars(value)[name] for name in _arguments(kind) if name in vars(value)}


class Part(arguments.Configurable):
    """Part of a composed codec. Its constructor's arguments, kept under their names, tell it from others of its class."""

    scope: ClassVar[Scope] = "variable"
    """"model": it looks at the gradient as a whole, so a codec of it is of this scope: one vector holds all variables."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """The attributes of its state, numbers and arrays, by their names without the underscore; None is left out."""

    def get_config(self) -> dict[str, Any]:
        return arguments_of(self)

    def within(self) -> Mapping[str, Remembers]:
        """Return the parts in it that remember something themselves, by the names that they have in its state."""
        return {}

    def state_dict(self) -> State:
        """Return the state of the part: arrays and numbers, live."""
        own = {name: getattr(self, f"_{name}") for name in self.keeps}
        return {name: value for name, value in own.items() if value is not None} | gathered(self.within())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state.

        Args:
            state: arrays and numbers by name, as `state_dict` returned them.

        Raises: ValueError for names that the part does not know.
        """
        rest = scattered(self.within(), state)
        for name in self.keeps:
            before, value = getattr(self, f"_{name}"), rest.pop(name, None)
            # numbers have a value from the beginning, arrays only after the first packet
            if isinstance(before, (int, float)):
                setattr(self, f"_{name}", type(before)(value or 0))
            else:
                setattr(self, f"_{name}", None if value is None else np.array(value))
        if rest:
            what = ", ".join(self.keeps) or "nothing"
            raise ValueError(f"{type(self).__name__} remembers {what}, got {', '.join(sorted(rest))}")


class Stage(Part, ABC):
    """One step between a float vector and the bytes of a packet.

    In `encode` a stage writes its side information and returns the values that the next stage sees; those of the last one
    travel as float32. A quantiser writes all and returns nothing. Receivers go backwards: `parse` reads the side
    information of all stages in order, then `decode` of the last stage comes first. A stage never changes its input.

    One object serves one variable on one node. Its state between packets stands in `state_dict`.
    """

    unbiased: bool = False
    """The expectation of decode(encode(x)) is x."""
    linear: bool = False
    """Payloads of equal keys may be added up before they are decoded: the values that travel are a linear map of x."""
    deterministic: bool = True
    """It draws no random numbers."""
    shared_seed: bool = False
    """All nodes must draw the same random numbers."""
    leads: ClassVar[bool] = False
    """It works on the gradient before anything is left out, so nothing but its likes may stand before it."""
    ends: ClassVar[bool] = False
    """It remembers the vector that receivers make of its own packet, so nothing may follow that would change the packet."""
    feeds_back: ClassVar[bool] = False
    """The part that one packet leaves out comes with later ones, so momentum must come before it and not after the merge."""
    needs_every_packet: ClassVar[bool] = False
    """Receivers must decode each packet, once and in order."""
    expands: bool = False
    """Its error may be longer than x, so it would grow from packet to packet with error feedback around it."""

    def delta(self, n: int) -> float | None:
        """Return d with ||decode(encode(x)) - x||^2 <= (1 - d) ||x||^2 for all x of n elements; None where there is none."""
        return 1.0 if self.linear else None

    @abstractmethod
    def side_bytes(self, n: int) -> int:
        """Return how many bytes of side information it writes for n values, at most, and exactly where that is known.

        It depends on n and the constructor's arguments alone, and so does `carried`.
        """

    @abstractmethod
    def carried(self, n: int) -> int:
        """Return how many of n values go on to the next stage, at most, and exactly where that is known or it is `linear`."""

    @abstractmethod
    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the side information of a vector and return the values for the next stage, valid until the next call.

        Args:
            x: n finite float32 values, which the stage does not change.
            writer: collects the bytes of the payload.
            draw: keys the random numbers of the packet.
        """

    @abstractmethod
    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read the side information of n values; return it and the number of values that the next stage carries.

        Args:
            reader: gives the bytes of the payload, from the side information of this stage on.
            n: how many values the stage has encoded.
            draw: that of the sender.

        Raises: PayloadError for bytes that `encode` does not write.
        """

    @abstractmethod
    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return n values, valid until the next call.

        Args:
            values: those that the next stage has decoded, or float32 values of the payload.
            side: the side information that `parse` read.
            n: how many values the stage has encoded.
        """

    def __or__(self, other: Stage) -> Chain:
        return Chain([self, other])


def check_row(stage: Stage, method: str, found: object, most: int, *, exact: bool) -> None:
    """Raise TypeError unless a method of a user's stage has returned a row of float32.

    Args:
        stage: the stage.
        method: its method.
        found: the object that it has returned.
        most: how many numbers the row may have.
        exact: whether it must have so many.
    """
    is_row = isinstance(found, np.ndarray) and found.dtype == np.float32 and found.ndim == 1
    if not is_row or not (found.size == most or (not exact and found.size < most)):  # type: ignore[attr-defined]
        raise TypeError(
            f"{type(stage).__name__}.{method}() must return a row of {'' if exact else 'at most '}{most} float32, got "
            f"{described(found)}"
        )


def check_parsed(stage: Stage, found: object) -> None:
    """Raise TypeError unless `parse` of a user's stage has returned side information and a number of values."""
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], (int, np.integer))):
        raise TypeError(
            f"{type(stage).__name__}.parse() must return side information and how many values the next stage carries, got "
            f"{described(found)}"
        )


class Chain(Stage):
    """Stages one after the other, as `first | second` makes them; one inside another dissolves. Empty, it changes nothing.

    Its declarations are those of its stages together.

    Raises: TypeError for an object that is no stage; ValueError for a stage that follows one that `ends`, or that `leads` and
    does not.
    """

    def __init__(self, stages: Sequence[Stage] = ()) -> None:
        self.stages: list[Stage] = []
        for stage in arguments.sequence(self, "stages", stages, "stages"):
            if not isinstance(stage, Stage):
                raise TypeError(f"a pipeline is made of stages, got {stage!r}")
            self.stages += stage.stages if isinstance(stage, Chain) else [stage]
        for before, after in pairwise(self.stages):
            if before.ends:
                raise ValueError(
                    f"{before!r} must be the last of a pipeline, for it remembers what receivers make of its packet, which "
                    f"{after!r} would change: write {type(before).__name__}(... | {after!r})"
                )
            if after.leads and not before.leads:
                raise ValueError(f"{after!r} shapes the gradient before anything is left out: write {after!r} | {before!r}")
        # an error in any stage biases the whole
        self.unbiased = all(stage.unbiased for stage in self.stages)
        self.linear = all(stage.linear for stage in self.stages)
        self.deterministic = all(stage.deterministic for stage in self.stages)
        # one is enough: all nodes must draw alike then
        self.shared_seed = any(stage.shared_seed for stage in self.stages)

    def delta(self, n: int) -> float | None:
        """Return the product of the contractions; None where a stage has none."""
        result = 1.0
        for stage in self.stages:
            # contractions multiply, each over the numbers that the one before lets through
            found = stage.delta(n)
            if found is None:
                return None
            result *= found
            n = stage.carried(n)
        return result

    def side_bytes(self, n: int) -> int:
        size = 0
        for stage in self.stages:
            size += stage.side_bytes(n)
            n = stage.carried(n)
        return size

    def carried(self, n: int) -> int:
        for stage in self.stages:
            n = stage.carried(n)
        return n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        for place, stage in enumerate(self.stages, 1):
            # noise of a gradient stage that had the numbers by which a quantiser rounds would bias it
            count = x.size
            x = stage.encode(x, writer, draw._replace(place=place) if stage.leads else draw)
            if not is_ours(type(stage)):
                check_row(stage, "encode", x, stage.carried(count), exact=False)
        return x

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        sides = []
        for stage in self.stages:
            parsed = stage.parse(reader, n, draw)
            if not is_ours(type(stage)):
                check_parsed(stage, parsed)
            side, carried = parsed
            # the sender's bytes decide how many values follow: more than there were is a lie
            if not 0 <= carried <= n:
                raise PayloadError(f"{type(stage).__name__} would carry {carried} of {n} values")
            # with the stage itself, so that `decode` need not bring both lists together again for each packet
            sides.append((stage, side, n))
            n = carried
        return sides, n

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        # backwards: the last stage was the last to encode
        for stage, own, count in reversed(side):
            values = stage.decode(values, own, count)
            if not is_ours(type(stage)):
                check_row(stage, "decode", values, count, exact=True)
        return values

    def within(self) -> Mapping[str, Remembers]:
        return {str(place): stage for place, stage in enumerate(self.stages)}

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.stages)) or "Chain()"


class OrDense:
    """Choice of the stage that sends n values: `stage`, or `dense` where that would take more than their 4 n bytes."""

    def __init__(self, stage: Stage, dense: Stage) -> None:
        self._stage, self._dense = stage, dense
        self._last: tuple[int, Stage] | None = None

    def __call__(self, n: int) -> Stage:
        # sizes repeat: a variable has the same for the whole job
        if self._last is None or self._last[0] != n:
            takes_more = self._stage.side_bytes(n) + 4 * self._stage.carried(n) > 4 * n
            self._last = n, self._dense if takes_more else self._stage
        return self._last[1]


class Sparsifier(Stage, fixed=("_decoded",)):
    """Stage that sends the values at some indices; the others arrive as 0.

    `entries` gives both without the zeros between them, so that receivers add a packet to a sum, and senders deduct it from
    their residual, in the time that its entries take and not in that of the whole vector.
    """

    def __init__(self) -> None:
        self._decoded: Vector = np.empty(0, np.float32)

    def entries(self, values: Vector, side: Any) -> tuple[Indices, Vector]:
        """Return the indices of a packet, ascending and each once, and the values at them; by default side and values.

        Args:
            values: the values that the next stage has decoded.
            side: the side information that `parse` read.
        """
        return side, values

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        if self._decoded.size != n:
            self._decoded = np.empty(n, np.float32)
        # zeros first: all but the entries arrive as 0
        self._decoded.fill(0)
        indices, values = self.entries(values, side)
        self._decoded[indices] = values
        return self._decoded


class LinearCode(Part, ABC):
    """Code that turns a vector into one that is averaged, and that mean into the next one, until it is the result.

    So no node needs more of the vectors that workers send than their mean.
    """

    matrices: ClassVar[bool] = False
    """It compresses matrices alone, so a variable must keep its shape."""

    @abstractmethod
    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        """Return how many numbers the vector of each round has, the same on all nodes.

        Args:
            shape: shape of the variable.
            numbers: how many numbers of the variable are sent.
        """

    @abstractmethod
    def start(self, x: NDArray[Any], shape: Sequence[int], draw: Draw) -> Vector:
        """Return the vector of the first round, flat.

        Args:
            x: the flat values of this node's contribution.
            shape: the shape of the variable.
            draw: keys the random numbers of the batch.
        """

    @abstractmethod
    def proceed(self, mean: NDArray[Any]) -> tuple[Vector, bool]:
        """Take the mean of the vectors of a round; return the next vector, or the result and True."""


class PayloadError(Unusable):
    """Error for a payload that the pipeline does not write."""


class Writer:
    """Writer that collects the arrays of stages; nothing is copied before `join`."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self.size = 0

    def write(self, *arrays: Array) -> None:
        """Append arrays in little-endian byte order; they must stay unchanged until `join`."""
        for values in arrays:
            # little-endian on every machine, so that payloads have the same bytes
            little = values.dtype.newbyteorder("<")
            part = np.ascontiguousarray(values, little).reshape(-1).view(np.uint8)
            self._parts.append(part)
            self.size += part.size

    def join(self) -> NDArray[np.uint8]:
        """Return all that was written as one array of its own, and begin anew."""
        payload = np.empty(self.size, np.uint8)
        start = 0
        for part in self._parts:
            payload[start : start + part.size] = part
            start += part.size
        self._parts.clear()
        self.size = 0
        return payload


class Reader:
    """Reader of the arrays that a `Writer` wrote.

    Args:
        payload: a row of bytes.

    Raises: PayloadError for another array, and where fewer bytes are left than a stage asks for.
    """

    def __init__(self, payload: Array) -> None:
        if payload.dtype != np.uint8 or payload.ndim != 1:
            raise PayloadError(f"a payload must be a row of bytes, got {payload.dtype} {payload.shape}")
        self._payload = payload
        self._at = 0

    @property
    def left(self) -> int:
        return int(self._payload.size) - self._at

    def read(self, count: int, dtype: DTypeLike) -> Array:
        """Return the next values, as a view where they lie aligned.

        Args:
            count: number of the values.
            dtype: their type.
        """
        kind = np.dtype(dtype).newbyteorder("<")
        size = count * kind.itemsize
        if count < 0 or size > self.left:
            raise PayloadError(f"a payload has {self.left} bytes left where {count} values of {kind} should be")
        part = self._payload[self._at : self._at + size]
        self._at += size
        values = part.view(kind)
        # NumPy computes slowly, or not at all, with arrays that do not begin at a multiple of their item
        return values if values.flags.aligned else values.copy()

    def finish(self) -> None:
        if self.left:
            raise PayloadError(f"a payload has {self.left} bytes too many")


def share(owner: object, name: str, value: float) -> float:
    """Return `value` as a float with 0 < value <= 1.

    Raises: TypeError, ValueError naming the owner's class, the argument and the value that came.
    """
    result = arguments.number(owner, name, value, 0, open_low=True)
    if result > 1:
        raise ValueError(f"{type(owner).__name__} '{name}' must be a number > 0 and <= 1, got {value}")
    return result


def room_for(like: NDArray[Any], room: NDArray[Any] | None) -> NDArray[Any]:
    """Return an array of this shape and type: `room` where it is one, else a new one."""
    fits = room is not None and room.shape == like.shape and room.dtype == like.dtype
    return room if room is not None and fits else np.empty_like(like, subok=False)
