"""What pandas has: frames and series by column, indexes, and the arrays, dates and spans in them.

A column whose type is NumPy's travels as an array, one of pandas' own types in parts: the array that it rests on, and its type
in words. Labels that pandas hashes (names, categories, levels) travel as the keys of dicts, whose decoder knows what may be
hashed.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np

from .arrays import pack_texts, texts_weight, unpack_texts
from .standard import ZONES, Row, of, parts, zone_of

_FREQUENCY = re.compile(r"[A-Za-z0-9:+\-]{1,40}")
_UNITS = ("s", "ms", "us", "ns")
_CLOSED = ("left", "right", "both", "neither")
_COLUMN_KINDS = "biufcmMO"  # of NumPy's types, those that pandas keeps
_SINGLE = 1000  # bytes of a frame, a column of it, a series, or an array of pandas' own types, beside the content
_LABEL = 80  # of a label that is hashed, in the table where it is found


@functools.cache
def _pandas() -> Any:
    """Loaded when the first of its values is met: workers that have no need of it start faster."""
    import pandas  # noqa: PLC0415

    return pandas


# ---- labels


def _label_to(name: Any) -> dict[Any, None]:
    return {name: None}


def _label_from(data: Any) -> Any:
    (name,) = of(data, dict)
    return name


def _distinct_to(index: Any) -> Any:
    """An index of distinct labels."""
    return (dict.fromkeys(index), _label_to(index.name)) if index.dtype == object else index


def _distinct_from(data: Any) -> Any:
    if isinstance(data, _pandas().Index):
        if data.dtype == object:
            raise ValueError("labels of any kind come as keys")
        return data
    labels, name = parts(data, dict, dict)
    return _pandas().Index(np.fromiter(labels, object, len(labels)), dtype=object, name=_label_from(name), tupleize_cols=False)


# ---- columns


def _content(holder: Any) -> Any:
    """The array of a series or an index: NumPy's, or one of pandas' own types."""
    return holder.to_numpy() if isinstance(holder.dtype, np.dtype) else holder.array


def _column(content: Any, length: int) -> Any:
    """The same array.

    Raises: ValueError for what is no column of this length.
    """
    right = content.dtype.kind in _COLUMN_KINDS if type(content) is np.ndarray else _is_extension(content)
    if not right or content.ndim != 1 or len(content) != length:
        raise ValueError(f"a column is no array of {length} values")
    return content


def _is_extension(content: Any) -> bool:
    return isinstance(content, _pandas().api.extensions.ExtensionArray)


def _series(content: Any, index: Any, name: Any = None) -> Any:
    return _pandas().Series(_column(content, len(index)), index=index, dtype=content.dtype, name=name, copy=False)


# ---- frames and series


def _frame_to(frame: Any) -> Any:
    kinds = list(frame.dtypes)
    if kinds and isinstance(kinds[0], np.dtype) and kinds[0].kind in "biufc" and all(kind == kinds[0] for kind in kinds):
        content: Any = frame.to_numpy()
    else:
        content = [_content(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return frame.columns, frame.index, content, frame.attrs


def _frame_from(data: Any) -> Any:
    pandas = _pandas()
    columns, index, content, attrs = data
    _check_index(columns)
    _check_index(index)
    if type(content) is np.ndarray:
        if content.shape != (len(index), len(columns)) or content.dtype.kind not in "biufc":
            raise ValueError(f"{len(index)} rows of {len(columns)} columns do not come as an array of {content.shape}")
        frame = pandas.DataFrame(content, index=index, columns=columns, copy=False)
    else:
        if len(of(content, list)) != len(columns):
            raise ValueError(f"{len(columns)} columns have {len(content)} arrays")
        named = {place: _series(array, index) for place, array in enumerate(content)}
        frame = pandas.DataFrame(named, index=index, copy=False)
        frame.columns = columns
    frame.attrs = of(attrs, dict)
    return frame


def _frame_weight(data: Any) -> int:
    return _SINGLE * (1 + len(data[2])) if type(data[2]) is list else _SINGLE


def _series_to(series: Any) -> Any:
    return _content(series), series.index, _label_to(series.name), series.attrs


def _series_from(data: Any) -> Any:
    content, index, name, attrs = data
    made = _series(content, _check_index(index), _label_from(name))
    made.attrs = of(attrs, dict)
    return made


# ---- indexes


def _check_index(index: Any) -> Any:
    if not isinstance(index, _pandas().Index):
        raise ValueError("no index where one belongs")
    return index


def _index_to(index: Any) -> Any:
    has_one = isinstance(index.dtype, (np.dtype, _pandas().DatetimeTZDtype))  # periods are of it
    return _content(index), _label_to(index.name), _frequency_of(getattr(index, "freq", None)) if has_one else None


def _frequency_of(frequency: Any) -> str | None:
    """In words, if these mean the same; calendars of holidays do not."""
    if frequency is None or not _FREQUENCY.fullmatch(frequency.freqstr):
        return None
    return frequency.freqstr if _pandas().tseries.frequencies.to_offset(frequency.freqstr) == frequency else None


def _index_from(data: Any) -> Any:
    content, name, frequency = data
    _column(content, len(content))
    made = _pandas().Index(content, dtype=content.dtype, name=_label_from(name), copy=False, tupleize_cols=False)
    if frequency is not None:
        if not isinstance(made, (_pandas().DatetimeIndex, _pandas().TimedeltaIndex)):
            raise ValueError("an index without dates has a frequency")
        made.freq = _frequency(frequency)  # which is compared with the content
    return made


def _frequency(text: Any) -> str:
    if not _FREQUENCY.fullmatch(of(text, str)):
        raise ValueError("no frequency")
    return str(text)


def _range_index_from(data: Any) -> Any:
    numbers, name = parts(data, range, dict)
    return _pandas().RangeIndex(numbers, name=_label_from(name))


def _multi_to(index: Any) -> Any:
    levels = [_distinct_to(level.rename(None)) for level in index.levels]
    return levels, [np.asarray(codes) for codes in index.codes], [_label_to(name) for name in index.names]


def _distinct_weight(data: Any) -> int:
    return _LABEL * len(data[0] if type(data) is tuple else data)


def _multi_weight(data: Any) -> int:
    levels, codes, _ = data
    return int(_SINGLE * (1 + len(levels)) + sum(map(_distinct_weight, levels)) + sum(2 * code.nbytes for code in codes))


def _multi_from(data: Any) -> Any:
    levels, codes, names = parts(data, list, list, list)
    for code in codes:
        if of(code, np.ndarray).dtype.kind != "i" or code.ndim != 1:
            raise ValueError("the codes of a level are no integers")
    return _pandas().MultiIndex(
        levels=[_distinct_from(level) for level in levels], codes=codes, names=[_label_from(name) for name in names]
    )


# ---- arrays of pandas' own types


def _masked_to(array: Any) -> Any:
    return array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=array.dtype.type(0)), array.isna()


def _masked_from(kind: str, data: Any) -> Any:
    return getattr(_pandas().arrays, kind)(*parts(data, np.ndarray, np.ndarray))


def _strings_to(array: Any) -> Any:
    missing_is_nan = isinstance(array.dtype.na_value, float)
    storage = "python" if array.dtype.storage == "python" else "pyarrow"
    return pack_texts(array.to_numpy(dtype=object, na_value=None).tolist()), storage, missing_is_nan


def _strings_from(data: Any) -> Any:
    pandas = _pandas()
    texts, storage, missing_is_nan = parts(data, tuple, str, bool)
    options: dict[str, Any] = {"na_value": math.nan} if missing_is_nan else {}
    try:
        dtype = pandas.StringDtype("pyarrow" if storage == "pyarrow" else "python", **options)
    except ImportError:  # the same texts, held in another way
        dtype = pandas.StringDtype("python", **options)
    return pandas.array(unpack_texts(texts), dtype=dtype)


def _categorical_to(array: Any) -> Any:
    return _distinct_to(array.categories), np.asarray(array.codes), bool(array.ordered)


def _categorical_from(data: Any) -> Any:
    pandas = _pandas()
    categories, codes, ordered = data
    dtype = pandas.CategoricalDtype(_distinct_from(categories), of(ordered, bool))
    if of(codes, np.ndarray).dtype.kind != "i" or codes.ndim != 1:
        raise ValueError("the codes of categories are no integers")
    return pandas.Categorical.from_codes(codes, dtype=dtype)


def _categorical_weight(data: Any) -> int:
    return int(_SINGLE + _distinct_weight(data[0]) + 2 * data[1].nbytes)


def _dates_to(array: Any) -> Any:
    return array.to_numpy(dtype=f"M8[{array.unit}]"), zone_of(array.tz)


def _dates_from(data: Any) -> Any:
    times, zone = parts(data, np.ndarray, ZONES)
    if times.dtype.kind != "M":
        raise ValueError("no dates")
    made = _pandas().DatetimeIndex(times, copy=False)
    return (made if zone is None else made.tz_localize("UTC").tz_convert(zone)).array


def _spans_from(data: Any) -> Any:
    if of(data, np.ndarray).dtype.kind != "m":
        raise ValueError("no spans")
    return _pandas().TimedeltaIndex(data, copy=False).array


def _periods_from(data: Any) -> Any:
    numbers, frequency = parts(data, np.ndarray, str)
    return _pandas().arrays.PeriodArray(numbers, dtype=_pandas().PeriodDtype(_frequency(frequency)))


def _intervals_from(data: Any) -> Any:
    left, right, closed = data
    return _pandas().arrays.IntervalArray.from_arrays(_check_index(left), _check_index(right), _closed(closed))


def _plain_from(data: Any) -> Any:
    arrays = _pandas().arrays
    made = arrays.NumpyExtensionArray if hasattr(arrays, "NumpyExtensionArray") else arrays.PandasArray  # before pandas 2.1
    return made(_column(data, len(data)))


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
    return _pandas().arrays.SparseArray(content, fill_value=fill)


# ---- single dates and spans


def _stamp_to(value: Any) -> Any:
    return int(value.asm8.view(np.int64)), value.unit, zone_of(value.tz)


def _stamp_from(data: Any) -> Any:
    number, unit, zone = parts(data, int, str, ZONES)
    made = _pandas().Timestamp(np.datetime64(number, _unit(unit)))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def _unit(unit: str) -> Any:
    if unit not in _UNITS:
        raise ValueError("no unit of pandas")
    return unit


def _span_from(data: Any) -> Any:
    number, unit = parts(data, int, str)
    return _pandas().Timedelta(np.timedelta64(number, _unit(unit)))


def _period_from(data: Any) -> Any:
    ordinal, frequency = parts(data, int, str)
    return _pandas().Period(ordinal=ordinal, freq=_frequency(frequency))


def _interval_from(data: Any) -> Any:
    left, right, closed = data
    pandas = _pandas()
    for end in (left, right):
        if not isinstance(end, (int, float, np.number, pandas.Timestamp, pandas.Timedelta)):
            raise ValueError("an interval has no such end")
    return pandas.Interval(left, right, _closed(closed))


def _singleton(name: str) -> Row:
    return Row(name, (f"pandas.{name}Type",), lambda _: None, lambda _: getattr(_pandas(), name))


def _of_index(kind: str) -> str:
    return f"pandas.{kind}Index"


def _of_array(*kinds: str) -> tuple[str, ...]:
    return tuple(f"pandas.{kind}Array" for kind in kinds)


_TEXTS = ("StringArray", "ArrowStringArray", "ArrowStringArrayNumpySemantics", "StringArrayNumpySemantics")
_STRINGS = tuple(f"pandas.{kind}" for kind in _TEXTS)
ROWS = [
    Row("DataFrame", ("pandas.DataFrame",), _frame_to, _frame_from, _frame_weight),
    Row("Series", ("pandas.Series",), _series_to, _series_from, lambda _: _SINGLE),
    Row(
        "Index",
        ("pandas.Index", *map(_of_index, ("Datetime", "Timedelta", "Period", "Interval", "Categorical"))),
        _index_to,
        _index_from,
        lambda data: _SINGLE + (0 if data[2] is None else _LABEL * len(data[0])),
    ),
    Row(
        "RangeIndex",
        (_of_index("Range"),),
        lambda v: (range(v.start, v.stop, v.step), _label_to(v.name)),
        _range_index_from,
        lambda _: _SINGLE,
    ),
    Row(
        "MultiIndex",
        (_of_index("Multi"),),
        _multi_to,
        _multi_from,
        lambda d: _SINGLE + sum(4 * c.nbytes + _SINGLE for c in d[1]),
    ),
    *(
        Row(f"{kind}Array", _of_array(kind), _masked_to, functools.partial(_masked_from, f"{kind}Array"), lambda _: _SINGLE)
        for kind in ("Integer", "Floating", "Boolean")
    ),
    Row("StringArray", _STRINGS, _strings_to, _strings_from, lambda data: _SINGLE + texts_weight(data[0])),
    Row("Categorical", ("pandas.Categorical",), _categorical_to, _categorical_from, _categorical_weight),
    Row("DatetimeArray", _of_array("Datetime"), _dates_to, _dates_from, lambda data: _SINGLE + data[0].nbytes),
    Row("TimedeltaArray", _of_array("Timedelta"), lambda v: v.to_numpy(), _spans_from, lambda data: _SINGLE + data.nbytes),
    Row("PeriodArray", _of_array("Period"), lambda v: (v.asi8, v.freqstr), _periods_from, lambda _: _SINGLE),
    Row(
        "IntervalArray",
        _of_array("Interval"),
        lambda v: (v.left.rename(None), v.right.rename(None), v.closed),
        _intervals_from,
        lambda data: _SINGLE + _LABEL * len(data[0]),
    ),
    Row("NumpyArray", _of_array("NumpyExtension", "Pandas"), lambda v: v.to_numpy(), _plain_from, lambda _: _SINGLE),
    Row("SparseArray", _of_array("Sparse"), _sparse_to, _sparse_from, lambda data: _SINGLE + 3 * data[0].nbytes),
    Row("Timestamp", ("pandas.Timestamp",), _stamp_to, _stamp_from),
    Row("Timedelta", ("pandas.Timedelta",), lambda v: (int(v.asm8.view(np.int64)), v.unit), _span_from),
    Row("Period", ("pandas.Period",), lambda v: (v.ordinal, v.freqstr), _period_from),
    Row("Interval", ("pandas.Interval",), lambda v: (v.left, v.right, v.closed), _interval_from),
    _singleton("NaT"),
    Row("NA", ("pandas.NAType",), lambda _: None, lambda _: _pandas().NA),
]
