"""Frames of pandas, series and indexes, by column.

A column of a type of NumPy travels as an array, one of pandas' own types in parts: the array that it rests on, and its type
in words. Labels that pandas hashes (names, categories, levels) travel as the keys of dicts: their decoder knows what may be
hashed.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from .standard import Row, of, parts

_FREQUENCY = re.compile(r"[A-Za-z0-9:+\-]{1,40}")
_COLUMN_KINDS = "biufcmMO"  # of NumPy's types, those that pandas keeps
SINGLE = 1000  # bytes of a frame, a column of it, a series, or an array of pandas' own types, beside the content
LABEL = 80  # of a label that is hashed, in the table where it is found


@functools.cache
def pandas_module() -> Any:
    """Load pandas when the first of its values is met: workers that have no need of it start faster."""
    import pandas  # noqa: PLC0415

    return pandas


# ---- labels


def _label_to(name: Any) -> dict[Any, None]:
    return {name: None}


def _label_from(data: Any) -> Any:
    (name,) = of(data, dict)
    return name


def distinct_to(index: Any) -> Any:
    """Describe an index of distinct labels as data."""
    return (dict.fromkeys(index), _label_to(index.name)) if index.dtype == object else index


def distinct_from(data: Any) -> Any:
    """Make the index that `distinct_to` has described. Raises: ValueError for labels that are no keys."""
    if isinstance(data, pandas_module().Index):
        if data.dtype == object:
            raise ValueError("labels of any kind come as keys")
        return data
    labels, name = parts(data, dict, dict)
    # without `tupleize_cols` tuples stay labels of one level
    return pandas_module().Index(
        np.fromiter(labels, object, len(labels)), dtype=object, name=_label_from(name), tupleize_cols=False
    )


# ---- columns


def _content(holder: Any) -> Any:
    """Return the array of a series or an index: NumPy's, or one of pandas' own types."""
    return holder.to_numpy() if isinstance(holder.dtype, np.dtype) else holder.array


def checked_column(content: Any, length: int) -> Any:
    """Check an array that is to become a column, and return it.

    Raises: ValueError for one that is no column of this length.
    """
    right = content.dtype.kind in _COLUMN_KINDS if type(content) is np.ndarray else _is_extension(content)
    if not right or content.ndim != 1 or len(content) != length:
        raise ValueError(f"a column is no array of {length} values")
    return content


def _is_extension(content: Any) -> bool:
    return isinstance(content, pandas_module().api.extensions.ExtensionArray)


def _series(content: Any, index: Any, name: Any = None) -> Any:
    return pandas_module().Series(checked_column(content, len(index)), index=index, dtype=content.dtype, name=name, copy=False)


# ---- frames and series


def _frame_to(frame: Any) -> Any:
    kinds = list(frame.dtypes)
    # all of one type: one array, which pandas takes over without a copy
    if kinds and isinstance(kinds[0], np.dtype) and kinds[0].kind in "biufc" and all(kind == kinds[0] for kind in kinds):
        content: Any = frame.to_numpy()
    else:
        content = [_content(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return frame.columns, frame.index, content, frame.attrs


def _frame_from(data: Any) -> Any:
    pandas = pandas_module()
    columns, index, content, attrs = data
    checked_index(columns)
    checked_index(index)
    if type(content) is np.ndarray:
        if content.shape != (len(index), len(columns)) or content.dtype.kind not in "biufc":
            raise ValueError(f"{len(index)} rows of {len(columns)} columns do not come as an array of {content.shape}")
        frame = pandas.DataFrame(content, index=index, columns=columns, copy=False)
    else:
        if len(of(content, list)) != len(columns):
            raise ValueError(f"{len(columns)} columns have {len(content)} arrays")
        # by place: columns may have equal names
        named = {place: _series(array, index) for place, array in enumerate(content)}
        frame = pandas.DataFrame(named, index=index, copy=False)
        frame.columns = columns
    frame.attrs = of(attrs, dict)
    return frame


def _frame_weight(data: Any) -> int:
    return SINGLE * (1 + len(data[2])) if type(data[2]) is list else SINGLE


def _series_to(series: Any) -> Any:
    return _content(series), series.index, _label_to(series.name), series.attrs


def _series_from(data: Any) -> Any:
    content, index, name, attrs = data
    made = _series(content, checked_index(index), _label_from(name))
    made.attrs = of(attrs, dict)
    return made


# ---- indexes


def checked_index(index: Any) -> Any:
    """Check an object that is to become an index, and return it. Raises: ValueError for any other object."""
    if not isinstance(index, pandas_module().Index):
        raise ValueError("no index where one belongs")
    return index


def _index_to(index: Any) -> Any:
    has_one = isinstance(index.dtype, (np.dtype, pandas_module().DatetimeTZDtype))  # periods are of it
    return _content(index), _label_to(index.name), _frequency_of(getattr(index, "freq", None)) if has_one else None


def _frequency_of(frequency: Any) -> str | None:
    """Write a frequency in words, if these mean the same; calendars of holidays do not."""
    if frequency is None or not _FREQUENCY.fullmatch(frequency.freqstr):
        return None
    # tried: only a text that gives the same frequency again stands for it
    return frequency.freqstr if pandas_module().tseries.frequencies.to_offset(frequency.freqstr) == frequency else None


def _index_from(data: Any) -> Any:
    content, name, frequency = data
    checked_column(content, len(content))
    # without `tupleize_cols` tuples stay labels of one level
    made = pandas_module().Index(content, dtype=content.dtype, name=_label_from(name), copy=False, tupleize_cols=False)
    if frequency is not None:
        if not isinstance(made, (pandas_module().DatetimeIndex, pandas_module().TimedeltaIndex)):
            raise ValueError("an index without dates has a frequency")
        made.freq = checked_frequency(frequency)  # which is compared with the content
    return made


def checked_frequency(text: Any) -> str:
    """Check the text of a frequency, and return it. Raises: ValueError for one that looks like no frequency."""
    if not _FREQUENCY.fullmatch(of(text, str)):
        raise ValueError("no frequency")
    return str(text)


def _range_index_from(data: Any) -> Any:
    numbers, name = parts(data, range, dict)
    return pandas_module().RangeIndex(numbers, name=_label_from(name))


def _multi_to(index: Any) -> Any:
    levels = [distinct_to(level.rename(None)) for level in index.levels]  # names travel apart, with the index
    return levels, [np.asarray(codes) for codes in index.codes], [_label_to(name) for name in index.names]


def distinct_weight(data: Any) -> int:
    """Estimate the bytes of the labels of `distinct_to`, where they are hashed."""
    return LABEL * len(data[0] if type(data) is tuple else data)


def _multi_weight(data: Any) -> int:
    levels, codes, _ = data
    return int(SINGLE * (1 + len(levels)) + sum(map(distinct_weight, levels)) + sum(2 * code.nbytes for code in codes))


def _multi_from(data: Any) -> Any:
    levels, codes, names = parts(data, list, list, list)
    for code in codes:
        if of(code, np.ndarray).dtype.kind != "i" or code.ndim != 1:
            raise ValueError("the codes of a level are no integers")
    return pandas_module().MultiIndex(
        levels=[distinct_from(level) for level in levels], codes=codes, names=[_label_from(name) for name in names]
    )


def _of_index(kind: str) -> str:
    return f"pandas.{kind}Index"


ROWS = [
    Row("DataFrame", ("pandas.DataFrame",), _frame_to, _frame_from, _frame_weight),
    Row("Series", ("pandas.Series",), _series_to, _series_from, lambda _: SINGLE),
    Row(
        "Index",
        ("pandas.Index", *map(_of_index, ("Datetime", "Timedelta", "Period", "Interval", "Categorical"))),
        _index_to,
        _index_from,
        lambda data: SINGLE + (0 if data[2] is None else LABEL * len(data[0])),
    ),
    Row(
        "RangeIndex",
        (_of_index("Range"),),
        lambda v: (range(v.start, v.stop, v.step), _label_to(v.name)),
        _range_index_from,
        lambda _: SINGLE,
    ),
    Row("MultiIndex", (_of_index("Multi"),), _multi_to, _multi_from, _multi_weight),
]
