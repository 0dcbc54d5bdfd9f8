"""Values beyond plain data come back as they were: of the standard library, NumPy, pandas and SciPy."""

from __future__ import annotations

import collections
import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal

from executor.payload import pack_payload, unpack_payload

from ..statements import covers
from .value_kinds import travel

PARIS = ZoneInfo("Europe/Paris")
STANDARD: list[Any] = [
    1j,
    complex("-inf"),
    {1, "a", None, (1, 2.5)},
    frozenset({frozenset({1}), 2}),
    bytearray(b"ab"),
    bytearray(10_000),
    range(3, -50, -2),
    slice(1, None, -1),
    collections.deque([1, [2]], 5),
    collections.deque(),
    collections.Counter("abracadabra"),
    collections.OrderedDict([("b", 1), ("a", [2])]),
    collections.defaultdict(list, {"a": [1]}),
    collections.defaultdict(None, {1: 2}),
    Decimal("-1.50"),
    Decimal("1E+999999"),
    Decimal("Infinity"),
    Fraction(-7, 3),
    Fraction(1, 1 << 300),
    uuid.UUID(int=7),
    dt.date(1, 1, 1),
    dt.time(23, 59, 59, 999_999, tzinfo=dt.timezone.utc, fold=1),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=1),
    dt.datetime.max,
    dt.timedelta(-3, 4, 5),
    dt.timezone.utc,
    dt.timezone(dt.timedelta(minutes=-90), "home"),
    PARIS,
    Path("/data/train.csv"),
    Path("caf\udce9"),  # a name that is no UTF-8
    PurePosixPath("."),
    PureWindowsPath("c:\\data"),
    {(1, "a"): 1, None: 2, 2.5: 3, True: 4, b"b": 5, dt.date(2026, 1, 1): 6, frozenset({7}): 7, 8j: 8, Decimal(9): 9},
    {Path("a"): {1: {2}}, uuid.UUID(int=1): range(2)},
    np.str_("word"),
    np.bytes_(b"word"),
    np.datetime64("2026-11-22T10:00", "m"),
    np.timedelta64(3, "h"),
]


@pytest.mark.parametrize("value", STANDARD, ids=lambda v: type(v).__name__)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """Equal, of the same type, and so what is in it; also within other values."""
    found = travel({"deep": [value, (value,)]})["deep"]
    for one in (found[0], found[1][0]):
        assert type(one) is type(value)
        assert one == value
        assert repr(one) == repr(value) or isinstance(value, (set, frozenset))
    if isinstance(value, (dt.time, dt.datetime)):
        assert (found[0].fold, found[0].utcoffset()) == (value.fold, value.utcoffset())


ARRAYS: list[Any] = [
    np.array(["a", "", "longer"]),
    np.array([["a", "\U0001f600"]]).T,
    np.array(["é"], ">U3"),
    np.array([b"ab", b""]),
    np.array("alone"),
    np.zeros((0, 3), "U2"),
    np.array(["2026-11-22", "NaT"], "M8[D]"),
    np.array([[3]], "m8[25s]"),
    np.array([1], ">M8[ns]"),
    np.zeros(3, "V5"),
    np.array([(1, 2.5, "x", [1, 2])], [("a", "<i4"), ("b", ">f8"), ("c", "U3"), ("d", "u1", (2,))]),
    np.zeros(2, np.dtype([("a", "i1"), ("b", [("c", "f8"), ("d", "M8[s]")])], align=True)),
    np.zeros(4, [("a", "i4"), ("b", "f8"), ("c", "i4")])[["a", "c"]],
    np.array([1, "a", None, [2, {3}], (4,)], object),
    np.array([["a", None], [float("nan"), ""]], object),
    np.array([], object),
    np.array([(1, 2), (3, 4)], object),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype} {a.shape}")
def test_arrays_of_any_type(array: Any) -> None:
    """Type, shape and content, also of a view."""
    for view in (array, array[::-1] if array.ndim else array):
        found = travel(view)
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape) == (view.dtype, view.shape)
        assert repr(found.tolist()) == repr(view.tolist())


