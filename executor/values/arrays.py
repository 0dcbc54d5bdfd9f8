"""Arrays that are no plain numbers: texts, bytes, dates, records, masked ones, and those of any data; and scalars of these.

They travel as a description of their type and as their bytes, which are not copied. A type with objects in it is never made of
a description: an array of objects is a list of values.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConversionError
from .standard import SMALL, Row, of, parts

Array: TypeAlias = NDArray[Any]
MOST_ITEM_BYTES = 1 << 30
_MOST_FIELDS = 4096
_MOST_LEVELS = 8
# names that a type may have: numbers in any order of bytes, S, U and V of a size, dates and spans with a unit
_NUMBER = re.compile(r"\|[biu]1|[<>](?:[iuf][248]|c8|c16)")
_SIZED = re.compile(r"\|[SV](\d{1,9})|[<>|]U(\d{1,9})")
_DATE = re.compile(r"[<>][mM]8(?:\[\d{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?")
_LAST_CHARACTER = 0x10FFFF
_NONE = type(None)


def describe(dtype: Any, level: int = 0) -> Any:
    """Describe a type without objects as data: its code, or (code, shape), or a dict of its fields.

    Args:
        dtype: the type.
        level: number of types around it.

    Raises: TypeError for a type that cannot travel.
    """
    if dtype.names is not None and level < _MOST_LEVELS:
        fields = [dtype.fields[name] for name in dtype.names]
        if any(len(field) > 2 for field in fields):
            # titles are a second name, which would be lost
            raise TypeError(f"An array of type {dtype} cannot travel: its fields have titles.")
        return {
            "names": list(dtype.names),
            "types": [describe(field[0], level + 1) for field in fields],
            "offsets": [field[1] for field in fields],
            "size": dtype.itemsize,
        }
    if dtype.subdtype is not None and level < _MOST_LEVELS:
        return describe(dtype.subdtype[0], level + 1), list(dtype.subdtype[1])
    if not _is_code(dtype.str):
        raise TypeError(f"An array of type {dtype} cannot travel: use numbers, texts, bytes, dates, or records of these.")
    return dtype.str


def _is_code(code: str) -> bool:
    return any(kind.fullmatch(code) is not None for kind in (_NUMBER, _SIZED, _DATE))


def dtype_of(described: Any, level: int = 0) -> Any:
    """Make the type that `describe` was given. `level` counts the types around it.

    Raises: ValueError, or the errors of NumPy, for any other description.
    """
    if level > _MOST_LEVELS:
        raise ValueError("a type of too many levels")
    if type(described) is str:
        if not _is_code(described):
            raise ValueError(f"no type that may travel: {described!r:.40}")
        made = np.dtype(described)
    elif type(described) is dict:
        names, kinds, offsets, size = parts(
            tuple(described[k] for k in ("names", "types", "offsets", "size")), list, list, list, int
        )
        # checked here: NumPy's own errors about these are of many kinds
        if not len(names) == len(kinds) == len(offsets) <= _MOST_FIELDS or not all(type(name) is str for name in names):
            raise ValueError("the fields of a type do not fit each other")
        if not all(type(offset) is int for offset in offsets):
            raise ValueError("the fields of a type do not fit each other")
        formats = [dtype_of(kind, level + 1) for kind in kinds]
        made = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    else:
        base, shape = parts(described, (str, dict, tuple), list)
        made = np.dtype((dtype_of(base, level + 1), _shape(shape)))
    # objects of a description would be pointers chosen by a peer
    if made.hasobject or made.itemsize > MOST_ITEM_BYTES:
        raise ValueError("a type of objects, or too large")
    return made


def _shape(shape: Any) -> tuple[int, ...]:
    # NumPy 1 has no more than 32 axes
    if len(of(shape, list)) > 32 or not all(type(length) is int and 0 <= length < 1 << 62 for length in shape):
        raise ValueError("no shape")
    return tuple(shape)


def _array_to(value: Array) -> Any:
    if value.dtype.kind == "O":
        return "O", list(value.shape), _objects_to(value)
    if value.dtype.kind == "T":
        return "T", list(value.shape), _variable_to(value)
    described = describe(value.dtype)
    flat = np.ascontiguousarray(value).reshape(-1)
    return described, list(value.shape), flat.view(np.uint8) if flat.nbytes else np.empty(0, np.uint8)


def _array_from(data: Any) -> Array:
    described, shape, content = parts(data, (str, dict, tuple), list, (np.ndarray, list, dict, tuple))
    sizes = _shape(shape)
    if described == "O":
        return _objects_from(content, sizes)
    if described == "T":
        return _variable_from(content, sizes)
    dtype = dtype_of(described)
    # before the view: NumPy would take other sizes for other shapes
    if of(content, np.ndarray).dtype != np.uint8 or content.ndim != 1 or content.size != math.prod(sizes) * dtype.itemsize:
        raise ValueError(f"{content.size} bytes do not make an array of the shape {sizes}")
    # no bytes to view, and `view` of an empty array refuses some types
    if not content.size:
        return np.zeros(sizes, dtype)
    made: Array = content.view(dtype).reshape(sizes)
    _check_texts(made)
    return made


def _check_texts(array: Array) -> None:
    """Raise ValueError for a number that is no character, which NumPy would find out at any later time."""
    for name in array.dtype.names or ():
        _check_texts(array[name])
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > _LAST_CHARACTER:
            raise ValueError("a text holds what is no character")


def _objects_to(value: Array) -> Any:
    items = value.ravel().tolist()
    return pack_texts(items) if are_texts(items) else items


def _objects_from(content: Any, shape: tuple[int, ...]) -> Array:
    # `np.array` would make rows of items that are lists
    items = np.fromiter(content, object, len(content)) if type(content) is list else unpack_texts(content)
    return items.reshape(shape)


def _variable_to(value: Array) -> Any:
    missing = getattr(value.dtype, "na_object", "")  # without one the type has no such field
    # other objects for what is missing are the program's own, and no data
    if missing is not None and missing == missing and missing != "":
        raise TypeError(f"An array of type {value.dtype!r} cannot travel: use None or NaN for what is missing.")
    return "" if missing == "" else None if missing is None else "nan", pack_texts(value.ravel().tolist())


def _variable_from(content: Any, shape: tuple[int, ...]) -> Array:
    missing, texts = parts(content, (str, _NONE), tuple)
    options: dict[str, Any] = {} if missing == "" else {"na_object": None if missing is None else math.nan}
    made: Array = _objects_from(texts, shape).astype(np.dtypes.StringDType(**options))
    return made


def _weight(data: Any) -> int:
    described, _, content = data
    if type(content) is list:
        return SMALL + 8 * len(content)
    if type(described) is str and described in ("O", "T"):
        return SMALL + texts_weight(content if described == "O" else content[1])
    return SMALL + _described_weight(described)


def _described_weight(described: Any) -> int:
    if type(described) is dict:
        return 300 + sum(100 + _described_weight(kind) for kind in described["types"])
    return _described_weight(described[0]) + 100 if type(described) is tuple else 100


def _scalar_from(data: Any) -> Any:
    made = of(data, np.ndarray)[()]  # of an array without axes this gives a scalar
    if data.ndim or not isinstance(made, np.generic):
        raise ValueError("no scalar")
    return made


def _masked_to(value: Any) -> Any:
    if value is np.ma.masked:  # there is one such object, which programs compare by identity
        return None
    mask = None if value.mask is np.ma.nomask else np.asarray(value.mask)
    return np.asarray(value.data), mask, np.asarray(value.fill_value), bool(value.hardmask)


def _masked_from(data: Any) -> Any:
    if data is None:
        return np.ma.masked
    array, mask, fill, hard = parts(data, np.ndarray, (np.ndarray, _NONE), np.ndarray, bool)
    if mask is not None and mask.shape != array.shape:
        raise ValueError("the mask has another shape")
    options = {} if mask is None else {"mask": mask}
    return np.ma.MaskedArray(array, fill_value=fill[()], hard_mask=hard, **options)


_SCALARS = tuple(f"numpy.{name}" for name in ("str_", "bytes_", "void", "datetime64", "timedelta64"))
ROWS = [
    Row("array", ("numpy.ndarray", "numpy.memmap"), _array_to, _array_from, _weight),
    Row("scalar", _SCALARS, np.asarray, _scalar_from),
    Row("recarray", ("numpy.recarray",), np.asarray, lambda data: of(data, np.ndarray).view(np.recarray)),
    Row(
        "masked",
        ("numpy.MaskedArray", "numpy.MaskedConstant"),
        _masked_to,
        _masked_from,
        lambda data: 500 + (0 if data is None else data[0].nbytes),
    ),
]

_AT_ONCE = 1 << 14
_TEXT = 75  # bytes of a short text, its place in an array and in the copy of pandas, and the place where it ends
_MISSING, _NAN = (1 << 32) - 1, (1 << 32) - 2  # in place of a length: the values that pandas puts where a text is missing
_KINDS = frozenset({str, type(None), float})


def are_texts(items: list[Any]) -> bool:
    """Tell if all are texts, None or NaN."""
    kinds = set(map(type, items))
    return kinds <= _KINDS and (float not in kinds or all(item != item for item in items if type(item) is float))


def pack_texts(items: list[Any]) -> tuple[Any, ...]:
    """Pack an array of texts and missing values as (characters in UTF-8, how many each text has)."""
    # an array, not a list: 4 bytes for each text instead of an object
    sizes = np.fromiter((len(i) if type(i) is str else _MISSING if i is None else _NAN for i in items), np.uint32, len(items))
    whole = not items or sizes.max() < _NAN
    text = "".join(items if whole else [item for item in items if type(item) is str])
    # lone surrogates are no UTF-8, but may stand in a Python text
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8), sizes


def texts_weight(data: Any) -> int:
    """Estimate the bytes of the texts, and of the one in which they arrive."""
    characters, sizes = data
    # Python keeps a text at the width of its widest character: 1 byte up to 4
    width = 1 if not characters.size or characters.max() < 0x80 else 4
    return int(_TEXT * sizes.size + 2 * width * characters.size)


def unpack_texts(data: Any) -> NDArray[Any]:
    """Make the array of objects again that `pack_texts` has packed.

    Raises: ValueError for data that `pack_texts` does not give.
    """
    characters, sizes = parts(data, np.ndarray, np.ndarray)
    if characters.dtype != np.uint8 or sizes.dtype != np.uint32 or characters.ndim != 1 or sizes.ndim != 1:
        raise ValueError("texts come as arrays of another type")
    text = characters.tobytes().decode("utf-8", "surrogatepass")
    # in 64 bits: the sum of many sizes may exceed 32
    ends = np.cumsum(np.where(sizes >= _NAN, 0, sizes), dtype=np.int64)
    # before slicing: lengths that lie would cut texts at wrong places
    if (int(ends[-1]) if ends.size else 0) != len(text):
        raise ValueError("texts have not the lengths that they claim")
    made = np.empty(sizes.size, object)
    end = 0
    # in blocks: a list of all places would be an int for each text at once
    for first in range(0, sizes.size, _AT_ONCE):
        some = [end, *ends[first : first + _AT_ONCE].tolist()]
        end = some[-1]
        made[first : first + _AT_ONCE] = [text[a:b] for a, b in itertools.pairwise(some)]
    made[sizes == _MISSING] = None
    made[sizes == _NAN] = math.nan
    return made


_COMPRESSED = ("csr", "csc", "bsr")
_FORMATS = (*_COMPRESSED, "coo", "dia", "dok", "lil")
_EMPTY, _ENTRY = 500, 200  # bytes of one without content; and of a value or a row where each is an object of its own


@functools.cache
def _scipy_sparse() -> Any:
    """Load SciPy when the first of its values is met.

    Raises: ConversionError without SciPy.
    """
    try:
        import scipy.sparse  # noqa: PLC0415
    except ImportError as error:
        raise ConversionError("A sparse matrix has come, and SciPy is not installed here.") from error
    return scipy.sparse


def _to(value: Any) -> Any:
    if value.dtype.kind not in "biufc":
        raise TypeError(f"A sparse matrix of type {value.dtype} cannot travel.")
    form, shape = value.format, [int(length) for length in value.shape]
    if form in _COMPRESSED:
        return form, shape, [value.data, value.indices, value.indptr]
    if form == "dia":
        return form, shape, [value.data, value.offsets]
    # dok and lil have no arrays of their own
    entries = value.tocoo()
    # older versions of SciPy have no `coords`
    return form, shape, [entries.data, *getattr(entries, "coords", (entries.row, entries.col))]


def _from(kind: str, data: Any) -> Any:
    sparse = _scipy_sparse()
    form, lengths, content = parts(data, str, list, list)
    # names of classes are made of it below, so only known ones
    if form not in _FORMATS or not 1 <= len(lengths) <= 8 or not all(type(n) is int and 0 <= n < 1 << 62 for n in lengths):
        raise ValueError("no sparse matrix has such a shape")
    values, *indices = [of(array, np.ndarray) for array in content]
    if values.dtype.kind not in "biufc" or any(array.dtype.kind != "i" for array in indices):
        raise ValueError("the arrays are of another type")
    shape = tuple(lengths)
    if form in _COMPRESSED:
        made = getattr(sparse, f"{form}_{kind}")((values, *parts(tuple(indices), np.ndarray, np.ndarray)), shape=shape)
        made.check_format(full_check=True)  # code in C trusts the indices later
        return made
    if form == "dia":
        return getattr(sparse, f"dia_{kind}")((values, *indices), shape=shape)
    if any(array.ndim != 1 or array.shape != values.shape for array in indices) or len(indices) != len(shape):
        raise ValueError("the coordinates do not fit each other")
    entries = getattr(sparse, f"coo_{kind}")((values, tuple(indices)), shape=shape)
    return entries if form == "coo" else entries.asformat(form)


def _sparse_weight(data: Any) -> int:
    form, shape, content = data
    if form == "lil":
        return int(_EMPTY + _ENTRY * (shape[0] + content[0].size))
    return int(_EMPTY + (_ENTRY * content[0].size if form == "dok" else sum(array.nbytes for array in content)))


SPARSE_ROWS = [
    Row(
        f"sparse {kind}",
        tuple(f"scipy.{form}_{kind}" for form in _FORMATS),
        _to,
        functools.partial(_from, kind),
        _sparse_weight,
    )
    for kind in ("matrix", "array")
]
