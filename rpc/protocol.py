"""Operations: messages with fields that are checked against types and ranges before anyone acts on them.

An operation is a frozen dataclass; its name on the wire is the class name. `parse` accepts exactly the operations that the
receiver's role and state allow, with exactly their fields, and raises ProtocolError for everything else.
"""

from __future__ import annotations

import functools
import math
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, TypeGuard

from network.errors import ProtocolError
from network.session import Session

from .support.immutable import Immutable

MAX_TEXT = 1 << 16  # characters
ANY_CODE, NO_CODE = "any", "none"  # of `Begin.code_policy`
OPERATION_BYTES = 4 << 20  # of objects: the jobs that an agent remembers are the longest list, and take some 2 KiB each


class Matching(Immutable):
    """Texts that match a pattern."""

    pattern: str

    def __contains__(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None


class Length(Immutable):
    """Texts, bytes or lists with a length from `low` to `high`."""

    low: int
    high: int

    def __contains__(self, item: typing.Sized) -> bool:
        return self.low <= len(item) <= self.high


# Annotated[type, values]: the field is of the type, and one of the values
Node = Annotated[int, range(-2, 1 << 20)]
Attempt = Annotated[int, range(1 << 31)]
Percent = Annotated[int, range(101)]
MOST_SENTENCE = 500
"""Letters of a sentence on a trouble of a node."""
MOST_NOTE = 120
Note = Annotated[str, Length(0, MOST_NOTE)]
Sentence = Annotated[str, Length(0, MOST_SENTENCE)]
Bytes = Annotated[int, range(1 << 53)]
Secret = Annotated[bytes, Length(32, 32)]
Sha256 = Annotated[str, Matching("[0-9a-f]{64}")]
RunState = Annotated[str, ("running", "done", "failed", "stopped")]
JobState = Annotated[str, ("starting", "running", "done", "failed", "stopped", "left", "aborted", "lost", "unknown")]


def is_node(value: object) -> TypeGuard[int]:
    return _fits(value, Node)


class Operation(Immutable):
    """Base of all messages."""

    def to_value(self) -> dict[str, Any]:
        return {"op": type(self).__name__, **{f.name: getattr(self, f.name) for f in fields(self)}}


def operations(
    session: Session, allowed: typing.Iterable[type[Operation]], budget: int = OPERATION_BYTES
) -> Iterator[Operation]:
    """Yield the operations that have come over `session`, oldest first, once its queued bytes have been sent as far as the link
    takes them.

    Args:
        session: closed when the peer breaks the protocol.
        allowed: classes of operations that may come.
        budget: bytes that the objects of one operation may take.

    Raises: ProtocolError then, as `parse` and `Session.receive`.
    """
    # a peer may wait for what is in line here before it says more
    session.send()
    try:
        session.receive()
        while (message := session.take()) is not None:
            # one by one: an operation may end the session, and those behind it are not decoded
            yield parse(message.within(budget), allowed)
    except ProtocolError:
        session.close()
        raise


def parse(value: Any, allowed: typing.Iterable[type[Operation]]) -> Operation:
    """Read an operation.

    Args:
        value: the message, as it came.
        allowed: classes of the operations that may come; every field must have its type.

    Raises: ProtocolError naming the operation and the field.
    """
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise ProtocolError("A message is no operation.")
    name = value["op"]
    for cls in allowed:
        if cls.__name__ == name:
            break
    else:
        raise ProtocolError(f"The operation {name[:40]!r} is not allowed here.")
    schema = _schema(cls)  # type: ignore[arg-type]  # mypy takes the hash of its instances for its own
    # no field more: what this side does not know it must not carry on
    if value.keys() != {"op", *schema}:
        raise ProtocolError(f"The operation {name} came with missing or unknown fields.")
    for field, expected in schema.items():
        if not _fits(value[field], expected):
            shown = expected.__name__ if isinstance(expected, type) else str(expected).replace("typing.", "")
            raise ProtocolError(f"The field '{field}' of the operation {name} must be {shown}.")
    return cls(**{field: value[field] for field in schema})


@functools.cache
def _schema(cls: type[Any]) -> dict[str, Any]:
    """Read the type of each field, once, since it takes longer than a small message."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in fields(cls)}


def _fits(value: Any, expected: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _fits(value, arguments[0]) and all(value in values for values in arguments[1:])
    if origin is list:
        # by type, here and below: subclasses and bool must not pass for what they resemble
        return type(value) is list and all(_fits(v, arguments[0]) for v in value)
    if origin is dict:
        return type(value) is dict and all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if origin is types.UnionType:
        return any(_fits(value, option) for option in arguments)
    if expected is Any:
        return True
    if expected is int or (expected is float and type(value) is int):
        # 64 bits, signed: what all readers of these messages hold
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    if expected is float:
        return type(value) is float and math.isfinite(value)
    if expected is str:
        return type(value) is str and len(value) <= MAX_TEXT
    return type(value) is expected
