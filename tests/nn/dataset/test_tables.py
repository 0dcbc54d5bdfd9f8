"""Arrays, frames and CSV files of one's own: what becomes of columns and rows, and how what is wrong is named."""

import bz2
import datetime
import gzip
import io
import lzma
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nn
from nn.dataset import ArrayDataset, CSVDataset

X, Y = np.zeros((6, 3)), np.zeros(6, int)
TEXTS = ["b", "c", "a", "b", "c", "a"]
FRAME = pandas.DataFrame(
    {
        "area": [50, 60, 70, 80],
        "garden": [True, False, True, True],
        "city": ["Bern", "Genf", "Bern", "Chur"],
        "kind": pandas.Categorical(["b", "a", "b", "b"], categories=["b", "a", "z"]),
        "built": pandas.to_datetime(["1970-01-02", "1970-01-03", "2001-05-01", "1970-01-01"]),
    },
    index=[7, 7, 3, 1],
)
TABLE = "a,b,kind\n" + "".join(f"{row},{row * row}.5,{row % 3}\n" for row in range(3, 13))
HOLES = "a,b,kind\n1,2,0\n,3,1\n4,NA,1\n5,6,0\n7,nan,0\n"
SPECIES = "a,species\n1,virginica\n2, setosa\n3,virginica\n,unseen\n5,setosa\n6,\n"
HOUSES = """id,area,city,built,garden,zip,price
1,50,Bern,2001-05-01,true,3000,500.5
2,60,Genf,1970-01-02,false,1200,610.5
3,,Bern,,true,3000,700.5
4,80, Basel ,1999-12-31T12:00,false,4000,810.5
5,90,,2010-01-01,true,3000,900.5
"""
WANTED = ["area", "city", "built", "garden", "zip"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(text, label="kind", *more, **arguments):
    """Return the data set of a file of this text."""
    Path("table.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return CSVDataset("table.csv", label, *more, **arguments)


def load(text, label="kind", **arguments):
    return table(text, label, **arguments).load(download=False)


def joined(parts):
    """Return samples and labels of both parts in the order of column a."""
    x, y = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    order = x[:, 0].argsort(kind="stable")
    return x[order], y[order]


def test_arrays_come_back_unchanged_and_read_only():
    arrays = ArrayDataset(X, Y, [[1, 2, 3]], [1]).load()
    assert arrays[0].dtype == X.dtype
    assert np.shares_memory(arrays[0], X)
    assert X.flags.writeable
    assert arrays[2].tolist() == [[1, 2, 3]]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    for dtype in ("?", "u1", "i8", "f2", "f4", "f8"):
        assert ArrayDataset(X.astype(dtype), Y, X.astype(dtype), Y).load()[0].dtype == dtype


def test_samples_are_set_aside():
    x = np.arange(10.0)[:, None]
    train_x, train_y, test_x, test_y = ArrayDataset(x, x[:, 0], test_fraction=0.3, seed=1).load()
    assert (len(train_x), len(test_x)) == (7, 3)
    assert sorted(np.concatenate([train_y, test_y])) == x[:, 0].tolist()
    assert not test_x.flags.writeable
    assert len(ArrayDataset(FRAME, FRAME["city"], test_fraction=0.5).load()[2]) == 2


def test_frames_of_several_types():
    """Categories of both parts, in the order of their type or sorted; the index does not count."""
    data = ArrayDataset(FRAME[:3], FRAME["area"][:3] * 10.0, FRAME[3:], FRAME["area"][3:] * 10.0)
    x, y, test_x, test_y = data.load()
    assert " ".join(data.columns) == "area garden city=Bern city=Chur city=Genf kind=b kind=a kind=z built"
    assert x.dtype == np.float32
    assert x.tolist() == [[50, 1, 1, 0, 0, 1, 0, 0, 1], [60, 0, 0, 0, 1, 0, 1, 0, 2], [70, 1, 1, 0, 0, 1, 0, 0, 11443]]
    assert test_x.tolist() == [[80, 1, 0, 1, 0, 1, 0, 0, 0]]
    assert (y.tolist(), test_y.tolist()) == ([500, 600, 700], [800])
    assert data.classes is None
    days = [datetime.date(1970, 1, 2), datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 3), pandas.Timestamp("1970-01-04")]
    objects = pandas.DataFrame({"n": [1, 2.5, True, Decimal("0.5")], "d": days}, dtype=object)
    assert ArrayDataset(objects, Y[:4], objects, Y[:4]).load()[0].tolist() == [[1, 1], [2.5, 0], [1, 2], [0.5, 3]]


def test_frames_of_one_type_stay_what_they_are():
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    x, y, test_x, _ = ArrayDataset(frame, frame["a"] > 1, frame[["b", "a"]], frame["a"] > 2).load()
    assert (x.dtype, y.dtype, y.shape) == (np.int64, bool, (3,))
    assert x.tolist() == test_x.tolist()
    assert ArrayDataset(frame, frame[["a"]], frame, frame[["a"]]).load()[1].shape == (3, 1)
    nullable = frame.astype("Int64")
    assert ArrayDataset(nullable, nullable["a"], nullable, nullable["a"]).load()[0].tolist() == frame.to_numpy().tolist()


@pytest.mark.parametrize(
    "of",
    [
        *(list, tuple, np.array, pandas.Index, pandas.Categorical, pandas.Series),
        lambda texts: np.array(texts, object),
        lambda texts: pandas.array(texts, "string"),
    ],
)
def test_texts_are_labels_in_whatever_holds_them(of):
    data = ArrayDataset(X, of(TEXTS), X[:2], TEXTS[:2])
    assert data.classes == ArrayDataset(X, of(TEXTS)).classes == ["a", "b", "c"]
    assert (data.load()[1].tolist(), data.load()[3].tolist()) == ([1, 2, 0, 1, 2, 0], [1, 2])
    assert data.load()[1].dtype == np.int64
    area = FRAME[["area"]]
    assert ArrayDataset(area, FRAME["city"], area[:1], FRAME["city"][:1]).load()[1].tolist() == [0, 2, 0, 1]
    assert ArrayDataset(area, FRAME["kind"], area, FRAME["kind"]).classes == ["b", "a", "z"]
    assert ArrayDataset(X, pandas.RangeIndex(6), X, np.arange(6)).load()[1].tolist() == list(range(6))


def frames(x=FRAME, y=FRAME["area"], test_x=FRAME, test_y=FRAME["area"]):
    return ArrayDataset(x, y, test_x, test_y)


def column(*cells):
    return ArrayDataset(pandas.DataFrame({"a": pandas.Series(cells, dtype=object)}), Y[: len(cells)])


def fit_texts(x=FRAME, **more):
    model = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1)])
    model.setup(nn.loss.MSELoss())
    model.fit(x, FRAME["area"], **more)


