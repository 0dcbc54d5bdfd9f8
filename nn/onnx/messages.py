"""Messages of an ONNX file, and its tensors and attributes as values of Python and NumPy.

Source: https://github.com/onnx/onnx, onnx/onnx.proto. Of each message those fields are here that `nn.onnx` reads or writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nn.arrays import Array
from nn.onnx.wire import Message, many, one
from nn.tensor_files import ModelFileError


@dataclass
class EntryProto(Message):
    """A pair of texts, such as the place of a tensor in another file."""

    key: str | None = one(1, "text")
    value: str | None = one(2, "text")


@dataclass
class TensorProto(Message):
    """An array; its numbers are bytes of this or of another file, or a list."""

    dims: list[int] = many(1, "int")
    data_type: int | None = one(2, "int")
    float_data: list[float] = many(4, "float")
    int32_data: list[int] = many(5, "int")
    int64_data: list[int] = many(7, "int")
    name: str | None = one(8, "text")
    raw_data: bytes | memoryview | None = one(9, "bytes")
    double_data: list[float] = many(10, "double")
    uint64_data: list[int] = many(11, "int")
    external_data: list[EntryProto] = many(13, "message", "EntryProto")
    data_location: int | None = one(14, "int")


@dataclass
class AttributeProto(Message):
    """A named argument of a node."""

    name: str | None = one(1, "text")
    f: float | None = one(2, "float")
    i: int | None = one(3, "int")
    s: bytes | memoryview | None = one(4, "bytes")
    t: TensorProto | None = one(5, "message", "TensorProto")
    g: GraphProto | None = one(6, "message", "GraphProto")
    floats: list[float] = many(7, "float")
    ints: list[int] = many(8, "int")
    strings: list[bytes | memoryview] = many(9, "bytes")
    type: int | None = one(20, "int")
    ref_attr_name: str | None = one(21, "text")


@dataclass
class NodeProto(Message):
    """An operator with the names of the values that it takes and gives."""

    input: list[str] = many(1, "text")
    output: list[str] = many(2, "text")
    name: str | None = one(3, "text")
    op_type: str | None = one(4, "text")
    attribute: list[AttributeProto] = many(5, "message", "AttributeProto")
    domain: str | None = one(7, "text")


@dataclass
class Dimension(Message):
    """Length of an axis: a number, a name of one that is not known, or nothing."""

    dim_value: int | None = one(1, "int")
    dim_param: str | None = one(2, "text")


@dataclass
class Dimensions(Message):
    """Lengths of the axes of a tensor."""

    dim: list[Dimension] = many(1, "message", "Dimension")


@dataclass
class TensorType(Message):
    """Type of the elements of a tensor, and its shape."""

    elem_type: int | None = one(1, "int")
    shape: Dimensions | None = one(2, "message", "Dimensions")


@dataclass
class Type(Message):
    """Type of a value; one without `tensor_type` is no tensor."""

    tensor_type: TensorType | None = one(1, "message", "TensorType")


@dataclass
class ValueInfo(Message):
    """Name and type of an input or an output."""

    name: str | None = one(1, "text")
    type: Type | None = one(2, "message", "Type")


@dataclass
class GraphProto(Message):
    """Nodes in an order in which they can be computed, with inputs, outputs and stored tensors."""

    node: list[NodeProto] = many(1, "message", "NodeProto")
    name: str | None = one(2, "text")
    initializer: list[TensorProto] = many(5, "message", "TensorProto")
    input: list[ValueInfo] = many(11, "message", "ValueInfo")
    output: list[ValueInfo] = many(12, "message", "ValueInfo")


@dataclass
class OperatorSet(Message):
    """Version of the operators of a domain; the domain of ONNX itself is empty."""

    domain: str | None = one(1, "text")
    version: int | None = one(2, "int")


@dataclass
class ModelProto(Message):
    """A whole file."""

    ir_version: int | None = one(1, "int")
    producer_name: str | None = one(2, "text")
    producer_version: str | None = one(3, "text")
    graph: GraphProto | None = one(7, "message", "GraphProto")
    opset_import: list[OperatorSet] = many(8, "message", "OperatorSet")


FLOAT, INT64, BOOL, FLOAT16, DOUBLE = 1, 7, 9, 10, 11
FLOATS = (FLOAT, FLOAT16, DOUBLE)
DTYPES: Mapping[int, np.dtype[Any]] = MappingProxyType({
    FLOAT: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 4: np.dtype("<u2"), 5: np.dtype("<i2"),
    6: np.dtype("<i4"), INT64: np.dtype("<i8"), BOOL: np.dtype("?"), FLOAT16: np.dtype("<f2"), DOUBLE: np.dtype("<f8"),
    12: np.dtype("<u4"), 13: np.dtype("<u8"),
})  # fmt: skip
"""Types of elements, by their number in ONNX."""
_TYPE_NAMES = {8: "texts", 14: "complex64", 15: "complex128", 16: "bfloat16", **dict.fromkeys(range(17, 21), "8-bit floats"),
               21: "4-bit integers", 22: "4-bit integers"}  # fmt: skip
# Smaller integers, truth values and half floats lie in `int32_data`.
_LISTS = {FLOAT: "float_data", DOUBLE: "double_data", INT64: "int64_data", 12: "uint64_data", 13: "uint64_data"}
# TensorProto.DataLocation.
_EXTERNAL = 1


def dtype_of(number: int | None, what: str) -> np.dtype[Any]:
    """Return the type of a number in ONNX; raise ModelFileError, naming `what` has it, for one that NumPy does not have."""
    if number is None or number not in DTYPES:
        raise ModelFileError(f"{what} must hold numbers that NumPy has, got {_TYPE_NAMES.get(number or 0, f'type {number}')}")
    return DTYPES[number]


def to_tensor(array: Array, name: str = "") -> TensorProto:
    """Return an array as a tensor of a file.

    Args:
        array: of a type that ONNX has.
        name: of the tensor.
    """
    number = next(number for number, dtype in DTYPES.items() if dtype == array.dtype.newbyteorder("<"))
    data = np.ascontiguousarray(array, DTYPES[number])
    return TensorProto(list(array.shape), number, name=name or None, raw_data=data.tobytes())


def to_array(tensor: TensorProto, path: Path | None, what: str = "") -> Array:
    """Return a tensor of a file as an array; it may be read-only.

    Args:
        tensor: of the file.
        path: of the file, beside which tensors in other files lie; None where it was read from bytes.
        what: words for the tensor in errors; default: its name.

    Raises:
        ModelFileError: for a type that NumPy does not have, and where the numbers do not fill the shape.
    """
    what = what or f"the tensor {_quoted(tensor.name)}"
    dtype, shape = dtype_of(tensor.data_type, what), tuple(tensor.dims)
    # No array of NumPy 1.26 has more than 32 axes.
    if any(length < 0 for length in shape) or len(shape) > 32:
        raise ModelFileError(f"{what} must have lengths of at least 0, got {_short(shape)}")
    count = math.prod(shape)
    raw = _external(tensor, path, what) if tensor.data_location == _EXTERNAL else tensor.raw_data
    if raw is not None:
        if len(raw) != count * dtype.itemsize:
            raise ModelFileError(f"{what} of shape {_short(shape)} takes {count * dtype.itemsize} bytes, got {len(raw)}")
        return np.frombuffer(raw, dtype).reshape(shape)
    values = getattr(tensor, _LISTS.get(tensor.data_type or 0, "int32_data"))
    if len(values) != count:
        raise ModelFileError(f"{what} of shape {_short(shape)} takes {count} numbers, got {len(values)}")
    if tensor.data_type == FLOAT16:
        # Half floats stand in the list as the numbers of their bits.
        return np.asarray(values, np.int64).astype(np.uint16).view(np.float16).reshape(shape)
    # By way of int64, in which the numbers are read: large ones of uint64 are negative there.
    return np.asarray(values, np.int64 if dtype.kind in "iub" else dtype).astype(dtype).reshape(shape)


def _external(tensor: TensorProto, path: Path | None, what: str) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location") or ""
    if path is None:
        raise ModelFileError(f"{what} lies in another file, {_quoted(location)}; give the path of the model, not its bytes")
    place = Path(location)
    # The file may be a stranger's: it reads nothing outside its folder.
    if not location or place.is_absolute() or ".." in place.parts:
        raise ModelFileError(f"{what} must lie in a file of the model's folder, got {_quoted(location)}")
    try:
        # Links, too, must lead there, or to where the model's own file lies: some caches keep links to files of other names.
        found = (path.parent / place).resolve()
        if not {path.parent.resolve(), path.resolve().parent} & {*found.parents}:
            raise ModelFileError(f"{what} must lie in a file of the model's folder, got a link to another, {_quoted(location)}")
        offset, length = (None if entries.get(key) is None else int(str(entries[key])) for key in ("offset", "length"))
        with found.open("rb") as file:
            file.seek(offset or 0)
            return file.read(-1 if length is None else length)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{what} lies in another file, {_quoted(location)}, which cannot be read: {error}") from error


def to_attribute(name: str, value: Any) -> AttributeProto:
    """Return an argument of a node: a number, a text, a list of numbers, an array, or a graph.

    Args:
        name: of the argument.
        value: of it.
    """
    # The types are numbers of AttributeProto.AttributeType: 1 FLOAT, 2 INT, 3 STRING, 4 TENSOR, 5 GRAPH, 6 FLOATS, 7
    # INTS, 8 STRINGS.
    if isinstance(value, GraphProto):
        return AttributeProto(name, g=value, type=5)
    if isinstance(value, np.ndarray):
        return AttributeProto(name, t=to_tensor(value), type=4)
    if isinstance(value, (list, tuple)):
        if all(isinstance(each, int) for each in value):
            return AttributeProto(name, ints=list(value), type=7)
        return AttributeProto(name, strings=[each.encode() for each in value], type=8)
    if isinstance(value, str):
        return AttributeProto(name, s=value.encode(), type=3)
    if isinstance(value, float):
        return AttributeProto(name, f=value, type=1)
    return AttributeProto(name, i=value, type=2)


def from_attribute(attribute: AttributeProto, path: Path | None, what: str) -> Any:
    """Return the value of an argument; `path` and `what` are those of `to_array`.

    Args:
        attribute: of a node.
        path: of the file.
        what: words for the node in errors.

    Raises ModelFileError for kinds that operators of nn do not take.
    """
    kind, name = attribute.type, _quoted(attribute.name)
    # A field that is not written is 0.
    single = {1: attribute.f or 0.0, 2: attribute.i or 0, 5: attribute.g, 6: attribute.floats, 7: attribute.ints}
    if kind in single and single[kind] is not None:
        return single[kind]
    try:
        if kind == 3:
            return str(attribute.s or b"", "utf-8")
        if kind == 8:
            return [str(each, "utf-8") for each in attribute.strings]
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{what}: argument {name} must be a text in UTF-8: {error}") from error
    if kind == 4 and attribute.t is not None:
        return to_array(attribute.t, path, f"{what}: argument {name}")
    raise ModelFileError(f"{what}: argument {name} must be a number, a text, a list of these, a tensor or a graph, got {kind}")


def _short(shape: Sequence[int]) -> str:
    return f"{shape}"[:80]


def _quoted(name: str | None) -> str:
    return repr((name or "")[:80])
