"""Values beyond plain data, of the standard library, NumPy, pandas and SciPy: they come back as they were, what cannot travel
is named; nothing that arrives runs, or grows without bound."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import struct
import sys
import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgpack
import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal

from executor.errors import ConversionError
from executor.payload import pack_payload, unpack_payload
from executor.process_setup import pack_broadcast
from executor.tasks import TaskFuture
from executor.values import Conversion
from executor.values.standard import MOST_DIGITS
from network import budget
from network.errors import ProtocolError
from network.values import Tag, decode
from network.wire import unpack
from tests.memory import peak_of

from ..statements import covers


def travel(value: Any) -> Any:
    """Packed and unpacked; its arrays are others, as they come from a socket."""
    payload = pack_payload(value)
    return unpack_payload(payload.tree, [array.copy() for array in payload.arrays])


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
        "zone": pd.date_range("2026-03-28 12:00", periods=3, tz=PARIS),
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
@pytest.mark.long
def test_a_million_short_texts_have_room() -> None:
    """a column of them is honest."""
    given = pd.Series([f"word {i}" for i in range(1_000_000)])
    assert travel(given).iloc[-1] == "word 999999"
    with pytest.raises(ValueError, match="bytes of objects, which is the limit: send numbers as arrays, or in parts"):
        pack_payload([set(range(100))] * 20_000)


# ---- what cannot travel, and what must not arrive


class Forbidden(Exception):
    """Raised by code that must not run."""


@dataclasses.dataclass(frozen=True)
class Hashed:
    """Its hash is code that a peer must not be able to call."""

    x: Any

    def __hash__(self) -> int:
        raise Forbidden

    def __eq__(self, other: object) -> bool:
        raise Forbidden


class Mapping(dict[str, int]):
    """A class of the user that extends a built-in."""


REFUSED: list[tuple[Any, str]] = [
    (iter([1]), r"list_iterator cannot travel: send numbers, texts, dates, .*register_value"),
    (Mapping(a=1), r"Mapping cannot travel: it extends a built-in type"),
    (Decimal("1" * (MOST_DIGITS + 1)), r"A Decimal of more than 4096 digits cannot travel"),
    (range(1 << 64), r"A range beyond 64 bits cannot travel"),
    (slice([1]), r"slice\(.*\) cannot travel: a slice of integers"),
    (collections.defaultdict(lambda: 3), r"A defaultdict of .* cannot travel: send dict\(it\), or one of list"),
    (dt.datetime(2026, 1, 1, tzinfo=type("Mine", (dt.tzinfo,), {})()), r"Mine cannot travel"),
    (np.zeros(2, np.longdouble), r"An array of type .* cannot travel: use bool, integers"),
    (np.zeros(2, [("a", "O")]), r"An array of type .* cannot travel: use numbers, texts, bytes, dates"),
    (np.zeros(2, [("a", "i4"), ("b", np.longdouble)]), r"An array of type .* cannot travel"),
    (np.zeros(2, [(("title", "a"), "i4")]), r"its fields have titles"),
    (np.array([object()], object), r"builtins\.object cannot travel"),
    (pd.DataFrame({"a": [object()]}), r"builtins\.object cannot travel"),
    (TaskFuture(), r"A Future cannot travel: pass its result, future\.result\(\)"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=lambda v: v[:30] if isinstance(v, str) else "")
def test_what_cannot_travel_is_named(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pack_payload({"deep": [value]}, (Mapping,))
    # registered types do not travel by broadcast, and the error does not say so
    with pytest.raises(TypeError, match="cannot travel: a broadcast value is numbers, texts, ") as raised:
        pack_broadcast(threading.Lock())
    assert "register_value" not in str(raised.value)


@covers("SUB-36")
def test_no_hash_of_the_users_class_runs() -> None:
    """Refused as a key, in a set, in a tuple that is one, as a label; where it leaves and where it arrives."""
    for holder in (lambda k: {k: None}, lambda k: [{k}], lambda k: {(1, (k,)): 2}, lambda k: collections.Counter([k])):
        with pytest.raises(Forbidden):  # Python itself asks for the hash when the holder is made
            holder(Hashed(1))
    item = {"o": [0, ["x", 1]]}
    for tree in (
        {"d": [item, 1]},
        {"set": {"d": [item, None]}},
        {"d": [{"t": [1, item]}, 1]},
        {"d": [{"frozenset": {"d": [item, None]}}, 1]},
        {"RangeIndex": {"t": [{"range": {"t": [0, 1, 1]}}, {"d": [item, None]}]}},
        {"Categorical": {"t": [{"t": [{"d": [item, None]}, {"d": [None, None]}]}, {"a": 0}, False]}},
    ):  # fmt: skip
        with pytest.raises(ProtocolError, match="Hashed cannot travel as a key or in a set: its __hash__ or __eq__ would run"):
            unpack_payload(msgpack.packb(tree), [np.zeros(1, np.int8)] if "a" in str(tree) else [], (Hashed,))


BYTES, NUMBERS, SMALL = np.zeros(8, np.uint8), np.arange(3), np.zeros(3, np.int8)
T = Tag
HOSTILE: list[tuple[Any, list[Any]]] = [
    (T("Fraction", (1, 0)), []),
    (T("Fraction", (1, -2)), []),
    (T("Fraction", ("1", 2)), []),
    (T("Fraction", [1, 2]), []),
    (T("Decimal", "1" * 10_000), []),
    (T("Decimal", "many"), []),
    (T("Decimal", 3), []),
    (T("range", (0, 1 << 63, 1)), []),
    (T("range", (0, 5, 0)), []),
    (T("range", (0, 5)), []),
    (T("range", (True, 5, 1)), []),
    (T("slice", (1.5, None, None)), []),
    (T("PosixPath", b"/etc/\0passwd"), []),
    (T("PosixPath", "/etc"), []),
    (T("complex", (1, 2.0)), []),
    (T("set", [1]), []),
    (T("set", T("d", [[], None])), []),
    (T("set", T("d", [1, None, 1.0, None])), []),
    (T("Counter", 3), []),
    (T("defaultdict", ("eval", T("d", []))), []),
    (T("defaultdict", ("list", 1)), []),
    (T("deque", ([1, 2], 1)), []),
    (T("deque", ([1, 2], -1)), []),
    (T("deque", (5, None)), []),
    (T("bytearray", 1 << 40), []),
    (T("UUID", b"123"), []),
    (T("date", (2026, 2, 30)), []),
    (T("date", b"\x07\xe6\x01\x01"), []),
    (T("datetime", (2026, 1, 1, 25, 0, 0, 0, 0, None)), []),
    (T("datetime", (2026, 1, 1, 2, 0, 0, 0, 0, "Europe/Paris")), []),
    (T("timedelta", (1 << 40, 0, 0)), []),
    (T("timezone", (T("timedelta", (3, 0, 0)), None)), []),
    (T("ZoneInfo", "../../../etc/passwd"), []),
    (T("ZoneInfo", "/etc/localtime"), []),
    (T("ZoneInfo", "a" * 1000), []),
    (T("unheard", 1), []),
    (T("=__main__.Class", 1), []),
    (T("__import__", "os"), []),
    # arrays
    (T("array", ("O", [1 << 40], [1])), []),
    (T("array", ("|O", [1], T("a", 0))), [BYTES]),
    (T("array", ("<U2", [2], T("a", 0))), [BYTES]),
    (T("array", ("<U2", [-1], T("a", 0))), [BYTES]),
    (T("array", ("<U1", [2], T("a", 0))), [np.full(8, 255, np.uint8)]),
    (T("array", ("<f16", [1], T("a", 0))), [BYTES]),
    (T("array", ("i4,O", [1], T("a", 0))), [BYTES]),
    (T("array", ("<M8[25parsec]", [1], T("a", 0))), [BYTES]),
    (T("array", ("|V999999999", [1], T("a", 0))), [BYTES]),
    (T("array", ("<U2", [1, 1 << 61, 1 << 61], T("a", 0))), [BYTES[:0]]),
    (T("array", ("<i4", [2], T("a", 0))), [NUMBERS]),
    (T("array", ((("|V8", [1 << 30]), [1 << 20]), [1], T("a", 0))), [BYTES]),
    (T("array", (T("d", ["names", ["a"], "types", ["|O"], "offsets", [0], "size", 8]), [1], T("a", 0))), [BYTES]),
    (T("array", (T("d", ["names", ["a"], "types", ["<i8"], "offsets", [4], "size", 8]), [1], T("a", 0))), [BYTES]),
    (T("array", (T("d", ["names", ["a"], "types", ["<i8"], "offsets", [-8], "size", 8]), [1], T("a", 0))), [BYTES]),
    (T("array", (T("d", ["names", ["a", "a"], "types", ["<i4"] * 2, "offsets", [0, 4], "size", 8]), [1], T("a", 0))), [BYTES]),
    (T("array", (T("d", ["names", ["a"]]), [1], T("a", 0))), [BYTES]),
    (T("array", ("O", [1], (T("a", 0), T("a", 1)))), [BYTES, np.array([9], np.uint32)]),
    (T("array", ("O", [1], (T("a", 0), T("a", 1)))), [np.full(1, 255, np.uint8), np.array([1], np.uint32)]),
    (T("scalar", T("a", 0)), [NUMBERS]),
    (T("scalar", 1), []),
    (T("masked", (T("a", 0), T("a", 1), T("a", 2), False)), [NUMBERS, np.zeros(2, bool), np.array(1)]),
    (T("recarray", 5), []),
    # pandas
    (T("DataFrame", (1, 2, 3, 4)), []),
    (T("RangeIndex", (T("range", (0, 1, 1)), 5)), []),
    (T("Index", (T("a", 0), T("d", [None, None]), "B")), [NUMBERS.astype("f8")]),
    (T("Index", (T("a", 0), T("d", [None, None]), None)), [np.zeros((2, 2))]),
    (T("Index", ([1, 2], T("d", [None, None]), None)), []),
    (T("IntegerArray", (T("a", 0), T("a", 1))), [NUMBERS, np.zeros(2, bool)]),
    (T("IntegerArray", (T("a", 0), T("a", 1))), [np.zeros(3), np.zeros(3, bool)]),
    (T("BooleanArray", (T("a", 0), T("a", 1))), [NUMBERS, np.zeros(3, bool)]),
    (T("Categorical", ((T("d", ["a", None]), T("d", [None, None])), T("a", 0), False)), [SMALL + 5]),
    (T("Categorical", ((T("d", ["a", None]), T("d", [None, None])), T("a", 0), 1)), [SMALL]),
    (T("MultiIndex", ([(T("d", ["a", None]), T("d", [None, None]))], [T("a", 0)], [T("d", [None, None])])), [SMALL + 1]),
    (T("MultiIndex", ([], [], [])), []),
    (T("StringArray", ((T("a", 0), T("a", 1)), "python", True)), [BYTES, np.array([7], np.uint32)]),
    (T("DatetimeArray", (T("a", 0), "dateutil//etc/passwd")), [NUMBERS]),
    (T("DatetimeArray", (T("a", 0), None)), [NUMBERS]),
    (T("PeriodArray", (T("a", 0), "no frequency")), [NUMBERS]),
    (T("Timestamp", (1 << 70, "ns", None)), []),
    (T("Timestamp", (1, "parsec", None)), []),
    (T("Period", (1, "M" * 100)), []),
    (T("Interval", ([1], [2], "left")), []),
    (T("Interval", (2, 1, "left")), []),
    (T("SparseArray", ([1], 2)), []),
]  # fmt: skip


@covers("SUB-36", "SEC-22")
@pytest.mark.parametrize(("tree", "arrays"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_content_is_refused(tree: Any, arrays: list[Any]) -> None:
    """By a ProtocolError that names the kind, whatever the libraries raise."""
    with pytest.raises(ProtocolError, match=r"^A received "):
        decode(tree, arrays, (), Conversion({}))


def index(length: int) -> Any:
    return T("RangeIndex", (T("range", (0, length, 1)), T("d", [None, None])))


@pytest.mark.parametrize(
    ("content", "arrays"),
    [
        (T("a", 0), [np.zeros((2, 2))]),
        (T("a", 0), [np.zeros((2, 1), object)]),
        ([T("a", 0)], [NUMBERS[:2]]),
        ([T("a", 0), T("a", 1)], [NUMBERS, NUMBERS]),
        ([T("a", 0)], [np.zeros((3, 1))]),
        ([[1, 2, 3]], []),
        ([T("deque", ([1, 2, 3], None))], []),
        (5, []),
    ],
)
def test_frames_whose_parts_do_not_fit(content: Any, arrays: list[Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^A received DataFrame is malformed"):
        decode(T("DataFrame", (index(1), index(3), content, T("d", []))), arrays, (), Conversion({}))


def test_sparse_indices_are_looked_at() -> None:
    """Code in C would read and write wherever they say."""
    pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    right = [np.ones(2), np.array([0, 1], "i4"), np.array([0, 1, 2], "i4")]
    for place, wrong in [(1, [0, 9]), (1, [-9, 1]), (2, [0, 9, 2]), (2, [0, 1]), (2, [0, 2, 1]), (2, [5, 1, 2])]:
        arrays = [*right[:place], np.array(wrong, "i4"), *right[place + 1 :]]
        for form in ("csr", "csc", "bsr"):
            with pytest.raises(ProtocolError, match="A received sparse matrix is malformed"):
                decode(T("sparse matrix", (form, [2, 2], [T("a", 0), T("a", 1), T("a", 2)])), arrays, (), Conversion({}))
    for form in ("coo", "lil", "dok"):
        for rows in ([0, 2], [-1, 0], [0]):
            arrays = [np.ones(2), np.array(rows, "i4"), np.array([0, 1], "i4")]
            with pytest.raises(ProtocolError, match="A received sparse array is malformed"):
                decode(T("sparse array", (form, [2, 2], [T("a", 0), T("a", 1), T("a", 2)])), arrays, (), Conversion({}))
    with pytest.raises(ProtocolError, match="bytes of objects, which is the limit"):
        huge = T("sparse matrix", ("lil", [1 << 40, 2], [T("a", 0), T("a", 1), T("a", 2)]))
        decode(huge, [right[0], right[1], right[1]], (), Conversion({}))


def test_a_zone_that_is_not_here_is_no_fault_of_the_peer() -> None:
    """It may know newer ones: the task fails, and the node stays."""
    with pytest.raises(ConversionError, match="There is no time zone Moon/Base on this host"):
        decode(T("ZoneInfo", "Moon/Base"), [], (), Conversion({}))


def test_a_zone_of_pytz_arrives_as_one_of_the_standard_library() -> None:
    """pandas 2 has made such zones of names where pytz is installed."""
    pytz = pytest.importorskip("pytz")
    found = travel(pd.Series(pd.date_range("2026-03-28 12:00", periods=3, tz=pytz.timezone("Europe/Paris"))))
    assert found.dt.tz == PARIS and found.tolist()[2].utcoffset() == dt.timedelta(hours=2)


def refuse(tree: bytes, arrays: list[Any]) -> None:
    with pytest.raises(ProtocolError, match="bytes of objects, which is the limit"):
        unpack_payload(tree, arrays)


COUNT = 250
KINDS: dict[str, Callable[[int], Any]] = {
    "complex": lambda i: complex(i, 1),
    "empty sets": lambda i: set(),
    "sets of five": lambda i: {1, 2, 3, 4, 5},
    "sets of a hundred": lambda i: set(range(100)),
    "frozensets": lambda i: frozenset({i}),
    "empty deques": lambda i: collections.deque(),
    "counters": lambda i: collections.Counter("abc"),
    "ordered dicts": lambda i: collections.OrderedDict((n, n) for n in range(12)),
    "decimals": lambda i: Decimal(i) / 8,
    "fractions": lambda i: Fraction(i, 7),
    "dates": lambda i: dt.datetime(2026, 1, 1, 0, 0, 0, i, tzinfo=dt.timezone(dt.timedelta(seconds=i))),
    "paths": lambda i: Path(f"/a/b/{i}"),
    "arrays of texts": lambda i: np.array(["a"]),
    "arrays of objects": lambda i: np.array([1, None], object),
    "arrays of texts as objects": lambda i: np.array(["ab", "c"], object),
    "records": lambda i: np.zeros(1, [("a", "i4"), ("b", [("c", "i4")])]),
    "dates of NumPy": lambda i: np.datetime64(i, "s"),
    "masked arrays": lambda i: np.ma.masked_array([1.0, 2], [0, 1]),
    "empty frames": lambda i: pd.DataFrame(),
    "frames": lambda i: pd.DataFrame({"a": [1], "b": ["x"], "c": [1.5]}),
    "series": lambda i: pd.Series([1, 2]),
    "indexes of levels": lambda i: pd.MultiIndex.from_tuples([(1, 2, 3)]),
    "an index of many labels": lambda i: None if i else pd.MultiIndex([[f"label {n}" for n in range(20_000)]], [[0, 1]]),
    "dates of pandas": lambda i: pd.date_range("2026", periods=3, tz="UTC"),
    "categories": lambda i: pd.Categorical(["a"]),
    "periods": lambda i: pd.period_range("2026", periods=2, freq="M"),
    "timestamps": lambda i: pd.Timestamp(i, unit="s", tz="UTC"),
}


@covers("SEC-22")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.share(12)
def test_no_value_takes_more_than_is_counted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of the tree and what is made of them; and what is counted is not far from the truth."""
    payload = pack_payload([KINDS[kind](i) for i in range(COUNT)])
    unbounded = 1 << 60
    monkeypatch.setattr(budget, "OBJECT_BYTES", unbounded)
    for _ in range(2):  # the second time what the libraries make once is there
        arrays = [array.copy() for array in payload.arrays]
        conversion = Conversion({}, payload.tree, payload.arrays)
        peak = peak_of(lambda: decode(unpack(payload.tree, unbounded), arrays, (), conversion))  # noqa: B023
    counted = budget.object_bytes(payload.tree, unbounded) + conversion.made
    assert peak <= counted * 1.05 + 65_536
    assert counted <= 7 * peak