ARRAYS = [
    ((X, Y[:5], X, Y), "ValueError: .*'y' must have the length of 'x', 6, got 5"),
    ((X, Y, X, Y[:5]), "ValueError: .*'test_y' must have the length of 'test_x', 6, got 5"),
    ((X, Y, X[:, :2], Y), r"ValueError: .*'test_x' must have the sample shape of 'x', \(3,\), got \(2,\)"),
    ((X, Y, X, X), r"ValueError: .*'test_y' must have the label shape of 'y', \(\), got \(3,\)"),
    ((X[:0], Y[:0], X, Y), r"ValueError: .*'x' must hold at least one sample, got shape \(0, 3\)"),
    ((X, Y, X[:0], Y[:0]), "ValueError: .*'test_x' must hold at least one sample"),
    ((X, 3, X, Y), r"ValueError: .*'y' must hold at least one sample, got shape \(\)"),
    ((X, None, X, Y), "TypeError: .*'y' must hold booleans, integers or floats of at most 64 bits, got dtype object"),
    ((X, ["a"] * 6, X, Y), "ValueError: .*'y': row 0, column 'y' must be a number, as other cells of .* are, got str 'a'"),
    (([["a"]] * 6, Y, X, Y), "TypeError: .*'x' must hold .* got dtype <U1"),
    ((X.astype(complex), Y, X, Y), "TypeError: .*'x' must hold .* got dtype complex128"),
    ((X.astype(np.longdouble), Y, X, Y), "TypeError: .*'x' must hold .* got dtype"),
    (([[1], [1, 2]], Y, X, Y), "ValueError: .*'x' must be a rectangular array"),
    ((np.ma.masked_array(X, mask=True), Y, X, Y), "ValueError: ArrayDataset 'x' must not be masked, got"),
]
FRAMES = [
    (lambda: frames(FRAME.assign(area=[1.0, None, 3, 4])), "'x' must hold finite .*: row 1, column 'area' is missing; fillna"),
    (lambda: frames(FRAME.assign(city=["a", "b", "c", None])), "ValueError: .*row 3, column 'city' is missing"),
    (lambda: frames(FRAME.assign(area=[1.0, 2, np.inf, 4])), "row 2, column 'area' (is inf|must be a .* got 'inf')"),
    (lambda: frames(FRAME.assign(area=[1j] * 4)),
     "TypeError: .*column 'area' must hold numbers, texts, categories or dates, got dtype complex128"),
    (lambda: frames(test_x=FRAME.rename(columns={"area": "aera"})),
     r"ValueError: .*columns of 'x', got \['aera'\] beyond these and no \['area'\]"),
    (lambda: frames(test_x=np.ones((4, 5))), "TypeError: .*'test_x' must be of pandas as 'x' is, or none of them, got ndarray"),
    (lambda: ArrayDataset(FRAME, FRAME[["city", "kind"]]), "'y' must be one column where it holds texts, got 2"),
    (lambda: ArrayDataset(FRAME, "area"),
     r"TypeError: .*'y' must hold the labels of the samples, such as x.drop\(columns='name'\) and x\['name'\] .*, got 'area'"),
    (lambda: ArrayDataset(X, "area"), "TypeError: .*'y' must hold the labels of the samples, got 'area'"),
    (lambda: ArrayDataset(FRAME, FRAME["area"], FRAME), "ValueError: .*'test_x' and 'test_y' must be given together"),
    (lambda: ArrayDataset(X, pandas.MultiIndex.from_tuples([("a", 1)] * 6)),
     "TypeError: .*'y' must hold booleans, integers or floats of at most 64 bits, got dtype object"),
    (lambda: column(1, 2, "x", 4), "'x': row 2, column 'a' must be a number, as other cells of the column are, got str 'x'"),
    (lambda: column("a", 1.5, "b", None), "'x': row 1, column 'a' must be a text, as other .*, got float '1.5'"),
    (lambda: column([1], [2], [3], [4]), r"'x': row 0, column 'a' must be a number, a text or a date, got list '\[1\]'"),
    (lambda: column(1, 2, 3, (4, 5)), r"'x': row 3, column 'a' must be a number, .* got tuple '\(4, 5\)'"),
    (lambda: column("a", "b", b"c", "d"), "ValueError: .*'x': row 2, column 'a' must be a text, .* got bytes"),
    (lambda: frames(*[pandas.DataFrame({"a": [1, 2]}), Y[:2], pandas.DataFrame({"a": ["4", 5]}, dtype=object), Y[:2]]),
     r"ValueError: ArrayDataset 'test_x': row 0, column 'a' must be a number, .* got str '4'"),
    (lambda: ArrayDataset(pandas.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"]), Y[:4]),
     r"ValueError: .*different column names, got more than once: \['a'\]"),
    (fit_texts, r"ValueError: .*'x' must hold numbers, got the columns 'city', .*; nn\.dataset.ArrayDataset makes "),
    (lambda: fit_texts(validation_split=0.5), r"ValueError: .*'x' must hold numbers, got the columns 'city', "),
    (lambda: fit_texts(FRAME[["city"]].to_numpy()), r"ValueError: .*'x' must hold numbers, got texts; nn\.dataset"),
    (lambda: nn.dataset.CSVDataset(FRAME, "area"), r"TypeError: CSVDataset 'path' .*, got DataFrame; ArrayDataset\(frame"),
    *((lambda rows=rows: ArrayDataset(FRAME, FRAME["area"]).encode(rows), text) for rows, text in [
        (FRAME.replace("Genf", "Geneva"), "'rows': row 1, column 'city' must be one of Bern, Chur, Genf, got 'Geneva'"),
        (FRAME.rename(columns={"area": "aera"}), r"encode\(\) 'rows' must have a column 'area', got .*; did you mean 'aera'"),
        (FRAME.assign(city=["Bern", "Chur", None, "Genf"]), "ValueError: .*row 2, column 'city' is missing"),
        (np.ones((2, 9)), "TypeError: .*'rows' must be a DataFrame with the columns of x, got ndarray"),
    ]),
    (lambda: ArrayDataset(X, Y).encode(FRAME), r"TypeError: .*encode\(\) is for samples given as a DataFrame"),
]  # fmt: skip
CELLS = [
    ("", "must begin with a line of different column names, got no line at all"),
    ("\n\n", "got no line at all"),
    ("a,b,a,kind,b,a\n", r"must begin with a line of different column names, got 'a' 3 times, 'b' 2 times$"),
    ("a,kind\n", "must have rows below its header"),
    ("kind\n1\n", "must have columns besides kind"),
    ("a,b\n1,2\n", r"'label' must name columns of '.*table.csv' \(a, b\), got 'kind'"),
    ("a;kind\n1,5;0\n", r"line 2 must have 1 cell as the header has, got 2; is delimiter=';' meant\?"),
    ("a,kind\n1,0\n1\n", "line 3 must have 2 cells as the header has, got 1"),
    ("a,kind\n1,0\n\n1,2,3\n", "line 4 must have 2 cells as the header has, got 3"),
    ("a,kind\n1,0\n\n\n1,2,3\n4,5\n", "line 5 must have 2 cells as the header has, got 3"),
    ("a,kind\n1,2,3\n4,5,6\n", "line 2 must have 2 cells as the header has, got 3"),
    ('a,kind\n"1\n",0\nx,0\n', "line 4, column 'a' must be a finite number, got 'x'"),
    ("a,kind\n1,0\nx1,0\n", "line 3, column 'a' must be a finite number, got 'x1'"),
    ('a,kind\n1,0\n1,"0"x\n', "line 3, column 'kind' must be a finite number, got '0x'"),
    ("a,kind\n1,0\n1,cat\n", "line 3, column 'kind' must be a finite number, got 'cat'"),
    ("a,kind\n1,cat\n2,\n", "line 3, column 'kind' is missing, got ''"),
    ("a,kind\n1,0\n,0\n", "line 3, column 'a' is missing, got ''"),
    ("a,kind\n1,0\nNaN,0\n", "line 3, column 'a' is missing, got 'NaN'"),
    ("a,kind\ninf,0\n", "line 2, column 'a' must be a finite number, got 'inf'"),
    ("a,kind\n1e999,0\n", "line 2, column 'a' must be a finite number, got '1e999'"),
    ("a,kind\n1_0,0\n", "line 2, column 'a' must be a finite number, got '1_0'"),
    ("a,kind\n1e99,0\n2,1\n", r"column 'a' of '.*' must fit float32, its largest value is 1e\+99"),
    ('a,kind\n"1,0\n2,1\n', "line 3 must have 2 cells as the header has, got 1"),
    (b"a,kind\n\xff,0\n", "is no CSV file in utf-8: .*can't decode byte 0xff.*; 'encoding' may name another, such as latin-1"),
    ("a,kind\n1" + "x" * 200_000 + ",0\n", "must be a finite number, got|field larger than field limit|at least 2 samples"),
    ("a,kind\n1,0\n", "must hold at least 2 samples to set some aside, got 1"),
    ("a,kind\n" + "".join(f"name {number},{number % 2}\n" for number in range(1001)),
     "column 'a' must have at most 1000 different texts, got 1001"),
    (TABLE.replace(",", ";"), r"got 'kind'; is delimiter=';' meant\?"),
]  # fmt: skip
ARGUMENTS = [
    ({"label": []}, r"ValueError: .*'label' must be a list of different column names, got \[\]"),
    ({"label": 3}, "TypeError: .*'label' must be a list of column names, got 3"),
    ({"label": "kin"}, r"got 'kin'; did you mean 'kind'\?"),
    ({"features": "a"}, "TypeError: .*'features' must be a list of column names, got 'a'"),
    ({"features": ["a", "a"]}, r"ValueError: .*'features' must be a list of different column names, got \['a', 'a'\]"),
    ({"features": ["a", 1]}, "TypeError: .*'features' must be a list of column names"),
    ({"features": ["a", "z"]}, r"ValueError: .*'features' must name columns of '.*' \(a, b, kind\), got 'z'"),
    ({"features": ["a", "kind"]}, "ValueError: .*'features' must not hold what is to be predicted, got 'kind'"),
    ({"label_kind": "int"}, "ValueError: .*'label_kind' must be one of auto, class, number, got 'int'"),
    ({"label": ["kind"], "label_kind": "class"}, r"ValueError: .*'label' must be one column .*, got \['kind'\]"),
    ({"label": "b", "label_kind": "class"}, "column 'b' must hold whole numbers for label_kind='class', got 9.5"),
    ({"missing": "zero"}, "ValueError: .*'missing' must be one of error, drop, nan, fill, got 'zero'"),
    ({"missing": "dorp"}, r"'missing' must be one of .*, got 'dorp'; did you mean 'drop'\?"),
    ({"delimiter": ",,"}, "ValueError: .*'delimiter' must be one character, no quote and no line end, got ',,'"),
    ({"delimiter": '"'}, "ValueError: .*'delimiter' must be one character"),
    ({"test_fraction": 1.0}, "ValueError: .*'test_fraction' must be a number > 0 and < 1, got 1.0"),
    ({"seed": 0.5}, "TypeError: .*'seed' must be an integer of at least 0, got 0.5"),
    ({"encoding": "latin-x"}, "ValueError: .*'encoding' must be the name of one, such as utf-8, got 'latin-x'"),
    ({"test_path": "nowhere.csv"}, "FileNotFoundError: .*CSVDataset finds no file 'nowhere.csv'"),
]
DAYS = "day,kind\n02.01.1970,0\n01.02.1970,1\n"
BLANKS = "d,a,kind\n2020-01-01,1,0\n\n2020-01-02,,1\n2020-13-40,3,1\n2020-01-04,4,0\n"
BY_POLICY = [
    *((lambda missing=missing: load("a,kind\n-inf,0\n", missing=missing), "line 2, column 'a' must be a finite .*, got '-inf'")
      for missing in ("drop", "nan")),
    *((lambda missing=missing: load("a,kind\n1,0\nx,0\n", missing=missing), "line 3, column 'a' must be a finite .*, got 'x'")
      for missing in ("drop", "nan")),
    (lambda: load("a,kind\n1,\n2,1\n", missing="nan"), "line 2, column 'kind' is missing, got ''"),
    (lambda: load(SPECIES, "species", missing="drop", label_kind="number"),
     "line 2, column 'species' must be a finite number, got 'virginica'"),
    (lambda: load(DAYS, dates={"day": "%Y-%m-%d"}), "line 2, column 'day' must be a date %Y-%m-%d, got '02.01.1970'"),
    (lambda: load(BLANKS, missing="drop"), "table.csv' line 5, column 'd' must be a date ISO8601, got '2020-13-40'"),
    (lambda: table(TABLE).encode([[5]]), r"TypeError: .*encode\(\) 'rows' must be a DataFrame with the columns of x, got list"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("use", "text"),
    [
        *((lambda given=given: ArrayDataset(*given), text.replace(".*", "ArrayDataset ", 1)) for given, text in ARRAYS),
        *FRAMES,
        *((lambda given=given: load(given), f"ValueError: .*{text}") for given, text in CELLS),
        *((lambda given=given: load(TABLE, **given), text) for given, text in ARGUMENTS),
        *BY_POLICY,
    ],
)
def test_what_cannot_be_taken_is_named(use, text):
    with pytest.raises((TypeError, ValueError, FileNotFoundError)) as caught:
        use()
    assert any(re.search(text, f"{kind.__name__}: {caught.value}") for kind in caught.type.__mro__)


def test_other_rows_are_encoded_alike():
    data, rows = ArrayDataset(FRAME, FRAME["area"], test_fraction=0.5, seed=1), FRAME.iloc[::-1]
    both = ArrayDataset(FRAME, FRAME["area"], rows, rows["area"])
    assert np.array_equal(data.encode(FRAME), both.load()[0])
    assert np.array_equal(data.encode(rows[list(rows.columns[::-1])]), both.load()[2])
    assert data.encode(FRAME).dtype == np.float32
    numbers = ArrayDataset(FRAME[["area"]], FRAME["area"])
    assert numbers.encode(pandas.DataFrame({"more": [0], "area": [1.5]})).tolist() == [[1.5]]
    series = ArrayDataset(FRAME["area"].astype("f4"), FRAME["area"])
    assert series.encode(FRAME["area"] + 0.5).tolist() == [50.5, 60.5, 70.5, 80.5]
    assert series.encode(FRAME).dtype == np.float32
    data, rows = table(HOUSES, "price", WANTED, missing="fill"), pandas.read_csv("table.csv", index_col="id")
    assert np.array_equal(np.sort(data.encode(rows), axis=0), np.sort(np.concatenate(data.load()[::2]), axis=0))
    with pytest.raises(ValueError, match="row 1, column 'city' must be one of Basel, Bern, Genf, got 'Geneva'"):
        data.encode(rows.replace("Genf", "Geneva"))
    with pytest.raises(ValueError, match=r"encode\(\) 'rows' must have a column 'zip', got "):
        data.encode(rows.drop(columns="zip"))
    with pytest.raises(ValueError, match="row 2, column 'area' is missing"):
        table(HOUSES, "price", ["area", "garden"], missing="drop").encode(rows)
    named_by_numbers = table("0,1,kind\n1,2,0\n3,4,1\n")
    assert named_by_numbers.encode(pandas.DataFrame([[5, 6]])).tolist() == [[5, 6]]


def test_features_and_labels_of_a_csv_file():
    parts = load(TABLE)
    assert [array.shape for array in parts] == [(8, 2), (8,), (2, 2), (2,)]
    assert [array.dtype for array in parts] == [np.float32, np.int64] * 2
    x, y = joined(parts)
    assert x.tolist() == [[row, row * row + 0.5] for row in range(3, 13)]
    assert y.tolist() == [row % 3 for row in range(3, 13)]
    assert table(TABLE).classes is None
    x, y = joined(load("id,a,kind,b\nx,1,0,2\ny,3,1,4\n", features=["b", "a"], test_fraction=0.5))
    assert (x.tolist(), y.tolist()) == ([[2, 1], [4, 3]], [0, 1])
    number, whole = np.float32, np.int64
    for label, kind, dtype, shape, features in (
        ("b", "auto", number, (8,), 2),
        (["kind"], "auto", number, (8, 1), 2),
        (["kind", "b"], "auto", number, (8, 2), 1),
        ("kind", "number", number, (8,), 2),
        ("kind", "class", whole, (8,), 2),
        (["kind"], "number", number, (8, 1), 2),
    ):
        x, y, _, _ = load(TABLE, label, label_kind=kind)
        assert (y.dtype, y.shape, x.shape) == (dtype, shape, (8, features))


def test_texts_become_class_numbers_in_sorted_order():
    data = table(SPECIES, "species", missing="drop", test_fraction=0.25)
    parts = data.load()
    assert [array.dtype for array in parts[1::2]] == [np.int64] * 2
    assert joined(parts)[1].tolist() == [1, 0, 1, 0]
    assert data.classes == ["setosa", "virginica"]
    Path("test.csv").write_text("species,a\nsetosa,8\naltaica,9\n")
    both = table(SPECIES, "species", missing="drop", test_path="test.csv", label_kind="class")
    assert [labels.tolist() for labels in both.load()[1::2]] == [[2, 1, 2, 1], [1, 0]]
    assert both.classes == ["altaica", "setosa", "virginica"]


def test_spellings_of_a_table():
    """A byte order mark, CRLF, quotes, blanks, empty lines, another delimiter, no line end at the end; other encodings."""
    tabs = "a\tb\tkind\n1\t2\t0\n-3.5\t4\t1"
    assert np.array_equal(joined(load(tabs, delimiter="\t"))[0], joined(load(tabs, delimiter=r"\t"))[0]), "as a shell gives it"
    x, y = joined(load('\ufeff"a"; b ;kind\r\n\r\n" 1";2e0;0\r\n-3.5;+4;1', delimiter=";", test_fraction=0.5))
    assert (x.tolist(), y.tolist()) == ([[-3.5, 4], [1, 2]], [1, 0])
    assert joined(load("a,kind\n1,Zürich\n2,Bern\n".encode("latin-1"), encoding="latin-1"))[1].tolist() == [1, 0]
    assert joined(load(DAYS, dates={"day": "%d.%m.%Y"}))[0].tolist() == [[1], [31]]
    Path("test.csv").write_text("kind,b,a\n0.5,7,8\n")
    train_x, train_y, test_x, test_y = load(TABLE, test_path="test.csv")
    assert (len(train_x), test_x.tolist(), test_y.tolist()) == (10, [[8, 7]], [0.5])
    assert train_y.dtype == test_y.dtype == np.float32


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_files(suffix, pack):
    path = Path(f"table.csv.{suffix}")
    for content, text in (
        (pack(TABLE.encode()), None),
        (pack(b"a,kind\n1,0\n\n2\n"), "line 4 must have 2 cells"),
        (pack(TABLE.encode())[:-20], "is no CSV file"),
    ):
        path.write_bytes(content)
        if text is None:
            assert all(map(np.array_equal, CSVDataset(path, "kind").load(), load(TABLE)))
        else:
            with pytest.raises(ValueError, match=text):
                CSVDataset(path, "kind").load()


def test_missing_cells():
    assert joined(load(HOLES, missing="drop"))[0].tolist() == [[1, 2], [5, 6]]
    kept = joined(load(HOLES, missing="nan"))[0]
    assert kept.shape == (5, 2)
    assert np.isnan(kept).sum() == 3
    assert len(joined(load("a,kind\n7,\n2,1\n3,0\n", missing="drop"))[0]) == 2
    Path("test.csv").write_text(HOUSES.splitlines()[0] + "\n9,1000,Chur,,true,7000,1\n8,,Bern,1970-01-01,,3000,2\n")
    data = table(HOUSES, "price", ["area", "city"], "test.csv", missing="fill")
    train_x, _, test_x, _ = data.load()
    assert data.columns == ["area", "city=Basel", "city=Bern", "city=Chur", "city=Genf"]  # those of both files
    assert train_x[2].tolist() == [70, 0, 1, 0, 0]  # the median of 50, 60, 80, 90
    assert train_x[4].tolist() == [90, 0, 0, 0, 0]
    assert test_x.tolist() == [[1000, 0, 0, 1, 0], [70, 0, 1, 0, 0]]


def test_texts_dates_and_truth_values_become_numbers():
    data = table(HOUSES, "price", WANTED, missing="nan", categories=["zip"], test_fraction=0.2)
    assert " ".join(data.columns) == "area city=Basel city=Bern city=Genf built garden zip=1200 zip=3000 zip=4000"
    x, y = joined(data.load())
    assert y.dtype == np.float32
    assert x[0].tolist() == [50, 0, 1, 0, 11443, 1, 0, 1, 0]
    assert x[1].tolist() == [60, 0, 0, 1, 1, 0, 1, 0, 0]
    assert x[2].tolist() == [80, 1, 0, 0, 10956.5, 0, 0, 0, 1]
    assert np.isnan(x[3]).tolist() == [False, True, True, True] + 5 * [False]
    assert np.isnan(x[4]).tolist() == [True, False, False, False, True, False, False, False, False]


@settings(max_examples=80, deadline=None, database=None)
@given(content=st.one_of(st.binary(max_size=80), st.text("a1,.\n\"'-en \r", max_size=80).map(str.encode)))
def test_no_content_escapes(content, tmp_path_factory):
    """Whatever follows the header, the answer is finite numbers or a ValueError that names the file."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"a,b\n" + content)
    try:
        arrays = CSVDataset(path, "b", test_path=path).load()
    except ValueError as error:
        assert "any.csv" in str(error) or "row" in str(error)
    else:
        assert all(np.isfinite(array).all() for array in arrays)


@pytest.mark.parametrize(
    "text",
    ["a,kind\n1,0\nx,0\n2,0\n", "a,kind\n" + "".join(f"x{row},0\n" for row in range(1001))],
    ids=["cell", "column"],
)
def test_a_refusal_is_told_once(text: str) -> None:
    """The frames above a sentence are those of one error, not of what it was made of."""
    frame = pandas.read_csv(io.StringIO(text))
    for make in (lambda: load(text), lambda: ArrayDataset(frame[["a"]], frame["kind"])):
        with pytest.raises(ValueError, match="column 'a'") as caught:
            make()
        assert caught.value.__suppress_context__
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(("index", "level"), [("auto", "WARNING"), ("id", "INFO")])
def test_an_index_that_was_named_is_no_warning(caplog: pytest.LogCaptureFixture, index: str, level: str) -> None:
    caplog.set_level("INFO")
    assert table(HOUSES, "price", missing="fill", categories=["zip"], index=index).plan.columns[0].note
    told = [record for record in caplog.records if "'id' is left out" in record.getMessage()]
    assert [record.levelname for record in told] == [level]
