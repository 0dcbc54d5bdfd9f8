"""The sparse matrices and arrays of SciPy: by the arrays that they are made of, every index of which is looked at."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..errors import ConversionError
from .row import Row, of, parts

_COMPRESSED = ("csr", "csc", "bsr")
_FORMATS = (*_COMPRESSED, "coo", "dia", "dok", "lil")
_EMPTY, _ENTRY = 500, 200  # bytes of one without content; and of a value or a row where each is an object of its own


@functools.cache
def _scipy_sparse() -> Any:
    """Loaded when the first of its values is met.

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
    entries = value.tocoo()
    return form, shape, [entries.data, *getattr(entries, "coords", (entries.row, entries.col))]


def _from(kind: str, data: Any) -> Any:
    sparse = _scipy_sparse()
    form, lengths, content = parts(data, str, list, list)
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
        return (
            sparse.dia_matrix((values, *indices), shape=shape)
            if kind == "matrix"
            else sparse.dia_array((values, *indices), shape=shape)
        )
    if any(array.ndim != 1 or array.shape != values.shape for array in indices) or len(indices) != len(shape):
        raise ValueError("the coordinates do not fit each other")
    entries = getattr(sparse, f"coo_{kind}")((values, tuple(indices)), shape=shape)
    return entries if form == "coo" else entries.asformat(form)


def _weight(data: Any) -> int:
    form, shape, content = data
    if form == "lil":
        return int(_EMPTY + _ENTRY * (shape[0] + content[0].size))
    return int(_EMPTY + (_ENTRY * content[0].size if form == "dok" else sum(array.nbytes for array in content)))


ROWS = [
    Row(f"sparse {kind}", tuple(f"scipy.{form}_{kind}" for form in _FORMATS), _to, functools.partial(_from, kind), _weight)
    for kind in ("matrix", "array")
]