@covers("SEC-22")
@pytest.mark.parametrize(
    "item", [{"set": {"d": []}}, {"deque": {"t": [[], None]}}, {"PosixPath": b""}], ids=lambda item: next(iter(item))
)
@pytest.mark.share(3)
def test_a_bomb_is_refused_before_it_has_grown(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small values that become large ones, as many as the objects of a tree may be; of a smaller budget."""
    monkeypatch.setattr(budget, "OBJECT_BYTES", 4 << 20)
    packed = msgpack.packb(item)
    tree = b"\xdd" + struct.pack("!I", 8000) + packed * 8000
    assert peak_of(lambda: refuse(tree, [])) < budget.OBJECT_BYTES + 3 * len(tree)


@covers("SEC-22")
def test_texts_are_counted_before_they_are_made() -> None:
    """Eight bytes on the wire, and ten times as much in memory."""
    count = 3_000_000
    tree = msgpack.packb({"array": {"t": ["O", [count], {"t": [{"a": 0}, {"a": 1}]}]}})
    arrays = [np.full(2 * count, 97, np.uint8), np.full(count, 2, np.uint32)]
    assert peak_of(lambda: refuse(tree, arrays)) < 30 << 20


def test_no_library_is_loaded_for_what_does_not_come() -> None:
    """Workers that have no need of pandas start faster."""
    assert "executor.values.frames" in sys.modules
    from executor.values import frames

    assert not any(getattr(item, "__name__", "") == "pandas" for item in vars(frames).values())
