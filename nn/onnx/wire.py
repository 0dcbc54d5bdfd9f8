"""Wire format of Protocol Buffers: messages as dataclasses, read from bytes and written to bytes.

Source: https://protobuf.dev/programming-guides/encoding. A message is a sequence of fields, each a key (number and kind of its
coding) and a value. Fields that a class does not name are skipped, as the format wants it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from nn.tensor_files import ModelFileError

Kind = Literal["int", "float", "double", "bytes", "text", "message"]
Read = TypeVar("Read", bound="Message")

MAX_DEPTH = 64
"""Messages within each other; a graph in a graph takes three."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE = {"int": _VARINT, "float": _FIXED32, "double": _FIXED64, "bytes": _BYTES, "text": _BYTES, "message": _BYTES}
_FIXED: dict[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}


class _Field(NamedTuple):
    """One field of a message: its number, its kind, whether there may be several, and the name of its class."""

    number: int
    kind: Kind
    several: bool
    message: str


def one(number: int, kind: Kind = "message", message: str = "") -> Any:
    """Return the dataclass field for a value that may be there once, else None.

    Args:
        number: of the field.
        kind: of the value.
        message: name of the class of a message.
    """
    return dataclasses.field(default=None, metadata={"wire": _Field(number, kind, False, message)})


def many(number: int, kind: Kind = "message", message: str = "") -> Any:
    """Return the dataclass field for a list of values; the arguments are those of `one`: `number`, `kind`, `message`."""
    return dataclasses.field(default_factory=list, metadata={"wire": _Field(number, kind, True, message)})


@dataclasses.dataclass
class Message:
    """Base of messages; a subclass is a dataclass with fields of `one` and `many`."""

    kinds: ClassVar[dict[str, type[Message]]] = {}
    """The classes of messages, by name."""

    fields: ClassVar[dict[str, dict[int, tuple[str, _Field]]]] = {}
    """Name and kind of the fields of a class by number."""

    def __init_subclass__(cls) -> None:
        Message.kinds[cls.__name__] = cls

    @classmethod
    def read(cls: type[Read], data: bytes | memoryview) -> Read:
        """Return the message that `data` holds; raise ModelFileError where it is none."""
        found: Read = _read(cls, memoryview(data), 0)
        return found

    def write(self) -> bytes:
        """Return the message as bytes."""
        out = bytearray()
        _write(self, out)
        return bytes(out)


def _fields(cls: type[Message]) -> dict[int, tuple[str, _Field]]:
    """Return the fields of a class by number, which are looked up once."""
    if cls.__name__ not in Message.fields:
        found = [(each.name, each.metadata["wire"]) for each in dataclasses.fields(cls)]
        Message.fields[cls.__name__] = {field.number: (name, field) for name, field in found}
    return Message.fields[cls.__name__]


def _read(cls: type[Any], data: memoryview, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ModelFileError(f"messages lie more than {MAX_DEPTH} deep within each other")
    message, known = cls(), _fields(cls)
    for number, coding, value in _entries(data):
        name, field = known.get(number, ("", None))
        if field is None:
            continue
        values = _values(field, coding, value, depth, f"{cls.__name__}.{name}")
        if field.several:
            getattr(message, name).extend(values)
        elif values:
            # As the format wants it, the last one counts.
            setattr(message, name, values[-1])
    return message


def _entries(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, coding and raw value of each field."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        number, coding = key >> 3, key & 7
        if coding == _VARINT:
            number_value, place = _varint(data, place)
            yield number, coding, number_value
            continue
        if coding == _BYTES:
            size, place = _varint(data, place)
        elif coding in (_FIXED64, _FIXED32):
            size = 8 if coding == _FIXED64 else 4
        else:
            raise ModelFileError(f"a field has coding {coding}, which Protocol Buffers do not have")
        if size > end - place:
            raise ModelFileError(f"ends within a field of {size} bytes, {end - place} of which are there")
        yield number, coding, data[place : place + size]
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    # Ten bytes of seven bits hold the 64 bits of the longest number.
    while shift < 70:
        if place >= len(data):
            raise ModelFileError("ends within a number")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
    raise ModelFileError("a number has more than 10 bytes")


def _values(field: _Field, coding: int, value: int | memoryview, depth: int, what: str) -> list[Any]:
    """Return the values of an entry: several where numbers are packed into one."""
    if isinstance(value, int):
        if field.kind != "int":
            raise ModelFileError(f"{what} must be {field.kind}, got a number")
        return [_signed(value)]
    if field.kind in _FIXED:
        dtype = _FIXED[field.kind]
        # A list of numbers comes packed, a single one by itself.
        if (coding == _BYTES and not field.several) or len(value) % dtype.itemsize:
            raise ModelFileError(f"{what} must hold numbers of {dtype.itemsize} bytes, got {len(value)} bytes")
        found: list[Any] = np.frombuffer(value, dtype).tolist()
        return found
    if coding != _BYTES:
        raise ModelFileError(f"{what} must be {field.kind}, got a number")
    if field.kind == "int":
        return list(_packed(value))
    if field.kind == "bytes":
        return [value]
    if field.kind == "text":
        try:
            return [str(value, "utf-8")]
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{what} must be a text in UTF-8: {error}") from error
    return [_read(Message.kinds[field.message], value, depth + 1)]


def _packed(value: memoryview) -> Iterator[int]:
    place = 0
    while place < len(value):
        number, place = _varint(value, place)
        yield _signed(number)


def _signed(value: int) -> int:
    # Negative numbers are written as the complement of two, in 64 bits whatever their size.
    return value - (1 << 64) if value >= 1 << 63 else value


def _write(message: Message, out: bytearray) -> None:
    for number, (name, field) in _fields(type(message)).items():
        found = getattr(message, name)
        for value in found if field.several else [] if found is None else [found]:
            _put(out, number << 3 | _WIRE[field.kind])
            if field.kind == "int":
                _put(out, value & 0xFFFFFFFFFFFFFFFF)
            elif field.kind in _FIXED:
                out += struct.pack("<f" if field.kind == "float" else "<d", value)
            else:
                part = value.write() if isinstance(value, Message) else value.encode() if isinstance(value, str) else value
                _put(out, len(part))
                out += part


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