def test_large_arrays_are_not_copied() -> None:
    """Dates and texts go from their own memory."""
    for array in (np.zeros(1000, "M8[s]"), np.full(1000, "text"), np.zeros(9, [("a", "i4")])):
        assert np.shares_memory(pack_payload(array).arrays[0], array)


def test_masked_arrays_and_records(tmp_path: Path) -> None:
    """Masks, fill values, fields by attribute; a file in memory becomes an array."""
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0], fill_value=9.0, hard_mask=True)
    found = travel(masked)
    assert type(found) is np.ma.MaskedArray
    assert found.tolist() == [1.0, None, 3.0]
    assert (found.fill_value, found.hardmask, found.data[1]) == (9.0, True, 2.0)
    assert travel(np.ma.masked_array(["a"])).mask is np.ma.nomask
    assert travel([np.ma.masked])[0] is np.ma.masked
    records = travel(np.rec.array([(1, "a")], dtype=[("number", int), ("text", "U1")]))
    assert (type(records), records.number[0], records.text[0]) == (np.recarray, 1, "a")
    mapped = np.memmap(tmp_path / "numbers", "f8", "w+", shape=(3,))
    mapped[:] = 2.0
    found = travel(mapped)
    assert (type(found), found.tolist()) == (np.ndarray, [2.0] * 3)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has this type")
@pytest.mark.parametrize("options", [{}, {"na_object": None}, {"na_object": float("nan")}], ids=str)
def test_arrays_of_texts_of_any_length(options: dict[str, Any]) -> None:
    items = ["a", "long" * 20, *options.values()]
    array = np.array(items, np.dtypes.StringDType(**options))
    found = travel(array)
    assert found.dtype == array.dtype
    assert repr(found.tolist()) == repr(items)


