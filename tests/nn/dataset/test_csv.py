"""Tables in CSV files: what becomes of columns and rows, and how what is wrong is named."""

import bz2
import gzip
import lzma

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import CSVDataset

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
    with pytest.raises(ValueError, match="line 3, column 'kind' must be a finite number, got '0x'"):
        load('a,kind\n1,0\n1,"0"x\n')
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
        ("a,b,a,kind,b,a\n", r"must begin with a line of different column names, got 'a' 3 times, 'b' 2 times$"),
        ("a,kind\n", "must have rows below its header"),
        ("kind\n1\n", "must have columns besides kind"),
        ("a,b\n1,2\n", r"'label' must name columns of '.*table.csv' \(a, b\), got 'kind'"),
        ("a,kind\n1,0\n1\n", "line 3 must have 2 cells as the header has, got 1"),
        ("a,kind\n1,0\n\n1,2,3\n", "line 4 must have 2 cells as the header has, got 3"),
        ("a,kind\n1,0\n\n\n1,2,3\n4,5\n", "line 5 must have 2 cells as the header has, got 3"),
        ("a,kind\n1,2,3\n4,5,6\n", "line 2 must have 2 cells as the header has, got 3"),
        ('a,kind\n"1\n",0\nx,0\n', "line 4, column 'a' must be a finite number, got 'x'"),
        ("a,kind\n1,0\nx1,0\n", "line 3, column 'a' must be a finite number, got 'x1'"),
        ("a,kind\n1,0\n1,cat\n", "line 3, column 'kind' must be a finite number, got 'cat'"),
        ("a,kind\n1,cat\n2,\n", "line 3, column 'kind' is missing, got ''"),
        ("a,kind\n1,0\n,0\n", "line 3, column 'a' is missing, got ''"),
        ("a,kind\n1,0\nNaN,0\n", "line 3, column 'a' is missing, got 'NaN'"),
        ("a,kind\ninf,0\n", "line 2, column 'a' must be a finite number, got 'inf'"),
        ("a,kind\n1e999,0\n", "line 2, column 'a' must be a finite number, got '1e999'"),
        ("a,kind\n1_0,0\n", "line 2, column 'a' must be a finite number, got '1_0'"),
        ("a,kind\n1e99,0\n2,1\n", r"column 'a' of '.*' must fit float32, its largest value is 1e\+99"),
        ('a,kind\n"1,0\n2,1\n', "line 3 must have 2 cells as the header has, got 1"),
        (b"a,kind\n\xff,0\n", "is no CSV file in utf-8: .*can't decode byte 0xff"),
        ("a,kind\n1" + "x" * 200_000 + ",0\n", "must be a finite number, got|field larger than field limit|at least 2 samples"),
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
        with pytest.raises(ValueError, match="line 3, column 'a' must be a finite number, got 'x'"):
            load("a,kind\n1,0\nx,0\n", missing=missing)


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
        ({"missing": "zero"}, ValueError, "'missing' must be one of error, drop, nan, fill, got 'zero'"),
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


HOUSES = """id,area,city,built,garden,zip,price
1,50,Bern,2001-05-01,true,3000,500.5
2,60,Genf,1970-01-02,false,1200,610.5
3,,Bern,,true,3000,700.5
4,80, Basel ,1999-12-31T12:00,false,4000,810.5
5,90,,2010-01-01,true,3000,900.5
"""
WANTED = ["area", "city", "built", "garden", "zip"]


