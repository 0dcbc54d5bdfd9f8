"""Tables in CSV files: what becomes of columns and rows, and how what is wrong is named."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import CSVDataset, csv_table
from nn.dataset.csv_table import read_columns

TABLE = "a,b,kind\n" + "".join(f"{row},{row * row}.5,{row % 3}\n" for row in range(10))


@pytest.fixture
def load(tmp_path):
    def loading(text, label="kind", **arguments):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return CSVDataset(path, label, **arguments).load(download=False)

    return loading


def joined(parts):
    """Return samples and labels of both parts in the order of column a."""
    x, y = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    order = x[:, 0].argsort(kind="stable")
    return x[order], y[order]


def test_features_and_class_numbers(load):
    parts = load(TABLE)
    assert [array.shape for array in parts] == [(8, 2), (8,), (2, 2), (2,)]
    assert [array.dtype for array in parts] == [np.float32, np.int64] * 2
    x, y = joined(parts)
    assert x.tolist() == [[row, row * row + 0.5] for row in range(10)]
    assert y.tolist() == [row % 3 for row in range(10)]


def test_columns_are_taken_by_name_and_others_may_hold_text(load):
    x, y = joined(load("id,a,kind,b\nx,1,0,2\ny,3,1,4\n", features=["b", "a"], test_fraction=0.5))
    assert x.tolist() == [[2, 1], [4, 3]]
    assert y.tolist() == [0, 1]


def test_labels_for_a_regression(load):
    assert load(TABLE, "b")[1].dtype == np.float32
    assert load(TABLE, "b")[1].shape == (8,)
    assert load(TABLE, ["kind"])[1].dtype == np.float32
    assert load(TABLE, ["kind", "b"])[1].shape == (8, 2)
    assert load(TABLE, ["kind", "b"])[0].shape == (8, 1)


def test_the_kind_of_labels_may_be_said(load):
    assert load(TABLE, label_kind="number")[1].dtype == np.float32
    assert load(TABLE, label_kind="class")[1].dtype == np.int64
    assert load(TABLE, ["kind"], label_kind="number")[1].dtype == np.float32


SPECIES = "a,species\n1,virginica\n2, setosa\n3,virginica\n,unseen\n5,setosa\n6,\n"


def test_texts_become_class_numbers_in_sorted_order(tmp_path):
    (tmp_path / "table.csv").write_text(SPECIES)
    data = CSVDataset(tmp_path / "table.csv", "species", missing="drop", test_fraction=0.25)
    parts = data.load()
    assert [array.dtype for array in parts[1::2]] == [np.int64] * 2
    assert joined(parts)[1].tolist() == [1, 0, 1, 0]
    assert data.classes == ["setosa", "virginica"]
    with pytest.raises(ValueError, match="line 2, column 'species' must be a finite number, got 'virginica'"):
        CSVDataset(tmp_path / "table.csv", "species", label_kind="number").load()
    (tmp_path / "test.csv").write_text("species,a\nsetosa,8\naltaica,9\n")
    both = CSVDataset(tmp_path / "table.csv", "species", missing="drop", test_path=tmp_path / "test.csv", label_kind="class")
    _, train_y, _, test_y = both.load()
    assert both.classes == ["altaica", "setosa", "virginica"]
    assert train_y.tolist() == [2, 1, 2, 1]
    assert test_y.tolist() == [1, 0]


def test_numbers_have_no_classes(tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    assert CSVDataset(tmp_path / "table.csv", "kind").classes is None


def test_spellings_of_a_table(load):
    """A byte order mark, CRLF, quotes, blanks, empty lines, another delimiter, no line end at the end."""
    text = '\ufeff"a"; "b" ;kind\r\n\r\n" 1";2e0;0\r\n-3.5;+4;1'
    with pytest.raises(ValueError, match="is no CSV file"):
        load('a,kind\n1,"0"x\n')
    x, y = joined(load(text.replace(' "b" ', " b "), delimiter=";", test_fraction=0.5))
    assert x.tolist() == [[-3.5, 4], [1, 2]]
    assert y.tolist() == [1, 0]


def test_a_test_file_with_columns_in_another_order(load, tmp_path):
    (tmp_path / "test.csv").write_text("kind,b,a\n0.5,7,8\n")
    train_x, train_y, test_x, test_y = load(TABLE, test_path=tmp_path / "test.csv")
    assert len(train_x) == 10
    assert test_x.tolist() == [[8, 7]]
    assert test_y.tolist() == [0.5]
    assert train_y.dtype == test_y.dtype == np.float32


HOLES = "a,b,kind\n1,2,0\n,3,1\n4,NA,1\n5,6,0\n7,nan,0\n"


def test_missing_cells(load):
    assert joined(load(HOLES, missing="drop"))[0].tolist() == [[1, 2], [5, 6]]
    kept = joined(load(HOLES, missing="nan"))[0]
    assert kept.shape == (5, 2)
    assert np.isnan(kept).sum() == 3
    assert len(joined(load("a,kind\n1,\n2,1\n3,0\n", missing="drop"))[0]) == 2
    with pytest.raises(ValueError, match="line 2, column 'kind' is missing, got ''"):
        load("a,kind\n1,\n2,1\n", missing="nan")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"must begin with a line of different column names, got no line at all"),
        ("\n\n", r"got no line at all"),
        ("a,b,a,kind\n", r"must begin with a line of different column names, got \['a'\]"),
        ("a,kind\n", "must have rows of numbers below its header"),
        ("kind\n1\n", "must have columns besides kind"),
        ("a,b\n1,2\n", r"'label' must name columns of '.*table.csv' \(a, b\), got 'kind'"),
        ("a,kind\n1,0\n1\n", "line 3 must have 2 cells as the header has, got 1"),
        ("a,kind\n1,0\n\n1,2,3\n", "line 4 must have 2 cells as the header has, got 3"),
        ("a,kind\n1,0\nx1,0\n", "line 3, column 'a' must be a finite number, got 'x1'"),
        ("a,kind\n1,0\n1,cat\n", "line 3, column 'kind' must be a finite number, got 'cat'"),
        ("a,kind\n1,cat\n2,\n", "line 3, column 'kind' is missing, got ''"),
        ("a,kind\n1,0\n,0\n", "line 3, column 'a' is missing, got ''"),
        ("a,kind\n1,0\nNaN,0\n", "line 3, column 'a' is missing, got 'NaN'"),
        ("a,kind\ninf,0\n", "line 2, column 'a' must be a finite number, got 'inf'"),
        ("a,kind\n1e999,0\n", "line 2, column 'a' must be a finite number, got '1e999'"),
        ("a,kind\n1_0,0\n", "line 2, column 'a' must be a finite number, got '1_0'"),
        ("a,kind\n1e99,0\n2,1\n", r"column 'a' of '.*' must fit float32, its largest value is 1e\+99"),
        ('a,kind\n"1,0\n2,1\n', "is no CSV file in UTF-8, near line .*: unexpected end of data"),
        (b"a,kind\n\xff,0\n", "is no CSV file in UTF-8, near line .*can't decode byte 0xff"),
        (b"a,kind\n1\x00,0\n", "(line 2, column 'a' must be a finite number|line contains NUL)"),
        ("a,kind\n1" + "x" * 200_000 + ",0\n", "is no CSV file in UTF-8, near line 2: field larger than field limit"),
        ("a,kind\n1,0\n", "must hold at least 2 samples to set some aside, got 1"),
    ],
)
def test_what_is_wrong_is_named(text, complaint, load):
    with pytest.raises(ValueError, match=complaint):
        load(text)


def test_only_rows_that_are_used_must_be_numbers_under_each_policy(load):
    for missing in ("drop", "nan"):
        with pytest.raises(ValueError, match="line 2, column 'a' must be a finite number, got '-inf'"):
            load("a,kind\n-inf,0\n", missing=missing)
        with pytest.raises(ValueError, match="line 2, column 'a' must be a finite number, got 'x'"):
            load("a,kind\nx,0\n", missing=missing)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"label": []}, ValueError, r"'label' must be a list of different column names, got \[\]"),
        ({"label": 3}, TypeError, "'label' must be a list of column names, got 3"),
        ({"features": "a"}, TypeError, "'features' must be a list of column names, got 'a'"),
        ({"features": ["a", "a"]}, ValueError, r"'features' must be a list of different column names, got \['a', 'a'\]"),
        ({"features": ["a", 1]}, TypeError, "'features' must be a list of column names"),
        ({"features": ["a", "z"]}, ValueError, r"'features' must name columns of '.*' \(a, b, kind\), got 'z'"),
        ({"features": ["a", "kind"]}, ValueError, "'features' must not hold what is to be predicted, got 'kind'"),
        ({"label_kind": "int"}, ValueError, "'label_kind' must be one of auto, class, number, got 'int'"),
        ({"label": ["kind"], "label_kind": "class"}, ValueError, r"'label' must be one column .*, got \['kind'\]"),
        (
            {"label": "b", "label_kind": "class"},
            ValueError,
            "column 'b' must hold whole numbers for label_kind='class', got 0.5",
        ),
        ({"missing": "zero"}, ValueError, "'missing' must be one of error, drop, nan, got 'zero'"),
        ({"delimiter": ",,"}, ValueError, "'delimiter' must be one character, no quote and no line end, got ',,'"),
        ({"delimiter": '"'}, ValueError, "'delimiter' must be one character"),
        ({"test_fraction": 1.0}, ValueError, "'test_fraction' must be a number > 0 and < 1, got 1.0"),
        ({"seed": 0.5}, TypeError, "'seed' must be an integer of at least 0, got 0.5"),
        ({"test_path": "nowhere.csv"}, FileNotFoundError, "CSVDataset finds no file 'nowhere.csv'"),
    ],
)
def test_arguments_that_are_not_as_said(arguments, error, text, load):
    with pytest.raises(error, match=text):
        load(TABLE, **arguments)


def test_a_file_without_line_ends_is_not_read_as_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "_MAX_LINE", 1 << 16)
    (tmp_path / "a.csv").write_bytes(b"a,kind\n" + b"1," * (8 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="near line 1: a line must have fewer than 65536 characters"):
        read_columns(tmp_path / "a.csv", ["a"], [], ",", "error")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@settings(max_examples=80, deadline=None, database=None)
@given(content=st.one_of(st.binary(max_size=80), st.text("a1,.\n\"'-en \r", max_size=80).map(str.encode)))
def test_no_content_escapes(content, tmp_path_factory):
    """Whatever follows the header, the answer is finite numbers or a ValueError that names the file."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"a,b\n" + content)
    try:
        table = read_columns(path, ["b"], [], ",", "error")
    except ValueError as error:
        assert "any.csv" in str(error)
    else:
        assert np.isfinite(table).all()