def frame() -> Any:
    """A column of every type."""
    return pd.DataFrame({
        "float": [1.0, 2.0, np.nan],
        "integer": [1, 2, 3],
        "bool": [True, False, True],
        "complex": [1j, 2, 3],
        "text": ["a", None, "ç"],
        "object": pd.Series([1, "x", None], dtype=object),
        "texts as objects": pd.Series(["y", None, np.nan], dtype=object),
        "bytes": [b"a", b"b", None],
        "sets": [{1}, {2}, set()],
        "category": pd.Categorical(["x", "y", "x"], ["y", "x", "z"], ordered=True),
        "categories of numbers": pd.Categorical([1, None, 2]),
        "categories of all": pd.Categorical([b"a", "a", 3.5]),
        "date": pd.date_range("2026", periods=3),
        "seconds": pd.date_range("2026", periods=3, unit="s") if pd.__version__ >= "2.1" else pd.date_range("2026", periods=3),
        "zone": pd.date_range("2026-03-28 12:00", periods=3, tz="Europe/Paris"),
        "UTC": pd.date_range("2026", periods=3, tz="UTC"),
        "span": pd.to_timedelta([1, None, 3], unit="s"),
        "Int64": pd.array([1, None, 3], dtype="Int64"),
        "UInt8": pd.array([1, None, 255], dtype="UInt8"),
        "Float32": pd.array([1.5, None, 3], dtype="Float32"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "string": pd.array(["a", None, ""], dtype="string"),
        "period": pd.period_range("2026", periods=3, freq="M"),
        "interval": pd.interval_range(0, 3, closed="left"),
        "sparse": pd.arrays.SparseArray([0.0, 1, 0]),
    })  # fmt: skip


FRAMES: dict[str, Callable[[Any], Any]] = {
    "all types": lambda df: df,
    "numbers": lambda df: df[["float", "float"]],
    "transposed": lambda df: df[["float", "integer"]].T,
    "no columns": lambda df: df[[]],
    "no rows": lambda df: df.iloc[:0],
    "reversed": lambda df: df.iloc[::-1],
    "nothing": lambda df: pd.DataFrame(),
    "by date": lambda df: df.set_index("date").asfreq("D"),
    "by zone": lambda df: df.set_index("zone"),
    "by category": lambda df: df.set_index("category"),
    "by period": lambda df: df.set_index("period"),
    "by interval": lambda df: df.set_index("interval"),
    "by span": lambda df: df.set_index("span"),
    "by Int64": lambda df: df.set_index("Int64"),
    "by objects": lambda df: df.set_index("object"),
    "by several": lambda df: df.set_index(["text", "integer", "zone", "categories of all"]),
    "columns of two levels": lambda df: df.groupby("text")[["float", "integer"]].agg(["mean", "sum"]),
    "described": lambda df: df[["float", "Int64"]].describe(),
    "columns of numbers": lambda df: pd.DataFrame(np.eye(3), columns=[3, 1, 2], index=range(10, 4, -2)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind: str) -> None:
    """Types, labels, names, frequencies and attributes."""
    given = FRAMES[kind](frame())
    given.columns.name = "column"
    given.attrs = {"source": {"a", "b"}}
    found = travel(given)
    assert_frame_equal(found, given, check_freq=True)
    for mine, theirs in ((found.index, given.index), (found.columns, given.columns)):
        assert_index_equal(mine, theirs, exact=True)
        assert mine.names == theirs.names
    assert found.attrs == given.attrs


@pytest.mark.parametrize("name", frame().columns)
def test_series_and_their_arrays(name: str) -> None:
    """A column, its array, and an index of it."""
    given = frame()[name].rename((name, 1))
    assert_series_equal(travel(given), given)
    array = travel(given.array)
    assert type(array) is type(given.array)
    assert_series_equal(pd.Series(array, dtype=given.dtype), given.rename(None))
    if name not in ("sets", "sparse"):
        index = pd.Index(given)
        assert_index_equal(travel(index), index)
        assert travel(index).name == (name, 1)


SINGLE: list[Any] = [
    pd.Timestamp("2026-11-22 12:00:00.123456789"),
    pd.Timestamp("2026-10-25 01:30", tz="UTC").tz_convert("Europe/Paris"),
    pd.Timedelta("3h 1ns"),
    pd.Period("2026-01", "M"),
    pd.Interval(1, 2.5, "both"),
    pd.Interval(pd.Timestamp("2026"), pd.Timestamp("2027")),
]


@pytest.mark.parametrize("value", SINGLE, ids=repr)
def test_single_values_of_pandas(value: Any) -> None:
    """Also as keys; a time keeps its unit."""
    ((key, found),) = travel({value: value}).items()
    assert type(found) is type(value)
    assert found == value == key
    assert getattr(found, "unit", None) == getattr(value, "unit", None)


def test_what_is_missing_is_one_object() -> None:
    for item in (pd.NA, pd.NaT):
        assert travel([item])[0] is item


FORMATS = ("csr", "csc", "bsr", "coo", "dia", "dok", "lil")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse_matrices(form: str, kind: str) -> None:
    """Format, type and content; SciPy is no dependency."""
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    for dtype in (np.float32, np.int64, bool):
        given = getattr(sparse, f"{form}_{kind}")(np.array([[0, 2, 0, 0], [1, 0, 0, 3]], dtype))
        found = travel(given)
        assert (type(found), found.dtype, found.shape) == (type(given), given.dtype, given.shape)
        assert (found.toarray() == given.toarray()).all()


class Pair(NamedTuple):
    left: Any
    right: Any


def test_keys_of_the_users_classes() -> None:
    """Those whose hash is Python's own: named tuples, members of an enum."""
    given = {Pair(1, "a"): {Pair(2, Pair(3, 4))}}
    payload = pack_payload(given, (Pair,))
    found = unpack_payload(payload.tree, payload.arrays, (Pair,))
    assert found == given
    assert type(next(iter(found))) is Pair


@covers("SEC-22")
def test_a_million_short_texts_have_room() -> None:
    """a column of them is honest."""
    given = pd.Series([f"word {i}" for i in range(1_000_000)])
    assert travel(given).iloc[-1] == "word 999999"
    with pytest.raises(ValueError, match="bytes of objects, which is the limit: send numbers as arrays, or in parts"):
        pack_payload([set(range(100))] * 20_000)
