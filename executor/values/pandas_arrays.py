"""Arrays of pandas' own types, which columns and indexes rest on, and its single dates, spans and intervals."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .arrays import pack_texts, texts_weight, unpack_texts
from .frames import (
    LABEL,
    SINGLE,
    checked_column,
    checked_frequency,
    checked_index,
    distinct_from,
    distinct_to,
    distinct_weight,
    pandas_module,
)
from .standard import ZONES, Row, of, parts, zone_of

_UNITS = ("s", "ms", "us", "ns")
_CLOSED = ("left", "right", "both", "neither")


def _masked_to(array: Any) -> Any:
    # a 0 where a value is missing: pandas looks at the mask first
    return array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=array.dtype.type(0)), array.isna()


def _masked_from(kind: str, data: Any) -> Any:
    return getattr(pandas_module().arrays, kind)(*parts(data, np.ndarray, np.ndarray))


def _strings_to(array: Any) -> Any:
    missing_is_nan = isinstance(array.dtype.na_value, float)
    storage = "python" if array.dtype.storage == "python" else "pyarrow"  # pandas 2.1 has a third word for the latter
    return pack_texts(array.to_numpy(dtype=object, na_value=None).tolist()), storage, missing_is_nan


def _strings_from(data: Any) -> Any:
    pandas = pandas_module()
    texts, storage, missing_is_nan = parts(data, tuple, str, bool)
    options: dict[str, Any] = {"na_value": math.nan} if missing_is_nan else {}
    try:
        dtype = pandas.StringDtype("pyarrow" if storage == "pyarrow" else "python", **options)
    except ImportError:  # the same texts, held in another way
        dtype = pandas.StringDtype("python", **options)
    return pandas.array(unpack_texts(texts), dtype=dtype)


def _categorical_to(array: Any) -> Any:
    return distinct_to(array.categories), np.asarray(array.codes), bool(array.ordered)


def _categorical_from(data: Any) -> Any:
    pandas = pandas_module()
    categories, codes, ordered = data
    dtype = pandas.CategoricalDtype(distinct_from(categories), of(ordered, bool))
    if of(codes, np.ndarray).dtype.kind != "i" or codes.ndim != 1:
        raise ValueError("the codes of categories are no integers")
    return pandas.Categorical.from_codes(codes, dtype=dtype)


def _categorical_weight(data: Any) -> int:
    return int(SINGLE + distinct_weight(data[0]) + 2 * data[1].nbytes)


def _dates_to(array: Any) -> Any:
    return array.to_numpy(dtype=f"M8[{array.unit}]"), zone_of(array.tz)


def _dates_from(data: Any) -> Any:
    times, zone = parts(data, np.ndarray, ZONES)
    if times.dtype.kind != "M":
        raise ValueError("no dates")
    made = pandas_module().DatetimeIndex(times, copy=False)
    # times travel in UTC, as pandas keeps them; a zone is how they are shown
    return (made if zone is None else made.tz_localize("UTC").tz_convert(zone)).array


def _spans_from(data: Any) -> Any:
    if of(data, np.ndarray).dtype.kind != "m":
        raise ValueError("no spans")
    return pandas_module().TimedeltaIndex(data, copy=False).array


def _periods_from(data: Any) -> Any:
    numbers, frequency = parts(data, np.ndarray, str)
    return pandas_module().arrays.PeriodArray(numbers, dtype=pandas_module().PeriodDtype(checked_frequency(frequency)))


def _intervals_from(data: Any) -> Any:
    left, right, closed = data
    return pandas_module().arrays.IntervalArray.from_arrays(checked_index(left), checked_index(right), _closed(closed))


def _plain_from(data: Any) -> Any:
    arrays = pandas_module().arrays
    made = arrays.NumpyExtensionArray if hasattr(arrays, "NumpyExtensionArray") else arrays.PandasArray  # before pandas 2.1
    return made(checked_column(data, len(data)))


def _closed(text: Any) -> str:
    if of(text, str) not in _CLOSED:
        raise ValueError("no interval is closed so")
    return str(text)


def _sparse_to(array: Any) -> Any:
    return np.asarray(array), np.asarray(array.fill_value)[()]


def _sparse_from(data: Any) -> Any:
    content, fill = data
    if of(content, np.ndarray).dtype.kind not in "biufc" or not isinstance(fill, np.generic):
        raise ValueError("no sparse array of numbers")
    return pandas_module().arrays.SparseArray(content, fill_value=fill)


# ---- single dates and spans


def _stamp_to(value: Any) -> Any:
    return int(value.asm8.view(np.int64)), value.unit, zone_of(value.tz)


def _stamp_from(data: Any) -> Any:
    number, unit, zone = parts(data, int, str, ZONES)
    made = pandas_module().Timestamp(np.datetime64(number, _unit(unit)))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def _unit(unit: str) -> Any:
    if unit not in _UNITS:
        raise ValueError("no unit of pandas")
    return unit


def _span_from(data: Any) -> Any:
    number, unit = parts(data, int, str)
    return pandas_module().Timedelta(np.timedelta64(number, _unit(unit)))


def _period_from(data: Any) -> Any:
    ordinal, frequency = parts(data, int, str)
    return pandas_module().Period(ordinal=ordinal, freq=checked_frequency(frequency))


def _interval_from(data: Any) -> Any:
    left, right, closed = data
    pandas = pandas_module()
    for end in (left, right):
        if not isinstance(end, (int, float, np.number, pandas.Timestamp, pandas.Timedelta)):
            raise ValueError("an interval has no such end")
    return pandas.Interval(left, right, _closed(closed))


def _singleton(name: str) -> Row:
    return Row(name, (f"pandas.{name}Type",), lambda _: None, lambda _: getattr(pandas_module(), name))


def _of_array(*kinds: str) -> tuple[str, ...]:
    return tuple(f"pandas.{kind}Array" for kind in kinds)


_TEXTS = ("StringArray", "ArrowStringArray", "ArrowStringArrayNumpySemantics", "StringArrayNumpySemantics")
_STRINGS = tuple(f"pandas.{kind}" for kind in _TEXTS)
ROWS = [
    *(
        Row(f"{kind}Array", _of_array(kind), _masked_to, functools.partial(_masked_from, f"{kind}Array"), lambda _: SINGLE)
        for kind in ("Integer", "Floating", "Boolean")
    ),
    Row("StringArray", _STRINGS, _strings_to, _strings_from, lambda data: SINGLE + texts_weight(data[0])),
    Row("Categorical", ("pandas.Categorical",), _categorical_to, _categorical_from, _categorical_weight),
    Row("DatetimeArray", _of_array("Datetime"), _dates_to, _dates_from, lambda data: SINGLE + data[0].nbytes),
    Row("TimedeltaArray", _of_array("Timedelta"), lambda v: v.to_numpy(), _spans_from, lambda data: SINGLE + data.nbytes),
    Row("PeriodArray", _of_array("Period"), lambda v: (v.asi8, v.freqstr), _periods_from, lambda _: SINGLE),
    Row(
        "IntervalArray",
        _of_array("Interval"),
        lambda v: (v.left.rename(None), v.right.rename(None), v.closed),
        _intervals_from,
        lambda data: SINGLE + LABEL * len(data[0]),
    ),
    Row("NumpyArray", _of_array("NumpyExtension", "Pandas"), lambda v: v.to_numpy(), _plain_from, lambda _: SINGLE),
    Row("SparseArray", _of_array("Sparse"), _sparse_to, _sparse_from, lambda data: SINGLE + 3 * data[0].nbytes),
    Row("Timestamp", ("pandas.Timestamp",), _stamp_to, _stamp_from),
    Row("Timedelta", ("pandas.Timedelta",), lambda v: (int(v.asm8.view(np.int64)), v.unit), _span_from),
    Row("Period", ("pandas.Period",), lambda v: (v.ordinal, v.freqstr), _period_from),
    Row("Interval", ("pandas.Interval",), lambda v: (v.left, v.right, v.closed), _interval_from),
    _singleton("NaT"),
    Row("NA", ("pandas.NAType",), lambda _: None, lambda _: pandas_module().NA),
]