def test_texts_dates_and_truth_values_become_numbers(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text(HOUSES)
    data = CSVDataset(path, "price", WANTED, missing="nan", categories=["zip"], test_fraction=0.2)
    assert data.columns == [
        "area", "city=Basel", "city=Bern", "city=Genf", "built", "garden", "zip=1200", "zip=3000", "zip=4000",
    ]  # fmt: skip
    x, y = joined(data.load())
    assert y.dtype == np.float32
    assert x[0].tolist() == [50, 0, 1, 0, 11443, 1, 0, 1, 0]
    assert x[1].tolist() == [60, 0, 0, 1, 1, 0, 1, 0, 0]
    assert x[2].tolist() == [80, 1, 0, 0, 10956.5, 0, 0, 0, 1]
    assert np.isnan(x[3]).tolist() == [False, True, True, True] + 5 * [False]
    assert np.isnan(x[4]).tolist() == [True, False, False, False, True, False, False, False, False]


def test_missing_cells_are_filled_from_the_training_rows(tmp_path):
    (tmp_path / "train.csv").write_text(HOUSES)
    (tmp_path / "test.csv").write_text(HOUSES.splitlines()[0] + "\n9,1000,Chur,,true,7000,1\n8,,Bern,1970-01-01,,3000,2\n")
    data = CSVDataset(tmp_path / "train.csv", "price", ["area", "city"], tmp_path / "test.csv", missing="fill")
    train_x, _, test_x, _ = data.load()
    assert data.columns == ["area", "city=Basel", "city=Bern", "city=Chur", "city=Genf"]  # those of both files
    assert train_x[2].tolist() == [70, 0, 1, 0, 0]  # the median of 50, 60, 80, 90
    assert train_x[4].tolist() == [90, 0, 0, 0, 0]
    assert test_x.tolist() == [[1000, 0, 0, 1, 0], [70, 0, 1, 0, 0]]


def test_other_rows_are_encoded_alike(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text(HOUSES)
    rows = pandas.read_csv(path, index_col="id")
    data = CSVDataset(path, "price", WANTED, missing="fill")
    assert np.array_equal(np.sort(data.encode(rows), axis=0), np.sort(np.concatenate(data.load()[::2]), axis=0))
    with pytest.raises(ValueError, match="row 1, column 'city' must be one of Basel, Bern, Genf, got 'Geneva'"):
        data.encode(rows.replace("Genf", "Geneva"))
    with pytest.raises(ValueError, match=r"encode\(\) 'rows' must name columns .* got 'zip'"):
        data.encode(rows.drop(columns="zip"))
    strict = CSVDataset(path, "price", ["area", "garden"], missing="drop")
    with pytest.raises(ValueError, match="row 2, column 'area' is missing"):
        strict.encode(rows)


def test_dates_in_other_forms(load):
    text = "day,kind\n02.01.1970,0\n01.02.1970,1\n"
    assert joined(load(text, dates={"day": "%d.%m.%Y"}))[0].tolist() == [[1], [31]]
    with pytest.raises(ValueError, match=r"table.csv' line 2, column 'day' must be a date %Y-%m-%d, got '02.01.1970'"):
        load(text, dates={"day": "%Y-%m-%d"})


def test_a_date_that_is_none_is_named_with_its_line(load):
    """Blank lines count, and rows that are left out."""
    text = "d,a,kind\n2020-01-01,1,0\n\n2020-01-02,,1\n2020-13-40,3,1\n2020-01-04,4,0\n"
    with pytest.raises(ValueError, match=r"table.csv' line 5, column 'd' must be a date ISO8601, got '2020-13-40'"):
        load(text, missing="drop")


def test_other_rows_may_have_numbers_as_names(tmp_path):
    (tmp_path / "table.csv").write_text("0,1,kind\n1,2,0\n3,4,1\n")
    data = CSVDataset(tmp_path / "table.csv", "kind")
    assert data.encode(pandas.DataFrame([[5, 6]])).tolist() == [[5, 6]]
    with pytest.raises(TypeError, match=r"encode\(\) 'rows' must be a DataFrame with the columns of x, got list"):
        data.encode([[5, 6]])


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_files(suffix, pack, tmp_path):
    path = tmp_path / f"table.csv.{suffix}"
    path.write_bytes(pack(TABLE.encode()))
    (tmp_path / "plain.csv").write_text(TABLE)
    for one, other in zip(CSVDataset(path, "kind").load(), CSVDataset(tmp_path / "plain.csv", "kind").load(), strict=True):
        assert np.array_equal(one, other)
    path.write_bytes(pack(b"a,kind\n1,0\n\n2\n"))
    with pytest.raises(ValueError, match="line 4 must have 2 cells"):
        CSVDataset(path, "kind").load()
    path.write_bytes(pack(TABLE.encode())[:-20])
    with pytest.raises(ValueError, match="is no CSV file"):
        CSVDataset(path, "kind").load()


def test_encodings(load):
    text = "a,kind\n1,Zürich\n2,Bern\n".encode("latin-1")
    assert joined(load(text, encoding="latin-1"))[1].tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"is no CSV file in utf-8: .*; 'encoding' may name another, such as latin-1"):
        load(text)
    with pytest.raises(ValueError, match="'encoding' must be the name of one, such as utf-8, got 'latin-x'"):
        load(text, encoding="latin-x")


def test_names_of_things_are_no_categories(load):
    rows = "".join(f"name {number},{number % 2}\n" for number in range(1001))
    with pytest.raises(ValueError, match="column 'a' must have at most 1000 different texts, got 1001"):
        load("a,kind\n" + rows)


def test_what_was_probably_meant(load):
    with pytest.raises(ValueError, match=r"got 'kin'; did you mean 'kind'\?"):
        load(TABLE, "kin")
    with pytest.raises(ValueError, match=r"got 'kind'; is delimiter=';' meant\?"):
        load(TABLE.replace(",", ";"))
    with pytest.raises(ValueError, match=r"'missing' must be one of .*, got 'dorp'; did you mean 'drop'\?"):
        load(TABLE, missing="dorp")


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
